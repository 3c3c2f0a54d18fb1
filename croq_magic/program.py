"""The Python interface to the compiler: `compile`, `check`, `Program` and its callable functions."""

from __future__ import annotations

import inspect
import keyword
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from croq_magic.errors import CheckError, Interrupted, ShapeWarning, TargetError

if TYPE_CHECKING:
    from croq_magic.binding import Bound
    from croq_magic.compiler.diagnostics import Diagnostic
    from croq_magic.compiler.ir import Function
    from croq_magic.compiler.pipeline import CompiledFunction, CompiledUnit
    from croq_magic.compiler.source import Source
    from croq_magic.compiler.store import StoredFunction, StoredUnit
    from croq_magic.compiler.targets.emulate.profile import Profile
    from croq_magic.launches import Launch
    from croq_magic.overloads import OverloadedFunction

Defines = Mapping[str, Any]


def compile(
    source: str | Source,
    target: str = "auto",
    arch: str | None = None,
    defines: Defines | None = None,
    checks: str = "auto",
) -> Program:
    """Compiles a tileflow program.

    `target` is "auto" (a GPU if there is one, else the CPU) or the name of a target, `arch` an architecture of it.
    `defines` gives macros as numbers or texts. `checks` says what is checked while running: "auto", "none", "entry",
    "low", "medium", "high" or "all", each including the ones before it.

    Raises `CompileError` with all diagnostics if the program is wrong, `TargetError` if the target cannot be used.
    """
    from croq_magic.compiler import store

    text, macros = _source(source), _macros(defines)
    unit: CompiledUnit | StoredUnit | None
    unit = store.lookup(store.Request(text, target, arch, tuple(sorted(macros.items())), checks))
    if unit is None:
        from croq_magic.compiler import pipeline

        unit = pipeline.compile(text, target, arch, macros, checks)
    if unit.printed:  # by `print!`, which runs in the compiler
        sys.stdout.write(unit.printed)
    return Program(unit)


def check(
    source: str | Source, target: str = "auto", arch: str | None = None, defines: Defines | None = None
) -> list[Diagnostic]:
    """All errors, warnings and notes of a program, in the order of the text; builds and raises nothing."""
    from croq_magic.compiler import pipeline

    return list(pipeline.check(_source(source), target, arch, _macros(defines)))


def _source(source: str | Source) -> Source:
    from croq_magic.compiler.source import Source

    if isinstance(source, Source):
        return source
    if not isinstance(source, str):
        raise TypeError(f"source must be a string, not {type(source).__name__}")
    return Source(source)


def _macros(defines: Defines | None) -> dict[str, str]:
    from croq_magic.options import macro_text

    return {name: macro_text(value, f"defines[{name!r}]") for name, value in (defines or {}).items()}


class Program:
    """A compiled program. Its functions are attributes too: `program.matmul(lhs, rhs)`.

    `functions` maps names to `TileFunction`s in the order of the source (several of one name are an
    `OverloadedFunction`), `all_functions` lists each; `diagnostics` holds the warnings; `target` is the name of the
    target it was compiled for.
    """

    def __init__(self, unit: CompiledUnit | StoredUnit) -> None:
        self.unit = unit
        self.all_functions = [TileFunction(function, self) for function in unit.functions.values()]
        self.functions = _by_name(self.all_functions)
        # As plain attributes, so that `program.matmul(...)` costs no more than a call. Our own names win.
        self.__dict__.update((name, each) for name, each in self.functions.items() if not hasattr(Program, name))

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """Warnings and notes, in the order of the text."""
        return list(self.unit.report)

    @property
    def warnings(self) -> list[str]:
        """The same as text."""
        return self.unit.warnings

    @property
    def target(self) -> str:
        return self.unit.target

    def source(self) -> str:
        """The generated source for the target, as text."""
        return self.unit.source()

    def syntax(self) -> str:
        """The syntax trees of the functions, as text."""
        return self.unit.syntax()

    def ir(self) -> str:
        """The tile IR, as text."""
        return "\n\n".join(function.ir() for function in self.functions.values())

    def profile(self, *args: Any, **kwargs: Any) -> Profile:
        """`TileFunction.profile` of the program's only function."""
        if len(self.functions) != 1:
            names = ", ".join(self.functions) or "none"
            raise TypeError(f"profile one function of the program, as in program.f.profile(...); it has {names}")
        return _profile(self, next(iter(self.functions.values())), args, kwargs)

    def __getattr__(self, name: str) -> TileFunction | OverloadedFunction:
        known = ", ".join(self.__dict__.get("functions", ())) or "none"
        raise AttributeError(f"the program has no function {name!r} (its functions: {known})")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.functions})

    def __iter__(self) -> Iterator[TileFunction | OverloadedFunction]:
        return iter(self.functions.values())

    def __repr__(self) -> str:
        return f"<croq_magic program for {self.target}: {', '.join(self.functions) or 'no tileflow function'}>"


