"""Arrays of the CUDA target: those of CuPy, and whatever else says that it is on a device, are used where they are.

An object is on a device when it has `__cuda_array_interface__`, or says so through DLPack. NumPy arrays are accepted
too and copied in and out. Results live where the first array parameter does.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from croq_magic import arguments, binding, fastcall
from croq_magic.arguments import Place, describe
from croq_magic.binding import Spans
from croq_magic.errors import BindError, TargetError

ALIGNMENT = 16  # bytes: kernels load as much at once
_CUDA, _MANAGED = 2, 13  # kDLCUDA and kDLCUDAManaged of the DLPack specification


def on_device(value: Any) -> bool:
    """Whether a value is an array in the memory of a CUDA device."""
    if isinstance(value, (np.ndarray, np.generic)):
        return False
    try:
        if getattr(value, "__cuda_array_interface__", None) is not None:
            return True
    except Exception:  # torch refuses it to tensors that need a gradient, with an error of its own
        return True
    device = getattr(value, "__dlpack_device__", None)
    return device is not None and int(device()[0]) in (_CUDA, _MANAGED)


def device_id(cupy: Any) -> Callable[[], int]:
    """What gives the number of CuPy's current device."""
    return getattr(cupy.cuda, "get_device_id", None) or (lambda: int(cupy.cuda.Device().id))


class DeviceRules(fastcall.Rules):
    """The short way: arrays of CuPy, whole, aligned, on the current device."""

    prefix = "place_of[device()]"

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy

    def environment(self) -> dict[str, Any]:
        count = self._cupy.cuda.runtime.getDeviceCount()
        names = [f"d{each}" for each in range(count)]
        return {"ndarray": self._cupy.ndarray, "device": device_id(self._cupy), "place_of": names}

    def array(self, name: str, dtype: str, written: bool) -> str:
        memory = f"{name}.data"
        return (
            f"type({name}) is ndarray and {name}.dtype is {dtype} and {name}.flags.c_contiguous "
            f"and not {memory}.ptr & {ALIGNMENT - 1} and {memory}.device_id == device()"
        )

    def disjoint(self, a: str, b: str) -> str:
        before = "{0}.data.ptr + {0}.nbytes <= {1}.data.ptr"
        return f"({before.format(a, b)} or {before.format(b, a)})"


