"""Whole programs in a notebook: what the cell shows while they run, how they stop, and that the notebook lives."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel

ADD = """__co__ s32 [4] add(s32 [4] x, s32 k) {
  s32 [4] r;
  parallel p by 4 { r.at(p) = x.at(p) + k; }
  return r;
}
"""


class Session:
    """A running kernel. `run` gives (seconds since the start, kind, text) for everything that a cell shows."""

    def __init__(self, client: Any, manager: Any) -> None:
        self.client, self.manager = client, manager

    def run(self, code: str) -> list[tuple[float, str, str]]:
        shown: list[tuple[float, str, str]] = []
        started = time.monotonic()

        def collect(message: dict[str, Any]) -> None:
            content, now = message["content"], time.monotonic() - started
            if message["msg_type"] == "stream":
                shown.append((now, content["name"], content["text"]))
            elif message["msg_type"] == "error":
                shown.append((now, "error", "\n".join(content["traceback"])))
            elif message["msg_type"] == "execute_result":
                shown.append((now, "value", content["data"]["text/plain"]))

        self.client.execute_interactive(code, timeout=180, output_hook=collect)
        return shown


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("ipython")
    environment = dict(os.environ, IPYTHONDIR=str(folder), CROQ_CACHE_DIR=str(folder.parent.parent / "croq-cache"))
    manager, client = start_new_kernel(kernel_name="python3", startup_timeout=120, env=environment)
    session = Session(client, manager)
    session.run("%load_ext croq_magic\n%config CroqtileMagics.target = 'cpu'\nimport numpy as np")
    yield session
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def text_of(shown: list[tuple[float, str, str]], kind: str) -> str:
    return "".join(text for _, each, text in shown if each == kind)


def test_output_is_streamed_and_the_functions_are_defined(session: Session) -> None:
    shown = session.run(
        "%%croqtile --args \"one 'two words'\"\n#include <unistd.h>\n"
        + ADD
        + """int main(int n, char** words) {
  int a[] = {1, 2, 3, 4};
  auto r = add(choreo::make_spanview(a), 10);
  for (int i = 0; i < 3; ++i) {
    std::cout << r[i] << "\\n";
    usleep(400000);
    std::cerr << "after " << i << "\\n";
    usleep(100000);
  }
  printf("%d %s|", n, words[2]);
}
"""
    )
    kinds = [kind for _, kind, _ in shown]
    assert "error" not in kinds, shown
    assert text_of(shown, "stdout") == "11\n12\n13\n3 two words|"
    assert text_of(shown, "stderr") == "after 0\nafter 1\nafter 2\n"
    assert [kind for kind, _ in groupby(kinds)] == ["stdout", "stderr"] * 3 + ["stdout"]
    times = [at for at, kind, _ in shown if kind == "stdout"]
    assert times[1] - times[0] > 0.3 and times[2] - times[1] > 0.3
    assert text_of(session.run("add(np.arange(4, dtype=np.int32), 5).tolist()"), "value") == "[5, 6, 7, 8]"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ('std::cerr << "wrong\\n"; return 3;', "ProgramError: the program ended with exit status 3"),
        ("abort();", "ProgramError: the program was ended by SIGABRT: it was aborted"),
        ("*(volatile int*)8 = 1;", "ProgramError: the program was ended by SIGSEGV: it used memory that is not"),
        ('while (true) std::cout << "a line of a program that never ends\\n";',
         "ProgramError: the program wrote more than 8 MiB and was stopped"),
        ('while (true) { std::cout << "first a long line\\n"; std::cerr << "then another long line\\n"; }',
         "ProgramError: the program wrote more than 8 MiB and was stopped"),
        ("int x; if (!(std::cin >> x)) return 4;", "ProgramError: the program ended with exit status 4"),
        ("add(choreo::make_spanview(\"x\"), 1);", "`add`: parameter `s32 [4] x` takes an array of s32 of rank 1"),
    ],
)  # fmt: skip
def test_a_program_that_fails_is_an_error_and_no_traceback(session: Session, body: str, error: str) -> None:
    shown = session.run(f"%%croqtile\n{ADD}int main() {{\n  {body}\n}}\n")
    message = text_of(shown, "error")
    assert error in message
    assert "Traceback" not in message and "croq_magic/" not in message
    if "wrong" in body:  # what the program wrote stands above the error
        assert text_of(shown, "stderr") == "wrong\n" and "wrong" not in message
    assert text_of(session.run("1 + 1"), "value") == "2"


def test_the_stop_button_ends_an_endless_loop(session: Session) -> None:
    stopped = []

    def stop() -> None:
        time.sleep(0.5)
        stopped.append(time.monotonic())
        session.manager.interrupt_kernel()

    code = '%%croqtile\nint main() { puts("begun"); fflush(stdout); for (volatile int i = 0;; ++i) {} }\n'
    session.run(code.replace("for (", "return 0; for ("))
    session.run("%%croqtile --no-run" + code.removeprefix("%%croqtile"))  # built: the loop itself is interrupted
    thread = threading.Thread(target=stop)
    thread.start()
    shown = session.run(code)
    assert time.monotonic() - stopped[0] < 5
    thread.join()
    assert text_of(shown, "stdout") == "begun\n"
    assert "KeyboardInterrupt: the program was interrupted and has ended" in text_of(shown, "error")
    assert text_of(session.run("2 + 2"), "value") == "4"


def test_lines_count_as_in_the_cell(session: Session) -> None:
    message = text_of(session.run(f"%%croqtile\n{ADD}int main() {{\n  return nothing;\n}}\n"), "error")
    assert "cell:8:10: error: the C++ compiler says: `nothing` was not declared in this scope [CXX01]" in message
    assert "    return nothing;" in message


def test_options_of_cells_with_main(session: Session) -> None:
    main = 'int main() { std::cout << N << "\\n"; return N; }\n'
    shown = session.run(f"%%croqtile -D N=0 -o done --emit source\n{ADD}{main}")
    assert text_of(shown, "stdout").endswith("0\n") and main in text_of(shown, "stdout")
    assert text_of(session.run("done.returncode, done.stdout"), "value") == "(0, '0\\n')"
    shown = session.run(f"%%croqtile -D N=2 --no-run\n{ADD}{main}")
    assert text_of(shown, "stdout") == "" and text_of(shown, "error") == ""
    message = text_of(session.run(f"%%croqtile --args x --no-run\n{ADD}"), "error")
    assert "OptionError: --args: the cell has no `main`" in message
    message = text_of(session.run(f'%%croqtile -D N=0 --args "\'x"\n{main}'), "error")
    assert "OptionError: --args: no closing quotation" in message
