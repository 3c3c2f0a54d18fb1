"""What hosts may write, what they are told at the call, and how wrong programs are explained."""

from __future__ import annotations

import re
from typing import Any

import pytest

import croq_magic as croq
from croq_magic.compiler import whole
from croq_magic.run import executable

ADD = """__co__ s32 [4, 8] add(s32 [4, 8] lhs, s32 [4, 8] rhs) {
  s32 [lhs.span] output;
  parallel p by 4 { foreach q in [8] { output.at(p, q) = lhs.at(p, q) + rhs.at(p, q); } }
  return output;
}
"""
MAIN = """int main() {
  auto a = choreo::make_spandata<choreo::s32>(4, 8);
  a.fill(20);
  %s
}
"""


def run(source: str, **options: Any) -> Any:
    return croq.run_program(source, target="cpu", **options)


def test_names_of_the_host_and_ours_never_meet() -> None:
    done = run("""using namespace choreo;
using namespace std;
int now() { return 1; }
int load(int& x) { return x; }
int kernel(int x) { return x + 100; }
int launch = 3, fail = 2, table[4], lane, words, site;
struct f16x { int frame; };
s32 print(s32 x) { return x; }
__cok__ {
  extern "C" void kernel(s32* x, int n) {
    for (int i = 0; i < n; ++i) x[i] *= 2;
  }
} // end of __cok__
__co__ void twice(s32 [M]& x) {
  parallel p by 1 {
    t = dma.copy x => shared;
    call kernel(t.data, |x.span|);
    dma.copy t.data => x;
  }
}
int main() {
  auto v = make_spandata<s32>(5);
  v.fill(4);
  twice(v);
  cout << v[4] << " " << now() << " " << kernel(launch) << " " << print(fail) << endl;
}
""")
    assert done.stdout == "8 1 103 2\n"


def test_macros_of_the_program_do_not_reach_generated_text() -> None:
    done = run("""#define N 8
#define lane 3
#define output 7
#define begin 9
#define M 2
__co__ s32 [4, N] f(s32 [4, N] x) {
  s32 [x.span] o;
  parallel p by 4 { foreach q in [N] { o.at(p, q) = x.at(p, q) + N * M; } }
  return o;
}
int main() {
  auto a = choreo::make_spandata<choreo::s32>(4, N);
  a.fill(20);
  std::cout << f(a)[3][7] << " " << lane << output << begin << "\\n";
}
""")
    assert done.stdout == "36 379\n"


def test_scalars_of_every_kind_arrive() -> None:
    done = run("""__co__ f64 sum(f16 h, bool b, s64 n, f64 d, u8 u, int k, bf16 c) {
  mutable f64 r = 0.0;
  if (b) { r = h; r += n; r += d; r += u; r += k; r += c; }
  return r;
}
int main() {
  choreo::f16 h = 1.5f;
  std::printf("%.2f %.2f\\n", sum(h, true, 1ll << 40, 0.25, 200, -3, choreo::f32_to_bf16(2.0f)),
              sum(h, false, 1, 1, 1, 1, 1));
}
""")
    assert done.stdout == f"{2**40 + 200.75:.2f} 0.00\n"


def test_symbolic_extents_overlaps_and_results() -> None:
    done = run("""__co__ f32 [M, N] turn(f32 [N, M] x, f32 [N] y) {
  f32 [M, N] o;
  parallel i by M { foreach j in [N] { o.at(i, j) = x.at(j, i) + y.at(j); } }
  return o;
}
__co__ void reverse(s32 [M]& x, s32 [M] y) { parallel p by M { x.at(p) = y.at(M - 1 - p); } }
int main() {
  auto x = choreo::make_spandata<choreo::f32>(3, 5);
  x.fill(1);
  x[2][4] = 7;
  auto y = choreo::make_spandata<choreo::f32>(3);
  y.fill(0.5f);
  auto r = turn(x.view(), y.view());
  std::cout << r.shape() << " " << r[4][2] << " " << r[0][0] << "\\n";
  int a[] = {1, 2, 5};
  auto v = choreo::make_spanview(a);
  reverse(v, v);
  std::cout << a[0] << a[1] << a[2] << "\\n";
}
""")
    assert done.stdout == "[5, 3] 7.5 1.5\n521\n"


