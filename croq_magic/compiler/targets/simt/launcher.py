"""What calls a loaded function of a SIMT target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from croq_magic.compiler.targets.simt.device import Device
    from croq_magic.compiler.targets.simt.host import HostProgram


class Launcher:
    """Calls one function: runs its host part on one device."""

    def __init__(self, host: HostProgram, device: Device) -> None:
        self._host = host
        self._device = device

    @property
    def fills_result(self) -> bool:
        """Every element of the result is stored, so its array may hold anything before the call."""
        return self._host.fills_result

    def __call__(self, values: Sequence[Any], dims: Mapping[str, int], result: Any = None) -> Any:
        """Runs the function; see `HostProgram.run`."""
        return self._host.run(self._device, values, dims, result)
