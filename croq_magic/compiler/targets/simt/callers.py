"""The C++ functions that hosts call for a SIMT target: everything of a program's host file but the program itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from croq_magic.compiler import ir
from croq_magic.compiler.split import Unit
from croq_magic.compiler.targets.cpu import callers
from croq_magic.compiler.targets.cpu.guards import ModuleState
from croq_magic.compiler.targets.cpu.writer import Writer
from croq_magic.compiler.targets.emit_cxx import Unsupported
from croq_magic.compiler.targets.simt.emission import SimtEmission
from croq_magic.compiler.targets.simt.host_cxx import SimtHostFunction, launches_of
from croq_magic.compiler.visit import walk
from croq_magic.compiler.whole.host import HostCode

MODULE, CHECKS = "kernels_of_program", "checks_of_kernels"
_PLACE = "::croq_code::"  # functions in namespaces have a `croq_code` of their own


def emit(
    unit: Unit,
    functions: Sequence[ir.Function],
    shown: Mapping[str, str],
    emission: SimtEmission,
    target: str,
    header: str,
    module: str,
    stream_type: str = "void*",
) -> HostCode:
    """The host's C++ for functions whose kernels are in `emission`.

    `header` is the bundled header that has the device, `module` C++ text that defines `MODULE`, of the type
    `croq_device::module`. Device text stays out of the file. Raises `emit_cxx.Unsupported`.
    """
    nodes = [node for function in functions for node in walk(function.body)]
    headers = [header] if target == "emulate" else [header, "croq_alone.h"]
    if any(isinstance(node, ir.Builtin) for node in nodes):
        headers.append("croq_math.h")
    headers.append("croq_device.h")
    prelude = Writer()
    prelude.line("namespace croq_code {")
    checks = "nullptr"
    if emission.checks:
        checks = _PLACE + CHECKS
        callers.check_table(prelude, CHECKS, emission.checks, unit.source)
    prelude.verbatim(module.removesuffix("\n"))
    prelude.line("}  // namespace croq_code")
    texts: dict[str, str] = {}
    launches = launches_of(emission.kernels)
    state = ModuleState(is_program=True)
    for function in functions:
        first = len(state.checks)
        emitter = SimtHostFunction(state, function, launches, target, _PLACE + MODULE, checks, stream_type)
        try:
            emitter.emit()
        except Unsupported as problem:
            problem.span = problem.span or function.span
            raise
        table = state.checks[first:]
        texts[function.name] = callers.function_text(emitter, table, unit.source, shown[function.name], False)
    places = {function.name: function.span.start for function in functions if function.span is not None}
    runtime = ("croq_runtime.cpp",) if target == "emulate" else ()
    return HostCode(tuple(headers), prelude.text(), texts, places, False, runtime, keeps_device=False)
