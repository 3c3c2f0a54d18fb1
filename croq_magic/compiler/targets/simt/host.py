"""The host body of a function on a SIMT device: Python that launches kernels and does what is written around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from croq_magic.compiler.source import Source
from croq_magic.compiler.targets.cpu.checks import CheckSite
from croq_magic.compiler.targets.simt.host_calls import Call, environment

if TYPE_CHECKING:
    from croq_magic.compiler import ir
    from croq_magic.compiler.targets.simt.device import Device
    from croq_magic.compiler.targets.simt.emission import SimtKernel
    from croq_magic.compiler.targets.simt.host_text import HostText


class HostProgram:
    """One function, ready to run on any device that has its kernels.

    `kernel_checks` are the run-time checks of the kernels, numbered by position (`SimtEmission.checks`). Making one
    raises `emit_cxx.Unsupported` for what the host part cannot do, with the place; `target` is the name that the
    message shows.
    """

    def __init__(
        self,
        function: ir.Function,
        kernels: Sequence[SimtKernel],
        kernel_checks: Sequence[CheckSite] = (),
        source: Source | None = None,
        target: str = "GPU",
    ) -> None:
        from croq_magic.compiler.targets.simt.host_emit import host_text

        self._prepare(host_text(function, kernels, target), kernel_checks, source)

    @classmethod
    def restore(cls, record: tuple[HostText, Sequence[CheckSite]], source: Source | None) -> HostProgram:
        """A program from its `record`, which no stage of the compiler is needed for."""
        program = cls.__new__(cls)
        program._prepare(*record, source)
        return program

    def _prepare(self, text: HostText, kernel_checks: Sequence[CheckSite], source: Source | None) -> None:
        self.text = text
        self.name = text.function
        self.checks = text.checks
        self.kernel_checks = tuple(kernel_checks)
        self.source = source
        names = environment(text.types)
        exec(compile(text.text, f"<tileflow {text.function}>", "exec"), names)
        self._program: Any = names["program"]

    @property
    def record(self) -> tuple[HostText, Sequence[CheckSite]]:
        """Plain values that `restore` makes the program from again."""
        return self.text, self.kernel_checks

    @property
    def fills_result(self) -> bool:
        """Every element of the result is stored, so its array may hold anything before the call."""
        return not self.text.zeroed

    def run(self, device: Device, values: Sequence[Any], dims: Mapping[str, int], result: Any = None) -> Any:
        """Runs the function: one contiguous array, number or stream handle per parameter, the extents of its symbolic
        dimensions, and the array that a returned span is written to. Returns a returned scalar.

        Arrays of in-out parameters get what the device wrote at the end, so a failing call leaves them as they were
        where the device has memory of its own. Raises `CheckError` for a failed check, `TargetError` when the device
        cannot run a launch.
        """
        call = Call(self, device)
        try:
            value = self._program(call, values, dims, result)
            call.finish()
        finally:
            call.release()
        return value
