from __future__ import annotations

from pathlib import Path

import pytest
from compiler.frontend import expression, function, read, show, statement
from programs.conformance import PROGRAMS

from croq_magic.compiler import syntax as s
from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.parse import parse_text
from croq_magic.compiler.syntax_text import dump

FILES = sorted((Path(__file__).parents[1] / "programs").glob("[cs]*/*.co"))  # conformance, seeds: a function each


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_programs_parse(path: Path) -> None:
    tree = function(path.read_text())
    for node in s.walk(tree):
        assert node.span.start <= node.span.end
        if isinstance(node, s.Name) and node.span.source.name == "cell":
            assert node.span.text in (node.text, "SQ", "COLS", "ROWS", "TK")
    assert dump(tree).startswith("Function")


def test_conformance_has_every_program() -> None:
    assert len(PROGRAMS) == 57
    for entry in PROGRAMS:
        tree = function(entry.source())
        assert tree.name.text == entry.function
        assert [param.name and param.name.text for param in tree.params] == list(entry.case().inputs)


def test_children_lie_inside_their_parents() -> None:
    for path in FILES:
        if "macros" in path.stem or "k_loop" in path.stem:
            continue  # what comes from a macro has the span of its use
        for node in s.walk(function(path.read_text())):
            for child in s.children(node):
                assert child.span in node.span, (path.stem, node, child)


# ---- expressions


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a#b#c", "((a # b) # c)"),
        ("p#q % 4", "((p # q) % 4)"),
        ("p#q #- 1", "((p # q) #- 1)"),
        ("p#q + 1", "((p # q) + 1)"),
        ("n + 1 & 3", "(n + (1 & 3))"),
        ("a & b | c ^ d", "(((a & b) | c) ^ d)"),
        ("!a & b", "(!(a & b))"),
        ("-a * b", "((-a) * b)"),
        ("a * -b & c", "(a * (-(b & c)))"),
        ("~a & b", "((~a) & b)"),
        ("~-a", "(~(-a))"),
        ("- -a # b", "(-(-(a # b)))"),
        ("a #* 2 #+ 1 * 3", "(((a #* 2) #+ 1) * 3)"),
        ("a - b - c", "((a - b) - c)"),
        ("a - (b - c)", "(a - (b - c))"),
        ("a + b << c < d == e && f || g", "((((((a + b) << c) < d) == e) && f) || g)"),
        ("a || b && c == d < e << f + g * h", "(a || (b && (c == (d < (e << (f + (g * h)))))))"),
        ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
        ("a < b ? c + 1 : d", "((a < b) ? (c + 1) : d)"),
        ("#p * 2", "(#p * 2)"),
        ("a # #b", "(a # #b)"),
        ("idx(1)(-1) + 1", "(idx(1)((-1)) + 1)"),
        ("g.span(0) / 2", "(g.span(0) / 2)"),
        ("k++ + 1", "((k++) + 1)"),
        ("|g.span| * 2", "(|g.span| * 2)"),
        ("a | |g| | b", "((a | |g|) | b)"),
        ("1 - 1.5f", "(1 - 1.5f)"),
    ],
)
def test_precedence(text: str, tree: str) -> None:
    assert show(expression(text)) == tree


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("17", 17, "int"),
        ("2147483647", 2**31 - 1, "int"),
        ("2147483648", 2**31, "s64"),
        ("17l", 17, "int"),
        ("17ll", 17, "s64"),
        ("17u", 17, "u32"),
        ("4294967296u", 2**32, "u64"),
        ("17ull", 17, "u64"),
        ("0xFF", 255, "int"),
        ("0xFFFFFFFF", 2**32 - 1, "s64"),
    ],
)
def test_integers(text: str, value: int, kind: str) -> None:
    literal = expression(text)
    assert isinstance(literal, s.IntLit)
    assert (literal.value, literal.type) == (value, kind)