class DeviceArrays(binding.Arrays):
    """What the CUDA target binds. `cupy` is None where there is no device: then only NumPy arrays can be met."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.rules = None if cupy is None else DeviceRules(cupy)

    def _is_ours(self, value: Any) -> bool:
        return self.cupy is not None and isinstance(value, self.cupy.ndarray)

    def of(self, value: Any, place: Place) -> Any:
        array = self._adopted(value, place)
        if array is None:
            return super().of(value, place)
        arguments.require_fit(array, value, place)
        return array

    def require_rank_and_type(self, value: Any, place: Place) -> None:
        arguments.require_rank_and_type(value, place, self._adopted(value, place))

    def _adopted(self, value: Any, place: Place) -> Any:
        """A value on a device as CuPy's array, sharing its memory; None for any other."""
        if self._is_ours(value):
            return value
        if not on_device(value):
            return None
        if self.cupy is None:
            raise place.refuse("is on a device, and there is none that can be used here", describe(value), None)
        if getattr(value, "requires_grad", False):
            raise place.refuse("is part of a gradient computation", describe(value), f"{place.operand}.detach()")
        if str(getattr(value, "dtype", "")) == "torch.bfloat16":
            import ml_dtypes

            torch = sys.modules["torch"]
            return self._shared(value.view(torch.int16), place).view(ml_dtypes.bfloat16)
        return self._shared(value, place)

    def _shared(self, value: Any, place: Place) -> Any:
        try:
            interface = getattr(value, "__cuda_array_interface__", None)
            if interface is None:
                return self.cupy.from_dlpack(value)
            if place.param.written and interface["data"][1]:
                raise place.refuse("is written by the function, but the array is read-only", describe(value), None)
            return self.cupy.asarray(value)
        except BindError:
            raise
        except Exception as error:
            raise place.refuse(f"cannot be shared with CuPy: {error}", describe(value), None) from None

    # -------------------------------------------------------------------------------------------------------- layouts

    def readable(self, array: Any, place: Place) -> Any:
        if not self._is_ours(array):
            return super().readable(array, place)
        if array.flags.c_contiguous and array.data.ptr % ALIGNMENT == 0:
            return array
        return self.copied(array)

    def copied(self, array: Any) -> Any:
        if not self._is_ours(array):
            return super().copied(array)
        with self.cupy.cuda.Device(array.data.device_id):
            copied = self._empty(array.shape, array.dtype)
            copied[...] = array
        return copied

    def writable(self, array: Any, place: Place) -> Any:
        if not self._is_ours(array):
            return super().writable(array, place)
        if _overlaps_itself(array):
            text = "is written by the function, but several elements of the array share one place in memory"
            raise place.refuse(text, describe(array), f"{place.operand}.copy()")
        return self.readable(array, place)

    def share(self, a: Any, b: Any) -> bool:
        ours = self._is_ours(a), self._is_ours(b)
        if not any(ours):
            return super().share(a, b)
        if not all(ours) or a.data.device_id != b.data.device_id:
            return False
        return np.shares_memory(_mirror(a), _mirror(b))

    # --------------------------------------------------------------------------------------------------------- places

    def places(self, arrays: Sequence[Spans], function: str) -> str:
        """ "" where all arrays are of the host; else "d" or "h" for where the first one is, the number of the device,
        and "+" when both kinds are there."""
        devices: dict[int, str] = {}
        for _, name, given, _ in arrays:
            if self._is_ours(given):
                devices.setdefault(int(given.data.device_id), name)
        if not devices:
            return ""
        if len(devices) > 1:
            (one, first), (two, second), *_ = devices.items()
            raise BindError(
                f"{function}: `{first}` is on device {one} and `{second}` on device {two}; a function runs on one\n"
                f"    hint:     with cupy.cuda.Device({one}): {second} = cupy.array({second})"
            )
        here = [self._is_ours(given) for _, _, given, _ in arrays]
        return f"{'d' if here[0] else 'h'}{next(iter(devices))}{'' if all(here) else '+'}"

    def notes(self, places: str, arrays: Sequence[Spans], function: str) -> list[str]:
        if not places.endswith("+"):
            return []
        kinds: dict[bool, list[str]] = {True: [], False: []}
        for _, name, given, _ in arrays:
            kinds[self._is_ours(given)].append(name)
        first = arrays[0][1]
        return [
            f"{function}: {arguments.listing(kinds[True])} on the device, {arguments.listing(kinds[False])} in NumPy "
            f"arrays, which are copied at every call; a result follows `{first}`"
        ]

    def allocator(self, places: str, filled: bool) -> Callable[..., Any]:
        if not places.startswith("d"):
            return super().allocator(places, filled)
        number = int(places.rstrip("+")[1:])
        current = device_id(self.cupy)

        def allocate(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
            """What has to be zero is zeroed by the launch."""
            if current() == number:
                return self._empty(shape, dtype)
            with self.cupy.cuda.Device(number):
                return self._empty(shape, dtype)

        return allocate

    def _empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        try:
            return self.cupy.empty(shape, dtype)
        except (TypeError, ValueError):
            raise TargetError(
                f"CuPy {self.cupy.__version__} has no arrays of {dtype.name}; pass NumPy arrays, which are copied"
            ) from None


def _overlaps_itself(array: Any) -> bool:
    reach = array.itemsize
    axes = sorted((abs(s), d) for s, d in zip(array.strides, array.shape, strict=True) if d > 1)
    for stride, extent in axes:
        if stride < reach:
            return True
        reach += stride * (extent - 1)
    return False


class _Addresses:
    """Where the elements of an array are, for NumPy, which reads none of them."""

    def __init__(self, array: Any) -> None:
        self.__array_interface__ = {
            "version": 3,
            "shape": array.shape,
            "strides": array.strides,
            "typestr": f"|V{array.itemsize}",
            "data": (array.data.ptr, True),
        }


def _mirror(array: Any) -> np.ndarray:
    if not math.prod(array.shape):
        return np.empty(0, np.uint8)
    return np.asarray(_Addresses(array))
