"""What CUDA reports when a launch or a transfer fails, as one of our errors; and what stays broken after it."""

from __future__ import annotations

from collections import deque
from typing import Any

from croq_magic.errors import CroqError, TargetError

# CUresult and cudaError_t agree on these numbers. After such an error every later call fails: the context is lost.
_STICKY = {
    214: "the device's memory has an error that it cannot correct",
    220: "a link between devices has an error that it cannot correct",
    226: "the device's memory has an error",
    700: "it read or wrote memory that is not its own",
    701: "it needs more resources than the device has",
    702: "it ran longer than the system lets a kernel run",
    710: "an assertion in device code failed",
    714: "the hardware stack overflowed or is corrupt",
    715: "it executed an instruction that this device does not have",
    716: "it accessed memory at an address that is no multiple of the access's size",
    717: "it accessed memory of the wrong kind",
    718: "its program counter left its code",
    719: "it failed in a way that the device does not explain further",
    721: "it left memory of the tensor cores allocated",
}
_MEMORY = (2,)
_RESOURCES = (701,)
_COOPERATIVE = (720,)
_NO_IMAGE, _BAD_PTX, _OLD_DRIVER = 209, 218, 222


class _State:
    """What this process knows of its CUDA context. `recent` names the last kernels since the last time that all was
    well, `lost` is the message of the error that broke it."""

    def __init__(self) -> None:
        self.recent: deque[tuple[str, ...]] = deque(maxlen=8)
        self.lost = ""


_state = _State()


def lost() -> str:
    """The message of the error that broke the context, "" while it is whole."""
    return _state.lost


def require_context() -> None:
    """Raises TargetError when an earlier error has broken the context."""
    if _state.lost:
        raise TargetError(_state.lost)


launched = _state.recent.append  # takes the names of kernels that run now: a failure that shows later may be theirs


def all_well() -> None:
    """Everything launched so far has ended without an error."""
    _state.recent.clear()


def forget() -> None:
    """A new machine begins (tests)."""
    _state.recent.clear()
    _state.lost = ""
    _texts.clear()


def is_cuda(error: BaseException) -> bool:
    """Whether CuPy raised this for an error of CUDA."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"CUDADriverError", "CUDARuntimeError", "OutOfMemoryError"})


def explain(error: BaseException, kernel: str = "", device: str = "the device", needs: str = "") -> CroqError | None:
    """Our error for one of CUDA, None for any other. `kernel` was about to run, `needs` is what it takes."""
    if not is_cuda(error):
        return None
    status = getattr(error, "status", None)
    said = " ".join(str(error).split())
    if type(error).__name__ == "OutOfMemoryError" or status in _MEMORY:
        return TargetError(f"{kernel + ': ' if kernel else ''}not enough memory on {device}")
    if status in _STICKY and status not in _RESOURCES:
        recent = dict.fromkeys(name for kernels in _state.recent for name in kernels)
        names = " or ".join(f"`{name}`" for name in recent) or "a kernel"
        _state.lost = (
            f"{names} has broken the CUDA context: {_STICKY[status]} ({said.partition(':')[0]}). CUDA cannot go on in "
            "this process: restart the notebook's kernel. `-t emulate` runs the same program and shows the place"
        )
        return TargetError(_state.lost)
    where = f"`{kernel}`: " if kernel else ""
    if status in _RESOURCES:
        return TargetError(f"{where}{device} has too few registers or too little shared memory for {needs or 'it'}")
    if status in _COOPERATIVE:
        return TargetError(f"{where}its blocks meet, so all must run at once, and {device} has no room for all")
    if status in (_NO_IMAGE, _BAD_PTX, _OLD_DRIVER):
        return TargetError(
            f"{where}{device} does not load the machine code ({said}); leave out -a, or update the driver"
        )
    return TargetError(f"{where}{device} does not run it: {said}" + (f" ({needs})" if needs else ""))


def no_room(kernel: str, blocks: int, threads: int, shared_bytes: int, device: str) -> TargetError:
    """The error for blocks that meet, and cannot all run at once."""
    return TargetError(
        f"`{kernel}`: its blocks meet, so all must run at once, and {device} has no room for {blocks} blocks of "
        f"{threads} threads and {shared_bytes} bytes of shared memory each"
    )


_texts: dict[int, str] = {}


def device_text(cupy: Any, number: int) -> str:
    """A device for messages: its name, with its number where there are several. Never raises: after an error that
    broke the context the device may not answer."""
    from croq_magic.compiler.targets.cuda.system import device_name

    found = _texts.get(number)
    if found is None:
        try:
            name = device_name(cupy, number)
            found = f"{name} (device {number})" if cupy.cuda.runtime.getDeviceCount() > 1 else name
        except Exception:
            return "the device"
        _texts[number] = found
    return found