def test_prints_and_host_output_keep_their_order() -> None:
    done = run("""__co__ void g() { println("host"); parallel p by 3 { println("p", p); } }
__device__ void dev(int x) { printf("dev %d\\n", x); }
__co__ void k() { parallel p by 2 { call dev(p); println("after", p); } }
int main() {
  printf("a\\n");
  g();
  std::cout << "b\\n";
  k();
  printf("c\\n");
}
""")
    assert done.stdout == "a\nhost\np0\np1\np2\nb\ndev 0\nafter0\ndev 1\nafter1\nc\n"


def test_templates_namespaces_and_overloads() -> None:
    done = run("""template <int N, typename T>
__device__ void scale(T* x) { for (int i = 0; i < N; ++i) x[i] *= 2; }
namespace tiles {
__co__ void twice(s32 [6]& x) {
  parallel p by 2 {
    t = dma.copy x.chunkat(p) => local;
    call scale<3>(t.data);
    dma.copy t.data => x.chunkat(p);
  }
}
}  // namespace tiles
__co__ s32 sum(s32 [M] x) { mutable s32 r = 0; foreach i in [M] { r += x.at(i); } return r; }
__co__ s32 sum(s32 [M, N] x) {
  mutable s32 r = 100;
  foreach i in [M] { foreach j in [N] { r += x.at(i, j); } }
  return r;
}
int main() {
  int x[6] = {1, 2, 3, 4, 5, 6}, y[2][3] = {{1, 2, 3}, {4, 5, 6}};
  tiles::twice(choreo::make_spanview(x));
  std::cout << x[5] << " " << sum(choreo::make_spanview(x)) << " " << sum(choreo::make_spanview(y)) << "\\n";
}
""")
    assert done.stdout == "12 42 121\n"


def test_functions_of_two_namespaces_may_be_alike() -> None:
    source = """namespace naive { // }
__co__ s32 [N] f(s32 [N] x) { s32 [N] y; parallel p by N y.at(p) = x.at(p); return y; }
}
namespace a::b { namespace { const char* brace = "{"; }
struct S { __attribute__((unused)) int x = 0; };
__co__ s32 [N] f(s32 [N] x) { s32 [N] y; parallel p by N y.at(p) = 2 * x.at(p); return y; }
}
__co__ s32 [N] f(s32 [N] x) { s32 [N] y; parallel p by N y.at(p) = 3 * x.at(p); return y; }
int main() {
  int x[2] = {1, 7};
  auto v = choreo::make_spanview(x);
  std::cout << naive::f(v)[1] << " " << a::b::f(v)[1] << " " << f(v)[1] << "\\n";
}
"""
    assert run(source).stdout == "7 14 21\n"
    with pytest.raises(croq.CompileError, match=r"`f` is already defined at line 2 for parameters of these types"):
        run(source.replace("a::b", "naive"))
    with pytest.raises(croq.CompileError, match=r"`f`: parameter `s32 \[N\] x` takes an array of s32 of rank 1, and"):
        run(source.replace("naive::f(v)", "naive::f(3)"))


def test_the_lines_of_both_streams_keep_their_order() -> None:
    program = croq.compile("""int main() {
  for (int i = 0; i < 50; ++i) {
    std::cout << "out " << i << "\\n";
    std::cerr << "err " << i << "\\n";
    printf("%d\\n", i);
    fprintf(stderr, "%d!\\n", i);
  }
}
""", target="cpu")  # fmt: skip
    seen: list[list[str]] = []

    def show(stream: str, text: str) -> None:
        if seen and seen[-1][0] == stream:
            seen[-1][1] += text
        else:
            seen.append([stream, text])

    assert whole.run(executable(program), on_output=show).returncode == 0
    expected = [[f"out {i}\n", f"err {i}\n", f"{i}\n", f"{i}!\n"] for i in range(50)]
    assert [text for _, text in seen] == [line for lines in expected for line in lines]
    assert [stream for stream, _ in seen] == ["stdout", "stderr"] * 100


def test_what_is_probably_not_meant_is_said_once() -> None:
    done = run("""__co__ s32 [N] f(s32 [N] x) {
  s32 [N] o;
  parallel p by 4 { t = dma.copy x.chunkat(p) => shared; dma.copy t.data => o.chunkat(p); }
  return o;
}
int main() {
  int a[7] = {1, 2, 3, 4, 5, 6, 7};
  auto v = choreo::make_spanview(a);
  for (int i = 0; i < 3; ++i) std::cout << f(v)[3] << "\\n";
}
""")
    assert done.stdout == "4\n4\n4\n"
    assert done.stderr.count("cell:3:44: warning: f: N is not a multiple of 4; the rest of dimension 0 of `x`") == 1
    assert done.stderr.count("(N = 7) [VEW03]\n      parallel p by 4") == 2


