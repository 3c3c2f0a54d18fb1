"""What happens between a barrier and the other barriers of a kernel, on all paths, before it and behind it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.accesses import Mode
from croq_magic.compiler.passes.dependences import Item
from croq_magic.compiler.passes.insert_joins import leaves_early, runs
from croq_magic.compiler.passes.structure import bodies
from croq_magic.compiler.passes.touches import Site, Touch, Toucher
from croq_magic.compiler.targets.simt.threads import unit_threads

Level = ir.Level
ALL = -1  # a barrier of all threads of the block


@dataclasses.dataclass(eq=False)
class Node:
    """A statement with its place. `kept` are the threads of a unit that a barrier joins, `ALL`, or 0 if it is not
    known who comes there. `here` is what the statement touches itself."""

    s: ir.Stmt
    site: Site
    around: Node | None
    bodies: list[list[Node]] = dataclasses.field(default_factory=list)
    here: tuple[Touch, ...] = ()
    kept: int = 0

    @property
    def is_loop(self) -> bool:
        return isinstance(self.s, (ir.For, ir.While))


class Paths:
    """The statements of a block as nodes. Barriers in `gone` are not there."""

    def __init__(self, block: ir.Region, toucher: Toucher, written: set[ir.Buffer]) -> None:
        self.toucher = toucher
        self.written = written
        self.gone: set[Node] = set()
        self.root = Node(block, Site(), None)
        self.root.bodies = [self._nodes(block.body, Site(), self.root)]
        for node in self.nodes():
            if isinstance(node.s, ir.Copy):
                toucher.expect(node.s, node.site)
        for node in self.nodes():
            node.here = tuple(
                t for t in toucher.statement(node.s, node.site) if t.buffer is None or t.buffer in written
            )

    def nodes(self) -> Iterator[Node]:
        """All statements in program order."""
        stack = [node for body in reversed(self.root.bodies) for node in reversed(body)]
        while stack:
            node = stack.pop()
            yield node
            for body in reversed(node.bodies):
                stack.extend(reversed(body))

    def _nodes(self, body: ir.Body, site: Site, around: Node) -> list[Node]:
        return [self._node(s, site, around) for s in body]

    def _node(self, s: ir.Stmt, site: Site, around: Node) -> Node:
        node = Node(s, site, around)
        inner = site
        if isinstance(s, ir.Region):
            inner = self.toucher.enter(site, s)
        elif isinstance(s, ir.If):
            then = self._nodes(s.then, self.toucher.under(site, s.condition), node)
            other = self._nodes(s.other, self.toucher.under(site, _negated(s.condition)), node)
            node.bodies = [then, other]
            return node
        elif isinstance(s, ir.Masked):
            inner = self.toucher.under(site, s.predicate)
        elif isinstance(s, ir.While):
            inner = dataclasses.replace(self.toucher.under(site, s.condition), loops=(*site.loops, s))
        elif isinstance(s, ir.For):
            inner = dataclasses.replace(site, loops=(*site.loops, s))
        elif isinstance(s, ir.Barrier):
            node.kept = self._joined(s, site)
        node.bodies = [self._nodes(body, inner, node) for body in bodies(s)]
        return node

    def _joined(self, s: ir.Barrier, site: Site) -> int:
        """The threads that surely meet at a barrier."""
        if s.scope.depth <= Level.BLOCK.depth:
            return ALL if site.whole else 0
        region = next((r for r in reversed(site.chain) if r.level is s.scope), None)
        if region is None or not site.full:
            return 0
        size = integers.value(unit_threads(region))
        if size is None:
            return 0
        outer = site.chain[: site.chain.index(region) + 1]
        own = self.toucher.scalars.varying - {var.name for r in outer for var in r.indices}
        if any(self.toucher.scalars.differs((condition,), own) for condition in site.conditions):
            return 0
        return ALL if site.whole and size == self.toucher.count else size

    # -------------------------------------------------------------------------------------------------- scanning

    def reach(self, node: Node, forward: bool) -> list[Item]:
        """What may happen behind (or before) a node without a barrier of all threads between. The barrier of the node
        itself is taken for one that is not there."""
        scan = _Scan(self.gone | {node}, forward)
        place, view = node, Item(_NOTHING)
        hasty = [n for n in _ancestors(node) if n.is_loop and leaves_early(_bodies(n))]
        if hasty:  # any place of the loop may be left for its end
            place = hasty[-1]
            around = [n for n in _ancestors(node) if n.is_loop]
            view = _seen(view, free=[id(n.s) for n in around[: around.index(place) + 1]])
            scan.everything(place, view)
        while place.around is not None:
            parent = place.around
            body = next(b for b in parent.bodies if place in b)
            position = body.index(place)
            view, blocked = scan.body(body[position + 1 :] if forward else body[:position], view)
            if blocked:
                break
            if parent.is_loop:
                if isinstance(parent.s, ir.While):
                    scan.here(parent, view)
                view = scan.turns(parent, body, view)
            if not forward:
                scan.here(parent, view)
            place = parent
        return list(scan.found)


_NOTHING = Touch(None, Mode.READ)


def _seen(view: Item, **ids: Iterable[int]) -> Item:
    """A view with more loops in these sets."""
    return dataclasses.replace(view, **{name: getattr(view, name).union(more) for name, more in ids.items()})


class _Scan:
    """Collects what happens on the way. A view is an item without its touch: how things are seen from the point."""

    def __init__(self, gone: set[Node], forward: bool) -> None:
        self.gone = gone
        self.forward = forward
        self.found: dict[Item, None] = {}

    def here(self, node: Node, view: Item) -> None:
        for touch in node.here:
            seen = Item(touch, view.unit, view.next, view.moved, view.free, view.left, view.edge)
            self.found[seen] = None

    def everything(self, node: Node, view: Item) -> None:
        self.here(node, view)
        for body in node.bodies:
            for inner in body:
                self.everything(inner, view)

    def turns(self, loop: Node, body: list[Node], view: Item) -> Item:
        """Goes through other turns of a loop around the point; gives how things outside of it are seen."""
        here = id(loop.s)
        inner = _Scan(self.gone, self.forward)
        _, blocked = inner.body(body, view)
        if not blocked and isinstance(loop.s, ir.While):
            inner.here(loop, view)
        kind = "next" if blocked else "moved"
        for item in inner.found:
            self.found[_seen(item, **{kind: [here]})] = None
        return _seen(view, free=[here], left=[here] if blocked else [])

    def body(self, nodes: list[Node], view: Item) -> tuple[Item, bool]:
        """How things are seen behind these statements, and whether all threads have met before their end."""
        for node in nodes if self.forward else reversed(nodes):
            view, blocked = self.node(node, view)
            if blocked:
                return view, True
        return view, False

    def node(self, node: Node, view: Item) -> tuple[Item, bool]:
        s = node.s
        if isinstance(s, ir.Barrier):
            if node in self.gone or node.kept == 0:
                return view, False
            return (view, True) if node.kept == ALL else (_met(view, max(view.unit, node.kept)), False)
        if not node.bodies:
            self.here(node, view)
            return view, False
        if isinstance(s, (ir.Masked, ir.Once)) or (node.is_loop and leaves_early(_bodies(node))):
            self.everything(node, view)
            return view, False
        if node.is_loop:
            return self.loop(node, view)
        if self.forward:
            self.here(node, view)
        ways = [self.body(body, view) for body in node.bodies]
        if all(blocked for _, blocked in ways):
            return view, True
        if not self.forward:
            self.here(node, view)
        return _met(view, min(way.unit for way, blocked in ways if not blocked)), False

    def loop(self, node: Node, view: Item) -> tuple[Item, bool]:
        """A loop that is not around the point."""
        if self.forward or isinstance(node.s, ir.While):
            self.here(node, view)
        inner = _Scan(self.gone, self.forward)
        behind, blocked = inner.body(node.bodies[0], view)
        for item in inner.found:  # only the first turn, or the last one, is this side of the barrier
            self.found[_seen(item, edge=[id(node.s)]) if blocked else item] = None
        certain = isinstance(node.s, ir.For) and runs(node.s)
        if blocked and certain:
            return view, True
        if not self.forward:
            self.here(node, view)
        return (behind if certain else view), False


def _met(view: Item, unit: int) -> Item:
    return view if view.unit == unit else dataclasses.replace(view, unit=unit)


def _ancestors(node: Node) -> Iterator[Node]:
    place = node.around
    while place is not None:
        yield place
        place = place.around


def _bodies(node: Node) -> ir.Body:
    return node.s.body if isinstance(node.s, (ir.For, ir.While)) else ()


def _negated(condition: ir.Expr) -> ir.Expr:
    return ir.Unary("!", condition, condition.dtype)
