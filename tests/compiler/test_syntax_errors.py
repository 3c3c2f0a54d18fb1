from __future__ import annotations

import pytest
from compiler.catalogue import CATALOGUE, Entry, program
from compiler.frontend import mistake, read

BAD = [entry for entry in CATALOGUE if entry.code.startswith("SYN")]
# Where each finding of the catalogue stands: line in the complete program, column, and the text that is underlined.
PLACES = {
    "SYN01": (2, 10, "n"),
    "SYN02": (2, 7, "[4, 2]"),
    "SYN03": (2, 12, "="),
    "SYN04": (2, 12, ":"),
    "SYN05": (2, 12, "2"),
    "SYN06": (2, 7, "[]"),
    "SYN07": (2, 3, "launch_bounds(128)"),
    "SYN08": (2, 12, "[p]"),
    "SYN09": (2, 11, "else"),
    "SYN10": (2, 7, "18446744073709551616ull"),
    "SYN11": (2, 7, "g[0, 1]"),
    "SYN12": (3, 13, "goto"),
    "SYN13": (1, 1, "__co__"),
    "SYN14": (5, 8, ".store"),
    "SYN15": (5, 33, ".evict_last"),
    "SYN16": (5, 5, "swap(fa, fb, fa)"),
    "SYN17": (2, 13, "|g.span|"),
}


@pytest.mark.parametrize("entry", BAD, ids=lambda entry: entry.code)
def test_the_catalogue(entry: Entry) -> None:
    _, findings = read(program(entry))
    assert [(found.code, found.message) for found in findings] == [(entry.code, entry.message)]
    (found,) = findings
    assert (found.span.line, found.span.column, found.span.text) == PLACES[entry.code]
    if entry.hint is not None:
        assert found.hint == entry.hint


@pytest.mark.parametrize("entry", [entry for entry in CATALOGUE if entry not in BAD], ids=lambda entry: entry.code)
def test_other_mistakes_are_not_syntax_errors(entry: Entry) -> None:
    _, findings = read(program(entry))
    assert {found.code for found in findings} <= {entry.code}