def test_the_command_line() -> None:
    source = 'int main(int n, char** v) { for (int i = 1; i < n; ++i) std::cout << "[" << v[i] << "]"; }\n'
    assert run(source, args=["a b", "--x=1"]).stdout == "[a b][--x=1]"


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("#ifdef NOPE\n__co__ s32 f() { return 1; }\n#else\n__co__ s32 f() { return 2; }\n#endif\n"
         "int main() { std::cout << f(); }\n", "2"),
        ("choreo::s32 f(choreo::s32);\nint g() { return f(4); }\n__co__ s32 f(s32 x) { return x * 2; }\n"
         "int main() { std::cout << g(); }\n", "8"),
        ('#include "choreo.h"\n#include <choreo.h>\nint main() { std::cout << __LINE__; }\n', "3"),
        ('// int main() {}\n/* __co__ */ const char* s = "__co__ int main() {";\nint main() { std::cout << s; }\n',
         "__co__ int main() {"),
        ("__co__ s32 f(s32 x) {\r\n  return x;\r\n}\r\nint main() {\r\n  std::cout << f(__LINE__);\r\n}\r\n", "5"),
        ("__co_device__ f32 half_of(f32 x) { return x / 2; }\n"
         "__co__ f32 [4] f(f32 [4] x) { f32 [4] o; parallel p by 4 { o.at(p) = call half_of(x.at(p)); } return o; }\n"
         "int main() { float a[4] = {1, 2, 3, 5}; std::cout << f(choreo::make_spanview(a))[3]; }\n", "2.5"),
        ("#include <thread>\n"
         "__co__ s32 sum(s32 [M] x) { mutable s32 r = 0; foreach i in [M] { r += x.at(i); } return r; }\n"
         "int main() { std::vector<std::thread> ts; int total[4], a[1000]; for (int& x : a) x = 1;\n"
         "  for (int t = 0; t < 4; ++t) ts.emplace_back([&, t] { total[t] = sum(choreo::make_spanview(a)) + t; });\n"
         "  for (auto& t : ts) t.join();\n  std::cout << total[0] + total[3]; }\n", "2003"),
    ],
)  # fmt: skip
def test_texts_of_all_sorts(source: str, output: str) -> None:
    assert run(source).stdout == output


def test_macros_from_outside_reach_both_parts() -> None:
    source = "__co__ s32 f() { return N; }\nint main() { std::cout << f() + N; }\n"
    assert run(source, defines={"N": 21}).stdout == "42"


SCALED = "__co__ s32 [4, 8] scaled(s32 [4, 8] x, int n) { return x; }\n"
WRONG = [
    ("", "#include <nothere.h>\n", r":1:10: error: .*nothere.h: No such file or directory"),
    ("auto b = choreo::make_spandata<choreo::s32>(4); add(a, b.view());", "",
     r":9:\d+: error: `add`: parameter `s32 \[4, 8\] rhs` takes an array of s32 of rank 2, and argument 2 is an array "
     r"of s32 of rank 1"),
    ("auto b = choreo::make_spandata<choreo::f32>(4, 8); add(a, b);", "",
     r"`add`: parameter `s32 \[4, 8\] rhs` takes an array of s32 of rank 2, and argument 2 is an array of f32"),
    ("int x[4][8]; add(x, a);", "", r"`add`: parameter `s32 \[4, 8\] lhs` .* argument 1 is `int ?\[4\]\[8\]`"),
    ("add(3, a);", "", r"`add`: parameter `s32 \[4, 8\] lhs` takes .* argument 1 is `int`"),
    ("add(a);", "", r"`add` is called with too few arguments; it takes 2: `s32 \[4, 8\] lhs`, `s32 \[4, 8\] rhs`"),
    ("add(a, a, 3);", "", r"`add` is called with too many arguments; it takes 2"),
    ('scaled(a, "two");', SCALED, r"`scaled`: parameter `s32 n` takes s32, and argument 2 is `const char ?[*\[]"),
    ("scaled(a, a);", SCALED, r"`scaled`: parameter `s32 n` takes s32, and argument 2 is an array of s32 of rank 2"),
    ("scaled(a, std::string());", SCALED, r"`scaled`: parameter `s32 n` takes s32, and argument 2 is `std::.*string"),
    ("std::vector<int> v(8); auto w = choreo::make_spanview<1>(v, {8});", "", r"`make_spanview` takes a pointer and"),
    ("auto b = choreo::make_spandata(3);", "", r"`make_spandata` takes an element type and extents"),
    ("a.fill_random(1);", "", r"`fill_random` takes two bounds"),
    ("auto b = a;", "", r"an array that owns its memory cannot be copied: `std::move"),
    ("auto b = choreo::make_spandata<choreo::s32>(4); b = a[0];", "", r"an array of s32 of rank 2 that lacks 1 index"),
    ("auto b = add(a, a); b = a;", "", r"an array that owns its memory cannot be copied"),
    ("int v = a[1];", "", r"an array of s32 of rank 2 that lacks 1 index"),
    ("foo(a);", "", r":9:3: error: .*`foo` was not declared in this scope|undeclared identifier"),
    ("foo(3);", "int foo(int);\n", r":1:5: error: `foo\(int\)` is declared and defined nowhere"),
    ('std::string s = "open;', "", r":9:\d+: error: .*missing terminating"),
    ("std::cout << ", "", r":10:1: error: .*expected"),
    ("scaled(a, 1);", "__cok__ {\nvoid g(int* a, int n) { a[0] = n; }\n}\n"
     "__co__ s32 [4, 8] scaled(s32 [4, 8] x, int n) { parallel p by 4 { call g(n, 1); } return x; }\n",
     r"note:   initializing argument 1 of `void g\(int ?\*, int\)`|no matching function for call to `?g"),
    ("} int main() {", "", r":9:\d+: error: .*redefinition of `.*main"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "head", "message"), WRONG)
