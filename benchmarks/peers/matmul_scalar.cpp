// The scalar matrix product: a 16 x 64 grid of blocks, each (M / 16) x (N / 64) elements, no copies.
//   written   the loops in the order of the program: m, n, k, one sum at a time
//   tiled     the best order by hand: rows of a block row times 64 contiguous columns, sums in vectors over all of K
#include <cstdint>

#include "threads.h"

namespace {

template <class T, int M, int N, int K>
void written(const T* lhs, const T* rhs, T* out, int threads) {
  constexpr int P = 16, Q = 64, ROWS = M / P, COLUMNS = N / Q;
  peers::pool().run(P * Q, Q / 4, threads, [=](long block) {
    const int p = int(block) / Q, q = int(block) % Q;
    for (int m = 0; m < ROWS; ++m)
      for (int n = 0; n < COLUMNS; ++n) {
        T& sum = out[(p * ROWS + m) * N + q * COLUMNS + n];
        sum = 0;
        for (int k = 0; k < K; ++k) sum += lhs[(p * ROWS + m) * K + k] * rhs[k * N + q * COLUMNS + n];
      }
  });
}

template <class T, int M, int N, int K>
void tiled(const T* lhs, const T* rhs, T* out, int threads) {
  constexpr int LANES = 16, R = 8, C = 2;  // 8 rows x 2 vectors: 16 sums, 2 loads, 8 broadcasts a step
  typedef T V __attribute__((vector_size(LANES * sizeof(T))));
  typedef T U __attribute__((vector_size(LANES * sizeof(T)), aligned(sizeof(T)), may_alias));
  constexpr int STRIPS = N / (LANES * C);
  // A strip of 32 columns stays in the second-level cache while all rows pass over it.
  peers::pool().run(STRIPS * (M / R), M / R < 16 ? M / R : 16, threads, [=](long block) {
    const int column = int(block) / (M / R) * LANES * C, row = int(block) % (M / R) * R;
    V sum[R][C] = {};
    for (int k = 0; k < K; ++k) {
      V r[C];
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) r[c] = *reinterpret_cast<const U*>(&rhs[k * N + column + c * LANES]);
#pragma GCC unroll 8
      for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) sum[i][c] += lhs[(row + i) * K + k] * r[c];
    }
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) *reinterpret_cast<U*>(&out[(row + i) * N + column + c * LANES]) = sum[i][c];
  });
}

}  // namespace

#define EXPORT(NAME, TYPE, SUFFIX, M, N, K)                                                                     \
  extern "C" void scalar_##NAME##_##SUFFIX##_##M##x##N##x##K(const TYPE* l, const TYPE* r, TYPE* o, int t) { \
    NAME<TYPE, M, N, K>(l, r, o, t);                                                                            \
  }
#define VERSIONS(TYPE, SUFFIX, M, N, K)   \
  EXPORT(written, TYPE, SUFFIX, M, N, K) \
  EXPORT(tiled, TYPE, SUFFIX, M, N, K)

VERSIONS(int32_t, s32, 128, 256, 256)
VERSIONS(float, f32, 128, 256, 256)
VERSIONS(int32_t, s32, 1024, 1024, 1024)
VERSIONS(float, f32, 1024, 1024, 1024)
