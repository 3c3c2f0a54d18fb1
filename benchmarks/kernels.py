"""Kernel speed: the programs of the tutorials against C++ by hand, numba and NumPy."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

os.environ.pop("OPENBLAS_CORETYPE", None)  # NumPy's own choice of kernels is the peer, not a forced one
THREADS = 2
os.environ.setdefault("NUMBA_NUM_THREADS", str(THREADS))
os.environ.setdefault("OPENBLAS_NUM_THREADS", str(THREADS))
# Waiting threads of OpenBLAS and OpenMP go to sleep after some ten microseconds: spinning on, as they do by default,
# they would take a core from whatever is measured next.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "16")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import compiled_python  # noqa: E402
import harness  # noqa: E402
import numpy as np  # noqa: E402
import programs  # noqa: E402
from native import bound  # noqa: E402

TYPES = {"s32": np.int32, "f32": np.float32}
SIZES = [(128, 256, 256), (1024, 1024, 1024)]


def operands(dtype: type, m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Small integers, so that sums are exact and every order of addition gives the same f32."""
    rng = np.random.default_rng(0)
    return rng.integers(-8, 8, (m, k)).astype(dtype), rng.integers(-8, 8, (k, n)).astype(dtype)


def agree(comparison: harness.Comparison, outs: dict[str, np.ndarray], expected: np.ndarray) -> None:
    """Runs every entry once and stops when one gives another result."""
    for name, call in comparison.entries.items():
        result = call()
        got = outs.get(name, result)
        if not np.array_equal(got, expected):
            raise SystemExit(f"{comparison.title}: {name} computes something else")


def matmul(
    kind: str, program: str, peers: dict[str, str], numba_peer: str, type_name: str, size: tuple[int, int, int]
) -> harness.Comparison:
    m, n, k = size
    lhs, rhs = operands(TYPES[type_name], m, n, k)
    first = next(iter(peers))
    comparison = harness.Comparison(f"{kind} matrix product {type_name} {m}x{n}x{k}", first, 2.0 * m * n * k, "Gop/s")
    outs: dict[str, np.ndarray] = {}
    file = f"matmul_{kind}"
    for name, version in peers.items():
        outs[name] = np.zeros((m, n), lhs.dtype)
        function = f"{kind}_{version}_{type_name}_{m}x{n}x{k}"
        comparison.add(name, bound(file, function, lhs, rhs, outs[name], THREADS))
    ours = programs.function(program, "matmul", t=type_name, m=m, n=n, k=k)
    comparison.add("croq_magic", lambda: ours(lhs, rhs))
    outs["numba"] = np.zeros((m, n), lhs.dtype)
    jitted = getattr(compiled_python, numba_peer)
    comparison.add("numba", lambda out=outs["numba"]: jitted(lhs, rhs, out))
    if type_name == "f32" or m * n * k <= 1 << 24:  # NumPy's integer product takes a second at the large size
        outs["NumPy @"] = np.zeros((m, n), lhs.dtype)
        comparison.add("NumPy @", lambda out=outs["NumPy @"]: np.matmul(lhs, rhs, out=out))
    # The float product of small integers is exact, and far faster than NumPy's integer product.
    agree(comparison, outs, (lhs.astype(np.float64) @ rhs.astype(np.float64)).astype(lhs.dtype))
    return comparison


def large_add(type_name: str) -> harness.Comparison:
    count = (64 << 20) // 4
    a, b = np.arange(count).astype(TYPES[type_name]), np.ones(count, TYPES[type_name])
    comparison = harness.Comparison(f"element-wise add {type_name} 3 x 64 MiB", "NumPy +", 3.0 * 4 * count, "GB/s")
    outs: dict[str, np.ndarray] = {}

    def target(name: str) -> np.ndarray:
        space = np.zeros(count + 16, a.dtype)
        offset = -space.ctypes.data % 64 // 4
        outs[name] = space[offset : offset + count]
        return outs[name]

    ours = programs.function(programs.ADD, "add", t=type_name, rows=4096, columns=count // 4096)
    square = [x.reshape(4096, -1) for x in (a, b, target("croq_magic"))]
    plain, streamed, jitted, own = target("C++ plain"), target("C++ streamed"), target("numba"), target("NumPy +")
    comparison.add("C++ plain", bound("elementwise", f"add_plain_{type_name}", a, b, plain, count, THREADS))
    comparison.add("C++ streamed", bound("elementwise", f"add_streamed_{type_name}", a, b, streamed, count, THREADS))
    comparison.add("croq_magic", lambda: ours(*square))
    comparison.add("numba", lambda: compiled_python.add(a, b, jitted))
    comparison.add("NumPy +", lambda: np.add(a, b, out=own))
    agree(comparison, outs, a + b)
    return comparison


def small_add() -> harness.Comparison:
    a = np.arange(6 * 17 * 128, dtype=np.int32).reshape(6, 17, 128)
    b = np.full_like(a, 2)
    comparison = harness.Comparison("6x17x128 with a device function", "C++ by hand", 3.0 * a.nbytes, "GB/s")
    outs = {name: np.zeros_like(a) for name in ("C++ by hand", "numba", "NumPy +")}
    comparison.add("C++ by hand", bound("elementwise", "ele_add", a, b, outs["C++ by hand"]))
    ours = programs.function(programs.ELE_ADD, "ele_add")
    comparison.add("croq_magic", lambda: ours(a, b))
    comparison.add("numba", lambda: compiled_python.ele_add(a, b, outs["numba"]))
    comparison.add("NumPy +", lambda: np.add(a, b, out=outs["NumPy +"]))
    agree(comparison, outs, a + b)
    # The call itself, to be taken off: the program is shorter than some calls.
    comparison.add("an empty call", bound("elementwise", "nothing", a, b, outs["C++ by hand"]))
    return comparison


MATMUL = {
    "dma": (
        programs.DMA,
        {"C++ registers": "registers", "C++ direct": "direct", "C++ i-j-k": "ijk", "C++ i-k-j": "ikj"},
    ),
    "scalar": (programs.SCALAR, {"C++ as written": "written", "C++ tiled": "tiled"}),
}


def main() -> None:
    options = harness.arguments(__doc__).parse_args()
    cases: list[tuple[str, Callable[[], harness.Comparison]]] = []
    for size in SIZES:
        label = "x".join(map(str, size))
        for name in TYPES:
            for kind, (program, peers) in MATMUL.items():
                make = partial(matmul, kind, program, peers, f"{kind}_matmul", name, size)
                cases.append((f"{kind} {name} {label}", make))
    for name in TYPES:
        cases.append((f"add {name}", partial(large_add, name)))
    cases.append(("ele_add", small_add))
    done = [make().run(options.budget) for title, make in cases if options.only in title]
    harness.report(done, options.json)


if __name__ == "__main__":
    main()
