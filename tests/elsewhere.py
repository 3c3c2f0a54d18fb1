"""Programs of the CPU's tests on other targets.

`--programs-on TARGET` compiles them for that target instead, with all checks. `--programs-also emulate,cubin` is what
CI does: a test that has compiled a program for the CPU and passed runs once more with the emulator in the CPU's place,
against the same expectations; and the CUDA text of every program that was compiled for the CPU, for all shapes and for
those it was called with, goes through NVRTC to machine code for each of `ARCHS`.

Which tests and programs these are is found out while they run: nothing lists them. Left out are
- tests marked `cpu_only`, which ask what the CPU target alone has (its text, its messages, its limits),
- all but the first of the runs of one test that differ in the CPU's strategy alone,
- programs that a GPU refuses for one of the reasons in `REFUSALS`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from _pytest.reports import TestReport
from _pytest.runner import runtestprotocol

ARCHS = ("sm_75", "sm_80", "sm_90a")
STRATEGIES = {"loops", "roles", "fibers"}
LIMIT = 60  # seconds of the processor that a test may take on the emulator
BATCH = 24  # texts that NVRTC reads at once: it takes 40 ms for the prelude and a few for a kernel
# What errors of a program say that a target has no instruction or no notion for.
_GPU = {
    "DMA25": "no mapping of global memory into the address space of threads",
    "PAR04": "more threads than a block has",
    "CAL09": "no atomic operation on this type",
    "MMA01": "no tensor-core instruction of this shape",
    "MMA06": "no tensor-core tile of this kind on this architecture",
    "MMA12": "no warpgroups of tensor cores on this architecture",
}
REFUSALS: Mapping[str, Mapping[str, str]] = {
    "emulate": _GPU,
    "cuda": _GPU,
    "cubin": _GPU,
    "opencl": {"UNS01": "the target's limits"},
}


def refused(target: str, error: Any, also: frozenset[str]) -> bool:
    """Whether the errors of a `CompileError` say that the target has no such thing; `also` are codes for which the
    running test allows it."""
    return {d.code for d in error.diagnostics if d.severity == "error"} <= {*REFUSALS[target], *also}


def refusals(item: pytest.Item) -> frozenset[str]:
    """Codes of the test's mark `gpu_refuses`."""
    return frozenset(code for mark in item.iter_markers("gpu_refuses") for code in mark.args)


@contextlib.contextmanager
def limited(name: str) -> Iterator[None]:
    """Ends a test that takes more than `LIMIT` seconds of the processor: a kernel that waits for ever, say."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"{name}: more than {LIMIT} seconds of the processor")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class Kept:
    """A function of a test's module under `functools.cache`, with what it gave on one target kept from others."""

    def __init__(self, function: Any, plugin: Elsewhere) -> None:
        functools.update_wrapper(self, function)
        self.plugin = plugin
        self.of_target = {plugin.target: function}

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        target = self.plugin.target
        if target not in self.of_target:
            self.of_target[target] = functools.cache(self.of_target[None].__wrapped__)
        function = self.of_target[target]
        hits, compiled = function.cache_info().hits, self.plugin.compiled
        value = function(*arguments, **options)
        key = (arguments, tuple(options.items()))
        if self.plugin.compiled > compiled:
            self.plugin.kept.add((self, key))
        elif function.cache_info().hits > hits and (self, key) in self.plugin.kept:
            self.plugin.compiled += 1
        return value


