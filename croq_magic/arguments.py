"""One value for one parameter: what is accepted, and what a refusal says.

Each refusal names the function and parameter, its declaration, what came, and the NumPy expression that would fix it.
"""

from __future__ import annotations

import difflib
import functools
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from croq_magic.compiler.signature import Parameter
from croq_magic.compiler.types import DType, Kind
from croq_magic.errors import BindError, TargetError

CPU_DEVICE = 1  # kDLCPU of the DLPack specification


@functools.cache
def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy (or ml_dtypes) type whose arrays hold elements of `dtype`; raw bytes where there is none."""
    try:
        return np.dtype(dtype.storage)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, dtype.storage))


def numpy_text(dtype: DType) -> str:
    """The Python expression for `numpy_dtype(dtype)`: `np.int32`, `ml_dtypes.bfloat16`."""
    name = numpy_dtype(dtype).name
    return f"np.{'bool_' if name == 'bool' else name}" if hasattr(np, name) else f"ml_dtypes.{name}"


def count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def listing(names: Sequence[str]) -> str:
    """`a`, `b` and `c`."""
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)), None)


class Place(NamedTuple):
    """Where a value goes, for messages: function, parameter, and the Python expression the value came from."""

    function: str
    name: str
    expression: str
    param: Parameter

    @property
    def operand(self) -> str:
        """The expression in a form that `.method()` can follow."""
        return self.expression if self.expression.isidentifier() else f"({self.expression})"

    def refuse(self, problems: Sequence[str] | str, came: str, hint: str | None) -> BindError:
        lines = [problems] if isinstance(problems, str) else list(problems)
        text = "\n".join(f"{self.function}: parameter `{self.name}` {line}" for line in lines)
        text += f"\n    declared: {self.param.declaration}\n    given:    {came}"
        return BindError(text + (f"\n    hint:     pass {hint}" if hint else ""))


def describe(value: Any) -> str:
    """What came, in words: `int32 array of shape (4, 7)`, `a list`."""
    if isinstance(value, np.ndarray):
        kind = {np.ndarray: "array"}.get(type(value), type(value).__name__)
        order = "" if value.dtype.isnative else f" (byte order {value.dtype.str[0]})"
        return f"{value.dtype.name}{order} {kind} of shape {value.shape}"
    if isinstance(value, np.generic):
        return f"{type(value).__name__} scalar {value}"
    if isinstance(value, (bool, int, float, complex)):
        return f"the {type(value).__name__} {value}"
    if value is None:
        return "None"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{_type_name(value)} of {value.dtype}, shape {tuple(value.shape)}"
    return f"a value of type {_type_name(value)}"


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


# ------------------------------------------------------------------------------------------------------------- spans


def to_array(value: Any, place: Place) -> np.ndarray:
    """`value` as an ndarray of the declared type, rank and fixed extents, sharing its memory."""
    array = _as_ndarray(value, place)
    require_fit(array, value, place)
    return array


def require_fit(array: Any, value: Any, place: Place) -> None:
    """Raises `BindError` unless an array, of NumPy or alike, has the declared type, rank and fixed extents. `value` is
    what came."""
    param = place.param
    expected = numpy_dtype(param.dtype)
    problems, fix = [], place.operand
    if array.ndim != len(param.extents):
        problems.append(f"has rank {array.ndim}, expected {len(param.extents)}")
    else:
        for axis, (extent, actual) in enumerate(zip(param.extents, array.shape, strict=True)):
            if isinstance(extent, int) and actual != extent:
                problems.append(f"dim {axis} is {actual}, expected {extent}")
    if problems:
        fix = _reshaped(array, param, place.operand)
    if array.dtype != expected:
        problems.append(f"has elements of type {_dtype_text(array.dtype)}, expected {expected.name} ({param.dtype})")
        if fix:
            fix += (".real" if array.dtype.kind == "c" else "") + _cast(value, param.dtype)
    if problems:
        raise place.refuse(problems, describe(value), fix or None)


def require_rank_and_type(value: Any, place: Place, array: Any = None) -> None:
    """Raises `BindError` where rank or element type are not those of the declaration. `array` is the value as an array
    where it is none of NumPy's."""
    array, param = _as_ndarray(value, place) if array is None else array, place.param
    expected = numpy_dtype(param.dtype)
    if array.ndim != len(param.extents):
        raise place.refuse(f"has rank {array.ndim}, expected {len(param.extents)}", describe(value), None)
    if array.dtype != expected:
        problem = f"has elements of type {_dtype_text(array.dtype)}, expected {expected.name} ({param.dtype})"
        raise place.refuse(problem, describe(value), None)


