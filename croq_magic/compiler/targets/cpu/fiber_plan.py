"""What the fibers of a kernel need to know about each other before any of them runs.

Each region of fibers is a `Layer`. From the conditions around a statement (`inthreads` predicates, conditions on the
instance) follows who reaches it: a `Role`. Roles decide how many arrivals complete a generation of an event, who waits
for an event, and whom a meeting expects. The emitter asks for them by the same conditions when it gets there.
"""

from __future__ import annotations

import dataclasses

from croq_magic.compiler import evaluate, integers, ir
from croq_magic.compiler.passes.choose_strategy import differences
from croq_magic.compiler.passes.map_limits import LANES
from croq_magic.compiler.passes.structure import bodies
from croq_magic.compiler.source import Span
from croq_magic.compiler.targets.emit_cxx import Unsupported
from croq_magic.compiler.types import BOOL
from croq_magic.compiler.visit import rewrite, walk

Level = ir.Level
_UNITS = (Level.GROUP, Level.GROUP4)
_OPAQUE = "`inthreads` selects by loaded or changing values"

_MOST_NODES = 500  # of an expression that takes the place of a name


@dataclasses.dataclass(eq=False)
class Layer:
    """A region of fibers, or several that have nothing but each other between them; without any the block itself,
    which one stack runs."""

    regions: tuple[ir.Region, ...] = ()
    parent: Layer | None = None
    varying: set[str] = dataclasses.field(default_factory=set)  # scalars that may differ between its fibers
    private: set[ir.Buffer] = dataclasses.field(default_factory=set)  # and storage of a fiber whose contents may

    @property
    def chain(self) -> tuple[ir.Region, ...]:
        """Regions of fibers from the block down to this one."""
        return () if self.parent is None else (*self.parent.chain, *self.regions)

    @property
    def is_block(self) -> bool:
        return self.parent is None

    @property
    def fibers(self) -> ir.Fibers:
        """Reason, and what one fiber stands for; the block stands for all its threads."""
        found = self.regions[-1].fibers if self.regions else None
        return found or ir.Fibers("", (1 << 31) - 1)

    @property
    def place(self) -> tuple[object, ...]:
        """What two regions have in common whose fibers are the same threads of the block."""
        return tuple((region.level, region.extents) for region in self.chain)

    @property
    def root(self) -> Layer:
        """The layer that the block itself starts."""
        return self if self.parent is None or self.parent.is_block else self.parent.root

    @property
    def count(self) -> ir.Expr:
        """Fibers of the layer in a block."""
        return integers.product(extent for region in self.chain for extent in region.extents)


@dataclasses.dataclass(frozen=True)
class Role:
    """The fibers of a layer that satisfy all conditions, counted per unit of `per_unit` neighbours (a block's or a
    group's fibers). `spread`: events of so many blocks, the cluster's, belong to one unit."""

    layer: Layer
    conditions: tuple[ir.Expr, ...]
    per_unit: ir.Expr
    spread: ir.Expr = integers.ONE


@dataclasses.dataclass(frozen=True)
class Where:
    """The conditions around a statement that choose fibers: those of `inthreads`, and all. What cannot be told before
    the fibers run is left out; then `guessed` is set, or `opaque` where it is a predicate of `inthreads`."""

    layer: Layer
    masks: tuple[ir.Expr, ...] = ()
    conditions: tuple[ir.Expr, ...] = ()
    guessed: bool = False
    opaque: bool = False


@dataclasses.dataclass(eq=False)
class EventPlan:
    """An event, where it is declared, the roles that trigger it, and per layer the roles that wait for it."""

    event: ir.Event
    home: Layer
    triggers: list[Role] = dataclasses.field(default_factory=list)
    waits: dict[Layer, list[Role]] = dataclasses.field(default_factory=dict)

    @property
    def places(self) -> list[Layer]:
        """One layer for each place where fibers wait: a thread counts generations from region to region."""
        return list({layer.place: layer for layer in reversed(self.waits)}.values())[::-1]

    @property
    def each(self) -> int:
        """Slots of one event."""
        total = 1
        for extent in self.event.slots:
            total *= extent
        return total


