"""Tile IR of well-known programs, built by hand: for tests of whatever works on the IR, without a front end.

Every function returns an `ir.Function` as it is after `map-levels`. Sizes are parameters, so that tests can vary them.
"""

from __future__ import annotations

from collections.abc import Sequence

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.types import F32, S32, DType

Extent = int | ir.Expr
BLOCK, THREAD = ir.Level.BLOCK, ir.Level.THREAD


def const(value: Extent) -> ir.Expr:
    """An integer constant; expressions stay what they are."""
    return integers.constant(value) if isinstance(value, int) else value


def dim(name: str) -> ir.Var:
    """A symbolic dimension: at least 1."""
    return ir.Var(name, S32, ir.Role.DIM, integers.ONE, None)


def index(name: str, extent: Extent, role: ir.Role = ir.Role.LOOP) -> ir.Var:
    """An index variable of a loop or region with values in [0, extent)."""
    return ir.Var(name, S32, role, integers.ZERO, const(extent))


def compose(p: ir.Expr, q: ir.Expr, extent: Extent) -> ir.Expr:
    """`p#q`, where `extent` is `#q`."""
    return integers.add(integers.mul(p, const(extent)), q)


def buffer(
    name: str,
    shape: Sequence[Extent],
    dtype: DType = S32,
    storage: ir.Storage = ir.Storage.GLOBAL,
    zeroed: bool = False,
) -> ir.Buffer:
    return ir.Buffer(name, dtype, storage, tuple(map(const, shape)), zeroed=zeroed)


def param(name: str, shape: Sequence[Extent], dtype: DType = S32, written: bool = False) -> ir.Param:
    b = buffer(name, shape, dtype)
    return ir.Param(name, "span", dtype, buffer=b, extents=b.shape, in_out=written, written=written)


def chunk(b: ir.Buffer, origin: Sequence[ir.Expr], extents: Sequence[Extent]) -> ir.View:
    """The window of a buffer that begins at `origin`."""
    return views.window(views.whole(b), tuple(origin), tuple(map(const, extents)))


def at(b: ir.Buffer, *position: ir.Expr) -> ir.Load:
    return ir.Load(views.whole(b), position)


def store(b: ir.Buffer, position: Sequence[ir.Expr], value: ir.Expr, op: str = "") -> ir.Store:
    return ir.Store(views.whole(b), tuple(position), value, op)


def copy(src: ir.Buffer | ir.View, dst: ir.Buffer | ir.View) -> ir.Copy:
    """A transfer; a buffer stands for all of it."""
    return ir.Copy(*(views.whole(x) if isinstance(x, ir.Buffer) else x for x in (src, dst)))


def times(a: ir.Expr, b: ir.Expr) -> ir.Binary:
    return ir.Binary("*", a, b, a.dtype)


def plus(a: ir.Expr, b: ir.Expr) -> ir.Binary:
    return ir.Binary("+", a, b, a.dtype)


def region(level: ir.Level, indices: dict[str, Extent], body: Sequence[ir.Stmt], implied: bool = False) -> ir.Region:
    """A region; the variables in `body` must be made by `index(name, extent, ir.Role.REGION)`."""
    variables = tuple(index(name, extent, ir.Role.REGION) for name, extent in indices.items())
    return ir.Region(level, variables, tuple(map(const, indices.values())), tuple(body), implied=implied)


def loop(name: str, stop: Extent, body: Sequence[ir.Stmt], start: Extent = 0, step: int = 1) -> ir.For:
    return ir.For(index(name, stop), const(start), const(stop), step, tuple(body))


def launch(name: str, body: ir.Region) -> ir.Launch:
    return ir.Launch(ir.Kernel(f"{name}_0", body))