@pytest.mark.parametrize(
    ("fragment", "place", "message", "hint"),
    [
        (
            "x = 1\ny = 2;",
            (3, 1),
            "unexpected name `y`; expected `,` or `;`",
            "a `;` is missing at the end of line 2",
        ),
        ("x = (1 + 2;", (2, 11), "unexpected `;`; expected `)`", None),
        ("x = 1 +;", (2, 8), "unexpected `;`; expected an expression", None),
        (
            "x = g.at(1 2);",
            (2, 12),
            "unexpected number `2`; expected `,`, `)` or `:`",
            "separate arguments with commas",
        ),
        ("dma.copy g shared;", (2, 12), "unexpected `shared`; expected `=>`", None),
        ("parallel p 4 {}", (2, 12), "unexpected number `4`; expected `=` or `by`", None),
        (
            "parallel p by 4 : blok {}",
            (2, 19),
            "unexpected name `blok`; expected a level (`block`, `group-4`, `group`, `thread`)",
            "did you mean `block`?",
        ),
        ("forech i in 4 {}", (2, 8), "unexpected name `i`; expected `;`, `:` or `=`", "did you mean `foreach`?"),
        ("foreach i in 4 : unrol {}", (2, 18), "unexpected name `unrol`; expected `unroll` or `vectorize`", None),
        ("int by = 3;", (2, 5), "unexpected keyword `by`; expected a name or `[`", "`by` is a reserved word; choose"),
        ("int __exp = 3;", (2, 5), "`__exp` is a reserved word and cannot be declared", None),
        ("if n > 2 {}", (2, 4), "unexpected name `n`; expected `(`", "the condition of `if` stands in parentheses"),
        (
            "for (int i = 0; i < 4; i++) { g.at(i, 0) = 1; }",
            (2, 1),
            "`for` does not exist",
            "`foreach i in [4] { ... }`",
        ),
        ("const int x = 3;", (2, 1), "`const` does not exist in declarations", None),
        ("f32 x[4];", (2, 6), "the shape stands between type and name", "`f32 [...] x`"),
        ("x = g.chunkatt(n, _);", (2, 6), "unknown word `.chunkatt`", "did you mean `.chunkat`?"),
        ("x = dma.copi g => shared;", (2, 8), "unknown operation `dma.copi`", None),
        ("x = g.at(1, 2).chunkat(n);", (2, 15), "nothing can follow an element `.at(...)`", None),
        ("x = g.chunk(4, 1);", (2, 6), "`.chunk(...)` needs `.at(...)` after it", None),
        ("x = g.from(1, 1);", (2, 6), "`.from(...)` belongs directly after `.view(...)`", None),
        ("x = g.chunkat(n, _).at(0, 0);", (2, 20), "an element of a view: name the view first", None),
        ("g.at(1, 2);", (2, 1), "`g.at(1, 2)` is not a statement", None),
        ("x = 09;", (2, 5), "`09` is not a number", "write it without leading zeros"),
        ("x = 3000000000000000000000;", (2, 5), "literal does not fit `s64` (max 9223372036854775807)", None),
        ("x = -9223372036854775808;", (2, 6), "literal does not fit `s64` (max 9223372036854775807)", None),
        ("dma.copy g.at(0, 0) => shared;", (2, 10), "expected a span or a view, found an element", None),
        ("mma.row c, a, b;", (2, 4), "an MMA names two layouts, `.row` or `.col` each", None),
        ("c = mma.row.row c, a, b;", (2, 1), "only an asynchronous MMA has a result", None),
        ("mma.row.row c, a;", (2, 1), "this form is written `mma.row.row c, a, b`; found 2 arguments", None),
        ("sync.foo;", (2, 5), "unknown word `.foo` after `sync`", None),
        ("g.data = 1;", (2, 1), "a whole buffer cannot be assigned", None),
        ("n + 1 = 2;", (2, 3), "unexpected `+`; expected `;`, `:` or `=`", None),
        ("wait f.data;", (2, 6), "expected a future or an event", "wait on the future itself: `f`"),
        ("for i in range(3): pass", (2, 1), "`for` does not exist", "`foreach i in [4] { ... }`"),
        ("k++;", (2, 2), "`++` does not exist as a statement", "`k += 1`"),
        ("--k;", (2, 1), "`--` does not exist as a statement", "`k -= 1`"),
        ("float32 [3] k;", (2, 1), "`float32` is not an element type", "did you mean `f32`?"),
        ("g[0][1] = 2.0f;", (2, 1), "a whole buffer cannot be assigned", "`g.at(0, 1)` is an element"),
        (
            "dma.copy shared => g;",
            (2, 10),
            "unexpected `shared`; expected `;`, a name, a word after a dot, such as `.copy`, `<` or `select`",
            "`shared` can only be the destination of a transfer",
        ),
    ],
)
def test_in_words(fragment: str, place: tuple[int, int], message: str, hint: str | None) -> None:
    found = mistake(fragment)
    assert found.message == message
    assert (found.span.line, found.span.column) == place
    if hint is not None:
        assert found.hint is not None
        assert found.hint.startswith(hint)


@pytest.mark.parametrize(
    ("fragment", "code", "hint"),
    [
        ("tma.copy.async<e> g => t;", "SYN14", "`f = tma.copy.async ...; trigger e after f;`"),
        ("wait<p> e;", "SYN14", "`wait e.at(order)`"),
        ("mma.wait<0>;", "SYN14", "`wait f` on the future of the MMA"),
        ("mma.desc a;", "SYN14", "pass the shared view directly"),
        ("mma.row.row.order<1, 0> c, a, b;", "SYN14", "`[[schedule(k_tiles(...))]]` before the statement"),
        ("tma.copy.evict_first g => t;", "SYN14", "`tma.load.evict_first`"),
        ("dma.copy swizzle(128) g => shared;", "SYN14", "`dma.copy.swiz<128>`"),
        ("[[launch_bound(3)]] parallel by 4 {}", "SYN07", None),
        ("[[maxnreg(3)]] x = 1;", "SYN07", None),
        ("schedule(1, 2);", "SYN07", "write `[[schedule(1, 2)]]` before an MMA"),
        ("dma.copy.swiz<64>.async g => shared;", "SYN15", None),
        ("dma.copy.zfill.zfill g => shared;", "SYN15", None),
        ("rotate(fa);", "SYN16", None),
        ("x : {4, 2};", "SYN04", "`x = {4, 2}`"),
        ("mdspan s[2] : [4, 2];", "SYN05", None),
        ("shared f32 [] t;", "SYN06", None),
        ("foreach i in |g| {}", "SYN17", "`[|g|]`"),
        ("mutable f32 [4] t;", "TYP03", None),
        ("mutable mdspan t : [4];", "TYP03", None),
    ],
)
def test_codes_and_hints(fragment: str, code: str, hint: str | None) -> None:
    found = mistake(fragment)
    assert found.code == code
    if hint is not None:
        assert found.hint == hint


