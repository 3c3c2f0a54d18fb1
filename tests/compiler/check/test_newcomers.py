"""Mistakes of people who are new to the language, and names that mean something elsewhere."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import croq_magic as croq


def first(statement: str) -> tuple[str, str, str | None]:
    found = croq.check(f"__co__ void f(f32 [8, 16] g) {{\n  {statement}\n}}")[0]
    return found.code, found.message, found.hint


def test_an_unknown_type_is_called_so() -> None:
    assert first("q32 [64, 64] r;") == ("SYN01", "`q32` is not an element type", "did you mean `f32`, `s32` or `u32`?")
    assert first("x = g[0, 1];")[:2] == ("SYN11", "use `.at(0, 1)` for elements; `[i][j]` indexes buffer arrays")


def test_a_number_where_a_chunk_needs_an_index() -> None:
    hint = "`g.chunk(2, 4).at(p, 3)`"
    assert first("parallel p by 2 { dma.copy g.chunkat(p, 3) => local; }") == ("VEW04", "`3` has no extent", hint)


@pytest.mark.parametrize(
    ("extents", "indices", "tile"),
    [
        ("3, 1024", "0, _", "chunk(3, 1).at(0, 0)"),
        ("13, 64", "2, 2", "chunk(13, 4).at(2, 2)"),
        ("35, 64", "5, 9", "chunk(7, 16).at(5, 9)"),
        ("1, 8", "0, _", "chunk(1, 1).at(0, 0)"),
        ("N, 8", "5, _", "chunk(6, 1).at(5, 0)"),
        ("3, 8", "3, _", None),
        ("8, 8", "-1, _", None),
    ],
)
def test_the_chunk_that_is_proposed_exists(extents: str, indices: str, tile: str | None) -> None:
    program = f"__co__ void f(f32 [{extents}] g) {{ parallel p by 1 {{ dma.copy g.VIEW => local; }} }}"
    (found,) = croq.check(program.replace("VIEW", f"chunkat({indices})"))
    assert found.code == "VEW04" and found.hint == (tile and f"`g.{tile}`")
    if tile is not None:
        assert {each.code for each in croq.check(program.replace("VIEW", tile))} <= {"DYN05"}


def test_a_parameter_named_like_a_word_of_python() -> None:
    f = croq.compile("__co__ s32 f(s32 lambda) { return lambda + 1; }", target="cpu").f
    assert f(3) == 4 and f(**{"lambda": 4}) == 5
    assert list(inspect.signature(f).parameters) == ["lambda_"]


def test_a_device_function_cannot_throw() -> None:
    source = """__device__ int g(int a) { throw 3; }
__co__ void f(s32 [4]& x) { parallel p by 4 { mutable s32 y = call g(p); x.at(p) = y; } }"""
    with pytest.raises(croq.CompileError) as caught:
        croq.compile(source, target="cpu").f(np.zeros(4, np.int32))
    (found,) = caught.value.diagnostics
    assert found.code == "CXX01" and "exception handling disabled" in found.message and found.span.line == 1
