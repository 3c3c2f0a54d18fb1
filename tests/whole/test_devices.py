"""Hosts whose kernels run on a device: what they get is what the CPU gives, wherever the data lies in between."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from programs.conformance import PROGRAMS, Conformance
from whole import hosts
from whole.devices import each_way, way  # noqa: F401  (a fixture)

import croq_magic as croq
from croq_magic import run
from croq_magic.compiler import whole
from croq_magic.compiler.source import Source
from croq_magic.errors import CompileError

SEEDS = Path(__file__).parents[1] / "programs" / "seeds"
# One of every kind: launches in a host loop, in-out, half precision, symbolic extents, atomics.
CHOSEN = [p for p in PROGRAMS if p.name.startswith(("C06", "C29", "C39", "C51"))]


def text_of(source: str, target: str, **options: Any) -> str:
    done = croq.run_program(source, target=target, **options)
    assert done.returncode == 0
    return done.stdout


def failure(source: str, target: str) -> str:
    done = croq.run_program(source, target=target, check=False)
    assert done.returncode != 0
    return done.stderr


@each_way
@pytest.mark.parametrize("name", ["ele_add_separate_source", "matmul_dma", "matmul_scalar"])
def test_seed_programs_pass(way: str, name: str) -> None:  # noqa: F811
    assert text_of((SEEDS / f"{name}.co").read_text(), way) == "Test Passed\n\n"


@each_way
@pytest.mark.parametrize("program", CHOSEN, ids=lambda program: program.name)
def test_a_host_gets_what_numpy_gives(way: str, program: Conformance, tmp_path: Path) -> None:  # noqa: F811
    case, source = program.case(), program.source()
    signature = croq.compile(source, target="cpu").functions[program.function].compiled.signature
    hosts.write_inputs(signature, case.inputs, tmp_path)
    transpiled = whole.transpile(source + "\n" + hosts.host(signature, case.inputs, case.written), way)
    run.require_success(whole.run(whole.executable(transpiled), [str(tmp_path)]))
    case.check(hosts.result(case.expected, tmp_path))


# Data goes back and forth: the host reads what a kernel wrote, writes what the next one reads, copies parts of it.
BACK_AND_FORTH = """
__co__ s32 [N, 7] walk(s32 [N, 7]& x, s32 times, f32 scale) {
  global s32 [N, 7] y;
  global s32 [7] row {3};
  mutable s32 seen = 0;
  foreach t in [times] {
    parallel p by N { foreach q in [7] { y.at(p, q) = x.at(p, q) + row.at(q) * __to<s32>(scale); } }
    row.at(t % 7) = y.at(N - 1, t % 7) % 100;
    seen += y.at(0, 3);
    parallel p by N { foreach q in [7] { x.at(p, q) = y.at(p, q) + row.at(q) + seen % 11; } }
  }
  println("seen ", seen);
  foreach q in [7] { y.at(0, q) = row.at(q); }
  return y;
}
int main() {
  auto x = choreo::make_spandata<choreo::s32>(13, 7);
  for (int i = 0; i < 13; ++i) for (int j = 0; j < 7; ++j) x[i][j] = i * 31 - j * 5;
  std::cout << "begin\\n";
  auto y = walk(x, 9, 2.5f);
  long sum = 0, other = 0;
  for (int i = 0; i < 13; ++i)
    for (int j = 0; j < 7; ++j) sum = sum * 3 % 1000003 + y[i][j], other += x[i][j] * (i + j);
  std::cout << sum << " " << other << " " << y.shape() << std::endl;
}
"""


@each_way
def test_data_goes_back_and_forth(way: str) -> None:  # noqa: F811
    assert text_of(BACK_AND_FORTH, way) == text_of(BACK_AND_FORTH, "cpu")


SCALARS = """
__co__ f16 dot(f16 [N] a, bf16 [N] b, bool negate, f16 start, s8 shift) {
  global f32 [1] sum {0.0f};
  parallel by 1 { foreach i in [N] {
    sum.at(0) = sum.at(0) + __to<f32>(a.at(i)) * __to<f32>(b.at(i)) + __to<f32>(shift); } }
  mutable f32 total = sum.at(0) + __to<f32>(start);
  if (negate) { total = 0.0f - total; }
  return __to<f16>(total);
}
int main() {
  auto a = choreo::make_spandata<choreo::f16>(5);
  auto b = choreo::make_spandata<choreo::bf16>(5);
  a.fill(choreo::f16(1.5f)), b.fill(choreo::bf16(-2.25f));
  std::cout << (float)dot(a, b, true, choreo::f16(0.125f), -3) << " " << (float)dot(a, b, false, choreo::f16(7), 1);
}
"""


@each_way
def test_scalars_of_narrow_types_arrive(way: str) -> None:  # noqa: F811
    assert text_of(SCALARS, way) == "31.75 -4.875"


EMPTY_HANDS = """
__co__ s32 [3, 5] zeros(s32 k) { s32 [3, 5] r; if (k > 0) { parallel p by 3 { r.at(p, k % 5) = k; } } return r; }
__co__ s32 [2, 5] part(s32 [4, 5] x) {
  global s32 [4, 5] y;
  parallel p by 4 { foreach q in [5] { y.at(p, q) = x.at(p, q) * 2; } }
  s32 [2, 5] r;
  dma.copy y.subspan(2, 5).at(1, 0) => r;
  return r;
}
int main() {
  for (int k : {0, 7}) { auto r = zeros(k); int s = 0; for (int v : r) s = s * 2 + v; std::cout << s << " "; }
  auto x = choreo::make_spandata<choreo::s32>(4, 5);
  for (int i = 0; i < 20; ++i) x.data()[i] = i * i;
  auto y = part(x);
  for (int v : y) std::cout << v << " ";
}
"""


@each_way
def test_results_that_no_kernel_fills_are_zero_and_parts_can_be_returned(way: str) -> None:  # noqa: F811
    numbers = [int(word) for word in text_of(EMPTY_HANDS, way).split()]
    filled = [7 if i % 5 == 2 else 0 for i in range(15)]
    expected = 0
    for value in filled:
        expected = expected * 2 + value
    assert numbers == [0, expected, *(2 * i * i for i in range(10, 20))]


INDEX = """__co__ void f(s32 [N]& x, s32 [N] at) {
  parallel p by N { x.at(at.at(p)) = p; }
}
int main() {
  auto x = choreo::make_spandata<choreo::s32>(9), at = choreo::make_spandata<choreo::s32>(9);
  at.fill(4);
  at[5] = 12;
  f(x, at);
}
"""
MESSAGES = {
    "an index in a kernel": INDEX,
    "an extent": """__co__ void f(s32 [M, 4]& x, s32 [M] y) { parallel p by M { x.at(p, 0) = y.at(p); } }
