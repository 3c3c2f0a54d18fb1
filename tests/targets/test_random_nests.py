"""Random thread regions give the same results whether or not the passes of the CPU target reorder them.

Every program stores each element of its output once, at indices composed of random dimensions of grid, threads and
serial loops, from random sums of products of random loads. The reference is the same program without the passes.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

import numpy as np
import pytest

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.base import Context, run_passes
from croq_magic.compiler.passes.drop_zeroing import DropZeroing
from croq_magic.compiler.passes.order_loops import OrderLoops
from croq_magic.compiler.passes.promote_accumulators import PromoteAccumulators
from croq_magic.compiler.targets.cpu import module
from croq_magic.compiler.targets.cpu.emit import emit_module
from croq_magic.compiler.types import F32, F64, S8, S16, S32
from croq_magic.compiler.visit import rewrite
from tests import ir_builders as build

PROGRAMS = 24
EXTENTS = [1, 2, 3, 4, 5, 7, 8, 16, 17, 24, 33]


class Program:
    """One random function."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.dtype = rng.choice([S32, F32, F32, S8, S16, F64])
        self.compute = self.dtype if self.dtype in (F32, F64) else S32
        self.extents = {name: rng.choice(EXTENTS) for name in "ijl"[: rng.randint(1, 3)]}
        self.parallel = list(self.extents)
        serial = {name: rng.choice(EXTENTS[:6]) for name in "mn"[: rng.randint(0, 2)]}
        self.extents |= serial
        self.vars = {
            name: build.index(name, size, ir.Role.LOOP if name in serial else ir.Role.REGION)
            for name, size in self.extents.items()
        }
        self.k, self.inside = build.index("k", rng.choice([1, 2, 3, 8])), False
        names = rng.sample(list(self.extents), len(self.extents))
        self.groups: list[list[str]] = []
        while names:
            count = rng.randint(1, len(names))
            self.groups.append(names[:count])
            names = names[count:]
        places = [self.composed(group) for group in self.groups]
        shape = [size + rng.choice([0, 0, 1]) for _, size in places]
        self.out = build.buffer("out", shape, self.dtype, zeroed=True)
        self.index = tuple(place for place, _ in places)
        self.params: list[ir.Param] = []

    def composed(self, group: list[str]) -> tuple[ir.Expr, int]:
        place: ir.Expr = integers.ZERO
        size = 1
        for name in group:
            place = build.compose(place, self.vars[name], self.extents[name])
            size *= self.extents[name]
        return place, size

    def load(self) -> ir.Expr:
        index, shape = [], []
        for _ in range(self.rng.randint(1, 2)):
            kind = self.rng.random()
            if kind < 0.4:
                name, factor = self.rng.choice(list(self.vars)), self.rng.choice([1, 1, 2])
                place, size = integers.mul(self.vars[name], build.const(factor)), self.extents[name] * factor
            elif kind < 0.7 and self.inside:
                place, size = self.k, integers.value(self.k.upper or integers.ONE) or 1
            else:
                place, size = self.composed(self.rng.choice(self.groups))
            offset = self.rng.choice([0, 0, 1])
            index.append(integers.add(place, build.const(offset)))
            shape.append(size + offset)
        param = build.param(f"x{len(self.params)}", shape, self.dtype)
        self.params.append(param)
        assert param.buffer is not None
        return self.wide(build.at(param.buffer, *index))

    def wide(self, e: ir.Expr) -> ir.Expr:
        return e if self.compute is self.dtype else ir.Cast(e, self.compute)

    def value(self, *scalars: ir.Var, depth: int = 0) -> ir.Expr:
        kind = self.rng.random()
        if depth > 2 or kind < 0.35:
            return self.load()
        if kind < 0.45:
            number = self.rng.randint(-3, 3)
            return ir.Const(float(number) if self.compute.is_float else number, self.compute)
        if scalars and kind < 0.6:
            return self.rng.choice(scalars)
        if kind < 0.65 and self.compute is S32:
            return self.rng.choice(list(self.vars.values()))
        left, right = self.value(*scalars, depth=depth + 1), self.value(*scalars, depth=depth + 1)
        return ir.Binary(self.rng.choice("+-*"), left, right, self.compute)

    def store(self, value: ir.Expr, op: str = "") -> ir.Stmt:
        narrow = value if op or self.compute is self.dtype else ir.Cast(value, self.dtype)
        return build.store(self.out, self.index, narrow, op)

    def loop(self, body: Callable[[], list[ir.Stmt]]) -> ir.Stmt:
        self.inside = True
        made = body()
        self.inside = False
        return ir.For(self.k, integers.ZERO, self.k.upper or integers.ONE, 1, tuple(made))

    def statements(self) -> list[ir.Stmt]:
        acc = ir.Var("acc", self.compute, ir.Role.MUTABLE)
        t = ir.Var("t", self.compute, ir.Role.LET)
        op = self.rng.choice("+-*")
        kind = self.rng.randrange(6)
        if kind == 0:
            return [self.store(self.value(), self.rng.choice(["", "+", "*"]))]
        if kind == 1:
            return [self.loop(lambda: [self.store(self.value(), op)])]
        if kind == 2:
            update = self.loop(lambda: [ir.Assign(acc, ir.Binary(op, acc, self.value(), self.compute))])
            return [ir.Let(acc, self.value()), update, self.store(build.plus(acc, self.value()))]
        if kind == 3:
            update = self.loop(lambda: [self.store(self.value(t), "+")])
            return [ir.Let(t, self.value()), update, self.store(self.value(t), "+")]
        if kind == 4:
            update = self.loop(lambda: [ir.Let(t, self.value(acc)), ir.Assign(acc, build.plus(acc, t))])
            return [ir.Let(acc, self.value()), update, self.store(acc, "+")]
        current = self.wide(build.at(self.out, *self.index))
        return [self.loop(lambda: [self.store(build.plus(current, self.value()))])]

    def function(self) -> ir.Function:
        body = self.statements()
        for name in self.rng.sample("mn", 2):
            if name in self.extents:
                body = [build.loop(name, self.extents[name], body)]
        split = self.rng.randint(0, len(self.parallel))
        grid, threads = self.parallel[:split], self.parallel[split:]
        if threads:
            body = [build.region(build.THREAD, {name: self.extents[name] for name in threads}, body)]
        if self.rng.random() < 0.25:
            body = [build.loop("again", 2, body)]
        kernel = build.region(build.BLOCK, {name: self.extents[name] for name in grid} or {"one": 1}, body)
        return build.returning("f", self.params, self.out, [build.launch("f", kernel)])