@pytest.mark.parametrize(("text", "value", "is_f32"), [("2.5", 2.5, False), ("1e-3f", 1e-3, True), (".5f", 0.5, True)])
def test_floats(text: str, value: float, is_f32: bool) -> None:
    literal = expression(text)
    assert isinstance(literal, s.FloatLit)
    assert (literal.value, literal.is_f32) == (value, is_f32)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("true", s.BoolLit),
        ("inf", s.InfLit),
        ('"a" "b"', s.StringLit),
        ("g", s.NameRef),
        ("g.span", s.SpanOf),
        ("f.data.span", s.SpanOf),
        ("f.data", s.BufferRef),
        ("f.mdata", s.BufferRef),
        ("t[1][2]", s.BufferRef),
        ("t[1].at(2)", s.ElemRef),
        ("f.data.at(1, 2)", s.ElemRef),
        ("{1, 2}", s.TupleLit),
        ("|f16|", s.SizeOf),
        ("|4 * g.span|", s.Count),
        ("__exp(1.0f)", s.Builtin),
        ("cdiv(n, 4)", s.Builtin),
        ("__to<s32>(1.5f)", s.Cast),
        ('__to<"float*">(nullptr)', s.Cast),
        ("call f(1)", s.CallExpr),
        ("__atomic_add(g.at(0, 0), 1)", s.AtomicCall),
        ("vendor::op(1)", s.IntrinsicCall),
        ("hw_read()", s.IntrinsicCall),
        ("select(n % 2, a, b)", s.Select),
        ("g.chunkat(n, _)", s.View),
        ("t {(1), (0)}", s.Derivation),
        ("#n", s.Extent),
        ("(n)", s.Paren),
        ("g.span[(0) / 2, 4]", s.Derivation),
    ],
)
def test_primaries(text: str, kind: type[s.Expr]) -> None:
    node = expression(text)
    assert type(node) is kind
    assert node.span.text == text


def test_derivations_refer_to_dimensions() -> None:
    decl = statement("s : g[(0) / 2, cdiv((1), 4), n];")
    assert isinstance(decl, s.MdspanDecl)
    value = decl.value
    assert isinstance(value, s.Derivation)
    dims = [node.index for node in s.walk(value) if isinstance(node, s.DimRef)]
    assert (value.kind, dims) == ("shape", [0, 1])


def test_one_subscript_can_be_read_as_a_derivation() -> None:
    decl = statement("s : g[(0) / 2];")
    assert isinstance(decl, s.MdspanDecl)
    assert isinstance(decl.value, s.BufferRef)
    derivation = s.as_derivation(decl.value)
    assert derivation is not None
    assert [node.index for node in s.walk(derivation) if isinstance(node, s.DimRef)] == [0]


def test_views() -> None:
    view = expression("t[2].data.subspan(4, _ : 8, 1).step(2, 2).at(i, j).zfill.sqz().view(2).from(1).span_as([4, 4])")
    assert isinstance(view, s.View)
    assert (view.base.name.text, view.base.data, len(view.base.subscripts)) == ("t", "data", 1)
    subspan, zfill, squeeze, window, reshape = view.ops
    assert isinstance(subspan, s.Subspan)
    assert [len(part or ()) for part in (subspan.extents, subspan.strides, subspan.step, subspan.at)] == [2, 2, 2, 2]
    assert isinstance(subspan.extents[1], s.Wildcard)
    assert subspan.span.text == ".subspan(4, _ : 8, 1).step(2, 2).at(i, j)"
    assert isinstance(zfill, s.ZeroFill)
    assert isinstance(squeeze, s.Squeeze)
    assert isinstance(window, s.Window)
    assert len(window.origin or ()) == 1
    assert isinstance(reshape, s.SpanAs)
    (chunk,) = expression("g.chunk(4, 1).at(n, 0)").ops  # type: ignore[attr-defined]
    assert isinstance(chunk, s.Chunk)
    assert (len(chunk.counts), len(chunk.at)) == (2, 2)


# ---- statements


def test_a_single_axis() -> None:
    parallel = statement("parallel p by 16 {}")
    assert isinstance(parallel, s.Parallel)
    (group,) = parallel.groups
    assert ([name.text for name in group.names], group.whole, group.braced, group.level) == (["p"], None, False, None)
    assert [show(bound) for bound in group.bounds] == ["16"]


def test_axes_with_names_levels_and_attributes() -> None:
    parallel = statement(
        "[[launch_bounds(64, 2)]] [[maxnreg(32)]] parallel.async<st> t = {a, b} by [3, 4] : block<cooperative>,"
        " by 2 : group-4, {c} by [5] : thread {}"
    )
    assert isinstance(parallel, s.Parallel)
    assert [attribute.name.text for attribute in parallel.attributes] == ["launch_bounds", "maxnreg"]
    assert (parallel.is_async, str(parallel.stream)) == (True, "st")
    first, second, third = parallel.groups
    assert (str(first.whole), [name.text for name in first.names]) == ("t", ["a", "b"])
    assert first.level is not None
    assert (first.level.word, first.cooperative) == ("block", True)
    assert [show(bound) for bound in first.bounds] == ["3", "4"]
    assert second.level is not None
    assert (second.names, second.level.word) == ((), "group-4")
    assert (third.braced, [show(bound) for bound in third.bounds]) == (True, ["5"])


