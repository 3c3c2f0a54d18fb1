"""What a caller must know of a tileflow function: parameters, result, entry checks.

Plain values without the IR: the disk cache keeps them, so that a cell that was compiled before can be bound and run
without loading the compiler. `describe.py` makes them from the IR.
"""

from __future__ import annotations

from typing import NamedTuple

from croq_magic.compiler import types


class Parameter(NamedTuple):
    """One parameter. `kind` is "span", "scalar" or "stream"; `type` the name of its element type ("" for a stream).

    `extents` are numbers or names of dimensions; `texts` the same as the program writes them. `named` is False for a
    parameter that the program gives no name. `written`: the caller sees what the function stores into it.
    """

    name: str
    named: bool
    kind: str
    type: str
    extents: tuple[int | str, ...]
    texts: tuple[str, ...]
    in_out: bool
    is_global: bool
    written: bool

    @property
    def dtype(self) -> types.DType:
        return types.BY_NAME[self.type]

    @property
    def declaration(self) -> str:
        """`global f32 [M, 4] x`, as the program declares it."""
        parts = ["global"] if self.is_global else []
        parts.append(self.type or "stream")
        if self.kind == "span":
            parts.append(f"[{', '.join(self.texts)}]" + ("&" if self.in_out else ""))
        return " ".join([*parts, self.name] if self.named else parts)


class EntryCheck(NamedTuple):
    """A condition over dimensions and scalar parameters, tested before anything runs.

    `condition` and the second items of `values` are texts for `arithmetic.function`; `place` is "name:line:column" and
    `excerpt` the source line with its mark.
    """

    condition: str
    message: str
    code: str
    warns: bool
    values: tuple[tuple[str, str], ...]
    place: str
    excerpt: tuple[str, ...]


class Signature(NamedTuple):
    """One function as its callers see it.

    `result` is the name of the element type of what is returned ("" for nothing); `extents` are the texts of a returned
    span's extents, None for a scalar, and `shape` the text for `arithmetic.function` that computes them. Such functions
    take the values of `dims`, then of `scalars`. Extents and checks depend on the scalars in `key`.
    """

    name: str
    params: tuple[Parameter, ...]
    result: str
    extents: tuple[str, ...] | None
    shape: str
    dims: tuple[str, ...]
    scalars: tuple[str, ...]
    key: tuple[str, ...]
    checks: tuple[EntryCheck, ...]

    @property
    def result_dtype(self) -> types.DType | None:
        return types.BY_NAME[self.result] if self.result else None

    @property
    def text(self) -> str:
        """`s32 [128, 256] matmul(s32 [128, 256] lhs, s32 [256, 256] rhs)`."""
        returned = self.result or "void"
        if self.extents is not None:
            returned += f" [{', '.join(self.extents)}]"
        return f"{returned} {self.name}({', '.join(p.declaration for p in self.params)})"