def returning(
    name: str, params: Sequence[ir.Param], out: ir.Buffer, body: Sequence[ir.Stmt], dims: Sequence[ir.Var] = ()
) -> ir.Function:
    """A function that declares `out`, runs `body` and returns `out`."""
    return ir.Function(
        name,
        tuple(params),
        ir.Result(out.dtype, out.shape),
        (ir.Declare(out), *body, ir.Return(views.whole(out))),
        tuple(dims),
    )


def matmul_dma(
    m: Extent = 128, k: Extent = 256, n: Extent = 256, tile: tuple[int, int, int] = (16, 16, 16), dtype: DType = S32
) -> ir.Function:
    """The matrix product with tiles in shared memory: blocks `px, py`, threads `qx, qy`, K in steps `tile_k`.

    `tile` counts rows, columns and K. Extents must be multiples of it; they may be symbolic.
    """
    rows, columns, depth = tile
    lhs, rhs = param("lhs", (m, k), dtype), param("rhs", (k, n), dtype)
    out = buffer("output", (m, n), dtype, zeroed=True)
    grid = {"px": integers.floordiv(const(m), const(rows)), "py": integers.floordiv(const(n), const(columns))}
    steps = integers.floordiv(const(k), const(depth))
    px, py = (index(name, extent, ir.Role.REGION) for name, extent in grid.items())
    qx, qy = index("qx", rows, ir.Role.REGION), index("qy", columns, ir.Role.REGION)
    tile_k, inner = index("tile_k", steps), index("k", depth)
    lhs_load = buffer("lhs_load", (rows, depth), dtype, ir.Storage.SHARED)
    rhs_load = buffer("rhs_load", (depth, columns), dtype, ir.Storage.SHARED)
    assert lhs.buffer is not None and rhs.buffer is not None
    origin = [integers.mul(v, const(t)) for v, t in ((px, rows), (py, columns), (tile_k, depth))]
    threads = region(
        THREAD,
        {"qx": rows, "qy": columns},
        [
            loop(
                "k",
                depth,
                [
                    store(
                        out,
                        (compose(px, qx, rows), compose(py, qy, columns)),
                        times(at(lhs_load, qx, inner), at(rhs_load, inner, qy)),
                        "+",
                    )
                ],
            )
        ],
    )
    body = [
        ir.Declare(lhs_load),
        copy(chunk(lhs.buffer, (origin[0], origin[2]), (rows, depth)), lhs_load),
        ir.Declare(rhs_load),
        copy(chunk(rhs.buffer, (origin[2], origin[1]), (depth, columns)), rhs_load),
        threads,
    ]
    kernel = region(BLOCK, grid, [loop("tile_k", steps, body)])
    dims = [e for e in (m, k, n) if isinstance(e, ir.Var)]
    return returning("matmul", (lhs, rhs), out, [launch("matmul", kernel)], list(dict.fromkeys(dims)))


def matmul_scalar(
    m: int = 128, k: int = 256, n: int = 256, blocks: int = 16, threads: int = 64, dtype: DType = S32
) -> ir.Function:
    """The matrix product without copies: `parallel p by 16, q by 64`, every thread a tile of m/16 by n/64."""
    lhs, rhs = param("lhs", (m, k), dtype), param("rhs", (k, n), dtype)
    out = buffer("output", (m, n), dtype, zeroed=True)
    p, q = index("p", blocks, ir.Role.REGION), index("q", threads, ir.Role.REGION)
    rows, columns = m // blocks, n // threads
    i, j, inner = index("m", rows), index("n", columns), index("k", k)
    assert lhs.buffer is not None and rhs.buffer is not None
    row, column = compose(p, i, rows), compose(q, j, columns)
    update = store(out, (row, column), times(at(lhs.buffer, row, inner), at(rhs.buffer, inner, column)), "+")
    body = loop("m", rows, [loop("n", columns, [loop("k", k, [update])])])
    kernel = region(BLOCK, {"p": blocks}, [region(THREAD, {"q": threads}, [body])])
    return returning("matmul", (lhs, rhs), out, [launch("matmul", kernel)])