def named(function: ir.Function, name: str) -> ir.Function:
    def kernel(node: ir.Node) -> ir.Node | None:
        return dataclasses.replace(node, name=f"{name}_0") if isinstance(node, ir.Kernel) else None

    return dataclasses.replace(function, name=name, body=rewrite(function.body, kernel))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_results_do_not_depend_on_the_passes(seed: int) -> None:
    rng = random.Random(seed)
    plain, ordered, changed = [], [], 0
    for number in range(PROGRAMS):
        function = Program(rng).function()
        width = rng.choice([(16, 16), (32, 16), (64, 32)])
        passes = [PromoteAccumulators(), DropZeroing(), OrderLoops(*width)]
        after = run_passes(function, passes, Context())
        changed += after is not function
        plain.append(named(function, f"plain_{number}"))
        ordered.append(named(after, f"ordered_{number}"))
    assert changed > PROGRAMS // 2
    emitted = emit_module([*plain, *ordered])
    for number, function in enumerate(plain):
        data = np.random.default_rng(number)
        arrays = tuple(
            data.integers(-4, 5, [integers.value(e) or 1 for e in p.extents]).astype(p.dtype.numpy)
            for p in function.params
            if p.dtype is not None
        )
        assert function.result is not None and function.result.extents is not None
        shape = tuple(integers.value(e) or 1 for e in function.result.extents)
        expected, got = np.zeros(shape, function.result.dtype.numpy), np.zeros(shape, function.result.dtype.numpy)
        module.load(emitted, f"plain_{number}").launch(arrays, {}, expected)
        launch = module.load(emitted, f"ordered_{number}").launch
        if launch.fills_result:
            got[...] = 77
        launch(arrays, {}, got)
        np.testing.assert_array_equal(got, expected, err_msg=f"program {number} of seed {seed}")
