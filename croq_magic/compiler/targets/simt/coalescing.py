"""Where a warp's accesses of device memory are spread over more sectors than they need.

A request of a warp moves whole sectors of 32 bytes. For every element access in the code of threads, the addresses of
the first warp's lanes are computed with all other indices at their lower bounds, and the sectors counted. Where another
order of a region's indices would need fewer, the note says which: the first index is the one neighbouring lanes differ
in.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from croq_magic.compiler import evaluate, integers, ir
from croq_magic.compiler.diagnostics import Note
from croq_magic.compiler.targets.simt.expressions import buffer_offset
from croq_magic.compiler.targets.simt.threads import Threads, positions
from croq_magic.compiler.visit import children, walk

SECTOR = 32  # bytes
LANES = 32
WORSE = 4  # times as many sectors as needed are worth a note

Chain = tuple[ir.Region, ...]
Access = ir.Load | ir.Store | ir.Atomic


@dataclasses.dataclass(frozen=True)
class Finding:
    """One access: the sectors of a request, and the best order of the indices of the innermost region, if another is
    better, with its sectors."""

    access: Access
    sectors: int
    needed: int
    order: tuple[str, ...] = ()
    best: int = 0

    @property
    def note(self) -> Note | None:
        if self.access.span is None:
            return None
        verb = "loads" if isinstance(self.access, ir.Load) else "stores"
        name = self.access.view.buffer.name
        text = f"a warp {verb} `{name}` in {self.sectors} sectors a request, {self.needed} would do"
        if self.order:
            text += f"; with the indices as `{{{', '.join(self.order)}}}` it is {self.best}"
        return Note(text, self.access.span)


def notes(block: ir.Region, threads: Threads) -> list[Note]:
    """What to say about the accesses of a kernel, one note a place and array."""
    found: dict[tuple[object, ...], Note] = {}
    for finding in findings(block, threads):
        note = finding.note
        if note is not None and finding.sectors >= WORSE * finding.needed:
            found.setdefault((note.message, finding.access.span), note)
    return list(found.values())


def findings(block: ir.Region, threads: Threads) -> Iterator[Finding]:
    """All element accesses of device memory in the code of threads whose addresses are known."""
    if threads.count is None or threads.count < LANES:
        return
    for access, chain in _accesses(block, ()):
        sectors = _sectors(access, chain, threads)
        if sectors is None:
            continue
        size = access.view.buffer.dtype.size
        needed = max(1, LANES * size // SECTOR)
        orders = [
            (count, order)
            for order in itertools.permutations(range(len(chain[-1].indices)))
            if (count := _sectors(access, _reordered(chain, order), threads)) is not None
        ]
        best, order = min(orders)
        better = best < sectors
        names = tuple(chain[-1].indices[i].name for i in order) if better else ()
        yield Finding(access, sectors, min(needed, sectors), names, best if better else 0)


def _accesses(node: ir.Node, chain: Chain) -> Iterator[tuple[Access, Chain]]:
    for child in children(node):
        if isinstance(child, ir.Region):
            yield from _accesses(child, (*chain, child))
            continue
        of_threads = bool(chain) and chain[-1].level is ir.Level.THREAD
        is_access = of_threads and isinstance(child, (ir.Load, ir.Store, ir.Atomic))
        if is_access and child.view.buffer.storage is ir.Storage.GLOBAL:  # type: ignore[attr-defined]
            yield child, chain  # type: ignore[misc]
        yield from _accesses(child, chain)


def _reordered(chain: Chain, order: Sequence[int]) -> Chain:
    last = chain[-1]
    indices, extents = tuple(last.indices[i] for i in order), tuple(last.extents[i] for i in order)
    return (*chain[:-1], dataclasses.replace(last, indices=indices, extents=extents))


def _sectors(access: Access, chain: Chain, threads: Threads) -> int | None:
    """Sectors that the lanes of the first warp touch."""
    places = positions(threads, chain)
    if places is None:
        return None
    offset = buffer_offset(access.view, access.index)
    names = evaluate.free_variables((offset,))
    fixed = {node.name: node for node in _variables(offset)}
    try:
        address = evaluate.function((offset,), names)
    except ValueError:
        return None
    touched = set()
    for lane in range(LANES):
        values = [places[name][lane] if name in places else _least(fixed[name]) for name in names]
        try:
            place = address(*values)[0]
        except ZeroDivisionError:
            return None
        touched.add(int(place) * access.view.buffer.dtype.size // SECTOR)
    return len(touched)


def _variables(e: ir.Expr) -> Iterator[ir.Var]:
    return (node for node in walk(e) if isinstance(node, ir.Var))


def _least(var: ir.Var) -> int:
    """A value that a variable may have; symbolic dimensions are large, as strides should be."""
    if var.role is ir.Role.DIM:
        return 1024
    return integers.interval(var)[0] or 0