def ele_add(
    shape: tuple[int, int, int] = (6, 17, 128), factors: tuple[int, int] = (17, 4), dtype: DType = S32
) -> ir.Function:
    """Element-wise addition by a device function: blocks `p`, a local chunk of each input an iteration."""
    lhs, rhs = param("lhs", shape, dtype), param("rhs", shape, dtype)
    out = buffer("output", shape, dtype, zeroed=True)
    p = index("p", shape[0], ir.Role.REGION)
    x, y = index("index_0", factors[0]), index("index_1", factors[1])
    part = (1, shape[1] // factors[0], shape[2] // factors[1])
    origin = (p, integers.mul(x, const(part[1])), integers.mul(y, const(part[2])))
    lhs_load, rhs_load, l1_out = (
        buffer(name, part, dtype, ir.Storage.LOCAL) for name in ("lhs_load", "rhs_load", "l1_out")
    )
    assert lhs.buffer is not None and rhs.buffer is not None
    whole = tuple(views.whole(b) for b in (lhs_load, rhs_load, l1_out))
    body = [
        ir.Declare(lhs_load),
        copy(chunk(lhs.buffer, origin, part), lhs_load),
        ir.Declare(rhs_load),
        copy(chunk(rhs.buffer, origin, part), rhs_load),
        ir.Declare(l1_out),
        ir.Call("kernel", (*whole, const(part[1] * part[2]))),
        copy(l1_out, chunk(out, origin, part)),
    ]
    kernel = region(BLOCK, {"p": shape[0]}, [loop("index_0", factors[0], [loop("index_1", factors[1], body)])])
    return returning("ele_add", (lhs, rhs), out, [launch("ele_add", kernel)])


def saxpy(n: Extent = 1000, threads: int = 256) -> ir.Function:
    """`y = a*x + y` in place, one element a thread, with a guard for the ragged end."""
    x, y = param("x", (n,), F32), param("y", (n,), F32, written=True)
    a = ir.Var("a", F32, ir.Role.PARAM)
    blocks = integers.ceildiv(const(n), const(threads))
    p, q = index("p", blocks, ir.Role.REGION), index("q", threads, ir.Role.REGION)
    i = compose(p, q, threads)
    assert x.buffer is not None and y.buffer is not None
    body = store(y.buffer, (i,), plus(times(a, at(x.buffer, i)), at(y.buffer, i)))
    guarded = ir.If(ir.Binary("<", i, const(n), ir.BOOL), (body,))
    kernel = region(BLOCK, {"p": blocks}, [region(THREAD, {"q": threads}, [guarded])])
    params = (ir.Param("a", "scalar", F32, var=a), x, y)
    dims = (n,) if isinstance(n, ir.Var) else ()
    return ir.Function("saxpy", params, None, (launch("saxpy", kernel),), dims)


def row_sum(rows: int = 8, columns: int = 64, threads: int = 16) -> ir.Function:
    """Sum of each row: threads add up strided parts in a shared buffer, the block adds the parts."""
    x = param("x", (rows, columns))
    out = buffer("output", (rows,), zeroed=True)
    part = buffer("part", (threads,), storage=ir.Storage.SHARED)
    p, t = index("p", rows, ir.Role.REGION), index("t", threads, ir.Role.REGION)
    i, j = index("i", columns // threads), index("j", threads)
    acc = ir.Var("acc", S32, ir.Role.MUTABLE)
    assert x.buffer is not None
    column = plus(times(i, const(threads)), t)
    add = ir.Assign(acc, plus(acc, at(x.buffer, p, column)))
    partial = [ir.Let(acc, const(0)), loop("i", columns // threads, [add]), store(part, (t,), acc)]
    total = loop("j", threads, [store(out, (p,), at(part, j), "+")])
    kernel = region(BLOCK, {"p": rows}, [ir.Declare(part), region(THREAD, {"t": threads}, partial), total])
    return returning("row_sum", (x,), out, [launch("row_sum", kernel)])
