"""The on-disk cache: whole entries only, whatever happens to the folder."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from croq_magic import cache

PARTS = {"source": "int f();", "options": "-O3", "compiler": "g++ 12"}
FILES = {"module.so": b"\x7fELF" * 1000, "module.cpp": b"int f();"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CROQ_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.setattr(cache, "_misses", [])
    return tmp_path / "store"


def test_stored_files_come_back() -> None:
    assert cache.lookup(PARTS, "f") is None
    stored = cache.store(PARTS, FILES, "f")
    found = cache.lookup(PARTS, "f")
    assert found is not None and found.key == stored.key == cache.key_of(PARTS)
    assert {name: found.read(name) for name in found.files} == FILES
    assert found.size == sum(map(len, FILES.values()))


def test_every_part_counts_and_parts_do_not_run_together() -> None:
    keys = {cache.key_of(PARTS)} | {cache.key_of({**PARTS, name: "x"}) for name in PARTS}
    assert len(keys) == 4
    assert cache.key_of({"a": "bc"}) != cache.key_of({"ab": "c"})


def test_folder_is_private(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    entry = cache.store(PARTS, FILES)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry.path.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", ["truncated", "changed", "missing", "manifest", "not json"])
def test_damaged_entry_is_dropped_and_built_again(damage: str) -> None:
    entry = cache.store(PARTS, FILES, "f")
    target = entry.files["module.so"]
    if damage == "truncated":
        target.write_bytes(FILES["module.so"][:100])
    elif damage == "changed":
        target.write_bytes(FILES["module.so"][:-1] + b"!")
    elif damage == "missing":
        target.unlink()
    elif damage == "manifest":
        (entry.path / "entry.json").unlink()
    else:
        (entry.path / "entry.json").write_text("{")
    assert cache.lookup(PARTS, "f") is None
    assert not entry.path.exists()
    assert cache.explain("f") == "f: the stored entry was damaged"
    cache.store(PARTS, FILES, "f")
    found = cache.lookup(PARTS, "f")
    assert found is not None and found.read("module.so") == FILES["module.so"]


def test_storing_over_a_damaged_entry_repairs_it() -> None:
    entry = cache.store(PARTS, FILES)
    entry.files["module.so"].write_bytes(b"broken")
    assert cache.store(PARTS, FILES).read("module.so") == FILES["module.so"]


def test_explain_names_what_changed() -> None:
    cache.store(PARTS, FILES, "f")
    cache.lookup({**PARTS, "compiler": "g++ 13"}, "f")
    assert cache.explain("f") == "f: compiler changed (g++ 12 -> g++ 13)"
    cache.lookup({**PARTS, "source": "x" * 1000, "options": "-O2"}, "f")
    assert cache.explain() == "f: source changed, options changed (-O3 -> -O2)"
    cache.lookup({"source": "g"}, "another name")
    assert cache.explain("another name") == "another name: nothing like it was compiled before"
    assert "came from the cache" in cache.explain("never looked up")


def test_list_and_clear() -> None:
    cache.store(PARTS, FILES, "f")
    cache.store({**PARTS, "options": "-O2"}, FILES, "g")
    assert sorted(entry.label for entry in cache.list()) == ["f", "g"]
    assert cache.clear() == 2
    assert list(cache.list()) == []
    assert cache.lookup(PARTS) is None


def test_least_recently_used_entries_leave_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROQ_CACHE_SIZE", "0.02")  # MiB: about five entries of 4 kB
    monkeypatch.setattr(cache, "_EVICT_EVERY", 1 << 30)
    now = time.time()
    for number in range(10):
        entry = cache.store({"source": str(number)}, FILES, str(number))
        os.utime(entry.path, (now - 5000 + number, now - 5000 + number))
    assert cache.lookup({"source": "2"}) is not None  # its use is recorded: it is now the youngest
    cache._evict(Path())
    left = {entry.label for entry in cache.list()}
    assert "2" in left and "9" in left and "0" not in left and "3" not in left
    assert sum(entry.size for entry in cache.list()) <= 0.02 * (1 << 20)


def test_leftovers_of_a_killed_process_are_swept(folder: Path) -> None:
    cache.store(PARTS, FILES)
    leftover = folder / ".partial-killed"
    leftover.mkdir()
    (leftover / "module.so").write_bytes(b"half")
    old = time.time() - 10 * 3600
    os.utime(leftover, (old, old))
    assert len(list(cache.list())) == 1
    cache._evict(Path())
    assert not leftover.exists()


def test_unusable_folder_falls_back_to_a_private_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("CROQ_CACHE_DIR", str(blocked / "cache"))
    folder = cache.directory()
    assert folder.is_dir() and stat.S_IMODE(folder.stat().st_mode) == 0o700
    cache.store(PARTS, FILES, "f")
    assert cache.lookup(PARTS, "f") is not None


def test_folder_of_somebody_else_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(parents=True)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert cache._prepare(folder) != folder


def test_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CROQ_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.directory() == tmp_path / "xdg" / "croq_magic"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache.directory() == tmp_path / "home" / ".cache" / "croq_magic"


def test_processes_that_store_one_entry_at_once(folder: Path) -> None:
    script = """
        import sys, time
        from croq_magic import cache
        fill = sys.argv[1].encode()
        while time.time() < float(sys.argv[2]):
            pass
        for number in range(60):
            parts = {"source": str(number % 3)}
            entry = cache.store(parts, {"a": fill * 50000, "b": fill * 50000})
            found = cache.lookup(parts)
            for e in (entry, found):  # `found` is None only while somebody replaces the entry
                if e is not None:
                    try:
                        a, b = e.read("a"), e.read("b")
                    except FileNotFoundError:
                        continue
                    # A whole entry may replace another between the two reads, so each file is looked at for itself.
                    assert all(len(set(each)) == 1 and len(each) == 50000 for each in (a, b)), "half an entry"
            if number % 7 == int(fill):
                cache.clear()
    """
    start = str(time.time() + 0.5)
    children = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script), fill, start],
            env={**os.environ, "CROQ_CACHE_DIR": str(folder)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for fill in ("1", "2", "3")
    ]
    for child in children:
        _, errors = child.communicate(timeout=60)
        assert child.returncode == 0, errors
    assert all(cache._load(entry.path, verify=True) for entry in cache.list())
