"""C++ text of types, names and expressions: what every target that emits C++ shares.

Two kinds of arithmetic. *Values* are computed in their element type as the language defines it. *Indices* (element
offsets, extents, loop bounds) are mathematical integers, computed in 64 bits.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import cast

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.types import ALL, BOOL, F32, F64, S32, S64, TF32, U32, U64, DType

INDEX = "int64_t"

# Precedences of C++, tightest highest.
PRIMARY, PREFIX, TIMES, PLUS, SHIFT, COMPARE, EQUAL, AND, XOR, OR, BOTH, EITHER, CHOICE = range(16, 3, -1)
_LEVEL = {
    **dict.fromkeys("*/%", TIMES),
    **dict.fromkeys("+-", PLUS),
    **dict.fromkeys(("<<", ">>"), SHIFT),
    **dict.fromkeys(("<", "<=", ">", ">="), COMPARE),
    **dict.fromkeys(("==", "!="), EQUAL),
    "&": AND, "^": XOR, "|": OR, "&&": BOTH, "||": EITHER,
}  # fmt: skip


def binary_level(op: str) -> int:
    """The precedence of a binary operator."""
    return _LEVEL[op]


_KEYWORDS = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl const
    const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit export extern false
    float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
    protected public register reinterpret_cast requires return short signed sizeof static static_assert static_cast
    struct switch template this thread_local throw true try typedef typeid typename union unsigned using virtual void
    volatile wchar_t while xor xor_eq typeof linux unix lane fiber crew frame captured begin end main choreo croq block_
    words NULL""".split()
) | {"f8", "assert", "errno", *(dtype.name for dtype in ALL)}

_INDEX_ROLES = (ir.Role.REGION, ir.Role.LOOP, ir.Role.COORD, ir.Role.DIM)
_WIDE = (S32, U32, S64, U64)  # integer types that C++ does not promote


class Unsupported(Exception):
    """A construct that a target cannot express; `span` is where it stands."""

    def __init__(self, message: str, span: object = None) -> None:
        super().__init__(message)
        self.span = span


def ctype(dtype: DType) -> str:
    """The C++ name of an element type."""
    return dtype.name


def is_narrow(dtype: DType) -> bool:
    """A float that is computed in f32."""
    return dtype.is_float and dtype.bits < 32


def literal(value: int | float | bool, dtype: DType) -> str:
    """A constant of an element type, exact."""
    if dtype is BOOL:
        return "true" if value else "false"
    if dtype.is_float:
        number = float(value)
        if math.isnan(number):
            text = '__builtin_nanf("")'
        elif math.isinf(number):
            text = "__builtin_inff()" if number > 0 else "-__builtin_inff()"
        else:
            text = repr(number) if dtype is F64 else repr(number) + "f"
        return text if dtype in (F32, F64, TF32) else f"{ctype(dtype)}({text})"
    number = int(value)
    if dtype is S32:
        return str(number) if number > -(1 << 31) else "(-2147483647 - 1)"
    if dtype is S64:
        return f"{number}ll" if number > -(1 << 63) else "(-9223372036854775807ll - 1)"
    if dtype in (U32, U64):
        return f"{number}{'u' if dtype is U32 else 'ull'}"
    return f"{ctype(dtype)}({number})"


