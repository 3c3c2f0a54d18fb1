"""The target `emulate`: all conformance programs in both modes, findings in the words of a cell, profiles."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from programs.conformance import PROGRAMS, Conformance

import croq_magic as croq
from croq_magic.compiler.targets import detect
from croq_magic.compiler.targets.cuda import system


def run(entry: Conformance) -> None:
    case = entry.case()
    inputs = copy.deepcopy(case.inputs)
    arch = "sm_90a" if entry.name[:3] in ("C56", "C57") else None
    program = croq.compile(entry.source(), target="emulate", arch=arch)
    result = program.functions[entry.function](*inputs.values())
    case.check(inputs[case.written] if case.written else result)


@pytest.mark.parametrize("entry", PROGRAMS, ids=lambda entry: entry.name)
def test_conformance_checked(entry: Conformance, monkeypatch: pytest.MonkeyPatch) -> None:
    run(entry)
    monkeypatch.setenv("CROQ_EMULATE_SEED", "7")  # threads in another order
    run(entry)


FAST = ("C03", "C09", "C14", "C24", "C28", "C31", "C32", "C41", "C44", "C45", "C47", "C51")


@pytest.mark.parametrize("entry", [p for p in PROGRAMS if p.name[:3] in FAST], ids=lambda entry: entry.name)
def test_conformance_fast(entry: Conformance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROQ_EMULATE", "fast")
    run(entry)


DEVICE = """\
__device__ int pick(const int* x, int i) {
  return x[i + 1];
}
__co__ s32 [37] f(s32 [37] x) {
  s32 [37] r;
  parallel t by 37 : thread
    r.at(t) = call pick(x, t);
  return r;
}
"""


def test_a_stray_access_in_the_cells_own_function() -> None:
    x = np.arange(37, dtype=np.int32)
    with pytest.raises(croq.CheckError) as caught:
        croq.compile(DEVICE, target="emulate").f(x)
    text = str(caught.value)
    assert "thread 36" in text and "0 bytes behind the end of a global buffer of 148 bytes at line 2" in text
    assert "cell:2: return x[i + 1];" in text


def test_findings_stand_at_the_line_of_the_access() -> None:
    source = """\
__co__ s32 [64] turn(s32 [64] x) {
  s32 [64] y;
  parallel b by 1 : block {
    shared s32 [64] tile;
    parallel t by 64 : thread {
      tile.at(t) = x.at(t);
      y.at(t) = tile.at(63 - t);
    }
  }
  return y;
}
"""
    function = croq.compile(source, target="emulate").turn
    with pytest.raises(croq.CheckError) as caught:
        function(np.arange(64, dtype=np.int32))
    # The first warp reads what the second has not written yet; then the second writes what the first has read.
    assert str(caught.value).splitlines() == [
        "turn_kernel: thread 0 of block 0 reads byte 252 of shared `tile` at line 7, but nobody in the block has "
        "written it (32 times)",
        "    cell:7: y.at(t) = tile.at(63 - t);",
        "turn_kernel: data race: thread 32 of block 0 writes byte 128 of shared `tile` at line 6 and thread 31 reads "
        "it at line 7, with no barrier between (64 times)",
        "    cell:6: tile.at(t) = x.at(t);",
        "    cell:7: y.at(t) = tile.at(63 - t);",
    ]


def test_a_failed_check_is_the_error() -> None:
    source = """\
__co__ s32 [37] f(s32 [37] x) {
  s32 [37] r;
  parallel t by 37 : thread
    r.at(t) = x.at(x.at(t));
  return r;
}
"""
    x = np.arange(37, dtype=np.int32)
    function = croq.compile(source, target="emulate").f
    np.testing.assert_array_equal(function(x), x)
    x[5] = 37
    with pytest.raises(croq.CheckError, match="index 37 is out of range"):
        function(x)


def test_profile_of_a_transposition() -> None:
    source = """\
