"""Complete programs over the whole language, each with a host that checks its results: `whole/NAME.co`.

The index says what each is about and which targets refuse it, with what they say. A program that passes prints
`Test Passed` and ends with status 0.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from croq_magic.compiler.source import Source

FOLDER = Path(__file__).parent / "whole"

_SINGLE_SOURCE = "the opencl target has no `__device__` functions"
_NO_EVENTS = "events are not supported by the opencl target"


@dataclasses.dataclass(frozen=True)
class Whole:
    """One program: what it shows, macros and arguments that it is run with, targets that refuse it."""

    name: str
    shows: str
    defines: Mapping[str, int] = dataclasses.field(default_factory=dict)
    args: Sequence[str] = ()
    refused: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.co"

    def source(self) -> Source:
        return Source(self.path.read_text(encoding="utf-8"), self.path.name)


PROGRAMS = (
    Whole("elementwise", "`parallel` over three dimensions, C arrays, make_spanview<3>"),
    Whole("transpose", "by index, `dma.transp` of two and three dimensions, `auto`, std::vector"),
    Whole("matmul_ragged", "DMA tiles with `.zfill`, guarded stores, five shapes"),
    Whole("matmul_scalar", "tiles as macros, `p#m`, f64, 2-D C arrays"),
    Whole("shapes", "symbolic dimensions in several shapes, templates of the host"),
    Whole("anonymous", "`?` dimensions, `mdspan<N>`, `assert`, namespace croq"),
    Whole("in_out", "`&` parameters, scalars of every kind"),
    Whole("small_floats", "f16, bf16 and f8_e4m3 arrays, fill_fp8, conversions"),
    Whole("reduction", "trees in shared memory, returned scalars"),
    Whole("stencil", "`dma.pad`, `view.from`, a zero-filled edge"),
    Whole("double_buffering", "`dma.any`, `swap`, `rotate`"),
    Whole("async_copies", "asynchronous transfers and `wait`, copies within shared memory"),
    Whole("histogram", "atomics in shared and global memory"),
    Whole("several_launches", "launches in host loops and branches, host transfers between them"),
    Whole("streams", "`parallel.async`, `sync.global`, a `stream` parameter"),
    Whole("roles", "`inthreads`, event rings", refused={"opencl": _NO_EVENTS}),
    Whole("mma", "f16 tensor-core tiles of ragged matrices, masked stores"),
    Whole("softmax", "mathematical builtins, elected threads"),
    Whole("swizzle", "swizzled tiles, `using namespace croq`"),
    Whole("views", "strides, steps, `span_as`, `sqz`, windows that overlap"),
    Whole("device_templates", "`__device__` templates, structures, results", refused={"opencl": _SINGLE_SOURCE}),
    Whole("separate_source", '`__cok__` twice, `extern "C"`, a function called `kernel` on both sides'),
    Whole("co_device", "`__co_device__` functions"),
    Whole("macros", "`#define`, `#if`, -D, in all three parts", defines={"ROWS": 7}),
    Whole("splices", "`__cpp__`"),
    Whole("classes", "a host of classes, lambdas and containers; functions in namespaces; `using namespace choreo`"),
    Whole("host_library", "fill_random, copies, comparison, both namespaces"),
    Whole("arguments", "a command line", args=("--rows", "7", "--columns=3", "--product")),
    Whole("scan", "prefix sums in three launches, barriers in loops"),
    Whole("fragments", "`frag`, `apply`, `reduce_sum`"),
    Whole("convolution", "four dimensions, `subspan.step`, 8-bit integers, whole-span arithmetic"),
)
