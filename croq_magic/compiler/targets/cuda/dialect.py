"""CUDA C++ as a dialect of the SIMT emitter."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from croq_magic.compiler import ir
from croq_magic.compiler.targets.emit_cxx import Unsupported, ctype, cxx_string, is_narrow, literal
from croq_magic.compiler.targets.simt.dialect import Dialect, Space
from croq_magic.compiler.types import BOOL, F32, F64, TF32, U64, DType

_VECTORS = {16: "uint4", 8: "uint2", 4: "uint32_t", 2: "uint16_t"}
_AXES = "xyz"
_KEYWORDS = """threadIdx blockIdx blockDim gridDim warpSize uint2 uint4 int2 int4 float2 float4 dim3 printf min max abs
    clock clock64 y0 y1 yn j0 j1 jn""".split()


_PRINTF_ARGUMENTS = 32  # a GPU's printf leaves out those behind


def _printf(text: bytes, args: Sequence[str]) -> str:
    return f'printf("{cxx_string(text)}"{"".join(", " + a for a in args)});'


@dataclasses.dataclass(frozen=True)
class CudaDialect(Dialect):
    """`arch` is the compute capability times ten."""

    arch: int = 80
    name = "cuda"
    header = "croq_cuda.h"
    keywords = frozenset(_KEYWORDS)
    templates = True

    @property
    def async_bytes(self) -> tuple[int, ...]:  # type: ignore[override]
        return (4, 8, 16) if self.arch >= 80 else ()

    @property
    def cluster_blocks(self) -> int:  # type: ignore[override]
        return 8 if self.arch >= 90 else 0  # more than 8 have to be asked for, and not every GPU has them

    # ------------------------------------------------------------------------------------------------ expressions

    def ctype(self, dtype: DType) -> str:
        return ctype(dtype)

    def convert(self, to: str, text: str) -> str:
        return f"{to}({text})"

    def literal(self, value: int | float | bool, dtype: DType) -> str:
        if dtype.is_float and not math.isfinite(value):  # NVRTC has no header with constants for these
            text = "CROQ_NAN" if math.isnan(value) else "CROQ_INFINITY" if value > 0 else "-CROQ_INFINITY"
            return text if dtype in (F32, TF32) else f"{ctype(dtype)}({text})"
        return literal(value, dtype)

    def widen(self, text: str, dtype: DType) -> str:
        return f"f32({text})"

    def narrow(self, text: str, dtype: DType) -> str:
        return f"{ctype(dtype)}({text})"

    def cast(self, text: str, source: DType, target: DType) -> str:
        to = ctype(target)
        if source is target:
            return f"({text})"
        if target is BOOL:
            return f"(({text}) != 0)"
        if target.is_integer and source.is_float:
            wide = text if source in (F32, F64, TF32) else f"f32({text})"
            if target.bits < 8:
                low, high = target.range
                return f"{to}(croq_max<s32>({low}, croq_min<s32>({high}, croq_to_int<s32>({wide}))))"
            return f"croq_to_int<{to}>({wide})"
        if is_narrow(target):
            if source in (F32, TF32):
                return f"{to}({text})"
            exact = (source.is_float and source.bits <= 32) or source.bits <= 16  # f32 holds every value of the source
            return f"{to}(f32({text}))" if exact else f"{to}(croq_narrow({ctype(source)}({text})))"
        if is_narrow(source):
            return f"f32({text})" if target in (F32, TF32) else f"{to}(f32({text}))"
        return f"{to}({text})"

    def helper(self, name: str, dtype: DType | None, args: Sequence[str]) -> str:
        return f"croq_{name}<{'int64_t' if dtype is None else ctype(dtype)}>({', '.join(args)})"

    def math(self, name: str, dtype: DType, args: Sequence[str]) -> str:
        return f"croq_{name}({', '.join(args)})"

    # ------------------------------------------------------------------------------------------------- the module

    def head(self, element_types: bool) -> list[str]:
        lines = [f'#include "{self.header}"']
        return [*lines, "using namespace choreo;"] if element_types else lines

    def opening(self) -> list[str]:
        return ["namespace croq_cell {", ""]

    def closing(self) -> list[str]:
        return ["}  // namespace croq_cell"]

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
        bounds = ""
        most = attributes.launch_bounds[0] if attributes.launch_bounds and attributes.launch_bounds[0] else threads
        if most:
            least = attributes.launch_bounds[1] if len(attributes.launch_bounds) > 1 else 0
            bounds = f" __launch_bounds__({most}{f', {least}' if least else ''})"
        if attributes.maxnreg and not (attributes.launch_bounds and len(attributes.launch_bounds) > 1):
            bounds = f" __maxnreg__({attributes.maxnreg})"
        if cluster > 1:
            bounds = f" __cluster_dims__({cluster}, 1, 1){bounds}"
        return f'extern "C" __global__ void{bounds} {symbol}({", ".join(parameters)})'

    def function_head(self, name: str, parameters: Sequence[str], index: str) -> str:
        return f"template <typename {index}>\n__device__ __forceinline__ void {name}({', '.join(parameters)})"

    def pointer_type(self, dtype: DType, space: Space, constant: bool = False) -> str:
        return f"const {ctype(dtype)}*" if constant else f"{ctype(dtype)}*"

    def buffer_parameter(self, dtype: DType, name: str, constant: bool, restrict: bool) -> str:
        return f"{self.pointer_type(dtype, Space.GLOBAL, constant)}{' __restrict__' if restrict else ''} {name}"

    def report_parameter(self, name: str) -> str:
        return f"int64_t* {name}"

    def counter_parameter(self, name: str) -> str:
        return f"unsigned* {name}"

    def shared_array(self, dtype: DType | None, name: str, count: int, alignment: int) -> str:
        kind = "unsigned char" if dtype is None else ctype(dtype)
        return f"__shared__ __align__({alignment}) {kind} {name}[{count}];"

    def dynamic_shared(self, name: str, alignment: int) -> tuple[str, str]:
        return "", f"extern __shared__ __align__({alignment}) unsigned char {name}[];"

    def private_array(self, dtype: DType, name: str, count: int) -> str:
        wide = count * dtype.size >= self.vector_bytes and count * dtype.size % self.vector_bytes == 0
        return f"{f'__align__({self.vector_bytes}) ' if wide else ''}{ctype(dtype)} {name}[{count}];"

    # ------------------------------------------------------------------------------------------------- coordinates

    def thread_index(self, axis: int) -> str:
        return f"threadIdx.{_AXES[axis]}"

    def block_index(self, axis: int) -> str:
        return f"blockIdx.{_AXES[axis]}"

    def grid_extent(self, axis: int) -> str:
        return f"gridDim.{_AXES[axis]}"

    # ------------------------------------------------------------------------------------------------ cooperation

    def block_barrier(self) -> str:
        return "__syncthreads();"

    def warp_barrier(self, mask: int | None = None) -> str:
        return "__syncwarp();" if mask is None else f"__syncwarp(0x{mask:08x}u);"

    def named_barrier(self, number: str, threads: str, arrives: bool = False) -> str:
        return f"croq_bar_{'arrive' if arrives else 'sync'}({number}, {threads});"

    def grid_barrier(self, counter: str, blocks: str) -> str:
        return f"croq_grid_sync({counter}, {blocks});"

    def fence(self, level: ir.Level) -> str:
        wide = level in (ir.Level.DEVICE, ir.Level.CLUSTER)
        return "croq_fence_device();" if wide else "croq_fence_block();"

    def atomic(self, op: str, dtype: DType, space: Space, pointer: str, args: Sequence[str]) -> str:
        if dtype.is_float and dtype.bits < 16:
            raise Unsupported(f"atomics on {dtype} are not supported by the cuda target")
        return f"croq_atomic_{op}({', '.join([pointer, *args])})"

    def combine_lanes(self, op: str, dtype: DType, lanes: int, stride: int, text: str) -> str:
        return f"croq_lanes_{op}<{lanes}{f', {stride}' if stride > 1 else ''}>({text})"

    def async_copy(self, to: str, source: str, size: int, valid: str = "") -> str:
        if valid:
            return f"croq_async_copy_zfill<{size}>({to}, {source}, {valid});"
        return f"croq_async_copy<{size}>({to}, {source});"

    def async_commit(self) -> str:
        return "croq_async_commit();"

    def async_wait(self, groups: int) -> str:
        return f"croq_async_wait<{groups}>();"

    def vector_copy(self, to: str, to_space: Space, source: str, source_space: Space, size: int) -> str:
        vector = _VECTORS[size]
        return f"*({vector}*){to} = *(const {vector}*){source};"

    def vector_zero(self, to: str, space: Space, size: int) -> str:
        return f"*({_VECTORS[size]}*){to} = {_VECTORS[size]}{{}};"

    # ------------------------------------------------------------------------------------------------------ events

    def event_array(self, name: str, count: int) -> str:
        return f"__shared__ uint64_t {name}[{count}];"

    def event_init(self, event: str, parties: str) -> str:
        return f"croq_mbarrier_init(&{event}, {parties});"

    def event_arrive(self, event: str) -> str:
        return f"croq_mbarrier_arrive(&{event});"

    def event_wait(self, event: str, generation: str) -> str:
        return f"croq_mbarrier_wait(&{event}, {generation});"

    def event_follow(self, event: str, alone: bool) -> str:
        return f"croq_mbarrier_{'arrive' if alone else 'expect'}_landed(&{event});"

    def cluster_barrier(self) -> str:
        return "croq_cluster_sync();"

    def cluster_arrive(self, event: str, block: str) -> str:
        return f"croq_cluster_arrive(&{event}, {block});"

    def cluster_wait(self, event: str, generation: str) -> str:
        return f"croq_cluster_wait(&{event}, {generation});"

    def far_arrive(self, event: str) -> str:
        return f"croq_far_arrive(&{event});"

    def far_wait(self, event: str, parties: str, generation: str) -> str:
        return f"croq_far_wait(&{event}, {parties}, {generation});"

    # ------------------------------------------------------------------------------------------------ messages

    def fail(self, report: str, number: int, values: Sequence[str]) -> str:
        return f"croq_fail({', '.join([report, str(number), *values])})"

    def float_bits(self, text: str, dtype: DType) -> str:
        return f"choreo::croq_bits<int64_t>(f64({text}))"

    def print(self, pieces: Sequence[tuple[str, DType | None]]) -> list[str]:
        lines: list[str] = []
        text, args = b"", list[str]()
        for piece, dtype in pieces:
            if len(args) == _PRINTF_ARGUMENTS:
                lines.append(_printf(text, args))
                text, args = b"", []
            if dtype is None:
                text += piece.encode().replace(b"%", b"%%")
            elif dtype.is_float:
                text += b"%f"
                args.append(f"f64({piece})")
            elif dtype is BOOL:
                text += b"%s"
                args.append(f'({piece} ? "true" : "false")')
            elif dtype.bits == 64:
                text += b"%llu" if dtype is U64 else b"%lld"
                args.append(f"({'unsigned ' if dtype is U64 else ''}long long)({piece})")
            else:
                text += b"%d" if dtype.is_signed else b"%u"
                args.append(f"{'int' if dtype.is_signed else 'unsigned'}({piece})")
        return [*lines, _printf(text, args)] if text else lines

    # -------------------------------------------------------------------------------------------- foreign code

    def foreign_argument(self, text: str, dtype: DType, space: Space) -> str:
        return text
