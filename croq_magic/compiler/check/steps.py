"""`k++`, `--k`: operands that change what they name.

Operands are evaluated from left to right. A step becomes an assignment before the statement it stands in; what else the
statement reads of the same name is then read into a variable where its turn comes, so that `k + k++ + k` is
`k + k + (k + 1)`. A step that is evaluated conditionally (`a && k++ > 0`) becomes a conditional assignment.
"""

from __future__ import annotations

from croq_magic.compiler import ir, syntax
from croq_magic.compiler.check.context import Checker
from croq_magic.compiler.check.conversions import cast, compute_type
from croq_magic.compiler.check.expressions import element, evaluate, evaluates
from croq_magic.compiler.check.values import Scalar, Value
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import BOOL


def is_step(e: syntax.Node) -> bool:
    return isinstance(e, syntax.Postfix) or (isinstance(e, syntax.Unary) and e.op in ("++", "--"))


def operand_of(e: syntax.Expr) -> syntax.Expr:
    assert isinstance(e, syntax.Postfix | syntax.Unary)
    return syntax.strip_parens(e.operand)


def find_steps(function: syntax.Function) -> dict[str, list[Span]]:
    """The places of all steps of a function, by the name they change."""
    found: dict[str, list[Span]] = {}
    for node in syntax.walk(function.body):
        if is_step(node):
            assert isinstance(node, syntax.Expr)
            target = operand_of(node)
            base = target.base.name.text if isinstance(target, syntax.ElemRef) else target.span.text
            found.setdefault(base, []).append(node.span)
    return found


def snapshot(c: Checker, name: str, value: Value) -> Value:
    """The value of a name that the current statement steps: a variable that holds what it is now."""
    if not isinstance(value, Scalar) or value.var is None or c.statement is None:
        return value
    if not any(place in c.statement for place in c.steps.get(name, ())):
        return value
    return _frozen(c, value, name)


def _frozen(c: Checker, value: Scalar, name: str) -> Scalar:
    stored = cast(value.expr, value.type)
    var = ir.Var(c.fresh(f"{name}_now"), value.type, ir.Role.LET)
    c.emit(ir.Let(var, stored, span=c.statement))
    return Scalar(cast(var, compute_type(value.type)), value.type, element=value.element, depth=value.depth)


def _step(c: Checker, e: syntax.Postfix | syntax.Unary, before: bool) -> Value:
    from croq_magic.compiler.check.assignments import assign

    target = operand_of(e)
    if not isinstance(target, syntax.NameRef | syntax.ElemRef):
        c.fail("TYP01", f"`{target.span.text}` cannot be changed by `{e.op}`", e.span, "name a `mutable` variable")
    if isinstance(target, syntax.ElemRef) and any(map(is_step, syntax.walk(target))):
        c.fail("TYP01", f"`{e.span.text}` changes two things at once", e.span, "step the index before")
    old = _value(c, target) if before else None
    one = syntax.IntLit(e.span, 1, "int")
    with c.collect() as statements:
        assign(c, syntax.Assign(e.span, target, f"{e.op[0]}=", one))
    conditions = c.guards[c.statement_guards :]
    if conditions:
        test = conditions[0]
        for condition in conditions[1:]:
            test = ir.Binary("&&", test, condition, BOOL)
        c.emit(ir.If(test, tuple(statements), span=e.span))
    else:
        for statement in statements:
            c.emit(statement)
    return old if old is not None else _value(c, target)


def _value(c: Checker, target: syntax.NameRef | syntax.ElemRef) -> Value:
    if isinstance(target, syntax.ElemRef):
        span, index = element(c, target)
        dtype = span.dtype
        loaded = Scalar(cast(ir.Load(span.view, index, span=target.span), compute_type(dtype)), dtype, element=True)
        return _frozen(c, loaded, target.base.name.text)
    value = evaluate(c, target)
    if isinstance(value, Scalar) and value.type is BOOL:
        c.fail("TYP10", f"`{target.text}` is `bool`; `++` and `--` need a number", target.span)
    return value


@evaluates
def _(e: syntax.Postfix, c: Checker) -> Value:
    return _step(c, e, before=True)


def prefix(c: Checker, e: syntax.Unary) -> Value:
    """`++k`: the value after the step."""
    return _step(c, e, before=False)
