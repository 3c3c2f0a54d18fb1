"""The public API from plain Python."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import croq_magic as croq

MATMUL = """
__co__ s32 [M, N] matmul(s32 [M, K] lhs, s32 [K, N] rhs) {
  s32 [lhs.span(0), rhs.span(1)] output;
  parallel p by M, q by N {
    foreach k in [K] { output.at(p, q) += lhs.at(p, k) * rhs.at(k, q); }
  }
  return output;
}
"""
IDENTITY = "__co__ void touch(f32 [4]& v) { parallel p by 4 { v.at(p) += 1.0f; } }\n"


def integers(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).integers(-10, 10, shape, dtype=np.int32)


def test_compile_and_call() -> None:
    program = croq.compile(MATMUL + IDENTITY)
    assert list(program.functions) == ["matmul", "touch"]
    assert program.matmul is program.functions["matmul"]
    lhs, rhs = integers(5, 7), integers(7, 3)
    np.testing.assert_array_equal(program.matmul(lhs, rhs), lhs @ rhs)
    np.testing.assert_array_equal(program.matmul(rhs=rhs, lhs=lhs), lhs @ rhs)


def test_awkward_layouts_are_multiplied_right() -> None:
    program = croq.compile(MATMUL)
    lhs, rhs = integers(14, 5).T[:, ::2], integers(7, 3)[::-1]
    np.testing.assert_array_equal(program.matmul(lhs, rhs), lhs @ rhs)


def test_defines() -> None:
    program = croq.compile(IDENTITY.replace("1.0f", "STEP"), defines={"STEP": 3})
    v = np.zeros(4, np.float32)
    program.touch(v)
    np.testing.assert_array_equal(v, [3, 3, 3, 3])


def test_text_forms() -> None:
    program = croq.compile(IDENTITY)
    assert "touch" in program.source() and "touch" in program.ir()
    assert repr(program) == "<croq_magic program for cpu: touch>"
    assert program.diagnostics == []
    with pytest.raises(AttributeError, match="the program has no function 'tuch'"):
        program.tuch  # noqa: B018


def test_wrong_programs() -> None:
    wrong = IDENTITY.replace("v.at(p)", "w.at(p)")
    with pytest.raises(croq.CompileError) as caught:
        croq.compile(wrong)
    first = caught.value.diagnostics[0]
    assert first.severity == "error" and first.span.line == 1 and "w" in first.message
    found = croq.check(wrong)
    assert [d.message for d in found if d.severity == "error"] == [first.message]
    assert croq.check(IDENTITY) == []


def test_all_errors_are_croq_errors() -> None:
    for error in (croq.CompileError, croq.BindError, croq.CheckError, croq.TargetError):
        assert issubclass(error, croq.CroqError)
    with pytest.raises(croq.TargetError, match="abacus"):
        croq.compile(IDENTITY, target="abacus")


def test_import_is_light() -> None:
    """Loading the extension into IPython pulls in no numeric library and no part of the compiler."""
    script = """
import sys, IPython.core.interactiveshell
import croq_magic, croq_magic.magic
heavy = ("numpy", "matplotlib", "lark", "islpy", "pcpp", "cupy", "croq_magic.compiler")
print([name for name in heavy if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names() -> None:
    for name in croq.__all__:
        assert getattr(croq, name) is not None
    assert set(croq.__all__) <= set(dir(croq))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        croq.nothing  # noqa: B018
