"""Host text that was probably meant to do something, and programs nested deeper than Python's recursion limit."""

from __future__ import annotations

import numpy as np
import pytest

import croq_magic as croq


@pytest.mark.parametrize(
    ("text", "word", "right"),
    [
        ("_co_ s32 [4] h(s32 [4] x) { return x; }", "_co_", "__co__"),
        ("__co s32 [4] h(s32 [4] x) { return x; }", "__co", "__co__"),
        ("__c0__ void h() {}", "__c0__", "__co__"),
        ("__device int g() { return 1; }", "__device", "__device__"),
        ("__cok { int g() { return 1; } }", "__cok", "__cok__"),
    ],
)
def test_a_marker_without_an_underscore_is_named(text: str, word: str, right: str) -> None:
    (found,) = croq.check("__co__ void f() {}\n" + text)
    assert (found.code, found.severity, found.span.text, found.span.line) == ("SYN18", "warning", word, 2)
    assert found.message == f"`{word}` is no marker: the text from here is passed over"
    assert found.hint == f"`{right}`"


def test_other_host_text_is_left_alone() -> None:
    text = (
        '// _co_ s32\nint device = 1; const char* s = "_co_ x"; /* __device int */ int my_co_ = 2;\n__co__ void f() {}'
    )
    assert croq.check(text) == []


@pytest.mark.parametrize(
    "host",
    [
        "#include <cmath>\nusing namespace std;\n",
        "template <int N> struct Pair { int a, b; };\nstatic const int k = 3;\n",
        "int helper(int a) { return a; }\nfloat* p = nullptr, q[3];\nstd::vector<int> v(3);\nvoid f2();",
        'extern "C" { int g(); }\nnamespace n { int h; }\n[[maybe_unused]] int x{1};;',
        "enum class E { a, b };\ntypedef unsigned long ul;\nconstexpr ul one = 1; unsigned long two = 2;",
    ],
)
def test_declarations_of_cxx_draw_no_warning(host: str) -> None:
    assert croq.check(host + "\n__co__ void f() {}\n" + host) == []


@pytest.mark.parametrize(
    "line", ["x = np.arange(4) * 100", "x + 1", "print(3)", "%time f(x)", "garbage", "f(x)", "@njit"]
)
def test_python_beside_a_function_is_not_passed_over_silently(line: str) -> None:
    for source in (f"{line}\n__co__ void f() {{}}", f"int a = 1;\n__co__ void f() {{}}\n{line}"):
        (found,) = croq.check(source)
        assert (found.code, found.span.text) == ("SYN20", line)


def test_nothing_is_said_about_the_host_text_of_a_whole_program() -> None:
    source = "x = 1\n__co__ void f() {}\n"
    assert [found.code for found in croq.check(source)] == ["SYN20"]
    assert croq.check(source + "int main() { f(); return 0; }") == []


@pytest.mark.parametrize("terms", [500, 2000])
def test_long_sums(terms: int) -> None:
    source = (
        f"__co__ s32 [4] f(s32 [4] x) {{ s32 [4] r; parallel p by 4 r.at(p) = x.at(p){' + 1' * terms}; return r; }}"
    )
    result = croq.compile(source, target="cpu").f(np.arange(4, dtype=np.int32))
    np.testing.assert_array_equal(result, np.arange(4) + terms)


def test_nested_too_deeply() -> None:
    source = f"__co__ s32 f(s32 [4] x, int n) {{ return {'-' * 1}{'(n + ' * 9000}n{')' * 9000}; }}"
    found = [d for d in croq.check(source) if d.severity == "error"]
    assert [d.code for d in found] == ["SYN19"]