def test_device_levels() -> None:
    parallel = statement("parallel by 1 : device(gpu) {}")
    assert isinstance(parallel, s.Parallel)
    assert str(parallel.groups[0].device) == "gpu"


def test_bindings() -> None:
    node = statement("with v in 8, {i, j} in [4, 8], w = {a} in g.span where i <-> a, v <-> j {}")
    assert isinstance(node, s.With)
    assert [(str(b.whole), [n.text for n in b.names]) for b in node.bindings] == [
        ("v", []),
        ("None", ["i", "j"]),
        ("w", ["a"]),
    ]
    assert [(tie.left.text, tie.right.text) for tie in node.ties] == [("i", "a"), ("v", "j")]


def test_loops_over_bindings_and_ranges() -> None:
    over = statement("foreach index = {m, n2} in [128 / #p, 4] : unroll(2), vectorize(m, 4) {}")
    assert isinstance(over, s.Foreach)
    assert [hint.kind for hint in over.hints] == ["unroll", "vectorize"]
    assert (len(over.bindings), over.ranges) == (1, ())
    again = statement("foreach k, c = b(1:), j(:-1), i(1:n:2) x = 1;")
    assert isinstance(again, s.Foreach)
    parts = [
        (r.name.text, str(r.alias), *[part and show(part) for part in (r.lower, r.upper, r.step)]) for r in again.ranges
    ]
    assert parts == [
        ("k", "None", None, None, None),
        ("b", "c", "1", None, None),
        ("j", "None", None, "(-1)", None),
        ("i", "None", "1", "n", "2"),
    ]
    assert isinstance(again.body, s.Assign)


def test_else_belongs_to_the_nearest_if() -> None:
    outer = statement("if (n) if (m) a = 1; else a = 2;")
    assert isinstance(outer, s.If)
    assert outer.other is None
    assert isinstance(outer.then, s.If)
    assert outer.then.other is not None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (";", s.Empty),
        ("{ x = 1; }", s.Block),
        ("while (e && n);", s.While),
        ("inthreads.async (n == 0) { }", s.InThreads),
        ("apply {i, j} in s.span r.at(i, j) = 1;", s.Apply),
        ("mdspan<2> s : [4, 2];", s.MdspanDecl),
        ("s : g.span / {2, 2};", s.MdspanDecl),
        ("ituple<2> t = {1, 2};", s.ItupleDecl),
        ("mutable s32 a = 1, b {2}, c;", s.ScalarDecl),
        ("mutable a = 1;", s.ScalarDecl),
        ("shared f32 [16, #n, g.span(0)] a, b[2][3], c {0};", s.SpanDecl),
        ("frag f32 [16, 8] c[2] {0.0f};", s.FragDecl),
        ("frag f32 [auto] c;", s.FragDecl),
        ("frag.f32 c {0.0f};", s.FragDecl),
        ("shared event<4> e, r[3] = ready;", s.EventDecl),
        ("a = 1, b.at(0) += 2;", s.Assigns),
        ("g += 1;", s.Assign),
        ("f = dma.any;", s.Placeholder),
        ("m = g.map<local>(0, 64);", s.MapView),
        ("wait (f), e[1], r.at(k++);", s.Wait),
        ("trigger.cluster e, r.at(n) after fa, fb;", s.Trigger),
        ("swap fa, fb;", s.Swap),
        ("rotate(fa, fb, fc);", s.Rotate),
        ("sync.shared;", s.Sync),
        ("sync.barrier : group-4;", s.Barrier),
        ("sync.fence : block<shared>;", s.Fence),
        ("return;", s.Return),
        ("call a::f<8, f32, #p, cdiv(n, 4) + 1, -1, x::y>(g, &g.at(0, 0), nullptr);", s.CallStmt),
        ("hw_go(1);", s.CallStmt),
        ("__bar_sync(1, 64);", s.CallStmt),
        ('assert(n > 0, "n " "is positive");', s.Assert),
        ('println!("n", n);', s.Print),
        ('__cpp__(R"(int x;)");', s.CppEscape),
        ("reduce_sum(m, s, 1);", s.FragReduce),
        ("all_reduce_sum(m);", s.AllReduce),
        ("copy(a, b);", s.FragCopy),
        ("mma.fill c, 0.0f;", s.MmaFill),
        ("mma.load g, fr;", s.MmaLoad),
        ("mma.scale c, g, 2.0f;", s.MmaScale),
        ("mma.store.mask c, g, n, 4;", s.MmaStore),
        ("mma.commit;", s.MmaCommit),
        ("break;", s.Break),
        ("continue;", s.Continue),
        ("yield;", s.Yield),
    ],
)
def test_statements(text: str, kind: type[s.Stmt]) -> None:
    node = statement(text)
    assert type(node) is kind
    assert node.span.text == text


