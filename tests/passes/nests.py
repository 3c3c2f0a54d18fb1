"""Nests of regions with positions in a text, for tests of passes."""

from __future__ import annotations

from collections.abc import Sequence

from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.source import Source, Span
from tests.ir_builders import const, index

LEVELS = {level.value: level for level in ir.Level} | {"-": None}


class Nest:
    """Builds regions `parallel ... by ... : level`, one a line of `source`."""

    def __init__(self, lines: int = 20) -> None:
        self.source = Source("\n".join(f"parallel {i:02}" for i in range(lines)))
        self.used = 0

    def line(self) -> Span:
        start = self.used * 12
        self.used += 1
        return self.source.span(start, start + 11)

    def region(
        self, level: str, extents: Sequence[int | ir.Expr], body: Sequence[ir.Stmt] = (), **attributes: object
    ) -> ir.Region:
        span = self.line()
        indices = tuple(index(f"i{self.used}_{a}", extent, ir.Role.REGION) for a, extent in enumerate(extents))
        return ir.Region(
            LEVELS[level],
            indices,
            tuple(map(const, extents)),
            tuple(body),
            ir.RegionAttributes(**attributes),  # type: ignore[arg-type]
            span=span,
        )


def function(root: ir.Region, name: str = "f") -> ir.Function:
    return ir.Function(name, (), None, (ir.Launch(ir.Kernel(f"{name}_0", root)),))


def kernel(result: ir.Function) -> ir.Region:
    (launch,) = result.launches()
    return launch.kernel.region


def path(root: ir.Region) -> str:
    """The levels of a chain of regions, implied ones in parentheses."""
    words = []
    node: ir.Region | None = root
    while node is not None:
        assert node.level is not None
        words.append(f"({node.level.value})" if node.implied else node.level.value)
        node = next((s for s in node.body if isinstance(s, ir.Region)), None)
    return " > ".join(words)


def said(context: Context) -> list[str]:
    return [f"{d.severity} {d.code} line {d.span.line}: {d.message}" for d in context.report]
