"""How the C languages of SIMT devices differ: what `simt` emits goes through a `Dialect`.

The emitter is one; CUDA C++ and OpenCL C are two dialects. A method returns text. One that a device cannot express
raises `emit_cxx.Unsupported` with a sentence that says what is missing; the emitter adds the place.

Names in the text that a prelude must provide start with `croq_`; types are called as in the language (`f32`, `bf16`).
Narrow floats (f16, bf16, f8, ...) are storage: arithmetic on them is done in f32, through `widen` and `narrow`.
"""

from __future__ import annotations

import abc
import copy
import enum
from collections.abc import Sequence

from croq_magic.compiler import ir
from croq_magic.compiler.source import Span
from croq_magic.compiler.targets.emit_cxx import Unsupported
from croq_magic.compiler.types import DType


class Space(enum.Enum):
    """Where a pointer points: device memory, memory of a block, memory of one thread."""

    GLOBAL = "global"
    SHARED = "shared"
    PRIVATE = "private"


def space_of(buffer: ir.Buffer) -> Space:
    if buffer.storage is ir.Storage.GLOBAL:
        return Space.GLOBAL
    return Space.SHARED if buffer.storage is ir.Storage.SHARED else Space.PRIVATE


class Dialect(abc.ABC):
    """One C language. `name` is the target's, as messages show it; `warp` is the number of threads that run together.

    `index32` and `index64` are the types of index arithmetic. `async_bytes` holds the sizes in bytes of asynchronous
    copies from device memory to a block's memory, () where there are none. `vector_bytes` is the widest access.
    """

    name: str
    header: str  # the prelude's file name
    index32: str = "int"
    index64: str = "int64_t"
    warp: int = 32
    async_bytes: tuple[int, ...] = ()
    cluster_blocks: int = 0
    vector_bytes: int = 16
    warp_barriers: bool = True  # whether a part of a block can meet
    static_shared_bytes: int = 48 * 1024
    null: str = "nullptr"
    templates: bool = False  # whether a function may leave a type open
    keywords: frozenset[str] = frozenset()  # words that no variable may be called, besides those of C++

    def with_index(self, name: str) -> Dialect:
        """The dialect with another name for `index64`."""
        new = copy.copy(self)
        object.__setattr__(new, "index64", name)
        return new

    # ------------------------------------------------------------------------------------------------ expressions

    @abc.abstractmethod
    def ctype(self, dtype: DType) -> str:
        """The type of an element in memory."""

    @abc.abstractmethod
    def convert(self, to: str, text: str) -> str:
        """A C conversion to a type given by its text, as a primary expression: `int(x)` or `((int)(x))`."""

    @abc.abstractmethod
    def literal(self, value: int | float | bool, dtype: DType) -> str:
        """A constant of an element type, exact."""

    @abc.abstractmethod
    def widen(self, text: str, dtype: DType) -> str:
        """The f32 value of a narrow float."""

    @abc.abstractmethod
    def narrow(self, text: str, dtype: DType) -> str:
        """A narrow float from an f32, rounded to nearest even (saturating as the language defines it)."""

    @abc.abstractmethod
    def cast(self, text: str, source: DType, target: DType) -> str:
        """A conversion as the language defines it, a primary expression: floats to integers truncate and saturate,
        floats to narrow floats round once (also from f64 and wide integers), integers wrap, to bool compares with 0."""

    @abc.abstractmethod
    def helper(self, name: str, dtype: DType | None, args: Sequence[str]) -> str:
        """A call of an integer helper of the prelude at an element type, None for `index64`: div mod max min ceildiv
        alignup aligndown shl shr. `croq_div<s32>(a, b)` or `croq_div_s32(a, b)`. Division by zero and overflow of
        `min / -1` must not trap."""

    @abc.abstractmethod
    def math(self, name: str, dtype: DType, args: Sequence[str]) -> str:
        """A math builtin by its name in the prelude (`exp`, `fmax`, `frcp`, `fma`, ...); arguments and result are f32
        or f64, `dtype` says which."""

    # ------------------------------------------------------------------------------------------------- the module

    def head(self, element_types: bool) -> list[str]:
        """Lines before the cell's own device text, which may use the language's names of element types if
        `element_types`."""
        return [f'#include "{self.header}"']

    def opening(self) -> list[str]:
        """Lines between the cell's device text and the kernels."""
        return []

    def foreign_text(self, piece: Span) -> str:
        """A part of the cell's device text as it is passed on, with as many lines."""
        return piece.text

    def closing(self) -> list[str]:
        """Lines behind the kernels."""
        return []

    # ---------------------------------------------------------------------------------------- functions and storage

    @abc.abstractmethod
    def kernel_head(
        self,
        symbol: str,
        parameters: Sequence[str],
        threads: int,
        attributes: ir.RegionAttributes,
        shape: Sequence[int] = (),
        cluster: int = 1,
    ) -> str:
        """The declaration of a kernel, without its body. `threads` is the size of a block, `shape`
        its extents along x, y, z; 0 is one that is not known. So many neighbours along x are a `cluster`."""

    def function_head(self, name: str, parameters: Sequence[str], index: str) -> str:
        """The declaration of a function that kernels call, of a type of indices that is left open."""
        raise Unsupported(f"functions of open types are not supported by the {self.name} target")

    @abc.abstractmethod
    def pointer_type(self, dtype: DType, space: Space, constant: bool = False) -> str:
        """`const f32*`, `__global const f32*`."""

    def raw_pointer(self, type_name: str, space: Space) -> str:
        """A pointer to any type, such as `uint4*` or `__local uchar*`."""
        return f"{type_name}*"

    @abc.abstractmethod
    def buffer_parameter(self, dtype: DType, name: str, constant: bool, restrict: bool) -> str:
        """A kernel parameter that points to device memory; `constant`: the kernel only reads it."""

    def scalar_parameter(self, dtype: DType | None, name: str) -> str:
        """A kernel parameter with a value; `dtype` None for an index of 64 bits."""
        return f"{self.index64 if dtype is None else self.ctype(dtype)} {name}"

    @abc.abstractmethod
    def report_parameter(self, name: str) -> str:
        """The parameter that failed checks are reported through."""

    @abc.abstractmethod
    def counter_parameter(self, name: str) -> str:
        """The parameter with which blocks of a cooperative launch meet."""

    @abc.abstractmethod
    def shared_array(self, dtype: DType | None, name: str, count: int, alignment: int) -> str:
        """The definition of an array in a block's memory, at the top of a kernel; `dtype` None for bytes."""

    @abc.abstractmethod
    def dynamic_shared(self, name: str, alignment: int) -> tuple[str, str]:
        """Dynamic memory of a block as bytes: its parameter ("" if it is none) and its declaration in the body ("")."""

    def private_array(self, dtype: DType, name: str, count: int) -> str:
        """The definition of an array of one thread, aligned for vector accesses where that costs nothing."""
        return f"{self.ctype(dtype)} {name}[{count}];"

    # ------------------------------------------------------------------------------------------------- coordinates

    @abc.abstractmethod
    def thread_index(self, axis: int) -> str:
        """The thread's index in its block along x, y, z (0, 1, 2), convertible to `int` without loss."""

    @abc.abstractmethod
    def block_index(self, axis: int) -> str:
        """The block's index in the grid."""

    @abc.abstractmethod
    def grid_extent(self, axis: int) -> str:
        """The number of blocks along an axis."""

    # ------------------------------------------------------------------------------------------------ cooperation

    @abc.abstractmethod
    def block_barrier(self) -> str:
        """A barrier of all threads of the block that orders its memory and device memory, as a statement."""

    @abc.abstractmethod
    def warp_barrier(self, mask: int | None = None) -> str:
        """A barrier of the threads of a warp, or of those whose bit is set in `mask`."""

    @abc.abstractmethod
    def named_barrier(self, number: str, threads: str, arrives: bool = False) -> str:
        """A barrier of some threads of the block, by number 0..15."""

    @abc.abstractmethod
    def grid_barrier(self, counter: str, blocks: str) -> str:
        """A barrier of all threads of a cooperative launch of `blocks` blocks; `counter` is the name given to
        `counter_parameter`."""

    @abc.abstractmethod
    def fence(self, level: ir.Level) -> str:
        """Orders the thread's own writes for observers within a level."""

    @abc.abstractmethod
    def atomic(self, op: str, dtype: DType, space: Space, pointer: str, args: Sequence[str]) -> str:
        """A relaxed atomic (add sub exch min max and or xor cas) as an expression: the old value. `args` of cas are
        (expected, new)."""

    def combine_lanes(self, op: str, dtype: DType, lanes: int, stride: int, text: str) -> str:
        """The sum or maximum (`op`) of a value of 32 or 64 bits over lanes of a warp, as `ir.CombineLanes` says."""
        raise Unsupported(f"values cannot pass between the threads of a warp on the {self.name} target")

    @abc.abstractmethod
    def async_copy(self, to: str, source: str, size: int, valid: str = "") -> str:
        """A statement: `size` bytes from device memory to a block's memory, complete after `async_wait`. With `valid`
        only so many are read, and the rest becomes zero."""

    @abc.abstractmethod
    def async_commit(self) -> str:
        """A statement: the thread's asynchronous copies so far form a group."""

    @abc.abstractmethod
    def async_wait(self, groups: int) -> str:
        """A statement: waits until at most `groups` of the thread's groups are not complete."""

    @abc.abstractmethod
    def vector_copy(self, to: str, to_space: Space, source: str, source_space: Space, size: int) -> str:
        """A statement: copies `size` bytes (2, 4, 8 or 16, both addresses aligned to it) in one access."""

    @abc.abstractmethod
    def vector_zero(self, to: str, space: Space, size: int) -> str:
        """A statement: `size` bytes (2, 4, 8 or 16, the address aligned to it) become zero in one access."""

    # ------------------------------------------------------------------------------------------------------ events

    @abc.abstractmethod
    def event_array(self, name: str, count: int) -> str:
        """The definition of `count` events in a block's memory, at the top of a kernel."""

    @abc.abstractmethod
    def event_init(self, event: str, parties: str) -> str:
        """A statement, run by one thread before a barrier of the block: `event` is an lvalue of the array; `parties`
        arrivals complete a generation."""

    @abc.abstractmethod
    def event_arrive(self, event: str) -> str:
        """A statement: one party arrives."""

    @abc.abstractmethod
    def event_wait(self, event: str, generation: str) -> str:
        """A statement: waits until `generation` is complete. Only its lowest bit counts (generations are counted from
        0); an event that starts ready is waited for as one that has completed generation -1."""

    def event_follow(self, event: str, alone: bool) -> str:
        """A statement: a party arrives when its asynchronous copies so far have landed, and goes on at once. `alone`:
        this is its arrival, and it wrote nothing else that waiters may read. Otherwise `event_arrive` must come next,
        and the generation completes after both."""
        raise Unsupported(f"arrivals of asynchronous copies are not supported by the {self.name} target")

    def cluster_barrier(self) -> str:
        """A barrier of all threads of a cluster's blocks, as a statement; it orders memory among them."""
        raise Unsupported(f"clusters are not supported by the {self.name} target")

    def cluster_arrive(self, event: str, block: str) -> str:
        """A statement: one party arrives at the event of another block of the cluster, by its number there."""
        raise Unsupported(f"clusters are not supported by the {self.name} target")

    def cluster_wait(self, event: str, generation: str) -> str:
        """A statement: `event_wait` at an event of the block at which all blocks of the cluster arrive."""
        raise Unsupported(f"clusters are not supported by the {self.name} target")

    def far_arrive(self, event: str) -> str:
        """A statement: one party arrives at an event in device memory; `event` is its word, an lvalue, which was zero
        before the launch."""
        raise Unsupported(f"events between blocks are not supported by the {self.name} target")

    def far_wait(self, event: str, parties: str, generation: str) -> str:
        """A statement: waits at such an event, like `event_wait`."""
        raise Unsupported(f"events between blocks are not supported by the {self.name} target")

    # ------------------------------------------------------------------------------------------------ messages

    @abc.abstractmethod
    def fail(self, report: str, number: int, values: Sequence[str]) -> str:
        """An expression (of no use): reports that check `number` failed; `values` are 64-bit integers."""

    @abc.abstractmethod
    def float_bits(self, text: str, dtype: DType) -> str:
        """The bits of a float (f32 or f64) as those of an f64, in a 64-bit integer."""

    @abc.abstractmethod
    def print(self, pieces: Sequence[tuple[str, DType | None]]) -> list[str]:
        """Statements that print: each piece is text (dtype None) or the text of a value. Floats print as `%f`, bool as
        true or false, integers in decimal; narrow floats come widened, with dtype f32."""

    def unroll(self, count: int | None) -> str:
        """The line before a loop that asks to unroll it, in full if `count` is None."""
        return "#pragma unroll" if count is None else f"#pragma unroll {count}"

    # -------------------------------------------------------------------------------------------- foreign code

    def call(self, function: str, template: str, args: Sequence[str]) -> str:
        """A call of a user's device function; `template` is "" or its arguments with brackets."""
        return f"{function}{template}({', '.join(args)})"

    @abc.abstractmethod
    def foreign_argument(self, text: str, dtype: DType, space: Space) -> str:
        """A pointer to elements as a user's function takes it."""

    def asm(self, template: str, outputs: str, inputs: str, clobbers: str) -> str:
        """An inline assembly statement; parts are complete C text."""
        return f'asm volatile("{template}" : {outputs} : {inputs} : {clobbers});'
