"""Takes away conditions that always hold, or never, once extents are known.

Programs guard the edges of their last tiles: `if (p * 256 + t < N) ...`. Where tiles divide the extents there are no
edges; without the guards loops accumulate in registers, loads stand before each other, and vectors are possible. Only
what intervals and the conditions around say is used (`proofs.evident`), which costs next to nothing.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from croq_magic.compiler import ir
from croq_magic.compiler.facts import Facts
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.structure import assigned, bodies, leaves, with_bodies
from croq_magic.compiler.proofs import enter, evident
from croq_magic.compiler.visit import rewrite

_NAMES = (ir.Let, ir.Declare, ir.DeclareEvent)  # what gives names to the statements behind it


@dataclasses.dataclass(frozen=True)
class SettleConditions:
    """Replaces `if`s whose conditions are settled by the branch that is taken, and drops parts of conjunctions."""

    name: ClassVar[str] = "settle-conditions"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        facts = Facts()
        for check in function.checks:
            if not check.warning:
                facts = facts.assume(check.condition, guard=False, exact=True)
        body = _body(function.body, facts)
        return function if body is function.body else dataclasses.replace(function, body=body)


def _body(body: ir.Body, facts: Facts) -> ir.Body:
    out: list[ir.Stmt] = []
    for s in body:
        if isinstance(s, ir.If):
            out += _conditional(s, facts)
        else:
            out.append(_statement(s, facts))
        facts = _after(s, facts)
    same = len(out) == len(body) and all(a is b for a, b in zip(out, body, strict=True))
    return body if same else tuple(out)


def _conditional(s: ir.If, facts: Facts) -> ir.Body:
    condition = _settled(s.condition, facts)
    if isinstance(condition, ir.Const):
        chosen = _body(s.then if condition.value else s.other, facts)
        if not leaves(chosen):  # behind what leaves there would be statements that nothing reaches
            return (ir.Scope(chosen, span=s.span),) if any(isinstance(x, _NAMES) for x in chosen) else chosen
        condition = s.condition
    then = _body(s.then, facts.assume(condition))
    other = _body(s.other, facts.assume(condition, truth=False))
    if condition is s.condition and then is s.then and other is s.other:
        return (s,)
    return (dataclasses.replace(s, condition=condition, then=then, other=other),)


def _statement(s: ir.Stmt, facts: Facts) -> ir.Stmt:
    match s:
        case ir.Launch():
            region = _statement(s.kernel.region, facts)
            if region is s.kernel.region:
                return s
            assert isinstance(region, ir.Region)
            return dataclasses.replace(s, kernel=dataclasses.replace(s.kernel, region=region))
        case ir.For():
            inner = enter(s, facts.forget({s.var.name} | assigned(s.body)))
        case ir.While():
            inner = facts.forget(assigned(s.body)).assume(s.condition)
        case ir.Masked():
            inner = facts.assume(s.predicate)
        case ir.Region() | ir.Apply():
            inner = facts.forget(assigned(s.body))
        case ir.Scope():
            inner = facts
        case _:
            if bodies(s):
                return with_bodies(s, lambda body: _body(body, Facts()))
            return _selects(s, facts)
    return with_bodies(s, lambda body: _body(body, inner))


def _after(s: ir.Stmt, facts: Facts) -> Facts:
    if isinstance(s, ir.Let) and s.value is not None and s.var.role is ir.Role.LET:
        return facts.let(s.var, s.value)
    return facts.forget(assigned((s,)))


def _settled(e: ir.Expr, facts: Facts) -> ir.Expr:
    """The condition without the parts that are settled; `TRUE` or `FALSE` if nothing is left of it."""
    known = evident(e, facts)
    if known is not None:
        return ir.TRUE if known else ir.FALSE
    if isinstance(e, ir.Binary) and e.op == "&&":
        left, right = _settled(e.left, facts), _settled(e.right, facts.assume(e.left))
        if isinstance(left, ir.Const):
            return right if left.value else ir.FALSE
        if isinstance(right, ir.Const) and right.value:
            return left
        if left is not e.left or right is not e.right:
            return dataclasses.replace(e, left=left, right=right)
    return e


def _selects(s: ir.Stmt, facts: Facts) -> ir.Stmt:
    """A plain statement with the choices in its expressions."""

    def change(node: ir.Node) -> ir.Node | None:
        if not isinstance(node, ir.Select):
            return None
        condition = _settled(node.condition, facts)
        if isinstance(condition, ir.Const):
            return node.then if condition.value else node.other
        return None if condition is node.condition else dataclasses.replace(node, condition=condition)

    return rewrite(s, change)
