"""Notebook values bound to the parameters of a tileflow function.

Nothing is converted silently: element type, rank and extents must be those of the declaration. What may differ is the
layout in memory: an array that is not C-contiguous and aligned is copied in, and back out if the function writes to it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from croq_magic import arguments, memory
from croq_magic.compiler import arithmetic
from croq_magic.compiler.signature import EntryCheck, Parameter, Signature
from croq_magic.errors import BindError, CheckError, TargetError

Shape = tuple[int, ...]
Spans = tuple[Parameter, str, Any, Any]  # parameter, name, the caller's array, the one to launch with


class Arrays:
    """What arrays a target takes, and where results live: here arrays of the host alone.

    A target whose memory is elsewhere has a subclass. `places` is its own way to say where the arrays of one call are;
    "" is the host.
    """

    def of(self, value: Any, place: arguments.Place) -> Any:
        """The caller's value as an array of the declared type, rank and fixed extents, sharing its memory."""
        return arguments.to_array(value, place)

    def require_rank_and_type(self, value: Any, place: arguments.Place) -> None:
        """Raises `BindError` where rank or element type are not those of the declaration."""
        arguments.require_rank_and_type(value, place)

    def readable(self, array: Any, place: arguments.Place) -> Any:
        """The array itself if it can be launched with, else a copy."""
        return arguments.to_readable(array)

    def writable(self, array: Any, place: arguments.Place) -> Any:
        """Like `readable` for an array that the function writes to."""
        return arguments.to_contiguous(array, place)

    def copied(self, array: Any) -> Any:
        """A copy, where the array is."""
        return array.copy()

    def share(self, a: Any, b: Any) -> bool:
        """Whether two arrays have memory in common."""
        return np.shares_memory(a, b)

    def places(self, arrays: Sequence[Spans], function: str) -> str:
        """Where the arrays of one call are."""
        return ""

    def notes(self, places: str, arrays: Sequence[Spans], function: str) -> list[str]:
        """What the caller should know about that."""
        return []

    def allocator(self, places: str, filled: bool) -> Callable[..., Any]:
        """What makes a result: its array may hold anything when the function fills it."""
        return np.empty if filled else np.zeros


HOST = Arrays()


@dataclasses.dataclass(slots=True)
class Plan:
    """What is known once the extents (and the scalars that extents depend on) are: checked once, then reused.

    `warnings` are the texts of entry checks that only warn. `ready` is what launches the function built for these
    extents, once it is built. `places` is where the arrays of such a call are.
    """

    dims: Mapping[str, int]
    result_shape: Shape | None
    result_dtype: np.dtype[Any] | None
    warnings: list[str] = dataclasses.field(default_factory=list)
    ready: Callable[[Sequence[Any], Mapping[str, int], Any], Any] | None = None
    allocate: Callable[..., Any] = np.zeros
    places: str = ""
    arrays: Arrays = HOST

    def launch_by(self, launch: Callable[[Sequence[Any], Mapping[str, int], Any], Any]) -> None:
        """What the function for these extents is launched by; a launch that fills its result needs no zeros."""
        self.allocate = self.arrays.allocator(self.places, getattr(launch, "fills_result", False))
        prepare = getattr(launch, "prepared", None)
        if prepare is None:
            self.ready = launch
        else:
            self.ready = prepare(self.dims, self.places) if self.places else prepare(self.dims)

    def new_result(self) -> Any:
        """A fresh array for a returned span; None when the function returns a scalar or nothing."""
        if self.result_shape is None:
            return None
        return self.allocate(self.result_shape, self.result_dtype)


@dataclasses.dataclass
class Bound:
    """Arguments ready for a launch.

    `values` has one entry per parameter: a C-contiguous array, a Python number, or a stream handle. `written` names the
    parameters that the function writes to, `in_place` those of them whose arrays it writes directly; `copied_back`
    holds (the caller's array, the contiguous copy that is written in its place).
    """

    values: list[Any]
    plan: Plan
    written: list[str] = dataclasses.field(default_factory=list)
    in_place: list[str] = dataclasses.field(default_factory=list)
    copied_back: list[tuple[Any, Any]] = dataclasses.field(default_factory=list)

    def write_back(self) -> None:
        for target, source in self.copied_back:
            target[...] = source


