"""Text to tokens: the lexical rules of the language (grammar section 2).

Tokens keep their text; which words are keywords is decided when they are handed to the parser, after macros have been
expanded. A word after a dot is one token with its dot, because all of them may be used as names elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.source import Source, Span

ELEM_TYPES = [
    "half",
    "bfp16",
    "float",
    "double",
    "f64",
    "f32",
    "tf32",
    "f16",
    "bf16",
    "f8",
    "f8_e4m3",
    "f8_e5m2",
    "f8_ue4m3",
    "f8_ue8m0",
    "f6_e3m2",
    "f6_e2m3",
    "f4_e2m1",
    "s64",
    "u64",
    "s32",
    "u32",
    "s16",
    "u16",
    "s8",
    "u8",
    "s6",
    "u6",
    "s4",
    "u4",
    "s2",
    "u2",
    "u1",
    "bin1",
]
ALIASES = {"half": "f16", "bfp16": "bf16", "float": "f32", "double": "f64", "f8": "f8_e4m3"}
SCALAR_TYPES = frozenset(["int", "bool", *ELEM_TYPES])
LEVELS = frozenset(["device", "cluster", "block", "group-4", "group", "thread", "term"])
STORAGES = frozenset(["global", "shared", "local"])

MATH = frozenset(
    [
        "__sin",
        "__cos",
        "__tan",
        "__asin",
        "__acos",
        "__atan",
        "__atan2",
        "__sinh",
        "__cosh",
        "__tanh",
        "__exp",
        "__expm1",
        "__exp2f",
        "__log",
        "__log1p",
        "__pow",
        "__sqrt",
        "__rsqrt",
        "__frcp_rn",
        "__fabs",
        "__sign",
        "__ceil",
        "__floor",
        "__round",
        "__isfinite",
        "__max",
        "__min",
        "__fmaf",
        "__sigmoid",
        "__softplus",
        "__gelu",
        "__alignup",
        "__aligndown",
        "cdiv",
    ]
)
ATOMICS = frozenset(f"__atomic_{op}" for op in ["add", "sub", "exch", "min", "max", "and", "or", "xor", "cas"])
BARRIER_CALLS = frozenset(["__bar_sync", "__bar_arrive"])

# Words with a rule of their own in the grammar.
KEYWORDS = frozenset(
    [
        "__co__",
        "__co_device__",
        "void",
        "auto",
        "mdspan",
        "ituple",
        "event",
        "stream",
        "frag",
        "mutable",
        "true",
        "false",
        "inf",
        "nullptr",
        "parallel",
        "by",
        "with",
        "in",
        "where",
        "foreach",
        "while",
        "if",
        "else",
        "break",
        "continue",
        "return",
        "yield",
        "inthreads",
        "apply",
        "call",
        "select",
        "dma",
        "tma",
        "mma",
        "swap",
        "rotate",
        "wait",
        "trigger",
        "after",
        "sync",
        "cooperative",
        "assert",
        "print",
        "println",
        "unroll",
        "vectorize",
        "__cpp__",
        "__asm__",
        "asm",
        "volatile",
        "goto",
        "__to",
    ]
)
# Reserved, but names for the grammar.
RESERVED_NAMES = MATH | ATOMICS | BARRIER_CALLS | {"reduce_max", "reduce_sum", "all_reduce_sum", "barrier", "fence"}
RESERVED = KEYWORDS | SCALAR_TYPES | LEVELS | STORAGES | RESERVED_NAMES

# Text -> terminal of grammar.lark, where that is not the word in capitals.
_TERMINALS = {
    **dict.fromkeys(SCALAR_TYPES, "TYPE"),
    **dict.fromkeys(STORAGES, "STORAGE"),
    **dict.fromkeys(LEVELS, "LEVEL"),
    **{word: word.upper() for word in KEYWORDS},
    **dict.fromkeys(["__co__", "__co_device__"], "FUNCTION"),
    **dict.fromkeys(["dma", "tma"], "ENGINE"),
    **dict.fromkeys(["swap", "rotate"], "ROTATE"),
    **dict.fromkeys(["print", "println"], "PRINT"),
    **dict.fromkeys(["asm", "__asm__"], "ASM"),
    **dict.fromkeys([".map", ".remap"], "DOTMAP"),
    **dict.fromkeys(
        ["*", "/", "%", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "^", "#*", "#/", "#%", "#+", "#-"], "OP"
    ),
    **dict.fromkeys(["+=", "-=", "*=", "/=", "%="], "ASSIGN"),
    "=>": "ARROW",
    "<->": "TIE",
    "??": "UNBOUNDED",
    "::": "SCOPE",
    "++": "INCREMENT",
    "--": "DECREMENT",
    "[[": "ATTRIBUTE",
    "(": "LPAR",
    ")": "RPAR",
    "[": "LSQB",
    "]": "RSQB",
    "{": "LBRACE",
    "}": "RBRACE",
    ",": "COMMA",
    ";": "SEMICOLON",
    ":": "COLON",
    "?": "QMARK",
    "=": "EQUAL",
    "<": "LESSTHAN",
    ">": "MORETHAN",
    "&": "AMPERSAND",
    "|": "VBAR",
    "+": "PLUS",
    "-": "MINUS",
    "!": "BANG",
    "~": "TILDE",
    "#": "HASH",
}
_KINDS = {"name": "NAME", "number": "NUMBER", "string": "STRING", "raw": "STRING", "dot": "DOTWORD"}

_TOKEN = re.compile(
    r"""
      (?P<space>[ \t\r\f\v]+ | \\\r?\n)
    | (?P<newline>\n)
    | (?P<comment>//[^\n]* | /\*.*?\*/)
    | (?P<raw>R"(?P<tag>[^()\\\s"]{0,16})\(.*?\)(?P=tag)")
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<level>group-4\b)
    | (?P<name>[^\W\d]\w*)
    | (?P<number>0[xX][\da-fA-F]\w* | \.?\d(?:[eE][+-](?=\d)|[\w.])*)
    | (?P<dot>\.\s*[^\W\d]\w*)
    | (?P<other>/\* | "[^\n]* | '(?:[^'\\\n]|\\.)+')
    | (?P<op><-> | => | \?\? | \+\+ | -- | << | >> | <= | >= | == | != | && | \|\| | \#\# | \#[-+*/%]
        | (?<!\()::(?!\s*[\d)])  # else two colons, as in `i(1::2)`
        | [-+*/%]\s*=(?![=>]) | \[\[(?=\s*(?:launch_bounds|maxnreg|schedule)\b) | [-+*/%=<>!~&|^?:,;.()\[\]{}\#])
    | (?P<bad>.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is "name", "number", "string", "raw", "dot", "level" or "op"; the preprocessor also sees "newline".

    `type` is the terminal of the grammar. For a token that comes from a macro's body, `span` is the place where the
    macro is used.
    """

    kind: str
    text: str
    span: Span
    type: str


def lex(source: Source, start: int, end: int, report: Report, newlines: bool = False) -> list[Token]:
    """The tokens of `source.text[start:end]` without comments; bad characters are reported and left out."""
    tokens = []
    scan = _TOKEN.scanner(source.text, start, end).match  # type: ignore[attr-defined]
    while match := scan():
        kind = match.lastgroup
        if kind in ("space", "comment") or (kind == "newline" and not newlines):
            continue
        text = match[0]
        span = Span(source, match.start(), match.end())
        if kind == "op" and text[-1] == "=" and text[0] in "+-*/%":
            text = text[0] + "="
        elif kind == "dot":
            text = "." + text[1:].lstrip()
        elif kind in ("other", "bad"):
            kind, text = _report_bad(text, span, report)
            if not kind:
                continue
        elif kind == "name" and not text.isascii():
            report.error("SYN01", f"`{text}`: names consist of the letters a-z, digits and `_`", span)
        assert kind is not None
        tokens.append(Token(kind, text, span, _TERMINALS.get(text) or _KINDS.get(kind, kind)))
    return tokens


def _report_bad(text: str, span: Span, report: Report) -> tuple[str, str]:
    """Says what is wrong with a text that is no token, and what the parser should see in its place, if anything."""
    if text == "/*":
        report.error("SYN13", f"end of file inside a comment opened at line {span.line}", span)
    elif text[0] == '"':
        hint = 'close it with `"`; a text of several lines is written R"(...)"'
        report.error("SYN01", "a string is not closed on its line", span, hint=hint)
        return "string", '""'
    elif text[0] == "'" and len(text) > 1:
        hint = "write the number, or a string in double quotes"
        report.error("SYN01", f"character literals do not exist: {text}", span, hint=hint)
        return "number", "0"
    else:
        report.error("SYN01", f"unexpected character `{text}`", span)
    return "", ""


def spell_number(text: str) -> int | float | None:
    """The value of a number as written, or None if it is malformed. Suffixes are `u`, `l`, `ll`, `f`."""
    if match := re.fullmatch(r"(0[xX][0-9a-fA-F]+|0|[1-9]\d*)([uU]?(?:ll|LL|[lL])?|(?:ll|LL|[lL])[uU])", text):
        return int(match[1], 0)
    if match := re.fullmatch(r"((?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)([fF]?)", text):
        return float(match[1])
    return None


_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


def string_value(token: Token) -> str:
    """The text a string token stands for: `\\n \\t \\" \\\\` are replaced, other escapes are kept as they are."""
    if token.kind == "raw":
        return token.text[token.text.index("(") + 1 : token.text.rindex(")")]
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), token.text[1:-1], flags=re.DOTALL)
