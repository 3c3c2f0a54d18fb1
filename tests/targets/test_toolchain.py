"""Finding and running the C++ compiler."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from croq_magic.compiler.targets.cpu import build, toolchain
from croq_magic.errors import TargetError


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    toolchain._find.cache_clear()


def program(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_order_of_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program(tmp_path, "c++", "print('some compiler 1.0')")
    assert toolchain.find().command == (str(tmp_path / "c++"),)
    program(tmp_path, "clang++", "print('clang version 20.1')")
    toolchain._find.cache_clear()
    found = toolchain.find()
    assert (found.command, found.family, found.version) == ((str(tmp_path / "clang++"),), "clang", "clang version 20.1")
    program(tmp_path, "g++", "print('g++ (Distribution) 13.1')\nprint('Copyright')")
    toolchain._find.cache_clear()
    found = toolchain.find()
    assert (found.family, found.version) == ("gcc", "g++ (Distribution) 13.1")


def test_cxx_names_the_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(tmp_path, "my compiler", "print('mine 1')")
    monkeypatch.setenv("CXX", str(path))
    assert toolchain.find().command == (str(path),)
    monkeypatch.setenv("CXX", f"{sys.executable} -m wrapper")
    with pytest.raises(TargetError, match="does not answer --version"):
        toolchain.find()
    monkeypatch.setenv("CXX", "/no/such/compiler")
    with pytest.raises(TargetError, match="named by CXX was not found: /no/such/compiler"):
        toolchain.find()


def test_no_compiler_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(TargetError) as caught:
        toolchain.find()
    message = str(caught.value)
    assert "\n" not in message and "ziglang" in message and "CXX" in message


def test_version_is_remembered_and_forgotten_when_the_compiler_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROQ_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    log = tmp_path / "log"
    text = f"open({str(log)!r}, 'a').write('started ')\nprint('g++ {{}}')"
    path = program(tmp_path, "g++", text.format(1))
    for _ in range(3):
        toolchain._find.cache_clear()
        assert toolchain.find().version == "g++ 1"
    assert log.read_text() == "started "
    program(tmp_path, "g++", text.format(2))
    os.utime(path, (1, 1))
    toolchain._find.cache_clear()
    assert toolchain.find().version == "g++ 2"


def test_processor_is_named() -> None:
    assert toolchain.processor() == toolchain.processor()
    assert os.uname().machine in toolchain.processor()


SOURCE = '#include "croq_cpu.h"\nextern "C" CROQ_EXPORT int answer() {{ return {}; }}\n'


def test_second_build_comes_from_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CROQ_CACHE_DIR", str(tmp_path))
    first = build.library(SOURCE.format(42), "answer")
    second = build.library(SOURCE.format(42), "answer")
    assert (first.cached, second.cached) == (False, True)
    assert first.handle.answer() == second.handle.answer() == 42
    assert not build.library(SOURCE.format(43), "answer").cached


def test_truncated_library_is_built_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CROQ_CACHE_DIR", str(tmp_path))
    first = build.library(SOURCE.format(7), "answer")
    data = first.path.read_bytes()
    first.path.unlink()  # not in place: the library is mapped
    first.path.write_bytes(data[: len(data) // 2])
    again = build.library(SOURCE.format(7), "answer")
    assert not again.cached and again.handle.answer() == 7


def test_module_that_needs_the_cxx_library_is_linked_in_full(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CROQ_CACHE_DIR", str(tmp_path))
    source = """
        #include <string>
        #include <vector>
        static std::vector<std::string> words = {"a", "bc"};  // needs constructors at load and destructors at exit
        extern "C" __attribute__((visibility("default"))) int answer() {
          std::string all;
          for (auto& word : words) all += word + std::to_string(word.size());
          return (int)all.size();
        }
    """
    library = build.library(source, "answer")
    assert library.handle.answer() == 5
    assert build.library(source, "answer").cached


def test_refusal_carries_the_messages() -> None:
    with pytest.raises(toolchain.CompilationFailed) as caught:
        build.library("int f() { return undeclared; }", "f")
    assert "undeclared" in caught.value.output


def test_a_compiler_that_makes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "c++"
    script.write_text("#!/bin/sh\necho 'c++ 1.0'\n")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    monkeypatch.setenv("CROQ_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(TargetError, match="reports success and has made nothing"):
        build.library("int main() {}", "nothing")
