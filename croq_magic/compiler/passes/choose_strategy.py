"""Decides how the instances of each region run on a processor: as a loop, or each on a stack of its own.

A loop serves where instances meet in uniform control flow: `split-regions` cuts the loop there. Where some instances
of a region reach a joining statement and others do not, or reach it for different things (roles that wait for each
other's events, a barrier under a condition of the thread, a named barrier), no cut is right, and every instance needs
a stack: a fiber. Then so does every region around it inside the block, while a finer region in which all instances do
the same stays a loop: of `parallel w by 2 : group-4, t by 128 : thread` with roles chosen by `w` two fibers are left.
Where blocks wait for each other (events of the launch, `trigger.cluster`, a barrier of the cluster, one of the grid
beside roles), they are fibers too, all of the grid or of a cluster on one thread.

Whether control flow is uniform is judged by a taint: a value differs between instances if it is computed from an index
of the region, from an atomic, or is assigned where only some instances come by. Memory that all instances share reads
the same for all at the same address.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.joins import elected, fragment_owner, has_events, is_collective
from croq_magic.compiler.passes.map_limits import threads_of_unit
from croq_magic.compiler.passes.structure import bodies, inner_regions, instances, map_kernels, map_regions
from croq_magic.compiler.visit import rewrite, walk
from croq_magic.errors import TargetError

Level = ir.Level
_EVENTS = (ir.Trigger, ir.WaitEvent)
_PRIVATE = (ir.Storage.LOCAL, ir.Storage.REGISTER)


@dataclasses.dataclass(frozen=True)
class ChooseStrategy:
    """Sets `Region.fibers` to the reason where a region's instances need stacks of their own.

    `strategy` is "auto"; or "fibers" to give a stack to every instance inside a block that can have one; or "loops",
    which raises `TargetError` for a program that loops cannot run.
    """

    name: ClassVar[str] = "choose-strategy"
    strategy: str = "auto"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        return map_kernels(function, self._kernel)

    def _kernel(self, root: ir.Region) -> ir.Region:
        reason = _meeting_of_grid(root)
        if reason:
            return self._grid(root, reason)
        return self._levels(root, _meeting_of_cluster(root))

    def _levels(self, root: ir.Region, reason: str) -> ir.Region:
        """A region of blocks or of what is coarser; with a `reason` the blocks of each cluster meet."""
        if root.level is not Level.BLOCK:
            body = map_regions(root.body, lambda inner: self._levels(inner, reason))
        elif reason:
            return self._block(root, reason)
        elif _meets_grid(root):
            body = root.body
        else:
            body = _with_one_granularity(map_regions(root.body, self._region))
        return root if body is root.body else dataclasses.replace(root, body=body)

    def _block(self, block: ir.Region, reason: str) -> ir.Region:
        """Blocks that meet: a fiber each, and for each instance in it that others inside wait for."""
        if self.strategy == "loops":
            raise TargetError(f"loops cannot run {reason}; fibers can")
        body = map_regions(block.body, lambda inner: self._region(inner, strict=True))
        block = dataclasses.replace(block, body=_with_one_granularity(body))
        return dataclasses.replace(block, fibers=ir.Fibers(reason, threads_of_unit(block) or 1, _units(block.body)))

    def _grid(self, root: ir.Region, reason: str) -> ir.Region:
        """A kernel whose blocks all meet: fibers from its outermost level down, and its own events around them."""

        def level(region: ir.Region) -> ir.Region:
            if region.level is Level.BLOCK:
                return self._block(region, reason)
            body = map_regions(region.body, level)
            return dataclasses.replace(region, body=body, fibers=ir.Fibers(reason, 1, _units(body)))

        cooperative = any(isinstance(n, ir.Region) and n.attributes.cooperative for n in walk(root))
        new = level(rewrite(root, _of_grid) if cooperative else root)
        used = {n.event: None for n in walk(root) if isinstance(n, _EVENTS) and n.event.storage is ir.Storage.GLOBAL}
        declared = tuple(ir.DeclareEvent(event, span=root.span) for event in used)
        return ir.Region(Level.DEVICE, (), (), (*declared, new), implied=True, span=root.span)

    def _region(self, region: ir.Region, strict: bool = False, known: str = "") -> ir.Region:
        body = map_regions(region.body, lambda inner: self._region(inner, strict))
        inside = [inner.fibers for inner in inner_regions(body) if inner.fibers is not None]
        reason = inside[0].reason if inside else known or divergence(region, strict)
        if reason and self.strategy == "loops":
            raise TargetError(f"loops cannot run {reason}; fibers can")
        if reason and not strict:
            return self._region(region, strict=True, known=reason)
        if self.strategy == "fibers":
            reason = reason or "asked for"
        if body is region.body and not reason:
            return region
        fibers = ir.Fibers(reason, threads_of_unit(region) or 1, _units(body)) if reason else None
        return dataclasses.replace(region, body=body, fibers=fibers)


def _with_one_granularity(body: ir.Body) -> ir.Body:
    """Regions with events all by their finest fibers: a thread counts the generations of an event from one region to
    the next, so in both it must be the same fiber."""
    found = [r for r in inner_regions(body) if r.fibers is not None and has_events(r)]
    if len({_depth(region) for region in found}) < 2:
        return body
    return map_regions(body, lambda region: _by_instance(region) if any(region is r for r in found) else region)


def _depth(region: ir.Region) -> int:
    """Levels of fibers from a region down."""
    return max((_depth(r) for r in inner_regions(region.body) if r.fibers is not None), default=0) + 1


def _by_instance(region: ir.Region) -> ir.Region:
    body = map_regions(region.body, _by_instance)
    reason = region.fibers.reason if region.fibers is not None else "as other regions with events"
    return dataclasses.replace(region, body=body, fibers=ir.Fibers(reason, threads_of_unit(region) or 1, _units(body)))


def _units(body: ir.Body) -> int:
    """Instances of inner regions that run as loops."""
    counts = [(instances(r) or 1) * _units(r.body) for r in inner_regions(body) if r.fibers is None]
    return max(counts, default=1)


def _meets_grid(root: ir.Region) -> bool:
    barriers = [n.scope.depth for n in walk(root.body) if isinstance(n, ir.Barrier) and not n.reason]
    return root.attributes.cooperative and any(depth <= Level.BLOCK.depth for depth in barriers)


def _meeting_of_grid(root: ir.Region) -> str:
    """Why all blocks of a kernel need stacks of their own: "" if they do not."""
    if any(isinstance(n, _EVENTS) and n.event.storage is ir.Storage.GLOBAL for n in walk(root)):
        return "events between blocks"
    for block in _blocks(root):
        if _meets_grid(block):
            found = next(filter(None, map(divergence, inner_regions(block.body))), "")
            if found:
                return f"{found} beside a barrier of the grid"
    return ""


def _meeting_of_cluster(root: ir.Region) -> str:
    """Why the blocks of each cluster need stacks of their own."""
    clusters = [n for n in walk(root) if isinstance(n, ir.Region) and n.level is Level.CLUSTER and instances(n) != 1]
    blocks = [block for cluster in clusters for block in _blocks(cluster) if instances(block) != 1]
    if any(isinstance(n, ir.Trigger) and n.cluster for block in blocks for n in walk(block)):
        return "events between the blocks of a cluster"
    if any(isinstance(n, ir.Barrier) and n.scope is Level.CLUSTER for block in blocks for n in walk(block)):
        return "a barrier of the blocks of a cluster"
    return ""


def _blocks(root: ir.Region) -> list[ir.Region]:
    return [n for n in walk(root) if isinstance(n, ir.Region) and n.level is Level.BLOCK]


def _of_grid(node: ir.Node) -> ir.Node | None:
    """In a cooperative kernel a barrier of the block that the program wrote is one of the grid."""
    if isinstance(node, ir.Barrier) and not node.reason and node.scope is Level.BLOCK:
        return dataclasses.replace(node, scope=Level.DEVICE)
    return None


def divergence(region: ir.Region, strict: bool = False) -> str:
    """What the instances of a region, one after the other, could not do; "" if a loop can run them.

    `split-regions` knows how to run an `inthreads` whose selected instances meet; `strict` leaves that out, for regions
    inside regions of fibers.
    """
    return _Divergence(region, strict).reason()


def differences(region: ir.Region) -> tuple[set[str], set[ir.Buffer]]:
    """Names of scalars that may differ between instances of a region, and the storage of an instance whose contents
    may."""
    found = _Divergence(region, False)
    found.spread()
    return found.tainted, found.private


class _Divergence:
    """The taint of one region's indices. `tainted` holds names of scalars, `private` the buffers of an instance."""

    def __init__(self, region: ir.Region, strict: bool) -> None:
        self.region = region
        self.strict = strict
        self.tainted = {var.name for var in region.indices}
        self.private: set[ir.Buffer] = set()
        self.selected = 0  # `inthreads` around that do not select all instances
        self.elected = 0  # those among them that only say who passes events

    def reason(self) -> str:
        if not any(map(self.joins, _statements(self.region.body))):
            return ""
        self.spread()
        return next(self.visit(self.region.body, False), "")

    def spread(self) -> None:
        """Finds all that is tainted."""
        before = -1
        while before < (before := len(self.tainted) + len(self.private)):
            for _ in self.visit(self.region.body, False):
                pass

    def joins(self, s: ir.Stmt) -> bool:
        """Whether instances of the region meet in `s` itself."""
        assert self.region.level is not None
        if isinstance(s, (*_EVENTS, ir.NamedBarrier)):
            return True
        if isinstance(s, ir.Barrier):
            return s.scope.depth < self.region.level.depth
        if isinstance(s, ir.Masked):
            return not s.is_async
        if isinstance(s, ir.Wait):
            return False  # copies are complete when they are issued
        if isinstance(s, ir.While):
            return polls(s)
        owner = fragment_owner(s)
        if owner is not None:
            return owner.depth < self.region.level.depth
        return is_collective(s)

    # ------------------------------------------------------------------------------------------------- the walk

    def visit(self, body: ir.Body, apart: bool) -> Iterator[str]:
        """Spreads the taint; yields a reason for each joining statement that instances reach `apart` or disagree on."""
        for s in body:
            if self.joins(s) and self._needs(s, apart):
                yield _words(s)
            if isinstance(s, (ir.For, ir.While)):
                yield from self._loop(s, apart)
                continue
            inside = apart or (isinstance(s, ir.If) and self.differs(s.condition))
            selects = isinstance(s, ir.Masked) and self.differs(s.predicate)
            elects = isinstance(s, ir.Masked) and selects and elected(s, (self.region,)) is not None
            self.elected += elects
            self.selected += selects and not elects
            self._plain(s, apart or self.selected + self.elected > 0)
            for inner in bodies(s):
                yield from self.visit(inner, inside)
            self.selected -= selects and not elects
            self.elected -= elects

    def _loop(self, s: ir.For | ir.While, apart: bool) -> Iterator[str]:
        heads = (s.condition,) if isinstance(s, ir.While) else (s.start, s.stop)
        differs = any(map(self.differs, heads))
        if isinstance(s, ir.For) and differs:
            self.tainted.add(s.var.name)
        yield from self.visit(s.body, apart or differs or self._leaves(s.body, False))

    def _leaves(self, body: ir.Body, apart: bool) -> bool:
        """Whether some instances leave an iteration early and others do not."""
        for s in body:
            if isinstance(s, (ir.Break, ir.Continue)) and apart:
                return True
            if isinstance(s, (ir.For, ir.While, ir.Region)):
                continue
            condition = s.condition if isinstance(s, ir.If) else s.predicate if isinstance(s, ir.Masked) else None
            inside = apart or (condition is not None and self.differs(condition))
            if any(self._leaves(inner, inside) for inner in bodies(s)):
                return True
        return False

    def _plain(self, s: ir.Stmt, apart: bool) -> None:
        """Scalars and private storage that get a value."""
        if isinstance(s, (ir.Let, ir.Assign)):
            if s.value is not None and (self.differs(s.value) or (apart and isinstance(s, ir.Assign))):
                self.tainted.add(s.var.name)
        elif isinstance(s, (ir.Atomic, ir.Call)) and s.result is not None:
            if isinstance(s, ir.Atomic) or apart or self.differs(s):
                self.tainted.add(s.result.name)
        elif isinstance(s, ir.Rotate):
            if apart or any(var.name in self.tainted for var in s.slots):
                self.tainted |= {var.name for var in s.slots}
        elif isinstance(s, ir.Asm):
            targets = [v for _, _, node in s.outputs for v in walk(node) if isinstance(v, ir.Var)]
            self.tainted |= {var.name for var in targets}
        target: ir.View | None = None
        if isinstance(s, (ir.Store, ir.SpanOp)):
            target = s.view
        elif isinstance(s, ir.Copy):
            target = s.dst
        written = [target] if target is not None else []
        if isinstance(s, ir.Call):
            written = [n for a in s.args for n in walk(a) if isinstance(n, ir.View)]
        for view in written:
            if view.buffer.storage in _PRIVATE and (apart or self.differs(s)):
                self.private.add(view.buffer)

    def _needs(self, s: ir.Stmt, apart: bool) -> bool:
        """Whether a joining statement cannot stand between two loops over the instances."""
        if isinstance(s, ir.While):
            return self.selected > 0
        if isinstance(s, (*_EVENTS, ir.NamedBarrier)):
            return apart or self.selected > 0 or self._disagrees(s)
        return apart or (self.strict and self.selected > 0)

    def _disagrees(self, s: ir.Stmt) -> bool:
        """Whether instances would do different things in one joining statement."""
        if isinstance(s, _EVENTS):
            return any(map(self.differs, (*s.slot, *((s.order,) if s.order is not None else ()))))
        if isinstance(s, ir.NamedBarrier):
            return self.differs(s.number) or self.differs(s.threads)
        return False

    def differs(self, node: ir.Node) -> bool:
        """Whether a value may differ between instances of the region."""
        return any(
            node.name in self.tainted
            if isinstance(node, ir.Var)
            else isinstance(node, ir.View) and node.buffer in self.private
            for node in walk(node)
        )


def _statements(body: ir.Body) -> Iterator[ir.Stmt]:
    for s in body:
        yield s
        for inner in bodies(s):
            yield from _statements(inner)


def polls(s: ir.While) -> bool:
    """Whether a loop may wait for what another role stores."""
    return any(isinstance(n, ir.Load) and n.view.buffer.storage is ir.Storage.SHARED for n in walk(s.condition))


def _words(s: ir.Stmt) -> str:
    if isinstance(s, _EVENTS):
        return "events between roles"
    if isinstance(s, ir.While):
        return "a role that waits for stores of another"
    if isinstance(s, ir.NamedBarrier):
        return "named barriers"
    if isinstance(s, ir.Barrier):
        return "a barrier that not all instances reach"
    if isinstance(s, ir.Masked):
        return "an `inthreads` that not all instances reach"
    return "a collective statement that not all instances reach"
