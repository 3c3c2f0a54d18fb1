from __future__ import annotations

from pathlib import Path

import pytest
from compiler.frontend import read

from croq_magic.compiler.diagnostics import Diagnostic, Report
from croq_magic.compiler.source import Source
from croq_magic.compiler.split import Unit, split

PROGRAMS = sorted((Path(__file__).parents[1] / "programs").rglob("*.co"))


def cut(text: str) -> tuple[Unit, list[Diagnostic]]:
    report = Report()
    unit = split(Source(text), report)
    return unit, list(report)


def kinds(text: str) -> list[tuple[str, str]]:
    unit, findings = cut(text)
    assert not findings, findings[0]
    return [(region.kind, region.text) for region in unit.regions if region.text.strip()]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_regions_are_the_text_without_gaps(path: Path) -> None:
    text = path.read_text()
    unit, findings = cut(text)
    assert not findings
    assert "".join(region.text for region in unit.regions) == text
    assert unit.of_kind("tileflow")


def test_every_kind_of_region() -> None:
    text = """#include <vector>
template <int N> __device__ int f(int x) { return x + N; }
__device__ int prototype(int x);
__cok__ { void g() { } } int between;
__co__ void t(s32 [4] v) { v.at(0) = 1; } int after;
__global__ void k() { }
"""
    assert [(kind, piece.strip()) for kind, piece in kinds(text)] == [
        ("directive", "#include <vector>"),
        ("host", "template <int N>"),
        ("device", "__device__ int f(int x) { return x + N; }"),
        ("device", "__device__ int prototype(int x);"),
        ("cok", "__cok__ { void g() { } }"),
        ("host", "int between;"),
        ("tileflow", "__co__ void t(s32 [4] v) { v.at(0) = 1; }"),
        ("host", "int after;\n__global__ void k() { }"),
    ]


@pytest.mark.parametrize(
    "variable",
    [
        "__device__ int a[4] = {1, 2, 3, 4};",
        "__device__ int a[2][2] = {{1, 2}, {3, 4}}, b[1] = {5};",
        "__device__ int a{1}, b{2};",
        "__device__ __align__(16) int a[(2)]{};",
        "__device__ __attribute__((aligned(16))) int a[4] = {};",
        "__device__ alignas(sizeof(int)) S a = S{1};",
        "__device__ struct S { int x; int f(int y) { return y; } } s = {f(1)};",
        "__device__ int (*table[2])(int) = {f, g};",
        "__device__ auto f = [](int x) { return x; };",
        "__device__ float x = 1.f;",
    ],
)
def test_variables_of_the_device_end_at_a_semicolon(variable: str) -> None:
    assert kinds(f"{variable} __co__ void t() {{ }}") == [("device", variable), ("tileflow", "__co__ void t() { }")]


@pytest.mark.parametrize(
    "signature",
    [
        "bool operator==(S a, S b)",
        "S& S::operator=(const S& a)",
        "int S::operator()(int a) const",
        "int S::operator[](int a) const",
        "S::operator bool() const",
        "std::enable_if_t<N == 2, int> f(T a = T(3), S s = {1})",
        "__launch_bounds__(3) int f(int (*p)(int), int q = 4) noexcept",
        "auto f(int a[3]) -> decltype(a[0])",
        "struct S f(/* ) = */ int a)",
    ],
)
def test_functions_of_the_device_end_at_their_brace(signature: str) -> None:
    text = f"__device__ {signature} {{ int x[2] = {{1, 2}}; }}"
    assert kinds(f"{text} int after;") == [("device", text), ("host", " int after;")]


def test_names_and_inner_text() -> None:
    unit, _ = cut("__co__ s32 [4] t(s32 [4] v) { return v; } __cok__ { int x; } __device__ float f(int (*p)(int)) {}")
    tileflow, cok, device = (region for region in unit.regions if region.kind != "host")
    assert tileflow.name == "t"
    assert cok.inner is not None
    assert cok.inner.text == " int x; "
    assert device.name == "f"


@pytest.mark.parametrize(
    "host",
    [
        "// __co__ void f() {",
        "/* __co__ void f() { */",
        'const char* s = "__co__ void f() {";',
        'const char* s = R"(__co__ { " \' )";',
        'const char* s = R"x(__co__ )" )x";',
        'const char* s = "\\"__co__ {";',
        "int my__co__x = 1, __co__2 = 0;",
        "char c = '\"'; char d = '{'; char e = '\\'';",
        "int n = 1'000'000;",
        "struct S { __device__ int f() { return 1; } };",
    ],
)
def test_markers_that_are_none(host: str) -> None:
    assert kinds(host) == [("host", host)]


