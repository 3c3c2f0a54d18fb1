"""Default mapping and limits of levels: language reference, execution model, sections 2.1 to 2.3."""

from __future__ import annotations

import pytest

from croq_magic.compiler import ir
from croq_magic.compiler.limits import LIMITS
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.map_levels import MapLevels
from croq_magic.compiler.text import format_function
from tests.ir_builders import BLOCK, THREAD, dim, launch, matmul_dma
from tests.passes.nests import Nest, function, kernel, path, said


def build(written: str, extents: list[int] | None = None) -> ir.Region:
    """A nest from "-, group, thread"; every level has extent 2, a thread level 128 unless `extents` says so."""
    nest, root = Nest(), None
    words = written.split(", ")
    sizes = extents or [2] * (len(words) - 1) + [128]
    for level, size in reversed(list(zip(words, sizes, strict=True))):
        root = nest.region(level, [size], [root] if root else [])
    assert root is not None
    return root


def run(root: ir.Region, target: str = "cpu") -> tuple[ir.Region, Context]:
    context = Context(limits=LIMITS[target])
    return kernel(MapLevels()(function(root), context)), context


TABLE = {
    "-": "block",
    "block": "block",
    "thread": "(block) > thread",
    "group": "(block) > group",
    "group-4": "(block) > group-4",
    "-, -": "block > thread",
    "block, -": "block > thread",
    "-, thread": "block > thread",
    "block, thread": "block > thread",
    "-, group": "block > group",
    "-, group-4": "block > group-4",
    "group, -": "(block) > group > thread",
    "group-4, -": "(block) > group-4 > thread",
    "group-4, group": "(block) > group-4 > group",
    "-, -, -": "block > group > thread",
    "block, -, -": "block > group > thread",
    "-, -, thread": "block > group > thread",
    "-, group, -": "block > group > thread",
    "-, group-4, -": "block > group-4 > thread",
    "block, group-4, -": "block > group-4 > thread",
    "group-4, -, -": "(block) > group-4 > group > thread",
    "-, -, group": "block > group-4 > group",
    "-, -, -, -": "block > group-4 > group > thread",
    # Not in the table, by the same rule:
    "block, group, -": "block > group > thread",
    "group-4, group, thread": "(block) > group-4 > group > thread",
    "cluster, -": "cluster > block",
    "cluster, -, -": "cluster > block > thread",
    "cluster": "cluster > (block)",
    "device, -, -": "device > block > thread",
    "device, thread": "device > (block) > thread",
}


@pytest.mark.parametrize("written", TABLE)
def test_default_mapping(written: str) -> None:
    words = written.split(", ")
    last = 4 if TABLE[written].endswith("group") else 128
    root, context = run(build(written, [1 if w == "device" else 2 for w in words[:-1]] + [last]))
    assert path(root) == TABLE[written]
    assert not context.report.errors


def test_printed() -> None:
    nest = Nest()
    thread = nest.region("thread", [64])
    text = format_function(MapLevels()(function(thread), Context()))
    assert text == (
        "func f() {\n"
        "  launch f_0 {\n"
        "    region block [] implied {\n"
        "      region thread [i1_0 < 64] {\n"
        "      }\n"
        "    }\n"
        "  }\n"
        "}\n"
    )


def test_regions_below_loops_and_conditions_belong_to_the_nest() -> None:
    nest = Nest()
    thread = nest.region("-", [32])
    group = nest.region("-", [2], [ir.If(ir.TRUE, (ir.Scope((thread,)),))])
    loop = ir.For(ir.Var("k", role=ir.Role.LOOP), ir.Const(0), ir.Const(4), 1, (group,))
    root, _ = run(nest.region("-", [3], [loop]))
    (inner,) = (s for s in root.body if isinstance(s, ir.For))
    middle = inner.body[0]
    assert isinstance(middle, ir.Region) and root.level is BLOCK and middle.level is ir.Level.GROUP
    condition = middle.body[0]
    assert isinstance(condition, ir.If) and isinstance(condition.then[0], ir.Scope)
    innermost = condition.then[0].body[0]
    assert isinstance(innermost, ir.Region) and innermost.level is THREAD


