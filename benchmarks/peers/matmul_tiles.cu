// The matrix product of the third tutorial as CUDA by hand: blocks of 16 x 16 threads, tiles of 16 x 16 in shared
// memory, one element of the result a thread. threadIdx.x runs along the columns, so that all accesses are coalesced.
extern "C" __global__ void __launch_bounds__(256)
    matmul(const float* __restrict__ lhs, const float* __restrict__ rhs, float* __restrict__ out, int m, int n, int k) {
  __shared__ float a[16][16], b[16][16];
  const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
  float sum = 0.0f;
  for (int tile = 0; tile < k; tile += 16) {
    a[y][x] = lhs[(long long)row * k + tile + x];
    b[y][x] = rhs[(long long)(tile + y) * n + column];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; ++i) sum += a[y][i] * b[i][x];
    __syncthreads();
  }
  out[(long long)row * n + column] = sum;
}
