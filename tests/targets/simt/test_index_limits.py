"""What extents may be at most so that a kernel's indices have 32 bits, and that the host keeps to it."""

from __future__ import annotations

import numpy as np
import pytest

import croq_magic as croq
from croq_magic.compiler import evaluate, integers, ir, pipeline
from croq_magic.compiler.targets.simt import index_limits
from croq_magic.compiler.targets.simt.index_limits import IndexLimits, bound, magnitude
from croq_magic.compiler.types import S32, S64

M, N, K = (ir.Var(name, S64, ir.Role.DIM, integers.ONE) for name in "MNK")
I = ir.Var("i", S32, ir.Role.REGION, integers.ZERO, M)  # noqa: E741
ANY = ir.Var("any", S32, ir.Role.PARAM)
L = index_limits.LARGEST


def accepts(limits: IndexLimits, m: int, n: int, k: int) -> bool:
    return bool(evaluate.function((limits.condition(),), ["M", "N", "K"])(m, n, k)[0])


def test_an_index_is_as_large_as_its_bounds() -> None:
    assert magnitude(integers.add(integers.mul(I, N), integers.constant(5))) == {(M, N): 1, (): 5}
    assert magnitude(integers.floordiv(integers.mul(M, N), integers.constant(4))) == {(M, N): 0.25}
    assert magnitude(integers.mod(integers.mul(I, K), N)) == {(N,): 1}
    assert magnitude(integers.sub(integers.ZERO, M)) == {(M,): 1}
    assert magnitude(ANY) is None and magnitude(integers.mul(ANY, N)) is None


def test_types_alone_bound_some() -> None:
    """An index of 32 bits is below 2^31, so that half of it and one more is too."""
    half = integers.add(integers.floordiv(I, integers.constant(2)), integers.ONE)
    assert bound(half) == (1 << 30) + 1
    assert bound(integers.mod(I, integers.constant(7))) == 6
    assert bound(integers.add(I, integers.ONE)) == (1 << 31) + 1
    assert bound(M) is None and bound(ANY) is None


def test_conditions() -> None:
    limits = IndexLimits()
    assert limits.admit(integers.add(integers.mul(I, N), integers.mul(K, integers.constant(8))))
    assert not limits.admit(integers.mul(ANY, N))
    assert accepts(limits, 1 << 14, 1 << 15, 1 << 26)
    assert not accepts(limits, 1 << 15, 1 << 15, 1) and not accepts(limits, 1, 1, 1 << 27)
    assert not accepts(limits, 1 << 62, 1 << 62, 1)


@pytest.mark.parametrize("sizes", [(L, 1, 1), (1, L, 1), (1 << 10, 1 << 10, 1 << 10), (1, 1, 1)])
def test_a_larger_product_speaks_for_its_parts(sizes: tuple[int, int, int]) -> None:
    limits = IndexLimits()
    for e in (M, N, integers.mul(M, N), integers.product((M, N, K))):
        assert limits.admit(e)
    assert accepts(limits, *sizes)
    for place in range(3):
        assert not accepts(limits, *(size + (L if position == place else 0) for position, size in enumerate(sizes)))


PRODUCT = """
__co__ s32 [M, N] mm(s32 [M, K] a, s32 [K, N] b) {
  s32 [M, N] c;
  parallel {i, j} by [M, N] foreach k in K c.at(i, j) += a.at(i, k) * b.at(k, j);
  return c;
}
"""


@pytest.mark.parametrize("largest", [1, 100, L])
def test_both_kernels_give_the_same(monkeypatch: pytest.MonkeyPatch, largest: int) -> None:
    """With small limits the host takes the wide kernel for some of these extents."""
    monkeypatch.setattr(pipeline, "MAX_VARIANTS", 0)
    monkeypatch.setattr(index_limits, "LARGEST", largest)
    mm = croq.compile(PRODUCT + f"// limit {largest}\n", target="emulate", checks="all").mm
    random = np.random.default_rng(3)
    for m, n, k in ((1, 1, 1), (7, 5, 3), (33, 65, 17)):
        a, b = (random.integers(-9, 9, shape, dtype=np.int32) for shape in ((m, k), (k, n)))
        np.testing.assert_array_equal(mm(a, b), a @ b)


def test_the_host_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels that a host body launches, by the text that it has."""
    mm = croq.compile(PRODUCT, target="emulate").mm
    emission = mm.compiled.unit.chosen.emit(mm.compiled.unit.regions, [mm.compiled.lowered])
    from croq_magic.compiler.targets.simt.host_emit import host_text

    lines = host_text(emission.functions[0], emission.kernels, "emulate").text.splitlines()
    found = [line.strip() for line in lines if "launch(" in line or line.strip().startswith(("if", "else"))]
    tests = [position for position, line in enumerate(found) if "launch(" in line]
    assert len(tests) == 2
    assert found[tests[0] - 1].startswith("if") and "'mm_kernel'" in found[tests[0]] and "int32" in found[tests[0]]
    assert found[tests[1] - 1] == "else:" and "'mm_kernel_wide'" in found[tests[1]] and "int64" in found[tests[1]]
