"""From CUDA text to a loaded library of C++, through the on-disk cache."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from croq_magic import cache
from croq_magic.compiler.targets.cpu import build as cpu_build
from croq_magic.compiler.targets.cpu import toolchain
from croq_magic.compiler.targets.emulate.elf import Elf, Line, Lines, Variable
from croq_magic.compiler.targets.emulate.runtime import runtime
from croq_magic.errors import TargetError

INCLUDE = cpu_build.INCLUDE
SHIMS = INCLUDE / "emulate"  # headers of CUDA that a cell may include
FILE = "kernels.cu"
ZONE_BYTES = 4096  # behind each static shared array
_STATIC = re.compile(r"\bstatic\s+__shared__")
ASSEMBLY = "the_emulator_cannot_run_inline_assembly"  # not declared anywhere
_WORDS = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)*'"""
    r"""|\b(?P<asm>asm|__asm__|__asm)\b""",
    re.DOTALL,
)
_CLUSTER = r"__cluster_dims__\s*\((?P<extents>[^()]*)\)"  # in the head of a kernel
_DYNAMIC = re.compile(
    r"extern\s+__shared__\s+(?P<align>(?:alignas|__align__)\s*\([^()]*\)\s*)?(?P<type>[A-Za-z_][\w:\s]*?(?:<[^<>]*>)?)"
    r"\s+(?:(?:alignas|__align__)\s*\([^()]*\)\s*)?(?P<name>\w+)\s*\[\s*\]\s*;"
)


def host_text(text: str, symbols: Sequence[str], arch: int = 80) -> str:
    """CUDA text as C++ text: the prelude before it, and what starts each kernel after it.

    Three kinds of lines change: dynamic shared memory is declared as a pointer to the block's own, the word `static`
    before shared memory, which says nothing, goes, and inline assembly gets a name that no compiler knows: the
    processor's own would take some of a GPU's.
    """
    text = _WORDS.sub(lambda match: ASSEMBLY if match["asm"] else match[0], text)
    text = _STATIC.sub("__shared__", text)
    text = _DYNAMIC.sub(r"\g<type>* const \g<name> = (\g<type>*)croq_emulate_shared();", text)
    head = ["#define CROQ_EMULATE 1", f"#define __CUDA_ARCH__ {arch * 10}", '#include "croq_emulate.h"']
    text = _pinned(text)
    scope = "croq_cell::" if "namespace croq_cell {" in text else ""
    tail = [f"CROQ_EMULATE_KERNEL({scope}{symbol}, croq_run_{symbol})" for symbol in symbols]
    for symbol in symbols:
        cluster = re.search(rf"{_CLUSTER}[^;{{}}]*?\b{re.escape(symbol)}\s*\(", text)
        if cluster is not None:
            tail.append(f"CROQ_EMULATE_CLUSTER(croq_cluster_{symbol}, {cluster['extents']})")
    return "\n".join([*head, f'#line 1 "{FILE}"', text, '#line 1 "croq_emulate_tail"', *tail, ""])


def _pinned(text: str) -> str:
    """Generated text in which every line has the number of the statement of the cell that it was made from; compilers
    would count on from a marker. What the cell says itself, before it, stays as it is."""
    head, opening, rest = text.partition("\nnamespace croq_cell {\n")
    if not opening:
        return text
    out, marker = [], ""
    for line in rest.split("\n"):
        if line.startswith("#line "):
            marker = line
        elif line.startswith("#") or not line.strip():
            out.append(line)
        else:
            out += [marker, line] if marker else [line]
    return head + opening + "\n".join(out)


