"""Splits inner regions at joins, so that every region is a plain loop over its instances.

A region whose instances meet (at a barrier, a collective copy, an `inthreads` with joins) cannot run its instances one
after the other. Its body is cut into segments; each becomes a region of its own, and the statement that joins stands
between them. Loops and conditions around a join are uniform by the rules of the language (execution model, section 3),
so they move outside and are evaluated for the first instance. What one segment computes and a later one reads is kept
per instance: scalars and local storage in `REGISTER` buffers with the region's extents in front, unless a scalar can be
computed again from indices alone. An instance that yields takes no part in later segments.

A region whose instances have stacks of their own (`choose-strategy`) stays, and regions inside it are cut down to its
level: barriers that join several of its instances stay as well.

A barrier of the whole grid splits the region of blocks in the same way; the blocks then run in turn on one thread.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import ClassVar

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.joins import coarsest, elected, has_events, leaves_loop, must_split, scope_of
from croq_magic.compiler.passes.structure import bodies, map_kernels, nested, with_bodies
from croq_magic.compiler.passes.uniform_scalars import uniform_scalars
from croq_magic.compiler.types import BOOL, S32
from croq_magic.compiler.visit import rewrite, substitute, walk

Level = ir.Level
Chain = tuple[ir.Region, ...]
_ABOVE = (Level.DEVICE, Level.CLUSTER, Level.BLOCK)
_ON_INDICES = (ir.Role.DIM, ir.Role.PARAM, ir.Role.REGION, ir.Role.LOOP)


@dataclasses.dataclass(frozen=True)
class SplitRegions:
    """After it no join is left inside a region finer than the join's scope."""

    name: ClassVar[str] = "split-regions"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        taken = {node.name for node in walk(function.body) if isinstance(node, (ir.Var, ir.Buffer))}
        return map_kernels(function, lambda region: _kernel(region, taken))


def _kernel(root: ir.Region, taken: set[str]) -> ir.Region:
    if any(isinstance(n, ir.Region) and n.fibers and n.level in _ABOVE for n in walk(root.body)):
        return dataclasses.replace(root, body=_inside(root.body, taken))  # blocks that meet as fibers
    if root.level is Level.DEVICE:
        inner = root.body[0] if len(root.body) == 1 else None
        if isinstance(inner, ir.Region) and inner.attributes.cooperative:
            return dataclasses.replace(root, body=(_kernel(inner, taken),))
    cooperative = root.attributes.cooperative
    scopes = [scope_of(s, cooperative) for s in root.body]
    if any(scope is not None and scope < Level.BLOCK.depth for scope in scopes):
        body = _Split(taken, cooperative).region(root)
        return ir.Region(Level.DEVICE, (), (), body, root.attributes, True, root.span)
    body = _inside(root.body, taken)
    return root if body is root.body else dataclasses.replace(root, body=body)


def split_grid(root: ir.Region, taken: set[str]) -> ir.Region | None:
    """The kernel `root` as phases of blocks between the barriers of its grid, which are all that is cut; None if it has
    no such barrier. `taken` are names that may not be given again."""
    if root.level is Level.DEVICE and len(root.body) == 1 and isinstance(root.body[0], ir.Region):
        root = root.body[0]
    scopes = [scope_of(s, root.attributes.cooperative) for s in root.body]
    if root.level is not Level.BLOCK or all(scope is None or scope >= Level.BLOCK.depth for scope in scopes):
        return None
    body = _Split(taken, root.attributes.cooperative).region(root)
    return ir.Region(Level.DEVICE, (), (), body, root.attributes, True, root.span)


def _inside(body: ir.Body, taken: set[str], fiber: Level | None = None) -> ir.Body:
    """`body` with the regions in it split where they must be. `fiber` is the level of the fibers that run it."""
    out: list[ir.Stmt] = []
    changed = False
    for s in body:
        new: ir.Body
        own = s.level if isinstance(s, ir.Region) and s.fibers is not None else fiber
        if isinstance(s, ir.Region) and s.fibers is None and s.level is not None and must_split(s):
            new = _inside(_Split(taken, fiber=fiber).region(s), taken, fiber)
        else:
            new = (with_bodies(s, lambda inner, own=own: _inside(inner, taken, own)),)  # type: ignore[misc]
        changed = changed or len(new) != 1 or new[0] is not s
        out += new
    return tuple(out) if changed else body


