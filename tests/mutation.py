"""Valid programs with a few mistakes put in: what a user's slip, or a hostile text, hands to the compiler.

`mutant(choose)` makes one; `choose(n)` gives a number from 0 to n - 1, so hypothesis or a plain random generator can
drive it. A program is a list of (blank text before a token, token), which any change leaves printable.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.lexer import ATOMICS, LEVELS, MATH, SCALAR_TYPES, STORAGES, lex
from croq_magic.compiler.source import Source

Choose = Callable[[int], int]
Piece = tuple[str, str]

FOLDER = Path(__file__).parent / "programs"
PROGRAMS: dict[str, str] = {
    path.stem: path.read_text()
    for folder in ("seeds", "conformance")
    for path in sorted((FOLDER / folder).glob("*.co"))
}
# Constructs that the stored programs do not use.
PROGRAMS["prints"] = """
__co__ int prints(u8 [M, 6] x, f64 scale, int n) {
  mutable int count = 0;
  assert(n < 100, "n is small");
  foreach i in n { count += x.at(i % M, i % 6); if (count > 40) break; }
  parallel p by M : block {
    mutable f64 total = 0.0;
    foreach j in 6 { if (j == n % 6) continue; total += __to<f64>(x.at(p, j)) * scale; }
    assert(total >= 0.0 || n > 2, "total");
    println("row ", p, ": ", total);
  }
  return count << 2;
}
"""
PROGRAMS["types"] = """
__co__ s64 [8, 4] types(bf16 [8, 4] a, s8 [8, 4]& b, u64 k) {
  s64 [8, 4] out {0};
  parallel {p, q} by [4, 4] : thread {
    local s16 [2] pair {1};
    foreach i in 2 {
      pair.at(i) = __to<s16>(a.at(p#i, q)) / (__to<s16>(b.at(p#i, q)) + 3);
      b.at(p#i, q) -= 1;
      out.at(p#i, q) = __to<s64>(pair.at(i)) * __to<s64>(k) >> (q * 9);
    }
  }
  return out;
}
"""
PROGRAMS["shapes"] = """
__co__ auto shapes(f32 [M, N] x) {
  mdspan<2> whole : [x.span];
  ituple tile = {4, 8};
  f32 [whole(0) / 4, whole(1)] out;
  parallel {p, q} by x.span / tile : block {
    t = dma.copy x.subspan(4, 8).at(p, q) => shared;
    flat = t.data.span_as(|t.span|);
    u = dma.transp<1, 0> t => local;
    parallel s by 8 : thread {
      mutable f32 sum = 0.0f;
      foreach i in 4 { sum += u.data.at(s, i); sum += flat.at(i * 8 + s); }
      out.at(p, q#s) = sum > 3.0f ? sum : -sum;
    }
  }
  return out;
}
"""
PROGRAMS["several"] = """
#define TILE 4
#ifdef WIDE
#define STEP 2
#else
#define STEP 1
#endif
__co__ s32 [12] first(global s32 [12] v, stream s) {
  s32 [12] w;
  parallel.async<s> p by 12 / TILE : block {
    shared s32 [TILE] buf[2];
    foreach k in TILE / STEP {
      buf[k % 2].at(k) = v.at(p#k);
      w.at(p * TILE + k) = buf[k % 2].at(k) + (p == 0 && k > 1 ? 1 : 0);
    }
  }
  return w;
}
__co__ void second(f16 [7]& v, int n) {
  mutable int i = 0;
  while (i < n) {
    parallel q by 7 : thread v.at(q) = __to<f16>(v.at(q) * 0.5f + __exp(-1.0f * q));
    i += 1;
  }
}
"""

OPERATORS = "+ - * / % << >> & | ^ && || < <= > >= == != = += -= *= /= %= # #+ #- #* #/ ! ~ , : ; . => ?".split()
# Around the widths of the integer types, around nothing, and not quite numbers.
NUMBERS = """0 1 2 3 4 5 7 8 15 16 17 31 32 33 63 64 127 128 255 256 257 1000 1023 1024 1025 4096 32768 65535 65536
99999 1000000 2147483647 2147483648 4294967295 4294967296 9223372036854775807 9223372036854775808 18446744073709551616
100000000000000000000 0x10 0xffffffff 0.0 0.5f 1.5 1e3 1e38f 1e39f 1e400 3u 5l 08 1.2.3 -1 -2 -2147483648""".split()
# Constructs at the edge of what holds: put in place of an operand or a statement.
EXTREMES = """x/0 x%0 x/(x-x) (1<<31)/-1 1<<40 1>>-1 1<<x -x __max(x,0) x.span x.span(0) |x.span| #x x#x x.at(x) x.data
_ ? inf nullptr true {x,x} [x,x] {} []""".split()
POOLS: list[list[str]] = [
    OPERATORS,
    NUMBERS,
    sorted(SCALAR_TYPES),
    sorted(LEVELS),
    sorted(STORAGES),
    sorted(MATH),
    sorted(ATOMICS),
    sorted({".row.row", ".row.col", ".col.row", ".load", ".store", ".fill", ".copy", ".pad", ".transp", ".async"}),
    sorted({".at", ".chunkat", ".subspan", ".view", ".from", ".step", ".zfill", ".span", ".data", ".span_as", ".sqz"}),
    "+= -= *= /= %= =".split(),
    "( ) [ ] { } < >".split(),
]
_NAME = re.compile(r"[^\W\d]\w*\Z")


@cache
def pieces(text: str) -> tuple[Piece, ...]:
    """The tokens of a text, each with the blanks and comments before it; the last has no token."""
    found, at = [], 0
    for token in lex(Source(text), 0, len(text), Report()):
        found.append((text[at : token.span.start], token.span.text))
        at = token.span.end
    return (*found, (text[at:], ""))


@cache
def parts(name: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...], tuple[Piece, ...]]:
    """A stored program: the text up to its tileflow functions, these, and what follows (its `main`)."""
    text = PROGRAMS[name]
    start = text.index("__co__")
    main = text.find("int main(")
    end = main if main > start else len(text)
    return pieces(text[:start]), pieces(text[start:end]), pieces(text[end:])


@cache
def words() -> list[str]:
    """Every token that occurs in the tileflow functions of the stored programs."""
    return sorted({token for name in PROGRAMS for _, token in parts(name)[1] if token})


@cache
def statements(tokens: tuple[Piece, ...]) -> list[tuple[int, int]]:
    """Begin and end (exclusive) of everything that looks like a statement, blocks included."""
    found, opened, begin = [], [], 0
    for at, (_, token) in enumerate(tokens):
        if token == "{":
            opened.append(begin)
            begin = at + 1
        elif token == "}":
            begin = at + 1
            if opened:
                found.append((opened.pop(), at + 1))
        elif token == ";":
            found.append((begin, at + 1))
            begin = at + 1
    return found or [(0, len(tokens) - 1)]


def text_of(tokens: list[Piece] | tuple[Piece, ...]) -> str:
    return "".join(gap + token for gap, token in tokens)


def mutant(choose: Choose, changes: int | None = None) -> str:
    """A stored program with one to three changes (or exactly `changes`)."""

    def one_of(items: list[str]) -> str:
        return items[choose(len(items))]

    name = one_of(list(PROGRAMS))
    before, tokens, after = parts(name)
    code = list(tokens)
    for _ in range(changes if changes is not None else 1 + choose(3)):
        if len(code) > 2:
            _CHANGES[choose(len(_CHANGES))](code, choose)
    text = text_of(before) + text_of(code) + text_of(after)
    return text if choose(40) else text[: choose(len(text) + 1)]  # a cell that is still being typed


def _at(code: list[Piece], choose: Choose) -> int:
    return choose(len(code) - 1)


def _put(code: list[Piece], at: int, word: str) -> None:
    code[at] = (code[at][0] or " ", word)


def _delete(code: list[Piece], choose: Choose) -> None:
    del code[_at(code, choose)]


def _duplicate(code: list[Piece], choose: Choose) -> None:
    at = _at(code, choose)
    code.insert(at, (code[at][0] or " ", code[at][1]))


def _swap_neighbours(code: list[Piece], choose: Choose) -> None:
    at = choose(len(code) - 2)
    code[at : at + 2] = [(code[at][0], code[at + 1][1]), (code[at + 1][0] or " ", code[at][1])]


def _swap_any(code: list[Piece], choose: Choose) -> None:
    a, b = _at(code, choose), _at(code, choose)
    first, second = code[a][1], code[b][1]
    _put(code, a, second)
    _put(code, b, first)


def _alike(token: str, code: list[Piece]) -> list[str]:
    """What could stand where a token stands: words of its pool, names of the program for a name."""
    if token[:1].isdigit():
        return NUMBERS
    for pool in POOLS:
        if token in pool:
            return pool
    if _NAME.match(token):
        return sorted({t for _, t in code if _NAME.match(t)})
    return words()


def _replace(code: list[Piece], choose: Choose) -> None:
    at = _at(code, choose)
    pool = _alike(code[at][1], code)
    _put(code, at, pool[choose(len(pool))])


def _of_kind(code: list[Piece], choose: Choose, wanted: Callable[[str], bool]) -> int:
    places = [at for at, (_, token) in enumerate(code) if token and wanted(token)]
    return places[choose(len(places))] if places else _at(code, choose)


def _renumber(code: list[Piece], choose: Choose) -> None:
    at = _of_kind(code, choose, lambda token: token[0].isdigit())
    token = code[at][1]
    if token.isdigit() and choose(2):
        value = int(token)
        near = [value + 1, value - 1, value * 2, value // 2, -value, value + 2, value * 1000]
        _put(code, at, str(near[choose(len(near))]))
    else:
        _put(code, at, NUMBERS[choose(len(NUMBERS))])


def _rename(code: list[Piece], choose: Choose) -> None:
    at = _of_kind(code, choose, lambda token: bool(_NAME.match(token)))
    names = sorted({t for _, t in code if _NAME.match(t)})
    _put(code, at, names[choose(len(names))] if names else "x")


def _exchange(code: list[Piece], choose: Choose) -> None:
    """Another type, level, storage, operator or suffix."""
    pool = POOLS[choose(len(POOLS))]
    at = _of_kind(code, choose, lambda token: token in pool)
    _put(code, at, pool[choose(len(pool))])


def _insert(code: list[Piece], choose: Choose) -> None:
    code.insert(_at(code, choose), (" ", words()[choose(len(words()))]))


def _extreme(code: list[Piece], choose: Choose) -> None:
    """An operand becomes an expression at the edge of what is defined."""
    at = _of_kind(code, choose, lambda token: token[0].isdigit() or bool(_NAME.match(token)))
    names = [t for _, t in code if _NAME.match(t)] or ["x"]
    _put(code, at, EXTREMES[choose(len(EXTREMES))].replace("x", names[choose(len(names))]))


def _statement(code: list[Piece], choose: Choose) -> tuple[int, int]:
    found = statements(tuple(code))
    return found[choose(len(found))]


def _delete_statement(code: list[Piece], choose: Choose) -> None:
    begin, end = _statement(code, choose)
    del code[begin:end]


def _duplicate_statement(code: list[Piece], choose: Choose) -> None:
    begin, end = _statement(code, choose)
    at = _statement(code, choose)[0]
    code[at:at] = code[begin:end]


def _splice(code: list[Piece], choose: Choose) -> None:
    """A statement of another program, before or in place of one of this."""
    names = list(PROGRAMS)
    other = parts(names[choose(len(names))])[1]
    found = statements(other)
    begin, end = found[choose(len(found))]
    at, stop = _statement(code, choose)
    code[at : stop if choose(2) else at] = other[begin:end]


_CHANGES: list[Callable[[list[Piece], Choose], None]] = [
    _delete,
    _duplicate,
    _swap_neighbours,
    _swap_any,
    _replace,
    _replace,
    _renumber,
    _renumber,
    _rename,
    _exchange,
    _exchange,
    _insert,
    _extreme,
    _delete_statement,
    _duplicate_statement,
    _splice,
]
