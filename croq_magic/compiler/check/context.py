"""The state of checking one function: scopes, the nest around the current statement, and the IR built so far."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import NoReturn

from croq_magic.compiler import integers, ir, syntax
from croq_magic.compiler.check.values import (
    ChoiceValue,
    EventValue,
    FragmentValue,
    FutureValue,
    OperationValue,
    Poison,
    Value,
    is_entry,
)
from croq_magic.compiler.diagnostics import Note, Report
from croq_magic.compiler.limits import MAX_EXTENT, Limits
from croq_magic.compiler.source import Span
from croq_magic.compiler.text import format_expr
from croq_magic.compiler.types import BOOL
from croq_magic.compiler.visit import children, walk


class Skip(Exception):
    """The statement is wrong and the message is out; checking goes on with the next one."""


@dataclasses.dataclass
class Symbol:
    name: str
    value: Value
    span: Span
    depth: int = 0  # number of regions around the declaration
    storage: ir.Storage | None = None


@dataclasses.dataclass
class Scope:
    """Names of one block. `kind` is the word for it in messages ("`foreach`"); `hidden` scopes hold names that the
    language gives new values (loop variables) and do not count for redeclaration."""

    kind: str
    span: Span
    symbols: dict[str, Symbol] = dataclasses.field(default_factory=dict)
    hidden: bool = False
    ended: dict[str, tuple[Symbol, Scope]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Nest:
    """One level of `parallel` around the current statement."""

    level: str | None
    indices: tuple[ir.Var, ...]
    extents: tuple[ir.Expr, ...]
    single: bool  # extent is the constant 1
    cooperative: bool = False

    @property
    def plural(self) -> str:
        """What several instances of the level are called."""
        return f"{self.level}s" if self.level in ("block", "thread", "group") else "instances"


@dataclasses.dataclass
class Group:
    """Names that share one buffer with a slot each; `buffer` lives while `scope` does."""

    names: list[str]
    rotates: bool = False
    buffer: ir.Buffer | None = None
    scope: Scope | None = None


@dataclasses.dataclass(frozen=True)
class UnitNames:
    """What the rest of the unit defines: other tileflow functions, and dimension names by function. `printed` collects
    what `print!` says while the unit is compiled; `device_functions` are those written in the language. `symbols`
    collects every name whose scope has ended: what `croqtile -i` shows."""

    functions: frozenset[str] = frozenset()
    dims: dict[str, str] = dataclasses.field(default_factory=dict)
    prefixes: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    printed: list[str] = dataclasses.field(default_factory=list)
    device_functions: dict[str, syntax.Function] = dataclasses.field(default_factory=dict)
    symbols: list[Symbol] = dataclasses.field(default_factory=list)


class Checker:
    """Shared by the modules of this folder; each adds functions that take it as first argument."""

    def __init__(self, function: syntax.Function, report: Report, limits: Limits, unit: UnitNames) -> None:
        self.function = function
        self.symbol = function.name.text  # its name in the IR
        self.report = report
        self.limits = limits
        self.unit = unit
        self.scopes: list[Scope] = []
        self.names: set[str] = set()
        self.body: list[ir.Stmt] = []
        self.checks: list[ir.Assert] = []
        self.nest: list[Nest] = []
        self.guards: list[ir.Expr] = []  # conditions around the current statement, or around a part of its expressions
        self.statement: Span | None = None  # the place of the current statement
        self.statement_guards = 0  # how many of `guards` are around it
        self.steps: dict[str, list[Span]] = {}  # places of `k++` and `--k`, by name
        self.maybe_skipped = 0  # loops around it that may run zero times
        self.loops = 0
        self.masked = 0
        self.applied: dict[ir.Var, str] = {}  # the indices of the `apply` around the statement, with their names
        self.launches = 0
        self.written: set[ir.Buffer] = set()
        self.escaped: set[ir.Buffer] = set()
        self.returns: list[tuple[Value | None, Span]] = []
        self.params: dict[ir.Buffer, syntax.Param] = {}
        self.prefixes = list(unit.prefixes)
        self.namespaces = list(unit.namespaces)
        self.unbounded: set[ir.Expr] = set()  # extents written `??`
        self.result: ir.Var | None = None  # what the device function around the statement returns goes there
        self.inlined: list[str] = []  # device functions in tileflow syntax around the current statement
        self.clipped = False  # elements outside the base buffer are left out where the current view is used
        self.fragments: list[FragmentValue] = []
        self.settled: dict[tuple[int, str], FragmentValue] = {}  # what an earlier check found out about fragments
        self.unsettled: set[tuple[int, str]] = set()  # fragments whose shape was needed before it was known
        self.choices: dict[ir.View, ChoiceValue] = {}  # operands that stand for one of several, until they are used
        self.compressed: dict[ir.Buffer, ir.Buffer] = {}  # buffers of 2:4-sparse values: where their positions are
        self.groups: dict[str, Group] = {}  # names that share a buffer, see `handles`
        self.derivation: tuple[ir.Expr, ...] | None = None  # dimensions that `(k)` refers to

    # ------------------------------------------------------------------------------------------------ messages

    def error(self, code: str, message: str, span: Span, hint: str | None = None, *notes: Note) -> None:
        self.report.error(code, message, span, hint=hint, notes=notes)

    def fail(self, code: str, message: str, span: Span, hint: str | None = None, *notes: Note) -> NoReturn:
        """Reports an error and gives up the current statement."""
        self.error(code, message, span, hint, *notes)
        raise Skip

    def warn(self, code: str, message: str, span: Span, hint: str | None = None, *notes: Note) -> None:
        self.report.warning(code, message, span, hint=hint, notes=notes)

    def unsupported(self, what: str, span: Span, hint: str | None = None) -> NoReturn:
        self.fail("UNS01", f"{what} is not supported by this version yet", span, hint)

    # -------------------------------------------------------------------------------------------------- scopes

    @property
    def in_device(self) -> bool:
        return bool(self.nest)

    @property
    def depth(self) -> int:
        return len(self.nest)

    def require_bounded(self, e: ir.Expr, span: Span) -> None:
        """DYN04: an extent written `??` is no number to compute with."""
        if self.unbounded and any(var in self.unbounded for var in free_variables(e)):
            self.fail(
                "DYN04",
                "the extent is not known even at run time",
                span,
                "name it, or write `?` for an extent of the argument",
            )

    def require_countable(self, extent: ir.Expr, span: Span) -> None:
        """SHP15: an index is an `s32` and must hold every value below its extent."""
        number = integers.value(extent)
        if number is not None and number > MAX_EXTENT:
            self.fail("SHP15", f"an index has at most {MAX_EXTENT} values, found {number}", span)

    def thread_indices(self, scope: ir.Level = ir.Level.BLOCK) -> set[ir.Expr]:
        """Indices of the levels inside a unit, as far as the program tells before levels are mapped."""
        found: set[ir.Expr] = set()
        for position, nest in enumerate(self.nest):
            word = "thread" if nest.level == "term" or (nest.level is None and position > 0) else nest.level
            if word is not None and ir.Level(word).depth > scope.depth:
                found.update(nest.indices)
        return found

    @contextlib.contextmanager
    def scope(self, kind: str, span: Span, hidden: bool = False) -> Iterator[Scope]:
        scope = Scope(kind, span, hidden=hidden)
        self.scopes.append(scope)
        try:
            yield scope
        finally:
            self.scopes.pop()
            self._end(scope)

    def _end(self, scope: Scope) -> None:
        if not scope.hidden:
            self.unit.symbols.extend(scope.symbols.values())
        for group in self.groups.values():
            if group.scope is scope:
                group.buffer = group.scope = None
        for symbol in scope.symbols.values():
            value = symbol.value
            if isinstance(value, EventValue) and value.waited and not value.triggered and not value.event.ready:
                message = f"`{symbol.name}` is waited on but never triggered: deadlock"
                self.error("EVT10", message, value.waited)
            if isinstance(value, OperationValue) and value.waited is None and not scope.hidden:
                hint = f"`wait {symbol.name};` before `{value.accumulator}` is used"
                self.error("DMA07", f"`{symbol.name}` is never waited on", symbol.span, hint)
            only_if = value.only_if if isinstance(value, (FutureValue, OperationValue)) else None
            exchanged = isinstance(value, FutureValue) and value.exchanged
            if only_if is not None and not exchanged and not scope.hidden:
                only = f"`{symbol.name}` is waited on only if `{only_if.text}`"
                self.error("DMA07", only, symbol.span, f"`wait {symbol.name};` on the other way, too")
            checked = isinstance(value, FutureValue) and value.token and not value.exchanged
            if checked and isinstance(value, FutureValue) and value.waited is None and not scope.hidden:
                self.error(
                    "DMA07",
                    f"`{symbol.name}` is never waited on",
                    symbol.span,
                    f"add `wait {symbol.name};` before its data are used",
                )
        if self.scopes and not scope.hidden:
            outer = self.scopes[-1].ended
            outer.update(scope.ended)
            outer.update({name: (symbol, scope) for name, symbol in scope.symbols.items()})
        elif self.scopes:
            self.scopes[-1].ended.update(scope.ended)

    def declare(self, name: syntax.Name, value: Value, storage: ir.Storage | None = None) -> Symbol:
        """Makes `name` visible in the current scope."""
        scope = self.scopes[-1]
        if name.text == "_":
            self.error("NAM06", "`_` cannot be declared; it is only an argument of views", name.span)
            return Symbol("_", value, name.span)
        old = scope.symbols.get(name.text)
        if old is not None:
            if scope.kind == "function" and any(p.name and p.name.text == name.text for p in self.function.params):
                self.error(
                    "NAM04",
                    f"`{name.text}` is a parameter; choose another name or use an inner scope",
                    name.span,
                    None,
                    Note("declared here", old.span),
                )
            elif not isinstance(old.value, Poison):
                self.error(
                    "NAM02",
                    f"`{name.text}` is already declared at line {old.span.line} in this scope",
                    name.span,
                    None,
                    Note("first declared here", old.span),
                )
        symbol = Symbol(name.text, value, name.span, self.depth, storage)
        scope.symbols[name.text] = symbol
        return symbol

    def poison(self, name: syntax.Name | None) -> None:
        """A name whose definition is wrong: later uses stay silent."""
        if name is not None and name.text != "_" and name.text not in self.scopes[-1].symbols:
            self.scopes[-1].symbols[name.text] = Symbol(name.text, Poison(), name.span, self.depth)

    def find(self, name: str) -> Symbol | None:
        for scope in reversed(self.scopes):
            if name in scope.symbols:
                return scope.symbols[name]
        return None

    def scope_of(self, name: str) -> Scope | None:
        """The scope that declares a visible name."""
        return next((scope for scope in reversed(self.scopes) if name in scope.symbols), None)

    def find_here(self, name: str) -> Symbol | None:
        """The symbol if it is declared in the current scope itself (hidden scopes above it do not count)."""
        return self.scopes[-1].symbols.get(name)

    # -------------------------------------------------------------------------------------------------- output

    def emit(self, statement: ir.Stmt) -> None:
        self.body.append(statement)

    @contextlib.contextmanager
    def guarded(self, test: ir.Expr) -> Iterator[None]:
        """What is checked inside is evaluated only if a condition holds, or only if it does not."""
        self.guards.append(test)
        try:
            yield
        finally:
            self.guards.pop()

    @contextlib.contextmanager
    def clipping(self, clipped: bool) -> Iterator[None]:
        """Views evaluated inside may be larger than their parents."""
        before, self.clipped = self.clipped, self.clipped or clipped
        try:
            yield
        finally:
            self.clipped = before

    @contextlib.contextmanager
    def collect(self) -> Iterator[list[ir.Stmt]]:
        """Statements emitted inside go to the list instead of the current body."""
        outer, self.body = self.body, []
        try:
            yield self.body
        finally:
            self.body = outer

    def fresh(self, name: str) -> str:
        """A name that no other variable or buffer of the function has."""
        candidate, count = name, 0
        while candidate in self.names:
            count += 1
            candidate = f"{name}_{count}"
        self.names.add(candidate)
        return candidate

    def require(
        self,
        condition: ir.Expr,
        code: str,
        message: str,
        span: Span,
        *,
        runtime: str | None = None,
        hint: str | None = None,
        warning: bool = False,
        values: tuple[ir.Expr, ...] = (),
    ) -> None:
        """A fact the program must satisfy: proven now (nothing or a diagnostic), else an entry check when it depends on
        parameters only and stands unconditionally, else a check in place. `runtime` is the message for the latter."""
        known = decide(condition)
        if known is True:
            return
        if known is False:
            (self.warn if warning else self.error)(code, message, span, hint)
            return
        values = values or _written(condition)
        check = ir.Assert(condition, runtime or message, code, values, warning=warning, span=span)
        if is_entry(condition) and not self.guards and not self.maybe_skipped:
            self.checks.append(check)
        elif not warning:
            self.emit(check)


def _written(e: ir.Expr) -> tuple[ir.Var, ...]:
    """The variables a reader of an expression sees: those of indices count, those inside views do not."""
    found: dict[ir.Var, None] = {}
    waiting: list[ir.Node] = [e]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ir.Var):
            found[node] = None
        elif not isinstance(node, ir.View):
            waiting += [*children(node)][::-1]
    return tuple(found)


def free_variables(e: ir.Expr) -> tuple[ir.Var, ...]:
    """Variables of an expression; coordinates of views inside it are not among them."""
    found = (node for node in walk(e) if isinstance(node, ir.Var) and node.role is not ir.Role.COORD)
    return tuple(dict.fromkeys(found))


def in_range(e: ir.Expr, extent: ir.Expr | int) -> ir.Expr:
    """The condition `0 <= e < extent`."""
    from croq_magic.compiler import integers

    upper = integers.constant(extent) if isinstance(extent, int) else extent
    return ir.Binary("&&", ir.Binary(">=", e, integers.ZERO, BOOL), ir.Binary("<", e, upper, BOOL), BOOL)


def decide(condition: ir.Expr) -> bool | None:
    """The truth of a condition if constants and intervals settle it."""
    from croq_magic.compiler import integers

    if isinstance(condition, ir.Const):
        return bool(condition.value)
    if isinstance(condition, ir.Unary) and condition.op == "!":
        inner = decide(condition.operand)
        return None if inner is None else not inner
    if not isinstance(condition, ir.Binary):
        return None
    if condition.op in ("&&", "||"):
        left, right = decide(condition.left), decide(condition.right)
        dominant = condition.op == "||"
        if dominant in (left, right):
            return dominant
        return None if None in (left, right) else not dominant
    if not (condition.left.dtype.is_integer and condition.right.dtype.is_integer):
        return None
    low, high = integers.interval(integers.sub(condition.left, condition.right))
    return _sign(condition.op, low, high)


def _sign(op: str, low: int | None, high: int | None) -> bool | None:
    """Truth of `d op 0` for d in [low, high]."""
    negate = {">=": "<", ">": "<=", "!=": "=="}
    if op in negate:
        inner = _sign(negate[op], low, high)
        return None if inner is None else not inner
    if op == "==":
        if low == high == 0:
            return True
        outside = (low is not None and low > 0) or (high is not None and high < 0)
        return False if outside else None
    bound = -1 if op == "<" else 0
    if high is not None and high <= bound:
        return True
    return False if low is not None and low > bound else None


def show(e: ir.Expr) -> str:
    return format_expr(e)
