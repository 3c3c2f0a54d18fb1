"""The short way into a function: arguments that need no treatment go straight to the launch.

A call with contiguous arrays of the right type and of extents seen before must cost a microsecond or two, all checks
included. So the checks of one function are written out as Python source once, as `dataclasses` and `namedtuple` do;
whatever they do not recognise goes the long way through `Binder.bind`, which explains what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from croq_magic.arguments import numpy_dtype
from croq_magic.binding import Binder
from croq_magic.compiler.signature import Parameter
from croq_magic.compiler.types import Kind

# Bits of `ndarray.flags.num`: NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_ALIGNED, NPY_ARRAY_WRITEABLE of NumPy's C interface.
CONTIGUOUS, ALIGNED, WRITEABLE = 0x0001, 0x0100, 0x0400

# NumPy's own test whether two arrays overlap, without the dispatch for other array types around it: half the time.
_SHARE = getattr(np.may_share_memory, "_implementation", np.may_share_memory)

Slow = Callable[..., Any]
Explain = Callable[[BaseException, list[str]], BaseException]


class Rules:
    """What the short way asks of arrays, as Python text: here of those of the host. A target with memory of its own
    has a subclass, as the `rules` of its `binding.Arrays`; `prefix` is what its plans' keys begin with."""

    prefix = ""

    def environment(self) -> dict[str, Any]:
        """Names that the texts use."""
        return {"ndarray": np.ndarray, "share": _SHARE}

    def array(self, name: str, dtype: str, written: bool) -> str:
        """The condition under which an array can be launched with as it is; `dtype` names its type."""
        flags = CONTIGUOUS | ALIGNED | (WRITEABLE if written else 0)
        return f"type({name}) is ndarray and {name}.dtype is {dtype} and {name}.flags.num & {flags} == {flags}"

    def disjoint(self, a: str, b: str) -> str:
        """The condition that two arrays have no memory in common; it may fail although they have none."""
        return f"not share({a}, {b})"


HOST = Rules()


def specialise(binder: Binder, slow: Slow, explain: Explain) -> Slow:
    """A function of the positional arguments that launches at once what it can, and calls `slow` for the rest.

    A plan is taken at once when its `ready` holds the built function. `explain` turns an error of a launch into the one
    to raise, given the names of the arrays that are written in place.
    """
    rules = getattr(binder.arrays, "rules", HOST)
    if rules is None:
        return slow
    environment: dict[str, Any] = {
        **rules.environment(),
        "plans": binder.plans,
        "slow": slow,
        "explain": explain,
        "written": [name for name, p in zip(binder.names, binder.params, strict=True) if p.written],
    }
    names = [f"a{index}" for index in range(len(binder.params))]
    tests = []
    for index, (name, param) in enumerate(zip(names, binder.params, strict=True)):
        tests.append(_test(index, name, param, environment, rules))
    spans = [name for name, p in zip(names, binder.params, strict=True) if p.kind == "span"]
    writes = [name for name, p in zip(names, binder.params, strict=True) if p.written]
    pairs = {frozenset((w, s)) for w in writes for s in spans if w != s}
    tests += [rules.disjoint(*sorted(pair)) for pair in sorted(pairs, key=sorted)]
    places = [name for name, p in zip(names, binder.params, strict=True) if p.kind == "scalar"]
    scalars = dict(zip(binder.signature.scalars, places, strict=True))
    key = [f"{name}.shape" for name in spans] + [scalars[name] for name in binder.signature.key]
    if rules.prefix:
        if not spans:
            return slow
        key.insert(0, rules.prefix)
    has_array = binder.signature.extents is not None
    out = "plan.allocate(plan.result_shape, plan.result_dtype)" if has_array else "None"
    source = f"""
def call({", ".join(names)}):
    if {" and ".join(tests) or "True"}:
        plan = plans.get(({"".join(f"{part}, " for part in key)}))
        if plan is not None and plan.ready is not None:
            try:
                out = {out}
                value = plan.ready(({"".join(f"{name}, " for name in names)}), plan.dims, out)
            except BaseException as error:
                raise explain(error, written) from None
            return {"out" if has_array else "value"}
    return slow({", ".join(names)})
"""
    exec(compile(source, f"<tileflow {binder.function}>", "exec"), environment)
    return environment["call"]


def _test(index: int, name: str, param: Parameter, environment: dict[str, Any], rules: Rules) -> str:
    """The condition under which a value can be launched as it is."""
    if param.kind == "stream":
        return f"type({name}) is int"
    if param.kind == "span":
        environment[f"dtype{index}"] = numpy_dtype(param.dtype)
        return rules.array(name, f"dtype{index}", param.written)
    if param.dtype.kind is Kind.BOOL:
        return f"type({name}) is bool"
    if param.dtype.is_integer:
        low, high = param.dtype.range
        return f"type({name}) is int and {low} <= {name} <= {high}"
    largest = (
        1.0 if param.dtype.bits < 16 else float(np.finfo(np.float32 if param.dtype.bits == 32 else np.float64).max)
    )
    if param.dtype.bits == 16:
        largest = 65504.0  # of f16; a larger bf16 takes the long way
    return f"type({name}) is float and {-largest} <= {name} <= {largest}"
