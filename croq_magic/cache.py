"""The on-disk cache of everything a cell compiles to.

An entry is a folder `<directory>/<key>/` with the files of one build and `entry.json`: their checksums and the parts
the key was made of (source, options, compiler, processor, package version). It is written under another name and
renamed, so two processes that write one entry at once both end with a whole entry; an entry whose files do not match
their checksums is dropped and built again. The folder is private (0700, owned by the user): what is in it is code.

`CROQ_CACHE_DIR` names another folder, `CROQ_CACHE_SIZE` another size limit in MiB (default 256).
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Mapping, MutableSequence, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from croq_magic._version import __version__

_MANIFEST = "entry.json"
_PARTIAL = ".partial-"
_TOUCH_SECONDS = 3600.0  # an entry's last use is recorded at most once an hour: lookups stay free of writes
_ABANDONED_SECONDS = 3600.0
_EVICT_EVERY = 8  # measuring the whole folder at every store would cost more than some builds
_LOCK = threading.Lock()
_directories: dict[tuple[str | None, ...], Path] = {}
_misses: MutableSequence[_Looked] = []
_stores = 0


class Entry(NamedTuple):
    """One cached build: its files by name, the parts of its key, its size in bytes and its last use (Unix time)."""

    key: str
    path: Path
    files: Mapping[str, Path]
    parts: Mapping[str, str]
    label: str
    size: int
    used: float

    def read(self, name: str) -> bytes:
        """Contents of one file of the entry."""
        return self.files[name].read_bytes()

    def __repr__(self) -> str:
        return f"<cache entry {self.key[:12]} {self.label!r}, {self.size / 1024:.0f} KiB>"


class Miss(NamedTuple):
    """A lookup that found nothing usable, and why."""

    key: str
    label: str
    reason: str


def key_of(parts: Mapping[str, str]) -> str:
    """The content hash of the parts (and of the package version, which is always one of them)."""
    digest = hashlib.blake2b(digest_size=20)
    for name, value in sorted({**parts, "package": __version__}.items()):
        for text in (name, value):
            data = text.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def directory() -> Path:
    """The cache folder, made private on first use; a temporary one, removed at exit, where it cannot be used."""
    names = ("CROQ_CACHE_DIR", "XDG_CACHE_HOME", "HOME")
    where = tuple(os.environ.get(name) for name in names)
    with _LOCK:
        if where not in _directories:
            _directories[where] = _prepare(configured())
        return _directories[where]


def configured() -> Path:
    """The cache folder that the environment asks for."""
    if chosen := os.environ.get("CROQ_CACHE_DIR"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "croq_magic"
    except RuntimeError:  # no home folder is known
        return Path(os.devnull) / "croq_magic"


def _prepare(path: Path) -> Path:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = path.stat()
        if info.st_uid != os.getuid():
            raise PermissionError
        if stat.S_IMODE(info.st_mode) & 0o077:
            path.chmod(0o700)
        with tempfile.TemporaryFile(dir=path):
            pass
        return path
    except OSError:
        fallback = _temporary()
        return fallback


def _temporary() -> Path:
    """A private folder that is removed at exit (by its owner: a forked child must not remove its parent's)."""
    path, owner = Path(tempfile.mkdtemp(prefix="croq_magic-")), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    return path


def _limit() -> int:
    try:
        return int(float(os.environ.get("CROQ_CACHE_SIZE", "256")) * (1 << 20))
    except ValueError:
        return 256 << 20


def _checksum(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _load(path: Path, verify: bool) -> Entry | None:
    """The entry in a folder, or None when it is incomplete or (if `verify`) differs from its checksums."""
    try:
        manifest = json.loads((path / _MANIFEST).read_bytes())
        files = {name: path / name for name in manifest["files"]}
        size = 0
        for name, (length, checksum) in manifest["files"].items():
            size += length
            if verify:
                data = files[name].read_bytes()
                if len(data) != length or _checksum(data) != checksum:
                    return None
        used = path.stat().st_mtime
        return Entry(path.name, path, files, manifest["parts"], manifest["label"], size, used)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def lookup(parts: Mapping[str, str], label: str = "") -> Entry | None:
    """The entry for these parts, checked against its checksums; a corrupt one is removed. A miss is remembered."""
    key = key_of(parts)
    path = directory() / key
    entry = _load(path, verify=True)
    if entry is None:
        corrupt = path.exists()
        if corrupt:
            _remove(path)
        _remember_miss(key, label, parts, corrupt)
        return None
    if time.time() - entry.used > _TOUCH_SECONDS:
        with contextlib.suppress(OSError):  # read-only or vanished: only its place in the eviction order suffers
            os.utime(path)
    return entry


def find(key: str) -> Entry | None:
    """The entry with that key, checked against its checksums. Looking is not remembered, unlike with `lookup`."""
    path = directory() / key
    entry = _load(path, verify=True)
    if entry is not None and time.time() - entry.used > _TOUCH_SECONDS:
        with contextlib.suppress(OSError):
            os.utime(path)
    return entry


def store(parts: Mapping[str, str], files: Mapping[str, bytes | Path], label: str = "") -> Entry:
    """Puts a build into the cache and returns its entry, which another process may have put there first.

    Where the folder is full or cannot be written, the entry lies in a temporary folder instead.
    """
    key = key_of(parts)
    try:
        entry = _write(directory(), key, parts, files, label)
    except OSError:
        fallback = _temporary()
        return _write(fallback, key, parts, files, label)
    global _stores
    _stores += 1
    if _stores % _EVICT_EVERY == 1:
        threading.Thread(target=_evict, args=(entry.path,), name="croq-evict", daemon=True).start()
    return entry


def _write(folder: Path, key: str, parts: Mapping[str, str], files: Mapping[str, bytes | Path], label: str) -> Entry:
    partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=folder))
    try:
        sums = {}
        for name, content in files.items():
            data = content.read_bytes() if isinstance(content, Path) else content
            (partial / name).write_bytes(data)
            sums[name] = (len(data), _checksum(data))
        manifest = {"label": label, "parts": _short(parts), "files": sums}
        (partial / _MANIFEST).write_bytes(json.dumps(manifest).encode())
        target = folder / key
        for _ in range(3):
            try:
                partial.rename(target)
                break
            except OSError:  # somebody was first
                present = _load(target, verify=True)
                if present is not None:
                    return present
                _remove(target)
        entry = _load(target, verify=False)
        if entry is None:
            raise OSError(f"cannot write the cache entry {key}")
        return entry
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def drop(entry: Entry) -> None:
    """Removes one entry."""
    _remove(entry.path)


