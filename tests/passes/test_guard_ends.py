"""guard-ends: threads that a `yield` ends stay for the barriers behind it."""

from __future__ import annotations

from passes.cells import front

from croq_magic.compiler.passes.base import Context, run_passes
from croq_magic.compiler.passes.guard_ends import GuardEnds
from croq_magic.compiler.text import format_function


def kernel(body: str) -> tuple[list[str], list[str]]:
    """The lines inside the region of threads after the pass, and what it reports."""
    text = f"__co__ void f(s32 [8]& x) {{ parallel b by 1 : block {{ shared s32 [8] s; {body} }} }}"
    functions, report = front(text)
    assert not report.errors, report.text()
    context = Context(report)
    lines = format_function(run_passes(functions["f"], [GuardEnds()], context)).splitlines()
    start = next(i for i, line in enumerate(lines) if "region thread" in line)
    inside = [line.strip() for line in lines[start + 1 :] if line.strip(" }")]
    return inside, [f"{d.code} {d.message}" for d in report.errors]


def inside(body: str) -> list[str]:
    lines, errors = kernel(body)
    assert not errors
    return lines


def test_nothing_changes_where_nobody_waits() -> None:
    lines = inside("parallel t by 8 : thread { x.at(t) = 0; if (t > 3) yield; x.at(t) = 1; }")
    assert "yield" in lines
    assert not any("live" in line for line in lines)


def test_what_follows_is_for_the_living() -> None:
    lines = inside(
        "parallel t by 8 : thread { s.at(t) = t; if (t > 3) yield; s.at(t) = 1; sync.shared; x.at(t) = s.at(7 - t); }"
    )
    barrier = next(i for i, line in enumerate(lines) if line.startswith("barrier"))
    assert lines[barrier - 2 : barrier] == ["if live {", "s[t] = 1"]
    assert lines[barrier + 1] == "if live {"
    assert "live = false" in lines and "yield" not in lines


def test_a_loop_with_barriers_goes_on() -> None:
    lines = inside("parallel t by 8 : thread { foreach k in 4 { if (t == k) yield; sync.shared; x.at(t) = k; } }")
    loop = next(i for i, line in enumerate(lines) if line.startswith("for k"))
    assert lines[loop + 1] == "if live {"
    assert not any("break" in line for line in lines)


def test_a_loop_without_barriers_is_left() -> None:
    lines = inside(
        "parallel t by 8 : thread { foreach k in 4 { if (t == k) yield; x.at(t) = k; } sync.shared; x.at(t) = 9; }"
    )
    assert "break" in lines


def test_scalars_outlive_the_condition() -> None:
    """A value that comes from memory is computed by the living alone, one that others may depend on by all."""
    lines = inside(
        "parallel t by 8 : thread { if (t > 3) yield; v = x.at(t); n = t * 2; sync.shared; x.at(t) = v + n; }"
    )
    assert "mutable v: s32" in lines
    value = lines.index("v = x[t]")
    assert lines[value - 1] == "if live {"


def test_a_while_loop_with_barriers_is_refused() -> None:
    _, errors = kernel(
        "parallel t by 8 : thread { mutable s32 n = 3; while (n > 0) { if (t == n) yield; sync.shared; n -= 1; } }"
    )
    assert errors == [
        "UNS01 a `yield` that ends some threads of a `while` loop in which others wait is not supported on a GPU"
    ]