def _cast(value: Any, dtype: DType) -> str:
    """The method call that converts the elements of `value`."""
    if _type_name(value) == "torch.Tensor":
        return f".to(torch.{numpy_dtype(dtype).name})"
    return f".astype({numpy_text(dtype)})"


def _dtype_text(dtype: np.dtype[Any]) -> str:
    return dtype.name if dtype.isnative else f"{dtype.name} in the other byte order ({dtype.str})"


def _reshaped(array: np.ndarray, param: Parameter, name: str) -> str:
    """The NumPy expression that gives `name` the declared extents, "" if there is no obvious one."""
    wanted = [extent if isinstance(extent, int) else None for extent in param.extents]
    fixed = [extent for extent in wanted if extent is not None]
    if array.ndim == len(wanted) == 2 and all(w in (None, a) for w, a in zip(wanted, array.shape[::-1], strict=True)):
        return f"{name}.T"
    if len(fixed) == len(wanted) and math.prod(fixed) == array.size:
        return f"{name}.reshape({', '.join(map(str, fixed))})"
    if array.ndim == len(wanted):
        pairs = list(zip(wanted, array.shape, strict=True))
        if all(w is None or w <= a for w, a in pairs):
            return f"{name}[{', '.join(':' if w is None or w == a else f':{w}' for w, a in pairs)}]"
        if all(w is None or w >= a for w, a in pairs):
            widths = ", ".join(f"(0, {0 if w is None else w - a})" for w, a in pairs)
            return f"np.pad({name}, ({widths}{',' if len(pairs) == 1 else ''}))"
        return ""
    squeezed = [extent for extent in array.shape if extent != 1]
    if len(squeezed) == len(wanted) and all(w in (None, a) for w, a in zip(wanted, squeezed, strict=True)):
        return f"{name}.reshape({', '.join(map(str, squeezed))})"
    missing = len(wanted) - array.ndim
    if missing > 0 and all(w in (None, 1) for w in wanted[:missing]):
        return f"{name}.reshape({', '.join(['1'] * missing + [str(extent) for extent in array.shape])})"
    if wanted.count(None) == 1 and array.size and array.size % math.prod(fixed) == 0:
        return f"{name}.reshape({', '.join('-1' if extent is None else str(extent) for extent in wanted)})"
    return ""


def _as_ndarray(value: Any, place: Place) -> np.ndarray:
    # numpy.ma is loaded at first use; where it is not loaded nothing can be masked.
    if "numpy.ma" in sys.modules and isinstance(value, np.ma.MaskedArray):
        raise place.refuse(
            "is a masked array; a mask has no meaning here", describe(value), f"{place.operand}.filled(0)"
        )
    if isinstance(value, np.ndarray):
        return value.view(np.ndarray)
    if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
        return _from_dlpack(value, place)
    dtype = numpy_text(place.param.dtype)
    hint: str | None = f"np.array({place.expression}, dtype={dtype})"
    if isinstance(value, (bool, int, float, complex, np.generic)) and place.param.extents:
        shape = ", ".join(place.param.texts)
        hint = f"np.full(({shape}{',' if len(place.param.extents) == 1 else ''}), {place.expression}, dtype={dtype})"
    elif hasattr(value, "to_numpy"):
        hint = f"{place.operand}.to_numpy(dtype={dtype})"
    elif value is None or callable(value):
        hint = None
    raise place.refuse("needs an array", describe(value), hint)


def _from_dlpack(value: Any, place: Place) -> np.ndarray:
    """A NumPy view of a CPU tensor of another library."""
    if getattr(value, "requires_grad", False):
        raise place.refuse("is part of a gradient computation", describe(value), f"{place.operand}.detach()")
    if value.__dlpack_device__()[0] != CPU_DEVICE:
        hint = f"{place.operand}.get()" if _type_name(value).startswith("cupy.") else f"{place.operand}.cpu()"
        raise place.refuse("is in device memory, and the function runs on the CPU", describe(value), hint)
    try:
        return _from_torch(value) if _type_name(value) == "torch.Tensor" else np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError) as error:
        raise place.refuse(f"cannot be shared with NumPy: {error}", describe(value), None) from None


