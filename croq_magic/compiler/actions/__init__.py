"""What the parser does when a rule of grammar.lark is complete: one method for every rule, named after it.

A method gets the values of the rule's symbols, tokens included; optional parts that are absent are None. Mistakes
that the grammar lets through are reported here, in words.
"""

from __future__ import annotations

from croq_magic.compiler import syntax as s
from croq_magic.compiler.actions.base import Kids, cover
from croq_magic.compiler.actions.structure import StructureActions
from croq_magic.compiler.actions.tensor_cores import TensorCoreActions
from croq_magic.compiler.lexer import Token

__all__ = ["Actions"]

ATTRIBUTES = ("launch_bounds", "maxnreg", "schedule")


class Actions(StructureActions, TensorCoreActions):
    """All actions, for one parse; of its own only calls and what is left over."""

    def call_stmt(self, kids: Kids) -> s.Stmt:
        expr = kids[0]
        if isinstance(expr, s.Pick) and isinstance(expr.base, s.NameRef):
            # With one argument a call looks like a pick.
            name = s.Name(expr.base.span, expr.base.text)
            expr = s.IntrinsicCall(expr.span, s.QName(name.span, (name,)), (expr.index,))
        if isinstance(expr, s.IntrinsicCall):
            return self._intrinsic(expr)
        if not isinstance(expr, s.CallLike):
            what = f"`{expr.span.text}`" if len(expr.span.text) < 40 else "this"
            self.error("SYN01", f"{what} is not a statement", expr, "assign it: `x = ...;`")
        return s.CallStmt(expr.span, expr)

    def _intrinsic(self, call: s.IntrinsicCall) -> s.Stmt:
        name = call.callee.text
        if name in ATTRIBUTES:
            inner = call.span.text
            target = "an MMA" if name == "schedule" else "`parallel`"
            self.error("SYN07", f"`{name}` is an attribute", call, f"write `[[{inner}]]` before {target}")
        elif name in ("copy", "reduce_max", "reduce_sum", "all_reduce_sum"):
            return self.fragment_operation(call)
        return s.CallStmt(call.span, call)

    def return_(self, kids: Kids) -> s.Stmt:
        return s.Return(cover(kids[0], kids[1] or kids[0]), kids[1])

    def break_(self, kids: Kids) -> s.Stmt:
        return s.Break(kids[0].span)

    def continue_(self, kids: Kids) -> s.Stmt:
        return s.Continue(kids[0].span)

    def yield_(self, kids: Kids) -> s.Stmt:
        return s.Yield(kids[0].span)

    def assert_(self, kids: Kids) -> s.Stmt:
        return s.Assert(cover(kids[0], kids[-1]), kids[2], kids[4].value)

    def print_(self, kids: Kids) -> s.Stmt:
        word, bang, _, args, closing = kids
        return s.Print(cover(word, closing), word.text == "println", bang is not None, args)

    def cpp(self, kids: Kids) -> s.Stmt:
        return s.CppEscape(cover(kids[0], kids[-1]), kids[2])

    def asm(self, kids: Kids) -> s.Stmt:
        at = 1
        while kids[at].type != "LPAR":
            if kids[at].text == "goto":
                self.error("SYN12", "`asm goto` is not supported", kids[at])
            at += 1
        volatile = any(kid.text == "volatile" for kid in kids[1:at])
        template, *parts, closing = kids[at + 1 :]
        sections: list[list[s.AsmOperand]] = [[]]
        for part in parts:
            if isinstance(part, s.AsmOperand):
                sections[-1].append(part)
            elif isinstance(part, Token) and part.type in ("COLON", "SCOPE"):
                sections += [[] for _ in part.text]
                if len(sections) > 4 and not any(kid.text == "goto" for kid in kids[1:at]):
                    self.error("SYN12", "inline assembly has at most three `:`", part)
        _, outputs, inputs, clobbers = (*sections, [], [], [])[:4]
        return s.Asm(
            cover(kids[0], closing),
            volatile,
            template,
            tuple(outputs),
            tuple(inputs),
            tuple(clobber.constraint for clobber in clobbers),
        )

    def asm_operand(self, kids: Kids) -> s.AsmOperand:
        opening, name, _, constraint, _, value, closing = kids
        span = cover(opening or constraint, closing or constraint)
        if value is None:
            value = s.StringLit(constraint.span, constraint.value)
        return s.AsmOperand(span, constraint.value, value, name and s.Name(name.span, name.text))
