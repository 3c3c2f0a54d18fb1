"""Decides where the fragments of a block live: in registers of the threads, in shared storage, or nowhere of their own.

A fragment stays in registers if every thread touches only elements that it holds. For reductions that is a matter of
the layout: tiles that are reduced, and all that are used together with them, are dealt out in rows, and the vectors
along their rows or columns are replicated (`fragment_layouts`). What then is still read by other threads lies in shared
storage: operands of a product, and what an `apply` reads across.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.accesses import Mode, of_statement
from croq_magic.compiler.passes.fragment_layouts import Along, Layout, Linear, Rows, lanes_for, plain
from croq_magic.compiler.passes.fragments_in_place import in_place
from croq_magic.compiler.passes.structure import bodies
from croq_magic.compiler.visit import walk

Level = ir.Level
_EFFECTS = (ir.Store, ir.Atomic, ir.Print, ir.Call, ir.Asm, ir.CxxText, ir.Assert)
READ = Mode.READ


@dataclasses.dataclass(frozen=True)
class Plan:
    """`layouts` of all fragments of constant size, `shared` those in shared storage, `views` what stands for fragments
    that need no storage, `by_lanes` the reductions (by id) that pass values between the holders of a row, `copies` the
    loads (by id) that are transfers from device memory by all threads of the block."""

    layouts: Mapping[ir.Fragment, Layout]
    shared: frozenset[ir.Fragment]
    views: Mapping[ir.Fragment, ir.View]
    by_lanes: frozenset[int]
    copies: frozenset[int] = frozenset()

    def layout(self, fragment: ir.Fragment) -> Layout | None:
        return self.layouts.get(fragment)

    def own(self, fragment: ir.Fragment, index: tuple[ir.Expr, ...], of: ir.Fragment, at: tuple[ir.Expr, ...]) -> bool:
        """Whether the thread that is at element `at` of a fragment holds element `index` of another."""
        return _own(self.layout(fragment), index, self.layout(of), at)


def plan(block: ir.Region, widths: Mapping[Level, int], threads: int, shuffles: bool) -> Plan:
    """The plan for a block; `widths` are the threads of a unit by its level, `shuffles` says whether threads of a warp
    can pass each other values without memory."""
    return _Planner(block, widths, threads, shuffles).plan()


def primary(s: ir.Stmt) -> ir.Fragment | None:
    """The fragment whose elements a statement goes through."""
    match s:
        case ir.FragmentFill():
            return s.fragment
        case ir.FragmentReduce(op="all_sum"):
            return None  # a fragment has one value an element, which is the sum already
        case ir.MmaFill() | ir.MmaLoad() | ir.MmaScale() | ir.FragmentOp() | ir.FragmentCopy() | ir.FragmentReduce():
            return s.target.fragment
        case ir.Mma():
            return s.accumulator.fragment
        case ir.MmaStore():
            return s.source.fragment
        case ir.Apply():
            return s.fragment.fragment
        case _:
            return None


@dataclasses.dataclass(frozen=True)
class Reduction:
    """The `op` over dimension `axis` of a tile, or of `value` at its elements `indices`, becomes `target`, or with
    `update` changes it."""

    op: str
    axis: int
    tile: ir.Fragment
    target: ir.FragmentRef
    indices: tuple[ir.Var, ...]
    value: ir.Expr | None = None
    update: str = ""


def reduction(s: ir.Stmt) -> Reduction | None:
    """What a `reduce` statement reduces, and an `apply` that only adds to the elements of a vector."""
    if isinstance(s, ir.FragmentReduce) and s.op != "all_sum":
        indices = tuple(ir.Var(f"element:{d}") for d in range(len(s.source.fragment.shape)))
        return Reduction(s.op, s.axis, s.source.fragment, s.target, indices)
    if not isinstance(s, ir.Apply) or len(s.indices) != 2 or len(s.body) != 1:
        return None
    (store,) = s.body
    if not isinstance(store, ir.FragmentStore) or store.op != "+" or len(store.index) != 1:
        return None
    target = store.target.fragment
    if store.index[0] not in s.indices or any(f is target for f, _, stored in elements(s) if not stored):
        return None
    axis = 1 - s.indices.index(store.index[0])
    return Reduction("sum", axis, s.fragment.fragment, store.target, s.indices, store.value, "+")


def dealt_dims(s: ir.Apply) -> tuple[int, ...]:
    """The dimensions whose elements threads share out; the others are run through by the same thread, as several of
    their elements change one of a smaller fragment."""
    stores = [node.index for node in walk(s.body) if isinstance(node, ir.FragmentStore)]
    return tuple(d for d, var in enumerate(s.indices) if all(var in index for index in stores))


def elements(s: ir.Apply) -> Iterator[tuple[ir.Fragment, tuple[ir.Expr, ...], bool]]:
    """Elements of fragments that an `apply` touches: fragment, index, and whether it is stored."""
    for node in walk(s.body):
        if isinstance(node, ir.FragmentLoad):
            yield node.source.fragment, node.index, False
        elif isinstance(node, ir.FragmentStore):
            yield node.target.fragment, node.index, True


def _own(layout: Layout | None, index: tuple[ir.Expr, ...], around: Layout | None, at: tuple[ir.Expr, ...]) -> bool:
    if layout is None or around is None or layout.width != around.width:
        return False
    match around, layout:
        case Rows(), Rows():
            return index == at and around.lanes == layout.lanes
        case Along(), Along():
            return index == at and around.lanes == layout.lanes and around.dimension == layout.dimension
        case Linear(), Linear() if len(around.shape) == 1:
            return index == at and len(layout.shape) == 1
        case Rows(), Along():
            return index == (at[layout.dimension],) and around.lanes == layout.lanes
        case _:
            return index == at and around == layout


def _shape(fragment: ir.Fragment) -> tuple[int, ...] | None:
    extents = tuple(map(integers.value, fragment.shape))
    return None if None in extents else extents  # type: ignore[return-value]


class _Classes:
    """Fragments that are used together."""

    def __init__(self) -> None:
        self.parent: dict[ir.Fragment, ir.Fragment] = {}

    def of(self, fragment: ir.Fragment) -> ir.Fragment:
        while (above := self.parent.get(fragment, fragment)) is not fragment:
            fragment = above
        return fragment

    def join(self, a: ir.Fragment, b: ir.Fragment) -> None:
        self.parent[self.of(a)] = self.of(b)


class _Uses:
    """How fragments are used, given that those in `forced` lie in shared storage. `along` has the dimensions that
    vectors run along, `rows` tiles that must be dealt out in rows, `single` vectors that only one thread may hold."""

    def __init__(self, forced: set[ir.Fragment], conflicts: set[ir.Fragment]) -> None:
        self.forced = forced
        self.conflicts = conflicts
        self.classes, self.vectors = _Classes(), _Classes()
        self.along: dict[ir.Fragment, set[int]] = {}
        self.rows: set[ir.Fragment] = set()
        self.single: set[ir.Fragment] = set()

    def together(self, a: ir.Fragment, b: ir.Fragment, alike: bool = False) -> bool:
        """One thread wants the same element of both, which `alike` must have the same extents. False if impossible."""
        same = len(a.shape) == len(b.shape) and all(map(integers.equal, a.shape, b.shape))
        if a.owner is not b.owner or len(a.shape) != len(b.shape) or (alike and not same):
            return False
        if a is not b and len(a.shape) == 1 and {a, b} & self.forced:  # these have one holder of an element
            self.conflicts |= {a, b}
        elif a is not b:
            self.classes.join(a, b)
            if len(a.shape) == 1:
                self.vectors.join(a, b)
            elif not same:
                self.rows |= {a, b}
        return True

    def run_along(self, tile: ir.Fragment, vector: ir.Fragment, dimension: int) -> None:
        """Threads want the elements of a vector that belong to their rows (dimension 0) or columns of a tile."""
        if vector in self.forced:
            return
        if tile.owner is not vector.owner:
            self.conflicts.add(vector)
            return
        self.rows.add(tile)
        self.classes.join(tile, vector)
        self.along.setdefault(vector, set()).add(dimension)


class _Planner:
    def __init__(self, block: ir.Region, widths: Mapping[Level, int], threads: int, shuffles: bool) -> None:
        self.widths = widths
        self.threads = threads
        self.shuffles = shuffles
        self.statements: list[tuple[ir.Stmt, bool]] = []  # with whether only some threads of the unit may get there
        self.joint: set[int] = set()  # loads that the unit, which is the block, carries out as one
        self.collect(block.body, (block,), frozenset(), False)
        self.views = in_place(block)
        self.fragments = list(dict.fromkeys(n for n in walk(block) if isinstance(n, ir.Fragment)))
        self.slots = {f for f in self.fragments if f.slots}
        written = {
            a.buffer for n in walk(block) if isinstance(n, ir.Stmt) for a in of_statement(n) if a.mode is not READ
        }
        read = {n.view.buffer for n in walk(block) if isinstance(n, ir.Load)}
        read |= {n.view.buffer for n in walk(block) if isinstance(n, ir.MmaLoad)}
        self.changing = written & read  # buffers of which one statement may read what another stored
        self.sharing: dict[ir.Buffer, list[ir.Fragment]] = {}  # the fragments that go through them, element by element
        for s, _ in self.statements:
            fragment = primary(s)
            for node in walk(s) if fragment is not None and not isinstance(s, ir.Mma) else ():
                if fragment is not None and isinstance(node, ir.View) and node.buffer in self.changing:
                    self.sharing.setdefault(node.buffer, []).append(fragment)

    # -------------------------------------------------------------------------------------------- what there is

    def collect(self, body: ir.Body, chain: tuple[ir.Region, ...], names: frozenset[str], unsure: bool) -> None:
        """`names` are variables in which conditions and loop bounds on the way depend, `unsure`: also on others."""
        for s in body:
            if isinstance(s, ir.Apply) or not bodies(s):
                fragment = primary(s)
                if fragment is not None:
                    divergent = unsure or self.divergent(fragment, chain, names)
                    self.statements.append((s, divergent))
                    if isinstance(s, ir.MmaLoad) and chain[-1].level is not Level.THREAD and not divergent:
                        self.joint.add(id(s))
                continue
            inner, more, doubt = chain, names, unsure
            if isinstance(s, ir.Region):
                inner = (*chain, s)
            elif not isinstance(s, ir.Scope):
                heads = tuple(getattr(s, n) for n in ("condition", "predicate", "start", "stop") if hasattr(s, n))
                more = names | {n.name for n in walk(heads) if isinstance(n, ir.Var)}
                if chain[-1].level is Level.THREAD:  # scalars differ between threads there
                    loose = (ir.Role.LET, ir.Role.MUTABLE)
                    doubt = doubt or any(
                        isinstance(n, ir.Load) or (isinstance(n, ir.Var) and n.role in loose) for n in walk(heads)
                    )
            for nested in bodies(s):
                self.collect(nested, inner, more, doubt)

    def divergent(self, fragment: ir.Fragment, chain: tuple[ir.Region, ...], names: frozenset[str]) -> bool:
        inner = [r for r in chain if r.level is not None and r.level.depth > fragment.owner.depth]
        return any(var.name in names for region in inner for var in region.indices)

    def width(self, fragment: ir.Fragment) -> int:
        return self.widths.get(fragment.owner, self.threads)

    # ------------------------------------------------------------------------------------------------ decisions

    def plan(self) -> Plan:
        forced = {f for f in self.fragments if _shape(f) is None}
        for s, divergent in self.statements:
            if isinstance(s, ir.Mma):
                operands = {o.fragment for o in (s.a, s.b, s.metadata) if isinstance(o, ir.FragmentRef)}
                forced |= operands - set(self.views)
            elif isinstance(s, ir.Apply):
                forced |= self.across(s, divergent)
        while True:
            layouts, conflicts, by_lanes = self.deal(forced)
            if conflicts <= forced:
                break
            forced |= conflicts
        shared = {f for f in forced if f not in self.views}
        copies = {id(s) for s, _ in self.statements if isinstance(s, ir.MmaLoad) and self.copied(s, shared)}
        return Plan(layouts, frozenset(shared), self.views, frozenset(by_lanes), frozenset(copies))

    def copied(self, s: ir.MmaLoad, shared: set[ir.Fragment]) -> bool:
        view, fragment = s.view, s.target.fragment
        joint = id(s) in self.joint and self.width(fragment) == self.threads and fragment in shared
        whole = view.buffer.storage is ir.Storage.GLOBAL and not view.checks and not view.zfill
        return joint and whole and view.buffer.dtype is fragment.dtype

    def across(self, s: ir.Apply, divergent: bool) -> set[ir.Fragment]:
        """Fragments of which an `apply` touches elements that no layout gives the same thread."""
        subject, at = s.fragment.fragment, s.indices
        job = reduction(s)
        by_lanes = job is not None and not divergent and self.reducible(job)
        if len(dealt_dims(s)) < len(s.indices) and not by_lanes:
            return {subject, *(f for f, _, _ in elements(s))}
        found = set()
        for fragment, index, stored in elements(s):
            along = len(at) == 2 and len(index) == 1 and index[0] in at and (by_lanes or not stored)
            if fragment.owner is not subject.owner or not (index == at or along):
                found.add(fragment)
        return found

    def deal(self, forced: set[ir.Fragment]) -> tuple[dict[ir.Fragment, Layout], set[ir.Fragment], set[int]]:
        """Layouts if `forced` lie in shared storage, those that cannot stay in registers then, and reductions."""
        conflicts: set[ir.Fragment] = set()
        by_lanes: set[int] = set()
        uses = _Uses(forced, conflicts)
        for s, divergent in self.statements:
            if isinstance(s, (ir.FragmentOp, ir.FragmentCopy)):
                operand = s.value if isinstance(s, ir.FragmentOp) else s.source
                if isinstance(operand, ir.FragmentRef) and not uses.together(operand.fragment, s.target.fragment, True):
                    conflicts.add(operand.fragment)
                continue
            job = reduction(s)
            if job is not None and not divergent and self.reducible(job):
                by_lanes.add(id(s))
                uses.rows.add(job.tile)
                uses.run_along(job.tile, job.target.fragment, 1 - job.axis)
            elif isinstance(s, ir.FragmentReduce) and job is not None:
                conflicts |= {job.tile, job.target.fragment}
            if isinstance(s, ir.Apply) and (id(s) in by_lanes or len(dealt_dims(s)) == len(s.indices)):
                subject = s.fragment.fragment
                for fragment, index, _ in elements(s):
                    if len(s.indices) == 2 and len(index) == 1 and index[0] in s.indices:
                        uses.run_along(subject, fragment, s.indices.index(index[0]))
                    elif index == s.indices:
                        uses.together(subject, fragment)
                if len(s.indices) == 1 and self.once(s):
                    uses.single |= {subject, *(f for f, _, _ in elements(s))}
        for fragments in self.sharing.values():
            for other in fragments[1:]:
                uses.together(fragments[0], other, True)
        return self.layouts(uses), conflicts, by_lanes

    def once(self, s: ir.Apply) -> bool:
        """Whether only one thread may run an `apply` for an element: several may if all that they do is to change
        their copies of fragments, or to store what nobody reads."""
        if any(isinstance(n, ir.Load) and n.view.buffer in self.changing for n in walk(s.body)):
            return True
        effects = [n for n in walk(s.body) if isinstance(n, _EFFECTS)]
        if not all(isinstance(n, ir.Store) and n.view.buffer not in self.changing for n in effects):
            return True
        return bool(effects) and any(isinstance(n, ir.FragmentStore) for n in walk(s.body))

    def reducible(self, job: Reduction) -> bool:
        """Whether the holders of a row can reduce it among themselves."""
        source, target = job.tile, job.target.fragment
        same = source.owner is target.owner
        return self.shuffles and same and len(source.shape) == 2 and not {source, target} & self.slots

    def layouts(self, uses: _Uses) -> dict[ir.Fragment, Layout]:
        """The layout of every fragment; vectors that would need two become conflicts."""
        classes, vectors = uses.classes, uses.vectors
        tiles: dict[ir.Fragment, list[tuple[int, int]]] = {}
        for f in self.fragments:
            shape = _shape(f)
            if shape is not None and len(shape) == 2:
                tiles.setdefault(classes.of(f), []).append((shape[0], shape[1]))
        dealt = {classes.of(f) for f in uses.rows}
        lanes = {each: lanes_for(self.width(each), tiles.get(each, [])) for each in dealt}
        dimensions: dict[ir.Fragment, set[int]] = {}
        for f, found in uses.along.items():
            dimensions.setdefault(vectors.of(f), set()).update(found)
        single = {vectors.of(f) for f in uses.single}
        layouts: dict[ir.Fragment, Layout] = {}
        for f in self.fragments:
            shape, width, unit = _shape(f), self.width(f), classes.of(f)
            if shape is None:
                continue
            if len(shape) == 2 and unit in dealt:
                layouts[f] = Rows(width, (shape[0], shape[1]), lanes[unit])
            elif len(shape) == 1 and f not in uses.forced and vectors.of(f) in dimensions:
                wanted = dimensions[vectors.of(f)]
                if len(wanted) > 1 or vectors.of(f) in single or unit not in dealt:
                    uses.conflicts.add(f)
                    layouts[f] = Linear(width, shape)
                else:
                    layouts[f] = Along(width, shape[0], lanes[unit], min(wanted))
            else:
                layouts[f] = plain(width, shape)
        return layouts