def _flags(compiler: toolchain.Compiler, checked: bool) -> tuple[str, ...]:
    common = [*toolchain.flags(compiler, True), "-g1", "-gdwarf-4", "-fno-rtti", "-UNDEBUG", "-xc++"]
    common.append("-fno-strict-aliasing")  # vectors are elements of other types, as for compilers of CUDA
    common.append("-fstack-clash-protection")  # large frames meet the end of their stack, not what lies behind it
    if compiler.family == "gcc":
        common += ["-fno-gnu-unique", "-fno-semantic-interposition"]
        if checked:
            # One place in the text stays one place in the module, and behind the place before it: what stands inline
            # has no line of the text but that of its neighbours.
            common += ["-fno-thread-jumps", "-fno-crossjumping", "-fno-reorder-blocks"]
            # A load moved out of a loop or a branch would be one of threads that never come to it.
            common += ["-fno-tree-loop-im", "-fno-tree-phiprop", "-fno-hoist-adjacent-loads"]
    if not checked:
        return (*common, "-O2")
    # Optimised as far as it leaves accesses as they are written.
    gcc = compiler.family == "gcc"
    volatile = ["--param=tsan-distinguish-volatile=1"] if gcc else ["-mllvm", "-tsan-distinguish-volatile"]
    if not gcc:
        volatile += ["-mllvm", "-disable-licm-promotion"]  # as above
    # In two words: zig reads `thread` itself. By itself it would have no messages of the others, only their traps.
    others = ["-fsanitize=bounds,alignment"] if gcc else ["-fsanitize=array-bounds,alignment", "-fno-sanitize-trap=all"]
    sanitize = ["-fsanitize=thread", *others]
    return (*common, "-O1", *sanitize, *volatile, "-DCROQ_CHECKED=1")


def spaced(assembly: str) -> str:
    """Assembly in which every thread-local variable, a static shared array, has a zone behind it that no thread may
    use: compilers put them side by side."""
    out, inside, named = [], False, False
    for line in assembly.split("\n"):
        out.append(line)
        words = line.split()
        if not words:
            continue
        if words[0] in (".section", ".text", ".data", ".bss"):
            inside = words[0] == ".section" and words[1].startswith(".tbss")
        elif inside and line[0] not in " \t#" and words[0].endswith(":"):
            named = True
        elif inside and named and words[0] == ".zero":
            out.append(f"\t.zero\t{ZONE_BYTES}")
            named = False
    return "\n".join(out)


def _all_headers() -> str:
    return "".join(path.read_text() for path in sorted([*INCLUDE.glob("*.h"), *SHIMS.glob("*.h")]))


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            env=dict(os.environ, LC_ALL="C"),
            stdin=subprocess.DEVNULL,
        )
    except OSError as error:
        raise TargetError(f"the C++ compiler {command[0]} does not start: {error}") from error
    if done.returncode != 0:
        raise toolchain.CompilationFailed(done.stderr or done.stdout or f"exit status {done.returncode}")


def compiled(compiler: toolchain.Compiler, text: str, checked: bool) -> bytes:
    """The shared library of C++ text from `host_text`. Raises `toolchain.CompilationFailed`."""
    with tempfile.TemporaryDirectory(prefix="croq_magic-") as folder:
        source, middle, output = Path(folder, FILE), Path(folder, "kernels.o"), Path(folder, "kernels.so")
        source.write_text(text)
        includes = (f"-I{INCLUDE}", f"-I{SHIMS}")
        compile_only = [*compiler.command, *_flags(compiler, checked), *includes, str(source)]
        if checked:
            assembly = Path(folder, "kernels.s")
            _run([*compile_only, "-S", "-o", str(assembly)])
            # zig would bring functions of its own.
            edited = assembly.read_text().replace("__ubsan_handle_", "croq_emulate_handle_")
            assembly.write_text(spaced(edited))
            _run([*compiler.command, "-c", str(assembly), "-o", str(middle)])
        else:
            _run([*compile_only, "-c", "-o", str(middle)])
        # Linked apart: with the option of the compilation, linkers would add a runtime of their own.
        lean = toolchain.link_flags(compiler, False)
        try:
            _run([*compiler.command, str(middle), "-o", str(output), *lean])
        except toolchain.CompilationFailed:
            _run([*compiler.command, str(middle), "-o", str(output), *toolchain.link_flags(compiler, True)])
        return output.read_bytes()


