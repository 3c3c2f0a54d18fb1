"""OpenCL C as a dialect of the SIMT emitter.

Names that start with `croq_` are those of croq_opencl.h. Storage of narrow types has types of its own (structs, so that
arithmetic on a `bf16` in a user's text does not compile instead of being wrong); f16 is `half` where the device has it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from croq_magic.compiler import ir
from croq_magic.compiler.source import Span
from croq_magic.compiler.targets.emit_cxx import Unsupported, cxx_string, is_narrow
from croq_magic.compiler.targets.opencl import foreign
from croq_magic.compiler.targets.opencl.devices import Features
from croq_magic.compiler.targets.opencl.words import RESERVED, renamed
from croq_magic.compiler.targets.simt import elements
from croq_magic.compiler.targets.simt.dialect import Dialect, Space
from croq_magic.compiler.types import BOOL, F16, F32, F64, S32, S64, TF32, U32, U64, DType

_QUALIFIER = {Space.GLOBAL: "__global ", Space.SHARED: "__local ", Space.PRIVATE: ""}
_VECTORS = {1: "uchar", 2: "uchar2", 4: "uchar4", 8: "uint2", 16: "uint4"}  # clang lets vectors alias anything
_FENCES = "CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE"


class OpenclDialect(Dialect):
    """OpenCL C for a device with these features."""

    name = "opencl"
    header = "croq_opencl.h"
    index64 = "long"
    keywords = RESERVED
    async_bytes = ()

    def __init__(self, features: Features, renames: Sequence[str] = ()) -> None:
        """`renames` are words of the cell's device text that OpenCL C reserves: they get other names there."""
        self.features = features
        self.renames = renames
        self.static_shared_bytes = features.shared_bytes
        self.subgroups_used = False
        self.warp_barriers = features.subgroups and features.required_subgroup

    def _missing(self, what: str) -> Unsupported:
        return Unsupported(f"{what}, which the OpenCL device {self.features.device} does not have")

    # ------------------------------------------------------------------------------------------------ expressions

    def ctype(self, dtype: DType) -> str:
        if dtype is F64 and not self.features.double:
            raise self._missing("f64 needs the extension cl_khr_fp64")
        return "croq_bool" if dtype is BOOL else dtype.name

    def convert(self, to: str, text: str) -> str:
        return f"(({to})({text}))"

    def literal(self, value: int | float | bool, dtype: DType) -> str:
        if dtype is BOOL:
            return "1" if value else "0"
        if dtype in (F32, TF32, F64):
            number = float(value)
            if math.isfinite(number):
                return repr(number) if dtype is F64 else repr(number) + "f"
            text = "NAN" if math.isnan(number) else "INFINITY" if number > 0 else "-INFINITY"
            return f"((double)({text}))" if dtype is F64 else text
        if dtype is F16 and self.features.half:
            return f"((half)({self.literal(value, F32)}))"
        if dtype.is_float:
            bits = int.from_bytes(elements.encode(float(value), dtype).tobytes(), "little")
            return f"(({dtype.name}){{{hex(bits)}}})"
        number = int(value)
        if dtype is S32:
            return str(number) if number > -(1 << 31) else "(-2147483647 - 1)"
        if dtype is S64:
            return f"{number}l" if number > -(1 << 63) else "(-9223372036854775807l - 1)"
        if dtype in (U32, U64):
            return f"{number}{'u' if dtype is U32 else 'ul'}"
        if dtype.bits < 8:
            return f"croq_{dtype.name}_of({number})"
        return f"(({self.ctype(dtype)})({number}))"

    def widen(self, text: str, dtype: DType) -> str:
        if dtype is F16 and self.features.half:
            return f"((float)({text}))"
        return f"croq_{dtype.name}_get({text})"

    def narrow(self, text: str, dtype: DType) -> str:
        if dtype is F16 and self.features.half:
            return f"((half)({text}))"
        return f"croq_{dtype.name}_of({text})"

    def cast(self, text: str, source: DType, target: DType) -> str:
        if source is target or (source in (F32, TF32) and target in (F32, TF32)):
            return f"({text})"
        if is_narrow(source):
            text, source = self.widen(text, source), F32
        elif source.is_integer and source.bits < 8:
            text, source = f"croq_{source.name}_get({text})", S32
        if target is BOOL:
            return f"((croq_bool)(({text}) != 0))"
        if target.is_integer and source.is_float:
            kind = "f64" if source is F64 else "f32"
            if target.bits < 8:
                low, high = target.range
                return f"croq_{target.name}_of(clamp(croq_s32_of_{kind}({text}), {low}, {high}))"
            return f"croq_{target.name}_of_{kind}({text})"
        if target.is_integer:
            if target.bits < 8:
                return f"croq_{target.name}_of((int)({text}))"
            return self.convert(self.ctype(target), text)
        if is_narrow(target):
            if source.is_integer and source.bits > 16:
                text = f"croq_odd_{'s' if source.is_signed else 'u'}64({text})"
            elif source is F64:
                text = f"croq_odd_f64({text})"
            elif not source.is_float:
                text = f"(float)({text})"
            return self.narrow(text, target)
        return self.convert(self.ctype(target), text)

    def helper(self, name: str, dtype: DType | None, args: Sequence[str]) -> str:
        kind = dtype or S64
        if kind.bits < 8:
            return self.cast(f"croq_{name}_s32({', '.join(self.cast(a, kind, S32) for a in args)})", S32, kind)
        return f"croq_{name}_{kind.name}({', '.join(args)})"

    def math(self, name: str, dtype: DType, args: Sequence[str]) -> str:
        if dtype is F64:
            self.ctype(F64)
        return f"croq_{name}_{'f64' if dtype is F64 else 'f32'}({', '.join(args)})"

    def head(self, element_types: bool) -> list[str]:
        return [f'#include "{self.header}"', *(f"#define {word} {renamed(word)}" for word in self.renames)]

    def opening(self) -> list[str]:
        return [f"#undef {word}" for word in self.renames]

    def foreign_text(self, piece: Span) -> str:
        return foreign.as_opencl(piece.text)

    # ---------------------------------------------------------------------------------------- functions and storage

    def kernel_head(
        self,
        symbol: str,
        parameters: Sequence[str],
        threads: int,
        attributes: ir.RegionAttributes,
        shape: Sequence[int] = (),
        cluster: int = 1,
    ) -> str:
        words = "__kernel "
        if len(shape) == 3 and all(shape) and threads <= self.features.threads:
            words += f"__attribute__((reqd_work_group_size({', '.join(map(str, shape))}))) "
        if self.subgroups_used:
            words += f"__attribute__((intel_reqd_sub_group_size({self.warp}))) "
        self.subgroups_used = False
        return f"{words}void {symbol}({', '.join(parameters)})"

    def pointer_type(self, dtype: DType, space: Space, constant: bool = False) -> str:
        return f"{_QUALIFIER[space]}{'const ' if constant else ''}{self.ctype(dtype)}*"

    def raw_pointer(self, type_name: str, space: Space) -> str:
        return f"{_QUALIFIER[space]}{type_name}*"

    def buffer_parameter(self, dtype: DType, name: str, constant: bool, restrict: bool) -> str:
        return f"{self.pointer_type(dtype, Space.GLOBAL, constant)} {'restrict ' if restrict else ''}{name}"

    def report_parameter(self, name: str) -> str:
        return f"__global long* {name}"

    def counter_parameter(self, name: str) -> str:
        return f"__global uint* {name}"

    def shared_array(self, dtype: DType | None, name: str, count: int, alignment: int) -> str:
        kind = "uchar" if dtype is None else self.ctype(dtype)
        return f"__local {kind} {name}[{count}] __attribute__((aligned({alignment})));"

    def private_array(self, dtype: DType, name: str, count: int) -> str:
        wide = count * dtype.size >= self.vector_bytes and count * dtype.size % self.vector_bytes == 0
        alignment = f" __attribute__((aligned({self.vector_bytes})))" if wide else ""
        return f"{self.ctype(dtype)} {name}[{count}]{alignment};"

    def dynamic_shared(self, name: str, alignment: int) -> tuple[str, str]:
        return f"__local uchar* {name}", ""

    # ------------------------------------------------------------------------------------------------- coordinates

    def thread_index(self, axis: int) -> str:
        return f"((int)get_local_id({axis}))"

    def block_index(self, axis: int) -> str:
        return f"((int)get_group_id({axis}))"

    def grid_extent(self, axis: int) -> str:
        return f"((int)get_num_groups({axis}))"

    # ------------------------------------------------------------------------------------------------ cooperation

    def block_barrier(self) -> str:
        return f"barrier({_FENCES});"

    def warp_barrier(self, mask: int | None = None) -> str:
        if not self.warp_barriers:
            raise self._missing(f"a barrier of a `group` needs subgroups of {self.warp} threads")
        if mask is not None and mask != (1 << self.warp) - 1:
            raise Unsupported("a barrier of a part of a `group` is not supported by the opencl target")
        self.subgroups_used = True
        return f"sub_group_barrier({_FENCES});"

    def combine_lanes(self, op: str, dtype: DType, lanes: int, stride: int, text: str) -> str:
        if not self.features.shuffles:
            return super().combine_lanes(op, dtype, lanes, stride, text)
        self.subgroups_used = True
        return f"croq_lanes_{op}_{'f32' if dtype is TF32 else dtype.name}({text}, {lanes}, {stride})"

    def named_barrier(self, number: str, threads: str, arrives: bool = False) -> str:
        raise Unsupported("named barriers are not supported by the opencl target: OpenCL has barriers of whole blocks")

    def grid_barrier(self, counter: str, blocks: str) -> str:
        raise Unsupported(
            "a barrier of all blocks inside other statements is not supported by the opencl target: "
            "OpenCL does not promise that all blocks run at the same time"
        )

    def fence(self, level: ir.Level) -> str:
        return f"mem_fence({_FENCES});"

    def atomic(self, op: str, dtype: DType, space: Space, pointer: str, args: Sequence[str]) -> str:
        if dtype.bits == 64 and not self.features.atomics64:
            raise self._missing("atomics of 64 bits need the extension cl_khr_int64_extended_atomics")
        self.ctype(dtype)
        where = "local" if space is Space.SHARED else "global"
        return f"croq_{where}_{op}_{dtype.name}({', '.join([pointer, *args])})"

    def async_copy(self, to: str, source: str, size: int, valid: str = "") -> str:
        raise Unsupported("asynchronous copies are not supported by the opencl target")

    def async_commit(self) -> str:
        return ";"

    def async_wait(self, groups: int) -> str:
        return ";"

    def vector_copy(self, to: str, to_space: Space, source: str, source_space: Space, size: int) -> str:
        kind = _VECTORS[size]
        into, out = self.raw_pointer(kind, to_space), self.raw_pointer(f"const {kind}", source_space)
        return f"*({into})({to}) = *({out})({source});"

    def vector_zero(self, to: str, space: Space, size: int) -> str:
        kind = _VECTORS[size]
        return f"*({self.raw_pointer(kind, space)})({to}) = ({kind})(0);"

    # ------------------------------------------------------------------------------------------------------ events

    def _no_events(self) -> Unsupported:
        return Unsupported("events are not supported by the opencl target: OpenCL has barriers of whole blocks")

    def event_array(self, name: str, count: int) -> str:
        raise self._no_events()

    def event_init(self, event: str, parties: str) -> str:
        raise self._no_events()

    def event_arrive(self, event: str) -> str:
        raise self._no_events()

    def event_wait(self, event: str, generation: str) -> str:
        raise self._no_events()

    # ------------------------------------------------------------------------------------------------ messages

    def fail(self, report: str, number: int, values: Sequence[str]) -> str:
        stores = [f"croq_value({report}, {place}, {value})" for place, value in enumerate(values, 1)]
        return " && ".join([f"croq_fail({report}, {number})", *stores])

    def float_bits(self, text: str, dtype: DType) -> str:
        return f"croq_bits_{'f64' if dtype is F64 else 'f32'}({text})"

    def print(self, pieces: Sequence[tuple[str, DType | None]]) -> list[str]:
        lines: list[str] = []
        form = ""
        values: list[str] = []

        def flush() -> None:
            nonlocal form, values
            if form:
                lines.append(f'printf("{form}"{"".join(f", {v}" for v in values)});')
            form, values = "", []

        for text, dtype in pieces:
            if dtype is None:
                form += cxx_string(text.encode()).replace("%", "%%")
            elif dtype is BOOL:  # strings as arguments must be literals
                flush()
                lines.append(f'if ({text}) printf("true"); else printf("false");')
            elif dtype.is_float:
                form += "%f"
                values.append(f"(double)({text})" if self.features.double else f"(float)({text})")
            else:
                form += "%ld" if dtype.is_signed else "%lu"
                values.append(f"({'long' if dtype.is_signed else 'ulong'})({self.cast(text, dtype, S64)})")
        flush()
        return lines

    # -------------------------------------------------------------------------------------------- foreign code

    def call(self, function: str, template: str, args: Sequence[str]) -> str:
        if template:
            raise Unsupported("template arguments are not supported by the opencl target: OpenCL C has no templates")
        if "::" in function:
            raise Unsupported(f"`{function}` is not supported by the opencl target: OpenCL C has no namespaces")
        return f"{renamed(function)}({', '.join(args)})"

    def foreign_argument(self, text: str, dtype: DType, space: Space) -> str:
        return text

    def asm(self, template: str, outputs: str, inputs: str, clobbers: str) -> str:
        raise Unsupported("inline assembly is not supported on OpenCL devices")
