"""The translation of a host body as plain values: what the disk cache keeps, apart from the stage that makes it."""

from __future__ import annotations

from typing import NamedTuple

from croq_magic.compiler.targets.cpu.checks import CheckSite


class HostText(NamedTuple):
    """The translation of one function. `types` names the element types that the text mentions as `T_...`; `result` is
    the type of what is returned, "" for nothing; `zeroed`: the result's array must be zero before the call."""

    function: str
    text: str
    checks: tuple[CheckSite, ...]
    types: tuple[str, ...]
    result: str
    scalar_result: bool
    zeroed: bool
