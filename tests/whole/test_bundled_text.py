"""Self-contained sources begin with bundled headers, without branches that they never compile."""

from __future__ import annotations

import re

import pytest

from croq_magic.compiler.bundled import header
from croq_magic.compiler.whole import bundled_text

TEXT = """\
#pragma once
#ifdef KNOWN
a
#ifdef OTHER
b
#else
c
#endif
#else
#ifdef OTHER
d
#endif
#endif
#ifndef KNOWN
e
#else
f
#endif
#if defined(KNOWN)
g
#endif
"""


def lines(text: str, defined: dict[str, bool] | None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(bundled_text, "header", lambda name: text)
    return "".join(bundled_text.flatten(["x.h"], defined)).splitlines()


def test_decided_branches(monkeypatch: pytest.MonkeyPatch) -> None:
    other = ["#ifdef OTHER", "b", "#else", "c", "#endif"]
    rest = ['#line 19 "x.h"', "#if defined(KNOWN)", "g", "#endif"]
    assert lines(TEXT, {"KNOWN": True}, monkeypatch) == [
        *['#line 3 "x.h"', "a", *other],
        *['#line 17 "x.h"', "f", *rest],
    ]
    assert lines(TEXT, {"KNOWN": False}, monkeypatch) == [
        *['#line 10 "x.h"', "#ifdef OTHER", "d", "#endif"],
        *['#line 15 "x.h"', "e", *rest],
    ]
    assert lines(TEXT, None, monkeypatch) == ['#line 2 "x.h"', *TEXT.splitlines()[1:]]


@pytest.mark.parametrize("names", [["croq_host_cudart.h"], ["croq_runtime.cpp", "croq_host.h", "croq_device.h"]])
def test_markers_name_the_line_of_every_file(names: list[str]) -> None:
    place: tuple[str, int] = ("", 0)
    seen = 0
    for line in "".join(bundled_text.flatten(names, bundled_text.switches(names))).splitlines():
        if marker := re.fullmatch(r'#line (\d+) "(.*)"', line):
            place = (marker[2], int(marker[1]))
            continue
        assert header(place[0]).splitlines()[place[1] - 1] == line
        place = (place[0], place[1] + 1)
        seen += 1
    assert seen > 500


def test_a_source_for_nvcc_has_nothing_of_the_emulator() -> None:
    names = ["croq_host_cudart.h", "croq_cuda.h"]
    text = "".join(bundled_text.flatten(names, bundled_text.switches(names)))
    assert '"croq_emulate.h"' not in text and "#ifdef CROQ_EMULATE" not in text and '"croq_cuda.h"' in text
