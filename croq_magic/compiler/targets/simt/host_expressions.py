"""Expressions of the host part as Python text.

As in `emit_cxx.py` there are two kinds of arithmetic: *values* are computed in their element type, *indices* are
mathematical integers. The helpers that the text calls are those of `host_calls.py`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.source import Span
from croq_magic.compiler.targets.cpu.checks import CheckSite, Operand
from croq_magic.compiler.targets.emit_cxx import Expressions, Unsupported, is_narrow
from croq_magic.compiler.types import BOOL, F32, F64, TF32, DType

_INDEX_ROLES = (ir.Role.REGION, ir.Role.LOOP, ir.Role.COORD, ir.Role.DIM)


_DEEP = 60  # parentheses in parentheses; Python takes 200
_LONG = 4 * _DEEP  # what is shorter is not as deep


def _depth(text: str) -> int:
    """How many parentheses are open at once in a text."""
    return max(itertools.accumulate((c == "(") - (c == ")") for c in text), default=0)


class HostExpressions:
    """Prints expressions and collects the checks in them. `instance` holds the loops around."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.checks: list[CheckSite] = []
        self.parts: list[str] = []
        self.instance: list[ir.Var] = []
        self._names: dict[object, str] = {}
        self._kept: list[ir.Node] = []  # so that ids stay theirs
        self._count = 0

    # ------------------------------------------------------------------------------------------------------- names

    def name(self, node: ir.Var | ir.Buffer) -> str:
        key: object = node.name if isinstance(node, ir.Var) else id(node)
        if key not in self._names:
            self._names[key] = self.fresh(node.name)
            self._kept.append(node)
        return self._names[key]

    def fresh(self, wanted: str) -> str:
        """A Python name that nothing else has."""
        self._count += 1
        letters = "".join(c if c.isascii() and c.isalnum() else "_" for c in wanted)
        return f"{letters}_{self._count}" if letters[:1].isalpha() else f"v{letters}_{self._count}"

    def unsupported(self, what: str, span: Span | None) -> Unsupported:
        return Unsupported(f"{what} not supported in the host part by the {self.target} target", span)

    # ----------------------------------------------------------------------------------------------------- indices

    def indices(self, expressions: Sequence[ir.Expr]) -> str:
        """A tuple of indices."""
        return f"({''.join(f'{self.index(e)}, ' for e in expressions)})"

    def index(self, e: ir.Expr) -> str:
        """A mathematical integer."""
        if isinstance(e, ir.Const):
            return repr(int(e.value)) if int(e.value) >= 0 else f"({int(e.value)})"
        if isinstance(e, ir.Var):
            return self.name(e)
        if isinstance(e, ir.Unary) and e.op == "-" and e.dtype.is_integer:
            return f"(-{self.index(e.operand)})"
        if isinstance(e, ir.Binary) and e.op in "+-*" and e.dtype.is_integer:
            return f"({self.index(e.left)} {e.op} {self.index(e.right)})"
        if isinstance(e, ir.Binary) and e.op in "/%" and e.dtype.is_integer:
            return self._division(e, self.index(e.left), self.index(e.right))
        if isinstance(e, ir.Builtin) and e.name in ("__max", "__min") and e.dtype.is_integer:
            return f"{e.name[2:]}({self.index(e.args[0])}, {self.index(e.args[1])})"
        if isinstance(e, ir.Builtin) and e.name == "cdiv":
            return f"ceiling({self.index(e.args[0])}, {self.index(e.args[1])})"
        if isinstance(e, ir.Select):
            return f"({self.index(e.then)} if {self.value(e.condition)} else {self.index(e.other)})"
        return f"int({self.value(e)})"

    def _division(self, e: ir.Binary, left: str, right: str) -> str:
        helper = "quotient" if e.op == "/" else "remainder"
        if not e.checked:
            return f"{helper}({left}, {right})"
        number = self.site("division by zero", (), e.span, code="TYP22")
        return f"checked_{helper}(call, {number}, {self.instance_values()}, {left}, {right})"

    # ------------------------------------------------------------------------------------------------------ values

    def value(self, e: ir.Expr) -> str:
        """A number that the type of `e` represents. Python reads no text that is nested deeply, so that the inner part
        of such an expression becomes a function, which `parts` has until it is written before the statement."""
        text = self._value(e)
        if len(text) < _LONG or _depth(text) < _DEEP:
            return text
        name = self.fresh("part")
        self.parts.append(f"def {name}(): return {text}")
        return f"{name}()"

    def _value(self, e: ir.Expr) -> str:
        if isinstance(e, ir.Const):
            return self._literal(e)
        if isinstance(e, ir.Var):
            return self.name(e)
        if isinstance(e, ir.Unary):
            if e.op == "!":
                return f"(not {self.value(e.operand)})"
            return self._rounded(f"({e.op}{self.value(e.operand)})", e.dtype)
        if isinstance(e, ir.Binary):
            return self._binary(e)
        if isinstance(e, ir.Select):
            return f"({self.value(e.then)} if {self.value(e.condition)} else {self.value(e.other)})"
        if isinstance(e, ir.Cast):
            return self.cast(self.value(e.operand), e.operand.dtype, e.dtype)
        if isinstance(e, ir.Builtin):
            return self._builtin(e)
        if isinstance(e, ir.Load):
            return f"{self.name(e.view.buffer)}.get({self.place(e.view, e.index, e.checks, e.span)})"
        raise self.unsupported(f"`{type(e).__name__}` is", getattr(e, "span", None))

    @staticmethod
    def _literal(e: ir.Const) -> str:
        if not e.dtype.is_float:
            return repr(bool(e.value) if e.dtype is BOOL else int(e.value))
        number = float(e.value)
        return repr(number) if math.isfinite(number) else f"float('{number}')"

    def _rounded(self, text: str, dtype: DType) -> str:
        """The result of Python's arithmetic brought back to its type."""
        if dtype is BOOL or dtype is F64:
            return text
        if dtype in (F32, TF32):
            return f"f32({text})"
        if dtype.is_float:
            return f"{self.type(dtype)}_round(f32({text}))"
        mask = (1 << dtype.bits) - 1
        if dtype.is_signed:
            half = 1 << (dtype.bits - 1)
            return f"(({text} + {half} & {mask}) - {half})"
        return f"({text} & {mask})"

    @staticmethod
    def type(dtype: DType) -> str:
        """The name of an element type in the text."""
        return f"T_{dtype.name}"

    def _binary(self, e: ir.Binary) -> str:
        op = e.op
        if e.dtype.is_integer and op in ("+", "-"):
            return self._rounded(self._sum(e), e.dtype)
        left, right = self.value(e.left), self.value(e.right)
        if op in ("&&", "||"):
            return f"({left} {'and' if op == '&&' else 'or'} {right})"
        if op in ("<", "<=", ">", ">=", "==", "!="):
            return f"({left} {op} {right})"
        if op in "/%" and e.dtype.is_integer:
            return self._rounded(self._division(e, left, right), e.dtype)
        if op == "/":
            return self._rounded(f"divide({left}, {right})", e.dtype)
        if op in ("<<", ">>"):
            bits = e.dtype.bits
            if op == ">>":
                return f"shift_right({left}, {right}, {bits})"
            return f"shift_left({left}, {right}, {0 if e.dtype.is_signed else 1}, {bits})"
        if e.dtype.is_integer and op in "&|^":
            return f"({left} {op} {right})"
        if e.dtype in (F32, TF32):
            return f"f32({left} {op} {right})"
        return self._rounded(f"({left} {op} {right})", e.dtype)

    def _sum(self, e: ir.Expr) -> str:
        """A sum of integers before it is brought back to its type, which is done once for all its terms."""
        terms: list[str] = []
        while isinstance(e, ir.Binary) and e.op in ("+", "-") and e.dtype.is_integer:
            terms += (self.value(e.right), f" {e.op} ")
            same, e = e.dtype, e.left
            if e.dtype is not same:
                break
        terms.append(self.value(e))
        return f"({''.join(reversed(terms))})"

    def cast(self, text: str, source: DType, target: DType) -> str:
        if source is target:
            return text
        if target is BOOL:
            return f"({text} != 0)"
        if target.is_integer and not source.is_float:
            return self._rounded(f"int({text})" if source is BOOL else text, target)
        if target is F64 or (target in (F32, TF32) and is_narrow(source)):
            return f"float({text})"
        return f"convert({text}, {self.type(source)}, {self.type(target)})"

    def _builtin(self, e: ir.Builtin) -> str:
        args = ", ".join(map(self.value, e.args))
        if e.dtype.is_integer:
            whole = {"__max": "max", "__min": "min", "cdiv": "ceiling", "__alignup": "align_up", "__fabs": "abs"}
            helper = whole.get(e.name) or {"__aligndown": "align_down"}.get(e.name)
            if helper is not None:
                return self._rounded(f"{helper}({args})", e.dtype)
        return self._rounded(f"builtin[{e.name!r}]({args})", e.dtype)

    # ---------------------------------------------------------------------------------------------------- elements

    def place(self, view: ir.View, index: tuple[ir.Expr, ...], checks: tuple[int, ...], span: Span | None) -> str:
        """The offset of an element in its buffer, with the checks it needs."""
        offset = self.index(Expressions.offset_expr(view, index))
        found = [(d, self.index(index[d]), self.index(view.extents[d])) for d in checks]
        if view.checks:
            base, _ = views.element(view, index)
            found += [(d, self.index(base[d]), self.index(view.buffer.shape[d])) for d in view.checks]
        if not found:
            return offset
        return f"checked(call, {self.index_site(view, found, span)}, {offset})"

    def index_site(self, view: ir.View, found: Sequence[tuple[int, str, str]], span: Span | None) -> str:
        """Registers a check of indices; its number, the values of the loops around, and pairs of index and extent."""
        operands = tuple(Operand(part) for _ in found for part in ("index", "extent"))
        number = self.site(view.buffer.name, operands, span or view.span, tuple(d for d, _, _ in found))
        pairs = "".join(f"{index}, {extent}, " for _, index, extent in found)
        return f"{number}, {self.instance_values()}, ({pairs})"

    def site(
        self, what: str, operands: Sequence[Operand], span: Span | None, dims: tuple[int, ...] = (), code: str = ""
    ) -> int:
        """Registers a check and returns its number."""
        start, end = (span.start, span.end) if span else (-1, -1)
        names = tuple(var.name for var in self.instance)
        self.checks.append(CheckSite(what, code, names, tuple(operands), dims, start, end))
        return len(self.checks) - 1

    def instance_values(self) -> str:
        return f"({''.join(f'{self.name(var)}, ' for var in self.instance)})"

    def strides(self, view: ir.View) -> tuple[ir.Expr, ...] | None:
        return views.strides(view)

    def first(self, view: ir.View) -> str:
        """The offset of a view's first element."""
        return self.index(Expressions.offset_expr(view, (integers.ZERO,) * view.rank))
