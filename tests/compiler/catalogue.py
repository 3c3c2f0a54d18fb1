# ruff: noqa: E501 - messages are kept whole
"""One bad program for every code of the diagnostics catalogue: fragment, wrapper, message and hint.

`program(entry)` puts the fragment into its wrapper. A comment in a fragment may name an argument value or an
architecture; then the finding appears only there. Messages are what the compiler is meant to say, word for word.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    code: str
    wrapper: str
    fragment: str
    message: str
    hint: str | None = None


WRAPPERS = {
    "F": "FRAG",
    "H": """
__co__ void f(f32 [8, 16] g, int n) {
  FRAG
}
""".strip(),
    "K": """
__co__ void f(f32 [8, 16] g, int n) {
  parallel b by 1 : block {
    FRAG
  } }
""".strip(),
    "Q": """
__co__ void f(f32 [8, 16] g, int n) {
  parallel b by 1 : block {
    shared f32 [8, 16] t, t2;  shared event e, r3[3];  mutable u32 k = 0;
    fa = dma.copy.async g => shared;  fb = dma.copy.async g => shared;
    FRAG
    wait fa, fb;
  } }
""".strip(),
    "M": """
__co__ void f(global f16 [64, 32] x, global f16 [64, 32] h) {
  parallel b by 1 : block {
    shared f16 [64, 32] sa, sb;  shared f16 [64, 64] t;  shared event e;
    c = mma.fill.f32 0.0f;
    parallel w by 1 : group-4 {
      FRAG
  } } }
