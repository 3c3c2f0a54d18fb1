"""The peers written with numba: the same tiles and the same loops, blocks in parallel."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(parallel=True)
def dma_matmul(lhs, rhs, out):
    """Blocks of 16 x 16 with tile copies; the sum of one element in a scalar while it stays in one step of K."""
    rows, columns, depth = lhs.shape[0] // 16, rhs.shape[1] // 16, lhs.shape[1] // 16
    for block in numba.prange(rows * columns):
        px, py = block // columns, block % columns
        a = np.empty((16, 16), lhs.dtype)
        b = np.empty((16, 16), rhs.dtype)
        out[px * 16 : px * 16 + 16, py * 16 : py * 16 + 16] = 0
        for tile_k in range(depth):
            for i in range(16):
                for k in range(16):
                    a[i, k] = lhs[px * 16 + i, tile_k * 16 + k]
            for k in range(16):
                for j in range(16):
                    b[k, j] = rhs[tile_k * 16 + k, py * 16 + j]
            for i in range(16):
                for j in range(16):
                    total = out[px * 16 + i, py * 16 + j]
                    for k in range(16):
                        total += a[i, k] * b[k, j]
                    out[px * 16 + i, py * 16 + j] = total


@numba.njit(parallel=True)
def scalar_matmul(lhs, rhs, out):
    """A 16 x 64 grid of blocks, each (M / 16) x (N / 64) elements, the loops in the order of the program."""
    rows, columns, depth = lhs.shape[0] // 16, rhs.shape[1] // 64, lhs.shape[1]
    for block in numba.prange(16 * 64):
        p, q = block // 64, block % 64
        for m in range(rows):
            for n in range(columns):
                total = out.dtype.type(0)
                for k in range(depth):
                    total += lhs[p * rows + m, k] * rhs[k, q * columns + n]
                out[p * rows + m, q * columns + n] = total


@numba.njit(parallel=True)
def add(a, b, c):
    for i in numba.prange(a.size):
        c[i] = a[i] + b[i]


@numba.njit
def ele_add(lhs, rhs, out):
    for p in range(6):
        for x in range(17):
            for y in range(128):
                out[p, x, y] = lhs[p, x, y] + rhs[p, x, y]


@numba.njit
def nothing(a, b, c):
    c[0] = a[0] + b[0]
