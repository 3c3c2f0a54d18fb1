"""A whole program as one file for nvcc: host, device functions, kernels, and launches through CUDA's runtime.

Kernels stand where their tileflow function stood. What they need of croq_cuda.h is in a namespace of its own there
(`CROQ_SINGLE_SOURCE`), since the host's helpers have the same names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from croq_magic.compiler import ir
from croq_magic.compiler.split import Unit
from croq_magic.compiler.targets.cpu import callers
from croq_magic.compiler.targets.cpu.guards import ModuleState
from croq_magic.compiler.targets.cpu.writer import Writer
from croq_magic.compiler.targets.cuda.dialect import CudaDialect
from croq_magic.compiler.targets.emit_cxx import Unsupported
from croq_magic.compiler.targets.simt.emit import emit_module
from croq_magic.compiler.targets.simt.host_cxx import SimtHostFunction, launches_of
from croq_magic.compiler.visit import walk
from croq_magic.compiler.whole.host import HostCode

if TYPE_CHECKING:
    from croq_magic.compiler.targets.simt.emission import SimtEmission

_DEFINITION = re.compile(
    r"\b(?!if\b|for\b|while\b|switch\b)[A-Za-z_]\w*\s*\((?:[^(){};]|\([^()]*\))*\)\s*(?:noexcept\s*)?\{"
)
_SKIPPED = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|^[ \t]*\#(?:\\\r?\n|[^\n])*""", re.S | re.M
)
_BEGIN = re.compile(r'\s*(?:extern\s+(?:"C"|   )\s*\{?\s*|template\s*<[^{};]*?>\s*(?=[A-Za-z_]))*')


class SingleSourceDialect(CudaDialect):
    """CUDA C++ between the host's."""

    def head(self, element_types: bool) -> list[str]:
        return []

    def opening(self) -> list[str]:
        return ["namespace croq_gpu {", "using namespace ::croq_cell;"]

    def closing(self) -> list[str]:
        return ["}  // namespace croq_gpu"]


def emit(unit: Unit, functions: Sequence[ir.Function], shown: Mapping[str, str], arch: int) -> HostCode:
    """The program's file but for the program itself. Raises `emit_cxx.Unsupported`."""
    nodes = [node for function in functions for node in walk(function.body)]
    headers = ["croq_host_cudart.h", "croq_alone.h"]
    if any(isinstance(node, ir.Builtin) for node in nodes):
        headers.append("croq_math.h")
    headers.append("croq_cuda.h")
    dialect = SingleSourceDialect(arch)
    texts = {}
    for function in functions:
        emission = emit_module(dialect, [function], (), unit.source)
        texts[function.name] = _function(unit, function, emission, shown[function.name])
    places = {function.name: function.span.start for function in functions if function.span is not None}
    return HostCode(tuple(headers), "", texts, places, cok_marker=with_device_marker)


def _function(unit: Unit, function: ir.Function, emission: SimtEmission, shown: str) -> str:
    """Kernels of a function, what they are launched by, and the function that hosts call."""
    out = Writer()
    has_cok = bool(unit.of_kind("cok"))
    text = emission.text
    if has_cok:
        text = text.replace(
            "using namespace ::croq_cell;", "using namespace ::croq_cell;\nusing namespace ::croq_cok;", 1
        )
    if emission.kernels:
        out.verbatim(text.strip("\n"))
        out.verbatim('#line 1 "generated"')
    name = f"{function.name}_kernels"
    checks = f"{function.name}_kernel_checks"
    out.line("namespace croq_code {")
    if emission.checks:
        callers.check_table(out, checks, emission.checks, unit.source)
    entries = ", ".join(f'{{"{k.symbol}", (const void*)croq_gpu::{k.symbol}}}' for k in emission.kernels)
    if entries:
        out.line(f"static const croq_device::kernel {name}_list[] = {{{entries}}};")
        out.line(f"static croq_device::module {name} = {{{name}_list, {name}_list + {len(emission.kernels)}}};")
    else:
        out.line(f"static croq_device::module {name} = {{nullptr, nullptr}};")
    out.line("}  // namespace croq_code")
    table = checks if emission.checks else "nullptr"
    state = ModuleState(is_program=True)
    emitter = SimtHostFunction(state, function, launches_of(emission.kernels), "cuda", name, table, "cudaStream_t")
    try:
        emitter.emit()
    except Unsupported as problem:
        problem.span = problem.span or function.span
        raise
    return out.text() + callers.function_text(emitter, state.checks, unit.source, shown, False)


def with_device_marker(text: str) -> str:
    """The contents of a `__cok__` block in which every function is one of the device: no column but those in the lines
    of functions' names moves."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    plain = _SKIPPED.sub(blank, text)
    depths, depth = [], 0
    linkage = [match.end() - 1 for match in re.finditer(r"extern\s+\s*\{", plain)]
    for position, char in enumerate(plain):
        depths.append(depth)
        if char == "{" and position not in linkage:
            depth += 1
        elif char == "}":
            depth = max(0, depth - 1)
    starts = []
    for match in _DEFINITION.finditer(plain):
        if depths[match.start()]:
            continue
        before = max(plain.rfind(char, 0, match.start()) for char in ";{}") + 1
        begin = _BEGIN.match(plain, before)
        start = begin.end() if begin is not None else before
        if not re.search(r"\b__(?:device|host|global|co_device)__\b", plain[before : match.end()]):
            starts.append(min(start, match.start()))
    for start in reversed(starts):
        text = f"{text[:start]}__device__ {text[start:]}"
    return text