def test_branches_agree_on_their_common_levels() -> None:
    nest = Nest()
    deep = nest.region("-", [2], [nest.region("-", [32])])
    flat = nest.region("-", [64])
    root, context = run(nest.region("-", [3], [flat, deep]))
    levels = [[s.level for s in region.body] for region in (root, root.body[1])]  # type: ignore[union-attr]
    assert root.level is BLOCK
    assert levels == [[THREAD, ir.Level.GROUP], [THREAD]]
    assert not context.report.errors


def test_several_launches_are_mapped_each() -> None:
    nest = Nest()
    first, second = nest.region("thread", [4]), nest.region("-", [4])
    host = ir.If(ir.TRUE, (launch("f", first),), (launch("g", second),))
    result = MapLevels()(ir.Function("f", (), None, (host,)), Context())
    assert [path(item.kernel.region) for item in result.launches()] == ["(block) > thread", "block"]


def test_mapped_functions_stay_as_they_are() -> None:
    once = MapLevels()(matmul_dma(), Context())
    assert format_function(once) == format_function(matmul_dma())


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("thread, block", "error PAR01 line 1: `block` cannot be nested in `thread`"),
        ("block, thread, group", "error PAR01 line 1: `group` cannot be nested in `thread`"),
        ("block, block", "error PAR02 line 1: two `block` levels"),
        ("block, -, block", "error PAR02 line 1: two `block` levels"),
        ("thread, -", "error PAR01 line 1: no level is left for a `parallel` inside `thread`"),
        ("-, block", "error PAR01 line 1: no level is left above `block` for the 1 unannotated `parallel` around it"),
        (
            "block, -, group-4",
            "error PAR01 line 1: no level is left above `group-4` for the 1 unannotated `parallel` around it",
        ),
        (
            "-, -, -, -, -",
            "error PAR01 line 1: 5 nested levels, at most 4 exist: block, group-4, group, thread",
        ),
    ],
)
def test_orders_that_do_not_descend(written: str, message: str) -> None:
    root, context = run(build(written))
    assert [text for text in said(context) if text.startswith("error")] == [message]
    assert all(region.level is not None for region in [root])


def test_hints_name_the_replacement() -> None:
    _, context = run(build("block, block"))
    (found,) = context.report
    assert found.hint == "`{i2_0, i1_0} by [2, 128] : block`"
    assert found.notes[0].message == "the enclosing `block` level"


def test_mixed_annotation_warns() -> None:
    _, context = run(build("-, thread"))
    assert said(context) == ["warning PAR03 line 2: annotate all levels or none"]
    assert not list(run(build("-, -"))[1].report)
    assert not list(run(build("block, thread"))[1].report)


@pytest.mark.parametrize(
    "statement",
    [ir.Barrier(BLOCK), ir.Masked(ir.TRUE, ()), ir.Trigger(ir.Event("e", ir.Storage.SHARED))],
)
def test_cooperation_in_a_lone_level_warns(statement: ir.Stmt) -> None:
    nest = Nest()
    inside = ir.For(ir.Var("k"), ir.Const(0), ir.Const(2), 1, (statement,))
    _, context = run(nest.region("-", [8], [inside]))
    assert said(context) == ["warning PAR16 line 1: a single unannotated level maps to blocks"]
    assert context.report.warnings[0].hint == "write `: thread` if the instances must cooperate"
    assert not list(run(nest.region("thread", [8], [inside]))[1].report)


def test_thread_limit() -> None:
    error = "line 1: 1025 threads per block, limit is 1024"
    assert said(run(build("block, thread", [2, 1025]), "sm_86")[1]) == [f"error PAR04 {error}"]
    assert said(run(build("block, thread", [2, 1025]))[1]) == [f"warning PAR04 {error} on every GPU"]
    assert not list(run(build("block, thread", [2, 1024]), "sm_86")[1].report)


