"""Hosts for tileflow functions: a `main` that reads arrays from files, calls a function and writes what it gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from croq_magic.compiler.signature import Signature

CTYPES = {"int": "int", "bool": "bool"}


def ctype(name: str) -> str:
    return "bool" if name == "bool" else f"choreo::{name}"


def write_inputs(signature: Signature, inputs: dict[str, Any], folder: Path) -> None:
    """Puts every array and scalar into a file of its own."""
    for param in signature.params:
        if param.kind != "stream":
            value = np.ascontiguousarray(inputs[param.name], dtype=_dtype(param.type))
            (folder / f"{param.name}.in").write_bytes(value.tobytes())


def _dtype(name: str) -> Any:
    from croq_magic.arguments import numpy_dtype
    from croq_magic.compiler.types import BY_NAME

    return numpy_dtype(BY_NAME[name])


def host(signature: Signature, inputs: dict[str, Any], written: str | None) -> str:
    """`main` in C++ that takes the folder as its argument; the result goes to `result`."""
    lines = [
        "static void load(const char* folder, const char* name, void* to, size_t bytes) {",
        '  FILE* file = std::fopen((std::string(folder) + "/" + name + ".in").c_str(), "rb");',
        '  choreo::choreo_assert(file && std::fread(to, 1, bytes, file) == bytes, "an input is missing");',
        "  std::fclose(file);",
        "}",
        "static void save(const char* folder, const void* from, size_t bytes) {",
        '  FILE* file = std::fopen((std::string(folder) + "/result").c_str(), "wb");',
        '  choreo::choreo_assert(file && std::fwrite(from, 1, bytes, file) == bytes, "the result cannot be written");',
        "  std::fclose(file);",
        "}",
        "int main(int count, char** words) {",
        '  choreo::choreo_assert(count == 2, "one argument: the folder");',
    ]
    arguments = []
    for param in signature.params:
        name = f"{param.name}_in"
        if param.kind == "span":
            shape = np.shape(inputs[param.name])
            extents = ", ".join(map(str, shape))
            lines.append(f"  auto {name} = choreo::make_spandata<{ctype(param.type)}, {len(shape)}>({{{extents}}});")
            lines.append(f'  load(words[1], "{param.name}", {name}.data(), {name}.bytes());')
            arguments.append(f"{name}.view()")
        elif param.kind == "scalar":
            lines.append(f"  {ctype(param.type)} {name};")
            lines.append(f'  load(words[1], "{param.name}", &{name}, sizeof {name});')
            arguments.append(name)
        else:
            arguments.append("nullptr")
    call = f"{signature.name}({', '.join(arguments)})"
    if written is not None:
        lines += [f"  {call};", f"  save(words[1], {written}_in.data(), {written}_in.bytes());"]
    elif signature.extents is None:
        lines += [f"  auto result = {call};", "  save(words[1], &result, sizeof result);"]
    else:
        lines += [f"  auto result = {call};", "  save(words[1], result.data(), result.bytes());"]
    return "\n".join([*lines, "  return 0;", "}", ""])


def result(expected: Any, folder: Path) -> np.ndarray:
    """What the program wrote, with the element type and the shape of what is expected."""
    expected = np.asarray(expected)
    data = np.frombuffer((folder / "result").read_bytes(), expected.dtype)
    return data.reshape(expected.shape)
