"""Where a warp's accesses of device memory are spread over more sectors than they need.

A request of a warp moves whole sectors of 32 bytes. For every element access in the code of threads, the addresses of
the lanes of the first warp that gets there are computed, with all other indices at their lower bounds, and the sectors
counted; of a copy from or to a thread's own storage that is its first access. Where another order of a region's indices
would need fewer, the note says which: the first index is the one neighbouring lanes differ in.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from croq_magic.compiler import evaluate, integers, ir
from croq_magic.compiler.diagnostics import Diagnostic, Severity
from croq_magic.compiler.passes.map_limits import WARP
from croq_magic.compiler.passes.vectorise_copies import width_of
from croq_magic.compiler.targets.emit_cxx import Unsupported
from croq_magic.compiler.targets.simt.expressions import buffer_offset
from croq_magic.compiler.targets.simt.threads import Threads, grid_chain, lanes_of, positions, threads_of
from croq_magic.compiler.types import BOOL
from croq_magic.compiler.visit import children, substitute, walk

SECTOR = 32  # bytes
WORSE = 4  # times as many sectors as needed are worth a note
CODE = "PRF01"
_MAX_INDICES = 4  # of a region whose orders are tried
_LARGE = 1024  # stands for a symbolic dimension: as large as strides should be

Chain = tuple[ir.Region, ...]
Access = ir.Load | ir.Store | ir.Atomic | ir.Copy
Conditions = tuple[ir.Expr, ...]


@dataclasses.dataclass(frozen=True)
class Finding:
    """One access: the sectors of a request, how few would do for the elements of its lanes, and the best order of the
    indices of the innermost region, if another is better, with its sectors."""

    access: Access
    sectors: int
    needed: int
    order: tuple[str, ...] = ()
    best: int = 0

    @property
    def message(self) -> str:
        view, _, _ = _memory(self.access)
        verb = "updates" if isinstance(self.access, ir.Atomic) else "loads"
        if isinstance(self.access, ir.Store) or (isinstance(self.access, ir.Copy) and view is self.access.dst):
            verb = "stores"
        return f"a warp {verb} `{view.buffer.name}` in {self.sectors} sectors a request, {self.needed} would do"

    @property
    def hint(self) -> str | None:
        if not self.order:
            return None
        return f"with the indices as `{{{', '.join(self.order)}}}` it is {self.best}: lanes differ in the first one"


def advice(functions: Iterable[ir.Function]) -> list[Diagnostic]:
    """Notes about the accesses of all kernels, after the passes of a target: one a place and array."""
    found: dict[tuple[object, ...], Diagnostic] = {}
    for function in functions:
        for launch in function.launches():
            try:
                block = grid_chain(launch.kernel.region)[-1]
            except Unsupported:
                continue
            for finding in findings(block, threads_of(block)):
                span = finding.access.span or _memory(finding.access)[0].span
                if span is None or finding.sectors < WORSE * finding.needed:
                    continue
                note = Diagnostic(Severity.NOTE.value, CODE, finding.message, span, hint=finding.hint)
                found.setdefault((note.message, span), note)
    return list(found.values())


def findings(block: ir.Region, threads: Threads) -> Iterator[Finding]:
    """All element accesses of device memory in the code of threads whose addresses are known."""
    if threads.count is None or threads.count < WARP:
        return
    values = _values(block)
    for access, chain, conditions in _accesses(block, (), ()):
        counted = _sectors(access, chain, conditions, threads, values)
        if counted is None:
            continue
        sectors, needed = counted
        indices = chain[-1].indices
        orders = [
            (found[0], order)
            for order in itertools.permutations(range(len(indices)) if len(indices) <= _MAX_INDICES else ())
            if (found := _sectors(access, _reordered(chain, order), conditions, threads, values)) is not None
        ]
        best, order = min(orders, default=(sectors, ()))
        better = best < sectors
        names = tuple(indices[i].name for i in order) if better else ()
        yield Finding(access, sectors, needed, names, best if better else 0)


def _accesses(node: ir.Node, chain: Chain, conditions: Conditions) -> Iterator[tuple[Access, Chain, Conditions]]:
    """Element accesses with the regions and the conditions around them."""
    if isinstance(node, (ir.If, ir.Masked)):
        tested = node.condition if isinstance(node, ir.If) else node.predicate
        yield from _accesses(tested, chain, conditions)
        for s in node.then if isinstance(node, ir.If) else node.body:
            yield from _accesses(s, chain, (*conditions, tested))
        for s in node.other if isinstance(node, ir.If) else ():
            yield from _accesses(s, chain, (*conditions, ir.Unary("!", tested, BOOL)))
        return
    if isinstance(node, ir.Region) and node.level is not ir.Level.BLOCK:
        chain = (*chain, node)
    of_threads = bool(chain) and chain[-1].level is ir.Level.THREAD
    if of_threads and isinstance(node, (ir.Load, ir.Store, ir.Atomic, ir.Copy)):
        view, _, _ = _memory(node)
        if view.buffer.storage is ir.Storage.GLOBAL and (not isinstance(node, ir.Copy) or _is_plain(node)):
            yield node, chain, conditions
    for child in children(node):
        yield from _accesses(child, chain, conditions)


def _memory(access: Access) -> tuple[ir.View, tuple[ir.Expr, ...], int]:
    """What an access is to: the view (of a copy the one in device memory), the index, and how many bytes."""
    if isinstance(access, ir.Copy):
        view = access.src if access.src.buffer.storage is ir.Storage.GLOBAL else access.dst
        return view, (integers.ZERO,) * view.rank, width_of(access)
    return access.view, access.index, access.view.buffer.dtype.size


def _is_plain(copy: ir.Copy) -> bool:
    """Whether a thread copies between device memory and its own storage, from the first element on."""
    storages = {copy.src.buffer.storage, copy.dst.buffer.storage}
    private = storages <= {ir.Storage.GLOBAL, ir.Storage.LOCAL} and len(storages) == 2
    return private and not (copy.pad or copy.permutation or copy.partial or copy.compressed or copy.src.zfill)


def _values(block: ir.Region) -> dict[str, ir.Expr | None]:
    """What variables stand for: the value of immutable scalars, the start of loops; None for what changes."""
    found: dict[str, ir.Expr | None] = {}
    for node in walk(block):
        if isinstance(node, ir.Let):
            found[node.var.name] = None if node.var.role is ir.Role.MUTABLE else node.value
        elif isinstance(node, (ir.Atomic, ir.Call)) and node.result is not None:
            found[node.result.name] = None
        elif isinstance(node, ir.For):
            found[node.var.name] = node.start
    return found


def _resolved(e: ir.Expr, values: dict[str, ir.Expr | None]) -> ir.Expr | None:
    """An expression over indices of regions, dimensions and parameters; None where a value is not known."""
    while True:
        named = {n for n in walk(e) if isinstance(n, ir.Var) and n.name in values}
        if not named:
            return e
        known = {var: values[var.name] for var in named}
        if any(value is None for value in known.values()):
            return None
        e = integers.simplify(substitute(e, known))  # type: ignore[arg-type]


def _reordered(chain: Chain, order: Sequence[int]) -> Chain:
    last = chain[-1]
    indices, extents = tuple(last.indices[i] for i in order), tuple(last.extents[i] for i in order)
    return (*chain[:-1], dataclasses.replace(last, indices=indices, extents=extents))


def _sectors(
    access: Access, chain: Chain, conditions: Conditions, threads: Threads, values: dict[str, ir.Expr | None]
) -> tuple[int, int] | None:
    """Sectors that the lanes of a warp touch, and how few would do for their elements; None if that is not known."""
    places = positions(threads, chain)
    count = integers.value(lanes_of(chain))
    view, index, size = _memory(access)
    offset = _resolved(buffer_offset(view, index), values)
    if places is None or count is None or offset is None:
        return None
    address = _of_thread(offset, places)
    tests = [test for c in conditions if (test := _of_thread(_resolved(c, values), places)) is not None]
    if address is None:
        return None
    unit = view.buffer.dtype.size
    try:
        for first in range(0, count, WARP):
            lanes = [t for t in range(first, min(first + WARP, count)) if all(test(t) for test in tests)]
            if lanes:
                elements = {int(address(t)) for t in lanes}
                sectors = {element * unit // SECTOR for element in elements}
                return len(sectors), -(-len(elements) * size // SECTOR)
    except ZeroDivisionError:
        pass
    return None


def _of_thread(e: ir.Expr | None, places: dict[str, list[int]]) -> Callable[[int], Any] | None:
    """An expression as a function of the thread's number; None if it depends on elements of arrays."""
    if e is None:
        return None
    variables = {n.name: n for n in walk(e) if isinstance(n, ir.Var)}
    try:
        compute = evaluate.function((e,), list(variables))
    except ValueError:
        return None
    columns = [places[name] if name in places else _least(var) for name, var in variables.items()]
    return lambda t: compute(*(c if isinstance(c, int) else c[t] for c in columns))[0]


def _least(var: ir.Var) -> int:
    """A value that a variable may have."""
    return _LARGE if var.role is ir.Role.DIM else integers.interval(var)[0] or 0
