"""Vector loops as C++ with explicit vector types.

`for vector j in 0..32 unroll(2)` runs its statements twice on vectors of 16 lanes. Consecutive elements are loaded and
stored as vectors, an element that is the same for all lanes is a scalar operand, and anything else is gathered lane by
lane. A `REGISTER` buffer that only such loops touch is an array of vectors with constant indices once rows are
unrolled, which g++ and clang keep in registers (measured with g++ 12 and clang 20, also over a loop with copies).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from croq_magic.compiler import affine, integers, ir
from croq_magic.compiler.targets.emit_cxx import TIMES, Unsupported, compute_type, ctype
from croq_magic.compiler.types import DType
from croq_magic.compiler.visit import children, substitute, walk

if TYPE_CHECKING:
    from croq_magic.compiler.targets.cpu.statements import Statements


def lanes(loop: ir.For) -> int:
    """Lanes of a vector loop."""
    size = integers.value(loop.stop)
    assert size is not None and integers.value(loop.start) == 0 and loop.step == 1
    return size // (loop.unroll or 1)


def vector_name(dtype: DType, count: int) -> str:
    """Name of a vector type; with `_at` appended, of the same type at any element's address."""
    return f"{ctype(dtype)}x{count}"


def typedefs(used: set[tuple[DType, int]]) -> list[str]:
    """Definitions of vector types, in a stable order."""
    lines = []
    for dtype, count in sorted(used, key=lambda pair: vector_name(*pair)):
        name, size = vector_name(dtype, count), count * dtype.size
        c = ctype(dtype)
        lines.append(f"typedef {c} {name} __attribute__((vector_size({size})));")
        lines.append(f"typedef {c} {name}_at __attribute__((vector_size({size}), aligned({dtype.size}), may_alias));")
    return lines


def resident_buffers(body: ir.Body) -> dict[int, int]:
    """The `REGISTER` buffers that can be arrays of vectors, by id, with their lanes: every access is a whole vector at
    a place that unrolling makes constant."""
    found: dict[int, int] = {}
    refused: set[int] = set()
    unrolled: set[str] = set()

    def visit(statements: ir.Body, loop: ir.For | None) -> None:
        for s in statements:
            # Conditions and bounds are scalars: what they read is no vector.
            for part in children(s):
                for n in walk(part) if not isinstance(part, ir.Stmt) and _has_bodies(s) else ():
                    if isinstance(n, ir.View) and n.buffer.storage is ir.Storage.REGISTER:
                        refused.add(id(n.buffer))
            if isinstance(s, ir.For):
                if s.kind is ir.LoopKind.UNROLL:
                    unrolled.add(s.var.name)
                visit(s.body, s if s.kind is ir.LoopKind.VECTOR else loop)
                continue
            if _has_bodies(s):
                for name in _BODIES:
                    visit(getattr(s, name, ()), None)
                continue
            for n in walk(s):
                used_as_a_view = isinstance(n, ir.View) and not isinstance(s, (ir.Store, ir.Let))
                if isinstance(n, ir.View) and used_as_a_view and n.buffer.storage is ir.Storage.REGISTER:
                    refused.add(id(n.buffer))
                if isinstance(n, (ir.Load, ir.Store)) and n.view.buffer.storage is ir.Storage.REGISTER:
                    count = _whole_vector(n, loop, unrolled)
                    if not count or found.setdefault(id(n.view.buffer), count) != count:
                        refused.add(id(n.view.buffer))

    visit(body, None)
    return {key: count for key, count in found.items() if key not in refused}


_BODIES = ("body", "then", "other")


def _has_bodies(s: ir.Stmt) -> bool:
    return any(hasattr(s, name) for name in _BODIES)


def _whole_vector(access: ir.Load | ir.Store, loop: ir.For | None, unrolled: set[str]) -> int:
    """Lanes of an access to a register buffer, 0 where it is not a whole vector at a constant place."""
    if loop is None:
        return 0
    count = lanes(loop)
    offset = affine.element(access)[1]
    step = affine.stride(offset, loop.var)
    row = integers.value(access.view.buffer.shape[-1]) if access.view.buffer.shape else None
    if step is None or integers.value(step) != 1 or row is None or row % count:
        return 0
    rest = integers.poly(integers.sub(offset, loop.var))
    names = {atom.name if isinstance(atom, ir.Var) else "?" for atom in rest.atoms()}
    whole = all(coefficient % count == 0 for _, coefficient in rest.terms)
    return count if whole and names <= unrolled else 0