class _Chain:
    """A chain of regions as an opaque value: the visitors must not enter it."""

    def __init__(self, regions: Chain) -> None:
        self.regions = regions
        self.indices = tuple(var for region in regions for var in region.indices)
        self.extents = tuple(extent for region in regions for extent in region.extents)


@dataclasses.dataclass(frozen=True)
class _Segment(ir.Stmt):
    """Statements that run once per instance of `open` (and of `whole`, with the regions that stand around it)."""

    open: _Chain
    whole: _Chain
    body: ir.Body
    span: None = None


@dataclasses.dataclass(frozen=True)
class _Lifted(ir.Stmt):
    """A statement outside the regions of `cut`; it is evaluated for their first instance, or for the one that `leader`
    gives for their indices."""

    cut: _Chain
    inner: ir.Stmt
    inside: tuple[ir.Body, ...]
    leader: tuple[ir.Expr, ...] = ()
    span: None = None


class _Split:
    def __init__(self, taken: set[str], cooperative: bool = False, fiber: Level | None = None) -> None:
        self.taken = taken
        self.cooperative = cooperative
        self.fiber = fiber
        self.home: dict[str, _Chain] = {}  # scalar -> regions it is private to
        self.kept: dict[str, ir.View] = {}  # scalar -> the buffer that keeps it per instance
        self.again: dict[str, ir.Let] = {}  # scalar -> how to compute it again
        self.moved: dict[ir.Buffer, tuple[ir.Buffer, _Chain]] = {}
        self.active: tuple[ir.View, _Chain] | None = None
        self.alone: dict[str, int] = {}  # scalar -> in how many statements that may stand outside the region it is set
        self.uniform: set[str] = set()  # scalars of which one copy is enough

    def region(self, region: ir.Region) -> ir.Body:
        """The statements that a region becomes."""
        tree = self.expand(region.body, (), (region,), False)
        self.uniform = self.shared_scalars(region, tree)
        if self.uniform:
            tree = self.expand(region.body, (), (region,), False)
        declarations = self.keep(tree)
        return (*declarations, *self.finish(tree))

    # ------------------------------------------------------------------------------------------------- cutting

    def expand(self, body: ir.Body, around: Chain, chain: Chain, lifted: bool) -> ir.Body:
        """`body` of the innermost region of `chain`, as segments and what stands between them. The regions of `around`
        stay around it; `lifted` says that the loop around it has moved outside the chain."""
        out: list[ir.Stmt] = []
        run: list[ir.Stmt] = []

        def flush() -> None:
            if run:
                out.append(_Segment(_Chain(chain), _Chain((*around, *chain)), tuple(run)))
                run.clear()

        for s in body:
            if isinstance(s, (ir.Let, ir.Assign)) and not around and len(chain) == 1:
                self.alone[s.var.name] = self.alone.get(s.var.name, 0) + 1
                if s.var.name in self.uniform:
                    flush()
                    out.append(_Lifted(_Chain(chain), s, ()))
                    continue
            scope = scope_of(s, self.cooperative)
            if scope is None and lifted and leaves_loop(s):
                scope = min((r.level.depth - 1 for r in chain if r.level), default=0)
            cut = tuple(r for r in chain if scope is not None and r.level is not None and r.level.depth > scope)
            if not cut:
                run.append(s)
                continue
            flush()
            staying = chain[: len(chain) - len(cut)]
            out += _around(staying, self.statement(s, (*around, *staying), cut))
        flush()
        return tuple(out)

    def shared_scalars(self, region: ir.Region, tree: ir.Body) -> set[str]:
        """Scalars that cross segments and are the same for all instances, whose every change may stand outside."""
        places: dict[str, set[int]] = {}
        sets: dict[str, int] = {}
        for number, segment in enumerate(s for s in _parts(tree) if isinstance(s, _Segment)):
            for node in walk(segment.body):
                if isinstance(node, ir.Var) and node.name in self.alone:
                    places.setdefault(node.name, set()).add(number)
        for s in nested(region.body):
            if isinstance(s, (ir.Let, ir.Assign)):
                sets[s.var.name] = sets.get(s.var.name, 0) + 1
        mutable = {s.var.name for s in nested(region.body) if isinstance(s, ir.Let) and s.var.role is ir.Role.MUTABLE}
        names = [n for n in mutable if len(places.get(n, ())) > 1 and sets[n] == self.alone.get(n)]
        return uniform_scalars(region, names) if names else set()

    def statement(self, s: ir.Stmt, around: Chain, cut: Chain) -> ir.Body:
        """A statement that joins the instances of `cut`, outside these regions."""
        if isinstance(s, ir.Barrier) and self.fiber is not None and s.scope.depth < self.fiber.depth:
            return (s,)
        if isinstance(s, (ir.Barrier, ir.Wait)):
            return ()
        if isinstance(s, ir.Region):
            return self.expand(s.body, around, (*cut, s), False)
        if isinstance(s, ir.Masked):
            level = coarsest(s.body, self.cooperative)
            deep = tuple(r for r in cut if level is not None and r.level is not None and r.level.depth > level)
            if not deep:
                taken = ir.If(s.predicate, s.body, span=s.span)
                segment = _Segment(_Chain(cut), _Chain((*around, *cut)), (taken,))
                return self.joined(s, segment)
            staying = cut[: len(cut) - len(deep)]
            leader = elected(s, deep)
            if leader is not None:
                body = _for_selected(self.expand(s.body, (*around, *staying), deep, False), s.predicate, leader)
                return _around(staying, self.joined(s, *body))
            part = self.role if self.fiber is not None or has_events(s) else self.masked
            return _around(staying, part(s, (*around, *staying), deep))
        lifted = isinstance(s, (ir.For, ir.While)) or not isinstance(s, ir.Region)
        inside = tuple(self.expand(body, around, cut, lifted) for body in bodies(s))
        return (_Lifted(_Chain(cut), with_bodies(s, lambda body: ()), inside),)

    def role(self, s: ir.Masked, around: Chain, cut: Chain) -> ir.Body:
        """An `inthreads` that selects all instances of `cut` or none: fibers that hold, or do not."""
        inside = (self.expand(s.body, around, cut, False),)
        return self.joined(s, _Lifted(_Chain(cut), dataclasses.replace(s, is_async=True, body=()), inside))

    def joined(self, s: ir.Masked, *parts: ir.Stmt) -> ir.Body:
        """What an `inthreads` has become, with the joins of the fibers around it."""
        if s.is_async or self.fiber is None:
            return parts
        join = ir.Barrier(Level.BLOCK, "inthreads", span=s.span)
        return join, *parts, join

    def masked(self, s: ir.Masked, around: Chain, cut: Chain) -> ir.Body:
        """An `inthreads` whose selected instances meet. Its segments run for them alone; what stands between segments
        is carried out once, for one of them, if there is one."""
        selected = ir.Var(self.fresh("selected"), BOOL, ir.Role.LET)
        indices = _Chain(cut).indices
        count = integers.constant(len(indices) + 1)
        leader = views.whole(ir.Buffer(self.fresh("leader"), S32, ir.Storage.LOCAL, (count,)))
        found = ir.Load(leader, (integers.ZERO,))
        places = [(integers.constant(i + 1),) for i in range(len(indices))]
        note = (
            ir.Store(leader, (integers.ZERO,), integers.ONE),
            *(ir.Store(leader, place, var) for place, var in zip(places, indices, strict=True)),
        )
        first = ir.Binary("&&", selected, ir.Binary("==", found, integers.ZERO, BOOL), BOOL)
        choose = (ir.Let(selected, s.predicate, span=s.span), ir.If(first, note))
        values = {var: ir.Load(leader, place) for var, place in zip(indices, places, strict=True)}
        body = _for_selected(self.expand(s.body, around, cut, False), selected, values)
        some = ir.If(ir.Binary("!=", found, integers.ZERO, BOOL), (), span=s.span)
        return (
            ir.Declare(leader.buffer, integers.ZERO),
            _Segment(_Chain(cut), _Chain((*around, *cut)), choose),
            _Lifted(_Chain(()), some, (body, ())),
        )

    # ---------------------------------------------------------------------------------- what lives across segments

    def keep(self, tree: ir.Body) -> list[ir.Stmt]:
        """Finds what must be kept per instance; returns the declarations of its storage."""
        segments = [s for s in _parts(tree) if isinstance(s, _Segment)]
        lets: dict[str, ir.Let] = {}
        defined_in: dict[str, int] = {}
        scalars: dict[str, ir.Var] = {}
        local: dict[ir.Buffer, tuple[int, _Chain]] = {}
        for number, segment in enumerate(segments):
            for s in nested(segment.body):
                var = _defines(s)
                if var is not None and var.name not in defined_in:
                    defined_in[var.name], scalars[var.name] = number, var
                    self.home[var.name] = segment.whole
                if isinstance(s, ir.Let):
                    lets[s.var.name] = s
                if isinstance(s, ir.Declare) and self._is_private(s.buffer, segment.whole):
                    local[s.buffer] = (number, segment.whole)
        for name, let in lets.items():
            if let.var.role is ir.Role.LET and let.value is not None and self._repeats(let.value):
                self.again[name] = let
        crossing: dict[str, None] = {}
        crossing_buffers: dict[ir.Buffer, None] = {}
        for number, nodes in [*enumerate(walk(s.body) for s in segments), (-1, _outside(tree))]:
            for node in nodes:
                if isinstance(node, ir.Var) and defined_in.get(node.name, number) != number:
                    crossing[node.name] = None
                if isinstance(node, ir.View) and node.buffer in local and local[node.buffer][0] != number:
                    crossing_buffers[node.buffer] = None
        declarations: list[ir.Stmt] = []
        for name in crossing:
            if name not in self.again:
                home = self.home[name]
                buffer = ir.Buffer(self.fresh(name), scalars[name].dtype, ir.Storage.REGISTER, home.extents)
                self.kept[name] = views.whole(buffer)
                declarations.append(ir.Declare(buffer))
        for buffer in crossing_buffers:
            home = local[buffer][1]
            new = dataclasses.replace(buffer, shape=(*home.extents, *buffer.shape), storage=_storage(buffer))
            self.moved[buffer] = (new, home)
            declarations.append(ir.Declare(new))
        declarations += self._track_yields(segments)
        return declarations

    def fresh(self, name: str) -> str:
        new = next(n for i in itertools.count(1) if (n := f"{name}_each" + (str(i) if i > 1 else "")) not in self.taken)
        self.taken.add(new)
        return new

    @staticmethod
    def _is_private(buffer: ir.Buffer, home: _Chain) -> bool:
        """Storage with one copy per instance of the regions that are cut: also shared storage if those are blocks."""
        if buffer.storage is ir.Storage.SHARED:
            return any(region.level is Level.BLOCK for region in home.regions)
        return buffer.storage in (ir.Storage.LOCAL, ir.Storage.REGISTER)

    def _repeats(self, value: ir.Expr) -> bool:
        """Whether a value depends on nothing but indices and parameters."""
        return all(
            node.role in _ON_INDICES or node.name in self.again
            if isinstance(node, ir.Var)
            else not isinstance(node, ir.Load)
            for node in walk(value)
        )

    def _track_yields(self, segments: list[_Segment]) -> list[ir.Stmt]:
        homes = [s.whole for s in segments if any(isinstance(n, ir.Yield) for n in nested(s.body))]
        if not homes:
            return []
        home = max(homes, key=lambda chain: len(chain.regions))
        buffer = ir.Buffer(self.fresh("active"), BOOL, ir.Storage.REGISTER, home.extents)
        self.active = (views.whole(buffer), home)
        return [ir.Declare(buffer, init=ir.TRUE)]

    # ------------------------------------------------------------------------------------------------- finishing

    def finish(self, tree: ir.Body) -> ir.Body:
        """The tree with segments as regions and everything kept per instance in its place."""
        out: list[ir.Stmt] = []
        for s in tree:
            if isinstance(s, _Segment):
                out += _around(s.open.regions, self._run(s))
            elif isinstance(s, _Lifted):
                done = iter([self.finish(body) for body in s.inside])
                out += self._heads(s, done)
            elif isinstance(s, ir.Region):
                out.append(dataclasses.replace(s, body=self.finish(s.body)))
            else:
                out.append(s)
        return tuple(out)

    def _heads(self, s: _Lifted, inside: Iterator[ir.Body]) -> ir.Body:
        leader = s.leader or (integers.ZERO,) * len(s.cut.indices)
        first = dict(zip(s.cut.indices, leader, strict=True))
        head = self._replace((self._recompute(s.inner),))
        assert len(head) == 1
        statement: ir.Stmt = substitute(head[0], first)
        return (_with_inside(statement, inside),)

    def _recompute(self, s: ir.Stmt) -> ir.Stmt:
        """A statement outside all segments, with the scalars it reads written out."""

        def change(node: ir.Node) -> ir.Node | None:
            if isinstance(node, ir.Var) and node.name in self.again:
                value = self.again[node.name].value
                assert value is not None
                value = rewrite(value, change)
                return value if value.dtype is node.dtype else ir.Cast(value, node.dtype)
            return None

        return rewrite(s, change)

    def _run(self, s: _Segment) -> ir.Body:
        defined = {var.name for statement in nested(s.body) if (var := _defines(statement)) is not None}
        repeated: dict[str, ir.Let] = {}

        def need(nodes: Iterator[ir.Node]) -> None:
            for node in nodes:
                if isinstance(node, ir.Var) and node.name in self.again and node.name not in defined | set(repeated):
                    let = self.again[node.name]
                    assert let.value is not None
                    need(walk(let.value))
                    repeated[node.name] = let

        need(walk(s.body))
        body = self._replace(s.body)
        if self.active is not None:
            body = self._while_active(body, s.whole)
        return (*repeated.values(), *body)

    def _while_active(self, body: ir.Body, whole: _Chain) -> ir.Body:
        assert self.active is not None
        view, home = self.active
        if len(whole.regions) < len(home.regions):
            return body

        def change(node: ir.Node) -> ir.Body | None:
            if isinstance(node, ir.Yield):
                return ir.Store(view, home.indices, ir.FALSE), node
            return None

        return (ir.If(ir.Load(view, home.indices), rewrite(body, change)),)

    def _fill(self, s: ir.Declare, value: ir.Expr) -> ir.Stmt:
        """All slots of moved storage become `value`, for one instance."""
        slots = tuple(
            ir.Var(self.fresh("slot"), S32, ir.Role.LOOP, integers.ZERO, integers.constant(count))
            for count in s.buffer.slots
        )
        fill: ir.Stmt = ir.SpanOp(self._moved(views.whole(s.buffer, slots)), value, span=s.span)
        for var, count in zip(reversed(slots), reversed(s.buffer.slots), strict=True):
            fill = ir.For(var, integers.ZERO, integers.constant(count), 1, (fill,), span=s.span)
        return fill

    def _replace(self, body: ir.Body) -> ir.Body:
        """Kept scalars and moved storage in their new places. Statements first, so that no definition is taken for a
        use."""

        def statements(node: ir.Node) -> ir.Stmt | ir.Body | None:
            if isinstance(node, ir.Declare) and node.buffer in self.moved:
                return () if node.init is None else self._fill(node, node.init)
            if isinstance(node, (ir.Let, ir.Assign)) and node.var.name in self.kept:
                return () if node.value is None else self._store(node.var, node.value, node)
            if isinstance(node, (ir.Call, ir.Atomic)) and node.result is not None and node.result.name in self.kept:
                temporary = dataclasses.replace(node.result, name=self.fresh(node.result.name), role=ir.Role.MUTABLE)
                call = dataclasses.replace(node, result=temporary)
                return ir.Let(temporary, None), call, self._store(node.result, temporary, node)
            if isinstance(node, ir.Rotate) and any(var.name in self.kept for var in node.slots):
                first = dataclasses.replace(node.slots[0], name=self.fresh(node.slots[0].name))
                moves = zip(node.slots, [*node.slots[1:], first], strict=True)
                return (
                    ir.Let(first, node.slots[0]),
                    *(self._store(a, b, node) if a.name in self.kept else ir.Assign(a, b) for a, b in moves),
                )
            return None

        def uses(node: ir.Node) -> ir.Node | None:
            if isinstance(node, ir.Var) and node.name in self.kept:
                return ir.Load(self.kept[node.name], self.home[node.name].indices)
            if isinstance(node, ir.View) and node.buffer in self.moved:
                return self._moved(node)
            return None

        return rewrite(rewrite(body, statements), uses) if self.kept or self.moved else body

    def _store(self, var: ir.Var, value: ir.Expr, at: ir.Stmt) -> ir.Store:
        if value.dtype is not var.dtype:
            value = ir.Cast(value, var.dtype)
        return ir.Store(self.kept[var.name], self.home[var.name].indices, value, span=at.span)

    def _moved(self, view: ir.View) -> ir.View:
        new, home = self.moved[view.buffer]
        linear: ir.Expr = integers.ZERO
        for index, extent in zip(home.indices, home.extents, strict=True):
            linear = integers.add(integers.mul(linear, extent), index)
        start = integers.mul(linear, integers.product(view.buffer.shape))
        return dataclasses.replace(
            view, buffer=new, map=(*home.indices, *view.map), offset=integers.add(start, view.offset)
        )