def test_lanes_of_groups_count_as_threads() -> None:
    assert said(run(build("block, group-4", [2, 9]), "sm_90a")[1]) == [
        "error PAR04 line 1: 1152 threads per block, limit is 1024"
    ]
    assert said(run(build("block, group, thread", [2, 40, 32]), "sm_90a")[1]) == [
        "error PAR04 line 2: 1280 threads per block, limit is 1024"
    ]


@pytest.mark.parametrize(
    ("written", "extents", "message"),
    [
        ("group, thread", [2, 24], "threads per `group` must be a multiple of 32, found 24"),
        ("group-4, thread", [2, 96], "threads per `group-4` must be a multiple of 128, found 96"),
        ("group-4, group", [2, 3], "threads per `group-4` must be a multiple of 128, found 96"),
    ],
)
def test_whole_warps(written: str, extents: list[int], message: str) -> None:
    assert said(run(build(written, extents))[1]) == [f"error PAR05 line 1: {message}"]


def test_inner_levels_must_agree_on_their_threads() -> None:
    nest = Nest()
    four, one = nest.region("group-4", [3]), nest.region("group", [3])
    _, context = run(nest.region("block", [2], [four, one]))
    assert said(context) == ["error PAR06 line 2: inner levels need 384 and 96 threads; they must agree"]
    assert context.report.errors[0].notes[0].message == "384 threads are needed here"
    assert not list(
        run(nest.region("block", [2], [nest.region("group-4", [1]), nest.region("thread", [128])]))[1].report
    )


def test_axes_and_grid() -> None:
    nest = Nest()
    assert said(run(nest.region("block", [1, 2, 3, 4]))[1]) == [
        "error PAR04 line 1: one level has at most 3 axes, found 4"
    ]
    nest = Nest()
    root = nest.region("block", [1, 70000, 2])
    assert said(run(root, "sm_80")[1]) == ["error PAR04 line 1: extent 70000 on axis y of `block`, limit is 65535"]
    assert not list(run(root)[1].report)
    assert not list(run(Nest().region("-", [1, 70000, 2]), "sm_80")[1].report)  # the program asks for no axes
    nest = Nest()
    deep = nest.region("thread", [2, 2, 65])
    assert said(run(nest.region("block", [1], [deep]), "sm_80")[1]) == [
        "error PAR04 line 1: extent 65 on axis z of `thread`, limit is 64"
    ]


def test_symbolic_extents_are_not_judged() -> None:
    nest = Nest()
    threads = nest.region("thread", [dim("M")])
    _, context = run(nest.region("block", [dim("N")], [threads, nest.region("thread", [8])]), "sm_80")
    assert not list(context.report)


def test_device_has_one_instance() -> None:
    root = build("device, block", [2, 3])
    assert said(run(root)[1]) == ["error UNS01 line 2: `device` with extent 2; only 1 is supported"]


def test_launch_attributes() -> None:
    nest = Nest()
    root = nest.region("block", [1], [nest.region("thread", [128])], launch_bounds=(64,))
    assert said(run(root, "sm_80")[1]) == ["error PAR18 line 2: `launch_bounds` allows 64 threads, the block has 128"]
    root = nest.region("block", [1], [nest.region("thread", [128])], launch_bounds=(0, 2))
    assert not list(run(root, "sm_80")[1].report)
    assert said(run(root)[1]) == ["warning PAR18 line 4: `launch_bounds` has no effect on the CPU"]
    root = nest.region("thread", [128], maxnreg=64)
    assert said(run(root, "sm_80")[1]) == ["error PAR18 line 5: `maxnreg` applies to `block`, not to `thread`"]


def test_cooperation_is_a_matter_of_blocks() -> None:
    nest = Nest()
    root, context = run(nest.region("block", [2], [nest.region("thread", [8], cooperative=True)], cooperative=True))
    assert said(context) == ["warning PAR17 line 1: `cooperative` applies to `block`, not to `thread`; ignored"]
    inner = root.body[0]
    assert isinstance(inner, ir.Region)
    assert root.attributes.cooperative and not inner.attributes.cooperative
