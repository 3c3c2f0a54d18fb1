"""Objects of bundled C++ files, which whole programs are linked with: compiled once, kept in the build cache."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from croq_magic import cache
from croq_magic.compiler.targets.cpu import build, toolchain
from croq_magic.errors import TargetError

_lock = threading.Lock()  # who comes while another compiles waits, and finds the object in the cache


def bundled(file: str, headers: Sequence[str], label: str, what: str, options: Sequence[str] = ()) -> Path:
    """The object of a bundled file that includes `headers`. `label` names it in the cache's list, `what` in messages;
    `options` come behind the usual ones. TargetError without a compiler."""
    with _lock:
        words = build.parts_of(build.header(file), native=False, headers=tuple(headers))
        parts = {**words, "what": f"{what} of whole programs", "options": " ".join(options)}
        entry = cache.lookup(parts, label)
        if entry is None:
            compiler = toolchain.find()
            with tempfile.TemporaryDirectory(prefix="croq_magic-") as folder:
                output = Path(folder, "object.o")
                command = [*compiler.command, *toolchain.flags(compiler, False), *options, f"-I{build.INCLUDE}"]
                command += ["-c", str(build.INCLUDE / file), "-o", str(output)]
                done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
                if done.returncode != 0:
                    raise TargetError(f"the C++ compiler refuses {what}, please report this:\n{done.stderr}")
                entry = cache.store(parts, {"object.o": output}, label)
        return entry.files["object.o"]