__co__ f32 [64, 96] turn(f32 [96, 64] x) {
  f32 [64, 96] r;
  parallel {i, j} by [3, 32] : block {
    parallel t by 64 : thread
      r.at(t, i * 32 + j) = x.at(i * 32 + j, t);
  }
  return r;
}
"""
    program = croq.compile(source, target="emulate")
    x = np.arange(96 * 64, dtype=np.float32).reshape(96, 64)
    table = program.profile(x)
    rows = {(row.memory, row.access): row for row in table}
    read, written = rows["global", "read"], rows["global", "write"]
    assert read.line == written.line == 5
    warps = 96 * 2
    assert (read.requests, read.bytes, read.parts, read.least) == (warps, x.nbytes, warps * 4, warps * 4)
    assert (written.requests, written.bytes, written.parts, written.least) == (warps, x.nbytes, warps * 32, warps * 4)
    assert table.total("global") == 2 * x.nbytes and table.total("shared") == 0
    assert "32.00" in str(table) and "turn_kernel" in table.text
    assert f"global: {x.nbytes:,} bytes read, {x.nbytes:,} written" in table.text.splitlines()
    page = table._repr_html_()
    assert page.count("<tr>") == 1 + len(table) == 3
    assert "<b>32.00</b>" in page and "<b>4.00</b>" in page and ">4.00</td>" in page
    assert page.count("<b>") == 2  # of the store alone: the load takes as few as there can be
    np.testing.assert_array_equal(program.turn(x), x.T)


def test_profile_has_every_access_at_its_own_line() -> None:
    source = """\