int main() {
  auto x = choreo::make_spandata<choreo::s32>(5, 4), y = choreo::make_spandata<choreo::s32>(20, 1);
  f(x, choreo::make_spanview<1>(y.data(), {6}));
}
""",
    "an assertion of the host part": """__co__ void f(s32 [M]& x, s32 k) {
  parallel p by M { x.at(p) = k; }
  assert(x.at(2) < 5, "too large");
}
int main() { auto x = choreo::make_spandata<choreo::s32>(5); f(x, 4); f(x, 6); }
""",
}


@each_way
@pytest.mark.parametrize("name", MESSAGES)
def test_failed_checks_say_what_they_say_on_the_cpu(way: str, name: str) -> None:  # noqa: F811
    said = failure(MESSAGES[name], way)
    assert said == failure(MESSAGES[name], "cpu")
    assert said.count("\n") >= 1


@each_way
def test_an_object_has_its_kernels_with_it(way: str, tmp_path: Path) -> None:  # noqa: F811
    scale = "__co__ void scale(s32 [M]& x, s32 k) { parallel p by M { x.at(p) = x.at(p) * k; } }\n"
    more = "__co__ void more(s32 [M]& x) { parallel p by M { x.at(p) = x.at(p) + 1; } }\n"
    main = """void scale(const choreo::spanned_view<choreo::s32, 1>& x, choreo::s32 k);
int main() { int a[] = {1, 2, 3}; auto v = choreo::make_spanview(a); scale(v, 5); more(v);
  for (int i : a) std::cout << i << " "; }
"""
    objects = [tmp_path / "0.o", tmp_path / "1.o"]
    for text, path in zip((scale, more + main), objects, strict=True):
        whole.build(whole.transpile(text, way), path, "object")
    whole.link(objects, tmp_path / "program", way)
    assert whole.run(tmp_path / "program").stdout == "6 11 16 "


def test_a_kernel_that_leaves_its_buffer_is_found_by_the_emulator() -> None:
    source = """__device__ void stray(int* x) { x[9] = 1; }
__co__ void f(s32 [9]& x) { parallel by 1 { call stray(x); } }
int main() { auto x = choreo::make_spandata<choreo::s32>(9); f(x); }
"""
    said = failure(source, "emulate")
    assert (
        "f: f_kernel: thread 0 of block 0 writes 4 bytes 0 bytes behind the end of a global buffer of 36 bytes" in said
    )
    assert "at line 1" in said


def test_a_kernel_that_the_processor_stops_is_named_by_the_emulator() -> None:
    source = """__device__ int part(int a, int b) { return a / b; }
__co__ void f(s32 [9]& x, s32 k) { parallel p by 9 { x.at(p) = call part(x.at(p), k); } }
int main() { auto x = choreo::make_spandata<choreo::s32>(9); x.fill(1); f(x, 0); }
"""
    said = failure(source, "emulate")
    assert "f: f_kernel: thread 0 of block 0 divides an integer by zero" in said and "at line 1" in said


def test_opencl_programs_run_in_an_empty_environment(tmp_path: Path) -> None:
    from whole.devices import MISSING

    if MISSING["opencl"]:
        pytest.skip(MISSING["opencl"])
    source = Source((SEEDS / "matmul_dma.co").read_text(), "matmul_dma.co")
    whole.build(whole.transpile(source, "opencl"), tmp_path / "program")
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    assert whole.run(tmp_path / "program", environment=kept).stdout == "Test Passed\n\n"


def test_what_the_opencl_compiler_refuses_is_said_before_the_program_runs() -> None:
    from whole.devices import MISSING

    if MISSING["opencl"]:
        pytest.skip(MISSING["opencl"])
    source = """__cok__ {
  int f(int x) { return missing + x; }
}
__co__ void g(s32 [4]& x) { parallel p by 4 { mutable s32 v = call f(x.at(p)); x.at(p) = v; } }
int main() {}
"""
    with pytest.raises(CompileError, match=r"cell:2:\d+: error: .*undeclared identifier .missing."):
        croq.run_program(source, target="opencl")
