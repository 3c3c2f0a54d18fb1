"""The C++ functions that hosts call, over the entries of kernels and the CPU runtime."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from croq_magic.compiler import ir
from croq_magic.compiler.diagnostics import excerpt
from croq_magic.compiler.source import Source, Span
from croq_magic.compiler.split import Unit
from croq_magic.compiler.targets.cpu import vector
from croq_magic.compiler.targets.cpu.checks import CheckSite
from croq_magic.compiler.targets.cpu.emit import HostFunction
from croq_magic.compiler.targets.cpu.guards import ModuleState
from croq_magic.compiler.targets.cpu.writer import Writer
from croq_magic.compiler.targets.emit_cxx import INDEX, Expressions, Names, Unsupported, cxx_string, is_narrow
from croq_magic.compiler.text import format_expr
from croq_magic.compiler.types import DType
from croq_magic.compiler.visit import walk
from croq_magic.compiler.whole.host import HostCode

_PRINTF = re.compile(r"\b(?:printf|puts|putchar|cout)\b")
_KINDS = {"deadlock": "d", "meeting": "m", "named": "n", "event": "e", "trigger": "t"}
_DIMS = 8  # room for dimensions in `croq_host::check`


def emit(unit: Unit, functions: Sequence[ir.Function], shown: Mapping[str, str]) -> HostCode:
    """C++ for functions after the target's passes. `shown` has their signatures. Raises `emit_cxx.Unsupported`."""
    nodes = [node for function in functions for node in walk(function.body)]
    device = [region.text for region in unit.of_kind("device", "cok")]
    spliced = [node.text for node in nodes if isinstance(node, ir.CxxText)]
    state = ModuleState(prints=any(map(_PRINTF.search, [*device, *spliced])), is_program=True)
    headers = ["croq_host.h"]
    if any(isinstance(node, (ir.Fibers, ir.Event)) for node in nodes):
        headers.append("croq_fiber.h")
    if any(isinstance(node, ir.Builtin) for node in nodes):
        headers.append("croq_math.h")
    headers.append("croq_device.h")
    texts: dict[str, str] = {}
    for function in functions:
        first = len(state.checks)
        emitter = HostFunction(state, function)
        try:
            emitter.emit()
        except Unsupported as problem:
            problem.span = problem.span or function.span
            raise
        table = state.checks[first:]
        signature, has_cok = shown[function.name], bool(unit.of_kind("cok"))
        texts[function.name] = function_text(emitter, table, unit.source, signature, has_cok)
    prelude = Writer()
    if state.vectors:
        prelude.line("namespace croq_cell {")
        prelude.lines += vector.typedefs(state.vectors)
        prelude.line("}  // namespace croq_cell")
    places = {function.name: function.span.start for function in functions if function.span is not None}
    text = prelude.text() if prelude.lines else ""
    return HostCode(tuple(headers), text, texts, places, runtime=("croq_runtime.cpp",))


def title(function: ir.Function) -> str:
    """What the program calls a function."""
    return function.public or function.name


def view_type(param: ir.Param) -> str:
    """The C++ type of a parameter that is an array."""
    assert param.dtype is not None
    return f"choreo::spanned_view<{scalar_type(param.dtype)}, {len(param.extents)}>"


def scalar_type(dtype: DType) -> str:
    """The C++ type that hosts know an element type by."""
    return "bool" if dtype.name == "bool" else f"choreo::{dtype.name}"


def _string(text: str) -> str:
    return f'"{cxx_string(text.encode())}"'


