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

from croq_magic.compiler.whole.build import build, executable, link
from croq_magic.compiler.whole.process import Finished, run
from croq_magic.compiler.whole.program import WholeProgram, transpile

__all__ = ["Finished", "WholeProgram", "build", "executable", "link", "run", "transpile"]