class Binder:
    """Checks and binds the arguments of one function; `arrays` says which its target takes."""

    def __init__(self, signature: Signature, arrays: Arrays = HOST) -> None:
        self.signature = signature
        self.arrays = arrays
        self.function = signature.name
        self.params = signature.params
        self.names = [param.name for param in signature.params]
        self.required = [param.name for param in signature.params if param.kind != "stream"]
        self.plans: dict[tuple[Any, ...], Plan] = {}
        self._new_shape = arithmetic.function(signature.shape) if signature.shape else None

    # ------------------------------------------------------------------------------------------- names and counts

    def arrange(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """One value per parameter from positional and keyword arguments; streams may be left out."""
        name = self.function
        if len(args) > len(self.params):
            raise BindError(
                f"{name}: takes {arguments.count(len(self.params), 'argument')}, {len(args)} given\n"
                f"    declared: {self.signature.text}"
            )
        values = dict(zip(self.names, args, strict=False))
        for key, value in kwargs.items():
            if key not in self.names:
                near = arguments.nearest(key, self.names)
                raise BindError(
                    f"{name}: has no parameter `{key}`\n    declared: {self.signature.text}"
                    + (f"\n    hint:     did you mean `{near}`?" if near else "")
                )
            if key in values:
                raise BindError(f"{name}: parameter `{key}` is given twice")
            values[key] = value
        missing = [each for each in self.required if each not in values]
        if missing:
            raise BindError(
                f"{name}: {arguments.listing(missing)} {'is' if len(missing) == 1 else 'are'} missing\n"
                f"    declared: {self.signature.text}"
            )
        return [values.get(each) for each in self.names]

    # --------------------------------------------------------------------------------------------------- binding

    def distance(self, values: Sequence[Any]) -> tuple[int, ...]:
        """How far each value's type is from its parameter's, to choose between overloads: 0 is the same type, 1 another
        of its kind, 2 a number of another kind. `BindError` if rank or element type do not fit; extents do not count.
        """
        out = []
        for param, name, value in zip(self.params, self.names, values, strict=True):
            place = arguments.Place(self.function, name, name, param)
            if param.kind == "span":
                self.arrays.require_rank_and_type(value, place)
                out.append(0)
            elif param.kind == "scalar":
                arguments.to_scalar(value, place)
                out.append(arguments.scalar_distance(value, param.dtype))
            else:
                arguments.to_stream(value, place)
                out.append(0)
        return tuple(out)

    def bind(self, values: Sequence[Any], expressions: Mapping[str, str] | None = None) -> Bound:
        """Checks everything that can be checked before the function runs and returns what to launch it with.

        `expressions` gives, per parameter, the Python text that the value came from (its own name by default); error
        messages build their suggestion from it. Raises `BindError`, or `CheckError` for a failed entry check.
        """
        expressions = expressions or {}
        ready: list[Any] = []
        arrays: list[Spans] = []
        for param, name, value in zip(self.params, self.names, values, strict=True):
            place = arguments.Place(self.function, name, expressions.get(name, name), param)
            if param.kind == "span":
                given = self.arrays.of(value, place)
                array = (self.arrays.writable if param.written else self.arrays.readable)(given, place)
                arrays.append((param, name, given, array))
                ready.append(array)
            elif param.kind == "scalar":
                ready.append(arguments.to_scalar(value, place))
            else:
                ready.append(arguments.to_stream(value, place))
        plan = self.plan([array.shape for *_, array in arrays], ready, arrays)
        bound = Bound(ready, plan)
        for param, name, given, array in arrays:
            if param.written:
                bound.written.append(name)
                if array is given:
                    bound.in_place.append(name)
                else:
                    bound.copied_back.append((given, array))
        self._separate(bound, arrays)
        return bound

    def sizes(self, bound: Bound) -> dict[str, Any]:
        """The arrays and scalars by parameter name: what a diagram takes to know all extents."""
        pairs = zip(self.names, self.params, bound.values, strict=True)
        return {name: value for name, param, value in pairs if param.kind != "stream"}

    def _separate(self, bound: Bound, arrays: list[Spans]) -> None:
        """Arrays that a function writes to must share memory with no other argument; inputs that do are copied."""
        positions = [i for i, param in enumerate(self.params) if param.kind == "span"]
        for index, (param, name, given, _) in enumerate(arrays):
            if not param.written:
                continue
            for other_index, (other, other_name, other_given, other_array) in enumerate(arrays):
                if other_index == index or not self.arrays.share(given, other_given):
                    continue
                if other.written:
                    raise BindError(
                        f"{self.function}: `{name}` and `{other_name}` share memory, "
                        f"and the function writes to both\n    hint:     pass {other_name}.copy()"
                    )
                if self.arrays.share(given, other_array):
                    # By its position: one array may be given for several parameters.
                    bound.values[positions[other_index]] = self.arrays.copied(other_array)

    # ---------------------------------------------------------------------------------------------- extents, checks

    def plan(self, shapes: Sequence[Shape], values: Sequence[Any], arrays: Sequence[Spans] = ()) -> Plan:
        """The plan for these extents; the first time, symbolic dimensions and entry checks are verified."""
        places = self.arrays.places(arrays, self.function)
        key = self.key(shapes, values)
        if places:
            key = (places, *key)
        found = self.plans.get(key)
        if found is None:
            found = self.plans[key] = self._new_plan(shapes, values)
            found.places, found.arrays = places, self.arrays
            found.warnings += self.arrays.notes(places, arrays, self.function)
            if len(self.plans) > 256:  # a loop over ever new extents must not grow without bound
                del self.plans[next(iter(self.plans))]
        return found

    def key(self, shapes: Sequence[Shape], values: Sequence[Any]) -> tuple[Any, ...]:
        scalars = self._scalar_values(values)
        return (*shapes, *(scalars[name] for name in self.signature.key))

    def _scalar_values(self, values: Sequence[Any]) -> dict[str, Any]:
        scalars = [value for p, value in zip(self.params, values, strict=True) if p.kind == "scalar"]
        return dict(zip(self.signature.scalars, scalars, strict=True))

    def _new_plan(self, shapes: Sequence[Shape], values: Sequence[Any]) -> Plan:
        dims = self._dims(shapes)
        environment = [*(dims[name] for name in self.signature.dims), *self._scalar_values(values).values()]
        warned: dict[str, str] = {}  # one text a message: a copy in and the copy back leave the same rest
        for check in self.signature.checks:
            text = self._entry_check(check, environment)
            if text is not None:
                warned.setdefault(check.message, text)
        shape = None
        if self._new_shape is not None:
            try:
                shape = tuple(map(int, self._new_shape(*environment)))
            except ZeroDivisionError:
                raise CheckError(f"{self.function}: an extent of the result divides by zero [RTA03]") from None
            for extent, written in zip(shape, self.signature.extents or (), strict=True):
                if extent < 1:
                    raise CheckError(f"{self.function}: extent `{written}` is {extent}; extents are at least 1 [RTA03]")
        dtype = arguments.numpy_dtype(result) if (result := self.signature.result_dtype) else None
        if shape is not None and dtype is not None and (problem := memory.too_large(shape, dtype.itemsize)):
            raise TargetError(f"{self.function}: its result {problem}")
        return Plan(dims, shape, dtype, list(warned.values()))

    def _dims(self, shapes: Sequence[Shape]) -> dict[str, int]:
        """Values of the symbolic dimensions; every occurrence must agree (RTA01)."""
        seen: dict[str, tuple[int, str, int]] = {}
        spans = [(p, n) for p, n in zip(self.params, self.names, strict=True) if p.kind == "span"]
        for (param, name), shape in zip(spans, shapes, strict=True):
            for axis, (extent, actual) in enumerate(zip(param.extents, shape, strict=True)):
                if isinstance(extent, int):
                    continue
                if actual < 1:
                    raise BindError(
                        f"{self.function}: parameter `{name}` dim {axis} is {actual}; extents are at least 1\n"
                        f"    declared: {param.declaration}"
                    )
                first, where, where_axis = seen.setdefault(extent, (actual, name, axis))
                if first != actual:
                    raise BindError(
                        f"{self.function}: dimension {extent} is {first} in `{where}` (dim {where_axis}) "
                        f"but {actual} in `{name}` (dim {axis})\n    declared: {self.signature.text}"
                    )
        return {name: actual for name, (actual, _, _) in seen.items()}

    def _entry_check(self, check: EntryCheck, environment: Sequence[Any]) -> str | None:
        """Raises `CheckError` for a check that fails; one that only warns gives its text."""
        try:
            holds = arithmetic.function(check.condition)(*environment)[0]
        except ZeroDivisionError:
            holds = False
        if holds:
            return None
        shown = [f"{name} = {arithmetic.function(text)(*environment)[0]}" for name, text in check.values]
        facts = f" ({', '.join(shown)})" if shown else ""
        text = f"{self.function}: {check.message}{facts} [{check.code}]"
        if check.place:
            text = "\n".join([f"{check.place}: {'warning: ' if check.warns else ''}{text}", *check.excerpt])
        if check.warns:
            return text
        raise CheckError(text)
