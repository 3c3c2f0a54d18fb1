"""Runs hand-built IR on the CPU target, for tests of the emitter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context, run_passes
from croq_magic.compiler.passes.choose_strategy import ChooseStrategy
from croq_magic.compiler.passes.form_meetings import FormMeetings
from croq_magic.compiler.passes.split_regions import SplitRegions
from croq_magic.compiler.source import Source, Span
from croq_magic.compiler.targets.cpu import emit, module
from croq_magic.compiler.types import DType


def numpy_type(dtype: DType) -> np.dtype[Any]:
    assert dtype.numpy is not None
    return np.dtype(ml_dtypes.bfloat16 if dtype.name == "bf16" else dtype.numpy)


def emitted(function: ir.Function, verbatim: Sequence[Span] = (), source: Source | None = None) -> emit.Emitted:
    function = run_passes(function, (ChooseStrategy(), SplitRegions(), FormMeetings()), Context())
    return emit.emit_module([function], verbatim, source)


def run(
    function: ir.Function,
    *values: Any,
    dims: dict[str, int] | None = None,
    verbatim: str = "",
    shape: tuple[int, ...] | None = None,
) -> Any:
    """The result of a function: a new array of `shape` (that of the declaration by default), or a scalar."""
    source = Source(verbatim)
    loaded = module.load(emitted(function, [source.whole()] if verbatim else [], source), function.name)
    result = None
    if function.result is not None and function.result.extents is not None:
        if shape is None:
            shape = tuple(int(e.value) for e in function.result.extents if isinstance(e, ir.Const))
        result = np.zeros(shape, numpy_type(function.result.dtype))
    scalar = loaded.launch(values, dims or {}, result)
    return scalar if result is None else result
