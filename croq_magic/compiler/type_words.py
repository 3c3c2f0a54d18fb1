"""Words that stand where an element type must and are none."""

from __future__ import annotations

from croq_magic.compiler.lexer import SCALAR_TYPES
from croq_magic.compiler.nearest import edit_distance

# What other languages call the element types.
FOREIGN_TYPES = {
    **dict.fromkeys(("i8", "int8", "int8_t", "char", "sbyte"), "s8"),
    **dict.fromkeys(("uint8", "uint8_t", "byte", "uchar"), "u8"),
    **dict.fromkeys(("i16", "int16", "int16_t", "short"), "s16"),
    **dict.fromkeys(("uint16", "uint16_t", "ushort"), "u16"),
    **dict.fromkeys(("i32", "int32", "int32_t", "signed", "integer"), "s32"),
    **dict.fromkeys(("uint32", "uint32_t", "unsigned", "uint"), "u32"),
    **dict.fromkeys(("i64", "int64", "int64_t", "long", "ptrdiff_t"), "s64"),
    **dict.fromkeys(("uint64", "uint64_t", "ulong", "size_t"), "u64"),
    **dict.fromkeys(("float16", "fp16", "__half"), "f16"),
    **dict.fromkeys(("float32", "fp32", "single"), "f32"),
    **dict.fromkeys(("float64", "fp64"), "f64"),
    **dict.fromkeys(("bfloat16", "__nv_bfloat16"), "bf16"),
    **dict.fromkeys(("fp8", "float8", "e4m3"), "f8_e4m3"),
    "boolean": "bool",
    "e5m2": "f8_e5m2",
}


def not_a_type(word: str) -> tuple[str, str]:
    """What is said of a word that stands where an element type must, and the types that may be meant."""
    return f"`{word}` is not an element type", _nearest(word)


def _nearest(word: str) -> str:
    if (known := FOREIGN_TYPES.get(word)) is not None:
        return f"did you mean `{known}`?"
    limit = 1 if len(word) <= 3 else 2
    distances = {name: edit_distance(word, name, limit) for name in sorted(SCALAR_TYPES)}
    best = min(distances.values())
    if best > limit:
        return "element types are `f32`, `f16`, `s32`, `u8` and so on; `int` and `bool` are scalars"
    near = [f"`{name}`" for name, distance in distances.items() if distance == best][:4]
    return f"did you mean {', '.join(near[:-1]) + ' or ' if near[1:] else ''}{near[-1]}?"
