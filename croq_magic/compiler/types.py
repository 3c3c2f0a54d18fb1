"""Element types: one table that every stage reads.

Source of the formats: IEEE 754 for f16, f32, f64; the OCP 8-bit floating point specification for f8; the names and
sizes are those of the language reference, section "Element types".
"""

from __future__ import annotations

import dataclasses
import enum
import math


class Kind(enum.Enum):
    """Family of an element type."""

    SIGNED = "signed"
    UNSIGNED = "unsigned"
    FLOAT = "float"
    BOOL = "bool"


@dataclasses.dataclass(frozen=True, eq=False)
class DType:
    """One element type.

    `bits` counts value bits, `size` the bytes of one element in memory (sub-byte types take a whole byte), `numpy` is
    the name of the NumPy or ml_dtypes type that holds it, None where there is none. Of floats, `mantissa` counts the
    bits that are held exactly, the hidden one included; `largest` is the largest number, `quantum` the smallest above
    zero.
    """

    name: str
    kind: Kind
    bits: int
    numpy: str | None
    mantissa: int = 0
    largest: float = 0.0
    quantum: float = 0.0

    def __repr__(self) -> str:
        return self.name

    @property
    def size(self) -> int:
        return max(1, self.bits // 8)

    @property
    def storage(self) -> str:
        """The name of the NumPy or ml_dtypes type of arrays: `numpy`, else that of bytes that hold one element each."""
        return self.numpy or ("int8" if self.kind is Kind.SIGNED else "uint8")

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT

    @property
    def is_integer(self) -> bool:
        return self.kind is Kind.SIGNED or self.kind is Kind.UNSIGNED

    @property
    def is_signed(self) -> bool:
        return self.kind in (Kind.SIGNED, Kind.FLOAT)

    @property
    def range(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type."""
        if self.kind is Kind.SIGNED:
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1

    def holds(self, value: float) -> bool:
        """Whether a float type represents a number exactly; types of 16 bits and more hold infinities and NaN too."""
        if not math.isfinite(value):
            return self.bits >= 16
        if self.name in ("f8_ue4m3", "f8_ue8m0") and math.copysign(1.0, value) < 0:
            return False
        if value == 0:
            return self.name != "f8_ue8m0"
        scaled = math.frexp(value)[0] * (1 << self.mantissa)
        return abs(value) <= self.largest and scaled.is_integer() and math.fmod(value, self.quantum) == 0


def _signed(bits: int, numpy: str | None) -> DType:
    return DType(f"s{bits}", Kind.SIGNED, bits, numpy)


def _unsigned(bits: int, numpy: str | None) -> DType:
    return DType(f"u{bits}", Kind.UNSIGNED, bits, numpy)


def _float(name: str, bits: int, numpy: str | None, mantissa: int, largest: float, lowest: int) -> DType:
    return DType(name, Kind.FLOAT, bits, numpy, mantissa, largest, math.ldexp(1.0, lowest))


S2, S4, S6 = _signed(2, "int2"), _signed(4, "int4"), _signed(6, None)
S8, S16, S32, S64 = (_signed(bits, f"int{bits}") for bits in (8, 16, 32, 64))
U1, U2, U4, U6 = _unsigned(1, None), _unsigned(2, "uint2"), _unsigned(4, "uint4"), _unsigned(6, None)
U8, U16, U32, U64 = (_unsigned(bits, f"uint{bits}") for bits in (8, 16, 32, 64))
BIN1 = DType("bin1", Kind.UNSIGNED, 1, None)
BOOL = DType("bool", Kind.BOOL, 8, "bool")
F64 = _float("f64", 64, "float64", 53, 1.7976931348623157e308, -1074)
F32, TF32 = (_float(name, 32, "float32", 24, 3.4028234663852886e38, -149) for name in ("f32", "tf32"))
F16 = _float("f16", 16, "float16", 11, 65504.0, -24)
BF16 = _float("bf16", 16, "bfloat16", 8, 3.3895313892515355e38, -133)
F8_E4M3 = _float("f8_e4m3", 8, "float8_e4m3fn", 4, 448.0, -9)
F8_E5M2 = _float("f8_e5m2", 8, "float8_e5m2", 3, 57344.0, -16)
F8_UE4M3 = _float("f8_ue4m3", 8, None, 4, 448.0, -9)
F8_UE8M0 = _float("f8_ue8m0", 8, "float8_e8m0fnu", 1, math.ldexp(1.0, 127), -127)
F6_E3M2 = _float("f6_e3m2", 6, "float6_e3m2fn", 3, 28.0, -4)
F6_E2M3 = _float("f6_e2m3", 6, "float6_e2m3fn", 4, 7.5, -3)
F4_E2M1 = _float("f4_e2m1", 4, "float4_e2m1fn", 2, 6.0, -1)

ALL = (
    *(S2, S4, S6, S8, S16, S32, S64, U1, U2, U4, U6, U8, U16, U32, U64, BIN1, BOOL),
    *(F64, F32, TF32, F16, BF16, F8_E4M3, F8_E5M2, F8_UE4M3, F8_UE8M0, F6_E3M2, F6_E2M3, F4_E2M1),
)
ALIASES = {"half": F16, "bfp16": BF16, "float": F32, "double": F64, "f8": F8_E4M3, "int": S32}
BY_NAME: dict[str, DType] = {dtype.name: dtype for dtype in ALL} | ALIASES
