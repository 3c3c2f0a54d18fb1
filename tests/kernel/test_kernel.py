"""The Croqtile kernel as a frontend sees it, through jupyter_client."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.kernelspec import find_kernel_specs
from jupyter_client.manager import start_new_kernel

SCALE = "__co__ void scale(f32 [4]& v) {\n  parallel p by 4 { v.at(p) = v.at(p) * 2.0f; }\n}\n"


class Session:
    """A running kernel: `run` gives the messages that a cell causes, by type."""

    def __init__(self, client: Any, manager: Any) -> None:
        self.client, self.manager = client, manager

    def run(self, code: str) -> dict[str, list[dict[str, Any]]]:
        messages: dict[str, list[dict[str, Any]]] = {}

        def collect(message: dict[str, Any]) -> None:
            messages.setdefault(message["msg_type"], []).append(message["content"])

        self.client.execute_interactive(code, timeout=120, output_hook=collect)
        return messages

    def value(self, code: str) -> str:
        return str(self.run(code)["execute_result"][0]["data"]["text/plain"])

    def reply(self, message_id: str) -> dict[str, Any]:
        while True:
            reply = self.client.get_shell_msg(timeout=60)
            if reply["parent_header"].get("msg_id") == message_id:
                return dict(reply["content"])


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("ipython")
    environment = dict(os.environ, IPYTHONDIR=str(folder), CROQ_CACHE_DIR=str(folder.parent.parent / "croq-cache"))
    manager, client = start_new_kernel(kernel_name="croqtile", startup_timeout=120, env=environment)
    yield Session(client, manager)
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_the_kernel_is_present_after_installation() -> None:
    folder = Path(find_kernel_specs()["croqtile"])
    assert {"kernel.json", "logo-64x64.png", "logo-svg.svg"} <= {file.name for file in folder.iterdir()}


def test_python_is_python(session: Session) -> None:
    assert session.value("1 + 1") == "2"
    assert session.value("len('__co__ void f() {}')") == "18"
    assert session.value("x = !echo hello\nx[0]") == "'hello'"
    assert session.run("1 / 0")["error"][0]["ename"] == "ZeroDivisionError"
    assert session.value("await __import__('asyncio').sleep(0, 5)") == "5"


def test_a_tileflow_function_needs_no_magic_line(session: Session) -> None:
    session.run("import numpy as np\nv = np.arange(4, dtype=np.float32)")
    messages = session.run(SCALE)
    assert "error" not in messages, messages["error"][0]["evalue"]
    printed = "".join(message["text"] for message in messages["stream"])
    assert printed.endswith("v was modified in place\n")
    assert session.value("v.tolist()") == "[0.0, 2.0, 4.0, 6.0]"
    assert session.value("scale.__name__") == "'scale'"


def test_the_magic_line_works_too(session: Session) -> None:
    messages = session.run("%%croqtile --no-run -t cpu\n" + SCALE)
    assert "error" not in messages and "execute_result" not in messages


def test_errors_name_the_line_of_the_cell(session: Session) -> None:
    error = session.run("// first line\n" + SCALE.replace("v.at(p) *", "w.at(p) *"))["error"][0]
    assert error["ename"] == "CompileError"
    assert "cell:3:" in error["evalue"]
    assert not any(".py" in line for line in error["traceback"])


def test_a_running_cell_is_interrupted(session: Session) -> None:
    program = """__co__ void spin(f32 [4]& v, int n) {
  parallel p by 4 {
    foreach i in [n] { foreach j in [1000] { v.at(p) = v.at(p) * 0.5f + 1.0f; } }
  }
}
"""
    session.run("n = 1\nv = np.zeros(4, np.float32)")
    assert "error" not in session.run(program)
    session.run("n = 2_000_000_000")
    times: dict[str, float] = {}

    def stop() -> None:
        times["asked"] = time.perf_counter()
        session.manager.interrupt_kernel()

    threading.Timer(0.5, stop).start()
    (error,) = session.run(program)["error"]
    assert time.perf_counter() - times["asked"] < 0.5
    assert error["evalue"] == "spin was interrupted\n    `v` may be partly written"
    assert error["traceback"] == ["KeyboardInterrupt: spin was interrupted", "    `v` may be partly written"]
    assert session.value("1 + 1") == "2"


def test_words_are_completed_and_explained(session: Session) -> None:
    code = "__co__ void f(f32 [4] value) {\n  para"
    reply = session.reply(session.client.complete(code, len(code)))
    assert reply["matches"] == ["parallel"]
    assert code[reply["cursor_start"] : reply["cursor_end"]] == "para"
    code = "__co__ void f(f32 [4] value) {\n  val"
    assert session.reply(session.client.complete(code, len(code)))["matches"] == ["value"]
    code = "__co__ void f() {\n  foreach i in [4] { }"
    reply = session.reply(session.client.inspect(code, code.index("foreach") + 2))
    assert reply["found"] and "in order" in reply["data"]["text/plain"]
    reply = session.reply(session.client.complete("import nump", 11))
    assert "numpy" in reply["matches"]


def test_unfinished_cells(session: Session) -> None:
    assert session.reply(session.client.is_complete("__co__ void f() {"))["status"] == "incomplete"
    assert session.reply(session.client.is_complete(SCALE))["status"] == "complete"
    assert session.reply(session.client.is_complete("for i in range(3):"))["status"] == "incomplete"
