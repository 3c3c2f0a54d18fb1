"""Promotion and implicit conversion of scalars (types-and-shapes section 4, TYP codes).

16-bit and smaller floats are computed in f32: `value_of` widens them, `store_as` rounds once.
"""

from __future__ import annotations

from croq_magic.compiler import integers, ir
from croq_magic.compiler.check.context import Checker
from croq_magic.compiler.check.values import Bounded, BoundedTuple, Scalar, Value, is_index
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import BF16, BOOL, F16, F32, F64, S32, TF32, U32, U64, DType


def compute_type(dtype: DType) -> DType:
    """The type in which values of `dtype` are computed."""
    if dtype.is_float:
        return dtype if dtype in (F32, F64) else F32
    if dtype is BOOL:
        return BOOL
    if dtype.bits < 32:
        return S32
    return dtype


def promote(dtype: DType) -> DType:
    """The type of a lone operand in arithmetic."""
    if dtype is BOOL or (dtype.is_integer and dtype.bits < 32):
        return S32
    if dtype.is_float and (dtype.bits < 16 or dtype is TF32):
        return F32
    return dtype


def common_type(c: Checker, a: DType, b: DType, span: Span) -> DType:
    """The type of an operation on `a` and `b`."""
    a, b = promote(a), promote(b)
    if a is b:
        return a
    if a.is_float and b.is_float:
        if {a, b} == {F16, BF16}:
            c.fail("TYP08", f"`{a}` and `{b}` have no common type", span, "convert one with `__to<f32>`")
        return a if a.bits > b.bits else b
    if a.is_float or b.is_float:
        return a if a.is_float else b
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return {32: U32, 64: U64}[a.bits]


def cast(e: ir.Expr, dtype: DType) -> ir.Expr:
    """Conversion without a message; constants are converted here."""
    if e.dtype is dtype:
        return e
    if isinstance(e, ir.Const):
        converted = constant_as(e.value, dtype)
        if converted is not None:
            return ir.Const(converted, dtype)
    return ir.Cast(e, dtype)


def constant_as(value: int | float | bool, dtype: DType) -> int | float | bool | None:
    """`value` as an exact value of `dtype`, or None if it has none (or only after rounding)."""
    if dtype is BOOL:
        return bool(value) if value in (0, 1) else None
    if dtype.is_integer:
        low, high = dtype.range
        if isinstance(value, float) and not value.is_integer():
            return None
        return int(value) if low <= value <= high else None
    if isinstance(value, int) and abs(value) > 1 << 53:
        return None
    return float(value) if dtype.holds(float(value)) else None


def value_of(s: Scalar, dtype: DType) -> ir.Expr:
    """The operand `s` converted to the compute type of `dtype`."""
    return cast(s.expr, compute_type(dtype))


def as_scalar(c: Checker, value: Value, span: Span, text: str = "") -> Scalar:
    """A number; reports spans, shapes and futures that stand where one is needed."""
    if isinstance(value, Scalar):
        return value
    if isinstance(value, Bounded):
        return value.scalar()
    if isinstance(value, BoundedTuple) and len(value.items) == 1:
        return value.items[0].scalar()
    from croq_magic.compiler.check.values import FutureValue, SpanValue

    name = f"`{text}`" if text else "this"
    if isinstance(value, SpanValue):
        c.fail(
            "TYP10",
            f"{name} is a span; use `.at(...)` for an element",
            span,
            f"`{text} += ...` changes all elements" if text else None,
        )
    if isinstance(value, FutureValue):
        c.fail(
            "TYP13", f"{name} is a future", span, f"`{text}.data.at(...)` is an element of its data" if text else None
        )
    c.fail("TYP10", f"{name} is {value.describe()}, a number is needed here", span)


def store_as(c: Checker, s: Scalar, dtype: DType, span: Span, text: str = "") -> ir.Expr:
    """Implicit conversion to `dtype`, with the warnings of the language; `text` is the source of the value."""
    source = s.narrow or s.type
    if source is not dtype and s.type is not dtype:
        _warn_conversion(c, s, source, dtype, span, text)
    return cast(s.expr, dtype)


def _warn_conversion(c: Checker, s: Scalar, source: DType, dtype: DType, span: Span, text: str) -> None:
    if isinstance(s.expr, ir.Const) and constant_as(s.expr.value, dtype) is not None:
        return
    if is_lossless(source, dtype):
        return
    if s.type.is_integer and is_index(s.expr) and _fits(s.expr, dtype):
        return
    if source.is_integer and dtype.is_integer and source.bits == dtype.bits:
        c.warn(
            "TYP07",
            f"conversion `{source}` to `{dtype}` keeps the bits but not the meaning",
            span,
            f"`__to<{dtype}>({text})` says that this is meant" if text else None,
        )
        return
    stored_only = dtype.is_float and dtype.bits < 8  # `__to` has no such types
    hint = None if stored_only else f"`__to<{dtype}>({text or '...'})`"
    c.warn("TYP06", f"conversion `{source}` to `{dtype}` may lose precision", span, hint)


def is_lossless(source: DType, dtype: DType) -> bool:
    """Whether every value of `source` is a value of `dtype`."""
    if source is dtype or source is BOOL:
        return True
    if source.is_integer and dtype.is_integer:
        low, high = source.range
        wide_low, wide_high = dtype.range
        return wide_low <= low and high <= wide_high
    if source.is_integer and dtype.is_float:
        return source.bits - source.is_signed <= dtype.mantissa
    if source.is_float and dtype.is_float:
        return source.mantissa <= dtype.mantissa and source.bits <= dtype.bits
    return False


def _fits(e: ir.Expr, dtype: DType) -> bool:
    low, high = integers.interval(e)
    if low is None or high is None:
        return False
    if dtype.is_integer:
        return dtype.range[0] <= low and high <= dtype.range[1]
    return dtype.is_float and max(abs(low), abs(high)) <= 1 << dtype.mantissa


def condition_of(c: Checker, value: Value, span: Span) -> ir.Expr:
    """A truth value: bool as it is, a number is tested against zero."""
    s = as_scalar(c, value, span)
    if s.type is BOOL:
        return s.expr
    return ir.Binary("!=", s.expr, cast(ir.Const(0), s.expr.dtype), BOOL)