@pytest.mark.parametrize(
    "opener", ["namespace a {", 'extern "C" {', "#if 1\nnamespace a {\n#else\nnamespace b {\n#endif"]
)
def test_host_braces_stay_open_around_a_function(opener: str) -> None:
    unit, findings = cut(opener + "\n__co__ void f() { }\n__co__ void g() { }\n}\n__device__ int h() { return 1; }\n")
    assert not findings
    assert [region.name for region in unit.of_kind("tileflow", "device")] == ["f", "g", "h"]


def test_braces_in_comments_and_strings_do_not_count() -> None:
    text = '__co__ void f() { // }\n /* } */ println("}"); t = {1, 2}; }'
    assert kinds(text + " int x;") == [("tileflow", text), ("host", " int x;")]


def test_a_condition_counts_the_braces_of_one_branch() -> None:
    text = """__co__ void f() {
#if FAST
  parallel p by 4 : block {
#else
  parallel p by 4 : thread {
#endif
  }
}"""
    assert kinds(text + "\nint x;")[0] == ("tileflow", text)


def test_directives_are_found_everywhere_but_only_known_ones() -> None:
    text = "#define A 1\n__co__ void f() {\n  # define B \\\n  2\n#p\n}\n/*\n#define C\n*/\n"
    unit, _ = cut(text)
    assert [directive.span.text.strip() for directive in unit.directives] == ["#define A 1", "# define B \\\n  2"]


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        (
            "\n__co__ void f() { parallel p by 2 { }",
            "end of file inside tileflow function `f` opened at line 2; one `}` is missing",
            2,
        ),
        (
            "__co__ void f() { { {",
            "end of file inside tileflow function `f` opened at line 1; 3 `}` are missing",
            1,
        ),
        ("__co__ void f(", "end of file inside tileflow function `f` opened at line 1; its body is missing", 1),
        ("__cok__ { void g() {}", "end of file inside `__cok__` block opened at line 1; one `}` is missing", 1),
        ("__device__ void g() {", "end of file inside device function `g` opened at line 1; one `}` is missing", 1),
        (
            "__co__ void f() {\n__co__ void g() {}",
            "tileflow function `f` opened at line 1 is not closed before the next one at line 2; one `}` is missing",
            1,
        ),
        ("__co__ void f() {\n __cok__ { }", "`__cok__` inside tileflow function `f`", 2),
        ("int x; /* never closed", "end of file inside a comment opened at line 1", 1),
    ],
)
def test_what_is_not_closed(text: str, message: str, line: int) -> None:
    _, (found,) = read(text)
    assert (found.code, found.message, found.span.line) == ("SYN13", message, line)


def test_a_brace_too_many_after_a_function() -> None:
    _, (found,) = cut("__co__ void f() { } }\n")
    assert (found.code, found.message, found.span.column) == ("SYN01", "unexpected `}`: it closes nothing", 21)


def test_a_missing_parenthesis_does_not_swallow_the_rest() -> None:
    unit, findings = cut("__co__ void f() { x = (1; } __co__ void g() { }")
    assert not findings
    assert [region.name for region in unit.of_kind("tileflow")] == ["f", "g"]


def test_prototypes_do_not_exist() -> None:
    _, (found,) = cut("__co__ void f(int n);")
    assert (found.code, found.span.column) == ("SYN01", 21)
    assert "prototypes do not exist" in found.message


@pytest.mark.parametrize(
    ("text", "kind"),
    [("__co_device__ void f(s32 [4] v) { }", "tileflow"), ("__co_device__ void f(int* v) { v[0] = 1; }", "device")],
)
def test_the_parameters_of_a_co_device_function_decide(text: str, kind: str) -> None:
    unit, _ = cut(text)
    assert [region.kind for region in unit.regions] == [kind]


def test_device_functions_inside_a_block_of_device_code() -> None:
    text = "__cok__ {\n__device__ int f() { return 1; }\n}"
    assert kinds(text + "\nint x;") == [("cok", text), ("host", "\nint x;")]