def _storage(buffer: ir.Buffer) -> ir.Storage:
    return ir.Storage.SHARED if buffer.storage is ir.Storage.SHARED else ir.Storage.REGISTER


def _around(regions: Chain, body: ir.Body) -> ir.Body:
    for region in reversed(regions):
        body = (dataclasses.replace(region, body=body),)
    return body


def _for_selected(tree: ir.Body, selected: ir.Expr, leader: Mapping[ir.Var, ir.Expr]) -> ir.Body:
    """The tree with its segments for selected instances alone, and what is between them evaluated for the leader."""
    out: list[ir.Stmt] = []
    for s in tree:
        if isinstance(s, _Segment):
            s = dataclasses.replace(s, body=(ir.If(selected, s.body),))
        elif isinstance(s, _Lifted):
            inside = tuple(_for_selected(body, selected, leader) for body in s.inside)
            first = tuple(leader.get(var, integers.ZERO) for var in s.cut.indices)
            s = dataclasses.replace(s, inside=inside, leader=s.leader or first)
        elif isinstance(s, ir.Region):
            s = dataclasses.replace(s, body=_for_selected(s.body, selected, leader))
        out.append(s)
    return tuple(out)


def _with_inside(s: ir.Stmt, inside: Iterator[ir.Body]) -> ir.Stmt:
    return with_bodies(s, lambda _: next(inside))


def _parts(tree: ir.Body) -> Iterator[ir.Stmt]:
    """Segments and lifted statements of a tree, in order."""
    for s in tree:
        if isinstance(s, (_Segment, _Lifted)):
            yield s
        for inner in s.inside if isinstance(s, _Lifted) else (s.body,) if isinstance(s, ir.Region) else ():
            yield from _parts(inner)


def _outside(tree: ir.Body) -> Iterator[ir.Node]:
    """Everything that is evaluated outside the segments."""
    for s in _parts(tree):
        if isinstance(s, _Lifted):
            yield from walk(s.inner)


def _defines(s: ir.Stmt) -> ir.Var | None:
    if isinstance(s, ir.Let):
        return s.var
    return s.result if isinstance(s, (ir.Call, ir.Atomic)) else None
