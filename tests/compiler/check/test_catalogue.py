"""Wrong programs: for each code that a construct of this version can draw, its message and the text under the caret."""

from __future__ import annotations

import pytest

from croq_magic.compiler import pipeline
from croq_magic.compiler.codes import CODES
from croq_magic.compiler.limits import LIMITS
from croq_magic.compiler.source import Source
from tests.compiler import catalogue

GPU_ONLY = ("PAR04",)
FRAGMENT_LINE = {"F": 1, "H": 2, "K": 3}

# What the caret and its underline cover, for each code whose fragment this version understands.
MARKED = {
    "NAM01": "k",
    "NAM02": "k",
    "NAM03": "v",
    "NAM04": "n",
    "NAM05": "q",
    "NAM06": "_",
    "NAM07": "M",
    "NAM08": "p",
    "NAM09": "c",
    "NAM10": "tle",
    "NAM11": "n",
    "TYP01": "k",
    "TYP02": "k",
    "TYP03": "{1, 2}",
    "TYP04": "d",
    "TYP05": "0",
    "TYP06": "2.5f",
    "TYP07": "n",
    "TYP08": "a + b",
    "TYP09": '"abc"',
    "TYP10": "g",
    "TYP11": "c",
    "TYP12": "p",
    "TYP13": "q.at(0, 0)",
    "TYP15": "3",
    "TYP16": "__to<f6_e2m3>(1.0f)",
    "TYP17": "n + 1 & 3",
    "TYP18": "return x;",
    "TYP19": "f",
    "TYP20": "return t;",
    "TYP21": "int& n",
    "SHP01": "4 - 4",
    "SHP02": "[4, 2] + [1, 1]",
    "SHP03": "[4, 2, 8] / {2, 2}",
    "SHP04": "k",
    "SHP05": "m",
    "SHP06": "1.5",
    "SHP07": "2",
    "SHP08": "s : [4, 2] / [2, 1];",
    "SHP09": "{i, j} in [4, 2, 8]",
    "SHP10": "g.span / #v",
    "SHP11": "n",
    "SHP12": "a <-> b",
    "SHP13": "[g.span / {16, 32}]",
    "SHP14": "g *= v;",
    "VEW01": ".chunkat(p)",
    "VEW02": "p",
    "VEW03": "p",
    "VEW04": "n",
    "VEW05": ".subspan(9, 16)",
    "VEW06": ".subspan(4, 16).at(2, 0)",
    "VEW07": "g.view(4, 4).from(6, 0)",
    "VEW08": ".span_as([4, 30])",
    "VEW09": ".span_as([32])",
    "VEW10": ".sqz()",
    "VEW11": "g.at(1)",
    "VEW12": "g.at(p, 0)",
    "VEW13": "2",
    "VEW14": "t[1]",
    "VEW15": "i#p",
    "STO01": "shared",
    "STO02": "t",
    "STO03": "shared",
    "STO04": "t",
    "STO05": "g",
    "STO06": "t",
    "STO07": "shared",
    "STO09": "global f32 [8]& x",
    "PAR01": "q by 2 : block",
    "PAR02": "q by 2 : block",
    "PAR03": "p by 2",
    "PAR04": "q by 1025 : thread",
    "PAR05": "q by 24 : thread",
    "PAR06": "by 3 : group",
    "PAR07": "0",
    "PAR08": "{p, q} by [4]",
    "PAR09": "p by [4, 2]",
    "PAR10": "parallel.async q by 2 {}",
    "PAR11": "s",
    "PAR12": "n > 2",
    "PAR13": "inthreads (n > 0) {}",
    "PAR14": "parallel q by 2 {}",
    "PAR15": "sync.shared;",
    "PAR16": "p by 8",
    "PAR17": "p by 2 : thread<cooperative>",
    "PAR18": "by 1 : block",
    "PAR19": "return;",
    "PAR20": "break;",
    "PAR21": "unroll(8)",
    "PAR22": "k += 1;",
    "PAR23": "yield;",
    "PAR24": "fpga",
    "PAR25": "sync.barrier : device;",
    "PAR26": "unroll(0)",
    "PAR27": "1.5",
    "PAR28": "q > p - 1",
    "DMA01": "dma.copy g => t;",
    "DMA02": "dma.copy g => t;",
    "DMA03": "dma.copy g => t;",
    "DMA04": "t",
    "DMA05": "shared",
    "DMA06": "dma.copy.async g => shared;",
    "DMA07": "q",
    "DMA08": "q",
    "DMA09": "q.data",
    "DMA10": "q",
    "DMA11": "q",
    "DMA12": "swap(q, r);",
    "DMA13": "swap(q, r);",
    "DMA15": "select(n % 2, u, v)",
    "DMA16": ".pad<{1}, {1, 0}, {0, 0}, 0.0f>",
    "DMA17": "1",
    "DMA18": ".transp<1, 2>",
    "DMA19": "dma.transp<1, 0> g => t;",
    "DMA20": "dma.copy g.chunkat(t, _) => shared;",
    "DMA21": ".swiz<256>",
    "DMA22": "q",
    "CAL01": "call use(g)",
    "CAL02": "g.span",
    "CAL03": "q",
    "CAL04": "call use()",
    "CAL05": "call other(x)",
    "CAL06": "call use()",
    "CAL07": "k",
    "CAL08": "__atomic_cas(u.at(0), 1)",
    "CAL10": "hw_go(1)",
    "DYN01": "Q",
    "DYN02": "?",
    "DYN03": "??",
    "DYN05": "local f32 [M] t;",
    "DYN06": 'assert(M < 0, "m");',
}


@pytest.mark.parametrize("code", MARKED)
def test_message_and_position(code: str) -> None:
    entry = catalogue.entry(code)
    limits = LIMITS["sm_90a" if code in GPU_ONLY else "cpu"]
    report = pipeline.front_end(Source(catalogue.program(entry)), limits, {}).report
    found = [d for d in report if d.code == code]
    assert [d.code for d in report.errors if d.code != code] == [], report.text()
    assert found, report.text()
    assert found[0].message == entry.message
    assert found[0].span.text == MARKED[code]
    assert found[0].span.line == FRAGMENT_LINE[entry.wrapper]
    assert found[0].severity == CODES[code].severity or code == "STO06"  # a warning on the CPU
