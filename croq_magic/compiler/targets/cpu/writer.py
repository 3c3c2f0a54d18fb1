"""Lines of generated C++ with indentation and `#line` markers that lead back to the cell."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from croq_magic.compiler.source import Span


class Writer:
    """Collects lines. `at(span)` says which place of the program the next lines come from."""

    def __init__(self, depth: int = 0) -> None:
        self.lines: list[str] = []
        self.depth = depth
        self._place: tuple[str, int] | None = None
        self._marked: tuple[str, int] | None = None  # what the last marker says

    def line(self, text: str = "") -> None:
        self.lines.append("  " * self.depth + text if text else "")
        if self._place is not None:  # a line of output advances the line the compiler counts
            self._place = (self._place[0], self._place[1] + 1)

    def label(self, text: str) -> None:
        """A line that stands one level further out."""
        self.lines.append("  " * max(0, self.depth - 1) + text)
        self._place = None

    def at(self, span: Span | None) -> None:
        """Writes a `#line` marker unless the last one says the same and the compiler still counts that line. That it
        would count to the line by itself is not enough: the lines of a statement that takes several belong to it."""
        if span is None:
            return
        place = (span.name, span.line)
        if place != self._place or place != self._marked:
            name = span.name.replace("\\", "\\\\").replace('"', '\\"')
            self.lines.append(f'#line {span.line} "{name}"')
            self._place = self._marked = place

    @contextlib.contextmanager
    def block(self, head: str = "", tail: str = "}") -> Iterator[None]:
        """`head {` ... `}`."""
        self.line(head + " {" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line(tail)

    @contextlib.contextmanager
    def nest(self, heads: Sequence[str]) -> Iterator[None]:
        """The loops or conditions of `heads`, one inside the other."""
        with contextlib.ExitStack() as stack:
            for head in heads:
                stack.enter_context(self.block(head))
            yield

    def verbatim(self, text: str) -> None:
        """Text that must not be touched, whatever lines it has."""
        self.lines += text.split("\n")
        self._place = None

    def forget_place(self) -> None:
        """The next lines do not follow the ones before."""
        self._place = None

    def extend(self, other: Writer) -> None:
        self.lines += other.lines
        self._place = None

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"