class Library:
    """The kernels of one text, compiled and loaded."""

    def __init__(self, path: Path, text: str, key: str, cached: bool, checked: bool) -> None:
        self.path, self.text, self.key, self.cached, self.checked = path, text, key, cached, checked
        self.handle = ctypes.PyDLL(str(path))
        self.handle.croq_anchor.restype = ctypes.c_void_p
        self.anchor = self._address("croq_anchor")
        # The dynamic linker knows where it has put the file: a symbol's address less its place in the file.
        info = _DlInfo()
        ctypes.PyDLL(None).dladdr(ctypes.c_void_p(self.anchor), ctypes.byref(info))
        self.base: int = info.base or 0
        variables = self.variables
        anchor = next((v for v in variables if "croq_anchor_place" in v.symbol), None)
        self.shared_shift = anchor.offset if anchor else 0
        self.shared_size = self.elf.tls_size if anchor is not None and len(variables) > 1 else 0
        places = [place for v in self.arrays for place in (v.offset, v.size)]
        self.places = (ctypes.c_int64 * len(places))(*places)

    def _address(self, name: str) -> int:
        address = ctypes.cast(getattr(self.handle, name), ctypes.c_void_p).value
        assert address is not None
        return address

    def cluster(self, symbol: str) -> tuple[int, int, int] | None:
        """The extents along x, y, z of a kernel's clusters; None if it has none."""
        if "__cluster_dims__" not in self.text or not hasattr(self.handle, f"croq_cluster_{symbol}"):
            return None
        x, y, z = (ctypes.c_uint32 * 3).in_dll(self.handle, f"croq_cluster_{symbol}")
        return x, y, z

    def kernel(self, symbol: str) -> int:
        """The address of what runs a kernel's threads."""
        return self._address(f"croq_run_{symbol}")

    @cached_property
    def elf(self) -> Elf:
        return Elf(self.path.read_bytes())

    @cached_property
    def variables(self) -> list[Variable]:
        """Static shared memory."""
        return self.elf.variables()

    @property
    def arrays(self) -> list[Variable]:
        """Static shared memory of the text."""
        return shared_arrays(self.variables)

    @cached_property
    def _lines(self) -> Lines:
        return Lines(self.elf)

    def line(self, site: int) -> Line | None:
        """The place in the text of an access or a wait, None when the file does not say."""
        return self._lines.at(site) if site else None


def shared_arrays(variables: Sequence[Variable]) -> list[Variable]:
    """Those of the thread-local variables that are shared memory."""
    return [v for v in variables if "croq_anchor_place" not in v.symbol and v.size]


class _DlInfo(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def library(text: str, symbols: Sequence[str], label: str, checked: bool, arch: int = 80) -> Library:
    """Compiles (or finds) and loads CUDA text with the kernels named.

    Raises `toolchain.CompilationFailed` with the compiler's messages, TargetError without a compiler.
    """
    runtime()
    compiler = toolchain.find()
    whole = host_text(text, symbols, arch)
    parts = parts_of(whole, checked)
    entry = cache.lookup(parts, label)
    if entry is not None:
        try:
            return Library(entry.files["module.so"], text, entry.key, True, checked)
        except (OSError, KeyError):
            pass  # evicted between the lookup and the load
    entry = cache.store(parts, {"module.so": compiled(compiler, whole, checked), "module.cpp": whole.encode()}, label)
    try:
        return Library(entry.files["module.so"], text, entry.key, False, checked)
    except OSError as error:
        raise toolchain.CompilationFailed(f"error: the module does not load: {error}") from error


def restored(key: str, text: str, checked: bool) -> Library | None:
    """A library built before, from its cache entry; None if that is gone."""
    runtime()
    entry = cache.find(key)
    if entry is None:
        return None
    try:
        return Library(entry.files["module.so"], text, key, True, checked)
    except (OSError, KeyError):
        return None


def parts_of(whole: str, checked: bool) -> dict[str, str]:
    """What the cache key of a build is made of."""
    compiler = toolchain.find()
    return {
        "source": whole,
        "headers": _all_headers(),
        "options": " ".join((*compiler.command, *_flags(compiler, checked))),
        "compiler": compiler.version,
        "processor": toolchain.processor(),
    }