class VectorLoop:
    """Emits one vector loop into `out`. `resident` are the register buffers that are arrays of vectors; the vector
    types that are needed are added to `used`."""

    def __init__(self, out: Statements, loop: ir.For, resident: dict[int, int], used: set[tuple[DType, int]]) -> None:
        self.out, self.loop, self.resident, self.used = out, loop, resident, used
        self.count = lanes(loop)
        self.first: ir.Expr = integers.ZERO  # value of the loop variable in lane 0
        self.vectors: set[str] = set()  # scalars of the body that hold vectors

    def emit(self) -> None:
        size = integers.value(self.loop.stop) or 0
        for start in range(0, size, self.count):
            self.first = integers.constant(start)
            self.vectors = set()
            with self.out.nest([""] if any(isinstance(s, ir.Let) for s in self.loop.body) else []):
                for s in self.loop.body:
                    self.out.at(s.span)
                    self._statement(s)

    def _statement(self, s: ir.Stmt) -> None:
        out = self.out
        if isinstance(s, ir.Let) and s.value is not None:
            text, wide = self._converted(s.value, s.var.dtype)
            out.define(s.var)
            if wide:
                self.vectors.add(s.var.name)
            kind = self._type(s.var.dtype) if wide else ctype(s.var.dtype)
            out.line(f"const {kind} {out.names.of(s.var)} = {text};")
        elif isinstance(s, ir.Store):
            self._store(s)
        else:
            raise Unsupported(f"`{type(s).__name__}` in a vector loop is not supported by the CPU target yet", s.span)

    def _store(self, s: ir.Store) -> None:
        dtype = s.view.buffer.dtype
        compute = compute_type(dtype) if s.op else dtype
        value, wide = self._converted(s.value, compute)
        target = self._vector_at(s.view, s.index)
        if target is None:
            raise Unsupported("a scattered store in a vector loop is not supported by the CPU target yet", s.span)
        if s.op:
            current = target if compute is dtype else f"__builtin_convertvector({target}, {self._type(compute)})"
            value, wide = f"{current} {s.op} {value}", True
            if compute is not dtype:
                value = f"__builtin_convertvector({value}, {self._type(dtype)})"
        vector = value if wide else self._splat(value, dtype)
        if s.streaming and target.startswith("*"):
            self.out.line(f"croq_stream({target[1:]}, {self._type(dtype)}({vector}));")
        else:
            self.out.line(f"{target} = {vector};")

    def _type(self, dtype: DType) -> str:
        self.used.add((dtype, self.count))
        return vector_name(dtype, self.count)

    def _splat(self, text: str, dtype: DType) -> str:
        """A vector of one value; `x - 0` is `x` for every x, negative zero included."""
        return f"{text} - {self._type(dtype)}{{}}"

    def _vector_at(self, view: ir.View, index: tuple[ir.Expr, ...]) -> str | None:
        """The lvalue of consecutive elements, None where they are not consecutive."""
        offset = self.out.expressions.offset_expr(view, index)
        step = affine.stride(offset, self.loop.var)
        if step is None or integers.value(step) != 1:
            return None
        start = self._at_first(offset)
        buffer = view.buffer
        if id(buffer) in self.resident:
            place = integers.floordiv(start, integers.constant(self.count))
            return f"{self.out.names.of(buffer)}[{self.out.expressions.index(place)}]"
        place_text = self.out.expressions.index(start)
        pointer = self.out.expressions.pointer(buffer)
        return f"*({self._type(buffer.dtype)}_at*)&{pointer}[{place_text}]"

    def _at_first(self, e: ir.Expr) -> ir.Expr:
        return integers.simplify(substitute(e, {self.loop.var: self.first}))

    def _converted(self, e: ir.Expr, dtype: DType) -> tuple[str, bool]:
        """A value as `dtype`, and whether it is a vector."""
        text, wide = self._value(e)
        if e.dtype is dtype:
            return text, wide
        if wide:
            return f"__builtin_convertvector({text}, {self._type(dtype)})", True
        return self.out.expressions.cast(text, e.dtype, dtype), False

    def _varies(self, e: ir.Expr) -> bool:
        return affine.depends(e, self.vectors | {self.loop.var.name})

    def _value(self, e: ir.Expr, parent: int = 0) -> tuple[str, bool]:
        """C++ text, bracketed unless it is one word or call, and whether it is a vector."""
        if not self._varies(e):
            return self.out.expressions.value(e, TIMES + 1), False
        if isinstance(e, ir.Var):
            if e.name in self.vectors:
                return self.out.names.of(e), True
            start = integers.value(self.first) or 0
            return f"{self._type(e.dtype)}{{{', '.join(str(start + lane) for lane in range(self.count))}}}", True
        if isinstance(e, ir.Load):
            return self._load(e), True
        if isinstance(e, ir.Binary):
            left, right = self._value(e.left)[0], self._value(e.right)[0]
            return f"({left} {e.op} {right})", True
        if isinstance(e, ir.Unary):
            return f"({e.op}{self._value(e.operand)[0]})", True
        if isinstance(e, ir.Cast):
            text, wide = self._converted(e.operand, e.dtype)
            return text, wide
        raise Unsupported(f"{type(e).__name__} in a vector loop is not supported by the CPU target yet")

    def _load(self, e: ir.Load) -> str:
        whole = self._vector_at(e.view, e.index)
        if whole is not None:
            return whole
        start = integers.value(self.first) or 0
        offset = self.out.expressions.offset_expr(e.view, e.index)
        pointer = self.out.expressions.pointer(e.view.buffer)
        places = (
            integers.simplify(substitute(offset, {self.loop.var: integers.constant(start + lane)}))
            for lane in range(self.count)
        )
        elements = ", ".join(f"{pointer}[{self.out.expressions.index(place)}]" for place in places)
        return f"{self._type(e.dtype)}{{{elements}}}"
