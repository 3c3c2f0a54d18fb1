"""Whole programs: C++ host and device text with tileflow functions in it, from text to a process.

    program = transpile(source, "cpu")           # -> WholeProgram; raises CompileError with all diagnostics
    program.text                                 # one self-contained C++ file: `g++ -std=c++17 -O3 -pthread file.cpp`
    program.command("file.cpp", "a.out")         # the compiler's command line for that file, as a list of words
    build(program, Path("a.out"))                # kind="executable" | "object" | "assembly"; debug=True adds -g
    link([Path("a.o"), Path("b.o")], Path("a.out"), "cpu")
    path = executable(program)                   # the same through the build cache
    done = run(path, ["--n", "3"], on_output=...)    # a process of its own -> Finished(returncode, stdout, stderr)

Host and device text stay byte for byte where they are; each tileflow function is replaced by C++ with the calling
convention of the host API: views in, owning data out. What differs between targets is in a `HostTarget`
(`targets/<name>/whole.py`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from croq_magic.compiler.whole.builder import build, executable, link
    from croq_magic.compiler.whole.main import is_whole_program
    from croq_magic.compiler.whole.process import Finished, run
    from croq_magic.compiler.whole.program import WholeProgram, of_unit, transpile

# A program that comes from the cache needs a process and nothing else of this.
_LAZY = {
    **dict.fromkeys(("build", "executable", "link"), "builder"),
    "is_whole_program": "main",
    **dict.fromkeys(("Finished", "run"), "process"),
    **dict.fromkeys(("WholeProgram", "of_unit", "transpile"), "program"),
}

__all__ = ["Finished", "WholeProgram", "build", "executable", "is_whole_program", "link", "of_unit", "run", "transpile"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