def _from_torch(tensor: Any) -> np.ndarray:
    """`from_dlpack` makes torch tensors read-only and knows no bfloat16; torch's own bridge does neither."""
    if str(tensor.dtype) == "torch.bfloat16":
        import ml_dtypes
        import torch

        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def to_readable(array: np.ndarray) -> np.ndarray:
    """The array itself if it is C-contiguous and aligned, else a copy that is."""
    if array.flags.c_contiguous and array.flags.aligned:
        return array
    try:
        return np.array(array, order="C")
    except MemoryError:
        needed = f"{array.nbytes / (1 << 30):.3g} GiB"
        raise TargetError(f"not enough memory for a contiguous copy of an argument ({needed})") from None


def to_contiguous(array: np.ndarray, place: Place) -> np.ndarray:
    """Like `to_readable` for an array that the function writes to: it must be writeable, each element at one place."""
    if not array.flags.writeable:
        raise place.refuse(
            "is written by the function, but the array is read-only", describe(array), f"{place.operand}.copy()"
        )
    if _overlaps_itself(array):
        raise place.refuse(
            "is written by the function, but several elements of the array share one place in memory",
            describe(array),
            f"{place.operand}.copy()",
        )
    return to_readable(array)


def _overlaps_itself(array: np.ndarray) -> bool:
    axes = sorted((abs(s), d) for s, d in zip(array.strides, array.shape, strict=True) if d > 1)
    reach = array.itemsize
    for stride, extent in axes:
        if stride < reach:
            return True
        reach += stride * (extent - 1)
    return False


# ----------------------------------------------------------------------------------------------------------- scalars


def to_scalar(value: Any, place: Place) -> int | float | bool:
    """`value` as a Python number that the parameter's type represents (floats are rounded to the nearest)."""
    dtype = place.param.dtype
    if dtype.kind is Kind.BOOL:
        if isinstance(value, (bool, np.bool_)):
            return bool(value)
        raise place.refuse("needs a bool", describe(value), _scalar_hint(value, place, "bool"))
    if dtype.is_integer:
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            low, high = dtype.range
            if low <= value <= high:
                return int(value)
            raise place.refuse(f"is {value}, outside the range of {dtype}: {low} to {high}", describe(value), None)
        raise place.refuse("needs an integer", describe(value), _scalar_hint(value, place, "int"))
    return _to_float(value, place, dtype)


def scalar_distance(value: Any, dtype: DType) -> int:
    """0 if a number that `to_scalar` takes has just this type, 1 if one of its kind (a Python number is an s32 or an
    f64), 2 for an integer as a float."""
    if isinstance(value, (bool, np.bool_)):
        return 0
    whole = isinstance(value, (int, np.integer))
    if isinstance(value, np.generic):
        return 0 if value.dtype == numpy_dtype(dtype) else 1 if whole == dtype.is_integer else 2
    if whole != dtype.is_integer:
        return 2
    return 0 if dtype.name in ("s32", "f64") else 1


def _to_float(value: Any, place: Place, dtype: DType) -> float:
    # The scalars of ml_dtypes are np.generic but not np.floating.
    small = isinstance(value, np.generic) and type(value).__module__.startswith("ml_dtypes")
    floating = isinstance(value, (float, np.floating)) or small
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not floating and not whole:
        raise place.refuse("needs a number", describe(value), _scalar_hint(value, place, "float"))
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    lowest = 0.0 if dtype.name.startswith("f8_u") else -dtype.largest
    with np.errstate(over="ignore", invalid="ignore"):
        # Half a step beyond the largest number rounds to it, which only types that NumPy knows can tell.
        rounded = float(numpy_dtype(dtype).type(number)) if dtype.bits >= 16 else number
    if not lowest <= rounded <= dtype.largest and (math.isfinite(number) or whole):
        raise place.refuse(f"is {value}, outside the range of {dtype}", describe(value), None)
    if whole and not (dtype.holds(number) and number == value):
        raise place.refuse(
            f"is {value}, which {dtype} cannot hold exactly", describe(value), f"float({place.expression})"
        )
    return number


def _scalar_hint(value: Any, place: Place, kind: str) -> str | None:
    if hasattr(value, "shape") and hasattr(value, "item"):
        return (
            f"{place.operand}.item()"
            if math.prod(value.shape) == 1 and not isinstance(value, np.generic)
            else (f"{kind}({place.expression})" if isinstance(value, np.generic) else None)
        )
    if isinstance(value, (bool, int, float, str)):
        return f"{kind}({place.expression})"
    return None


def to_stream(value: Any, place: Place) -> int:
    """A queue handle as an integer: 0 for the target's own queue. CuPy streams and integers are accepted."""
    if value is None:
        return 0
    handle = getattr(value, "ptr", value)
    if isinstance(handle, int) and not isinstance(handle, bool):
        return handle
    raise place.refuse("needs a stream", describe(value), None)