""".strip(),
}


def program(entry: Entry) -> str:
    """The complete bad program."""
    return WRAPPERS[entry.wrapper].replace("FRAG", entry.fragment)


def entry(code: str) -> Entry:
    return next(entry for entry in CATALOGUE if entry.code == code)


CATALOGUE = [
    Entry("SYN01", "H", "t = {7 n};", "unexpected name `n`; expected `,` or `}`", "separate ituple items with commas"),
    Entry(
        "SYN02", "H", "t = [4, 2];", "an ituple is written with `{ }`", "`t = {4, 2}`; for a shape write `t : [4, 2]`"
    ),
    Entry("SYN03", "H", "mdspan s = [4, 2];", "a shape is defined with `:`", "`mdspan s : [4, 2]`"),
    Entry("SYN04", "H", "ituple t : {4, 2};", "an ituple is initialised with `=`", None),
    Entry(
        "SYN05",
        "H",
        "ituple t[2] = {1, 2};",
        "ituple arrays do not exist",
        "rank goes in angle brackets, `ituple<2> t`",
    ),
    Entry("SYN06", "H", "s : [];", "a shape needs at least one extent", None),
    Entry(
        "SYN07",
        "H",
        "launch_bounds(128);",
        "`launch_bounds` is an attribute",
        "write `[[launch_bounds(128)]]` before `parallel`",
    ),
    Entry("SYN08", "H", "parallel [p] by 4 {}", "expected a name or `{names}` after `parallel`", "`parallel p by 4`"),
    Entry(
        "SYN09", "H", "y1 = 1; else { y2 = 2; }", "`else` has no matching `if`; braces may have closed it early", None
    ),
    Entry("SYN10", "H", "x = 18446744073709551616ull;", "literal does not fit `u64` (max 18446744073709551615)", None),
    Entry("SYN11", "H", "x = g[0, 1];", "use `.at(0, 1)` for elements; `[i][j]` indexes buffer arrays", None),
    Entry("SYN12", "K", '__asm__ goto("bra %l0" :::: out);', "`asm goto` is not supported", None),
    Entry(
        "SYN13",
        "F",
        "__co__ void f() { parallel p by 2 { }",
        "end of file inside tileflow function `f` opened at line 1; one `}` is missing",
        None,
    ),
    Entry("SYN14", "Q", "tma.store t => g;", "`tma.store` no longer exists", "`tma.copy t => g`"),
    Entry(
        "SYN15",
        "Q",
        "q = tma.load.async.swiz<128>.evict_last g => t;",
        "eviction modifiers must come before `.swiz`",
        None,
    ),
    Entry("SYN16", "Q", "swap(fa, fb, fa);", "`swap` takes exactly two futures", "use `rotate` for more"),
    Entry("SYN17", "H", "with v in |g.span| {}", "a count is not a bound", "`[|g.span|]`"),
    Entry("NAM01", "H", "y = k + 1; int k = 2;", "`k` is used before its declaration (line 2)", None),
    Entry("NAM02", "H", "int k = 1; int k = 2;", "`k` is already declared at line 2 in this scope", None),
    Entry("NAM03", "F", "__co__ void f(s32 [4] v, int v) {}", "parameter `v` is declared twice", None),
    Entry(
        "NAM04",
        "F",
        "__co__ void f(int n) { int n = 3; }",
        "`n` is a parameter; choose another name or use an inner scope",
        None,
    ),
    Entry(
        "NAM05",
        "K",
        "foreach i in [4] { q = dma.copy g => local; } call use(q.data);",
        "`q` is local to the `foreach` that ended at line 3",
        "declare `q = dma.any;` outside",
    ),
    Entry("NAM06", "H", "with {_} in [4] {}", "`_` cannot be declared; it is only an argument of views", None),
    Entry(
        "NAM07",
        "F",
        "__co__ void a(f32 [M] x) {} __co__ void b() { int k = M; }",
        "`M` is not declared here; dimension names belong to the function whose parameter introduces them",
        None,
    ),
    Entry("NAM08", "H", "parallel p by 2, {p, q} by [2, 2] {}", "`p` already names an axis of this `parallel`", None),
    Entry(
        "NAM09",
        "H",
        "with {a, b} in [3, 4] foreach c = a, c = b {}",
        "local loop variable `c` is used twice in this `foreach`",
        None,
    ),
    Entry("NAM10", "K", "shared f32 [8] tile; x = tle.at(0);", "unknown name `tle`", "did you mean `tile`?"),
    Entry("NAM11", "H", "with {a} in [4] where a <-> n {}", "`n` is not bound by this `with`", None),
    Entry("TYP01", "H", "int k = 1; k = 2;", "`k` is immutable", "declare it `mutable int k`"),
    Entry("TYP02", "H", "int k;", "`int` needs an initialiser", None),
    Entry("TYP03", "H", "mutable t = {1, 2};", "an ituple cannot be mutable", None),
    Entry("TYP04", "H", "mutable d;", "cannot infer the type of `d`", "`mutable int d = 0;`"),
    Entry("TYP05", "H", "bool b = 0;", "`b` is `bool` but the initialiser is `int`", "`n != 0`"),
    Entry("TYP06", "H", "mutable s32 k = 2.5f;", "conversion `f32` to `s32` may lose precision", "`__to<s32>(2.5f)`"),
    Entry(
        "TYP07",
        "F",
        "__co__ void f(int n) { mutable u32 k = n; }",
        "conversion `s32` to `u32` keeps the bits but not the meaning",
        None,
    ),
    Entry(
        "TYP08",
        "F",
        "__co__ auto f(f16 a, bf16 b) { f32 c = a + b; return c; }",
        "`f16` and `bf16` have no common type",
        "convert one with `__to<f32>`",
    ),
    Entry("TYP09", "H", 's = "abc";', "string variables do not exist; use the literal directly", None),
    Entry("TYP10", "H", "x = g + 1;", "`g` is a span; use `.at(...)` for an element", None),
    Entry("TYP11", "H", "int c = 3; foreach c {}", "`c` is `int`, not bounded", "`foreach i in c`"),
    Entry("TYP12", "H", "parallel p by 4 { foreach p {} }", "`p` is driven by `parallel` and cannot be iterated", None),
    Entry("TYP13", "K", "q = dma.copy g => local; x = q.at(0, 0);", "`q` is a future", "`q.data.at(0, 0)`"),
    Entry(
        "TYP14",
        "M",
        "q = mma.row.row.async c, sa, sb; wait q; call use(q.data);",
        "`q` reports completion of an MMA and holds no data; read the accumulator `c` instead",
        None,
    ),
    Entry("TYP15", "H", "mdspan<3> s : [4, 2];", "`s` is declared with rank 3 but has rank 2", None),
    Entry("TYP16", "H", "x = __to<f6_e2m3>(1.0f);", "`f6_e2m3` cannot be computed with on this target", None),
    Entry("TYP17", "H", "s = n + 1 & 3;", "`&` binds tighter than `+` here: read as `n + (1 & 3)`", "add parentheses"),
    Entry(
        "TYP18",
        "F",
        "__co__ s32 [4] f(f32 [4] x) { return x; }",
        "returns `f32 [4]` but the function promises `s32 [4]`",
        None,
    ),
    Entry("TYP19", "F", "__co__ s32 [4] f() { s32 [4] r; }", "non-void function `f` never returns a value", None),
    Entry(
        "TYP20",
        "F",
        "__co__ auto f() { t = {1, 2}; return t; }",
        "an ituple cannot be returned; return a span or a scalar",
        None,
    ),
    Entry(
        "TYP21", "F", "__co__ void f(int& n) {}", "scalars are passed by value; return the result or use a span", None
    ),
    Entry("SHP01", "H", "f32 [4 - 4, 2] x;", "extent 0 of dimension 0 must be at least 1", None),
    Entry("SHP02", "H", "s : [4, 2] + [1, 1];", "`+` is not defined on two shapes", "use an ituple, `+ {1, 1}`"),
    Entry("SHP03", "H", "s : [4, 2, 8] / {2, 2};", "ranks differ: 3 and 2", None),
    Entry(
        "SHP04",
        "K",
        "with k in [8] { shared f32 [k] x; }",
        "extent must not depend on the value of `k`",
        "`#k` is its extent (8)",
    ),
    Entry(
        "SHP05", "K", "mutable int m = 4; shared f32 [m] x;", "`m` is mutable; extents need immutable integers", None
    ),
    Entry("SHP06", "H", "s : [4, 1.5];", "extents are integers, found `f64`", None),
    Entry("SHP07", "H", "s : [4, 2]; int k = s(2);", "dimension 2 does not exist, rank is 2", None),
    Entry(
        "SHP08", "H", "s : [4, 2] / [2, 1];", "`[4, 2] / [2, 1]` is an ituple, not a shape", "`s = [4, 2] / [2, 1];`"
    ),
    Entry("SHP09", "H", "with {i, j} in [4, 2, 8] {}", "2 names for a bound of rank 3", None),
    Entry(
        "SHP10",
        "K",
        "with v in [2] { shared f32 [g.span / #v] x; }",
        "ranks differ: 2 and 1",
        "`with v in 2` makes `#v` an integer",
    ),
    Entry(
        "SHP11",
        "F",
        "__co__ void f(int n) { parallel p by 2 { local f32 [4] x[n]; } }",
        "array dimensions must be compile-time constants, found `n`",
        None,
    ),
    Entry("SHP12", "H", "with {a} in [4], {b} in [5] where a <-> b {}", "`a` has extent 4, `b` has extent 5", None),
    Entry("SHP13", "H", "with t in [g.span / {16, 32}] {}", "extent 0 of dimension 0 ([g.span / {16, 32}])", None),
    Entry(
        "SHP14",
        "F",
        "__co__ void f(f32 [8, 16] g, f32 [8] v) { parallel by 1 { g *= v; } }",
        "shapes [8, 16] and [8] do not broadcast",
        "trailing dimensions must agree",
    ),
    Entry(
        "VEW01",
        "H",
        "parallel p by 2 { dma.copy g.chunkat(p) => local; }",
        "`g` has rank 2 but 1 tiling argument is given",
        "`g.chunkat(p, _)`",
    ),
    Entry(
        "VEW02",
        "H",
        "parallel p by 32 { dma.copy g.chunkat(p, _) => local; }",
        "32 chunks of dimension 0 with only 8 elements",
        None,
    ),
    Entry(
        "VEW03",
        "H",
        "parallel p by 3 { dma.copy g.chunkat(p, _) => local; }",
        "8 is not a multiple of 3; rows 6..7 are never addressed",
        "`g.subspan(3, _).at(p, 0)` with `.zfill`",
    ),
    Entry("VEW04", "K", "dma.copy g.chunkat(n, _) => local;", "`n` has no extent", "`g.chunk(4, 1).at(n, 0)`"),
    Entry("VEW05", "K", "dma.copy g.subspan(9, 16) => local;", "tile extent 9 exceeds 8 in dimension 0", None),
    Entry(
        "VEW06",
        "K",
        "dma.copy g.subspan(4, 16).at(2, 0) => local;",
        "tile index 2 of dimension 0, only 2 tiles exist",
        None,
    ),
    Entry(
        "VEW07",
        "K",
        "dma.copy g.view(4, 4).from(6, 0) => local;",
        "rows 6..9 leave the span of 8 rows",
        "shrink the window or add `.zfill`",
    ),
    Entry("VEW08", "K", "h = g.span_as([4, 30]);", "`g` has 128 elements, the new shape 120", None),
    Entry(
        "VEW09",
        "K",
        "h = g.subspan(8, 4).at(0, 1).span_as([32]);",
        "the view is not contiguous (strides 16, 1)",
        "copy it first",
    ),
    Entry(
        "VEW10",
        "H",
        "parallel p by 8 { dma.copy g.chunkat(p, _).sqz() => local; }",
        "`.sqz` must follow `.subspan`, `.view` or `.span_as`",
        None,
    ),
    Entry("VEW11", "K", "x = g.at(1);", "`g` has rank 2 but 1 index is given", None),
    Entry("VEW12", "H", "parallel p by 9 { x = g.at(p, 0); }", "index `p` reaches 8, valid range is [0, 8)", None),
    Entry(
        "VEW13", "K", "shared f32 [4] t[2]; dma.copy t[2] => local;", "subscript 2 of `t`, valid range is [0, 2)", None
    ),
    Entry("VEW14", "K", "shared f32 [4] t[2][3]; dma.copy t[1] => local;", "`t` needs 2 subscripts, found 1", None),
    Entry(
        "VEW15",
        "H",
        "parallel p by 4 foreach i in [2] x = g.at(i#p, 0);",
        "`i#p` strides by the outer extent; tiles are normally `p#i`",
        None,
    ),
    Entry("STO01", "H", "shared f32 [8] t; parallel p by 2 {}", "`shared` storage exists only inside `parallel`", None),
    Entry(
        "STO02",
        "H",
        "parallel p by 2 { f32 [8] t; }",
        "`t` would be `global`; inside `parallel` write `shared` or `local`",
        None,
    ),
    Entry("STO03", "H", "parallel p by 2 { shared s32 k; }", "scalars have no storage qualifier", "`shared s32 [1] k`"),
    Entry(
        "STO04",
        "F",
        "__co__ auto f() { parallel p by 2 { shared f32 [8] t; } return t; }",
        "`t` lives only inside the launch that ended at line 1",
        None,
    ),
    Entry(
        "STO05",
        "H",
        "parallel p by 2 { shared f32 [8] t {g}; }",
        "the initialiser fills all elements and must be a scalar",
        None,
    ),
    Entry(
        "STO06",
        "H",
        "parallel p by 2 { shared f32 [256, 256] t; }",
        "block needs 262144 bytes of shared memory, a GPU of sm_86 offers 101376. largest: `t`",
        None,
    ),
    Entry("STO07", "F", "__co__ void f(shared f32 [8] t) {}", "parameters cannot be `shared`", None),
    Entry(
        "STO08",
        "H",
        "parallel p by 2 { local f32 [8] t; x = t.at(0); }",
        "`t` is read before anything was stored",
        None,
    ),
    Entry(
        "STO09", "F", "__co__ void f(global f32 [8]& x) {}", "`global` parameters are written in place; drop `&`", None
    ),
    Entry(
        "PAR01",
        "H",
        "parallel p by 2 : thread parallel q by 2 : block {}",
        "`block` cannot be nested in `thread`",
        None,
    ),
    Entry(
        "PAR02",
        "H",
        "parallel p by 2 : block parallel q by 2 : block {}",
        "two `block` levels",
        "`{p, q} by [2, 2] : block`",
    ),
    Entry("PAR03", "H", "parallel p by 2 parallel q by 4 : thread {}", "annotate all levels or none", None),
    Entry(
        "PAR04",
        "H",
        "parallel p by 2 : block parallel q by 1025 : thread {}",
        "1025 threads per block, limit is 1024",
        None,
    ),
    Entry(
        "PAR05",
        "H",
        "parallel p by 2 : group parallel q by 24 : thread {}",
        "threads per `group` must be a multiple of 32, found 24",
        None,
    ),
    Entry(
        "PAR06",
        "H",
        "parallel b by 2 : block { parallel by 3 : group-4 {} parallel by 3 : group {} }",
        "inner levels need 384 and 96 threads; they must agree",
        None,
    ),
    Entry("PAR07", "H", "parallel p by 0 {}", "parallel extent must be at least 1, found 0", None),
    Entry("PAR08", "H", "parallel {p, q} by [4] {}", "2 names for 1 extent", None),
    Entry("PAR09", "H", "parallel p by [4, 2] {}", "`p` cannot have 2 extents", "`{p, q} by [4, 2]`"),
    Entry(
        "PAR10",
        "H",
        "parallel p by 2 parallel.async q by 2 {}",
        "only the outermost level may be asynchronous or name a stream",
        None,
    ),
    Entry(
        "PAR11", "F", "__co__ void f(int s) { parallel<s> p by 2 : block {} }", "`s` is not a `stream` parameter", None
    ),
    Entry(
        "PAR12",
        "H",
        "parallel p by 4 : thread { inthreads (n > 2) {} }",
        "the predicate is the same for all threads",
        "use `if`",
    ),
    Entry("PAR13", "H", "inthreads (n > 0) {}", "`inthreads` needs an enclosing `parallel`", None),
    Entry(
        "PAR14",
        "H",
        "parallel p by 4 { inthreads (p < 2) parallel q by 2 {} }",
        "`parallel` cannot start inside `inthreads`; nest it the other way round",
        None,
    ),
    Entry(
        "PAR15",
        "H",
        "parallel p by 64 : thread { if (p < 3) sync.shared; }",
        "barrier under a condition that differs between threads: deadlock",
        None,
    ),
    Entry("PAR16", "H", "parallel p by 8 { sync.shared; }", "a single unannotated level maps to blocks", "`: thread`"),
    Entry(
        "PAR17",
        "H",
        "parallel p by 2 : thread<cooperative> {}",
        "`cooperative` applies to `block`, not to `thread`; ignored",
        None,
    ),
    Entry(
        "PAR18",
        "H",
        "[[launch_bounds(64)]] parallel by 1 : block parallel t by 128 : thread {}",
        "`launch_bounds` allows 64 threads, the block has 128",
        None,
    ),
    Entry("PAR19", "H", "parallel p by 2 { return; }", "`return` is not allowed inside `parallel`", None),
    Entry("PAR20", "H", "parallel p by 2 { if (n > 1) break; }", "`break` needs an enclosing loop", None),
    Entry("PAR21", "H", "foreach i in [4] : unroll(8) {}", "unroll factor 8 exceeds the trip count 4", None),
    Entry(
        "PAR22",
        "H",
        "parallel b by 1 : block { mutable s32 k = 0; parallel t by 8 : thread k += 1; }",
        "8 threads update `k` without synchronisation",
        "`__atomic_add` on a `shared s32 [1]`",
    ),
    Entry("PAR23", "H", "yield;", "`yield` is allowed only inside `parallel`", None),
    Entry("PAR24", "H", "parallel by 1 : device(fpga) {}", "unknown device `fpga`", None),
    Entry(
        "PAR25",
        "H",
        "parallel b by 2 : block { sync.barrier : device; }",
        "a grid barrier needs `block<cooperative>`",
        None,
    ),
    Entry("PAR26", "H", "foreach i in [4] : unroll(0) {}", "unroll factor must be positive", None),
    Entry(
        "PAR27",
        "H",
        "[[launch_bounds(1.5)]] parallel by 1 : block {}",
        "`launch_bounds` needs compile-time integers",
        None,
    ),
    Entry(
        "PAR28",
        "H",
        "parallel p by 2 : block, q by 32 : thread { inthreads (q > p - 1) {} }",
        "a mask comparison may use one parallel variable",
        "split it or use `if`",
    ),
    Entry(
        "DMA01",
        "H",
        "parallel p by 2 { shared f16 [8, 16] t; dma.copy g => t; }",
        "source is `f32`, destination `f16`; a copy does not convert",
        None,
    ),
    Entry(
        "DMA02",
        "H",
        "parallel p by 2 { shared f32 [128] t; dma.copy g => t; }",
        "ranks differ: 2 and 1",
        "`g.span_as([128])`",
    ),
    Entry("DMA03", "H", "parallel p by 2 { shared f32 [4, 16] t; dma.copy g => t; }", "8 rows do not fit into 4", None),
    Entry(
        "DMA04",
        "H",
        "parallel p by 2 { shared f32 [10, 16] t; dma.copy g => t; }",
        "rows 8..9 of `t` become zero",
        "say `dma.copy.zfill`",
    ),
    Entry("DMA05", "H", "dma.copy g => shared;", "`shared` is not a destination outside `parallel`", None),
    Entry(
        "DMA06",
        "H",
        "parallel p by 2 { dma.copy.async g => shared; }",
        "an asynchronous copy needs a name to wait on",
        None,
    ),
    Entry("DMA07", "H", "parallel p by 2 { q = dma.copy.async g => shared; }", "`q` is never waited on", None),
    Entry(
        "DMA08",
        "H",
        "parallel p by 2 { q = dma.copy g => shared; wait q; }",
        "`q` is synchronous and already complete",
        None,
    ),
    Entry(
        "DMA09",
        "H",
        "parallel p by 2 { q = dma.copy.async g => shared; x = q.data.at(0, 0); wait q; }",
        "`q.data` is read before `wait q`",
        None,
    ),
    Entry(
        "DMA10",
        "H",
        "parallel p by 2 { q = dma.any; r = q; q = dma.copy g => shared; x = q.data.at(0, 0); }",
        "a placeholder cannot be copied",
        None,
    ),
    Entry("DMA11", "H", "q = dma.any;", "placeholder `q` is never bound", None),
    Entry(
        "DMA12",
        "H",
        "parallel p by 2 { q = dma.copy g => shared; r = dma.copy.async g => shared; wait r; swap(q, r); }",
        "`q` is synchronous, `r` asynchronous",
        None,
    ),
    Entry(
        "DMA13",
        "H",
        "parallel p by 2 { q = dma.any; foreach i in [2] { r = dma.copy g => local; q = dma.copy g => local; swap(q, r); } }",
        "`q` and `r` belong to different scopes",
        None,
    ),
    Entry("DMA14", "Q", "w = select(2, fa, fb);", "selector 2, valid range is [0, 2)", None),
    Entry(
        "DMA15",
        "K",
        "shared f32 [4] u; shared f32 [8] v; w = select(n % 2, u, v);",
        "choices differ: `shared f32 [4]` and `shared f32 [8]`",
        None,
    ),
    Entry(
        "DMA16",
        "H",
        "parallel p by 2 { dma.pad<{1}, {1, 0}, {0, 0}, 0.0f> g => local; }",
        "low, high and mid need 2 entries each",
        None,
    ),
    Entry(
        "DMA17",
        "H",
        "parallel p by 2 { dma.pad<{1, 1}, {1, 1}, {1, 0}, 0.0f> g => local; }",
        "interior padding is not supported; use 0",
        None,
    ),
    Entry(
        "DMA18", "H", "parallel p by 2 { dma.transp<1, 2> g => local; }", "{1, 2} is not a permutation of {0, 1}", None
    ),
    Entry(
        "DMA19",
        "H",
        "parallel p by 2 { shared f32 [8, 16] t; dma.transp<1, 0> g => t; }",
        "transposed source is [16, 8], destination [8, 16]",
        None,
    ),
    Entry(
        "DMA20",
        "H",
        "parallel b by 1 : block parallel t by 4 : thread dma.copy g.chunkat(t, _) => shared;",
        "each thread names another tile for one shared buffer",
        "copy `g` once, or use `local`",
    ),
    Entry("DMA21", "H", "parallel p by 2 { dma.copy.swiz<256> g => shared; }", "swizzle must be 32, 64 or 128", None),
    Entry(
        "DMA22",
        "H",
        "parallel p by 2 { q = dma.copy.async g => shared; q = dma.copy.async g => shared; wait q; }",
        "`q` is already a pending future",
        "wait first, or start from `dma.any` in a pipeline",
    ),
    Entry(
        "DMA23",
        "H",
        "parallel p by 2 { shared f32 [8, 16] t; q = dma.copy.async t => local; wait q; }",
        "this target has no asynchronous shared to local copy; it is done synchronously",
        "use `dma.copy`",
    ),
    Entry("DMA24", "H", "parallel p by 2 { q = dma.copy.sp<1:4> g => local; }", "only 2:4 sparsity exists", None),
    Entry(
        "DMA25",
        "H",
        "parallel p by 2 { m = g.map<local>(0, 64); }",
        "this target cannot map global memory into local address space",
        "`dma.copy`",
    ),
    Entry(
        "DMA26",
        "F",
        "__co__ void f(f32 [8] x, f32 [8]& y) { parallel p by 2 { dma.copy x => y; } }",
        "a global to global copy inside a kernel passes through registers and is slow",
        "stage through `shared`",
    ),
    Entry("EVT01", "Q", "shared event e2 = armed;", "the only initial state is `ready`", None),
    Entry("EVT02", "Q", "trigger e; wait e.at(0);", "`.at(order)` needs an event array", None),
    Entry("EVT03", "Q", "trigger r3; wait r3.at(k++ + 1);", "`k++` must be the whole argument", None),
    Entry(
        "EVT04",
        "Q",
        "u = tma.load.async g => t; v = tma.load.async g => t2; trigger r3.at(k++) after u, v;",
        "with several futures advance `k` in its own statement",
        None,
    ),
    Entry(
        "EVT05",
        "Q",
        "q = dma.copy.async g => t; trigger e after q;",
        "this transfer has no completion event",
        "`wait q; trigger e;`",
    ),
    Entry(
        "EVT06",
        "Q",
        "q = tma.load.async g => t; wait q; trigger e after q;",
        "`q` was already waited on",
        "`trigger e;`",
    ),
    Entry(
        "EVT07",
        "M",
        "qk = mma.row.row.async c, sa, sb; trigger e after qk;",
        "MMA futures cannot publish events",
        "`wait qk; trigger e;`",
    ),
    Entry(
        "EVT08",
        "H",
        "parallel p by 2 : group { shared event e; trigger e; wait e; }",
        "one program both triggers and waits; use `inthreads.async` roles",
        None,
    ),
    Entry("EVT09", "Q", "trigger r3[3];", "slot 3, valid range is [0, 3)", None),
    Entry(
        "EVT10",
        "Q",
        "parallel r by 2 : group { inthreads.async (r == 0) { wait e; } inthreads.async (r == 1) { } }",
        "`e` is waited on but never triggered: deadlock",
        None,
    ),
    Entry("EVT11", "Q", "trigger e; while (e && n > 0);", "`&&` needs two events or two values", None),
    Entry(
        "EVT12", "Q", "trigger r3; wait r3.at(k % 3);", "`k % 3` forgets the generation of a 3-slot ring", "`r3.at(k)`"
    ),
    Entry(
        "MMA01",
        "M",
        "mma.row.row c, sa, sb.subspan(12, 32).at(0, 0);",
        "no instruction for f16,f16->f32 64x12x32 in one warpgroup on sm_90a; nearest: 64x8x16, 64x16x16",
        None,
    ),
    Entry("MMA02", "M", "mma.row.row c, sa, sb.chunk(1, 2).at(0, 0);", "K is 32 in A and 16 in B", None),
    Entry(
        "MMA03",
        "M",
        "fa = mma.load sa; mma.fill fa, 0.0f; mma.row.row c, fa, sb;",
        "only accumulators can be filled",
        None,
    ),
    Entry(
        "MMA04",
        "M",
        "frag acc[2] {0.0f}; mma.row.row acc, sa, sb;",
        "`acc` is an array; name one element, `acc[0]`",
        None,
    ),
    Entry(
        "MMA05",
        "M",
        "c = mma.fill 0.0; mma.row.row c, sa, sb;",
        "`c` would be a second, unused accumulator",
        "`mma.fill c, 0.0`",
    ),
    Entry(
        "MMA06",
        "F",
        "__co__ void f() { parallel b by 1 : block { shared f16 [64, 16] s; c = mma.fill 0.0; parallel w by 1 : group-4 mma.row.row c, s, s; } }  // -arch=sm_86",
        "warpgroup MMA needs sm_90",
        "`: group`",
    ),
    Entry("MMA07", "M", "[[schedule(k_tiles(1, 1))]] mma.row.row c, sa, sb;", "not a permutation of 0..1", None),
    Entry(
        "MMA08",
        "M",
        "mma.row.row c, sa, sb; [[schedule(k_tiles(0, 1))]] mma.store c, t;",
        "the attribute applies to an MMA only",
        None,
    ),
    Entry(
        "MMA09",
        "M",
        "q = dma.copy.swiz<64> x => shared; fa = mma.load q;",
        "the buffer is stored with swizzle 64",
        "`mma.load.swiz<64>`",
    ),
    Entry(
        "MMA10", "M", "d = mma.fill.f16 0.0f; mma.fill d, 0.1f;", "conversion `f32` to `f16` may lose precision", None
    ),
    Entry("MMA11", "M", "tma.load x => h;", "`tma.load` goes from global to shared", None),
    Entry("MMA12", "K", "shared f32 [8, 16] u; tma.load g => u;  // -arch=sm_86", "TMA needs sm_90", "`dma.copy`"),
    Entry(
        "MMA13",
        "M",
        "foreach i in 4 { m = 64 - i; tma.load x.view(m, 32).from(0, 0) => sa; }",
        "box extents must be computable on the host",
        None,
    ),
    Entry(
        "MMA14",
        "M",
        "tma.load x.subspan(8, 6).at(0, 0) => shared;",
        "innermost box is 12 bytes, must be a multiple of 16",
        None,
    ),
    Entry(
        "MMA15",
        "M",
        "shared u8 [64, 8] meta; mma.row.row.sp c, sa, t, meta;",
        "sparse metadata must be loaded with `mma.load` first",
        None,
    ),
    Entry(
        "MMA16",
        "M",
        "frag f32 [64] v {1.0f}; all_reduce_sum(v);",
        "`v` is not replicated; accumulate into it with `apply` first",
        None,
    ),
    Entry("CAL01", "H", "call use(g);", "`call` is allowed only inside `parallel`", None),
    Entry(
        "CAL02", "H", "parallel p by 2 { call use(g.span); }", "a shape cannot be passed", "`g.span(0)` or `|g.span|`"
    ),
    Entry("CAL03", "H", "parallel p by 2 { q = dma.copy g => local; call use(q); }", "pass `q.data`", None),
    Entry(
        "CAL04",
        "H",
        "parallel p by 2 { int k = call use(); }",
        "a call result needs a `mutable` variable with a written type",
        None,
    ),
    Entry(
        "CAL05",
        "F",
        "__co__ void other(f32 [8] x) {} __co__ void f(f32 [8] x) { parallel p by 2 { call other(x); } }",
        "tileflow functions cannot be called from tileflow functions",
        None,
    ),
    Entry("CAL06", "K", "x = 1 + call use();", "a call is not an operand", None),
    Entry(
        "CAL07",
        "K",
        "mutable s32 k = 0; __atomic_add(k, 1);",
        "the operand must be an element of a shared or global span",
        None,
    ),
    Entry(
        "CAL08",
        "K",
        "shared s32 [4] u {0}; __atomic_cas(u.at(0), 1);",
        "`__atomic_cas` takes 3 arguments, found 2",
        None,
    ),
    Entry("CAL09", "Q", "__atomic_min(t.at(0, 0), 1.0f);", "`__atomic_min` has no `f32` form on this target", None),
    Entry(
        "CAL10",
        "H",
        "parallel p by 2 { hw_go(1); }",
        "`hw_go` is neither declared nor a registered intrinsic",
        "`call hw_go(1)`",
    ),
    Entry("DYN01", "F", "__co__ void f() { f32 [Q] x; }", "`Q` is unknown; dynamic extents come from parameters", None),
    Entry("DYN02", "F", "__co__ void f() { f32 [?] x; }", "`?` is allowed only in parameters", None),
    Entry("DYN03", "F", "__co__ void f(f32 [??, 4] x) {}", "an unbounded extent needs a `global` parameter", None),
    Entry(
        "DYN04",
        "F",
        "__co__ void f(global f32 [??, 4] x) { parallel p by x.span(0) {} }",
        "the extent is not known even at run time",
        None,
    ),
    Entry(
        "DYN05",
        "F",
        "__co__ void f(f32 [M] x) { parallel p by 2 { local f32 [M] t; } }",
        "`local` buffers need constant extents, found `M`",
        None,
    ),
    Entry(
        "DYN06",
        "F",
        '__co__ void f(f32 [M] x) { assert(M < 0, "m"); }',
        "assertion is always false: M is at least 1",
        None,
    ),
    Entry("PRE01", "F", "#ifdef A\n  x = 1;", "`#ifdef` at line 1 is not closed", None),
    Entry("PRE02", "F", "#else", "`#else` without `#if`", None),
    Entry("PRE03", "H", '#define TILE 128\n#if TILE > 64\n#error "TILE too large"\n#endif', "TILE too large", None),
    Entry("PRE04", "H", "#define ADD(a, b) ((a) + (b))\nx = ADD(1);", "`ADD` takes 2 arguments, found 1", None),
    Entry("PRE05", "F", "#pragma croq intrinsic hw_", "expected `prefix` or `namespace`", None),
    Entry("PRE06", "F", "#if 8 / 0\n#endif", "division by zero in `#if`", None),
    Entry(
        "RTA01",
        "F",
        "__co__ void f(f32 [M, K] a, f32 [K, N] b) {}  // a [8, 64], b [32, 4]",
        "f: dimension K is 64 in `a` (dim 1) but 32 in `b` (dim 0)",
        None,
    ),
    Entry(
        "RTA02",
        "F",
        "__co__ void f(s32 [4, 8] v) {}  // called with [4, 7]",
        "f: parameter `v` dim 1 is 7, expected 8",
        None,
    ),
    Entry(
        "RTA03",
        "F",
        "__co__ void f(f32 [M] x) { f32 [M / 32] t; }  // called with M = 16",
        "f: extent `M / 32` is 0",
        None,
    ),
    Entry("RTA04", "H", "parallel p by n {}  // n = 0", "f: parallel extent `n` is 0", None),
    Entry("RTA05", "H", "x = g.at(n, 0);  // n = 9", "f: index `n` = 9 of `g` (dim 0), valid range is [0, 8)", None),
    Entry(
        "RTA06",
        "F",
        '__co__ void f(f32 [M] x) { assert(M % 16 == 0, "M must be a multiple of 16"); }  // M = 40',
        "f: M must be a multiple of 16 (M = 40)",
        None,
    ),
    Entry("RTA07", "Q", "w = select(n, fa, fb);  // n = 2", "f: selector `n` = 2, valid range is [0, 2)", None),
    Entry(
        "RTA08",
        "F",
        "__co__ void f(global f32 [4] x) {}  // called with a null view",
        "f: parameter `x` has no device memory",
        None,
    ),
]
