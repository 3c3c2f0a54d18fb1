"""Which language a cell is in.

What parses as Python (IPython's own syntax included) is Python, so `__co__` in a Python string is Python too. What does
not, and has a tileflow function outside C++ strings and comments, is Croqtile.
"""

from __future__ import annotations

import ast
import re

_NOT_CODE = re.compile(
    r"""//[^\n]* | /\*.*?(?:\*/|\Z) | R"\((?:.*?)\)" | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'""",
    re.VERBOSE | re.DOTALL,
)
# At the start of a line, of a statement or after a block; words such as `static` may stand before it.
_TILEFLOW = re.compile(r"(?:^|[;}])[ \t]*(?:\w+[ \t]+)*__co__\s+\w", re.MULTILINE)


def code_only(text: str) -> str:
    """The text with C++ comments and strings blanked; places stay where they are."""
    return _NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def is_python(text: str) -> bool:
    """Whether IPython would run the text: magics and shell escapes count, `%%` cells as well."""
    if text.lstrip().startswith("%%"):
        return True
    try:
        ast.parse(text)
        return True
    except (SyntaxError, ValueError):
        pass
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        ast.parse(TransformerManager().transform_cell(text))
        return True
    except (SyntaxError, ValueError):
        return False


def is_croqtile(text: str) -> bool:
    """Whether the Croqtile kernel compiles the cell instead of running it as Python."""
    return "__co__" in text and not is_python(text) and _TILEFLOW.search(code_only(text)) is not None


def is_closed(text: str) -> bool:
    """Whether all brackets of a Croqtile cell are closed: a console then need not ask for more lines."""
    code = code_only(text)
    return all(code.count(opening) <= code.count(closing) for opening, closing in ("{}", "()", "[]")) and "{" in code
