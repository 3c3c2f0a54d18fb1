"""Objects that hold data: machine code of kernels as a part of a host's program."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Mapping
from pathlib import Path

from croq_magic.compiler.targets.cpu import toolchain
from croq_magic.errors import TargetError


def symbol_of(text: str) -> str:
    """The symbol of what is made from a text: two programs that are linked together have different ones."""
    return f"croq_image_{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"


def data_object(pieces: Mapping[str, bytes], folder: Path) -> Path:
    """An object with each piece at its symbol, and its end at the symbol with `_end` behind."""
    lines = ['.section .note.GNU-stack,"",%progbits', ".section .rodata"]
    for symbol, data in pieces.items():
        (folder / f"{symbol}.bin").write_bytes(data)
        for name in (symbol, f"{symbol}_end"):
            lines += [f".globl {name}", f".hidden {name}"]
        lines += [".balign 64", f"{symbol}:", f'.incbin "{symbol}.bin"', f"{symbol}_end:", ".byte 0"]
    source, made = folder / "images.s", folder / "images.o"
    source.write_text("\n".join([*lines, ""]))
    command = [*toolchain.find().command, "-c", source.name, "-o", str(made)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise TargetError(f"the assembler refuses generated text, please report this:\n{done.stderr}")
    return made


def declaration(symbol: str, weak: bool = False) -> str:
    """C++ that declares a piece. A `weak` one may be absent; it is empty then."""
    attribute = "__attribute__((weak)) " if weak else ""
    return f'extern "C" {attribute}const unsigned char {symbol}[], {symbol}_end[];\n'