def test_parsing_goes_on_after_an_error() -> None:
    text = """__co__ void f(f32 [8, 16] g) {
  x = {1 2};
  parallel p by 4 { y = (; z = [1 2]; }
  if (x) { a b; } else { c = ; }
  w = 1;
}
__co__ void g() { d = 1 1; }
"""
    _, findings = read(text)
    places = [(found.span.line, found.span.column) for found in findings]
    assert places == [(2, 10), (3, 26), (3, 35), (4, 12), (4, 30), (7, 25)]


def test_one_mistake_draws_one_finding_even_with_braces_around() -> None:
    text = "__co__ void f() {\n  parallel p by {\n    x = 1;\n    parallel q by 4 { y = 2; }\n  }\n  z = 3;\n}\n"
    _, findings = read(text)
    assert [(found.span.line, found.span.column) for found in findings] == [(3, 7)]


def test_at_most_twenty_errors_are_looked_for() -> None:
    _, findings = read("__co__ void f() {\n" + "x = ;\n" * 50 + "}\n")
    assert len(findings) == 20


def test_a_broken_signature_gives_one_error() -> None:
    _, findings = read("__co__ void f(f32 [8, g) {\n x = ;\n}\n")
    assert [(found.span.line, found.span.column) for found in findings] == [(1, 24)]


NEAR = "did you mean `f32`, `s32` or `u32`?"
UNKNOWN_TYPES = [
    ("__co__ void f(q32 [4] x) {}", "q32", NEAR),
    ("__co__ void f(f32 [4] x, q32 n) {}", "q32", NEAR),
    ("__co__ void f(global flaot [4] x) {}", "flaot", "did you mean `float`?"),
    ("__co__ q32 f() {}", "q32", NEAR),
    ("__co__ i32 [4] f() {}", "i32", "did you mean `s32`?"),
    *[
        (f"__co__ void f(int n) {{ {body} }}", word, hint)
        for body, word, hint in [
            ("q32 b = 3;", "q32", NEAR),
            ("q32 b, c;", "q32", NEAR),
            ("mutable q32 b = 3;", "q32", NEAR),
            ("q32 [4, 8] t;", "q32", NEAR),
            ("parallel by 1 { shared q32 [4] t; }", "q32", NEAR),
            ("parallel by 1 { local float32 [4] t; }", "float32", "did you mean `f32`?"),
            ("parallel by 1 { frag q32 [16, 8] c; }", "q32", NEAR),
            ("parallel by 1 { frag q32 c[2]; }", "q32", NEAR),
            ("unsigned int k = 4;", "unsigned", "did you mean `u32`?"),
            ("size_t k{4};", "size_t", "did you mean `u64`?"),
            ("y = __to<f36>(n);", "f36", "did you mean `f16` or `f32`?"),
            (
                "matrix b = 4;",
                "matrix",
                "element types are `f32`, `f16`, `s32`, `u8` and so on; `int` and `bool` are scalars",
            ),
        ]
    ],
]


@pytest.mark.parametrize(("text", "word", "hint"), UNKNOWN_TYPES)
def test_an_unknown_type_is_named_with_the_nearest(text: str, word: str, hint: str) -> None:
    _, findings = read(text)
    assert [(d.code, d.message, d.hint, d.span.text) for d in findings] == [
        ("SYN01", f"`{word}` is not an element type", hint, word)
    ]


@pytest.mark.parametrize("body", ["retrun n;", "forech i in 4 {}", "paralel p by 4 {}", "shred f32 [4] t;", "a b c;"])
def test_other_misspelt_words_are_no_types(body: str) -> None:
    _, findings = read(f"__co__ void f(int n) {{ {body} }}")
    assert [d.code for d in findings] == ["SYN01"]
