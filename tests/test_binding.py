"""Values and parameters: what is accepted, what is refused, and what a refusal says."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from croq_magic.arguments import numpy_dtype
from croq_magic.binding import Binder, Bound
from croq_magic.compiler import describe, integers, ir, types
from croq_magic.errors import BindError, CheckError

_PARAM = re.compile(r"(global )?(\w+)(?: \[([^\]]*)\](&)?)? (\w+)")


def extents(text: str, name: str = "") -> tuple[ir.Expr, ...]:
    parts = [part.strip() for part in text.split(",")]
    return tuple(
        integers.constant(int(p)) if p.isdigit() else ir.Var(f"{name}_{i}" if p == "?" else p, types.S32, ir.Role.DIM)
        for i, p in enumerate(parts)
    )


def param(text: str) -> ir.Param:
    """`global f32 [M, 4]& x` as a parameter."""
    match = _PARAM.fullmatch(text)
    assert match, text
    is_global, type_name, shape, mark, name = match.groups()
    if type_name == "stream":
        return ir.Param(name, "stream", None)
    dtype = types.BY_NAME[type_name]
    if shape is None:
        return ir.Param(name, "scalar", dtype, var=ir.Var(name, dtype, ir.Role.PARAM))
    written = bool(mark or is_global)
    return ir.Param(
        name,
        "span",
        dtype,
        extents=extents(shape, name),
        in_out=bool(mark),
        is_global=bool(is_global),
        written=written,
    )


def binder(*params: str, result: str | None = None, checks: tuple[ir.Assert, ...] = ()) -> Binder:
    declared = tuple(map(param, params))
    dims = dict.fromkeys(e for p in declared for e in p.extents if isinstance(e, ir.Var))
    returned = None
    if result is not None:
        returned = ir.Result(types.F32, extents(result))
    return Binder(describe.signature(ir.Function("f", declared, returned, (), tuple(dims), checks)))


def bind(b: Binder, *args: Any, **kwargs: Any) -> Bound:
    return b.bind(b.arrange(args, kwargs))


def refusal(b: Binder, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(BindError) as caught:
        bind(b, *args, **kwargs)
    return str(caught.value)


ONE = binder("s32 [4, 8] v")


# --------------------------------------------------------------------------------------------------- accepted arrays


def layouts() -> list[Any]:
    base = np.arange(32, dtype=np.int32).reshape(4, 8)
    read_only = base.copy()
    read_only.flags.writeable = False
    raw = np.zeros(32 * 4 + 1, np.uint8)[1:].view(np.int32).reshape(4, 8)
    raw[...] = base
    return [
        pytest.param(base, id="contiguous"),
        pytest.param(np.asfortranarray(base), id="fortran"),
        pytest.param(base[::-1, ::-1], id="negative strides"),
        pytest.param(np.repeat(base, 2, axis=1)[:, ::2], id="strided"),
        pytest.param(np.broadcast_to(base[:1], (4, 8)), id="broadcast"),
        pytest.param(read_only, id="read-only"),
        pytest.param(raw, id="misaligned"),
        pytest.param(base.view(np.matrix), id="matrix"),
    ]


@pytest.mark.parametrize("array", layouts())
def test_any_layout_is_read_right(array: np.ndarray) -> None:
    (value,) = bind(ONE, array).values
    assert value.flags.c_contiguous and value.flags.aligned
    assert type(value) is np.ndarray
    np.testing.assert_array_equal(value, array)


def test_contiguous_arrays_are_not_copied() -> None:
    array = np.zeros((4, 8), np.int32)
    assert np.shares_memory(bind(ONE, array).values[0], array)


@pytest.mark.parametrize("name", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "f16", "bf16", "f32", "f64"])
def test_element_types(name: str) -> None:
    dtype = numpy_dtype(types.BY_NAME[name])
    b = binder(f"{name} [3] x")
    assert bind(b, np.ones(3, dtype)).values[0].dtype == dtype
    other = np.float32 if name != "f32" else np.float64
    assert f"expected {dtype.name} ({name})" in refusal(b, np.ones(3, other))


def test_bfloat16_comes_from_ml_dtypes() -> None:
    assert numpy_dtype(types.BF16) == np.dtype(ml_dtypes.bfloat16)
    assert "pass x.astype(ml_dtypes.bfloat16)" in refusal(binder("bf16 [2] x"), np.ones(2, np.float32))


def test_c_type_names_of_equal_types_are_equal() -> None:
    b = binder("s64 [2] x")
    assert bind(b, np.zeros(2, np.longlong)).values[0].dtype == np.int64


# ---------------------------------------------------------------------------------------------------- refused arrays


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.zeros((4, 8)), ["has elements of type float64, expected int32 (s32)", "pass v.astype(np.int32)"]),
        (np.zeros((4, 7), np.int32), ["dim 1 is 7, expected 8", "pass np.pad(v, ((0, 0), (0, 1)))"]),
        (np.zeros((5, 9), np.int32), ["dim 0 is 5, expected 4", "dim 1 is 9, expected 8", "pass v[:4, :8]"]),
        (np.zeros((8, 4), np.int32), ["dim 0 is 8, expected 4", "pass v.T"]),
        (np.zeros(32, np.int32), ["has rank 1, expected 2", "pass v.reshape(4, 8)"]),
        (np.zeros((1, 4, 8), np.float32), ["has rank 3, expected 2", "pass v.reshape(4, 8).astype(np.int32)"]),
        (np.zeros((4, 8), ">i4"), ["int32 in the other byte order", "pass v.astype(np.int32)"]),
        (np.zeros((4, 8), object), ["has elements of type object", "pass v.astype(np.int32)"]),
        (np.zeros((4, 8), np.complex64), ["pass v.real.astype(np.int32)"]),
        (np.zeros((4, 8), [("a", "i4")]), ["has elements of type void32"]),
        (np.ma.masked_array(np.zeros((4, 8), np.int32)), ["is a masked array", "pass v.filled(0)"]),
        (np.int32(3), ["needs an array", "int32 scalar 3", "pass np.full((4, 8), v, dtype=np.int32)"]),
        (np.array(3, np.int32), ["has rank 0, expected 2"]),
        (np.zeros((0, 8), np.int32), ["dim 0 is 0, expected 4"]),
        ([[1] * 8] * 4, ["needs an array", "a value of type list", "pass np.array(v, dtype=np.int32)"]),
        (None, ["needs an array", "given:    None"]),
        ("text", ["needs an array", "a value of type str"]),
    ],
)
def test_refused_arrays(array: Any, expected: list[str]) -> None:
    message = refusal(ONE, array)
    assert message.startswith("f: parameter `v` ")
    assert "declared: s32 [4, 8] v" in message
    for part in expected:
        assert part in message


def test_suggestions_work() -> None:
    """Every suggested expression gives an array that is accepted."""
    for shape in [(4, 7), (5, 9), (8, 4), (32,), (1, 4, 8), (4, 9)]:
        v = np.ones(shape, np.float64)
        hint = refusal(ONE, v).rpartition("pass ")[2]
        bind(ONE, eval(hint, {"np": np, "v": v}))


def test_suggestions_use_the_expression_that_was_bound() -> None:
    with pytest.raises(BindError, match=r"pass \(a \+ b\)\.astype\(np\.int32\)"):
        ONE.bind([np.zeros((4, 8))], {"v": "a + b"})


def test_buffers_of_other_libraries_on_the_cpu() -> None:
    class Tensor:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **kwargs: Any) -> Any:
            return self.array.__dlpack__(**kwargs)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    array = np.arange(32, dtype=np.int32).reshape(4, 8)
    (value,) = bind(ONE, Tensor(array)).values
    assert np.shares_memory(value, array)


def test_arrays_in_device_memory_are_refused_on_the_cpu() -> None:
    class Tensor:
        shape, dtype = (4, 8), "int32"

        def __dlpack__(self, **kwargs: Any) -> Any:
            raise AssertionError("must not be asked")

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

    assert "is in device memory" in refusal(ONE, Tensor())


# ------------------------------------------------------------------------------------------------- symbolic extents


def test_symbolic_dimensions() -> None:
    b = binder("f32 [M, K] a", "f32 [K, N] b", result="M, N")
    plan = bind(b, np.zeros((3, 4), np.float32), np.zeros((4, 5), np.float32)).plan
    assert plan.dims == {"M": 3, "K": 4, "N": 5}
    result = plan.new_result()
    assert result is not None and result.shape == (3, 5) and result.dtype == np.float32


def test_symbolic_dimensions_must_agree() -> None:
    b = binder("f32 [M, K] a", "f32 [K, N] b")
    message = refusal(b, np.zeros((8, 64), np.float32), np.zeros((32, 4), np.float32))
    assert message.startswith("f: dimension K is 64 in `a` (dim 1) but 32 in `b` (dim 0)")
    message = refusal(binder("f32 [M, M] a"), np.zeros((2, 3), np.float32))
    assert message.startswith("f: dimension M is 2 in `a` (dim 0) but 3 in `a` (dim 1)")


def test_anonymous_dimensions_are_independent() -> None:
    b = binder("f32 [?, ?] a")
    assert bind(b, np.zeros((2, 3), np.float32)).plan.dims == {"a_0": 2, "a_1": 3}
    assert "declared: f32 [?, ?] a" in refusal(b, np.zeros(3, np.float32))


def test_empty_arrays_are_refused() -> None:
    assert "parameter `a` dim 0 is 0; extents are at least 1" in refusal(binder("f32 [M] a"), np.zeros(0, np.float32))


def test_derived_extents_must_be_positive() -> None:
    m = ir.Var("M", types.S32, ir.Role.DIM)
    function = ir.Function(
        "f", (param("f32 [M] x"),), ir.Result(types.F32, (integers.floordiv(m, integers.constant(32)),)), (), (m,)
    )
    b = Binder(describe.signature(function))
    assert bind(b, np.zeros(70, np.float32)).plan.result_shape == (2,)
    with pytest.raises(CheckError, match="f: extent `M / 32` is 0"):
        bind(b, np.zeros(16, np.float32))


def test_entry_checks() -> None:
    m = ir.Var("M", types.S32, ir.Role.DIM)
    condition = ir.Binary("==", integers.mod(m, integers.constant(16)), integers.ZERO, types.BOOL)
    b = binder("f32 [M] x", checks=(ir.Assert(condition, "M must be a multiple of 16", values=(m,)),))
    bind(b, np.zeros(48, np.float32))
    with pytest.raises(CheckError, match=r"f: M must be a multiple of 16 \(M = 40\)"):
        bind(b, np.zeros(40, np.float32))


def test_entry_checks_that_read_scalars_are_made_for_every_value() -> None:
    n = ir.Var("n", types.S32, ir.Role.PARAM)
    condition = ir.Binary("<", n, integers.constant(8), types.BOOL)
    b = binder("f32 [4] x", "int n", checks=(ir.Assert(condition, "n is below 8", values=(n,)),))
    x = np.zeros(4, np.float32)
    bind(b, x, 7)
    with pytest.raises(CheckError, match=r"n is below 8 \(n = 9\)"):
        bind(b, x, 9)


# ---------------------------------------------------------------------------------------------------------- scalars


@pytest.mark.parametrize(
    ("declared", "value", "expected"),
    [
        ("int n", 5, 5),
        ("int n", np.int64(-7), -7),
        ("u8 n", np.int16(255), 255),
        ("u64 n", 2**64 - 1, 2**64 - 1),
        ("f32 n", 1.5, 1.5),
        ("f32 n", np.float64(0.1), 0.1),
        ("f32 n", 3, 3.0),
        ("f64 n", np.float32(0.5), 0.5),
        ("f32 n", float("inf"), float("inf")),
        ("bf16 n", ml_dtypes.bfloat16(2), 2.0),
        ("bool n", True, True),
        ("bool n", np.bool_(False), False),
    ],
)
def test_scalars(declared: str, value: Any, expected: Any) -> None:
    (bound,) = bind(binder(declared), value).values
    assert bound == expected and type(bound) is type(expected)


@pytest.mark.parametrize(
    ("declared", "value", "expected"),
    [
        ("int n", 1.0, ["needs an integer", "the float 1.0", "pass int(n)"]),
        ("int n", True, ["needs an integer", "pass int(n)"]),
        ("int n", 2**31, ["is 2147483648, outside the range of s32: -2147483648 to 2147483647"]),
        ("u8 n", -1, ["is -1, outside the range of u8: 0 to 255"]),
        ("u8 n", np.int64(256), ["is 256, outside the range of u8"]),
        ("int n", np.array(5), ["needs an integer", "pass n.item()"]),
        ("int n", np.float32(5), ["needs an integer", "pass int(n)"]),
        ("int n", None, ["needs an integer", "given:    None"]),
        ("f32 n", "1", ["needs a number", "pass float(n)"]),
        ("f32 n", 1e300, ["is 1e+300, outside the range of f32"]),
        ("f32 n", 2**24 + 1, ["is 16777217, which f32 cannot hold exactly", "pass float(n)"]),
        ("f32 n", 10**400, ["outside the range of f32"]),
        ("f32 n", 1j, ["needs a number"]),
        ("bool n", 1, ["needs a bool", "pass bool(n)"]),
    ],
)
def test_refused_scalars(declared: str, value: Any, expected: list[str]) -> None:
    message = refusal(binder(declared), value)
    assert f"declared: {param(declared).dtype} n" in message
    for part in expected:
        assert part in message


def test_streams_may_be_left_out() -> None:
    b = binder("f32 [2] x", "stream s")
    assert bind(b, np.zeros(2, np.float32)).values[1] == 0
    assert bind(b, np.zeros(2, np.float32), s=77).values[1] == 77


# ------------------------------------------------------------------------------------------------- in-out parameters

INOUT = binder("s32 [4, 8]& v")


def test_contiguous_in_out_arrays_are_bound_directly() -> None:
    array = np.zeros((4, 8), np.int32)
    bound = bind(INOUT, array)
    assert bound.written == bound.in_place == ["v"] and not bound.copied_back
    assert np.shares_memory(bound.values[0], array)


@pytest.mark.parametrize("make", [np.asfortranarray, lambda a: np.zeros((8, 16), np.int32)[::-2, ::-2]])
def test_other_in_out_layouts_are_written_back(make: Any) -> None:
    array = make(np.zeros((4, 8), np.int32))
    bound = bind(INOUT, array)
    assert bound.written == ["v"] and bound.in_place == []
    bound.values[0][...] = np.arange(32).reshape(4, 8)
    assert not array.any()
    bound.write_back()
    np.testing.assert_array_equal(array, np.arange(32).reshape(4, 8))


def test_in_out_arrays_must_be_writeable_and_have_one_place_per_element() -> None:
    array = np.zeros((4, 8), np.int32)
    array.flags.writeable = False
    message = refusal(INOUT, array)
    assert "is written by the function, but the array is read-only" in message and "pass v.copy()" in message
    shared = np.lib.stride_tricks.as_strided(np.zeros(11, np.int32), (4, 8), (4, 4))
    assert "several elements of the array share one place in memory" in refusal(INOUT, shared)


def test_an_input_that_overlaps_an_output_is_copied() -> None:
    b = binder("s32 [4] a", "s32 [4]& v")
    memory = np.arange(6, dtype=np.int32)
    bound = bind(b, memory[:4], memory[2:])
    assert not np.shares_memory(bound.values[0], bound.values[1])
    np.testing.assert_array_equal(bound.values[0], [0, 1, 2, 3])
    assert np.shares_memory(bound.values[1], memory)
    apart = np.arange(8, dtype=np.int32)
    bound = bind(b, apart[:4], apart[4:])
    assert np.shares_memory(bound.values[0], apart)


def test_one_array_for_several_parameters_is_written_itself() -> None:
    for written in range(3):
        b = binder(*(f"s32 [4]{'&' if i == written else ''} {name}" for i, name in enumerate("abc")))
        array = np.arange(4, dtype=np.int32)
        values = bind(b, array, array, array).values
        assert [np.shares_memory(value, array) for value in values] == [i == written for i in range(3)]


def test_two_outputs_must_not_overlap() -> None:
    b = binder("s32 [4]& v", "s32 [4]& w")
    memory = np.zeros(6, np.int32)
    message = refusal(b, memory[:4], memory[2:])
    assert "f: `v` and `w` share memory, and the function writes to both" in message and "w.copy()" in message
    bind(b, memory[:4], np.zeros(4, np.int32))


# ------------------------------------------------------------------------------------------------- names and counts


def test_arguments_by_position_and_name() -> None:
    b = binder("s32 [2] a", "int n")
    a = np.zeros(2, np.int32)
    for bound in (bind(b, a, 3), bind(b, a, n=3), bind(b, n=3, a=a)):
        assert bound.values[1] == 3


def test_wrong_names_and_counts() -> None:
    b = binder("s32 [2] lhs", "s32 [2] rhs")
    a = np.zeros(2, np.int32)
    assert "`rhs` is missing" in refusal(b, a)
    assert "`lhs` and `rhs` are missing" in refusal(b)
    assert "takes 2 arguments, 3 given" in refusal(b, a, a, a)
    message = refusal(b, a, rsh=a)
    assert "has no parameter `rsh`" in message and "did you mean `rhs`?" in message
    assert "parameter `lhs` is given twice" in refusal(b, a, lhs=a)
    assert "declared: void f(s32 [2] lhs, s32 [2] rhs)" in refusal(b, a)


def test_signature_text() -> None:
    b = binder("global f32 [M, 4] x", "s32 [?]& y", "int n", "stream s", result="M, 4")
    assert b.signature.text == "f32 [M, 4] f(global f32 [M, 4] x, s32 [?]& y, s32 n, stream s)"


def test_a_copy_that_no_memory_holds() -> None:
    import croq_magic as croq

    function = croq.compile("__co__ f32 first(f32 [N, N] x) { return x.at(0, 0); }", target="cpu").first
    huge = np.broadcast_to(np.float32(1), (1 << 20, 1 << 20))
    with pytest.raises(
        croq.TargetError, match=r"not enough memory for a contiguous copy of an argument \(4.1e\+03 GiB\)"
    ):
        function(huge)
