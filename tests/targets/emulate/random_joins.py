"""Random kernels of one block whose statements meet in shared storage in all ways that need joins, or do not."""

from __future__ import annotations

import dataclasses
from random import Random

Loops = tuple[tuple[str, int], ...]  # names of indices with their numbers of turns


@dataclasses.dataclass
class Kernel:
    """A function `s32 [n] -> s32 [n]` over up to three shared buffers, some of them with slots."""

    random: Random
    count: int = 0

    def __post_init__(self) -> None:
        r = self.random
        self.n = r.choice([8, 24, 32, 48, 64, 96, 100])
        self.threads = r.choice([self.n, self.n, 128])
        self.names = ["s", "t", "u"][: r.randint(1, 3)]
        self.slots = {name: r.choice([2, 3]) for name in self.names if r.random() < 0.35}

    def source(self, name: str) -> str:
        r = self.random
        lines = [
            f"shared s32 [{self.n}] {b}{f'[{self.slots[b]}]' if b in self.slots else ''} {{{r.randrange(5)}}};"
            for b in self.names
        ]
        lines += [self.statement((), 0) for _ in range(r.randint(2, 6))]
        lines.append(self.region("q", f"r.at(q) += {self.element(self.names[0], self.place('q'), ())};"))
        body = "\n  ".join(lines)
        head = f"__co__ s32 [{self.n}] {name}(s32 [{self.n}] x) {{ s32 [{self.n}] r {{0}};"
        return f"{head}\n parallel b by 1 : block {{\n  {body}\n }}\n return r; }}"

    def fresh(self, name: str) -> str:
        self.count += 1
        return f"{name}_{self.count}"

    def place(self, p: str) -> str:
        """A one-to-one index of a thread."""
        moved = f"({p} + {self.random.randrange(1, self.n)}) % {self.n}"
        return self.random.choice([p, p, f"{self.n - 1} - {p}", moved])

    def buffer(self, name: str, loops: Loops) -> str:
        if name not in self.slots:
            return name
        slots = self.slots[name]
        if not loops or self.random.random() < 0.2:
            return f"{name}[{self.random.randrange(slots)}]"
        k, turns = self.random.choice(loops)
        return f"{name}[{k if turns <= slots else self.random.choice([f'{k} % {slots}', f'({k} + 1) % {slots}'])}]"

    def element(self, name: str, index: object, loops: Loops) -> str:
        return f"{self.buffer(name, loops)}.at({index})"

    def region(self, p: str, body: str) -> str:
        if self.threads > self.n:
            body = f"if ({p} < {self.n}) {{ {body} }}"
        return f"parallel {p} by {self.threads} : thread {{ {body} }}"

    def others(self, name: str) -> list[str]:
        return [other for other in self.names if other != name]

    def each(self, loops: Loops) -> str:
        """Every thread at its own element of one buffer, reading any element of another."""
        r, p, name = self.random, self.fresh("p"), self.random.choice(self.names)
        source = r.choice(["x", *self.others(name)])
        value = f"x.at({self.place(p)})" if source == "x" else self.element(source, self.place(p), loops)
        statement = f"{self.element(name, self.place(p), loops)} {r.choice(['=', '+='])} {value} + {r.randrange(5)};"
        if r.random() < 0.3:
            statement = f"if ({p} {r.choice(['<', '>='])} {r.randrange(1, self.n)}) {statement}"
        return self.region(p, statement)

    def span(self, name: str, loops: Loops) -> str:
        v, others = self.fresh("v"), self.others(name)
        operand = self.buffer(self.random.choice(others), loops) if others and self.random.random() < 0.5 else "3"
        return f"{v} = {self.buffer(name, loops)}; {v} {self.random.choice('+*-')}= {operand};"

    def statement(self, loops: Loops, depth: int) -> str:
        r, name = self.random, self.random.choice(self.names)
        one = self.element(name, r.randrange(self.n), loops)
        kind = r.choices(range(7), (30, 12, 14, 8, 8, 5, 15))[0]
        if kind == 1:
            return f"dma.copy {self.buffer(r.choice(self.others(name)), loops) if len(self.names) > 2 else 'x'} => " + (
                f"{self.buffer(name, loops)};"
            )
        if kind == 2:
            return self.span(name, loops)
        if kind == 3:
            return f"{one} = {self.element(r.choice(self.names), r.randrange(self.n), loops)} + 1;"
        if kind == 4:
            p = self.fresh("p")
            return self.region(p, f"r.at({self.place(p)}) += {self.element(name, self.place(p), loops)};")
        if kind == 5 and depth < 2:
            return f"if ({one} > {r.randrange(10)}) {{ {self.statement(loops, depth + 1)} }}"
        if kind == 6 and depth < 2:
            k, turns = self.fresh("k"), r.randint(1, 4)
            inner = [self.statement((*loops, (k, turns)), depth + 1) for _ in range(r.randint(1, 3))]
            return f"foreach {k} in {turns} {{ {' '.join(inner)} }}"
        return self.each(loops)