class FiberPlan:
    """The plan of one kernel. `needed` says whether it has fibers or events at all."""

    def __init__(self, body: ir.Body) -> None:
        self.block = Layer()
        self.layers: dict[int, Layer] = {}  # by id of the region
        self.events: dict[ir.Event, EventPlan] = {}
        self.meetings: dict[Role, None] = {}
        self.values: dict[str, ir.Expr] = {}  # immutable scalars as expressions of what is known before fibers run
        self.of_block: dict[str, ir.Expr] = {}  # the same for those that stand in the block itself
        self.inside: set[str] = set()  # scalars that get their values inside fibers
        self.in_block: set[str] = set()  # and in the block, by something that is not known at its start
        self.blocks: ir.Expr = integers.ONE  # that the stack of the kernel starts at once
        self.named_barriers = any(isinstance(n, ir.NamedBarrier) for n in walk(body))
        self.yields: list[tuple[Layer, Span | None]] = []
        self._visit(body, Where(self.block))
        for layer, span in self.yields:
            # The region may be started again, and then all its instances are expected again.
            if any(role.layer is layer for role in self.meetings):
                what = "`yield` in threads that meet, inside groups of fibers,"
                raise Unsupported(f"{what} is not supported by the CPU target yet", span)
        self.needed = bool(self.layers or self.events)

    # ---------------------------------------------------------------------------------------------------- questions

    def layer(self, region: ir.Region) -> Layer:
        return self.layers[id(region)]

    def narrowed(self, where: Where, condition: ir.Expr, mask: bool) -> Where:
        """What holds inside a condition."""
        if isinstance(condition, ir.Binary) and condition.op == "&&":
            return self.narrowed(self.narrowed(where, condition.left, mask), condition.right, mask)
        written = self.written(condition)
        nodes = list(walk(written))
        names = {n.name for n in nodes if isinstance(n, ir.Var)}
        private = {n.buffer for n in nodes if isinstance(n, ir.View)}
        if not names & where.layer.varying and not private & where.layer.private:
            return where  # the same for all fibers
        if names & self.inside or any(isinstance(n, ir.Load) for n in nodes):
            return dataclasses.replace(where, opaque=True) if mask else dataclasses.replace(where, guessed=True)
        masks = (*where.masks, written) if mask else where.masks
        return dataclasses.replace(where, masks=masks, conditions=(*where.conditions, written))

    def written(self, e: ir.Expr) -> ir.Expr:
        """An expression with immutable scalars replaced by what they stand for."""
        return rewrite(e, lambda n: self.values.get(n.name) if isinstance(n, ir.Var) else None)

    def at_start(self, e: ir.Expr) -> ir.Expr | None:
        """An expression of what is known at the start of a block; None if it depends on anything else."""
        known = {**self.of_block, **self.values}
        written = rewrite(e, lambda n: known.get(n.name) if isinstance(n, ir.Var) else None)
        return self._unless(written, self.inside | self.in_block)

    @staticmethod
    def _unless(e: ir.Expr, names: set[str]) -> ir.Expr | None:
        """The expression, or None if it loads something, depends on one of the names, or is huge."""
        if integers.size(e) > _MOST_NODES:
            return None
        unknown = any(isinstance(n, ir.Load) or (isinstance(n, ir.Var) and n.name in names) for n in walk(e))
        return None if unknown else e

    def waits(self, where: Where) -> Role | None:
        """Who surely passes a wait; None if that cannot be told before the fibers run."""
        return None if where.guessed or where.opaque else Role(where.layer, where.conditions, where.layer.count)

    def meeting(self, where: Where, s: ir.Barrier | ir.Once) -> Role:
        """Whom a meeting expects: those that reach it, at a barrier of the program those that `inthreads` selects."""
        if where.opaque:
            raise Unsupported(f"a meeting of instances that {_OPAQUE} is not supported by the CPU target yet", s.span)
        written = isinstance(s, ir.Barrier) and not s.reason
        conditions = where.masks if written else where.conditions
        return Role(where.layer, conditions, self.per_unit(where.layer, s.scope))

    def per_unit(self, layer: Layer, scope: Level) -> ir.Expr:
        """Fibers of a layer in one unit of level `scope`."""
        if scope not in _UNITS and all(region.level is not scope for region in layer.chain):
            return layer.count  # the block that one stack runs, or all blocks whose fibers it started
        if any(region.level is scope for region in layer.chain):
            finer = [r for r in layer.chain if r.level is not None and r.level.depth > scope.depth]
            return integers.product(extent for region in finer for extent in region.extents)
        lanes = LANES[scope] // layer.fibers.threads  # units that the program did not write: runs of threads
        count = integers.value(layer.count)
        return integers.constant(max(1, lanes if count is None else min(lanes, count)))

    def event(self, event: ir.Event) -> EventPlan:
        return self.events[event]

    def event_unit(self, plan: EventPlan, layer: Layer) -> ir.Expr:
        """Fibers of a layer that share one event: a `global` event belongs to the launch, a `shared` one to a block, a
        `local` one to a group."""
        if plan.event.storage is ir.Storage.SHARED:
            return self.per_unit(layer, Level.BLOCK)
        if plan.event.storage is not ir.Storage.LOCAL or plan.home.is_block:
            return layer.count
        levels = {region.level for region in plan.home.chain}
        whole = Level.GROUP4 in levels and Level.GROUP not in levels
        return self.per_unit(layer, Level.GROUP4 if whole else Level.GROUP)

    def units(self, plan: EventPlan) -> ir.Expr:
        """How many of an event there are in a block."""
        return integers.ceildiv(plan.home.count, self.event_unit(plan, plan.home))

    # ---------------------------------------------------------------------------------------------------- the walk

    def _visit(self, body: ir.Body, where: Where) -> None:
        for s in body:
            self._define(s, where)
            if isinstance(s, ir.Masked):
                self._visit(s.body, self.narrowed(where, s.predicate, True))
            elif isinstance(s, ir.If):
                self._visit(s.then, self.narrowed(where, s.condition, False))
                self._visit(s.other, self.narrowed(where, negated(s.condition), False))
            elif isinstance(s, ir.Region) and s.fibers is not None:
                layer = self.layers[id(s)] = self._layer(s, where.layer)
                if any(region.level is Level.BLOCK for region in layer.regions):
                    self.blocks = integers.product(
                        e
                        for r in layer.chain
                        if r.level is not None and r.level.depth <= Level.BLOCK.depth
                        for e in r.extents
                    )
                self._visit(layer.regions[-1].body, Where(layer))
            else:
                self._note(s, where)
                for inner in bodies(s):
                    self._visit(inner, where)

    @staticmethod
    def _layer(region: ir.Region, parent: Layer) -> Layer:
        regions = [region]
        while len(body := regions[-1].body) == 1 and isinstance(body[0], ir.Region) and body[0].fibers is not None:
            regions.append(body[0])
        layer = Layer(tuple(regions), parent, set(parent.varying), set(parent.private))
        for one in regions:
            varying, private = differences(one)
            layer.varying |= varying
            layer.private |= private
        return layer

    def _define(self, s: ir.Stmt, where: Where) -> None:
        names: list[str] = []
        if isinstance(s, ir.Let):
            value = s.value if s.var.role is ir.Role.LET else None
            if value is not None and where.layer.is_block:
                value, known = self.at_start(value), self.of_block
            elif value is not None:
                value, known = self._unless(self.written(value), self.inside), self.values
            if value is not None:
                known[s.var.name] = value if value.dtype is s.var.dtype else ir.Cast(value, s.var.dtype)
                return
            names = [s.var.name]
        elif isinstance(s, (ir.For, ir.Assign)):
            names = [s.var.name]
        elif isinstance(s, (ir.Atomic, ir.Call)) and s.result is not None:
            names = [s.result.name]
        elif isinstance(s, ir.Region) and s.fibers is None:
            names = [var.name for var in s.indices]
        changing = self.in_block if where.layer.is_block else self.inside
        changing |= set(names)

    def _note(self, s: ir.Stmt, where: Where) -> None:
        if isinstance(s, ir.DeclareEvent):
            self.events.setdefault(s.event, EventPlan(s.event, where.layer))
        elif isinstance(s, ir.Trigger):
            self._trigger(s, where)
        elif isinstance(s, ir.WaitEvent):
            plan = self.event(s.event)
            roles = plan.waits.setdefault(where.layer, [])
            role = self.waits(where)
            if role is not None and role not in roles and not s.spin:
                roles.append(role)
        elif isinstance(s, (ir.Barrier, ir.Once)) and not where.layer.is_block:
            self.meetings.setdefault(self.meeting(where, s))
        elif isinstance(s, ir.Yield) and where.layer.root is not where.layer:
            self.yields.append((where.layer, s.span))

    def _trigger(self, s: ir.Trigger, where: Where) -> None:
        plan = self.event(s.event)
        role = self.trigger_role(plan, where, s)
        if role not in plan.triggers:
            plan.triggers.append(role)

    def cluster_blocks(self, layer: Layer) -> ir.Expr:
        """How many blocks the fibers of a cluster belong to."""
        return integers.floordiv(self.per_unit(layer, Level.CLUSTER), self.per_unit(layer, Level.BLOCK))

    @staticmethod
    def _by_block(layer: Layer, s: ir.Trigger) -> bool:
        """Whether blocks arrive at slots of their own, so that a slot has fewer arrivals than the launch."""
        blocks = [
            region for region in layer.chain if region.level is not None and region.level.depth <= Level.BLOCK.depth
        ]
        places = [place for region in blocks for place in zip(region.indices, region.extents, strict=True)]
        chosen = {var.name for var, extent in places if integers.value(extent) != 1}
        order = () if s.order is None else (s.order,)
        return bool(chosen & set(evaluate.free_variables((*s.slot, *order))))

    def trigger_role(self, plan: EventPlan, where: Where, s: ir.Trigger) -> Role:
        """Whose arrivals complete a generation. With `event<n>` anybody's."""
        if plan.event.parties:
            return Role(self.block, (), integers.ONE)
        if where.opaque:
            name = plan.event.name
            raise Unsupported(f"`{name}` is triggered by instances that {_OPAQUE}: write `event<n> {name}`", s.span)
        if plan.event.storage is ir.Storage.GLOBAL and self._by_block(where.layer, s):
            name = plan.event.name
            raise Unsupported(
                f"each block triggers slots of `{name}` that it chooses itself: write `event<n> {name}`", s.span
            )
        if s.cluster:
            per_unit = self.per_unit(where.layer, Level.CLUSTER)
            return Role(where.layer, where.conditions, per_unit, self.cluster_blocks(where.layer))
        return Role(where.layer, where.conditions, self.event_unit(plan, where.layer))


def negated(e: ir.Expr) -> ir.Expr:
    return ir.Unary("!", e, BOOL)
