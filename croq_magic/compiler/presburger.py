"""Questions about integers that isl answers: is there a point that satisfies these conditions?

A `Problem` is a conjunction over named integers. Expressions become quasi-affine text for isl; what is not affine (a
product of variables, an element of an array) becomes an integer of its own, bounded by its interval and type. Such a
problem is an over-approximation (`exact` is False): no point still means no point, but a point proves nothing.

isl counts operations; a query that exceeds its budget is answered with None ("unknown"), so that no cell waits for a
hard one. The library is imported at the first question, as most programs need none.
"""

from __future__ import annotations

from typing import Any

from croq_magic.compiler import integers, ir
from croq_magic.compiler.interrupts import import_whole
from croq_magic.compiler.types import DType

_BUDGET = 100_000
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_LARGEST = 1 << 40

Linear = dict[str, int]  # coefficients by name; "" is the constant


class Problem:
    """Integers and conditions on them, collected for one question."""

    def __init__(self) -> None:
        self.exact = True
        self._names: dict[object, str] = {}
        self._variables: dict[str, ir.Var] = {}
        self._conditions: list[str] = []
        self._keep: list[ir.Node] = []

    def copy(self) -> Problem:
        other = Problem()
        other.exact = self.exact
        other._names, other._variables = dict(self._names), dict(self._variables)
        other._conditions, other._keep = list(self._conditions), list(self._keep)
        return other

    # ------------------------------------------------------------------------------------------------ questions

    def empty(self) -> bool | None:
        """Whether no point satisfies the conditions; None when isl gives up."""
        found = self._ask("is_empty")
        return None if found is None else bool(found)

    def point(self) -> dict[str, int] | None:
        """Values of the program's variables at one point, if there is one and isl finds it."""
        found = self._ask("sample_point")
        if found is None or found.is_void():
            return None
        dim_type = import_whole("islpy").dim_type

        values = [found.get_coordinate_val(dim_type.set, i).to_python() for i in range(len(self._names))]
        by_name = dict(zip(self._names.values(), values, strict=True))
        return {var.name: by_name[name] for name, var in self._variables.items()}

    def _ask(self, question: str) -> Any:
        islpy = import_whole("islpy")

        context = _context()
        context.reset_operations()
        try:
            return getattr(islpy.Set.read_from_str(context, self.text()), question)()
        except islpy.Error:
            return None

    def text(self) -> str:
        """The set in isl's notation."""
        names = ", ".join(self._names.values())
        return f"{{ [{names}] : {' and '.join(self._conditions) or 'true'} }}"

    # ----------------------------------------------------------------------------------------------- conditions

    def require(self, *conditions: str) -> None:
        """Adds conditions that are isl text over what `affine` returned."""
        self._conditions.extend(f"({c})" for c in conditions)

    def assume(self, condition: ir.Expr, truth: bool = True) -> None:
        """Adds what is affine in a boolean expression, or in its negation."""
        text = self.condition(condition, truth)
        if text is None:
            self.exact = False
        else:
            self.require(text)

    def condition(self, e: ir.Expr, truth: bool = True) -> str | None:
        """A condition implied by `e` (or its negation) as isl text; None when nothing useful is."""
        if isinstance(e, ir.Const):
            return "true" if bool(e.value) is truth else "false"
        if isinstance(e, ir.Unary) and e.op == "!":
            return self.condition(e.operand, not truth)
        if not isinstance(e, ir.Binary):
            return None
        if e.op in ("&&", "||"):
            both = (e.op == "&&") is truth
            parts = [self.condition(side, truth) for side in (e.left, e.right)]
            known = [part for part in parts if part is not None]
            if len(known) < 2 and not both:
                return None
            if len(known) < 2:
                self.exact = False
            return None if not known else (" and " if both else " or ").join(f"({part})" for part in known)
        if e.op in _NEGATED and e.left.dtype.is_integer:
            op = e.op if truth else _NEGATED[e.op]
            left, right = self.affine(e.left), self.affine(e.right)
            return f"{left} {'=' if op == '==' else op} {right}"
        return None

    # ---------------------------------------------------------------------------------------------- expressions

    def affine(self, e: ir.Expr) -> str:
        """An integer expression as isl text: a sum of multiples of the problem's integers."""
        return _text(self._linear(e))

    def _linear(self, e: ir.Expr) -> Linear:
        total: Linear = {}
        for monomial, coefficient in integers.poly(e).terms:
            for name, factor in self._monomial(monomial).items():
                total[name] = total.get(name, 0) + coefficient * factor
        return total

    def _monomial(self, monomial: integers.Monomial) -> Linear:
        if not monomial:
            return {"": 1}
        if len(monomial) == 1:
            return self._atom(monomial[0])
        key = ("product", monomial)
        if key not in self._names:
            self.exact = False
            for atom in monomial:
                self._atom(atom)  # so that witnesses name them
            name = self._name(key, *monomial)
            self._bound(name, integers.monomial_interval(monomial))
            self._round_trip(name, monomial)
        return {self._names[key]: 1}

    def _round_trip(self, name: str, monomial: integers.Monomial) -> None:
        """`a / b * b` lies in (a - b, a] for a >= 0 and b >= 1."""
        for quotient, divisor in (monomial, monomial[::-1]) if len(monomial) == 2 else ():
            if isinstance(quotient, ir.Binary) and quotient.op == "/" and quotient.right == divisor:
                (low, _), (least, _) = integers.interval(quotient.left), integers.interval(divisor)
                if low is not None and low >= 0 and least is not None and least >= 1:
                    left = self.affine(quotient.left)
                    self.require(f"{name} <= {left}", f"{name} + {self.affine(divisor)} > {left}")

    def _atom(self, e: ir.Expr) -> Linear:
        if isinstance(e, ir.Var):
            return {self._variable(e): 1}
        name = self._names.get(("atom", e)) if not isinstance(e, ir.Load) else None
        if name is not None:
            return {name: 1}
        if isinstance(e, ir.Cast) and fits(e.operand, e.dtype):
            return self._linear(e.operand)
        if isinstance(e, ir.Binary):
            name = self._division(e) if e.op in ("/", "%") else self._bits(e)
        elif isinstance(e, ir.Select):
            name = self._select(e)
        elif isinstance(e, ir.Builtin) and e.name in ("__max", "__min"):
            name = self._extreme(e)
        return {name or self._opaque(e): 1}

    def _name(self, key: object, *keep: ir.Node) -> str:
        name = f"x{len(self._names)}"
        self._names[key] = name
        self._keep.extend(keep)
        return name

    def _bound(self, name: str, bounds: integers.Bounds) -> None:
        low, high = bounds
        if low is not None:
            self.require(f"{name} >= {low}")
        if high is not None:
            self.require(f"{name} <= {high}")

    def _variable(self, v: ir.Var) -> str:
        known = self._names.get(v.name)
        if known is not None:
            return known
        name = self._name(v.name)
        self._variables[name] = v
        if v.lower is not None:
            self.require(f"{name} >= {self.affine(v.lower)}")
        if v.upper is not None:
            self.require(f"{name} < {self.affine(v.upper)}")
        if v.lower is None or v.upper is None:
            self._bound(name, range_of(v.dtype))
        return name

    def _opaque(self, e: ir.Expr) -> str:
        """An integer that nothing but its interval is known of; every element read is one of its own."""
        self.exact = False
        name = self._name(("load", id(e)) if isinstance(e, ir.Load) else ("atom", e), e)
        self._bound(name, integers.interval(e))
        self._bound(name, range_of(e.dtype))
        return name

    def _division(self, e: ir.Binary) -> str | None:
        d = integers.value(e.right)
        if not d or abs(d) > _LARGEST:
            return None
        low, _ = integers.interval(e.left)
        left = self._linear(e.left)
        size = abs(d)
        if low is not None and low >= 0:
            quotient, rest = self._floor(left, size)
        else:  # towards zero: the floor of the magnitude, with the sign of the left side
            (up, up_rest), (down, down_rest) = self._floor(left, size), self._floor(_scaled(left, -1), size)
            quotient, rest = self._name(("quotient", e), e), self._name(("rest", e), e)
            value = _text(left)
            self.require(
                f"({value} >= 0 and {quotient} = {up} and {rest} = {up_rest}) or "
                f"({value} < 0 and {quotient} = -1*{down} and {rest} = -1*{down_rest})"
            )
        if e.op == "%":
            return rest
        if d > 0:
            return quotient
        name = self._name(("atom", e), e)
        self.require(f"{name} = -1*{quotient}")
        return name

    def _floor(self, value: Linear, d: int) -> tuple[str, str]:
        """Integers that are the quotient and the remainder of a division that rounds down."""
        text = _text(value)
        key = ("floor", text, d)
        if key not in self._names:
            quotient, rest = self._name(key), self._name(("remainder", text, d))
            self.require(f"{text} = {d}*{quotient} + {rest}", f"0 <= {rest} < {d}")
        return self._names[key], self._names[("remainder", text, d)]

    def _bits(self, e: ir.Binary) -> str | None:
        right = integers.value(e.right)
        if right is None or right < 0:
            return None
        if e.op == "&" and right & (right + 1) == 0:
            return self._floor(self._linear(e.left), right + 1)[1]
        if e.op == ">>" and right < 40:
            return self._floor(self._linear(e.left), 1 << right)[0]
        return None

    def _select(self, e: ir.Select) -> str:
        then, other = self.affine(e.then), self.affine(e.other)
        yes, no = self.condition(e.condition), self.condition(e.condition, truth=False)
        name = self._name(("atom", e), e)
        self.exact = self.exact and yes is not None and no is not None
        self.require(f"(({yes or 'true'}) and {name} = {then}) or (({no or 'true'}) and {name} = {other})")
        return name

    def _extreme(self, e: ir.Builtin) -> str:
        first, second = (self.affine(arg) for arg in e.args)
        name = self._name(("atom", e), e)
        better = ">=" if e.name == "__max" else "<="
        one = f"{first} {better} {second} and {name} = {first}"
        two = f"{second} {better} {first} and {name} = {second}"
        self.require(f"({one}) or ({two})")
        return name


