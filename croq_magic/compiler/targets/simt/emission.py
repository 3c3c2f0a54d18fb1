"""What emission for a SIMT device makes: the text of a module, and how its kernels are launched.

A module's text holds the kernels of every launch. The host body of a function stays tile IR: it is run by `host.py`,
which evaluates the expressions of a kernel (grid, block, arguments) at the launch.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from croq_magic.compiler import ir
from croq_magic.compiler.source import Source, Span
from croq_magic.compiler.targets.cpu.checks import CheckSite
from croq_magic.compiler.types import DType

REPORT_WORDS = 64  # of the report argument: the number of a failed check plus one, then its values


@dataclasses.dataclass(frozen=True)
class KernelArgument:
    """One argument of a kernel, in the order of its parameters.

    "buffer": the device memory of `node`, a global buffer (all its slots). "scalar": the value of `node` (a parameter,
    a symbolic dimension, or a scalar or loop index of the host body), passed as `dtype`. "report": `REPORT_WORDS` words
    of 64 bits, zero before the launch; a failed check stores its number plus one in word 0 and its values (instance,
    then operands, in the order of its `CheckSite`; floats as the bits of an f64) in the words behind. "counter":
    `words` words of 32 bits, zero before the launch, with which the blocks of a launch meet. `written` is set for what
    the kernel may write.
    """

    name: str
    kind: Literal["buffer", "scalar", "report", "counter"]
    dtype: DType | None = None
    node: ir.Buffer | ir.Var | None = None
    written: bool = False
    words: ir.Expr = dataclasses.field(default_factory=lambda: ir.Const(2))


@dataclasses.dataclass(frozen=True)
class SimtKernel:
    """One launch's kernel. Extents of `grid` and `block` are given for x, y, z; `shared_bytes` is dynamic shared
    memory. Expressions are over symbolic dimensions, parameters and host variables. `cooperative`: all blocks must run
    at the same time. `wide` is the same kernel with indices of 64 bits, for extents that do not meet `fits`; where both
    are in a module, it comes first."""

    symbol: str
    launch: ir.Launch
    arguments: tuple[KernelArgument, ...]
    grid: tuple[ir.Expr, ir.Expr, ir.Expr]
    block: tuple[ir.Expr, ir.Expr, ir.Expr]
    shared_bytes: ir.Expr
    cooperative: bool = False
    cluster: tuple[int, ...] = ()
    wide: SimtKernel | None = None
    fits: ir.Expr = ir.TRUE


@dataclasses.dataclass(frozen=True)
class SimtEmission:
    """A module's text with its kernels, its run-time checks (numbered by position), the functions whose launches the
    kernels are, and the parts of the cell that the text contains unchanged."""

    text: str
    kernels: tuple[SimtKernel, ...]
    functions: tuple[ir.Function, ...]
    checks: tuple[CheckSite, ...] = ()
    source: Source | None = None
    verbatim: tuple[Span, ...] = ()

    def kernel_of(self, launch: ir.Launch) -> SimtKernel:
        """The kernel of a launch statement."""
        return next(kernel for kernel in reversed(self.kernels) if kernel.launch is launch)
