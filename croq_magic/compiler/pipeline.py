"""The stages of the compiler, in order. Each takes what the one before it gives.

    text -> split -> preprocess -> parse -> check -> passes -> (a target:) passes -> emit -> build -> launch
            Unit     tokens        syntax   tile IR  tile IR              tile IR    source  module   arrays

`compile` goes all the way to functions that can be launched; `check` stops where nothing has been built yet.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from croq_magic.compiler import (
    describe,
    host_text,
    limits,
    namespaces,
    nesting,
    overloads,
    recursion,
    store,
    syntax,
    syntax_text,
)
from croq_magic.compiler.check import UnitNames, check_function
from croq_magic.compiler.check.context import Symbol
from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.ir import Function
from croq_magic.compiler.limits import Limits
from croq_magic.compiler.parse import parse
from croq_magic.compiler.passes.base import Context, Pass, run_passes
from croq_magic.compiler.passes.check_gpu import CheckGpu
from croq_magic.compiler.passes.check_parties import CheckParties
from croq_magic.compiler.passes.check_reads import CheckReads
from croq_magic.compiler.passes.check_storage import CheckStorage
from croq_magic.compiler.passes.drop_checks import DropChecks
from croq_magic.compiler.passes.drop_zeroing import DropZeroing
from croq_magic.compiler.passes.insert_joins import InsertJoins
from croq_magic.compiler.passes.map_levels import MapLevels
from croq_magic.compiler.passes.own_fragments import OwnFragments
from croq_magic.compiler.passes.promote_accumulators import PromoteAccumulators
from croq_magic.compiler.passes.prove_bounds import ProveBounds
from croq_magic.compiler.passes.prove_races import ProveRaces
from croq_magic.compiler.passes.settle_conditions import SettleConditions
from croq_magic.compiler.preprocess import preprocess
from croq_magic.compiler.signature import Signature
from croq_magic.compiler.source import Source
from croq_magic.compiler.split import Unit, split
from croq_magic.compiler.targets import base as targets
from croq_magic.compiler.text import format_function
from croq_magic.compiler.whole.main import find_main
from croq_magic.errors import CheckError, CompileError

MAX_VARIANTS = 8  # shapes a function is built for before the version for all shapes takes over
CHECK_LEVELS = ("auto", "none", "entry", "low", "medium", "high", "all")


@dataclasses.dataclass(frozen=True)
class FrontEnd:
    """What the stages up to `check` give: the regions of the text and the functions' IR with all proofs done."""

    unit: Unit
    trees: tuple[syntax.Function, ...]
    functions: dict[str, Function]
    report: Report
    printed: str = ""  # what `print!` said
    symbols: tuple[Symbol, ...] = ()  # every name with its value, in the order in which scopes end


def mapping_passes(checks: str) -> list[Pass]:
    """Passes after which the IR says where everything runs and what is proven. Diagrams are drawn from this form."""
    passes: list[Pass] = [
        MapLevels(),
        OwnFragments(),
        CheckGpu(),
        CheckStorage(),
        CheckParties(),
        CheckReads(),
        InsertJoins(),
        ProveBounds(),
        ProveRaces(),
    ]
    if checks in ("none", "entry"):
        passes.append(DropChecks(level=checks))
    return passes


def optimising_passes() -> list[Pass]:
    """Passes that every target wants; a target adds its own."""
    return [SettleConditions(), PromoteAccumulators(), DropZeroing()]


