"""Expressions of the tile IR in the C language of a SIMT device.

Two kinds of arithmetic. *Values* are computed in their element type as the language defines it; floats below 32 bits in
f32, rounded once per operation. *Indices* (offsets, extents, loop bounds) are mathematical integers: they are computed
in 32 bits where their bounds prove that nothing overflows, in 64 bits elsewhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from croq_magic.compiler import integers, ir
from croq_magic.compiler.targets.emit_cxx import (
    CHOICE,
    PLUS,
    PREFIX,
    PRIMARY,
    TIMES,
    Names,
    Unsupported,
    binary_level,
    is_narrow,
)
from croq_magic.compiler.targets.emit_cxx import Expressions as CxxExpressions
from croq_magic.compiler.targets.simt.dialect import Dialect
from croq_magic.compiler.targets.simt.index_limits import IndexLimits, bound
from croq_magic.compiler.targets.simt.overflow import SEES_OVERFLOW
from croq_magic.compiler.types import BOOL, F32, F64, S32, S64, TF32, U32, U64, DType
from croq_magic.compiler.visit import walk

_WIDE = (S32, U32, S64, U64)  # integer types that C does not promote
_MATH = frozenset(
    """__sin __cos __tan __asin __acos __atan __atan2 __sinh __cosh __tanh __exp __expm1 __log __log1p __pow
    __sqrt __rsqrt __fabs __sign __ceil __floor __round __isfinite __sigmoid __softplus __gelu""".split()
)
_RENAMED = {"__exp2f": "exp2", "__frcp_rn": "frcp", "__fmaf": "fma", "__max": "fmax", "__min": "fmin"}
_INDEX_ROLES = (ir.Role.REGION, ir.Role.LOOP, ir.Role.COORD)

_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_UNSIGNED = {S32: U32, S64: U64}

buffer_offset = CxxExpressions.offset_expr
Text = tuple[str, int, int]  # of an index: the text, its precedence, its width
NARROW, EXTENT, WIDE = 0, 1, 2  # widths: 32 bits; what the kernel's extents have, `index64` of the dialect; 64 bits


def _is_sum(e: ir.Expr) -> bool:
    return (isinstance(e, ir.Binary) and e.op in ("+", "-", "*")) or (isinstance(e, ir.Unary) and e.op == "-")


def _is_index(e: ir.Expr) -> bool:
    """Whether an expression is over indices and extents alone, which no memory holds enough elements to overflow."""
    kinds = (ir.Const, ir.Var, ir.Binary, ir.Unary, ir.Cast)
    roles = (*_INDEX_ROLES, ir.Role.DIM)
    return all(isinstance(n, kinds) and (not isinstance(n, ir.Var) or n.role in roles) for n in walk(e))


def fits(e: ir.Expr) -> bool:
    """Whether an index surely fits into 32 bits."""
    low, high = integers.interval(e)
    return low is not None and high is not None and low >= -(1 << 31) and high < 1 << 31


def is_wide_variable(var: ir.Var) -> bool:
    """Symbolic dimensions have 64 bits; indices of regions and loops are s32 by the language."""
    return var.role is ir.Role.DIM or var.dtype in (S64, U64)


def _moved(e: ir.Expr, dtype: DType) -> ir.Expr | None:
    """What is converted to a wider type, where it is to be converted back: then nothing is but a move."""
    if isinstance(e, ir.Select):
        then, other = _moved(e.then, dtype), _moved(e.other, dtype)
        return None if then is None or other is None else ir.Select(e.condition, then, other, dtype)
    if not isinstance(e, ir.Cast) or e.operand.dtype is not dtype or dtype is BOOL:
        return None
    wider = e.dtype.bits > dtype.bits
    if dtype.is_integer and e.dtype.is_integer:
        low, high = e.dtype.range
        wider = low <= dtype.range[0] and dtype.range[1] <= high
    elif dtype.is_integer or e.dtype not in (F32, F64):
        return None
    return e.operand if wider else None


@dataclasses.dataclass
class Expressions:
    """Prints expressions. `pointer` gives the text that a buffer's elements are indexed from, `variable` that of a
    variable, `guard` the text of a load that needs run-time checks."""

    dialect: Dialect
    names: Names
    pointer: Callable[[ir.Buffer], str]
    variable: Callable[[ir.Var], str]
    guard: Callable[[ir.Load, str], str]
    divide: Callable[[ir.Binary, str], str]
    registers: Callable[[ir.View, tuple[ir.Expr, ...]], str | None]
    modular: bool = False  # sums and products may wrap in 32 bits, as the result is known to fit
    limits: IndexLimits | None = None  # of a kernel whose extents may have 32 bits: what they must then be

    # ------------------------------------------------------------------------------------------------- indices

    def index(self, e: ir.Expr, parent: int = 0) -> str:
        """An integer expression of 32 or 64 bits."""
        text, level, _ = self.index_text(e)
        return f"({text})" if level < parent else text

    def index_text(self, e: ir.Expr) -> Text:
        """The text of an index, its precedence, and its width."""
        if isinstance(e, ir.Const) and isinstance(e.value, (int, bool)):
            number = int(e.value)
            wide = NARROW if -(1 << 31) <= number < 1 << 31 else WIDE
            text = self.dialect.literal(number, S64 if wide else S32)
            return text, PRIMARY if number >= 0 else PREFIX, wide
        if isinstance(e, ir.Var):
            if e.dtype is U32:
                return self._as_s64(self.variable(e)), PRIMARY, WIDE
            if e.role in _INDEX_ROLES or e.dtype.is_integer:
                wide = EXTENT if e.role in (*_INDEX_ROLES, ir.Role.DIM) else WIDE
                return self.variable(e), PRIMARY, wide if is_wide_variable(e) else NARROW
            return self.dialect.convert(self.dialect.index32, self.variable(e)), PRIMARY, NARROW
        if isinstance(e, ir.Cast) and e.dtype is S64 and isinstance(e.operand, ir.Var) and _is_index(e.operand):
            return self.index_text(e.operand)
        if isinstance(e, ir.Unary) and e.op == "-" and e.dtype.is_integer:
            operand = self._widened(self.index_text(e.operand), self._width(e))
            return f"-{_in(operand, PREFIX + 1)}", PREFIX, operand[2]
        if isinstance(e, ir.Binary) and e.op in "+-*" and e.dtype.is_integer:
            level = binary_level(e.op)
            left, right = self._pair(e)
            return f"{_in(left, level)} {e.op} {_in(right, level + 1)}", level, max(left[2], right[2])
        if isinstance(e, ir.Binary) and e.op in "/%" and e.dtype.is_integer:
            return self._index_division(e)
        if isinstance(e, ir.Builtin) and e.name in ("__max", "__min", "cdiv") and e.dtype.is_integer:
            narrow = all(map(fits, (*e.args, e)))
            name = "ceildiv" if e.name == "cdiv" else e.name[2:]
            args = [self.index(a) for a in e.args]
            return self.dialect.helper(name, S32 if narrow else None, args), PRIMARY, NARROW if narrow else WIDE
        if isinstance(e, ir.Select):
            then, other = self.index_text(e.then), self.index_text(e.other)
            condition = self.value(e.condition, CHOICE + 1)
            return f"{condition} ? {_in(then, CHOICE)} : {_in(other, CHOICE)}", CHOICE, max(then[2], other[2])
        text, level = self._value(e)
        if e.dtype is S64:
            return text, level, WIDE
        if e.dtype in (U64, U32):
            return self._as_s64(text), PRIMARY, WIDE
        return (text, level, NARROW) if e.dtype is S32 else (self.dialect.convert("int", text), PRIMARY, NARROW)

    def _pair(self, e: ir.Binary) -> tuple[Text, Text]:
        """Both operands, one of them widened where 32 bits may not hold the result."""
        left, right = self.index_text(e.left), self.index_text(e.right)
        width = self._width(e)
        return (left, right) if right[2] >= width else (self._widened(left, width), right)

    def _width(self, e: ir.Expr) -> int:
        """The width that a sum or product needs."""
        most = None if fits(e) else bound(e)
        if fits(e) or (most is not None and most < 1 << 31):
            return NARROW
        if self.limits is None:
            return NARROW if self.modular else EXTENT
        return EXTENT if self.modular or self.limits.admit(e) else WIDE

    def _index_division(self, e: ir.Binary) -> Text:
        modular, self.modular = self.modular, False
        text = self._quotient(e)
        self.modular = modular
        return text

    def _quotient(self, e: ir.Binary) -> Text:
        if (integers.value(e.right) or 0) > 0:
            left = self.index_text(e.left)
            low, _ = integers.interval(e.left)
            if low is not None and low >= 0 and not left[2]:  # no correction of negative dividends
                return f"{_in(left, TIMES)} {e.op} {integers.value(e.right)}", TIMES, NARROW
            return f"{_in(left, TIMES)} {e.op} {self.index(e.right, TIMES + 1)}", TIMES, left[2]
        low, _ = integers.interval(e.right)
        left, right = self.index_text(e.left), self.index_text(e.right)
        if low is not None and low > 0:
            return f"{_in(left, TIMES)} {e.op} {_in(right, TIMES + 1)}", TIMES, max(left[2], right[2])
        return self._division(e, None), PRIMARY, WIDE

    def _widened(self, text: Text, width: int) -> Text:
        if text[2] >= width:
            return text
        if width == EXTENT:
            return self.dialect.convert(self.dialect.index64, text[0]), PRIMARY, EXTENT
        return self._as_s64(text[0]), PRIMARY, WIDE

    def _as_s64(self, text: str) -> str:
        return self.dialect.convert(self.dialect.ctype(S64) if self.limits else self.dialect.index64, text)

    # -------------------------------------------------------------------------------------------------- values

    def value(self, e: ir.Expr, parent: int = 0) -> str:
        """An expression of the element type of `e`."""
        text, level = self._value(e)
        return f"({text})" if level < parent else text

    def _value(self, e: ir.Expr) -> tuple[str, int]:
        d = self.dialect
        if isinstance(e, ir.Const):
            text = d.literal(e.value, e.dtype)
            return text, PREFIX if text.startswith("-") else PRIMARY
        if isinstance(e, ir.Var):
            if e.role is ir.Role.DIM or (e.role in _INDEX_ROLES and e.dtype not in (S32, S64)):
                return d.convert(d.ctype(e.dtype), self.variable(e)), PRIMARY
            return self.variable(e), PRIMARY
        if isinstance(e, ir.Unary):
            return self._unary(e)
        if isinstance(e, ir.Binary):
            return self._binary(e)
        if isinstance(e, ir.Select):
            condition = self.value(e.condition, CHOICE + 1)
            return f"{condition} ? {self.value(e.then, CHOICE)} : {self.value(e.other, CHOICE)}", CHOICE
        if isinstance(e, ir.Cast):
            if e.dtype is S64 and isinstance(e.operand, ir.Var) and e.operand.role is ir.Role.DIM:
                text = self.variable(e.operand)
                return (text if self.limits is None else d.convert(d.ctype(S64), text)), PRIMARY
            source = e.operand.dtype
            moved = _moved(e.operand, e.dtype)
            if moved is not None:
                return self._value(moved)
            text = self._exact(e.operand, 0) if source in _UNSIGNED else self.value(e.operand)
            return d.cast(text, source, e.dtype), PRIMARY
        if isinstance(e, ir.Builtin):
            return self._builtin(e)
        if isinstance(e, ir.Load):
            return self.load(e), PRIMARY
        raise Unsupported(f"{type(e).__name__} is not supported by the {d.name} target yet")

    def _wrapped(self, text: str, level: int, dtype: DType) -> tuple[str, int]:
        """C computes narrow integers in `int`: bring the result back to its type."""
        if dtype.is_integer and dtype not in _WIDE:
            return self.dialect.cast(text, S32, dtype), PRIMARY
        return text, level

    def operand(self, e: ir.Expr, level: int) -> str:
        """A value as arithmetic takes it: floats below 32 bits as f32, narrow integers as int."""
        if is_narrow(e.dtype):
            return self.dialect.widen(self.value(e), e.dtype)
        if e.dtype.is_integer and e.dtype.bits < 8:
            return self.dialect.cast(self.value(e), e.dtype, S32)
        return self.value(e, level)

    def _unary(self, e: ir.Unary) -> tuple[str, int]:
        operand = self.operand(e.operand, PREFIX + 1)
        if is_narrow(e.dtype):
            return self.dialect.narrow(f"{e.op}{operand}", e.dtype), PRIMARY
        return self._wrapped(f"{e.op}{operand}", PREFIX, e.dtype)

    def _binary(self, e: ir.Binary) -> tuple[str, int]:
        op, kind, d = e.op, e.left.dtype, self.dialect
        if op in ("/", "%") and e.dtype.is_integer:
            divisor = integers.value(e.right)
            if divisor is None or divisor in (0, -1):
                return self._division(e, e.dtype), PRIMARY
        if op in ("<<", ">>"):
            amount = integers.value(e.right)
            if amount is None or not 0 <= amount < e.dtype.bits:
                low, high = integers.interval(e.right)
                if low is None or high is None or low < 0 or high >= e.dtype.bits:
                    name = "shl" if op == "<<" else "shr"
                    return d.helper(name, e.dtype, [self.value(e.left), self.index(e.right)]), PRIMARY
        level = binary_level(op)
        if is_narrow(kind) and op not in ("&&", "||"):
            text = f"{self.operand(e.left, level)} {op} {self.operand(e.right, level + 1)}"
            return (text, level) if e.dtype is BOOL else (d.narrow(text, e.dtype), PRIMARY)
        if kind is S64 and op in _COMPARISONS and _is_index(e.left) and _is_index(e.right):
            return f"{self.index(e.left, level)} {op} {self.index(e.right, level + 1)}", level
        if op in SEES_OVERFLOW:
            return self._wrapped(f"{self._exact(e.left, level)} {op} {self._exact(e.right, level + 1)}", level, e.dtype)
        return self._wrapped(f"{self.operand(e.left, level)} {op} {self.operand(e.right, level + 1)}", level, e.dtype)

    def _exact(self, e: ir.Expr, level: int) -> str:
        """An operand whose sign or size counts. C leaves open what an overflow of signed integers gives, and compilers
        conclude from it; the language wraps. So a sum or product that may overflow is computed without sign."""
        if e.dtype in _UNSIGNED and _is_sum(e) and not (e.dtype is S32 and fits(e)) and not _is_index(e):
            return self.dialect.convert(self.dialect.ctype(e.dtype), self._modular(e, 0))
        return self.operand(e, level)

    def _modular(self, e: ir.Expr, level: int) -> str:
        """A signed integer modulo the size of its type, without sign."""
        if isinstance(e, ir.Binary) and _is_sum(e):
            own = binary_level(e.op)
            text = f"{self._modular(e.left, own)} {e.op} {self._modular(e.right, own + 1)}"
            return f"({text})" if own < level else text
        if isinstance(e, ir.Unary) and _is_sum(e):
            return f"-{self._modular(e.operand, PREFIX + 1)}"
        return self.dialect.convert(self.dialect.ctype(_UNSIGNED[e.dtype]), self.value(e))

    def _division(self, e: ir.Binary, dtype: DType | None) -> str:
        name = "div" if e.op == "/" else "mod"
        if dtype is None:
            text = self.dialect.helper(name, None, [self.index(e.left), self.index(e.right)])
        else:
            text = self.dialect.helper(name, dtype, [self.value(e.left), self.value(e.right)])
        return self.divide(e, text) if e.checked else text

    def _builtin(self, e: ir.Builtin) -> tuple[str, int]:
        if e.name in ("__max", "__min", "cdiv", "__alignup", "__aligndown") and e.dtype.is_integer:
            name = "ceildiv" if e.name == "cdiv" else e.name[2:]
            return self.dialect.helper(name, e.dtype, [self.value(a) for a in e.args]), PRIMARY
        name = _RENAMED.get(e.name, e.name[2:] if e.name in _MATH else "")
        if not name:
            raise Unsupported(f"the builtin {e.name} is not supported by the {self.dialect.name} target yet")
        kind = F64 if e.args and e.args[0].dtype is F64 else F32
        args = [self.operand(a, 0) for a in e.args]
        text = self.dialect.math(name, kind, args)
        return (self.dialect.narrow(text, e.dtype) if is_narrow(e.dtype) else text), PRIMARY

    def converted(self, e: ir.Expr, dtype: DType, exact: bool = False) -> str:
        """A value in another element type; `exact`: a sum wraps for certain (see `overflow`)."""
        text = self._exact(e, 0) if exact and e.dtype is dtype else self.value(e)
        if e.dtype is dtype or {e.dtype, dtype} <= {F32, TF32}:
            return text
        return self.dialect.cast(text, e.dtype, dtype)

    # ----------------------------------------------------------------------------------------------- elements

    def element(self, view: ir.View, index: tuple[ir.Expr, ...]) -> str:
        """The element of a view as an lvalue, unchecked."""
        register = self.registers(view, index)
        if register is not None:
            return register
        return f"{self.pointer(view.buffer)}[{self.place(view.buffer, buffer_offset(view, index))}]"

    def place(self, buffer: ir.Buffer, offset: ir.Expr) -> str:
        """The position of an element in memory, from its logical offset in the whole buffer."""
        size = integers.product((*buffer.shape, *map(integers.constant, buffer.slots)))
        count = integers.value(size)
        if count is None and self.limits is not None:
            self.modular = self.limits.admit(size)
        else:
            self.modular = count is not None and count < 1 << 31
        text = self.index(offset)
        self.modular = False
        mask = swizzle_mask(buffer)
        return f"croq_swizzle({text}, {mask})" if mask else text

    def load(self, e: ir.Load) -> str:
        access = self.element(e.view, e.index)
        if not e.checks and not e.view.checks:
            return access
        return self.guard(e, access)


def swizzle_mask(buffer: ir.Buffer) -> int:
    """What `croq_swizzle` takes: the bits of an element's offset that are combined with those three places above, so
    that chunks of 16 bytes of successive rows of 128 bytes lie in different banks. 0 where the layout is plain."""
    if not buffer.layout or buffer.storage is not ir.Storage.SHARED:
        return 0
    return {32: 0x10, 64: 0x30, 128: 0x70}[buffer.layout] // buffer.dtype.size


def _in(text: Text, parent: int) -> str:
    return f"({text[0]})" if text[1] < parent else text[0]


def depends_on(e: ir.Node | tuple[ir.Node, ...], names: set[str]) -> bool:
    """Whether an expression has one of these variables."""
    return any(isinstance(node, ir.Var) and node.name in names for node in walk(e))


def plus(pointer: str, offset: str) -> str:
    """The text of a pointer moved by an offset."""
    if offset == "0":
        return pointer
    return f"{pointer} + {offset}" if not set(offset) & set("?&|<>=") else f"{pointer} + ({offset})"


__all__ = ["PLUS", "Expressions", "depends_on", "fits", "plus", "swizzle_mask"]
