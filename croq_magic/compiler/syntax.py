"""The syntax tree: one class for each construct of the language, named with the grammar's own words.

Nodes are frozen, compare by identity (so they can be keys of a dict) and carry the `span` of their text. Names that
are declared or assigned carry their own span (`Name`). `walk()` visits a tree; `syntax_text.py` prints one.
Nothing here knows types: `x[2]` is a `BufferRef` until a name says that `x` is a shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Literal

from croq_magic.compiler.node import Record, identity_node
from croq_magic.compiler.source import Span

Storage = Literal["global", "shared", "local"]


@identity_node
class Node(Record):
    span: Span


@identity_node
class Name(Node):
    """An identifier where it is declared, assigned or referred to."""

    text: str

    def __str__(self) -> str:
        return self.text


@identity_node
class ElemType(Node):
    """A scalar type word. `name` is canonical (`half` is "f16", `float` is "f32"); `word` is as written.

    `int` and `bool` keep their names: "int" is not "s32" (types-and-shapes section 2).
    """

    name: str
    word: str


@identity_node
class StorageWord(Node):
    word: Storage


@identity_node
class Level(Node):
    """`device`, `cluster`, `block`, `group-4`, `group`, `thread` or `term`."""

    word: str


# ---- expressions -----------------------------------------------------------------------------------------------


@identity_node
class Expr(Node):
    pass


@identity_node
class IntLit(Expr):
    """`type` follows from suffix and size: "int", "s64", "u32" or "u64"."""

    value: int
    type: str


@identity_node
class FloatLit(Expr):
    value: float
    is_f32: bool


@identity_node
class BoolLit(Expr):
    value: bool


@identity_node
class StringLit(Expr):
    """Neighbouring strings are joined and escapes replaced."""

    value: str


@identity_node
class InfLit(Expr):
    pass


@identity_node
class NullPtr(Expr):
    pass


@identity_node
class Wildcard(Expr):
    """`_` as an argument of a view."""


@identity_node
class NameRef(Expr):
    """A name used as a value."""

    text: str


@identity_node
class BufferRef(Expr):
    """`t[i][j]`, `f.data`, `f.data[i]`, `f.mdata`. As the base of a view, an element or `.span` also a plain name.

    In a shape context a `BufferRef` with one subscript may turn out to be a derivation of a one-dimensional shape:
    see `as_derivation`.
    """

    name: Name
    subscripts: tuple[Expr, ...] = ()
    data: Literal["data", "mdata"] | None = None


@identity_node
class SpanOf(Expr):
    """`x.span`, `f.data.span`, `t[0].span`."""

    base: BufferRef


@identity_node
class ElemRef(Expr):
    """`x.at(i, j)`, `f.data.at(i)`, `t[k].at(i)`; for an event array the generation: `e.at(k)`."""

    base: BufferRef
    index: tuple[Expr, ...]


@identity_node
class TupleLit(Expr):
    """`{a, b}`: an ituple."""

    items: tuple[Expr, ...]


@identity_node
class ShapeLit(Expr):
    """`[a, b]`: a shape."""

    items: tuple[Expr, ...]


@identity_node
class DimRef(Expr):
    """`(k)` inside a derivation: dimension `k` of its base."""

    index: int


@identity_node
class Derivation(Expr):
    """`s[(0), (1) / 2]` or `x.span[...]` (kind "shape"), `t {(1), (0)}` (kind "ituple")."""

    base: NameRef | SpanOf
    items: tuple[Expr, ...]
    kind: Literal["shape", "ituple"]


@identity_node
class Pick(Expr):
    """`e(k)`: element `k` of a shape or an ituple, or value `k` of a bounded integer; `index` may be negative."""

    base: Expr
    index: Expr


@identity_node
class Extent(Expr):
    """`#p`."""

    name: Name


@identity_node
class Paren(Expr):
    """`(e)`. Kept, because `(k)` in a derivation and warnings about precedence need it."""

    inner: Expr


@identity_node
class Unary(Expr):
    """Prefix `! ~ - + ++ --`."""

    op: str
    operand: Expr


@identity_node
class Postfix(Expr):
    """`k++`, `k--`."""

    op: Literal["++", "--"]
    operand: Expr


@identity_node
class Binary(Expr):
    """Every infix operator, `#` (compose) and `#+ #- #* #/ #%` included."""

    op: str
    left: Expr
    right: Expr


@identity_node
class Ternary(Expr):
    condition: Expr
    then: Expr
    other: Expr


@identity_node
class Count(Expr):
    """`|e|`: the number of elements of a span, a shape or a shape expression."""

    operand: Expr


@identity_node
class SizeOf(Expr):
    """`|f16|`: the bytes of one element."""

    type: ElemType


@identity_node
class Builtin(Expr):
    """A mathematical function, `cdiv`, `__alignup` or `__aligndown`. The number of arguments is not checked here."""

    name: Name
    args: tuple[Expr, ...]


@identity_node
class Cast(Expr):
    """`__to<f32>(e)`, or `__to<"T*">(e)` with a string."""

    type: ElemType | StringLit
    operand: Expr


@identity_node
class AddressOf(Expr):
    """`&x`, `&x.at(i)`: an argument of a call only."""

    operand: NameRef | BufferRef | ElemRef


@identity_node
class QName(Node):
    """`f` or `a::b::f`."""

    parts: tuple[Name, ...]

    @property
    def text(self) -> str:
        return "::".join(part.text for part in self.parts)


@identity_node
class TypeArg(Expr):
    """A type word as a template argument."""

    type: ElemType


@identity_node
class NameArg(Expr):
    """A qualified name with `::` as a template argument."""

    name: QName


@identity_node
class CallLike(Expr):
    """`CallExpr`, `IntrinsicCall`, `AtomicCall`, `BarrierCall`: a statement or a whole right-hand side, never an
    operand. The parser lets them stand in expressions; the checker explains (CAL06)."""


@identity_node
class CallExpr(CallLike):
    """`call f<T, 4>(a, b)`."""

    callee: QName
    template_args: tuple[Expr, ...]
    args: tuple[Expr, ...]


@identity_node
class IntrinsicCall(CallLike):
    """`hw_go(1)`, `vendor::op(a, b)`: a call without `call`. Whether it is registered is the checker's business.

    `x = hw_read(3)` with one plain argument looks like `x = s(3)` and is parsed as `Pick`.
    """

    callee: QName
    args: tuple[Expr, ...]


@identity_node
class AtomicCall(CallLike):
    """`__atomic_add(x.at(i), 1)`; `name` has the prefix."""

    name: Name
    args: tuple[Expr, ...]


@identity_node
class BarrierCall(CallLike):
    """`__bar_sync(id, n)`, `__bar_arrive(id, n)`."""

    name: Name
    args: tuple[Expr, ...]


@identity_node
class Select(Expr):
    """`select(c, v0, v1, ...)`: right-hand side, destination or source of a transfer."""

    selector: Expr
    choices: tuple[Expr, ...]


# ---- views -----------------------------------------------------------------------------------------------------


@identity_node
class ViewOp(Node):
    pass


@identity_node
class ChunkAt(ViewOp):
    """`.chunkat(p, _)`."""

    items: tuple[Expr, ...]


@identity_node
class Chunk(ViewOp):
    """`.chunk(4, 1).at(n, 0)`."""

    counts: tuple[Expr, ...]
    at: tuple[Expr, ...]


@identity_node
class Subspan(ViewOp):
    """`.subspan(e, f : s, t).step(a, b).at(i, j)`, `.modspan(...)`. What is not written is None."""

    kind: Literal["subspan", "modspan"]
    extents: tuple[Expr, ...]
    strides: tuple[Expr, ...] | None = None
    step: tuple[Expr, ...] | None = None
    at: tuple[Expr, ...] | None = None


@identity_node
class Window(ViewOp):
    """`.view(e, f : s, t).from(i, j)`."""

    extents: tuple[Expr, ...]
    strides: tuple[Expr, ...] | None = None
    origin: tuple[Expr, ...] | None = None


@identity_node
class SpanAs(ViewOp):
    """`.span_as([a, b])`; `items` are as written, so one `ShapeLit` or a list."""

    items: tuple[Expr, ...]


@identity_node
class Squeeze(ViewOp):
    """`.sqz()`."""


@identity_node
class ZeroFill(ViewOp):
    """`.zfill` at the end of a source."""


@identity_node
class View(Expr):
    """A buffer and operations on it, left to right. Where the grammar says `view` (transfers, matrix operands) a
    plain buffer is a `View` without operations; elsewhere it is a `NameRef` or a `BufferRef`."""

    base: BufferRef
    ops: tuple[ViewOp, ...] = ()


# ---- statements: declarations and assignments ------------------------------------------------------------------


@identity_node
class Stmt(Node):
    pass


@identity_node
class Block(Stmt):
    """`{ ... }`. Bodies that are one statement without braces are that statement."""

    body: tuple[Stmt, ...]


@identity_node
class Empty(Stmt):
    """A stray `;`, or the body of `while (e);`."""


@identity_node
class MdspanDecl(Stmt):
    """`s : [4, 2]`, `mdspan<2> s : x.span`. `keyword` tells whether `mdspan` is written."""

    name: Name
    value: Expr
    rank: IntLit | None = None
    keyword: bool = False


@identity_node
class ItupleDecl(Stmt):
    """`ituple<2> t = {1, 2}`. Without the keyword it is an `Assign`."""

    name: Name
    value: Expr
    rank: IntLit | None = None


@identity_node
class ScalarItem(Node):
    """`k`, `k = e` or `k {e}`."""

    name: Name
    value: Expr | None
    braces: bool = False


@identity_node
class ScalarDecl(Stmt):
    """`mutable s32 k = 0, j`, `mutable k = 2`. A storage word is a mistake that the checker reports (STO03)."""

    mutable: bool
    type: ElemType | None
    items: tuple[ScalarItem, ...]
    storage: StorageWord | None = None


@identity_node
class BufferItem(Node):
    """`t`, `t[3]`, `t {0}` in a declaration of spans or fragments."""

    name: Name
    array: tuple[Expr, ...] = ()
    value: Expr | None = None


@identity_node
class SpanDecl(Stmt):
    """`shared f32 [16, K] a, b[2] {0}`."""

    storage: StorageWord | None
    type: ElemType
    dims: tuple[Expr, ...]
    items: tuple[BufferItem, ...]


@identity_node
class FragDecl(Stmt):
    """`frag f32 [16, 8] c`, `frag f32 [auto] c`, `frag.f32 c {0}`, `frag c {0}`. `dims` None stands for `[auto]` and
    for forms without a shape."""

    type: ElemType | None
    dims: tuple[Expr, ...] | None
    items: tuple[BufferItem, ...]


@identity_node
class EventItem(Node):
    """`e`, `e[2]`, `e = ready`; `initial` is the word after `=`."""

    name: Name
    array: tuple[Expr, ...] = ()
    initial: Name | None = None


@identity_node
class EventDecl(Stmt):
    """`shared event<4> e, r[3] = ready`."""

    storage: StorageWord | None
    count: IntLit | None
    items: tuple[EventItem, ...]


@identity_node
class Assign(Stmt):
    """`x = e`, `x.at(i) += e`. `value` may be a `View`, a `Select` or a `CallLike`."""

    target: NameRef | BufferRef | ElemRef
    op: str
    value: Expr


@identity_node
class Assigns(Stmt):
    """`a = 1, b = 2`: two or more assignments from left to right."""

    items: tuple[Assign, ...]


# ---- statements: structure -------------------------------------------------------------------------------------


@identity_node
class Attribute(Node):
    """`[[launch_bounds(128, 2)]]`, `[[maxnreg(64)]]`."""

    name: Name
    args: tuple[Expr, ...]


@identity_node
class AxisGroup(Node):
    """One part of a `parallel` between commas: one level.

    `by 2` has no names; `p by 16` has names (p); `{a, b} by [3, 4]` has `braced`; `t = {a, b} by ...` has `whole` t.
    `bounds` are the items between the brackets, or the one expression.
    """

    names: tuple[Name, ...]
    whole: Name | None
    bounds: tuple[Expr, ...]
    braced: bool = False
    level: Level | None = None
    device: Name | None = None
    cooperative: bool = False


@identity_node
class Parallel(Stmt):
    attributes: tuple[Attribute, ...]
    is_async: bool
    stream: Name | None
    groups: tuple[AxisGroup, ...]
    body: Stmt


@identity_node
class Binding(Node):
    """`v in 8` (whole v), `{i, j} in [4, 8]` (names), `v = {i, j} in [4, 8]` (both)."""

    names: tuple[Name, ...]
    whole: Name | None
    bound: Expr


@identity_node
class Tie(Node):
    """`a <-> b`."""

    left: Name
    right: Name


@identity_node
class With(Stmt):
    bindings: tuple[Binding, ...]
    ties: tuple[Tie, ...]
    body: Stmt


@identity_node
class Range(Node):
    """`k`, `k(l:u:s)`, `c = k(1:)`: `name` is iterated, `alias` is what the body calls it. What is missing is None."""

    name: Name
    alias: Name | None = None
    lower: Expr | None = None
    upper: Expr | None = None
    step: IntLit | None = None


@identity_node
class Hint(Node):
    """`unroll`, `unroll(4)`, `vectorize(i, 8)`."""

    kind: Literal["unroll", "vectorize"]
    axis: Name | None = None
    factor: Expr | None = None


@identity_node
class Foreach(Stmt):
    """Either bindings (`foreach i in 4`) or ranges of names that are bound already (`foreach i, j(1:)`)."""

    bindings: tuple[Binding, ...]
    ranges: tuple[Range, ...]
    hints: tuple[Hint, ...]
    body: Stmt


@identity_node
class While(Stmt):
    condition: Expr
    body: Stmt


@identity_node
class If(Stmt):
    condition: Expr
    then: Stmt
    other: Stmt | None = None


@identity_node
class InThreads(Stmt):
    is_async: bool
    condition: Expr
    body: Stmt


@identity_node
class Apply(Stmt):
    """`apply {i, j} in s.span stmt`."""

    names: tuple[Name, ...]
    subject: Name
    body: Stmt


# ---- statements: data movement ---------------------------------------------------------------------------------


@identity_node
class PadConfig(Node):
    """`<{low}, {high}, {mid}, value>`."""

    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    mid: tuple[Expr, ...]
    value: Expr


@identity_node
class TransposeConfig(Node):
    """`<1, 0>`."""

    order: tuple[int, ...]


@identity_node
class Modifier(Node):
    """A suffix of a transfer: "swiz", "zfill", "multicast", "evict_first", "evict_last", "promote", "sp"."""

    name: str
    args: tuple[int, ...] = ()


@identity_node
class Dma(Stmt):
    """`f = dma.copy.async.swiz<128> x.chunkat(p) => shared after e`."""

    result: Name | None
    engine: Literal["dma", "tma"]
    op: Literal["copy", "load", "pad", "transp"]
    config: PadConfig | TransposeConfig | None
    is_async: bool
    modifiers: tuple[Modifier, ...]
    source: View | Select
    destination: View | StorageWord | Select
    after: Name | None = None

    def modifier(self, name: str) -> Modifier | None:
        return next((modifier for modifier in self.modifiers if modifier.name == name), None)


@identity_node
class Placeholder(Stmt):
    """`f = dma.any`."""

    result: Name
    engine: Literal["dma", "tma"]


@identity_node
class MapView(Stmt):
    """`m = g.map<local>(offset, length)`."""

    result: Name
    source: View
    kind: Literal["map", "remap"]
    offset: Expr
    length: Expr


@identity_node
class Waitable(Node):
    """A future or an event: `f`, `e[i]`, `e.at(k)`."""

    name: Name
    subscripts: tuple[Expr, ...] = ()
    at: Expr | None = None


@identity_node
class Wait(Stmt):
    items: tuple[Waitable, ...]


@identity_node
class Trigger(Stmt):
    cluster: bool
    items: tuple[Waitable, ...]
    after: tuple[Waitable, ...] = ()


@identity_node
class Swap(Stmt):
    left: Name
    right: Name


@identity_node
class Rotate(Stmt):
    names: tuple[Name, ...]


@identity_node
class Sync(Stmt):
    """`sync.shared`, `sync.global`, `sync.local`."""

    storage: StorageWord


@identity_node
class Barrier(Stmt):
    """`sync.barrier : block`."""

    level: Level


@identity_node
class Fence(Stmt):
    """`sync.fence : block<shared>`."""

    level: Level
    storage: StorageWord | None = None


# ---- statements: tensor cores ----------------------------------------------------------------------------------


@identity_node
class MmaFill(Stmt):
    """`c = mma.fill.f32 v` (result) or `mma.fill c, v` (target)."""

    result: Name | None
    target: BufferRef | None
    type: ElemType | None
    value: Expr


@identity_node
class MmaLoad(Stmt):
    """`a = mma.load view` (result) or `mma.load view, a` (target)."""

    result: Name | None
    target: BufferRef | None
    source: View
    swizzle: IntLit | None = None
    is_async: bool = False


@identity_node
class MmaMultiply(Stmt):
    """`mma.row.col c, a, b` with its forms; `scale` is the view and the scalar of `.scale`."""

    result: Name | None
    a_layout: Literal["row", "col"]
    b_layout: Literal["row", "col"]
    accumulator: BufferRef
    a: View
    b: View
    is_async: bool = False
    sparse: bool = False
    metadata: View | None = None
    scale: tuple[View, Expr] | None = None
    schedule: tuple[int, ...] | None = None


@identity_node
class MmaScale(Stmt):
    """`mma.scale c, sa, sb`."""

    accumulator: BufferRef
    a_scale: View
    b_scale: Expr


@identity_node
class MmaStore(Stmt):
    """`mma.store c, view`; `mask` holds the rows and, if given, the columns."""

    source: BufferRef
    destination: View
    is_async: bool = False
    transpose: bool = False
    mask: tuple[Expr, ...] = ()


@identity_node
class MmaCommit(Stmt):
    pass


@identity_node
class FragReduce(Stmt):
    """`reduce_max(dst, src, axis)`, `reduce_sum(...)`."""

    kind: Literal["max", "sum"]
    destination: BufferRef
    source: BufferRef
    axis: IntLit


@identity_node
class AllReduce(Stmt):
    """`all_reduce_sum(f)`."""

    fragment: BufferRef


@identity_node
class FragCopy(Stmt):
    """`copy(dst, src)`."""

    destination: BufferRef
    source: BufferRef


# ---- statements: the rest --------------------------------------------------------------------------------------


@identity_node
class CallStmt(Stmt):
    call: CallLike


@identity_node
class Return(Stmt):
    value: Expr | None = None


@identity_node
class Break(Stmt):
    pass


@identity_node
class Continue(Stmt):
    pass


@identity_node
class Yield(Stmt):
    pass


@identity_node
class Assert(Stmt):
    condition: Expr
    message: str


@identity_node
class Print(Stmt):
    """`print(...)`, `println(...)`; with `!` at compile time."""

    newline: bool
    compile_time: bool
    args: tuple[Expr, ...]


@identity_node
class CppEscape(Stmt):
    """`__cpp__("text")`."""

    text: StringLit


@identity_node
class AsmOperand(Node):
    """`[n] "=r"(e)`."""

    constraint: str
    value: Expr
    name: Name | None = None


@identity_node
class Asm(Stmt):
    volatile: bool
    template: StringLit
    outputs: tuple[AsmOperand, ...] = ()
    inputs: tuple[AsmOperand, ...] = ()
    clobbers: tuple[str, ...] = ()


@identity_node
class PragmaIntrinsic(Stmt):
    """`#pragma croq intrinsic prefix hw_`: registers from here to the end of the block."""

    kind: Literal["prefix", "namespace"]
    name: Name


# ---- functions -------------------------------------------------------------------------------------------------


@identity_node
class ParamDim(Node):
    """`?` ("any"), `??` ("unbounded"), a symbol ("symbol") or a constant expression ("const")."""

    kind: Literal["any", "unbounded", "symbol", "const"]
    symbol: str | None = None
    value: Expr | None = None


@identity_node
class ParamShape(Node):
    """`[M, 16]`; `mdspan<2>` is two "any" dimensions."""

    dims: tuple[ParamDim, ...]


@identity_node
class ParamType(Node):
    """Of a parameter or a result. `word` is "void", "auto", "stream", or the name of `type`."""

    word: str
    type: ElemType | None = None
    shape: ParamShape | None = None


@identity_node
class Param(Node):
    type: ParamType
    by_ref: bool
    name: Name | None
    storage: StorageWord | None = None


@identity_node
class Function(Node):
    """`__co__ type name(params) { ... }`; `is_device` for a `__co_device__` function in tileflow syntax."""

    result: ParamType
    name: Name
    params: tuple[Param, ...]
    body: Block
    is_device: bool = False


@identity_node
class Program(Record):
    """All tileflow functions of a unit, in the order of the text."""

    functions: tuple[Function, ...]


# ---- helpers ---------------------------------------------------------------------------------------------------


def strip_parens(expr: Expr) -> Expr:
    while isinstance(expr, Paren):
        expr = expr.inner
    return expr


def as_derivation(ref: BufferRef) -> Derivation | None:
    """`s[(0) / 2]` read as a derivation of the shape `s`, or None if it has `.data` or not exactly one subscript."""
    if ref.data or len(ref.subscripts) != 1:
        return None
    base = NameRef(ref.name.span, ref.name.text)
    return Derivation(ref.span, base, (dimensions(ref.subscripts[0]),), "shape")


def dimensions(item: Expr) -> Expr:
    """An item of a derivation, with every `(k)` turned into a `DimRef`."""
    if isinstance(item, Paren) and isinstance(item.inner, IntLit):
        return DimRef(item.span, item.inner.value)
    if isinstance(item, Paren):
        return Paren(item.span, dimensions(item.inner))
    if isinstance(item, Unary):
        return Unary(item.span, item.op, dimensions(item.operand))
    if isinstance(item, Binary):
        return Binary(item.span, item.op, dimensions(item.left), dimensions(item.right))
    if isinstance(item, Builtin):
        return Builtin(item.span, item.name, tuple(map(dimensions, item.args)))
    return item


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below `node`, in the order of the fields."""
    for field in fields(node):
        yield from _nodes(getattr(node, field.name))


def _nodes(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _nodes(item)


def walk(node: Node) -> Iterator[Node]:
    """`node` and everything below it, parents first."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(list(children(top))))