def front_end(
    source: Source,
    target: Limits,
    defines: Mapping[str, str],
    checks: str = "auto",
    include: Sequence[str] = (),
    cell: bool = True,
) -> FrontEnd:
    """All stages that need no target but its limits. Findings are in the report; nothing is raised.

    `include` are folders of quoted includes. In a `cell` without `main` host text is passed over, and what looks as
    if it was meant to do something is warned about; in a whole program the C++ compiler reads it.
    """
    report = Report()
    unit = split(source, report)
    if cell and find_main(unit) is None:
        host_text.check(unit, report)
    preprocessed = preprocess(unit, defines, report, target, include, cell)
    unit = dataclasses.replace(unit, includes=preprocessed.includes)
    macros_failed = report.has_errors
    parsed = [tree for tree in (parse(function, report) for function in preprocessed.functions) if tree is not None]
    trees = [tree for tree in parsed if not tree.is_device]
    names = _names(trees, preprocessed.prefixes, preprocessed.namespaces)
    names.device_functions.update({tree.name.text: tree for tree in parsed if tree.is_device})
    functions: dict[str, Function] = {}
    # A macro that is wrong leaves names behind that nobody wrote.
    named = (
        ()
        if macros_failed
        else overloads.symbols(trees, report, lambda tree: namespaces.of_function(unit, tree.name.span.start))
    )
    for symbol, tree in named:
        if not nesting.check(tree, report):
            continue
        try:
            with recursion.deep():
                function = check_function(tree, report, target, names, symbol)
                if function is not None:
                    functions[symbol] = run_passes(function, mapping_passes(checks), Context(report, target))
        except RecursionError:
            report.error(
                "SYN19",
                f"`{tree.name.text}` is nested too deeply to be compiled",
                tree.name.span,
                hint="name intermediate results",
            )
    return FrontEnd(unit, tuple(trees), functions, report, "".join(names.printed), tuple(names.symbols))


def _names(trees: Sequence[syntax.Function], prefixes: Sequence[str], namespaces: Sequence[str]) -> UnitNames:
    dims: dict[str, str] = {}
    for tree in trees:
        for param in tree.params:
            for dim in param.type.shape.dims if param.type.shape else ():
                if dim.symbol:
                    dims.setdefault(dim.symbol, tree.name.text)
    return UnitNames(frozenset(tree.name.text for tree in trees), dims, tuple(prefixes), tuple(namespaces))


def check(
    source: Source, target: str = "auto", arch: str | None = None, defines: Mapping[str, str] | None = None
) -> Report:
    """Everything that can be said about a program without building it. A GPU is judged by its limits alone, so this
    works where its target does not."""
    found = limits.of(target, arch) or targets.choose(target, arch).limits
    front = front_end(source, found, defines or {})
    if found.gpu and not front.report.has_errors:
        chosen = targets.choose("cuda", found.name)  # which the emulator stands for
        unit = CompiledUnit(front, chosen, "auto", store.Request(source, target, arch, (), "auto"))
        try:
            _advise(chosen, unit)
            chosen.emit(front.unit, [function.lowered for function in unit.functions.values()])
        except CompileError as error:
            front.report.extend(error.diagnostics)
    return front.report


def _advise(chosen: targets.Target, unit: CompiledUnit) -> None:
    """Adds what a target has to say about the speed of a unit's functions."""
    advice = getattr(chosen, "advice", None)
    if advice is not None:
        unit.report.extend(advice([function.lowered for function in unit.functions.values()]))


def compile(
    source: Source,
    target: str = "auto",
    arch: str | None = None,
    defines: Mapping[str, str] | None = None,
    checks: str = "auto",
) -> CompiledUnit:
    """A program ready to launch. Raises `CompileError` with all findings, `TargetError` if the target is not usable."""
    if checks not in CHECK_LEVELS:
        raise ValueError(f"checks must be one of {', '.join(CHECK_LEVELS)}, not {checks!r}")
    chosen = targets.choose(target, arch)
    request = store.Request(source, target, arch, tuple(sorted((defines or {}).items())), checks)
    if checks == "auto":
        checks = getattr(chosen, "checks", checks)  # what a target means by it
    front = front_end(source, chosen.limits, defines or {}, checks)
    front.report.raise_errors()
    unit = CompiledUnit(front, chosen, checks, request)
    if find_main(front.unit) is not None:
        store.remember(request, unit)
        return unit  # the C++ compiler reads all of it when it is built; a function alone, when it is called
    for function in unit.functions.values():
        if not function.function.dims:
            function.variant({})  # a target compiler's complaint belongs to the cell that defines the function
    _advise(chosen, unit)
    store.remember(request, unit)
    return unit


