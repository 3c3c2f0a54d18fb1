"""A function built for GPUs, ready to be launched."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from croq_magic.compiler.source import Source
from croq_magic.compiler.targets.cuda import build, faults, system, timing
from croq_magic.compiler.targets.cuda.arrays import device_id
from croq_magic.compiler.targets.cuda.device import CudaDevice
from croq_magic.compiler.targets.cuda.direct import Direct, direct
from croq_magic.compiler.targets.simt.host import HostProgram
from croq_magic.errors import TargetError

if TYPE_CHECKING:
    from croq_magic.compiler import ir
    from croq_magic.compiler.targets.simt.emission import SimtEmission


class Kernels(NamedTuple):
    """The kernels of one function as plain values: key of the machine code's cache entry, text, architecture, whether
    for conformance, names of all, and of those whose blocks meet."""

    key: str
    text: str
    arch: str
    conformance: bool
    symbols: tuple[str, ...]
    cooperative: tuple[str, ...]


Record = tuple[Kernels, Any]  # the kernels, record of the host part


class Launcher:
    """Calls one function, on the device where its arrays are."""

    def __init__(self, host: HostProgram, kernels: Kernels, cubin: bytes | None) -> None:
        self._host = host
        self._kernels = kernels
        self._codes = {kernels.arch: cubin}
        self._devices: dict[int, CudaDevice] = {}
        self._lock = threading.Lock()
        self._prints = "printf(" in kernels.text
        self._direct: Direct | None = direct(host.text, frozenset(kernels.cooperative))

    @property
    def fills_result(self) -> bool:
        """Every element of the result is stored, so its array may hold anything before the call."""
        return self._host.fills_result

    @property
    def prints(self) -> bool:
        """Whether a run shows something: it must not be repeated unasked."""
        return self._prints or "call.print(" in self._host.text.text

    def __call__(self, values: Sequence[Any], dims: Mapping[str, int], result: Any = None) -> Any:
        """Runs the function; see `HostProgram.run`. Arrays may be of NumPy or CuPy; with CuPy's alone the work may go
        on when the call returns. TargetError without a device, and for what CUDA reports."""
        cupy = system.cupy()
        faults.require_context()
        number = next((int(v.data.device_id) for v in values if isinstance(v, cupy.ndarray)), None)
        current = int(cupy.cuda.Device().id)
        here = contextlib.nullcontext() if number in (None, current) else cupy.cuda.Device(number)
        with here:
            device = self._device(cupy, current if number is None else number)
            faults.launched(self._kernels.symbols)
            try:
                return self._host.run(device, values, dims, result)
            except Exception as error:
                explained = faults.explain(error, device=faults.device_text(cupy, device.number))
                if explained is None:
                    raise
                raise explained from None

    def prepared(self, dims: Mapping[str, int], places: str = "") -> Callable[..., Any]:
        """The same as the launcher itself for arrays at these places; those of one device go to its kernels at once."""
        form = self._direct
        if form is None or not places.startswith("d") or places.endswith("+") or self._prints:
            return self
        cupy = system.cupy()
        device = self._device(cupy, int(places[1:]))
        with cupy.cuda.Device(device.number):
            run = form.make(device.ready(form.shared), cupy.cuda.alloc)
        symbols, number = self._kernels.symbols, device.number
        current = device_id(cupy)

        def launch(values: Sequence[Any], dims: Mapping[str, int], result: Any = None) -> Any:
            if timing.timer() is not None or current() != number or faults.lost():
                return self(values, dims, result)
            faults.launched(symbols)
            try:
                return run(values, dims, result)
            except Exception as error:
                explained = faults.explain(error, ", ".join(symbols), faults.device_text(cupy, number))
                if explained is None:
                    raise
                raise explained from None

        return launch

    def _device(self, cupy: Any, number: int) -> CudaDevice:
        """The kernels on one device, loaded at their first use there."""
        found = self._devices.get(number)
        if found is None:
            with self._lock:
                found = self._devices.get(number)
                if found is None:
                    code = self._code(cupy, number) if self._kernels.symbols else None
                    with cupy.cuda.Device(number):
                        found = CudaDevice(cupy, number, code, frozenset(self._kernels.cooperative), self._prints)
                    self._devices[number] = found
        return found

    def _code(self, cupy: Any, number: int) -> bytes:
        """Machine code for a device: what was built, or the same text for a newer architecture. PTX for one that is
        newer than all that are known."""
        capability = system.capability_of(cupy, number)
        arch, kernels = self._kernels.arch, self._kernels
        if not system.runs_on(arch, capability):
            wanted = system.arch_of(capability)
            name = faults.device_text(cupy, number)
            if wanted is None or _number(wanted) < _number(arch):
                raise TargetError(
                    f"{self._host.name} was compiled for {arch}, and {name} is sm_{capability}; "
                    f"compile it {f'with -a {wanted}' if wanted else 'for the CPU'}"
                )
            arch = wanted if system.runs_on(wanted, capability) else f"compute_{_number(wanted)}"
        if self._codes.get(arch) is None:
            self._codes[arch] = build.cubin(kernels.text, arch, self._host.name, kernels.conformance).cubin
        code = self._codes[arch]
        assert code is not None
        return code


def _number(arch: str) -> int:
    return int("".join(filter(str.isdigit, arch)))


class CudaModule(NamedTuple):
    """One function of a built program. `cached` says that no compiler had to run, `key` names the cache entry, and
    `record` is what `restore` needs to load it again."""

    launch: Launcher
    cached: bool
    key: str
    record: Record


def load(emission: SimtEmission, function: ir.Function, arch: str, conformance: bool) -> CudaModule:
    """Builds (or finds in the cache) what was emitted. No device is needed. Raises `build.CompilationFailed`."""
    host = HostProgram(function, emission.kernels, emission.checks, emission.source, "cuda")
    symbols = tuple(kernel.symbol for kernel in emission.kernels)
    cooperative = tuple(kernel.symbol for kernel in emission.kernels if kernel.cooperative)
    if not symbols:
        kernels = Kernels("", "", arch, conformance, (), ())
        return CudaModule(Launcher(host, kernels, None), True, "", (kernels, host.record))
    built = build.cubin(emission.text, arch, function.name, conformance)
    kernels = Kernels(built.key, emission.text, arch, conformance, symbols, cooperative)
    return CudaModule(Launcher(host, kernels, built.cubin), built.cached, built.key, (kernels, host.record))


def restore(record: Record, source: Source) -> CudaModule | None:
    """A module loaded before, from its record; None if its cache entry is gone."""
    kernels, host_record = record
    cubin = build.restored(kernels.key) if kernels.key else None
    if kernels.key and cubin is None:
        return None
    host = HostProgram.restore(host_record, source)
    return CudaModule(Launcher(host, kernels, cubin), True, kernels.key, record)
