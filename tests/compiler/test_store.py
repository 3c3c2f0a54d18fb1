"""Programs that come from the disk cache: the same results, messages and warnings, without the compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import croq_magic as croq
from croq_magic import cache
from croq_magic.compiler.pipeline import CompiledUnit
from croq_magic.compiler.store import StoredUnit

TEXT = """
__co__ f32 [M] gather(f32 [N] x, s32 [M] index) {
  f32 [M] out;
  parallel p by M { out.at(p) = x.at(index.at(p)); }
  return out;
}
__co__ void scale(f32 [10]& v, f32 factor) {
  parallel p by 4 : block {
    t = dma.copy v.chunkat(p) => shared;
    parallel q by 2 : thread { t.data.at(q) = t.data.at(q) * factor; }
    dma.copy t => v.chunkat(p);
  }
}
"""
X = np.arange(5, dtype=np.float32)
INDEX = np.array([4, 0, 2], np.int32)


@pytest.fixture(autouse=True)
def _fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CROQ_CACHE_DIR", str(tmp_path / "cache"))
    yield


def use(program: croq.Program) -> list[str]:
    """Runs both functions and returns what they say."""
    np.testing.assert_array_equal(program.gather(X, INDEX), [4, 0, 2])
    v = np.ones(10, np.float32)
    program.scale(v, 3.0)
    np.testing.assert_array_equal(v, [3] * 8 + [1] * 2)
    said = list(program.warnings)
    for wrong in (lambda: program.gather(X, INDEX + 1), lambda: program.gather(X, INDEX.astype(np.int64))):
        with pytest.raises(croq.CroqError) as caught:
            wrong()
        said.append(f"{type(caught.value).__name__} {caught.value}")
    return said


def test_the_second_time_says_and_does_the_same() -> None:
    first, said = croq.compile(TEXT), []
    assert isinstance(first.unit, CompiledUnit)
    said.append(use(first))
    second = croq.compile(TEXT)
    assert isinstance(second.unit, StoredUnit)
    said.append(use(second))
    assert said[0] == said[1]
    assert "not a multiple of 4" in said[0][0] and "cell:4:" in said[0][-2]
    assert repr(second.gather) == repr(first.gather) and second.gather.__doc__ == first.gather.__doc__


def test_what_was_not_kept_is_compiled() -> None:
    use(croq.compile(TEXT))
    second = croq.compile(TEXT)
    np.testing.assert_array_equal(second.gather(X[:2], INDEX[1:2]), [0])  # other extents
    assert "gather" in second.ir() and "gather" in second.source() and "gather" in second.syntax()
    assert {d.severity for d in second.diagnostics} == {"warning"}
    assert second.scale.launches(np.ones(10, np.float32), 1.0)[0].grid == (4, 1, 1)


def test_a_new_process_loads_no_stage_of_the_compiler() -> None:
    script = f"""
import sys
import numpy as np
import croq_magic as croq
program = croq.compile({TEXT!r})
x, index = np.arange(5, dtype=np.float32), np.array([4, 0, 2], np.int32)
print(program.gather(x, index).tolist())
print(sorted(set(sys.modules) & {{"croq_magic.compiler.ir", "croq_magic.compiler.syntax", "lark", "islpy"}}))
"""
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ
        ).stdout
        for _ in range(2)
    ]
    assert outputs[0].splitlines()[0] == outputs[1].splitlines()[0] == "[4.0, 0.0, 2.0]"
    assert "croq_magic.compiler.ir" in outputs[0]
    assert outputs[1].splitlines()[1] == "[]"


@pytest.mark.parametrize("change", ["text", "define", "checks"])
def test_anything_that_changes_the_meaning_compiles_again(change: str) -> None:
    croq.compile(TEXT, defines={"UNUSED": 1})
    text = TEXT.replace("factor;", "factor + 1.0f;") if change == "text" else TEXT
    defines = {"UNUSED": 2} if change == "define" else {"UNUSED": 1}
    again = croq.compile(text, defines=defines, checks="entry" if change == "checks" else "auto")
    assert isinstance(again.unit, CompiledUnit)


def test_missing_and_broken_entries_are_made_again() -> None:
    use(croq.compile(TEXT))
    for entry in list(cache.list()):
        for name, path in entry.files.items():
            if name == "module.so":
                path.unlink()
    program = croq.compile(TEXT)
    assert isinstance(program.unit, StoredUnit)
    use(program)
    for entry in list(cache.list()):
        if "record.pickle" in entry.files:
            entry.files["record.pickle"].write_bytes(b"broken")
    assert isinstance(croq.compile(TEXT).unit, CompiledUnit)


def test_a_text_that_includes_a_file_is_compiled_every_time() -> None:
    text = '#include "other.h"\n__co__ int one() { return 1; }\n'
    assert isinstance(croq.compile(text).unit, CompiledUnit)
    again = croq.compile(text)
    assert isinstance(again.unit, CompiledUnit) and again.one() == 1