class CompiledUnit:
    """All functions of one text, for one target."""

    def __init__(self, front: FrontEnd, target: targets.Target, checks: str, request: store.Request) -> None:
        self.request = request
        self.report = front.report
        self.printed = front.printed
        self.regions = front.unit
        self.trees = front.trees
        self.chosen = target
        self.target = target.name
        self.checks = checks
        self.functions = {name: CompiledFunction(function, self) for name, function in front.functions.items()}

    @property
    def warnings(self) -> list[str]:
        """What the report holds, as text."""
        return list(map(str, self.report))

    def syntax(self) -> str:
        """The syntax trees of all functions, as text."""
        return "\n\n".join(map(syntax_text.dump, self.trees))

    def source(self) -> str:
        """The target source of all functions, for all shapes."""
        emission: targets.Emission = self.chosen.emit(self.regions, [f.lowered for f in self.functions.values()])
        return emission.text


class CompiledFunction:
    """One tileflow function; `name` is the one of the IR. It is built once for each tuple of extents, and after
    `MAX_VARIANTS` of them for all."""

    def __init__(self, function: Function, unit: CompiledUnit) -> None:
        self.name = function.name
        self.function = function
        self.unit = unit
        self._variants: dict[tuple[int, ...] | None, targets.Module] = {}
        self._lock = threading.Lock()
        self._lowered: Function | None = None

    @cached_property
    def signature(self) -> Signature:
        """The function as its callers see it."""
        return describe.signature(self.function)

    @property
    def lowered(self) -> Function:
        """The IR for all shapes that the target source is generated from."""
        if self._lowered is None:
            self._lowered = self._lower(self.function)
        return self._lowered

    def _lower(self, function: Function) -> Function:
        context = Context(self.unit.report, self.unit.chosen.limits)
        lowered = run_passes(function, [*optimising_passes(), *self.unit.chosen.passes()], context)
        context.report.raise_errors()
        return lowered

    def ir(self, stage: str = "tile") -> str:
        """The tile IR as text: "tile" after the passes that all targets share, "target" after the target's own."""
        if stage == "target":
            return format_function(self.lowered)
        context = Context(Report(), self.unit.chosen.limits)
        return format_function(run_passes(self.function, optimising_passes(), context))

    def source(self) -> str:
        """The target source of this function, for all shapes."""
        emission: targets.Emission = self.unit.chosen.emit(self.unit.regions, [self.lowered])
        return emission.text

    def variant(self, dims: Mapping[str, int]) -> targets.Module:
        """The built function for these extents."""
        key: tuple[int, ...] | None = tuple(dims[var.name] for var in self.function.dims)
        module = self._variants.get(key)
        if module is not None:
            return module
        if len(self._variants) >= MAX_VARIANTS:
            key = None
            if key in self._variants:
                return self._variants[key]
        with self._lock:
            module = self._variants.get(key)
            if module is None:
                module = self._build(dims if key is not None else None)
                self._variants[key] = module
                if key is not None:
                    store.remember_build(self.unit.request, self.name, key, self.unit.chosen, module)
        return module

    def _build(self, dims: Mapping[str, int] | None) -> targets.Module:
        with recursion.deep():
            function = self.function if not dims else self._specialised(dims)
            lowered = self.lowered if function is self.function else self._lower(function)
            source = self.unit.chosen.emit(self.unit.regions, [lowered])
        return self.unit.chosen.build(source, lowered)

    def _specialised(self, dims: Mapping[str, int]) -> Function:
        """The function with its extents known; what that disproves is reported before anything runs."""
        from croq_magic.compiler.passes.specialise import Specialise

        report = Report()
        context = Context(report, self.unit.chosen.limits)
        passes: list[Pass] = [Specialise(tuple(sorted(dims.items()))), ProveBounds(entry_checks=False)]
        if self.unit.checks in ("none", "entry"):
            passes.append(DropChecks(level=self.unit.checks))
        function = run_passes(self.function, passes, context)
        if report.has_errors:
            shapes = ", ".join(f"{name} = {value}" for name, value in dims.items())
            raise CheckError(f"{self.name}: with {shapes}\n{report.text()}")
        return function

    def launch(self, values: Sequence[Any], dims: Mapping[str, int], result: Any) -> Any:
        """Runs the function: `values` has one contiguous array, number or stream handle per parameter, `result` is the
        array for a returned span (zeros) or None. Gives a returned scalar."""
        return self.variant(dims).launch(values, dims, result)