def test_transfers() -> None:
    node = statement("f = dma.copy.async.swiz<128>.zfill t[1].chunkat(p, _) => select(n, a, b) after e;")
    assert isinstance(node, s.Dma)
    assert (str(node.result), node.engine, node.op, node.is_async, str(node.after)) == ("f", "dma", "copy", True, "e")
    assert [(modifier.name, modifier.args) for modifier in node.modifiers] == [("swiz", (128,)), ("zfill", ())]
    assert isinstance(node.destination, s.Select)
    storage = statement("tma.load.async.evict_first.promote<128> g => shared;")
    assert isinstance(storage, s.Dma)
    assert isinstance(storage.destination, s.StorageWord)
    assert storage.destination.word == "shared"


def test_configurations_of_transfers() -> None:
    pad = statement("dma.pad<{1, 2}, {0, 3}, {0, 0}, -1.5f> g => local;")
    assert isinstance(pad, s.Dma)
    assert isinstance(pad.config, s.PadConfig)
    assert [show(item) for item in pad.config.high] == ["0", "3"]
    assert show(pad.config.value) == "(-1.5f)"
    transposed = statement("dma.transp<2, 0, 1> g => local;")
    assert isinstance(transposed, s.Dma)
    assert isinstance(transposed.config, s.TransposeConfig)
    assert transposed.config.order == (2, 0, 1)
    sparse = statement("q = dma.copy.sp<2:4> g => local;")
    assert isinstance(sparse, s.Dma)
    assert sparse.modifiers[0].args == (2, 4)


def test_products_of_tiles() -> None:
    node = statement("[[schedule(k_tiles(1, 0))]] f = mma.row.col.async acc[0], ta[n % 2], tb.subspan(8, 8).at(0, n);")
    assert isinstance(node, s.MmaMultiply)
    assert (node.a_layout, node.b_layout, node.is_async, node.schedule) == ("row", "col", True, (1, 0))
    assert (str(node.result), node.accumulator.name.text, len(node.b.ops)) == ("f", "acc", 1)
    scaled = statement("mma.row.row.scale c, a, b, sa, 2.0f;")
    assert isinstance(scaled, s.MmaMultiply)
    assert scaled.scale is not None
    sparse = statement("mma.row.row.sp c, a, b, me;")
    assert isinstance(sparse, s.MmaMultiply)
    assert (sparse.sparse, sparse.metadata is not None) == (True, True)
    load = statement("a = mma.load.swiz<64>.async f.data;")
    assert isinstance(load, s.MmaLoad)
    assert load.swizzle is not None
    assert (load.swizzle.value, load.is_async, load.source.base.data) == (64, True, "data")
    fill = statement("c = mma.fill.f16 0.0f;")
    assert isinstance(fill, s.MmaFill)
    assert fill.type is not None
    assert fill.type.name == "f16"


def test_inline_assembly() -> None:
    node = statement('asm volatile("mov %0, %1;" : "=r"(x), [y] "+r"(g.at(0, 0)) : "r"(n) : "memory", "cc");')
    assert isinstance(node, s.Asm)
    assert node.volatile
    assert [(operand.constraint, str(operand.name)) for operand in node.outputs] == [("=r", "None"), ("+r", "y")]
    assert ([operand.constraint for operand in node.inputs], node.clobbers) == (["r"], ("memory", "cc"))
    short = statement('__asm__("bar.sync 0;" :: "r"(n));')
    assert isinstance(short, s.Asm)
    assert ([operand.constraint for operand in short.inputs], short.outputs) == (["r"], ())