def function_text(emitter: HostFunction, checks: Sequence[CheckSite], source: Source, shown: str, has_cok: bool) -> str:
    """Kernels, entry and table of checks of a function, and the function that hosts call."""
    function = emitter.function
    out = Writer()
    out.line("#pragma GCC diagnostic push")
    for warning in ("variable", "but-set-variable", "parameter"):  # the program's own, and what its code comes down to
        out.line(f'#pragma GCC diagnostic ignored "-Wunused-{warning}"')
    out.line("namespace croq_code {")
    out.line("using namespace ::croq_cell;")
    if has_cok:
        out.line("using namespace ::croq_cok;")
    table = _table(out, emitter, checks, source)
    out.lines += emitter.lines
    out.forget_place()
    out.line("}  // namespace croq_code")
    names = Names({title(function), "croq_code", "croq_host", "croq_cell"})
    params, types = [], []
    for param in function.params:
        name = names.fresh(param.name) if param.name else names.fresh("unnamed")
        params.append(name)
        if param.kind == "span":
            types.append(f"const {view_type(param)}& {name}")
        elif param.dtype is not None:
            types.append(f"{scalar_type(param.dtype)} {name}")
        else:
            types.append(f"{emitter.stream_type} {name}")
    _caller(out, emitter, params, types, table, names, shown)
    out.line("#pragma GCC diagnostic pop")
    return out.text()


def _table(out: Writer, emitter: HostFunction, checks: Sequence[CheckSite], source: Source) -> str:
    """The table that failed checks are explained by, and how it is called; numbers count from the first of the file."""
    if not checks:
        return "nullptr"
    check_table(out, emitter.table, checks, source)
    first = f" - {emitter.first_check}" if emitter.first_check else ""
    return f"croq_code::{emitter.table}{first}"


def check_table(out: Writer, name: str, checks: Sequence[CheckSite], source: Source) -> None:
    """The table `name` that failed checks are explained by."""
    with out.block(f"static const ::croq_host::check {name}[] =", "};"):
        for site in checks:
            span = Span(source, site.start, site.end) if site.start >= 0 else None
            place = f"{span.name}:{span.line}:{span.column}" if span is not None else ""
            lines = "\n".join(excerpt(span)) if span is not None else ""
            kind = _KINDS.get(site.kind) or ("i" if site.dims else "a")
            operands = "\n".join(operand.name for operand in site.operands) if kind == "a" else ""
            types = "".join(operand.kind for operand in site.operands) if kind == "a" else ""
            dims = site.dims[:_DIMS]
            texts = (place, lines, site.what, site.code, "\n".join(site.instance), operands, types)
            fields = ", ".join(map(_string, texts))
            out.line(f"{{'{kind}', {fields}, {len(dims)}, {{{', '.join(map(str, dims))}}}}},")


def _caller(
    out: Writer,
    emitter: HostFunction,
    params: Sequence[str],
    types: Sequence[str],
    table: str,
    names: Names,
    shown: str,
) -> None:
    function = emitter.function
    result = function.result
    spans = [(p, name) for p, name in zip(function.params, params, strict=True) if p.kind == "span"]
    if result is None:
        returned = "void"
    elif result.extents is None:
        returned = scalar_type(result.dtype)
    else:
        returned = f"choreo::spanned_data<{scalar_type(result.dtype)}, {len(result.extents)}>"
    name = title(function)
    out.line()
    out.at(function.span)
    with out.block(f"{returned} {name}({', '.join(types)})"):
        out.forget_place()
        out.line("using namespace ::croq_cell;")
        declared = names.fresh("declared")
        if spans or (result is not None and result.extents is not None):  # what is checked names the declaration
            out.line(f"static const char {declared}[] = {_string(shown)};")
        dims = _entry_checks(out, emitter, spans, names, declared)
        words = []
        separate = any(p.written or p.in_out or p.escapes for p, _ in spans) and len(spans) > 1
        inputs = _apart(out, title(function), declared, spans, names) if separate else {}
        for param, text in zip(function.params, params, strict=True):
            if param.kind == "span":
                pointer = f"{inputs[text]}.data" if text in inputs else f"{text}.data()"
                words.append(f"(int64_t){pointer}")
            elif param.dtype is None:
                words.append(f"(int64_t){text}")
            elif is_narrow(param.dtype) or param.dtype.name == "f64":
                words.append(f"croq_host::word((double){text})")
            else:
                words.append(f"croq_host::word({text})")
        words += [dims[dim.name] for dim in function.dims]
        answer = names.fresh("result")
        if result is not None and result.extents is not None:
            extents = [
                f"croq_host::result_extent({_string(name)}, {declared}, {_string(text)}, {value})"
                for text, value in _result_extents(function, dims, params)
            ]
            zeroed = "true" if emitter.entry.zeroed else "false"
            out.line(f"{returned} {answer}(choreo::mdspan<{len(extents)}>{{{', '.join(extents)}}}, {zeroed});")
            words.append(f"(int64_t){answer}.data()")
        elif result is not None:
            out.line(f"{returned} {answer} = {{}};")
            words.append(f"(int64_t)&{answer}")
        else:
            words.append("0")
        array = names.fresh("arguments")
        out.line(f"const int64_t {array}[] = {{{', '.join(words)}}};")
        out.line(f"croq_host::run({_string(name)}, croq_code::{emitter.entry.symbol}, {array}, {table});")
        if result is not None:
            out.line(f"return {answer};")


