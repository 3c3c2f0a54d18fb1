"""Run-time checks around element accesses and windows."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.source import Span
from croq_magic.compiler.targets.cpu.checks import CheckSite, Operand
from croq_magic.compiler.targets.cpu.waits import Kind
from croq_magic.compiler.targets.cpu.writer import Writer
from croq_magic.compiler.targets.emit_cxx import INDEX, Expressions, Names, Unsupported
from croq_magic.compiler.types import DType


@dataclasses.dataclass
class ModuleState:
    """What all functions of a module share."""

    checks: list[CheckSite] = dataclasses.field(default_factory=list)
    vectors: set[tuple[DType, int]] = dataclasses.field(default_factory=set)  # vector types: element type and lanes
    prints: bool = False  # C++ text of the cell calls `printf`
    is_program: bool = False  # a whole program: `printf` is the C library's, entries are called in their own file


class Guards(Writer):
    """Emits checks. `leave` is the C++ statement that ends the work when it must stop; `instance` holds the indices of
    the regions and loops around, which a failed check reports."""

    def __init__(self, state: ModuleState, names: Names, leave: str, depth: int = 0) -> None:
        super().__init__(depth)
        self.state = state
        self.names = names
        self.leave = leave
        self.expressions = Expressions(names, self.pointer, self.variable, self._guard, divide=self._divide)
        self.instance: list[ir.Var] = []
        self.declared: set[str] = set()

    def pointer(self, buffer: ir.Buffer) -> str:
        """C++ text whose elements are those of a buffer."""
        return self.names.of(buffer)

    def variable(self, var: ir.Var) -> str:
        """C++ text of a variable that is read."""
        return self.names.of(var)

    def define(self, var: ir.Var) -> None:
        """Notes that a variable has been declared in the text."""
        self.declared.add(var.name)

    def unsupported(self, what: str, span: Span | None) -> None:
        raise Unsupported(f"{what} not supported by the CPU target yet", span)

    def site(
        self,
        what: str,
        operands: Sequence[Operand],
        span: Span | None,
        dims: tuple[int, ...] = (),
        code: str = "",
        kind: Kind = "",
    ) -> int:
        """Registers a check and returns its number."""
        start, end = (span.start, span.end) if span else (-1, -1)
        names = tuple(var.name for var in self.instance)
        self.state.checks.append(CheckSite(what, code, names, tuple(operands), dims, start, end, kind))
        return len(self.state.checks) - 1

    def instance_values(self) -> list[str]:
        return [self.expressions.index(var) for var in self.instance]

    def _conditions(
        self, view: ir.View, index: tuple[ir.Expr, ...], checks: tuple[int, ...], temporaries: list[str]
    ) -> tuple[list[tuple[int, str, str]], str]:
        """(dimension, index, extent) of each check, and the array's name as messages show it."""

        def name_of(e: ir.Expr) -> str:
            text = self.expressions.index(e)
            if isinstance(e, (ir.Var, ir.Const)):
                return text
            name = self.names.fresh("at")
            temporaries.append(f"const {INDEX} {name} = {text};")
            return name

        found = [(d, name_of(index[d]), self.expressions.index(view.extents[d])) for d in checks]
        if view.checks:
            base, _ = views.element(view, index)
            found += [(d, name_of(base[d]), self.expressions.index(view.buffer.shape[d])) for d in view.checks]
        return found, view.buffer.name

    def _failure(self, found: Sequence[tuple[int, str, str]], what: str, span: Span | None) -> tuple[str, str]:
        """The condition under which all indices are in range, and the call that reports that one is not."""
        operands = [Operand(part) for _ in found for part in ("index", "extent")]
        number = self.site(what, operands, span, tuple(d for d, _, _ in found))
        values = [*self.instance_values(), *(text for _, index, extent in found for text in (index, extent))]
        condition = " && ".join(f"uint64_t({index}) < uint64_t({extent})" for _, index, extent in found)
        return condition, f"croq_fail({', '.join(['lane', str(number), *values])})"

    def _guard(
        self,
        node: ir.Node,
        view: ir.View,
        index: tuple[ir.Expr, ...],
        checks: tuple[int, ...],
        access: str,
        otherwise: str,
    ) -> str:
        temporaries: list[str] = []
        found, what = self._conditions(view, index, checks, temporaries)
        condition, report = self._failure(found, what, getattr(node, "span", None) or view.span)
        choice = f"CROQ_LIKELY({condition}) ? {access} : ({report}, {otherwise})"
        return f"({{ {' '.join(temporaries)} {choice}; }})" if temporaries else f"({choice})"

    def _divide(self, e: ir.Binary, to: str, left: str, right: str) -> str:
        """A division whose divisor may be zero. The dividend is evaluated first, as it may fail too."""
        number = self.site("division by zero", (), e.span, code="TYP22")
        over, by = self.names.fresh("over"), self.names.fresh("by")
        report = f"croq_fail({', '.join(['lane', str(number), *self.instance_values()])})"
        helper = "croq_div" if e.op == "/" else "croq_mod"
        result = f"CROQ_LIKELY({by} != 0) ? {helper}<{to}>({over}, {by}) : ({report}, {to}(0))"
        return f"({{ const {to} {over} = {left}; const {to} {by} = {right}; {result}; }})"

    @contextlib.contextmanager
    def guarded(
        self, view: ir.View, index: tuple[ir.Expr, ...], checks: tuple[int, ...], span: Span | None
    ) -> Iterator[None]:
        """Runs what is emitted inside only if the element is in range."""
        if not checks and not view.checks:
            yield
            return
        temporaries: list[str] = []
        found, what = self._conditions(view, index, checks, temporaries)
        condition, report = self._failure(found, what, span or view.span)
        with self.nest(["" for _ in temporaries[:1]]):
            for temporary in temporaries:
                self.line(temporary)
            with self.block(f"if (CROQ_LIKELY({condition}))", f"}} else {report};"):
                yield

    @contextlib.contextmanager
    def window_check(self, windows: Sequence[ir.View], span: Span | None) -> Iterator[None]:
        """Runs what is emitted inside only if the unproven windows lie inside their buffers. The first and the last
        element decide, as base coordinates grow with view coordinates."""
        found: list[tuple[int, str, str]] = []
        what = ""
        for view in windows:
            if not view.checks or view.zfill:
                continue
            what = what or view.buffer.name
            first, _ = views.origin(view)
            corner = tuple(integers.sub(extent, integers.ONE) for extent in view.extents)
            last, _ = views.element(view, corner)
            for d in view.checks:
                extent = self.expressions.index(view.buffer.shape[d])
                found += [(d, self.expressions.index(e), extent) for e in (first[d], last[d])]
        condition, report = self._failure(found, what, span)
        with self.block(f"if (CROQ_LIKELY({condition}))", f"}} else {report};"):
            yield
