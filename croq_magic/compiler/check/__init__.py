"""From the syntax tree to tile IR, with everything the language can find wrong on the way.

`check_function` is the stage; the modules are split by subject: `names`, `conversions` (types), `shapes`, `views`,
`storage`, `transfers` (asynchrony), `parallel` (levels), `loops`, `calls`, `expressions`, `statements`, `function`.
`context` holds the state they share, `values` what expressions evaluate to.
"""

from __future__ import annotations

from croq_magic.compiler.check import operators, shape_expressions  # noqa: F401 - they add the expressions they know
from croq_magic.compiler.check.context import UnitNames
from croq_magic.compiler.check.function import check_function

__all__ = ["UnitNames", "check_function"]