def _profile(program: Program | None, call: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Profile:
    if program is None or program.target != "emulate":
        raise TargetError("only the emulator counts: compile the program with target='emulate'")
    from croq_magic.compiler.targets.emulate.device import profile

    return profile(call, args, kwargs)


def _by_name(functions: list[TileFunction]) -> dict[str, TileFunction | OverloadedFunction]:
    """The functions under the names that callers use; one that has overloads stands where its last one does."""
    groups: dict[str, list[TileFunction]] = {}
    for function in functions:
        name = function.__name__
        groups[name] = [*groups.pop(name, ()), function]
    out: dict[str, TileFunction | OverloadedFunction] = {}
    for name, group in groups.items():
        if len(group) == 1:
            out[name] = group[0]
        else:
            from croq_magic.overloads import OverloadedFunction

            out[name] = OverloadedFunction(name, group)
    return out


class TileFunction:
    """A tileflow function that can be called with arrays, positionally or by parameter name.

    Arrays must have the declared element type, rank and extents (`BindError` otherwise). Parameters with `&` are
    written in place. The result is a new array, a scalar, or None.
    """

    def __init__(self, compiled: CompiledFunction | StoredFunction, program: Program | None = None) -> None:
        from croq_magic.binding import Binder
        from croq_magic.fastcall import specialise

        self.compiled = compiled
        self.program = program
        arrays = getattr(program.unit.chosen, "arrays", None) if program is not None else None
        self.binder = Binder(compiled.signature) if arrays is None else Binder(compiled.signature, arrays())
        self._count = len(self.binder.params)
        self._fast = specialise(self.binder, self._slow, self._explain)
        self.signature = compiled.signature.text
        self.__name__ = self.__qualname__ = compiled.signature.name
        self.__doc__ = self._documentation()
        self.__signature__ = inspect.Signature(
            [
                inspect.Parameter(
                    p.name + "_" * keyword.iskeyword(p.name),
                    inspect.Parameter.POSITIONAL_OR_KEYWORD,
                    **({"default": None} if p.kind == "stream" else {}),
                )
                for p in compiled.signature.params
                if p.named
            ]
        )

    def _documentation(self) -> str:
        from croq_magic.arguments import numpy_text

        lines = [self.signature, ""]
        for p in self.compiled.signature.params:
            if p.kind == "stream":
                kind = "a stream"
            elif p.kind == "scalar":
                kind = "a number"
            else:
                kind = f"array of {numpy_text(p.dtype)}" + (", written in place" if p.written else "")
            lines.append(f"    {p.declaration}: {kind}")
        result = self.compiled.signature.result_dtype
        if result is not None:
            what = "an array of " if self.compiled.signature.extents is not None else ""
            lines += ["", f"Returns {what}{numpy_text(result)}."]
        return "\n".join(lines)

    def __repr__(self) -> str:
        target = f", target {self.program.target}" if self.program else ""
        return f"<tileflow {self.signature}{target}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and len(args) == self._count:
            return self._fast(*args)
        return self._fast(*self.binder.arrange(args, kwargs))

    def _slow(self, *values: Any) -> Any:
        bound = self.binder.bind(values)
        if bound.plan.ready is None:
            for text in bound.plan.warnings:
                warnings.warn(text, ShapeWarning, stacklevel=4)
        return self.run(bound)

    def run(self, bound: Bound) -> Any:
        """Runs the function on arguments that are already bound."""
        self.build(bound)
        plan = bound.plan
        assert plan.ready is not None
        try:
            result = plan.new_result()
            value = plan.ready(bound.values, plan.dims, result)
        except BaseException as error:
            raise self._explain(error, bound.in_place) from None
        bound.write_back()
        return value if result is None else result

    def finish(self) -> None:
        """Waits for what runs on the device of the function's target, and raises what failed there."""
        finish = getattr(self.program.unit.chosen, "finish", None) if self.program is not None else None
        if finish is not None:
            finish()

    def build(self, bound: Bound) -> None:
        """Builds the function for the extents of bound arguments, if that has not been done.

        Raises `CheckError` when an access is proven to be wrong with these extents.
        """
        if bound.plan.ready is None:
            bound.plan.launch_by(self.compiled.variant(bound.plan.dims).launch)

    def _explain(self, error: BaseException, in_place: list[str]) -> BaseException:
        """The error to raise for one of a launch. Copies are dropped; arrays written in place may have changed."""
        from croq_magic.arguments import listing

        rest = f"\n    {listing(in_place)} may be partly written" if in_place else ""
        if isinstance(error, KeyboardInterrupt):
            return Interrupted(f"{self.__name__} was interrupted{rest}")
        if isinstance(error, CheckError):
            return CheckError(f"{error}{rest}")
        if isinstance(error, MemoryError):
            return TargetError(f"{self.__name__}: not enough memory for its result")
        return error

    @property
    def ir_function(self) -> Function:
        """The tile IR."""
        return self.compiled.function

    def launches(self, *args: Any, **kwargs: Any) -> list[Launch]:
        """Grid, block, shared bytes and level map of every launch, for these arguments; none are needed when all
        extents are constants. Nothing runs."""
        from croq_magic.launches import launches

        if not args and not kwargs:
            return launches(self, {})
        return launches(self, self.binder.sizes(self.binder.bind(self.binder.arrange(args, kwargs))))

    def profile(self, *args: Any, **kwargs: Any) -> Profile:
        """Runs the function in the emulator and counts, per line: requests of warps, bytes, 32-byte sectors of global
        memory and passes over the banks of shared memory that one request takes, and how few would do.

        `str()` of the result is a table, `.rows` has it as values. TargetError for a program of another target.
        """
        return _profile(self.program, self, args, kwargs)

    def source(self) -> str:
        """The generated source for the target, as text."""
        return self.compiled.source()

    def ir(self) -> str:
        """The tile IR as text."""
        return self.compiled.ir()
