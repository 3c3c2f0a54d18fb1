"""Run-time checks in kernels: a failed one is reported, the access it guards is left out, and the kernel goes on."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.source import Span
from croq_magic.compiler.targets.cpu.checks import CheckSite, Operand
from croq_magic.compiler.targets.cpu.writer import Writer
from croq_magic.compiler.targets.emit_cxx import Names, Unsupported
from croq_magic.compiler.targets.simt.dialect import Dialect
from croq_magic.compiler.targets.simt.expressions import Expressions
from croq_magic.compiler.text import format_expr
from croq_magic.compiler.types import BOOL, F32, F64
from croq_magic.compiler.visit import walk

REPORT = "croq_report"


@dataclasses.dataclass
class ModuleState:
    """What all kernels of a module share."""

    dialect: Dialect
    checks: list[CheckSite] = dataclasses.field(default_factory=list)


class Guards(Writer):
    """Emits checks. `instance` holds the indices of the regions and loops around, which a failed check reports."""

    def __init__(self, state: ModuleState, names: Names) -> None:
        super().__init__(1)
        self.state = state
        self.dialect = state.dialect
        self.names = names
        self.expressions = Expressions(
            self.dialect, names, self.pointer, self.variable, self._guarded_load, self._checked, self.register
        )
        self.instance: list[ir.Var] = []
        self.computed: set[ir.Var] = set()  # of them those that a pass computes from other indices
        self.reports = False

    def pointer(self, buffer: ir.Buffer) -> str:
        raise NotImplementedError

    def variable(self, var: ir.Var) -> str:
        raise NotImplementedError

    def temporary(self, e: ir.Expr) -> ir.Var:
        """A variable with the value of an index."""
        raise NotImplementedError

    def register(self, view: ir.View, index: tuple[ir.Expr, ...]) -> str | None:
        raise NotImplementedError

    def unsupported(self, what: str, span: Span | None) -> Unsupported:
        return Unsupported(f"{what} not supported by the {self.dialect.name} target yet", span)

    def failure(
        self,
        what: str,
        operands: Sequence[tuple[Operand, str]],
        span: Span | None,
        dims: tuple[int, ...] = (),
        code: str = "",
    ) -> str:
        """Registers a check and gives the expression that reports its failure."""
        self.reports = True
        start, end = (span.start, span.end) if span else (-1, -1)
        names = tuple(var.name for var in self.instance)
        kinds = tuple(operand for operand, _ in operands)
        self.state.checks.append(CheckSite(what, code, names, kinds, dims, start, end))
        values = [*(self.expressions.index(var) for var in self.instance), *(text for _, text in operands)]
        return self.dialect.fail(REPORT, len(self.state.checks) - 1, values)

    def _ranges(
        self, view: ir.View, index: tuple[ir.Expr, ...], checks: tuple[int, ...]
    ) -> list[tuple[int, ir.Expr, ir.Expr]]:
        """(dimension, index, extent) of each check."""
        found = [(d, index[d], view.extents[d]) for d in checks]
        if view.checks:
            base, _ = views.element(view, index)
            found += [(d, base[d], view.buffer.shape[d]) for d in view.checks]
        return found

    def in_range(self, index: ir.Expr, extent: ir.Expr) -> str:
        """The condition that an index is in [0, extent): one unsigned comparison."""
        low, high = integers.interval(index)
        size = integers.interval(extent)[0]
        place, end = self.expressions.index(index, 12), self.expressions.index(extent, 12)
        if low is not None and low >= 0:
            return f"{place} < {end}"
        if high is not None and size is not None and high < size:
            return f"{place} >= 0"
        return f"{place} >= 0 && {place} < {end}"

    def _ranges_failure(
        self, found: Sequence[tuple[int, ir.Expr, ir.Expr]], what: str, span: Span | None
    ) -> tuple[str, str]:
        operands = [
            (Operand(part), self.expressions.index(e))
            for _, index, extent in found
            for part, e in (("index", index), ("extent", extent))
        ]
        condition = " && ".join(self.in_range(index, extent) for _, index, extent in found)
        return condition, self.failure(what, operands, span, tuple(d for d, _, _ in found))

    def _guarded_load(self, e: ir.Load, access: str) -> str:
        found = self._ranges(e.view, e.index, e.checks)
        condition, report = self._ranges_failure(found, e.view.buffer.name, e.span or e.view.span)
        zero = self.dialect.literal(0.0 if e.dtype.is_float else 0, e.dtype)
        return f"({condition} ? {access} : ({report}, {zero}))"

    def _checked(self, e: ir.Binary, text: str) -> str:
        """A division whose divisor may be zero; the helper gives 0 for it."""
        divisor = self.expressions.index(e.right, 12)
        report = self.failure("division by zero", (), e.span, code="TYP22")
        zero = self.dialect.literal(0, e.dtype)
        return f"({divisor} != 0 ? {text} : ({report}, {zero}))"

    @contextlib.contextmanager
    def guarded(
        self, view: ir.View, index: tuple[ir.Expr, ...], checks: tuple[int, ...], span: Span | None
    ) -> Iterator[tuple[ir.Expr, ...]]:
        """Runs what is emitted inside only if the element is in range. Gives the index to use: what is loaded for it is
        loaded once."""
        if not checks and not view.checks:
            yield index
            return
        loaded = {d for d in checks if any(isinstance(n, ir.Load) for n in walk(index[d]))}
        index = tuple(self.temporary(e) if d in loaded else e for d, e in enumerate(index))
        found = self._ranges(view, index, checks)
        condition, report = self._ranges_failure(found, view.buffer.name, span or view.span)
        with self.block(f"if ({condition})", f"}} else {report};"):
            yield index

    @contextlib.contextmanager
    def window_check(self, windows: Sequence[ir.View], span: Span | None) -> Iterator[None]:
        """Runs what is emitted inside only if the unproven windows lie inside their buffers. The first and the last
        element decide, as base coordinates grow with view coordinates."""
        found: list[tuple[int, ir.Expr, ir.Expr]] = []
        what = ""
        for view in windows:
            if not view.checks or view.zfill:
                continue
            what = what or view.buffer.name
            first, _ = views.origin(view)
            corner = tuple(integers.sub(extent, integers.ONE) for extent in view.extents)
            last, _ = views.element(view, corner)
            for d in view.checks:
                found += [(d, e, view.buffer.shape[d]) for e in (first[d], last[d])]
        if not found:
            yield
            return
        condition, report = self._ranges_failure(found, what, span)
        with self.block(f"if ({condition})", f"}} else {report};"):
            yield

    @contextlib.contextmanager
    def divisor_check(self, s: ir.SpanOp, divisor: ir.Expr) -> Iterator[None]:
        """Runs what is emitted inside, the division of one element, only if the divisor is not zero."""
        if s.op not in ("/", "%") or not s.checked or divisor.dtype.is_float or integers.value(divisor):
            yield
            return
        report = self.failure("division by zero", (), s.span, code="TYP22")
        with self.block(f"if ({self.expressions.value(divisor, 12)} != 0)", f"}} else {report};"):
            yield

    def assertion(self, s: ir.Assert) -> None:
        shown = [v for v in s.values if not (isinstance(v, ir.Var) and (v.role is ir.Role.COORD or v in self.instance))]
        operands = [
            (Operand(format_expr(v), "f" if v.dtype.is_float else "b" if v.dtype is BOOL else "i"), self._bits(v))
            for v in shown
        ]
        report = self.failure(s.message, operands, s.span, code=s.code)
        self.line(f"if (!({self.expressions.value(s.condition)})) {report};")

    def _bits(self, e: ir.Expr) -> str:
        if not e.dtype.is_float:
            return self.expressions.value(e)
        kind = F64 if e.dtype is F64 else F32
        return self.dialect.float_bits(self.expressions.operand(e, 0), kind)
