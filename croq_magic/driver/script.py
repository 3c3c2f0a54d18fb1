"""`-gs`: a shell script that holds everything a program is built from and needs nothing of this package.

The sources stand in here-documents, so the script is one file that runs wherever there are `sh` and a C++ compiler.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)
WORK = '"$work"/'  # where the sources are unpacked, in the script's own words
MAX_HEADERS = 1000


@dataclasses.dataclass(frozen=True)
class Tool:
    """The program that compiles: the environment variable that names it, and what is looked for otherwise."""

    variable: str
    names: tuple[str, ...]
    what: str


CXX = Tool("CXX", ("g++", "clang++", "c++"), "C++ compiler")
NVCC = Tool("NVCC", ("nvcc",), "CUDA compiler")


def write(
    title: str, target: str, version: str, sources: Mapping[str, str], steps: Sequence[Sequence[str]], tool: Tool = CXX
) -> str:
    """The script.

    `sources` are texts by path (relative, with `/`); `steps` the arguments of the compiler, one list a run, in which
    `source(path)` stands for a source and `OUTPUT` for the program. The last step makes the program.
    """
    lines = [*_head(title, target, version, tool), *_unpack(sources)]
    for step in steps:
        lines.append(f"${tool.variable} {' '.join(map(_word, step))} ${{CXXFLAGS:-}}")
    lines += _TAIL.splitlines()
    return "\n".join(lines) + "\n"


OUTPUT = '"$output"'
NATIVE = ("-march=native", "-mcpu=native")  # which of them is right is seen where the script runs


def _word(word: str) -> str:
    if word in NATIVE:
        return "$native"
    return word if WORK in word or word == OUTPUT else shlex.quote(word)


def source(path: str) -> str:
    """A source, or a file made from one, as a word of a step."""
    return WORK + shlex.quote(path)


def _head(title: str, target: str, version: str, tool: Tool) -> list[str]:
    name = re.sub(r"[^\w.-]", "_", PurePosixPath(title).stem) or "program"
    text = _HEAD.format(
        title=" ".join(title.split()),
        target=target,
        version=version,
        program=name,
        variable=tool.variable,
        names=" ".join(tool.names),
        what=tool.what,
    )
    return text.splitlines()


def _unpack(sources: Mapping[str, str]) -> Iterator[str]:
    for folder in dict.fromkeys(str(PurePosixPath(path).parent) for path in sources):
        if folder != ".":
            yield f"mkdir -p {source(folder)}"
    for path, text in sources.items():
        end = "CROQTILE_END"
        while end in text:
            end += "_"
        yield f"cat >{source(path)} <<'{end}'"
        yield text.removesuffix("\n")
        yield end


_HEAD = """\
#!/bin/sh
# Made by croqtile {version} from {title} for the target {target}.
#
#   sh THIS                          builds ./{program}
#   sh THIS -o FILE                  builds FILE
#   sh THIS --execute [ARGUMENT ...] builds and runs the program; nothing stays
#
# It needs a {what} and nothing else. {variable} names the compiler, CXXFLAGS adds options.
set -eu
output={program}
execute=
keep=
while [ $# -gt 0 ]; do
  case $1 in
    --execute) execute=yes; shift; break ;;
    -o) [ $# -ge 2 ] || {{ echo "$0: -o needs the name of a file" >&2; exit 2; }}
        output=$2; keep=yes; shift 2 ;;
    *) echo "$0: unknown option $1 (there are --execute and -o FILE)" >&2; exit 2 ;;
  esac
done
if [ -z "${{{variable}:-}}" ]; then
  for {variable} in {names} ''; do
    if [ -z "${variable}" ] || command -v "${variable}" >/dev/null 2>&1; then break; fi
  done
fi
[ -n "${variable}" ] || {{ echo "$0: no {what} found; {variable} names one" >&2; exit 1; }}
case $(uname -m) in arm64 | aarch64) native=-mcpu=native ;; *) native=-march=native ;; esac
work=${{TMPDIR:-/tmp}}/croqtile-$$
(umask 077; mkdir "$work")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
[ -z "$execute" ] || [ -n "$keep" ] || output=$work/{program}
"""

_TAIL = """\
if [ -n "$execute" ]; then
  case $output in */*) ;; *) output=./$output ;; esac
  status=0
  "$output" "$@" || status=$?
  exit $status
fi
"""


def headers(text: str, origin: Path, include: Sequence[Path]) -> dict[Path, str]:
    """The user's own headers that a text includes, directly or not, by absolute path.

    `origin` is the file that the text comes from, as an absolute path. Quoted names are looked for beside the including
    file, all names in the folders of `include`; what is not found there is the compiler's own. Raises OSError or
    UnicodeDecodeError for a header that cannot be read.
    """
    found: dict[Path, str] = {}
    pending = [(text, origin.parent)]
    while pending and len(found) < MAX_HEADERS:
        current, folder = pending.pop()
        for match in _INCLUDE.finditer(current):
            folders = [folder, *include] if match[1] else list(include)
            places = (Path(os.path.abspath(each / (match[1] or match[2]))) for each in folders)
            path = next((place for place in places if place.is_file()), None)
            if path is not None and path not in found:
                found[path] = path.read_text(encoding="utf-8")
                pending.append((found[path], path.parent))
    return found


def common_folder(paths: Sequence[Path]) -> Path:
    """The deepest folder that holds all of them (absolute paths)."""
    return Path(os.path.commonpath([path.parent for path in paths]))
