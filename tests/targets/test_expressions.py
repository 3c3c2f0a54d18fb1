"""Scalar expressions on the CPU: the element types' own arithmetic, compared with NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest

from croq_magic.compiler import ir
from croq_magic.compiler.types import BF16, BOOL, F16, F32, F64, S8, S16, S32, S64, U8, U16, U32, U64, DType
from tests import ir_builders as b
from tests.targets.run_ir import numpy_type, run

RNG = np.random.default_rng(2)


def evaluate(make: object, *arrays: np.ndarray, types: Sequence[DType], result: DType) -> np.ndarray:
    """`make(x, y, ...)` for every element."""
    count = len(arrays[0])
    params = [b.param(f"x{i}", (count,), dtype) for i, dtype in enumerate(types)]
    i = b.index("i", count)
    loads = [b.at(p.buffer, i) for p in params if p.buffer is not None]
    out = b.buffer("out", (count,), result, zeroed=True)
    body = b.loop("i", count, [b.store(out, (i,), make(*loads))])  # type: ignore[operator]
    return run(b.returning("f", params, out, [body]), *arrays)


def binary(op: str, dtype: DType, result: DType | None = None):
    return lambda x, y: ir.Binary(op, x, y, result or dtype)


def limits(dtype: DType, count: int = 200) -> np.ndarray:
    kind = np.dtype(dtype.numpy)
    low, high = dtype.range
    edge = [low, low + 1, -1 if low else 1, 0, 1, 2, high - 1, high]
    middle = RNG.integers(low, high, count - len(edge), dtype=kind, endpoint=True)
    return np.concatenate([np.array([e for e in edge if low <= e <= high], kind), middle])[:count]


WIDE = [S32, U32, S64, U64]


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("op", ["+", "-", "*", "&", "|", "^"])
def test_integers_wrap(dtype: DType, op: str) -> None:
    x, y = limits(dtype), RNG.permutation(limits(dtype))
    function = {
        "+": np.add,
        "-": np.subtract,
        "*": np.multiply,
        "&": np.bitwise_and,
        "|": np.bitwise_or,
        "^": np.bitwise_xor,
    }
    with np.errstate(over="ignore"):
        expect = function[op](x, y)
    got = evaluate(binary(op, dtype), x, y, types=(dtype, dtype), result=dtype)
    np.testing.assert_array_equal(got, expect)


@pytest.mark.parametrize("dtype", WIDE)
def test_division_truncates_and_never_traps(dtype: DType) -> None:
    x, y = limits(dtype), RNG.permutation(limits(dtype))
    low = dtype.range[0]

    def quotient(a: int, d: int) -> int:
        if d == 0:
            return 0
        q = abs(a) // abs(d) * (1 if (a < 0) == (d < 0) else -1)
        return low if q == -low != 0 else q  # the one quotient that does not fit wraps

    expect = [quotient(int(a), int(d)) for a, d in zip(x, y, strict=True)]
    rest = [int(a) - quotient(int(a), int(d)) * int(d) if d else 0 for a, d in zip(x, y, strict=True)]
    rest = [0 if d in (-1, 1) else r for r, d in zip(rest, map(int, y), strict=True)]
    kind = np.dtype(dtype.numpy)
    np.testing.assert_array_equal(
        evaluate(binary("/", dtype), x, y, types=(dtype,) * 2, result=dtype), np.array(expect, kind)
    )
    np.testing.assert_array_equal(
        evaluate(binary("%", dtype), x, y, types=(dtype,) * 2, result=dtype), np.array(rest, kind)
    )


@pytest.mark.parametrize("amount", [-1, 0, 1, 31, 32, 40])
def test_shifts_of_any_amount(amount: int) -> None:
    x = limits(S32)
    y = np.full_like(x, amount)
    left = [0 if not 0 <= amount < 32 else (int(v) << amount) & 0xFFFFFFFF for v in x]
    right = [-1 if v < 0 else 0 for v in x] if not 0 <= amount < 32 else [int(v) >> amount for v in x]
    got = evaluate(binary("<<", S32), x, y, types=(S32, S32), result=S32)
    np.testing.assert_array_equal(got.view(np.uint32), np.array(left, np.uint32))
    np.testing.assert_array_equal(evaluate(binary(">>", S32), x, y, types=(S32, S32), result=S32), right)


@pytest.mark.parametrize("target", [S8, U8, S16, U16, S32, U32, S64, U64])
@pytest.mark.parametrize("source", [F32, F64])
def test_float_to_integer_saturates(source: DType, target: DType) -> None:
    low, high = target.range
    values = [
        0.0,
        -0.9,
        0.9,
        1.5,
        -1.5,
        1e30,
        -1e30,
        np.inf,
        -np.inf,
        np.nan,
        float(low),
        float(high),
        127.9,
        -128.9,
        3e9,
        -3e9,
    ]
    x = np.array(values, source.numpy)
    expect = []
    for v in x:
        if np.isnan(v):
            expect.append(0)
        elif np.isinf(v):
            expect.append(high if v > 0 else low)
        else:
            expect.append(min(high, max(low, int(v))))
    got = evaluate(lambda e: ir.Cast(e, target), x, types=(source,), result=target)
    np.testing.assert_array_equal(got, np.array(expect, target.numpy))


@pytest.mark.parametrize("target", [S8, U8, S16, U16, S32, U32, S64, U64, BOOL])
@pytest.mark.parametrize("source", [S8, U8, S32, U32, S64, U64])
def test_integer_to_integer_wraps(source: DType, target: DType) -> None:
    x = limits(source)
    got = evaluate(lambda e: ir.Cast(e, target), x, types=(source,), result=target)
    np.testing.assert_array_equal(got, x.astype(target.numpy))


@pytest.mark.parametrize("dtype", [F16, BF16])
def test_16_bit_floats_round_to_nearest_even(dtype: DType) -> None:
    kind = numpy_type(dtype)
    every = np.arange(1 << 16, dtype=np.uint16).view(kind)  # every value there is survives the way to f32 and back
    back = evaluate(lambda e: ir.Cast(ir.Cast(e, F32), dtype), every, types=(dtype,), result=dtype)
    ok = ~np.isnan(every.astype(np.float32))
    np.testing.assert_array_equal(back.view(np.uint16)[ok], every.view(np.uint16)[ok])
    assert np.isnan(back.astype(np.float32)[~ok]).all()
    bits = RNG.integers(0, 1 << 32, 20000, dtype=np.uint32)
    x = bits.view(np.float32)
    x = np.concatenate([x[~np.isnan(x)], np.float32([65519.9, 65520, 6e-8, 2.9e-8, 1e-40, np.inf, -np.inf, 3.4e38])])
    with np.errstate(over="ignore"):
        expect = x.astype(kind)
    got = evaluate(lambda e: ir.Cast(e, dtype), x, types=(F32,), result=dtype)
    np.testing.assert_array_equal(got.view(np.uint16), expect.view(np.uint16))


def test_f16_expression_rounds_once() -> None:
    x, y = RNG.random(500).astype(np.float16), (RNG.random(500) * 100).astype(np.float16)

    def product_and_sum(a: ir.Expr, c: ir.Expr) -> ir.Expr:
        wide = [ir.Cast(e, F32) for e in (a, c)]
        return ir.Cast(ir.Binary("+", ir.Binary("*", *wide, F32), wide[0], F32), F16)

    expect = (x.astype(np.float32) * y.astype(np.float32) + x.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(evaluate(product_and_sum, x, y, types=(F16, F16), result=F16), expect)


def test_no_contraction() -> None:
    x, y, z = (RNG.random(2000, np.float32) for _ in range(3))
    make = lambda a, c, d: ir.Binary("-", ir.Binary("*", a, c, F32), d, F32)  # noqa: E731
    np.testing.assert_array_equal(evaluate(make, x, y, z, types=(F32,) * 3, result=F32), x * y - z)


def ulp_error(got: np.ndarray, exact: np.ndarray) -> float:
    finite = np.isfinite(exact) & (np.abs(exact) > np.finfo(np.float32).tiny) & (np.abs(exact) < 3e38)
    spacing = np.spacing(np.abs(exact[finite]).astype(np.float32)).astype(np.float64)
    return float(np.max(np.abs(got[finite].astype(np.float64) - exact[finite]) / spacing))


def builtin(name: str, dtype: DType):
    return lambda *args: ir.Builtin(name, args, dtype)


def test_exp_of_f32() -> None:
    x = np.concatenate([np.linspace(-104, 89, 20001), [0, -0.0, 88.72, 88.73, 100, 1e30, -1e30]]).astype(np.float32)
    got = evaluate(builtin("__exp", F32), x, types=(F32,), result=F32)
    with np.errstate(over="ignore"):
        exact = np.exp(x.astype(np.float64))
        assert ulp_error(got, exact) < 2
        np.testing.assert_allclose(got, exact.astype(np.float32), rtol=2e-7, atol=2e-45)
    special = np.array([np.inf, -np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(
        evaluate(builtin("__exp", F32), special, types=(F32,), result=F32), [np.inf, 0, np.nan]
    )


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize(
    "name, exact",
    [
        ("__tanh", np.tanh),
        ("__sigmoid", lambda x: 1 / (1 + np.exp(-x))),
        ("__softplus", lambda x: np.logaddexp(0, x)),
        ("__gelu", lambda x: 0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x**3)))),
        ("__sin", np.sin),
        ("__exp2f", np.exp2),
        ("__floor", np.floor),
        ("__ceil", np.ceil),
        ("__sign", np.sign),
        ("__fabs", np.abs),
        ("__isfinite", lambda x: np.isfinite(x).astype(float)),
        ("__round", lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5)),
    ],
)
def test_builtins(name: str, exact: object, dtype: DType) -> None:
    if name == "__exp2f":
        dtype = F32  # the one type it is defined for
    x = np.concatenate([np.linspace(-20, 20, 4001), [0.5, -0.5, 2.5, 1e-5, -1e-5]]).astype(dtype.numpy)
    got = evaluate(builtin(name, dtype), x, types=(dtype,), result=dtype)
    rtol = 1e-6 if dtype is F32 else 1e-8
    np.testing.assert_allclose(got, exact(x.astype(np.float64)), rtol=rtol, atol=rtol)  # type: ignore[operator]


def test_max_and_min_ignore_nan() -> None:
    x = np.array([1, np.nan, 3, np.nan, -0.5], np.float32)
    y = np.array([2, 5, np.nan, np.nan, -1], np.float32)
    np.testing.assert_array_equal(evaluate(builtin("__max", F32), x, y, types=(F32, F32), result=F32), np.fmax(x, y))
    np.testing.assert_array_equal(evaluate(builtin("__min", F32), x, y, types=(F32, F32), result=F32), np.fmin(x, y))


def test_selection_evaluates_one_side() -> None:
    x = np.array([0, 2, 5, 0], np.int32)
    make = lambda e: ir.Select(  # noqa: E731
        ir.Binary("==", e, b.const(0), BOOL), b.const(-1), ir.Binary("/", b.const(10), e, S32), S32
    )
    np.testing.assert_array_equal(evaluate(make, x, types=(S32,), result=S32), [-1, 5, 2, -1])


@pytest.mark.parametrize(
    "dtype, value",
    [(S32, -(1 << 31)), (S64, -(1 << 63)), (S64, (1 << 63) - 1), (U64, (1 << 64) - 1), (U32, 1 << 31), (F32, 0.1),
     (F64, 1e-310), (F32, float("inf")), (F16, 65504.0), (BF16, 1.5), (S8, -128), (U8, 255), (BOOL, True)],
)  # fmt: skip
def test_literals_are_exact(dtype: DType, value: float) -> None:
    kind = ml_dtypes.bfloat16 if dtype is BF16 else np.dtype(dtype.numpy)
    got = evaluate(lambda e: ir.Const(value, dtype), np.zeros(1, np.int32), types=(S32,), result=dtype)
    np.testing.assert_array_equal(got, np.array([value], kind))
