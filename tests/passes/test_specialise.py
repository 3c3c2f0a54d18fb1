"""Functions for known extents."""

from __future__ import annotations

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.insert_joins import InsertJoins
from croq_magic.compiler.passes.prove_bounds import ProveBounds
from croq_magic.compiler.passes.specialise import Specialise
from croq_magic.compiler.text import format_function
from croq_magic.compiler.types import BOOL, S32
from croq_magic.compiler.visit import walk
from tests.ir_builders import buffer, const, dim, index, launch, matmul_dma, param, region, returning, saxpy, store

M, K, N = dim("M"), dim("K"), dim("N")


def specialise(function: ir.Function, **dims: int) -> ir.Function:
    return Specialise(tuple(sorted(dims.items())))(function, Context())


def test_is_the_function_of_constants() -> None:
    made = specialise(matmul_dma(M, K, N), M=64, K=32, N=48)
    assert format_function(made) == format_function(matmul_dma(64, 32, 48))
    assert made.dims == ()


def test_some_dimensions_may_stay() -> None:
    made = specialise(matmul_dma(M, K, N), K=32)
    assert [d.name for d in made.dims] == ["M", "N"]
    assert "for tile_k in 0..2" in format_function(made)


def test_buffers_stay_one_object_each() -> None:
    made = specialise(matmul_dma(M, K, N), M=64, K=32, N=48)
    buffers = {node for node in walk(made) if isinstance(node, ir.Buffer)}
    assert sorted(b.name for b in buffers) == ["lhs", "lhs_load", "output", "rhs", "rhs_load"]


def test_no_symbol_is_left_in_bounds() -> None:
    made = specialise(matmul_dma(M, K, N), M=64, K=32, N=48)
    for node in walk(made):
        if isinstance(node, ir.Var):
            for bound in (node.lower, node.upper):
                assert bound is None or integers.value(bound) is not None


def test_same_passes_follow() -> None:
    context = Context()
    made = ProveBounds()(InsertJoins()(specialise(matmul_dma(M, K, N), M=64, K=32, N=48), context), context)
    assert "?" not in format_function(made)
    assert format_function(made) == format_function(InsertJoins()(matmul_dma(64, 32, 48), context))


def test_products_of_symbols_are_proven_with_constants() -> None:
    """A chunk of `M / N` rows each, `N` of them: beyond symbols in general, plain with numbers."""
    x, out = param("x", (M,)), buffer("out", (M,))
    part = integers.floordiv(M, integers.floordiv(M, N))
    p = index("p", integers.floordiv(M, part), ir.Role.REGION)
    i = index("i", part)
    at = integers.add(integers.mul(p, part), i)
    assert x.buffer is not None
    inner = ir.For(i, const(0), part, 1, (store(out, (at,), ir.Load(views.whole(x.buffer), (at,))),))
    kernel = region(ir.Level.BLOCK, {"p": integers.floordiv(M, part)}, [inner])
    function = returning("f", (x,), out, [launch("f", kernel)], (M, N))
    assert "?" in format_function(ProveBounds()(function, Context()))
    made = ProveBounds()(specialise(function, M=30, N=4), Context())
    assert "?" not in format_function(made)


def test_folds_immutable_scalars() -> None:
    half = ir.Var("half", S32)
    out = buffer("out", (half,))
    p = index("p", half, ir.Role.REGION)
    body = [
        ir.Let(half, integers.floordiv(M, const(2))),
        ir.Declare(out),
        launch("f", ir.Region(ir.Level.BLOCK, (p,), (half,), (store(out, (p,), const(1)),))),
    ]
    made = specialise(ir.Function("f", (), None, tuple(body), (M,)), M=9)
    assert format_function(made) == (
        "func f() {\n"
        "  global out: s32 [4]\n"
        "  launch f_0 {\n"
        "    region block [p < 4] {\n"
        "      out[p] = 1\n"
        "    }\n"
        "  }\n"
        "}\n"
    )


def test_conditions_and_entry_checks_get_the_values() -> None:
    made = specialise(saxpy(M), M=1000)
    assert format_function(made) == format_function(saxpy(1000))
    check = ir.Assert(ir.Binary(">", M, const(3), BOOL), "M", values=(M,))
    made = specialise(ir.Function("f", (), None, (), (M,), (check,)), M=2)
    assert made.checks[0].condition == ir.Binary(">", ir.Const(2), ir.Const(3), BOOL)


def test_without_dimensions_nothing_changes() -> None:
    function = matmul_dma()
    assert specialise(function) is function