class Names:
    """C++ names of the IR's variables and buffers: the source spelling unless C++ or another name forbids it."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._taken = set(reserved) | _KEYWORDS
        self._known: dict[object, str] = {}
        self._kept: list[ir.Buffer | ir.Event] = []  # keeps them alive, so that their ids stay theirs

    def of(self, node: ir.Var | ir.Buffer | ir.Event) -> str:
        key: object = node.name if isinstance(node, ir.Var) else id(node)
        if key not in self._known:
            self._known[key] = self.fresh(node.name.partition(":")[0])  # behind it passes tell names apart
            if not isinstance(node, ir.Var):
                self._kept.append(node)
        return self._known[key]

    def adopt(self, node: ir.Var | ir.Buffer, name: str) -> None:
        """Uses a name from `fresh` for a node that the emitter made."""
        self._known[node.name if isinstance(node, ir.Var) else id(node)] = name

    def release(self, node: ir.Var) -> None:
        """The name of a variable whose scope has ended may be used again."""
        name = self._known.pop(node.name, None)
        if name is not None:
            self._taken.discard(name)

    def fresh(self, wanted: str) -> str:
        """A name that nothing has yet, as close to `wanted` as C++ allows."""
        base = re.sub(r"\W", "_", wanted, flags=re.ASCII) or "_"
        if base[0].isdigit() or base.startswith(("croq_", "__")):
            base = "v_" + base.lstrip("_")
        name, number = base, 1
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name


# What a math builtin of the language is called in the prelude, per type: `croq_exp(x)` is overloaded there.
_MATH = {
    name: f"croq_{name[2:]}"
    for name in """__sin __cos __tan __asin __acos __atan __atan2 __sinh __cosh __tanh __exp __expm1 __log __log1p __pow
    __sqrt __rsqrt __fabs __sign __ceil __floor __round __isfinite __sigmoid __softplus __gelu""".split()
} | {"__exp2f": "croq_exp2", "__frcp_rn": "croq_frcp", "__fmaf": "croq_fma", "__max": "croq_fmax", "__min": "croq_fmin"}

CheckedAccess = Callable[[ir.Node, "ir.View", tuple[ir.Expr, ...], tuple[int, ...], str, str], str]


@dataclasses.dataclass
class Expressions:
    """Prints expressions. `pointer` gives the C++ text that a buffer's elements are indexed from; `guard` wraps an
    element access with the run-time checks it needs (given the node, view, index, checked dimensions, the access and
    the text used when the check fails)."""

    names: Names
    pointer: Callable[[ir.Buffer], str]
    variable: Callable[[ir.Var], str]
    guard: CheckedAccess
    constants: dict[str, int] = dataclasses.field(default_factory=dict)  # unrolled loop variables
    divide: Callable[[ir.Binary, str, str, str], str] | None = None  # a checked division of a C++ type by a text

    # ------------------------------------------------------------------------------------------------- indices

    def index(self, e: ir.Expr, parent: int = 0) -> str:
        """A 64-bit integer expression."""
        if self.constants:
            e = self._with_constants(e)
        text, level = self._index(e)
        return f"({text})" if level < parent else text

    def _with_constants(self, e: ir.Expr) -> ir.Expr:
        from croq_magic.compiler.visit import rewrite

        def change(node: ir.Node) -> ir.Expr | None:
            if isinstance(node, ir.Var) and node.name in self.constants:
                return integers.constant(self.constants[node.name])
            return None

        return integers.simplify(rewrite(e, change))

    def _index(self, e: ir.Expr) -> tuple[str, int]:
        if isinstance(e, ir.Const) and isinstance(e.value, (int, bool)):
            number = int(e.value)
            text = str(number) if -(1 << 31) < number < 1 << 31 else literal(number, S64)
            return text, PRIMARY if number >= 0 else PREFIX
        if isinstance(e, ir.Var):
            if e.role in _INDEX_ROLES or e.dtype is S64:
                return self.variable(e), PRIMARY
            return f"{INDEX}({self.variable(e)})", PRIMARY
        if isinstance(e, ir.Unary) and e.op == "-" and e.dtype.is_integer:
            return f"-{self.index(e.operand, PREFIX + 1)}", PREFIX
        if isinstance(e, ir.Binary) and e.op in "+-*" and e.dtype.is_integer:
            level = _LEVEL[e.op]
            return f"{self.index(e.left, level)} {e.op} {self.index(e.right, level + 1)}", level
        if isinstance(e, ir.Binary) and e.op in "/%" and e.dtype.is_integer:
            if (integers.value(e.right) or 0) > 0:
                return f"{self.index(e.left, TIMES)} {e.op} {self.index(e.right, TIMES + 1)}", TIMES
            return self._division(e, INDEX, self.index(e.left), self.index(e.right)), PRIMARY
        if isinstance(e, ir.Builtin) and e.name in ("__max", "__min") and e.dtype.is_integer:
            return f"croq_{e.name[2:]}<{INDEX}>({self.index(e.args[0])}, {self.index(e.args[1])})", PRIMARY
        if isinstance(e, ir.Builtin) and e.name == "cdiv":
            return f"croq_ceildiv({self.index(e.args[0])}, {self.index(e.args[1])})", PRIMARY
        if isinstance(e, ir.Select):
            condition = self.value(e.condition, CHOICE + 1)
            return f"{condition} ? {self.index(e.then, CHOICE)} : {self.index(e.other, CHOICE)}", CHOICE
        return f"{INDEX}({self.value(e)})", PRIMARY

    # -------------------------------------------------------------------------------------------------- values

    def value(self, e: ir.Expr, parent: int = 0) -> str:
        """An expression of type `ctype(e.dtype)`."""
        text, level = self._value(e)
        return f"({text})" if level < parent else text

    def _value(self, e: ir.Expr) -> tuple[str, int]:
        if isinstance(e, ir.Const):
            text = literal(e.value, e.dtype)
            return text, PREFIX if text.startswith("-") else PRIMARY
        if isinstance(e, ir.Var):
            if e.name in self.constants:
                return literal(self.constants[e.name], e.dtype), PRIMARY
            if e.role in _INDEX_ROLES and e.dtype is not S64:
                return f"{ctype(e.dtype)}({self.variable(e)})", PRIMARY
            return self.variable(e), PRIMARY
        if isinstance(e, ir.Unary):
            return self._unary(e)
        if isinstance(e, ir.Binary):
            return self._binary(e)
        if isinstance(e, ir.Select):
            condition = self.value(e.condition, CHOICE + 1)
            then, other = self.value(e.then, CHOICE), self.value(e.other, CHOICE)
            return self._narrow(f"{condition} ? {then} : {other}", CHOICE, e.dtype)
        if isinstance(e, ir.Cast):
            return self.cast(self.value(e.operand), e.operand.dtype, e.dtype), PRIMARY
        if isinstance(e, ir.Builtin):
            return self._builtin(e)
        if isinstance(e, ir.Load):
            return self.load(e), PRIMARY
        raise Unsupported(f"{type(e).__name__} is not supported by this target yet")

    def _narrow(self, text: str, level: int, dtype: DType) -> tuple[str, int]:
        """C++ computes narrow integers in `int`: bring the result back to its type."""
        if dtype.is_integer and dtype not in _WIDE:
            return f"{ctype(dtype)}({text})", PRIMARY
        return text, level

    def _float_operand(self, e: ir.Expr, level: int) -> str:
        """Floats below 32 bits compute in f32."""
        return f"f32({self.value(e)})" if is_narrow(e.dtype) else self.value(e, level)

    def _unary(self, e: ir.Unary) -> tuple[str, int]:
        operand = self._float_operand(e.operand, PREFIX + 1)
        if is_narrow(e.dtype):
            return f"{ctype(e.dtype)}({e.op}{operand})", PRIMARY
        return self._narrow(f"{e.op}{operand}", PREFIX, e.dtype)

    def _binary(self, e: ir.Binary) -> tuple[str, int]:
        op, kind = e.op, e.left.dtype
        if op in ("/", "%") and e.dtype.is_integer:
            divisor = integers.value(e.right)
            if divisor is None or divisor in (0, -1):
                return self._division(e, ctype(e.dtype), self.value(e.left), self.value(e.right)), PRIMARY
        if op in ("<<", ">>"):
            amount = integers.value(e.right)
            if amount is None or not 0 <= amount < e.dtype.bits:
                helper = "croq_shl" if op == "<<" else "croq_shr"
                return f"{helper}<{ctype(e.dtype)}>({self.value(e.left)}, {self.index(e.right)})", PRIMARY
        level = _LEVEL[op]
        if is_narrow(kind) and op not in ("&&", "||"):
            text = f"{self._float_operand(e.left, level)} {op} {self._float_operand(e.right, level + 1)}"
            return (text, level) if e.dtype is BOOL else (f"{ctype(e.dtype)}({text})", PRIMARY)
        return self._narrow(f"{self.value(e.left, level)} {op} {self.value(e.right, level + 1)}", level, e.dtype)

    def _division(self, e: ir.Binary, to: str, left: str, right: str) -> str:
        if e.checked and self.divide is not None:
            return self.divide(e, to, left, right)
        return f"{'croq_div' if e.op == '/' else 'croq_mod'}<{to}>({left}, {right})"

    def cast(self, text: str, source: DType, target: DType) -> str:
        """A conversion as the language defines it: saturating from floats to integers, one rounding between floats."""
        to = ctype(target)
        if source is target:
            return f"({text})"
        if target is BOOL:
            return f"(({text}) != 0)"
        if target.is_integer and source.is_float:
            wide = "f64" if source is F64 else "f32"
            if target.bits < 8:
                low, high = target.range
                clamped = f"croq_to_int<s32>({wide}({text}))"
                return f"{to}(croq_max<s32>({low}, croq_min<s32>({high}, {clamped})))"
            return f"croq_to_int<{to}>({wide}({text}))"
        if is_narrow(target):
            exact = (source.is_float and source.bits <= 32) or source.bits <= 16  # f32 holds every value of the source
            return f"{to}(f32({text}))" if exact else f"{to}(croq_narrow({ctype(source)}({text})))"
        if is_narrow(source):
            return f"f32({text})" if target in (F32, TF32) else f"{to}(f32({text}))"
        return f"{to}({text})"

    def _builtin(self, e: ir.Builtin) -> tuple[str, int]:
        if e.name in ("__max", "__min", "cdiv", "__alignup", "__aligndown") and e.dtype.is_integer:
            args = ", ".join(self.value(a) for a in e.args)
            whole = "croq_ceildiv" if e.name == "cdiv" else f"croq_{e.name[2:]}"
            return f"{whole}<{ctype(e.dtype)}>({args})", PRIMARY
        helper = _MATH.get(e.name)
        if helper is None:
            raise Unsupported(f"the builtin {e.name} is not supported by this target yet")
        args = ", ".join(self._float_operand(a, 0) for a in e.args)
        text = f"{helper}({args})"
        return (f"{ctype(e.dtype)}({text})" if is_narrow(e.dtype) else text), PRIMARY

    # ----------------------------------------------------------------------------------------------- elements

    def element(self, view: ir.View, index: tuple[ir.Expr, ...]) -> str:
        """The element of a view as an lvalue, unchecked."""
        return f"{self.pointer(view.buffer)}[{self.offset(view, index)}]"

    def offset(self, view: ir.View, index: tuple[ir.Expr, ...]) -> str:
        """The element offset in the whole buffer, its slot included."""
        return self.index(self.offset_expr(view, index))

    @staticmethod
    def offset_expr(view: ir.View, index: tuple[ir.Expr, ...]) -> ir.Expr:
        _, offset = views.element(view, index)
        if view.slot:
            linear: ir.Expr = integers.ZERO
            for extent, position in zip(view.buffer.slots, view.slot, strict=True):
                linear = integers.add(integers.mul(linear, integers.constant(extent)), position)
            offset = integers.add(integers.mul(linear, integers.product(view.buffer.shape)), offset)
        return offset

    def load(self, e: ir.Load) -> str:
        access = self.element(e.view, e.index)
        if not e.checks and not e.view.checks:
            return access
        return self.guard(e, e.view, e.index, e.checks, access, f"{ctype(e.dtype)}(0)")


def compute_type(dtype: DType) -> DType:
    """The type a compound store computes in."""
    if dtype.is_float:
        return F32 if dtype.bits < 32 else dtype
    return S32 if dtype.bits < 32 else dtype


def cxx_string(data: bytes) -> str:
    """Bytes as the inside of a C++ string literal."""
    out = []
    for byte in data:
        char = chr(byte)
        if char in '"\\':
            out.append("\\" + char)
        elif char == "\n":
            out.append("\\n")
        elif 32 <= byte < 127 and char != "?":
            out.append(char)
        else:
            out.append(f"\\{byte:03o}")
    return "".join(out)


def asm_operands(items: Sequence[tuple[str, str, ir.Node]], names: Names, value: Callable[[ir.Expr], str]) -> str:
    """Operands of GNU inline assembly: `[name] "constraint"(value)`, ..."""
    texts = []
    for name, constraint, node in items:
        text = names.of(node) if isinstance(node, ir.Var) else value(cast(ir.Expr, node))
        texts.append((f"[{name}] " if name else "") + f'"{constraint}"({text})')
    return ", ".join(texts)