__co__ s32 [M, N] matmul(s32 [M, K] lhs, s32 [K, N] rhs) {
  s32 [M, N] output;
  parallel {px, py} by [M / 16, N / 16] : block {
    foreach {tile_k} in [K / 16] {
      lhs_load = dma.copy lhs.chunkat(px, tile_k) => shared;
      rhs_load = dma.copy rhs.chunkat(tile_k, py) => shared;
      parallel {qx, qy} by [16, 16] : thread {
        foreach k in [16]
          output.at(px#qx, py#qy) += lhs_load.data.at(qx, k) * rhs_load.data.at(k, qy);
      }
    }
  }
  return output;
}
"""
    lhs = np.arange(48 * 32, dtype=np.int32).reshape(48, 32)
    rhs = np.arange(32 * 80, dtype=np.int32).reshape(32, 80)
    program = croq.compile(source, target="emulate")
    tiles = 48 * 80 * 32 // 16 * 4  # every block reads its rows and columns once: the bytes of one operand
    table = {(row.line, row.memory, row.access): row.bytes for row in program.profile(lhs, rhs)}
    assert {key: table.get(key) for key in [(5, "global", "read"), (6, "global", "read")]} == {
        (5, "global", "read"): tiles,
        (6, "global", "read"): tiles,
    }
    assert table[5, "shared", "write"] == table[6, "shared", "write"] == tiles
    assert table[9, "shared", "read"] == 48 * 80 * 32 * 2 * 4 and table[9, "global", "write"] == 48 * 80 * 4
    assert {line for line, _, _ in table} == {5, 6, 9}
    np.testing.assert_array_equal(program.matmul(lhs, rhs), lhs @ rhs)


def test_profile_of_bank_conflicts() -> None:
    source = """\
__co__ f32 [32, 32] turn(f32 [32, 32] x) {
  f32 [32, 32] r;
  parallel b by 1 : block {
    shared f32 [32, WIDE] s;
    parallel t by 32 : thread
      foreach i in [32]
        s.at(i, t) = x.at(i, t);
    parallel t by 32 : thread
      foreach i in [32]
        r.at(i, t) = s.at(t, i);
  }
  return r;
}
"""
    x = np.arange(32 * 32, dtype=np.float32).reshape(32, 32)
    for wide, passes in ((32, 32), (33, 1)):
        program = croq.compile(source, target="emulate", defines={"WIDE": wide})
        rows = {(row.memory, row.access): row for row in program.turn.profile(x)}
        assert rows["shared", "write"].parts_per_request == 1
        assert rows["shared", "read"].parts_per_request == passes
        assert rows["shared", "read"].requests == 32 and rows["shared", "read"].least == 32
        np.testing.assert_array_equal(program.turn(x), x.T)


@pytest.mark.cpu_only
def test_only_the_emulator_profiles() -> None:
    program = croq.compile("__co__ s32 f(s32 a) { return a; }", target="cpu")
    with pytest.raises(croq.TargetError, match="emulate"):
        program.profile(3)


def test_options_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "__co__ s32 [7] f(s32 [7] x) { s32 [7] r; parallel t by 7 r.at(t) = x.at(t); return r; }"
    x = np.arange(7, dtype=np.int32)
    monkeypatch.setenv("CROQ_EMULATE", "quick")
    with pytest.raises(croq.TargetError, match="checked or fast"):
        croq.compile(source, target="emulate")
    monkeypatch.setenv("CROQ_EMULATE", "fast")
    fast = croq.compile(source, target="emulate")
    np.testing.assert_array_equal(fast.f(x), x)
    with pytest.raises(croq.TargetError, match="counts nothing"):
        fast.profile(x)
    monkeypatch.setenv("CROQ_EMULATE_SEED", "x")
    with pytest.raises(croq.TargetError, match="must be a number"):
        fast.f(x)
    monkeypatch.delenv("CROQ_EMULATE_SEED")
    with pytest.raises(croq.TargetError, match="no architecture"):
        croq.compile(source, target="emulate", arch="sm_1")
    monkeypatch.setattr(system, "problem", lambda: detect.NO_DRIVER)
    with pytest.raises(croq.TargetError, match=r"`native` is that of a GPU.* without `-a` .* stands for sm_80"):
        croq.compile(source, target="emulate", arch="native")


def test_words_that_no_profile_knows() -> None:
    source = "__co__ s32 [7] f(s32 [7] x) { s32 [7] r; parallel t by 7 r.at(t) = x.at(t); return r; }"
    table = croq.compile(source, target="emulate").profile(np.zeros(7, np.int32))
    assert (
        table.total("global", "read") == table.total("global", "write") == 28 and table.total("shared", "update") == 0
    )
    with pytest.raises(ValueError, match="no memory 'foo' in a profile; known are global, shared"):
        table.total("foo", "read")
    with pytest.raises(ValueError, match="no access 'reads' in a profile; known are read, write, update"):
        table.total("global", "reads")


@pytest.mark.parametrize("target", ["cpu", "emulate"])
def test_variables_of_the_device(target: str) -> None:
    source = """\
__device__ int table[4] = {1, 2, 3, 4};
__device__ int square[2][2] = {{1, 2}, {3, 4}};
__device__ float one = 1.f;
__device__ struct S { int n; __device__ int get() const { return n; } } seven = {7};
static __device__ const int pair[] = {5, 6};
__device__ __align__(16) int braced{9};
__device__ int sum(int t) {
  return table[t & 3] + square[t & 1][(t >> 1) & 1] * 10 + int(one) * 100 + seven.get() * 1000 + pair[t & 1] * 100000
    + braced * 1000000;
}
__co__ s32 [61] f(s32 [61] x) {
  s32 [61] r;
  parallel b by 1 : block, t by 61 : thread { mutable int v = call sum(t); r.at(t) = v + x.at(t); }
  return r;
}
"""
    t = np.arange(61, dtype=np.int32)
    tables = np.array([1, 2, 3, 4])[t & 3] + np.array([[1, 2], [3, 4]])[t & 1, (t >> 1) & 1] * 10
    expected = t + tables + 9007100 + np.array([5, 6])[t & 1] * 100000
    np.testing.assert_array_equal(croq.compile(source, target=target).f(t), expected)


def test_assembly_of_a_gpu() -> None:
    source = """\
__device__ int lane() {
  int l;
  asm("mov.u32 %0, %%laneid;" : "=r"(l));
  return l;
}
__co__ s32 [32] f(s32 [32] x) {
  s32 [32] r;
  parallel t by 32 : thread
    r.at(t) = call lane();
  return r;
}
"""
    with pytest.raises(croq.CompileError) as caught:
        croq.compile(source, target="emulate")
    (found,) = caught.value.diagnostics
    assert found.code == "CXX01" and found.span.line == 3 and "inline assembly" in found.message


@pytest.mark.parametrize("word", ["asm", "__asm__", "__asm", "asm volatile", "asm /* why */ volatile"])
def test_assembly_that_the_processor_has_too(word: str) -> None:
    source = f"""\
__device__ int inc(int v) {{  // asm("no code")
  const char* text = "asm(";
  {word}("inc %0;" : "+r"(v));
  return v + (text == 0);
}}
__co__ s32 [32] f() {{
  s32 [32] r;
  parallel t by 32 : thread
    r.at(t) = call inc(t);
  return r;
}}
"""
    with pytest.raises(croq.CompileError) as caught:
        croq.compile(source, target="emulate")
    (found,) = caught.value.diagnostics
    assert (found.code, found.span.line, found.span.column) == ("CXX01", 3, 3)
    assert "inline assembly" in found.message
    guarded = source.replace(f"  {word}", f"#ifndef CROQ_EMULATE\n  {word}", 1).replace(
        "(v));", "(v));\n#else\n  ++v;\n#endif"
    )
    np.testing.assert_array_equal(croq.compile(guarded, target="emulate").f(), np.arange(1, 33))


def test_assembly_of_the_language() -> None:
    source = """\
__co__ s32 [32] f() {
  s32 [32] r;
  parallel t by 32 : thread {
    asm volatile("nop;");
    r.at(t) = t;
  }
  return r;
}
"""
    with pytest.raises(croq.CompileError) as caught:
        croq.compile(source, target="emulate")
    (found,) = caught.value.diagnostics
    assert found.code == "UNS01" and found.span.line == 4 and "inline assembly" in found.message


def test_a_source_overwritten_before_the_wait() -> None:
    source = """\
__co__ s32 [67] f(s32 [67]& x) {
  s32 [67] r;
  parallel b by 1 : block {
    g = dma.copy.async x => shared;
    parallel t by 67 : thread x.at(t) = 0;
    wait g;
    parallel t by 67 : thread r.at(t) = g.data.at(t);
  }
  return r;
}
"""
    x = np.arange(67, dtype=np.int32)
    with pytest.raises(croq.CheckError) as caught:
        croq.compile(source, target="emulate").f(x.copy())
    message = str(caught.value)
    assert "asynchronous copy" in message and "may still read it" in message
    assert "at line 5" in message and "at line 4" in message
    before, wait = "    parallel t by 67 : thread x.at(t) = 0;\n", "    wait g;\n"
    sound = croq.compile(source.replace(before + wait, wait + before), target="emulate")
    np.testing.assert_array_equal(sound.f(changed := x.copy()), x)
    assert not changed.any()


def test_a_mistake_in_the_cells_own_function() -> None:
    source = DEVICE.replace("return x[i + 1];", "return y[i + 1];")
    with pytest.raises(croq.CompileError) as caught:
        croq.compile(source, target="emulate")
    (found,) = caught.value.diagnostics
    assert found.code == "CXX01" and found.span.line == 2 and "`y` was not declared" in found.message


def test_a_call_after_a_restart_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "__co__ s32 [9] again(s32 [9] x) { s32 [9] r; parallel t by 9 r.at(t) = x.at(t) + 1; return r; }"
    x = np.arange(9, dtype=np.int32)
    np.testing.assert_array_equal(croq.compile(source, target="emulate").again(x), x + 1)
    program = croq.compile(source, target="emulate")
    monkeypatch.setattr("croq_magic.compiler.targets.emulate.build._run", None)
    np.testing.assert_array_equal(program.again(x), x + 1)
    assert program.again.profile(x).total("global", "read") == x.nbytes
