"""How deep a program may be nested: every stage walks trees, and what no person reads need not be compiled.

Beyond these limits a stage could take seconds, or more stack than there is. A chain of `else if` counts as one level,
and so does a chain of operators, `a + b + c`, as far as it is written without parentheses.
"""

from __future__ import annotations

from croq_magic.compiler import syntax
from croq_magic.compiler.diagnostics import Report

MAX_STATEMENTS = 128
MAX_EXPRESSIONS = 600
MAX_CONDITIONS = 200  # `&&`, `||` and `?:` whose parts are evaluated under what stands before them
MAX_INDICES = 32  # elements that are the index of an element


def check(tree: syntax.Function, report: Report) -> bool:
    """Whether the nesting is within the limits; reports (SYN19) the first place where it is not."""
    waiting: list[tuple[syntax.Node, int, int, int, int]] = [(tree.body, 0, 0, 0, 0)]
    while waiting:
        node, statements, expressions, conditions, indices = waiting.pop()
        if isinstance(node, syntax.Stmt):
            statements, expressions, conditions, indices = statements + 1, 0, 0, 0
        elif isinstance(node, syntax.Expr):
            expressions += 1
            conditional = isinstance(node, syntax.Binary) and node.op in ("&&", "||")
            conditions += conditional or isinstance(node, syntax.Ternary)
            indices += isinstance(node, syntax.ElemRef)
        for depth, most, what, hint in (
            (statements, MAX_STATEMENTS, "statements", "move the inner part into a device function"),
            (expressions, MAX_EXPRESSIONS, "expressions", "name intermediate results"),
            (conditions, MAX_CONDITIONS, "conditions", "name parts of the condition"),
            (indices, MAX_INDICES, "indices", "name intermediate results"),
        ):
            if depth > most:
                message = f"`{tree.name.text}` is nested too deeply: more than {most} {what} inside each other"
                report.error("SYN19", message, node.span, hint=hint)
                return False
        for child in syntax.children(node):
            chained = isinstance(node, syntax.If) and child is node.other and isinstance(child, syntax.If)
            left = isinstance(node, syntax.Binary) and child is node.left and isinstance(child, syntax.Binary)
            waiting.append((child, statements - chained, expressions - left, conditions, indices))
    return True