class Elsewhere:
    """The plugin: compiles for `target` where the CPU was meant, and notes what was compiled for the CPU."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.on: str | None = config.getoption("--programs-on")
        self.also = [word for word in (config.getoption("--programs-also") or "").split(",") if word]
        unknown = set(self.also) - {"emulate", "cubin"}
        if unknown:
            raise pytest.UsageError(f"--programs-also knows emulate and cubin, not {', '.join(sorted(unknown))}")
        self.target = self.on
        self.counts: Counter[str] = Counter()
        self.refusals: frozenset[str] = frozenset()
        self.compiled = 0  # programs that the running test has compiled for the CPU
        self.repeats: set[str] = set()
        self.kept: set[Any] = set()  # cached functions and arguments for which they have compiled programs
        self.keepers: set[Any] = set()  # fixtures of more than a test that compile programs
        self.cubins = Cubins(self.counts) if "cubin" in self.also else None
        self._redirect()

    # ------------------------------------------------------------------------------------------------ compilation

    def _redirect(self) -> None:
        """`croq.compile` compiles for `self.target` where the CPU is meant, by name or as what "auto" is."""
        import croq_magic
        from croq_magic.compiler import pipeline

        self._compile_for = croq_magic.compile
        croq_magic.compile = self.compile
        if self.cubins is None:
            return
        build = pipeline.CompiledFunction._build

        def noted(function: Any, dims: Any) -> Any:
            module = build(function, dims)  # whose compiler accepts what the cell says about the device
            unit = function.unit
            if unit.target == "cpu" and self.cubins is not None:
                self.cubins.note(unit.request.source, unit.request.defines, function.name, dims)
            return module

        pipeline.CompiledFunction._build = noted  # type: ignore[method-assign]

    def compile(self, source: Any, wanted: str = "auto", arch: Any = None, *rest: Any, **options: Any) -> Any:
        from croq_magic import CompileError

        wanted = options.pop("target", wanted)
        if self.target is None or not (wanted == "cpu" or (wanted == "auto" and _is_cpu())):
            program = self._compile_for(source, wanted, arch, *rest, **options)
            self.compiled += program.target == "cpu"
            return program
        if self.target in ("emulate", "cuda"):
            arch = "sm_90a"
        if not rest[1:]:
            options.setdefault("checks", "all")
        try:
            if self.target == "cuda" and not _has_gpu():
                self._build_only(source, arch, options.get("checks", "all"))
            program = self._compile_for(source, self.target, arch, *rest, **options)
            self.compiled += 1
            return program
        except CompileError as error:
            if refused(self.target, error, self.refusals):
                pytest.skip(f"not on {self.target}: {error.diagnostics[0].message}")
            raise

    def _build_only(self, source: str, arch: str, checks: str) -> None:
        from targets.cuda_text import cubin, emission

        binary, log = cubin(emission(source, arch, checks).text, arch)
        assert binary, log
        pytest.skip("built for cuda; there is no GPU to run it")

    # ------------------------------------------------------------------------------------------------------ tests

    @pytest.hookimpl
    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        """Finds the runs of a test that differ in the CPU's strategy alone."""
        seen = set()
        for item in items:
            params = dict(getattr(getattr(item, "callspec", None), "params", {}))
            strategies = {n for n, v in params.items() if "strategy" in n or (isinstance(v, str) and v in STRATEGIES)}
            if not strategies:
                continue
            name = item.nodeid.partition("[")[0]
            indices = getattr(item.callspec, "indices", {})  # type: ignore[attr-defined]
            key = (name, tuple(sorted((n, i) for n, i in indices.items() if n not in strategies)))
            if key in seen:
                self.repeats.add(item.nodeid)
            seen.add(key)

    def left_out(self, item: pytest.Item) -> str:
        """Why a test does not run on other targets; nothing if it does."""
        if item.get_closest_marker("cpu_only") is not None:
            return "about the CPU target"
        return "another strategy of the CPU" if item.nodeid in self.repeats else ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        self.compiled, self.refusals = 0, refusals(item)
        self._keep_apart(item)
        if self.cubins is not None:
            self.cubins.test, self.cubins.refusals = item.nodeid, self.refusals
        done = yield
        if (
            (self.compiled or self._uses_kept(item))
            and "emulate" in self.also
            and not getattr(item, "croq_failed", False)
        ):
            reason = self.left_out(item)
            if reason:
                self.counts[reason] += 1
            else:
                self._again(item, nextitem)
        if self.cubins is not None:
            self.cubins.compile(at_least=1 if nextitem is None else BATCH)
            for test, arch, log in self.cubins.take_failures():
                self._report_failure(item, test, arch, log)
        return done

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Iterator[None]:
        if call.when == "call" and self.cubins is not None:
            self.cubins.emit()  # while the test's folder is there, in which its includes are
        report: Any = yield
        if self.target is None and not report.passed:
            item.croq_failed = True  # type: ignore[attr-defined]  # or skipped
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        before = self.compiled
        value = yield
        if self.compiled > before and fixturedef.scope != "function":
            self.keepers.add(fixturedef)
        return value

    def _keep_apart(self, item: pytest.Item) -> None:
        named = vars(item.module) if isinstance(item, pytest.Function) else {}
        for name, value in list(named.items()):
            if hasattr(value, "cache_info") and value.__module__ == item.module.__name__:
                setattr(item.module, name, Kept(value, self))

    def _uses_kept(self, item: pytest.Item) -> bool:
        """Whether a fixture that several tests share has compiled a program for this one."""
        found = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
        return any(definition in self.keepers for definitions in found.values() for definition in definitions)

    def _again(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """The test once more, on the emulator."""
        self.target, self.compiled = "emulate", 0
        cubins, self.cubins = self.cubins, None
        whole = self._uses_kept(item)  # then fixtures are made anew for it, and for the next test
        try:
            if whole:
                item.session._setupstate.teardown_exact(None)
            with limited(item.name):
                reports = runtestprotocol(item, log=False, nextitem=None if whole else nextitem)
        finally:
            self.target, self.cubins = None, cubins
        for report in reports:
            report.user_properties.append(("on", "emulate"))
            item.ihook.pytest_runtest_logreport(report=report)
        if any(report.skipped for report in reports):
            self.counts["refused by the emulator"] += 1
        else:
            self.counts["tests passed on the emulator" if not any(r.failed for r in reports) else "failed there"] += 1
            if not self.compiled:
                said = "nothing was compiled anew: the test's programs are kept from the run on the CPU"
                self._report_failure(item, item.nodeid, "emulate", said)

    def _report_failure(self, item: pytest.Item, test: str, arch: str, log: str) -> None:
        """A failure of the test that compiled the program first; workers of xdist speak of the running one only."""
        report = TestReport(item.nodeid, item.location, {}, "failed", log, "call")
        report.user_properties += [("test", test), ("on", arch)]
        item.ihook.pytest_runtest_logreport(report=report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Names tests by what they are shown as: with the target that they ran on."""
        said = dict(report.user_properties)
        if "on" in said and not hasattr(self.config, "workerinput"):
            report.nodeid = f"{said.get('test', report.nodeid)} on {said['on']}"
            report.location = (*report.location[:2], report.nodeid.partition("::")[2])

    @contextlib.contextmanager
    def around(self, item: pytest.Item, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """What a test needs while it runs elsewhere."""
        if self.target is not None:
            reason = self.left_out(item) if self.on else ""
            if reason:
                pytest.skip(reason)
            if item.get_closest_marker("races") is not None:
                monkeypatch.setenv("CROQ_EMULATE", "fast")
        yield

    # ---------------------------------------------------------------------------------------------------- summary

    @pytest.hookimpl
    def pytest_sessionfinish(self) -> None:
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output["elsewhere"] = dict(self.counts)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.counts.update(getattr(node, "workeroutput", {}).get("elsewhere", {}))

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.also:
            return
        terminalreporter.section("programs on other targets")
        for what, count in sorted(self.counts.items()):
            terminalreporter.write_line(f"{count:6} {what}")


def _is_cpu() -> bool:
    """Whether "auto" is the CPU now: tests of the CUDA target put a GPU there."""
    from croq_magic.compiler.targets.base import why_not_gpu

    return why_not_gpu() is not None


@functools.cache
def _has_gpu() -> bool:
    from croq_magic.compiler.targets.base import why_not_gpu

    return why_not_gpu() is None


@dataclasses.dataclass(frozen=True)
class Text:
    """CUDA text of a program, and the test that compiled it first."""

    text: str
    test: str


class Cubins:
    """Programs on their way to machine code."""

    def __init__(self, counts: Counter[str]) -> None:
        self.counts = counts
        self.test = ""
        self.refusals: frozenset[str] = frozenset()
        self.waiting: dict[tuple[Any, ...], None] = {}
        self.known: set[tuple[Any, ...]] = set()
        self.texts: dict[str, list[Text]] = {arch: [] for arch in ARCHS}
        self.seen: set[tuple[str, str]] = set()
        self.failures: dict[tuple[str, str], str] = {}  # by test and architecture

    def note(self, source: Any, defines: Any, function: str, dims: Mapping[str, int] | None) -> None:
        """A function of a program that was built for the CPU, for some extents or for all."""
        for key in ((source, defines, "", ()), (source, defines, function, tuple(sorted((dims or {}).items())))):
            if (key[2:] == ("", ()) or key[3]) and key not in self.known:
                self.known.add(key)
                self.waiting[key] = None

    def emit(self) -> None:
        """Texts of the programs that were noted since the last call."""
        waiting, self.waiting = self.waiting, {}
        for key in waiting:
            for arch in ARCHS:
                self._emit(key, arch)

    def compile(self, at_least: int) -> None:
        """Compiles the texts that have come together, where they are as many as that."""
        for arch, texts in self.texts.items():
            if len(texts) >= at_least:
                self._compile(arch, texts)
                texts.clear()

    def take_failures(self) -> list[tuple[str, str, str]]:
        """Test, architecture and NVRTC's words of texts that were refused since the last call."""
        failures, self.failures = self.failures, {}
        return [(*where, log) for where, log in failures.items()]

    def _fail(self, test: str, arch: str, log: str) -> None:
        self.failures.setdefault((test, arch), log)

    def _emit(self, key: tuple[Any, ...], arch: str) -> None:
        from croq_magic import CroqError
        from croq_magic.errors import CheckError, CompileError

        source, defines, function, dims = key
        try:
            emission = _emission(source, defines, arch, function, dims)
        except CompileError as error:
            codes = sorted({d.code for d in error.diagnostics if d.severity == "error"})
            if refused("cubin", error, self.refusals):
                self.counts[f"refused for {arch}: {', '.join(codes)}"] += 1
            else:
                self._fail(self.test, arch, str(error))
            return
        except CheckError:  # these extents are wrong, as the test wants to see
            return
        except CroqError as error:
            self._fail(self.test, arch, str(error))
            return
        if emission.kernels and (arch, emission.text) not in self.seen:
            self.seen.add((arch, emission.text))
            self.texts[arch].append(Text(emission.text, self.test))

    def _compile(self, arch: str, texts: Sequence[Text]) -> None:
        from targets.cuda_text import merged

        for batch in merged([each.text for each in texts]):
            self._compile_batch(arch, batch, texts)

    def _compile_batch(self, arch: str, batch: Any, texts: Sequence[Text]) -> None:
        from targets.cuda_text import cubin

        binary, log = cubin(batch.text, arch)
        self.counts[f"texts to machine code for {arch}"] += len(batch.members)
        if binary:
            return
        for number in batch.members:  # which one was it?
            binary, alone = cubin(texts[number].text, arch)
            if not binary:
                self._fail(texts[number].test, arch, f"{alone}\n{texts[number].text}")
                log = ""
        if log:
            self._fail(texts[batch.members[0]].test, arch, f"together with others:\n{log}")


def _emission(
    source: Any, defines: Sequence[tuple[str, str]], arch: str, function: str, dims: Sequence[tuple[str, int]]
) -> Any:
    """What a GPU of this architecture would get: of all functions for all shapes, or of one for some extents."""
    from croq_magic.compiler import pipeline, recursion
    from croq_magic.compiler.store import Request
    from croq_magic.compiler.targets import cuda

    chosen = cuda.target(arch)
    front = pipeline.front_end(source, chosen.limits, dict(defines), chosen.checks)
    front.report.raise_errors()
    unit = pipeline.CompiledUnit(
        front, chosen, chosen.checks, Request(source, "cuda", arch, tuple(defines), chosen.checks)
    )
    with recursion.deep():
        if not function:
            lowered = [each.lowered for each in unit.functions.values()]
        else:
            compiled = unit.functions[function]
            lowered = [compiled._lower(compiled._specialised(dict(dims)))]
        return chosen.emit(unit.regions, lowered)
