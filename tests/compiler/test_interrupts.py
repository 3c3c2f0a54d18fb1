"""An import that an interrupt does not cut in half."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from croq_magic.compiler.interrupts import import_whole

SCRIPT = """
import os, signal, sys
sys.path.insert(0, {folder!r})
from croq_magic.compiler.interrupts import import_whole
try:
    import_whole("slow_module")
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted after", sys.modules["slow_module"].whole)
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_the_interrupt_comes_when_the_import_is_done(tmp_path: object) -> None:
    module = f"{tmp_path}/slow_module.py"
    with open(module, "w") as file:
        file.write("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nfor _ in range(1000): pass\nwhole = True\n")
    script = textwrap.dedent(SCRIPT).format(folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["interrupted after True", "True"], done.stderr


def test_what_is_missing_is_an_import_error() -> None:
    with pytest.raises(ImportError):
        import_whole("no_such_module_of_ours")
