"""One mistake, one message: what is found after a mistake is found for its own sake. And what messages propose."""

from __future__ import annotations

import pytest

from tests.passes.cells import errors, front, host


def kernel(body: str) -> str:
    return host(f"parallel b by 1 : block {{\n{body}\n}}")


@pytest.mark.parametrize(
    "text",
    [
        host("if (call ns::in::pred(n)) x = 1; else y = 2;"),
        host("if (n > 1 2) x = 1; else if (n > 2) x = 2; else x = 3;"),
        host("while (n > 2) { x = 1; } ++n; y = 1;"),
        host("foreach i in 3 { x = 1; } k++; y = 1;"),
        host("if (n > 2) { x = 1; } else { x = 2; } ++n;"),
        '__co__ int f() { x = "abc; return 1; }',
        '__co__ int f() {\n x = "abc;\n return 1;\n}',
        "__co__ int f() { return 1 @ 2; }",
        "__co__ int f() { __cok__ { } return 1; }",
        "__cok__ { int a() { __cok__ { } } }",
    ],
)
def test_one_message(text: str) -> None:
    assert len(errors(text)) == 1


def test_the_next_mistake_is_found() -> None:
    assert len(errors(host("if (call ns::in::pred(n)) x = 1; else y = 2; z = ;"))) == 2
    assert len(errors(host("while (n > 2) { x = 1 2; } ++n; y = ;"))) == 3
    assert len(errors("__co__ int f() { x = 1 $ 2; y = ; return 1; }")) == 2
    assert len(errors("__co__ int f() { __cok__ { } return 1; } }")) == 2


@pytest.mark.parametrize("word", ["inline", "static", "constexpr"])
def test_words_that_cannot_stand_before_a_tileflow_function(word: str) -> None:
    assert errors(f"int x; {word} __co__ int f() {{ return 1; }}") == [f"SYN01 a tileflow function cannot be `{word}`"]


def test_templates_of_device_functions_only() -> None:
    template = "template <int N> __device__ int g() { return N; }\n"
    assert errors("template <int N>\n__co__ int f() { return 1; }") == [
        "SYN01 a tileflow function cannot be a template"
    ]
    assert not errors(template + "/* static */ __co__ int f() { return 1; }")
    assert not errors("inline int h() { return 1; }\n__co__ int f() { return 1; }")
    assert errors('extern "C" __co__ int f() { return 1; }') == ["SYN01 a tileflow function cannot be `extern`"]


@pytest.mark.parametrize(
    ("body", "message", "hint"),
    [
        ("mutable int a = 1; a += 2.5;", "conversion `f64` to `s32` may lose precision", "`__to<s32>(a + 2.5)`"),
        (
            "mutable int a = 1; a *= n + 0.5;",
            "conversion `f64` to `s32` may lose precision",
            "`__to<s32>(a * (n + 0.5))`",
        ),
        (
            "g.at(0, 0) -= n * 0.5;",
            "conversion `f64` to `f32` may lose precision",
            "`__to<f32>(g.at(0, 0) - (n * 0.5))`",
        ),
        ("x = __sine(1.0f);", "unknown name `__sine`", "did you mean `__sin`?"),
        ("x = cdv(3, 4);", "`cdv` is neither declared nor a registered intrinsic", "did you mean `cdiv`?"),
        ("x = vendor::pi;", "`vendor::pi` is not a value of the language", "`call vendor::pi(...)`, "),
        ("x = vendor::mul<3>(n);", "`vendor::mul` is not a value of the language", "`call vendor::mul(...)`, "),
        ("return g.chunk(2, 1).at(0, 0);", "a view cannot be returned; copy it into a span of its own", ""),
        (
            "v = g.view(4, 4 : 100, 1).from(1, 0);",
            "the last element of the view is number 403 of `g`, which has 128",
            "strides count elements",
        ),
    ],
)
def test_messages_and_hints(body: str, message: str, hint: str) -> None:
    found = [d for d in front(host(body))[1] if d.message == message]
    assert len(found) == 1
    assert (found[0].hint or "").startswith(hint)


WAITED = "q = dma.copy.async g => shared; "


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("if (n > 2) { wait q; } else { wait q; }", []),
        ("if (n > 2) { wait q; } wait q;", []),
        ("if (n > 2) wait q; if (n <= 2) wait q;", []),
        ("if (n > 2) { if (n > 3) wait q; else wait q; } else wait q;", []),
        ("foreach i in 4 { if (i == 0) wait q; }", []),
        ("if (2 > 1) wait q;", []),
        ("if (n > 2) wait q;", ["DMA07 `q` is waited on only if `n > 2`"]),
        ("if (n > 2) x = 1; else wait q;", ["DMA07 `q` is waited on only if `n > 2`"]),
        ("if (1 > 2) wait q;", ["DMA07 `q` is never waited on"]),
        ("if (n > 2) { wait q; } else { wait q; } wait q;", ["DMA08 `q` was already waited on"]),
        ("wait q; if (n > 2) wait q;", ["DMA08 `q` was already waited on"]),
        ("if (n > 2) { wait q; wait q; } else wait q;", ["DMA08 `q` was already waited on"]),
        ("if (n > 2) x = q.data.at(0, 0); wait q;", ["DMA09 `q.data` is read before `wait q`"]),
        ("if (n > 2) wait q; else x = q.data.at(0, 0); wait q;", ["DMA09 `q.data` is read before `wait q`"]),
    ],
)
def test_waits_in_branches(rest: str, expected: list[str]) -> None:
    assert errors(kernel(WAITED + rest)) == expected


@pytest.mark.parametrize("mistake", ["trigger e after nothing;", "trigger e after x;", "trigger e, nobody;"])
def test_an_event_is_triggered_even_where_its_trigger_is_wrong(mistake: str) -> None:
    roles = f"shared event e; inthreads.async (n == 0) {{ {mistake} }} inthreads.async (n == 1) {{ wait e; }}"
    assert len(errors(kernel(f"parallel n by 2 : thread {{ {roles} }}"))) == 1
