"""`%%croqtile` and `%croqtile`: from a cell to a value, a picture and a message.

The kernel runs cells through `run_cell` too: there is one path from text to result.
"""

from __future__ import annotations

import argparse
import keyword
import re
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from traitlets import Bool, Enum, Unicode, observe

from croq_magic import choice, emitted, options, warm
from croq_magic.cells import CellIndex
from croq_magic.clock import Clock
from croq_magic.errors import BindError, CompileError, CroqError, Interrupted, OptionError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from croq_magic.binding import Bound
    from croq_magic.compiler.source import Source
    from croq_magic.program import Program, TileFunction


KEPT_PROGRAMS = 64  # cells that run again unchanged find their program here


@magics_class
class CroqtileMagics(Magics):
    """The magics and their settings: `%config CroqtileMagics.target = "cpu"`."""

    target = Unicode("auto", help="Target of cells without -t: auto, cpu, cuda, ...").tag(config=True)
    checks = Enum(options.CHECK_LEVELS, "auto", help="Run-time checks of cells without --checks.").tag(config=True)
    show = Unicode("", help="Figures that every cell draws: tiling, mapping, or both with a comma.").tag(config=True)
    time = Bool(False, help="Whether every cell prints how long compiling and running took.").tag(config=True)
    theme = Enum(("light", "dark"), "light", help="Colours of figures: light, dark.").tag(config=True)

    @observe("theme")
    def _theme_changed(self, change: dict[str, str]) -> None:
        from croq_magic.viz import theme

        theme.set_default(change["new"])

    def __init__(self, shell: InteractiveShell, **kwargs: Any) -> None:
        super().__init__(shell, **kwargs)
        self._told_about_cpu = False
        self._cells = CellIndex()
        self._programs: dict[tuple[Any, ...], Program] = {}

    @no_var_expand
    @line_cell_magic
    def croqtile(self, line: str, cell: str | None = None) -> Any:
        if cell is not None:
            return self.run_cell(line, cell)
        if not line.strip():
            from croq_magic import doctor

            print(doctor.report())
            return None
        settings = options.parse(line)
        if settings.help:
            print(options.parser().format_help())
            return None
        raise OptionError(
            "%croqtile takes no options but --help; a program goes into a cell that begins with %%croqtile"
        )

    croqtile.__doc__ = (
        options.parser().format_help() + "\n%croqtile without a cell shows target, compiler, cache and version."
    )

    def run_cell(self, line: str, text: str) -> Any:
        """Compiles and runs a cell; `line` holds the options. A mistake of the user's raises a `CroqError`."""
        settings = self._settings(options.parse(line))
        if settings.help:
            print(options.parser().format_help())
            return None
        source = self._source(text)
        names = self._cells.learn(source.text, self._cell_number())
        clock = Clock()
        try:
            with self._begun(source, settings):
                program = clock.time("compiled", self._compile, source, settings)
                self._warn(program, settings)
                self._publish(program)
                if settings.emit:
                    print(emitted.text(program, settings.emit, settings.arch))
                value = self._run(program, settings, clock)
        except CompileError as error:  # of the compiler, or of the target's when extents become known
            raise self._cells.explain(error, names) from None
        except (CroqError, Interrupted, MemoryError):
            raise
        except KeyboardInterrupt:
            raise Interrupted("the cell was interrupted before anything ran") from None
        except Exception as error:
            error.add_note("This is a mistake in croq_magic. Please report it with the cell and what %croqtile prints.")
            raise
        if settings.time:
            print(clock)
        return value

    # ------------------------------------------------------------------------------------------------------ steps

    def _settings(self, given: argparse.Namespace) -> argparse.Namespace:
        """The options of a line, with the traits where an option is not given."""
        given.target = given.target or self.target
        given.checks = given.checks or self.checks
        given.time = self.time if given.time is None else given.time
        if given.show is None:
            try:
                given.show = options.figures(self.show)
            except argparse.ArgumentTypeError as error:
                raise OptionError(f"CroqtileMagics.show: {error}") from None
        return given

    def _source(self, text: str) -> Source:
        """The cell's text, its lines numbered as the notebook numbers them: the magic line counts."""
        from croq_magic.compiler.source import Source

        history = getattr(self.shell.history_manager, "input_hist_raw", [""])
        raw = history[-1] if history else ""
        start = raw.rstrip().rfind(text.rstrip())
        first = raw.count("\n", 0, start) + 1 if start >= 0 and text.strip() else 2
        return Source(text, "cell", first)

    def _cell_number(self) -> int:
        """The n of `In[n]`; the shell's own counter already stands at the next cell, or not, by version."""
        return len(getattr(self.shell.history_manager, "input_hist_raw", [""])) - 1

    def _begun(self, source: Source, settings: argparse.Namespace) -> AbstractContextManager[None]:
        """The time in which a whole program that was not compiled before is built; see `run.begun`."""
        if re.search(r"\bmain\s*\(", source.text) is None:
            return nullcontext()
        from croq_magic import run
        from croq_magic.compiler import store

        defines = tuple(sorted(self._macros(settings).items()))
        return run.begun(store.Request(source, settings.target, None, defines, settings.checks))

    def _macros(self, settings: argparse.Namespace) -> dict[str, str]:
        return {
            name: options.macro_text(options.evaluate(expression, self.shell.user_ns, f"-D {name}"), f"-D {name}")
            for name, expression in settings.defines
        }

    def _compile(self, source: Source, settings: argparse.Namespace) -> Program:
        from croq_magic import program
        from croq_magic.compiler import store

        defines = self._macros(settings)
        arch = emitted.arch(settings.emit, settings.target, settings.arch)
        key = (source.text, source.first_line, settings.target, arch, settings.checks, *sorted(defines.items()))
        found = self._programs.pop(key, None)
        if found is None or not store.self_contained(source):
            found = program.compile(source, settings.target, arch, defines, settings.checks)
        else:
            sys.stdout.write(found.unit.printed)  # what the program prints while it is compiled
        self._programs[key] = found  # the most recently used is the last
        while len(self._programs) > KEPT_PROGRAMS:
            del self._programs[next(iter(self._programs))]
        return found

    def _warn(self, program: Program, settings: argparse.Namespace) -> None:
        for text in program.warnings:
            print(text, file=sys.stderr)
        if program.target == "cpu" and settings.target == "auto" and not self._told_about_cpu:
            self._told_about_cpu = True
            from croq_magic.compiler.targets import base

            problem = base.why_not_gpu()
            if problem is None or problem.no_gpu:
                print("No GPU found: croqtile cells run on the CPU.")
            else:
                print(f"Croqtile cells run on the CPU: {problem.text}.")

    def _publish(self, program: Program) -> None:
        """Makes every function a variable of the notebook, unless that would take an argument away."""
        from croq_magic.overloads import OverloadedFunction
        from croq_magic.program import TileFunction

        known, ours = self.shell.user_ns, (TileFunction, OverloadedFunction)
        wanted = {name for function in program.all_functions for name in function.binder.names}
        for name in program.functions:
            if name in wanted and name in known and not isinstance(known[name], ours):
                raise BindError(
                    f"{name}: a function of this cell and the variable for a parameter have one name\n"
                    "    hint:     rename the function; the variable is as it was"
                )
            if keyword.iskeyword(name):
                print(f"{name} is a word of Python, so no variable can be called so; rename the function to call it")
        self.shell.push(dict(program.functions))

    def _run(self, program: Program, settings: argparse.Namespace, clock: Clock) -> Any:
        """Runs the chosen function if it can be, shows what was asked for, and gives the value of the cell."""
        if settings.run is None and choice.is_whole(program):
            return self._run_whole(program, settings, clock)
        if settings.args:
            raise OptionError("--args: the cell has no `main`, so there is no command line")
        function = choice.function(program, settings, self.shell.user_ns)
        if function is None:
            print("The cell has no tileflow function (__co__): there is nothing to run.")
            return None
        if settings.no_run:
            self._draw(function, settings, None)
            return None
        if settings.output and not function.compiled.signature.result:
            raise OptionError(f"-o {settings.output}: {function.__name__} returns nothing")
        values, expressions, missing = choice.arguments(function, settings, self.shell.user_ns)
        if missing:
            from croq_magic.arguments import listing

            variables = f"no variable {listing(missing)}" if len(missing) == 1 else f"no variables {listing(missing)}"
            print(f"{function.__name__} is defined but did not run: the notebook has {variables}.")
            self._draw(function, settings, None)
            return None
        if program.target == "cuda" and settings.emit in options.CUDA_KINDS and (why := self._no_gpu()):
            print(f"{function.__name__} is defined but did not run: {why}.")
            self._draw(function, settings, None)
            return None
        bound = function.binder.bind(values, expressions)
        for text in bound.plan.warnings:
            print(text, file=sys.stderr)
        clock.time("compiled", function.build, bound)
        timed = getattr(program.unit.chosen, "timed", None) if settings.time else None
        if timed is None:
            value = clock.time("ran", self._finished, function, bound)
        else:
            value, clock.device = clock.time("ran", timed, function, bound)
        self._tell_modified(bound, expressions)
        if settings.output:
            self.shell.push({settings.output: value})
        self._draw(function, settings, bound)
        return value

    @staticmethod
    def _no_gpu() -> str:
        from croq_magic.compiler.targets import base

        problem = base.why_not_gpu()
        return problem.text if problem is not None else ""

    @staticmethod
    def _finished(function: TileFunction, bound: Bound) -> Any:
        """Runs a function, and waits for a device: what fails there is this cell's error."""
        value = function.run(bound)
        function.finish()
        return value

    def _run_whole(self, program: Program, settings: argparse.Namespace, clock: Clock) -> Any:
        """Builds and runs a program with `main`; its exit status other than 0 is an error."""
        from croq_magic import run

        words = options.words(settings.args, "--args")
        path = clock.time("compiled", run.executable, program)
        done = None
        if not settings.no_run:
            done = clock.time("ran", run.run_streamed, path, words)
            if settings.output:
                self.shell.push({settings.output: done})
            run.require_success(done, shown=True)
        function = choice.function(program, settings, self.shell.user_ns)
        if function is not None:
            self._draw(function, settings, None)
        return None

    def _tell_modified(self, bound: Bound, expressions: dict[str, str]) -> None:
        names = [expressions.get(name, name) for name in bound.written]
        if names:
            print(f"{' and '.join(names)} {'was' if len(names) == 1 else 'were'} modified in place")

    def _draw(self, function: TileFunction, settings: argparse.Namespace, bound: Bound | None) -> None:
        """Shows the figures; extents come from the arguments of the run, else from the variables that there are."""
        if not settings.show:
            return
        from IPython.display import display

        from croq_magic import viz

        if bound is not None:
            sizes = function.binder.sizes(bound)
        else:
            known = self.shell.user_ns
            sizes = {name: known[name] for name in function.binder.required if name in known}
        for name in settings.show:
            display(getattr(viz, name)(function, **sizes))


def load(shell: InteractiveShell) -> CroqtileMagics:
    """Registers the magics with a shell; loading twice keeps the first."""
    found = loaded(shell)
    if found is None:
        found = CroqtileMagics(shell)
        shell.register_magics(found)
        shell.input_transformers_cleanup.append(with_body)
        warm.start()
    return found


def with_body(lines: list[str]) -> list[str]:
    """Input transformer: a cell of a `%%croqtile` line alone gets an empty line. IPython refuses cell magics without a
    body, with a hint that misleads here."""
    if lines and re.match(r"%%croqtile\b", lines[0]) and not any(lines[1:]):
        return [lines[0], "\n"]
    return lines


def loaded(shell: InteractiveShell) -> CroqtileMagics | None:
    return next((each for each in shell.configurables if isinstance(each, CroqtileMagics)), None)


def unload(shell: InteractiveShell) -> None:
    """Removes the magics from a shell."""
    found = loaded(shell)
    if found is not None:
        shell.configurables.remove(found)
        shell.input_transformers_cleanup.remove(with_body)
        for kind in ("line", "cell"):
            shell.magics_manager.magics[kind].pop("croqtile", None)