def _entry_checks(
    out: Writer, emitter: HostFunction, spans: Sequence[tuple[ir.Param, str]], names: Names, declared: str
) -> dict[str, str]:
    """Compares extents with the declaration; gives the C++ names of the symbolic dimensions."""
    function = emitter.function
    dims: dict[str, str] = {}
    first: dict[str, tuple[str, int]] = {}
    for param, text in spans:
        place = f"{{{_string(title(function))}, {declared}, {_string(param.name)}}}"
        out.line(f"croq_host::there({place}, {text});")
        for axis, extent in enumerate(param.extents):
            if isinstance(extent, ir.Const):
                out.line(f"croq_host::expect({place}, {text}, {axis}, {extent.value});")
            elif isinstance(extent, ir.Var) and extent.name not in dims:
                dims[extent.name] = names.fresh(extent.name)
                first[extent.name] = (param.name, axis)
                out.line(f"const {INDEX} {dims[extent.name]} = croq_host::extent({place}, {text}, {axis});")
            elif isinstance(extent, ir.Var):
                other, other_axis = first[extent.name]
                out.line(
                    f"croq_host::expect({place}, {text}, {axis}, {dims[extent.name]}, {_string(extent.name)}, "
                    f"{_string(other)}, {other_axis});"
                )
    return dims


def _apart(
    out: Writer, function: str, declared: str, spans: Sequence[tuple[ir.Param, str]], names: Names
) -> dict[str, str]:
    """Arrays that a function writes to share memory with no other argument; inputs that would are copied."""
    written = [(p, text) for p, text in spans if p.written or p.in_out or p.escapes]
    inputs: dict[str, str] = {}
    for index, (a, text) in enumerate(written):
        for _, other in written[index + 1 :]:
            place = f"{{{_string(function)}, {declared}, {_string(a.name)}}}"
            out.line(f"if (croq_host::overlap({text}, {other})) croq_host::share_memory({place}, {_string(other)});")
    for param, text in spans:
        if any(param is p for p, _ in written):
            continue
        inputs[text] = names.fresh(f"{text}_memory")
        out.line(f"croq_host::input {inputs[text]}({text});")
        for _, other in written:
            out.line(f"{inputs[text]}.apart_from({text}, {other});")
    return inputs


def _result_extents(function: ir.Function, dims: Mapping[str, str], params: Sequence[str]) -> list[tuple[str, str]]:
    """Each extent of the result as the program writes it, and its C++ text."""
    assert function.result is not None
    known = dict(dims)
    known.update((p.var.name, text) for p, text in zip(function.params, params, strict=True) if p.var is not None)
    expressions = Expressions(Names(), lambda b: b.name, lambda v: known[v.name], lambda *parts: parts[4])
    return [(format_expr(e), expressions.index(e)) for e in function.result.extents or ()]
