"""The host body of a function whose arguments all are on the device, without anything between call and launch.

Most host bodies only launch kernels. With every array in place there is nothing to copy, to wait for or to give back:
of the text that `simt/host_emit.py` writes the launches remain, with CuPy's arrays as their arguments. A body that does
more keeps the long way.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from croq_magic.compiler.targets.cuda.device import plain
from croq_magic.compiler.targets.simt import elements
from croq_magic.compiler.targets.simt.host_calls import environment
from croq_magic.compiler.types import BY_NAME, DType

if TYPE_CHECKING:
    from croq_magic.compiler.targets.simt.host_text import HostText

_PREFIX = "launch_"
_OF_SPANS = ("copy", "Strided", "Listed")  # what takes spans, where here are arrays


class _NotDirect(Exception):
    """The body does more than launching."""


class _Rewriter(ast.NodeTransformer):
    def __init__(self, cooperative: frozenset[str]) -> None:
        self.cooperative = cooperative
        self.shared: dict[str, int] = {}

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = node.func
        if isinstance(function, ast.Attribute):
            if isinstance(function.value, ast.Name) and function.value.id == "call":
                return self._ours(function.attr, node)
            if function.attr == "device":
                return function.value  # a name
            if isinstance(function.value, ast.Name) and function.value.id == "numpy":
                return self.generic_visit(node)
            raise _NotDirect
        if isinstance(function, ast.Name) and function.id in _OF_SPANS:
            raise _NotDirect
        return self.generic_visit(node)

    def _ours(self, name: str, node: ast.Call) -> ast.AST:
        if name == "argument":
            return node.args[0]
        if name == "result":
            zeroed = node.args[2]
            if not isinstance(zeroed, ast.Constant):
                raise _NotDirect
            if not zeroed.value:
                return node.args[0]
            return ast.Call(ast.Name("zeroed", ast.Load()), [node.args[0]], [])
        if name == "declare":
            return ast.Call(ast.Name("temporary", ast.Load()), [self.visit(arg) for arg in node.args], [])
        if name == "launch":
            symbol, grid, block, shared, args = node.args
            assert isinstance(symbol, ast.Constant)
            name = str(symbol.value)
            if name in self.cooperative or not _constant_extents(grid) or not isinstance(shared, ast.Constant):
                raise _NotDirect
            self.shared[name] = int(shared.value)  # type: ignore[arg-type]
            given = [grid, block, self.visit(args), shared]
            return ast.Call(ast.Name(_PREFIX + name, ast.Load()), given, [])
        raise _NotDirect


def _constant_extents(grid: ast.expr) -> bool:
    """Whether a grid certainly has blocks."""
    return isinstance(grid, ast.Tuple) and all(
        isinstance(each, ast.Constant) and isinstance(each.value, int) and each.value > 0 for each in grid.elts
    )


class Direct:
    """The rewritten body: `make` gives the function `(values, dims, result)` for the kernels of one device. `shared`
    has the dynamic shared memory of each kernel in bytes."""

    def __init__(self, code: Any, shared: Mapping[str, int], types: tuple[str, ...]) -> None:
        self._code = code
        self.shared = shared
        self._types = types

    def make(self, kernels: Mapping[str, Callable[..., Any]], allocate: Callable[[int], Any]) -> Callable[..., Any]:
        names = environment(self._types)
        for name in self._types:
            if elements.storage(BY_NAME[name]).type.__module__.startswith("ml_dtypes"):
                names[f"T_{name}_encode"] = _plain_encoder(names[f"T_{name}_encode"])
        names.update((_PREFIX + symbol, kernels[symbol]) for symbol in self.shared)
        names["zeroed"] = _zeroed

        def temporary(count: int, dtype: DType, zeroed: bool) -> Any:
            nbytes = max(1, count * elements.storage(dtype).itemsize)
            memory = allocate(nbytes)
            if zeroed:
                memory.memset_async(0, nbytes)
            return memory

        names["temporary"] = temporary
        exec(self._code, names)
        made: Callable[..., Any] = names["program"]
        return made


def _plain_encoder(encode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: plain(encode(value))


def _zeroed(array: Any) -> Any:
    array.data.memset_async(0, array.nbytes)
    return array


def direct(text: HostText, cooperative: frozenset[str] = frozenset()) -> Direct | None:
    """The direct form of a host body, None if it has none."""
    tree = ast.parse(text.text)
    rewriter = _Rewriter(cooperative)
    try:
        tree = rewriter.visit(tree)
    except _NotDirect:
        return None
    program = tree.body[0]
    assert isinstance(program, ast.FunctionDef)
    program.args.args = [arg for arg in program.args.args if arg.arg != "call"]
    if any(isinstance(node, ast.Name) and node.id == "call" for node in ast.walk(tree)) or not rewriter.shared:
        return None
    ast.fix_missing_locations(tree)
    return Direct(compile(tree, f"<tileflow {text.function}>", "exec"), rewriter.shared, text.types)