def test_parameters() -> None:
    text = "__co__ auto f(global f16 [M, 16 * 2] a, f32 mdspan<2>& b, s32 [?, ??] c, [[N]] d, int n, stream s) {}"
    tree = function(text.replace("[[N]] d", "u8 [[N, 4]] d"))
    dims = [[dim.kind for dim in param.type.shape.dims] if param.type.shape else None for param in tree.params]
    assert dims == [["symbol", "const"], ["any", "any"], ["any", "unbounded"], ["symbol", "const"], None, None]
    assert [param.by_ref for param in tree.params] == [False, True, False, False, False, False]
    assert tree.params[0].storage is not None
    assert [param.type.word for param in tree.params] == ["f16", "f32", "s32", "u8", "int", "stream"]
    assert tree.result.word == "auto"


def test_aliases_of_types_keep_their_spelling() -> None:
    tree = function("__co__ float f(half [4] x, double y, bfp16 z) {}")
    assert tree.result.type is not None
    assert (tree.result.type.name, tree.result.type.word) == ("f32", "float")
    assert [param.type.word for param in tree.params] == ["f16", "f64", "bf16"]


def test_unnamed_parameters() -> None:
    (param,) = function("__co__ void f(s32 [4]) {}").params
    assert param.name is None


def test_a_device_function_in_tileflow_syntax() -> None:
    assert function("__co_device__ void f(s32 [4] v) { v.at(0) = 1; }").is_device


def test_a_pragma_in_a_body() -> None:
    assert isinstance(statement("#pragma croq intrinsic namespace vendor"), s.PragmaIntrinsic)


def test_deep_nesting_and_long_lists_parse() -> None:
    assert expression("(" * 500 + "1" + ")" * 500).span.text.count("(") == 500
    items = expression("{" + ", ".join(["1"] * 5000) + "}")
    assert isinstance(items, s.TupleLit)
    assert len(items.items) == 5000
    chain = expression(" + ".join(["n"] * 300))
    assert chain.span.text.count("+") == 299


def test_text_without_preprocessing() -> None:
    report = Report()
    tree = parse_text("__co__ void f() {}", report)
    assert tree is not None
    assert not len(report)
    assert parse_text("__co__ void f() { = }", report) is None
    assert report.has_errors


def test_other_functions_are_parsed_after_an_error() -> None:
    functions, findings = read("__co__ void f() { x = ; }\n__co__ void g() { x = 1; }")
    assert functions[0] is None
    assert functions[1] is not None
    assert len(findings) == 1


def test_the_text_form() -> None:
    tree = function("""__co__ s32 [M, 4] f(global s32 [M, 4]& x, int n) {
  shared s32 [x.span(0), 4] t[2] {0}, u;
  parallel {p, q} by [2, #n] : block<cooperative>, by 8 : thread
    with i in 4, w = {a, b} in [M, 4] where a <-> i
      if (!p & 1) { q = dma.copy.async.swiz<64> x.subspan(2, _ : 8, 1).at(p#i, 0).zfill => shared after e; }
      else wait q, e[1], r.at(k++);
  return x;
}""")
    assert (
        dump(tree)
        == """\
Function result=s32 [M, 4] name=f  @1:1
  params:
    Param type=s32 [M, 4] by_ref name=x storage=global  @1:21
    Param type=int name=n  @1:43
  Block  @1:50
    SpanDecl storage=shared type=s32 dims=(x.span(0), 4)  @2:3
      items:
        BufferItem name=t array=(2) value=0  @2:29
        BufferItem name=u  @2:39
    Parallel  @3:3
      groups:
        AxisGroup names=(p, q) bounds=(2, #n) braced level=block cooperative  @3:12
        AxisGroup bounds=(8) level=thread  @3:52
      With ties=(a <-> i)  @4:5
        bindings:
          Binding whole=i bound=4  @4:10
          Binding names=(a, b) whole=w bound=[M, 4]  @4:18
        If condition=(!(p & 1))  @5:7
          then:
            Block  @5:19
              Dma result=q engine=dma op=copy is_async modifiers=(swiz(64)) \
source=x.subspan(2, _ : 8, 1).at((p # i), 0).zfill destination=shared after=e  @5:21
          other:
            Wait items=(q, e[1], r.at((k++)))  @6:12
    Return value=x  @7:3"""
    )
