"""The conformance programs: 57 tileflow functions with inputs and the results NumPy gives for them.

The programs lie in `conformance/`, one file each. `PROGRAMS` has an entry for every one:

    for entry in PROGRAMS:
        case = entry.case()
        # call entry.function of entry.source() with case.inputs, compare with case.expected

Integer results are exact; floats agree within `rtol` and `atol`. Every target gives the same results; C56 and C57 need
sm_90a on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).with_name("conformance")


@dataclass(frozen=True)
class Case:
    """Inputs by parameter name, in the order of the parameters, and the expected result.

    `written` names the parameter whose contents after the call are expected, for functions that return nothing.
    """

    inputs: dict[str, Any]
    expected: Any
    written: str | None = None
    rtol: float = 1e-6
    atol: float = 0.0

    def check(self, result: Any) -> None:
        """Compares a result: integers and bools exactly, floats within the tolerance."""
        result, expected = np.asarray(result), np.asarray(self.expected)
        assert result.shape == expected.shape
        assert result.dtype == expected.dtype
        if expected.dtype.kind in "iub":
            np.testing.assert_array_equal(result, expected)
        else:
            np.testing.assert_allclose(
                result.astype(np.float64), expected.astype(np.float64), rtol=self.rtol, atol=self.atol
            )


@dataclass(frozen=True)
class Conformance:
    """One program: its file, the function to call, and what makes inputs and expectation."""

    name: str
    function: str
    case: Callable[[], Case]

    def source(self) -> str:
        return (FOLDER / f"{self.name}.co").read_text()

    @property
    def summary(self) -> str:
        return self.case.__doc__ or ""


PROGRAMS: list[Conformance] = []


def program(name: str, function: str) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    def register(case: Callable[[], Case]) -> Callable[[], Case]:
        PROGRAMS.append(Conformance(name, function, case))
        return case

    return register


@program("C01_identity", "keep")
def c01() -> Case:
    """Parameter returned."""
    v = np.arange(5, dtype=np.int32) - 2
    expected = v
    return Case({"v": v}, expected)


@program("C02_element_wise", "mix")
def c02() -> Case:
    """2-D parallel, `.span`."""
    x = np.arange(21, dtype=np.int32).reshape(3, 7)
    y = x * x
    expected = 3 * x - y
    return Case({"x": x, "y": y}, expected)


@program("C03_host_only", "total")
def c03() -> Case:
    """Host loop, mutable, scalar result."""
    v = np.array([3, -1, 4, 1, -5, 9, 2, 6, -5], dtype=np.int32)
    expected = np.int32(v.sum())
    return Case({"v": v}, expected)


@program("C04_clamp", "clip")
def c04() -> Case:
    """Float scalars, ternary."""
    x = np.linspace(-3, 3, 40).astype(np.float32)
    lo = np.float32(-1.0)
    hi = np.float32(2.0)
    expected = np.clip(x, lo, hi)
    return Case({"x": x, "lo": lo, "hi": hi}, expected)


@program("C05_composition", "stairs")
def c05() -> Case:
    """Comma form, `#` of three variables."""
    expected = np.arange(24, dtype=np.int32) * 10
    return Case({}, expected)


@program("C06_in_out_parameter", "bump")
def c06() -> Case:
    """`&`, compound assignment."""
    v = np.arange(20, dtype=np.int32)
    k = 7
    expected = v + 7
    return Case({"v": v, "k": k}, expected, written="v")


@program("C07_conversion", "cut")
def c07() -> Case:
    """`__to`, float to int truncation."""
    x = np.array([-3, -2, -1, -0.5, 0, 0.5, 1, 2, 3], dtype=np.float32)
    expected = np.trunc(x * np.float32(1.5)).astype(np.int32)
    return Case({"x": x}, expected)


@program("C08_loop_ranges", "comb")
def c08() -> Case:
    """`with`, offset and stride. (needs zero-filled result)."""
    expected = np.where((np.arange(11) % 2 == 1) & (np.arange(11) < 10), np.arange(11), 0).astype(np.int32)
    return Case({}, expected)


@program("C09_neighbour_difference", "steps")
def c09() -> Case:
    """Range start, index arithmetic."""
    x = (np.arange(12, dtype=np.int32) ** 2) % 17
    expected = np.diff(x, prepend=np.int32(0))
    return Case({"x": x}, expected)


@program("C10_while_branch", "hail")
def c10() -> Case:
    """Data-dependent loop per thread."""

    def hail(v):
        n = 0
        while v != 1:
            v = v // 2 if v % 2 == 0 else 3 * v + 1
            n += 1
        return n

    expected = np.array([hail(i + 1) for i in range(20)], dtype=np.int32)
    return Case({}, expected)


@program("C11_break_and_continue", "firstneg")
def c11() -> Case:
    """Loop control."""
    x = (np.arange(48, dtype=np.int32).reshape(6, 8) * 7) % 23 - 11
    expected = np.array(
        [
            (
                lambda row: (
                    lambda k: (
                        (k if k is not None else -1) * 10
                        + sum(1 for j, q in enumerate(row) if q % 2 and (k is None or j <= k))
                    )
                )(next((j for j, q in enumerate(row) if q % 2 and q < 0), None))
            )(r)
            for r in x.tolist()
        ],
        dtype=np.int32,
    )
    return Case({"x": x}, expected)


@program("C12_yield", "skip")
def c12() -> Case:
    """Early end of an instance. (needs zero-filled result)."""
    expected = np.where(np.arange(15) % 3 == 0, 0, np.arange(15)).astype(np.int32)
    return Case({}, expected)


@program("C13_local_tiles", "affine")
def c13() -> Case:
    """`dma.copy => local`, explicit local buffer, store back."""
    x = np.arange(48, dtype=np.int32)
    expected = 2 * x + np.arange(48, dtype=np.int32) // 8
    return Case({"x": x}, expected)


@program("C14_shared_tiles", "tint")
def c14() -> Case:
    """Block/thread nest, shared reuse."""
    x = np.arange(192, dtype=np.int32).reshape(12, 16)
    expected = x.reshape(3, 4, 16)[:, ::-1].reshape(12, 16) * 2 + np.arange(16, dtype=np.int32)
    return Case({"x": x}, expected)


@program("C15_tile_with_two_indices", "shiftall")
def c15() -> Case:
    """Bounded ituple, `with` + `foreach`."""
    x = np.arange(360, dtype=np.int32).reshape(4, 9, 10)
    expected = (
        x
        + (np.arange(9, dtype=np.int32) // 3 * 100)[None, :, None]
        + (np.arange(10, dtype=np.int32) // 2)[None, None, :]
    )
    return Case({"x": x}, expected)


@program("C16_padding", "frame")
def c16() -> Case:
    """`dma.pad` low/high/value."""
    x = np.arange(20, dtype=np.int32).reshape(4, 5)
    expected = np.pad(x, ((1, 0), (2, 3)), constant_values=-1)
    return Case({"x": x}, expected)


@program("C17_transposition", "flip")
def c17() -> Case:
    """`dma.transp<1,0>`."""
    x = np.arange(60, dtype=np.float32).reshape(6, 10)
    expected = x.T
    return Case({"x": x}, expected)


@program("C18_3_d_permutation", "spin")
def c18() -> Case:
    """`dma.transp<2,0,1>`."""
    x = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    expected = np.transpose(x, (2, 0, 1))
    return Case({"x": x}, expected)


@program("C19_strided_view", "thirds")
def c19() -> Case:
    """`.view(e : t).from`."""
    x = np.arange(60, dtype=np.int32).reshape(4, 15)
    expected = x[:, ::3]
    return Case({"x": x}, expected)


@program("C20_overlapping_tiles", "peaks")
def c20() -> Case:
    """`.subspan.step.at`, `__max` on integers."""
    x = (np.arange(18, dtype=np.int32) * 5) % 13
    expected = np.array([x[2 * p : 2 * p + 4].max() for p in range(8)], dtype=np.int32)
    return Case({"x": x}, expected)


@program("C21_ragged_tile", "roundup")
def c21() -> Case:
    """`.zfill`, `cdiv` extent."""
    x = np.arange(1, 22, dtype=np.int32)
    expected = np.pad(x, (0, 3))
    return Case({"x": x}, expected)


@program("C22_reshape", "unroll_rev")
def c22() -> Case:
    """`span_as` alias."""
    x = np.arange(24, dtype=np.int32).reshape(4, 6) * 3
    expected = x.reshape(-1)[::-1]
    return Case({"x": x}, expected)


@program("C23_squeeze", "swap01")
def c23() -> Case:
    """`.sqz` on both sides."""
    x = np.arange(105, dtype=np.int32).reshape(3, 5, 7)
    expected = x.transpose(1, 0, 2)
    return Case({"x": x}, expected)


@program("C24_1_d_stencil", "sum3")
def c24() -> Case:
    """Window with halo, `view/from`."""
    x = (np.arange(34, dtype=np.int32) * 3) % 11
    expected = x[:-2] + x[1:-1] + x[2:]
    return Case({"x": x}, expected)


@program("C25_2_d_stencil", "lap")
def c25() -> Case:
    """Two-dimensional halo."""
    x = (np.arange(324).reshape(18, 18) ** 2 % 29).astype(np.float32)
    expected = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1]
    return Case({"x": x}, expected)


@program("C26_buffer_arrays", "weave")
def c26() -> Case:
    """`shared T [..] t[n]`."""
    x = np.arange(16, dtype=np.int32)
    expected = x + (x[::-1] + 10) - (x + 20)
    return Case({"x": x}, expected)


@program("C27_whole_span_arithmetic", "blend")
def c27() -> Case:
    """`+=` span, `*=` scalar, broadcasting."""
    x = np.arange(48, dtype=np.int32).reshape(6, 8)
    b = np.arange(8, dtype=np.int32) - 4
    expected = (x + b) * 3
    return Case({"x": x, "b": b}, expected)


@program("C28_histogram", "tally")
def c28() -> Case:
    """Shared atomics, initialiser, barrier."""
    x = (np.arange(200, dtype=np.int32) ** 2) % 101
    expected = np.bincount(x % 10, minlength=10).astype(np.int32)
    return Case({"x": x}, expected)


@program("C29_global_atomics", "ends")
def c29() -> Case:
    """Min/max/cas on the result. (needs zero-filled result)."""
    x = (np.arange(64, dtype=np.int32) * 37) % 101 - 50
    expected = np.array([x.min(), x.max(), 42], dtype=np.int32)
    return Case({"x": x}, expected)


@program("C30_prefix_sum", "scan")
def c30() -> Case:
    """Barriers in a uniform loop."""
    x = (np.arange(32, dtype=np.int32) * 7) % 5
    expected = np.cumsum(x).astype(np.int32)
    return Case({"x": x}, expected)


@program("C31_tree_reduction", "energy")
def c31() -> Case:
    """One block per row."""
    x = (np.arange(320, dtype=np.int32).reshape(5, 64) % 9) - 4
    expected = (x * x).sum(axis=1).astype(np.int32)
    return Case({"x": x}, expected)


@program("C32_row_softmax", "soft")
def c32() -> Case:
    """Math builtin, `inthreads` in the middle."""
    x = (np.arange(192).reshape(6, 32) % 7 / 3).astype(np.float32)
    expected = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    return Case({"x": x}, expected, rtol=1e-5)


@program("C33_thread_masking", "mirror")
def c33() -> Case:
    """Two `inthreads` with joins."""
    x = np.arange(1, 65, dtype=np.int32)
    expected = np.where(np.arange(64) < 32, x, -x)[::-1]
    return Case({"x": x}, expected)


@program("C34_implicit_masking", "once")
def c34() -> Case:
    """Statement between levels runs once per block."""
    expected = 132 + np.arange(4, dtype=np.int32)
    return Case({}, expected)


@program("C35_three_levels", "ids")
def c35() -> Case:
    """Block, group, thread indices."""
    expected = (lambda i: 1000 * (i // 64) + 100 * (i // 32 % 2) + i % 32)(np.arange(128)).astype(np.int32)
    return Case({}, expected)


@program("C36_dynamic_matrix_product", "mm")
def c36() -> Case:
    """Symbolic dims, `auto`, zero-filled result."""
    a = np.arange(35, dtype=np.int32).reshape(5, 7) % 6
    b = np.arange(21, dtype=np.int32).reshape(7, 3) % 4
    expected = a @ b
    return Case({"a": a, "b": b}, expected)


@program("C37_anonymous_dimension", "rowsum")
def c37() -> Case:
    """`?`, `assert`, dynamic extent."""
    x = np.arange(48, dtype=np.float32).reshape(6, 8) / 4
    expected = x.sum(axis=1)
    return Case({"x": x}, expected)


@program("C38_two_kernels", "fold2")
def c38() -> Case:
    """Launch order makes results visible."""
    x = np.arange(30, dtype=np.int32)
    expected = (x + 1) * (x + 1)[::-1]
    return Case({"x": x}, expected)


@program("C39_launches_in_a_host_loop", "blur")
def c39() -> Case:
    """Host `dma.copy`, ping-pong in global memory."""
    x = np.arange(16, dtype=np.int32)
    times = 3

    def blur(v, n):
        for _ in range(n):
            v = v + np.roll(v, -1)
        return v

    expected = blur(x, times)
    return Case({"x": x, "times": times}, expected)


@program("C40_async_copies", "addrows")
def c40() -> Case:
    """Two loads in flight, one wait."""
    x = np.arange(256, dtype=np.int32).reshape(8, 32)
    y = x * 2
    expected = x + y[:, ::-1]
    return Case({"x": x, "y": y}, expected)


@program("C41_double_buffering", "fold")
def c41() -> Case:
    """`dma.any`, `swap`, prologue/epilogue."""
    x = np.arange(64, dtype=np.int32) % 10
    expected = (x.reshape(8, 8) * np.arange(1, 9, dtype=np.int32)[:, None]).sum(axis=0).astype(np.int32)
    return Case({"x": x}, expected)


@program("C42_ping_pong_by_select", "alt")
def c42() -> Case:
    """`select` as destination."""
    x = np.arange(24, dtype=np.int32).reshape(6, 4) + 1
    expected = (lambda e: (e.__setitem__((0, 0), x[4, 0] * 1000 + x[5, 0]), e)[1])(x.copy())
    return Case({"x": x}, expected)


@program("C43_rotation", "turn")
def c43() -> Case:
    """`rotate` of three handles."""
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    expected = np.roll(x, -1, axis=0)
    return Case({"x": x}, expected)


@program("C44_grid_barrier", "ring")
def c44() -> Case:
    """`block<cooperative>`."""
    x = np.arange(8, dtype=np.int32)
    expected = np.roll(2 * x, -1)
    return Case({"x": x}, expected)


@program("C45_producer_and_consumer", "relay")
def c45() -> Case:
    """Event ring with generations."""
    x = np.arange(512, dtype=np.int32).reshape(4, 128)
    expected = x[:, ::-1] * 2 + 1
    return Case({"x": x}, expected)


@program("C46_older_event_idiom", "relay2")
def c46() -> Case:
    """Slot indexing, consumer seeds the credits."""
    x = np.arange(384, dtype=np.int32).reshape(6, 64)
    expected = x
    return Case({"x": x}, expected)


@program("C47_device_function", "viacall")
def c47() -> Case:
    """`call` with result."""
    x = np.arange(16, dtype=np.int32) - 8
    expected = 2 * x + 5
    return Case({"x": x}, expected)


@program("C48_template_call", "backwards")
def c48() -> Case:
    """Pointer decay, template argument."""
    x = np.arange(24, dtype=np.int32).reshape(3, 8)
    expected = x[:, ::-1]
    return Case({"x": x}, expected)


@program("C49_macros", "grid")
def c49() -> Case:
    """Object and function macros, `#if`."""
    expected = (np.arange(6)[:, None] ** 2 + np.arange(12)[None, :]).astype(np.int32)
    return Case({}, expected)


@program("C50_builtins", "curve")
def c50() -> Case:
    """Several math functions."""
    x = np.linspace(-2, 2, 64).astype(np.float32)
    expected = np.sqrt(np.abs(x)) + np.tanh(x) / (1 + np.exp(-x)) + np.maximum(x, np.float32(0.5)) - np.floor(x)
    return Case({"x": x}, expected, rtol=1e-5, atol=1e-6)


@program("C51_half_precision", "axpy")
def c51() -> Case:
    """F16 arithmetic rounds once."""
    x = (np.arange(32) / 7).astype(np.float16)
    y = (np.arange(32) / 3 - 5).astype(np.float16)
    expected = (x.astype(np.float32) * y.astype(np.float32) + x.astype(np.float32)).astype(np.float16)
    return Case({"x": x, "y": y}, expected)


@program("C52_one_mma_tile", "tile")
def c52() -> Case:
    """F16 16×16×16, `row.col`."""
    a = (np.arange(512).reshape(32, 16) % 9 - 4).astype(np.float16)
    b = (np.arange(256).reshape(16, 16) % 7 - 3).astype(np.float16)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    return Case({"a": a, "b": b}, expected)


@program("C53_mma_with_a_k_loop", "gemm_nt")
def c53() -> Case:
    """Shared staging, `row.row`, 16×8×16."""
    a = (np.arange(3072).reshape(48, 64) % 7 - 3).astype(np.float16)
    b = (np.arange(2560).reshape(40, 64) % 5 - 2).astype(np.float16)
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    return Case({"a": a, "b": b}, expected)


@program("C54_integer_mma_with_masked_store", "igemm")
def c54() -> Case:
    """S8, ragged M and N."""
    a = (np.arange(19 * 16).reshape(19, 16) % 11 - 5).astype(np.int8)
    b = (np.arange(16 * 13).reshape(16, 13) % 7 - 3).astype(np.int8)
    c = np.zeros((19, 13), dtype=np.int32)
    expected = a.astype(np.int32) @ b.astype(np.int32)
    return Case({"a": a, "b": b, "c": c}, expected, written="c")


@program("C55_fragment_reduction", "center")
def c55() -> Case:
    """`frag`, `apply`, `reduce_max`."""
    x = (np.arange(512).reshape(16, 32) * 7 % 97).astype(np.float32)
    expected = x - x.max(axis=1, keepdims=True)
    return Case({"x": x}, expected)


@program("C56_warpgroup_mma", "wg")
def c56() -> Case:
    """Direct shared operands, future, swizzle (sm_90a or CPU)."""
    a = (np.arange(4096).reshape(64, 64) % 5 - 2).astype(np.float16)
    b = (np.arange(2048).reshape(32, 64) % 3 - 1).astype(np.float16)
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    return Case({"a": a, "b": b}, expected)


@program("C57_tma_pipeline", "pipe")
def c57() -> Case:
    """Roles, ring, `trigger after` (sm_90a or CPU)."""
    a = (np.arange(64 * 160).reshape(64, 160) % 11 - 5).astype(np.float16)
    b = (np.arange(32 * 160).reshape(32, 160) % 7 - 3).astype(np.float16)
    c = np.zeros((64, 32), dtype=np.float32)
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    return Case({"a": a, "b": b, "c": c}, expected, written="c")
