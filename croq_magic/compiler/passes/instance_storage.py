"""What lives across the segments of a cut region is kept once for every instance.

Scalars and local storage that one segment fills and a later one reads get buffers with the extents of the region in
front; a scalar that depends on indices and parameters alone is computed again instead. An instance that yields takes no
part in later segments.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.passes.segments import Instances, Lifted, Segment, outside, parts, within
from croq_magic.compiler.passes.structure import fresh_name, nested, with_bodies
from croq_magic.compiler.types import BOOL, S32
from croq_magic.compiler.visit import rewrite, substitute, walk

_ON_INDICES = (ir.Role.DIM, ir.Role.PARAM, ir.Role.REGION, ir.Role.LOOP)


class InstanceStorage:
    """What one cut region keeps; `taken` are names that may not be given again."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken
        self.home: dict[str, Instances] = {}  # scalar -> regions it is private to
        self.kept: dict[str, ir.View] = {}  # scalar -> the buffer that keeps it per instance
        self.again: dict[str, ir.Let] = {}  # scalar -> how to compute it again
        self.moved: dict[ir.Buffer, tuple[ir.Buffer, Instances]] = {}
        self.active: tuple[ir.View, Instances] | None = None

    def keep(self, tree: ir.Body) -> list[ir.Stmt]:
        """Finds what must be kept per instance; returns the declarations of its storage."""
        segments = [s for s in parts(tree) if isinstance(s, Segment)]
        lets: dict[str, ir.Let] = {}
        defined_in: dict[str, int] = {}
        scalars: dict[str, ir.Var] = {}
        local: dict[ir.Buffer, tuple[int, Instances]] = {}
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
        for number, nodes in [*enumerate(walk(s.body) for s in segments), (-1, outside(tree))]:
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
        return fresh_name(f"{name}_each", self.taken)

    @staticmethod
    def _is_private(buffer: ir.Buffer, home: Instances) -> bool:
        """Storage with one copy per instance of the regions that are cut: also shared storage if those are blocks."""
        if buffer.storage is ir.Storage.SHARED:
            return any(region.level is ir.Level.BLOCK for region in home.regions)
        return buffer.storage in (ir.Storage.LOCAL, ir.Storage.REGISTER)

    def _repeats(self, value: ir.Expr) -> bool:
        """Whether a value depends on nothing but indices and parameters."""
        return all(
            node.role in _ON_INDICES or node.name in self.again
            if isinstance(node, ir.Var)
            else not isinstance(node, ir.Load)
            for node in walk(value)
        )

    def _track_yields(self, segments: list[Segment]) -> list[ir.Stmt]:
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
            if isinstance(s, Segment):
                out += within(s.open.regions, self._run(s))
            elif isinstance(s, Lifted):
                done = iter([self.finish(body) for body in s.inside])
                out += self._heads(s, done)
            elif isinstance(s, ir.Region):
                out.append(dataclasses.replace(s, body=self.finish(s.body)))
            else:
                out.append(s)
        return tuple(out)

    def _heads(self, s: Lifted, inside: Iterator[ir.Body]) -> ir.Body:
        leader = s.leader or (integers.ZERO,) * len(s.cut.indices)
        first = dict(zip(s.cut.indices, leader, strict=True))
        head = self._replace((self._recompute(s.inner),))
        assert len(head) == 1
        statement: ir.Stmt = substitute(head[0], first)
        return (with_bodies(statement, lambda _: next(inside)),)

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

    def _run(self, s: Segment) -> ir.Body:
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

    def _while_active(self, body: ir.Body, whole: Instances) -> ir.Body:
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


def _defines(s: ir.Stmt) -> ir.Var | None:
    if isinstance(s, ir.Let):
        return s.var
    return s.result if isinstance(s, (ir.Call, ir.Atomic)) else None