def _remove(path: Path) -> None:
    """Takes an entry away in one step, so that nobody meets half of it."""
    try:
        trash = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=path.parent))
        path.rename(trash / "gone")
        shutil.rmtree(trash, ignore_errors=True)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def _evict(keep: Path) -> None:
    """Drops the entries used longest ago until the rest fits into the size limit."""
    now = time.time()
    for leftover in directory().glob(_PARTIAL + "*"):
        try:
            if now - leftover.stat().st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(leftover, ignore_errors=True)
        except OSError:
            continue
    found = [(path, *_use(path)) for path in _folders()]
    total, limit = sum(size for _, size, _ in found), _limit()
    for path, size, _ in sorted(found, key=lambda item: item[2]):
        if total <= limit:
            return
        if path != keep:
            _remove(path)
            total -= size


def _folders() -> Sequence[Path]:
    """The folders of all entries."""
    try:
        return [Path(item.path) for item in os.scandir(directory()) if not item.name.startswith(".")]
    except OSError:
        return []


def _use(path: Path) -> tuple[int, float]:
    """Bytes of an entry and its last use, without reading it."""
    try:
        return sum(item.stat().st_size for item in os.scandir(path)), path.stat().st_mtime
    except OSError:
        return 0, 0.0


class _Looked(NamedTuple):
    """A lookup that failed. Why is found out when somebody asks: comparing all entries takes longer than a build."""

    key: str
    label: str
    parts: Mapping[str, str]
    corrupt: bool

    def miss(self) -> Miss:
        reason = "the stored entry was damaged" if self.corrupt else _difference(self.key, self.label, self.parts)
        return Miss(self.key, self.label, reason)


def _short(parts: Mapping[str, str]) -> dict[str, str]:
    """Parts as entries keep them: long texts as hashes, enough to tell that one changed."""
    short = {name: v if len(v) <= 400 else "blake2b:" + _checksum(v.encode()) for name, v in parts.items()}
    return {**short, "package": __version__}


def _remember_miss(key: str, label: str, parts: Mapping[str, str], corrupt: bool) -> None:
    with _LOCK:
        _misses.append(_Looked(key, label, _short(parts), corrupt))
        del _misses[:-100]


def _difference(key: str, label: str, wanted: Mapping[str, str]) -> str:
    """What sets these parts apart from the entry most like them; the entry built since then does not count."""
    best: Sequence[str] | None = None
    old: Mapping[str, str] = {}
    for entry in _scan():
        if entry.key == key or entry.label != label or set(entry.parts) != set(wanted):
            continue
        changed = [name for name in wanted if entry.parts[name] != wanted[name]]
        if best is None or len(changed) < len(best):
            best, old = changed, entry.parts
    if best is None:
        return "nothing like it was compiled before"
    if not best:
        return "it was removed to keep the cache within its size limit, or cleared"
    shown = [
        f"{name} changed"
        + (
            f" ({old[name]} -> {wanted[name]})"
            if len(old[name]) + len(wanted[name]) < 120
            and "blake2b:" not in old[name] + wanted[name]
            and "\n" not in old[name]
            else ""
        )
        for name in best
    ]
    return ", ".join(shown)


def _scan() -> tuple[Entry, ...]:
    entries = [entry for path in _folders() if (entry := _load(path, verify=False)) is not None]
    return tuple(sorted(entries, key=lambda e: -e.used))


def list() -> Sequence[Entry]:
    """All entries, the most recently used first."""
    return _scan()


def misses() -> Sequence[Miss]:
    """The lookups of this process that had to build, oldest first (the last 100)."""
    with _LOCK:
        looked = tuple(_misses)
    return tuple(each.miss() for each in looked)


def explain(what: Any = None) -> str:
    """Why something was compiled instead of taken from the cache.

    `what` is a key (or its first characters), a label (a cell's or function's name), an object with such a
    `cache_key` attribute (a program), or None for the last miss of this process.
    """
    wanted = getattr(what, "cache_key", what)
    with _LOCK:
        looked = tuple(_misses)
    for each in reversed(looked):
        if wanted is None or each.label == wanted or (isinstance(wanted, str) and each.key.startswith(wanted)):
            miss = each.miss()
            return f"{miss.label or miss.key[:12]}: {miss.reason}"
    if wanted is None:
        return "nothing had to be compiled in this process"
    return f"{wanted}: it was not compiled in this process, so it came from the cache or was never run"


def clear() -> int:
    """Removes every entry and returns how many there were. Programs already loaded keep working."""
    entries = _scan()
    for entry in entries:
        _remove(entry.path)
    return len(entries)