def _scaled(value: Linear, factor: int) -> Linear:
    return {name: factor * c for name, c in value.items()}


def _text(value: Linear) -> str:
    """isl reads `3*x0 - 5*x1 + 2`, and little else, as a sum."""
    words: list[str] = []
    for name, c in value.items():
        if c:
            term = str(abs(c)) if not name else name if abs(c) == 1 else f"{abs(c)}*{name}"
            words += ["-" if c < 0 else "+", term]
    if not words:
        return "0"
    if words[0] == "+":
        return " ".join(words[1:])
    return "-" + " ".join(words[1:])


_contexts: list[Any] = []


def _context() -> Any:
    if not _contexts:
        islpy = import_whole("islpy")

        context = islpy.Context()
        context.set_max_operations(_BUDGET)
        _contexts.append(context)
    return _contexts[0]


def range_of(dtype: DType) -> integers.Bounds:
    """What an integer type alone says of a value."""
    if dtype.is_integer:
        return dtype.range
    return (0, 1) if dtype.name == "bool" else (None, None)


def fits(e: ir.Expr, dtype: DType) -> bool:
    """Whether every value of `e` survives a conversion to `dtype`."""
    if not (dtype.is_integer and e.dtype.is_integer):
        return False
    low, high = integers.interval(e)
    if isinstance(e, (ir.Var, ir.Load, ir.Cast)):  # what is stored in a type has a value of that type
        low, high = meet((low, high), e.dtype.range)
    least, most = dtype.range
    return low is not None and high is not None and least <= low and high <= most


def meet(a: integers.Bounds, b: integers.Bounds) -> integers.Bounds:
    """Bounds that both hold."""
    lows = [x for x in (a[0], b[0]) if x is not None]
    highs = [x for x in (a[1], b[1]) if x is not None]
    return (max(lows) if lows else None), (min(highs) if highs else None)
