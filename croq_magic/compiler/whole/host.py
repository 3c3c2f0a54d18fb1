"""What a target adds to whole programs: the C++ that stands for tileflow functions, and how it is compiled."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from croq_magic.errors import TargetError

if TYPE_CHECKING:
    from croq_magic.compiler import ir
    from croq_magic.compiler.source import Source
    from croq_magic.compiler.split import Unit
    from croq_magic.compiler.targets.base import Target
    from croq_magic.compiler.whole.program import WholeProgram

Kind = Literal["executable", "object", "assembly"]


@dataclasses.dataclass(frozen=True)
class HostCode:
    """The C++ that a target writes for the tileflow functions of one program.

    `headers` are bundled headers (`compiler/include/`) that come before everything, in order; `prelude` is text after
    them. `functions` maps names of the IR to the text that takes a function's place, `places` the same names to offsets
    in the source where functions stand. `keeps_cok` says that the contents of `__cok__` blocks stay in the file; a
    target that compiles them on their own has them in `device` as it needs them; `keeps_device` says the same of device
    functions. `runtime` are bundled C++ files that the executable needs; a self-contained text begins with them.
    `device` is the text of the device's own file, where there is one, named with the suffix `device_suffix`; `kernels`
    are the symbols in it. `cok_marker` changes the contents of `__cok__` blocks, where they need markers. `source`
    gives the code for `-es`, if that is in another form than what is built here.
    """

    headers: tuple[str, ...]
    prelude: str
    functions: Mapping[str, str]
    places: Mapping[str, int]
    keeps_cok: bool = True
    runtime: tuple[str, ...] = ()
    keeps_device: bool = True
    device: str = ""
    device_suffix: str = ""
    kernels: tuple[str, ...] = ()
    cok_marker: Callable[[str], str] | None = None
    source: Callable[[], HostCode] | None = None


class HostTarget(Protocol):
    """A target that can build whole programs. `targets/<name>/whole.py` has `host(target)`, which makes one."""

    suffix: str  # of what `-es` writes: ".cpp", ".cu"

    @property
    def early_header(self) -> str:
        """The first of every program's headers, if the compiler can read it before the program is there; else ""."""
        ...

    def begin(self) -> None:
        """Begins, in the background, to make what takes long and no program decides."""
        ...

    def emit(self, unit: Unit, functions: Sequence[ir.Function], shown: Mapping[str, str]) -> HostCode:
        """C++ for functions after all passes. `shown` has their signatures as messages show them."""
        ...

    def compile_command(
        self, source: str, output: str, kind: Kind, *, debug: bool = False, flags: Sequence[str] = ()
    ) -> list[str]:
        """The command line that compiles one self-contained file; an executable is linked too."""
        ...

    def source_command(self, source: str, output: str) -> list[str]:
        """The command line that builds what `-es` writes: that of `compile_command`, or of the target's compiler."""
        ...

    def link_command(self, parts: Sequence[str], output: str) -> list[str]:
        """The command line that links objects, made from self-contained files or with the runtime's object."""
        ...

    def runtime_objects(self) -> Sequence[Path]:
        """The runtime as objects, compiled once and cached, for programs that were compiled without it."""
        ...

    def device_objects(self, program: WholeProgram, folder: Path) -> Sequence[Path]:
        """Objects with the kernels of a program, made in the folder where the host's text does not hold them."""
        ...

    def identity(self) -> Mapping[str, str]:
        """What decides, besides the text, what is built: compiler, options, processor."""
        ...


def flags_of(source: Source, include_dirs: Sequence[str] = (), extra: Sequence[str] = ()) -> list[str]:
    """What a program's text does not say and the C++ compiler must know: folders of headers, the file's own among them,
    and what else the command line has."""
    own = [] if source.name.startswith("<") else [f"-iquote{Path(source.name).parent}"]
    return [*(f"-I{each}" for each in include_dirs), *own, *extra]


def has_hosts(target: Target) -> bool:
    """Whether a target can build whole programs, rather than functions for a notebook only."""
    return importlib.util.find_spec(f"croq_magic.compiler.targets.{target.name}.whole") is not None


def host_of(target: Target) -> HostTarget:
    """The host side of a target. TargetError if it has none."""
    name = f"croq_magic.compiler.targets.{target.name}.whole"
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise TargetError(f"the target `{target.name}` cannot build whole programs yet") from None
    found: HostTarget = module.host(target)
    return found