def test_wrong_programs(statement: str, head: str, message: str) -> None:
    with pytest.raises(croq.CompileError) as caught:
        run(head + ADD + MAIN % statement)
    text = str(caught.value)
    assert re.search(message, text), text
    assert text.count(": error: ") == 1
    assert "[with " not in text and "croq_" not in text and "/tmp" not in text


def test_a_program_without_main() -> None:
    with pytest.raises(croq.CompileError, match="the program has no `main`: there is nothing to run"):
        run(ADD)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (ADD + MAIN % "auto b = choreo::make_spandata<choreo::s32>(4, 9); add(a, b);",
         "add: parameter `rhs`: dimension 1: expected 8, got 9\n"
         "    declared: s32 [4, 8] add(s32 [4, 8] lhs, s32 [4, 8] rhs)"),
        ("__co__ void f(s32 [M] x, s32 [2, M] y) {}\nint main() { int a[3], b[2][4];\n"
         "  f(choreo::make_spanview(a), choreo::make_spanview(b)); }\n",
         "f: parameter `y`: dimension 1: expected 3, got 4 (M is that in dimension 0 of `x`)"),
        ("__co__ void f(s32 [M] x) {}\nint main() { f(choreo::make_spanview<1>((int*)nullptr, {3})); }\n",
         "f: parameter `x` is a null pointer"),
        ("__co__ void f(s32 [M] x) {}\n"
         "int main() { std::vector<int> v; f(choreo::make_spanview<1>(v.data(), {0})); }\n",
         "f: parameter `x`: dimension 0: expected 1 or more, got 0"),
        ("__co__ void f(s32 [M]& x, s32 [M]& y) { parallel p by M { x.at(p) = y.at(p); } }\n"
         "int main() { int a[3]; auto v = choreo::make_spanview(a); f(v, v); }\n",
         "f: `x` and `y` share memory, and the function writes to both"),
        ('__co__ void f(s32 [M] x) { parallel p by M { assert(x.at(p) < 3, "too big"); } }\n'
         "int main() { int a[] = {1, 2, 5}; f(choreo::make_spanview(a)); }\n",
         "cell:1:46: f: too big (at p = 2) [RTA06]"),
        (ADD + MAIN % "a[0][8] = 1;", "index 8 is out of range for dimension 1, which has extent 8"),
        (ADD + MAIN % 'choreo::choreo_assert(a[0][0] == 3, "values are not equal.");',
         "cell:9: assertion failed: values are not equal."),
    ],
)  # fmt: skip
def test_what_is_found_while_it_runs(source: str, message: str) -> None:
    with pytest.raises(croq.ProgramError, match="SIGABRT") as caught:
        run(source)
    assert message.splitlines()[0] in str(caught.value)
    done = run(source, check=False)
    assert message in done.stderr and done.stdout == ""
