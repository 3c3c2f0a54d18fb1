// The tutorials' programs in OpenCL C as one would write them by hand, with the same tiles. T is the element type, M, N
// and K the extents.

#define TILE 16

// Tiles of both operands in a work-group's memory, one element of the result a work-item.
__kernel __attribute__((reqd_work_group_size(TILE, TILE, 1))) void dma_matmul(__global const T* restrict lhs,
    __global const T* restrict rhs, __global T* restrict output) {
  __local T a[TILE][TILE], b[TILE][TILE];
  const int column = get_local_id(0), row = get_local_id(1);
  const int i = get_group_id(1) * TILE + row, j = get_group_id(0) * TILE + column;
  T sum = 0;
  for (int k = 0; k < K; k += TILE) {
    a[row][column] = lhs[i * K + k + column];
    b[row][column] = rhs[(k + row) * N + j];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int c = 0; c < TILE; ++c) sum += a[row][c] * b[c][column];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  output[i * N + j] = sum;
}

// One element of the result a work-item, operands from global memory.
__kernel void scalar_matmul(__global const T* restrict lhs, __global const T* restrict rhs, __global T* restrict output) {
  const int j = get_global_id(0), i = get_global_id(1);
  T sum = 0;
  for (int k = 0; k < K; ++k) sum += lhs[i * K + k] * rhs[k * N + j];
  output[i * N + j] = sum;
}

__kernel void add(__global const T* restrict a, __global const T* restrict b, __global T* restrict c) {
  const int i = get_global_id(0);
  c[i] = a[i] + b[i];
}
