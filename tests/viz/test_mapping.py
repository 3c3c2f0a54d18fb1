"""Counts of a mapping against loops that count."""

from __future__ import annotations

import itertools

import ir_builders as build
import pytest

from croq_magic import viz
from croq_magic.compiler import ir


def test_levels_and_counts_of_the_tiled_matrix_product() -> None:
    (launch,) = viz.mapping(build.matmul_dma()).data["launches"]
    assert (launch["blocks"], launch["threads"], launch["warps"], launch["total"]) == (128, 256, 8, 32768)
    assert launch["shared"] == 2 * 16 * 16 * 4
    assert [(level["level"], level["indices"], level["extents"]) for level in launch["levels"]] == [
        ("block", ("px", "py"), (8, 16)),
        ("thread", ("qx", "qy"), (16, 16)),
    ]


def test_lines_say_how_often_they_run() -> None:
    m, k, n, (rows, columns, depth) = 8, 12, 6, (4, 3, 2)
    lines = viz.mapping(build.matmul_dma(m, k, n, (rows, columns, depth))).data["lines"]
    copies = computed = 0
    for _px, _py, _tile in itertools.product(range(m // rows), range(n // columns), range(k // depth)):
        copies += 1
        computed += sum(1 for _ in itertools.product(range(rows), range(columns), range(depth)))
    by_kind = {line["kind"]: line for line in lines}
    assert by_kind["dma"]["count"] == copies
    assert by_kind["compute"]["count"] == computed
    assert by_kind["compute"]["level"] == "thread"
    assert by_kind["dma"]["level"] == "block"
    assert by_kind["return"]["level"] == "host"


def test_nesting_of_lines() -> None:
    lines = viz.mapping(build.matmul_dma()).data["lines"]
    shown = [(line["depth"], line["kind"], line["level"]) for line in lines]
    assert shown == [
        (0, "function", "host"),
        (1, "declare", "host"),
        (1, "parallel", "block"),
        (2, "foreach", "block"),
        (3, "dma", "block"),
        (3, "dma", "block"),
        (3, "parallel", "thread"),
        (4, "foreach", "thread"),
        (5, "compute", "thread"),
        (1, "return", "host"),
    ]
    assert [lines[i]["end"] for i in (2, 3, 6, 7)] == [8, 8, 8, 8]


def test_loops_directly_inside_each_other_make_one_line() -> None:
    lines = viz.mapping(build.matmul_scalar()).data["lines"]
    (loop,) = (line for line in lines if line["kind"] == "foreach")
    assert loop["text"] == "foreach {m, n, k} in [8, 4, 256]"
    assert loop["extents"] == (8 * 4 * 256,)


@pytest.mark.parametrize("tiled", [False, True])
def test_traffic_is_what_a_loop_counts(tiled: bool) -> None:
    m, k, n = 8, 12, 6
    f = build.matmul_dma(m, k, n, (4, 3, 2)) if tiled else build.matmul_scalar(m, k, n, 4, 3)
    traffic = viz.mapping(f).data["traffic"]
    lhs = written = 0
    if tiled:
        for _px, _py, _tile_k in itertools.product(range(2), range(2), range(6)):
            lhs += 4 * 2
            written += 4 * 3 * 2
    else:
        for _i, _j, _k in itertools.product(range(m), range(n), range(k)):
            lhs += 1
            written += 1
    assert traffic["lhs"] == {"storage": "global", "read": lhs, "written": 0, "passed": 0, "exact": True}
    assert traffic["output"]["written"] == written == m * n * k


def test_what_is_passed_to_device_functions_is_counted_apart() -> None:
    traffic = viz.mapping(build.ele_add((3, 4, 6), (2, 3))).data["traffic"]
    assert traffic["l1_out"] == {"storage": "local", "read": 72, "written": 0, "passed": 72, "exact": True}


@pytest.mark.parametrize(
    ("levels", "threads"),
    [((ir.Level.GROUP,), 32), ((ir.Level.GROUP4,), 128), ((ir.Level.GROUP4, ir.Level.GROUP), 4 * 32)],
)
def test_groups_without_threads_get_their_lanes(levels: tuple[ir.Level, ...], threads: int) -> None:
    out = build.buffer("output", (4,))
    w = build.index("w0", 2, ir.Role.REGION)
    body: list[ir.Stmt] = [build.store(out, (w,), build.const(1))]
    for i, level in reversed(list(enumerate(levels))):
        body = [build.region(level, {f"w{i}": 2 if i == 0 else 4}, body)]
    f = build.returning("groups", (), out, [build.launch("groups", build.region(build.BLOCK, {}, body, implied=True))])
    (launch,) = viz.mapping(f).data["launches"]
    assert launch["threads"] == 2 * threads
    assert launch["levels"][-1]["implied"]


def test_of_two_inner_nests_one_counts() -> None:
    (launch,) = viz.mapping(build.row_sum()).data["launches"]
    assert (launch["blocks"], launch["threads"], launch["total"]) == (8, 16, 128)


def test_symbolic_sizes() -> None:
    f = build.saxpy(build.dim("N"))
    (launch,) = viz.mapping(f, N=1000).data["launches"]
    assert launch["total"] == 1024
    assert viz.mapping(f, N=1000).data["traffic"]["x"]["read"] == 1000


def test_text() -> None:
    assert viz.mapping(build.matmul_scalar()).text == (
        """mapping of matmul

matmul(lhs: s32 [128, 256], rhs: s32 [256, 256])                    host
  s32 [128, 256] output
  parallel p by 16 : block                                          16 blocks
    parallel q by 64 : thread                                       64 threads a block
      foreach {m, n, k} in [8, 4, 256]                              8,192 steps, in order
        output[p * 8 + m, q * 4 + n] += lhs[p * 8 + m, k] * rhs[k…  in each thread, 8,388,608 × in all
  return output

matmul_0: 16 blocks × 64 threads = 1,024 threads

elements, as the program is written:
  global lhs: 8,388,608 read
  global rhs: 8,388,608 read
  global output: 8,388,608 read, 8,388,608 written"""
    )
