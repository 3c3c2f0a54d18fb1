"""What happens between a barrier and the other barriers of a kernel, on all paths, before it and behind it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from croq_magic.compiler import integers, ir
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
        own = self.toucher.varying - {var.name for r in outer for var in r.indices}
        if any(self.toucher.differs((condition,), own) for condition in site.conditions):
            return 0
        return ALL if site.whole and size == self.toucher.count else size

    # -------------------------------------------------------------------------------------------------- scanning

    def reach(self, node: Node, forward: bool) -> list[Item]:
        """What may happen behind (or before) a node without a barrier of all threads between. The barrier of the node
        itself is taken for one that is not there."""
        scan = _Scan(self.gone | {node}, forward)
        place = node
        hasty = [n for n in _ancestors(node) if n.is_loop and leaves_early(_bodies(n))]
        moved: frozenset[int] = frozenset()
        free: frozenset[int] = frozenset()
        unit = 0
        if hasty:  # any place of the loop may be left for its end
            place = hasty[-1]
            around = [n for n in (node, *_ancestors(node)) if n.is_loop]
            free = frozenset(id(n.s) for n in around[: around.index(place) + 1])
            scan.everything(place, moved, free)
        while place.around is not None:
            parent = place.around
            body = next(b for b in parent.bodies if place in b)
            position = body.index(place)
            rest = body[position + 1 :] if forward else body[:position]
            unit, blocked = scan.body(rest, unit, moved, free)
            if blocked:
                break
            if parent.is_loop:
                if isinstance(parent.s, ir.While):
                    scan.here(parent, unit, moved, free)
                turn = frozenset([id(parent.s)])
                scan.body(body, unit, turn, free | moved)
                if isinstance(parent.s, ir.While):
                    scan.here(parent, unit, turn, free | moved)
                free = free | turn
            if not forward:
                scan.here(parent, unit, moved, free)
            place = parent
        return list(scan.found)


class _Scan:
    """Collects what happens on the way."""

    def __init__(self, gone: set[Node], forward: bool) -> None:
        self.gone = gone
        self.forward = forward
        self.found: dict[Item, None] = {}

    def here(self, node: Node, unit: int, moved: frozenset[int], free: frozenset[int]) -> None:
        for touch in node.here:
            self.found[Item(touch, unit, moved, free)] = None

    def everything(self, node: Node, moved: frozenset[int], free: frozenset[int]) -> None:
        self.here(node, 0, moved, free)
        for body in node.bodies:
            for inner in body:
                self.everything(inner, moved, free)

    def body(self, nodes: list[Node], unit: int, moved: frozenset[int], free: frozenset[int]) -> tuple[int, bool]:
        """The unit whose threads have met behind these statements, and whether all threads have met before their
        end."""
        for node in nodes if self.forward else reversed(nodes):
            unit, blocked = self.node(node, unit, moved, free)
            if blocked:
                return unit, True
        return unit, False

    def node(self, node: Node, unit: int, moved: frozenset[int], free: frozenset[int]) -> tuple[int, bool]:
        s = node.s
        if isinstance(s, ir.Barrier):
            if node in self.gone:
                return unit, False
            return (unit, True) if node.kept == ALL else (max(unit, node.kept), False)
        if not node.bodies:
            self.here(node, unit, moved, free)
            return unit, False
        if isinstance(s, (ir.Masked, ir.Once)) or (node.is_loop and leaves_early(_bodies(node))):
            self.everything(node, moved, free)
            return unit, False
        if self.forward or isinstance(s, ir.While):
            self.here(node, unit, moved, free)
        ways = [self.body(body, unit, moved, free) for body in node.bodies]
        blocked = all(way[1] for way in ways)
        certain = not node.is_loop or (isinstance(s, ir.For) and runs(s))
        if blocked and certain:
            return unit, True
        if not self.forward:
            self.here(node, unit, moved, free)
        passed = min(way[0] for way in ways if not way[1]) if certain else unit
        return passed, False


def _ancestors(node: Node) -> Iterator[Node]:
    place = node.around
    while place is not None:
        yield place
        place = place.around


def _bodies(node: Node) -> ir.Body:
    return node.s.body if isinstance(node.s, (ir.For, ir.While)) else ()


def _negated(condition: ir.Expr) -> ir.Expr:
    return ir.Unary("!", condition, condition.dtype)
