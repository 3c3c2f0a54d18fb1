// The tiled matrix product with shared tiles, written by hand: blocks of 16 x 16, tile copies of both operands in
// every step of K, all extents constants. Four versions of the same arithmetic in the same order:
//   ijk        the obvious loops, one output element at a time, its sum in a scalar
//   ikj        the other obvious order, one row of the output tile at a time
//   registers  sixteen vectors hold the output tile over the whole K loop: the practical limit of a 16 x 16 tile
//   direct     as registers, without copying the tiles first
#include <cstdint>
#include <cstring>

#include "threads.h"

namespace {

constexpr int TILE = 16;

template <class T, int K, int N>
void copy_tiles(const T* lhs, const T* rhs, int row, int column, int k0, T (&a)[TILE][TILE], T (&b)[TILE][TILE]) {
  for (int i = 0; i < TILE; ++i)
    for (int k = 0; k < TILE; ++k) a[i][k] = lhs[(row + i) * K + k0 + k];
  for (int k = 0; k < TILE; ++k)
    for (int j = 0; j < TILE; ++j) b[k][j] = rhs[(k0 + k) * N + column + j];
}

template <class T, int M, int N, int K>
void ijk(const T* lhs, const T* rhs, T* out, int threads) {
  peers::pool().run(long(M / TILE) * (N / TILE), 1, threads, [=](long block) {
    const int row = int(block) / (N / TILE) * TILE, column = int(block) % (N / TILE) * TILE;
    for (int i = 0; i < TILE; ++i)
      for (int j = 0; j < TILE; ++j) out[(row + i) * N + column + j] = 0;
    for (int k0 = 0; k0 < K; k0 += TILE) {
      alignas(64) T a[TILE][TILE], b[TILE][TILE];
      copy_tiles<T, K, N>(lhs, rhs, row, column, k0, a, b);
      for (int i = 0; i < TILE; ++i)
        for (int j = 0; j < TILE; ++j) {
          T sum = out[(row + i) * N + column + j];
          for (int k = 0; k < TILE; ++k) sum += a[i][k] * b[k][j];
          out[(row + i) * N + column + j] = sum;
        }
    }
  });
}

template <class T, int M, int N, int K>
void ikj(const T* lhs, const T* rhs, T* out, int threads) {
  peers::pool().run(long(M / TILE) * (N / TILE), 1, threads, [=](long block) {
    const int row = int(block) / (N / TILE) * TILE, column = int(block) % (N / TILE) * TILE;
    for (int i = 0; i < TILE; ++i)
      for (int j = 0; j < TILE; ++j) out[(row + i) * N + column + j] = 0;
    for (int k0 = 0; k0 < K; k0 += TILE) {
      alignas(64) T a[TILE][TILE], b[TILE][TILE];
      copy_tiles<T, K, N>(lhs, rhs, row, column, k0, a, b);
      for (int i = 0; i < TILE; ++i)
        for (int k = 0; k < TILE; ++k)
          for (int j = 0; j < TILE; ++j) out[(row + i) * N + column + j] += a[i][k] * b[k][j];
    }
  });
}

template <class T>
struct Vector {
  typedef T type __attribute__((vector_size(TILE * sizeof(T))));
  typedef T loose __attribute__((vector_size(TILE * sizeof(T)), aligned(sizeof(T)), may_alias));
};

#define ROWS(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15)

template <class T, int M, int N, int K>
void registers(const T* lhs, const T* rhs, T* out, int threads) {
  using V = typename Vector<T>::type;
  using U = typename Vector<T>::loose;
  peers::pool().run(long(M / TILE) * (N / TILE), 1, threads, [=](long block) {
    const int row = int(block) / (N / TILE) * TILE, column = int(block) % (N / TILE) * TILE;
#define ZERO(i) V c##i = {};
    ROWS(ZERO)
    for (int k0 = 0; k0 < K; k0 += TILE) {
      alignas(64) T a[TILE][TILE], b[TILE][TILE];
      copy_tiles<T, K, N>(lhs, rhs, row, column, k0, a, b);
      for (int k = 0; k < TILE; ++k) {
        const V r = *reinterpret_cast<const U*>(&b[k][0]);
#define STEP(i) c##i += a[i][k] * r;
        ROWS(STEP)
      }
    }
#define KEEP(i) *reinterpret_cast<U*>(&out[(row + i) * N + column]) = c##i;
    ROWS(KEEP)
  });
}

template <class T, int M, int N, int K>
void direct(const T* lhs, const T* rhs, T* out, int threads) {
  using V = typename Vector<T>::type;
  using U = typename Vector<T>::loose;
  peers::pool().run(long(M / TILE) * (N / TILE), 1, threads, [=](long block) {
    const int row = int(block) / (N / TILE) * TILE, column = int(block) % (N / TILE) * TILE;
    const T* a = lhs + long(row) * K;
    ROWS(ZERO)
    for (int k = 0; k < K; ++k) {
      const V r = *reinterpret_cast<const U*>(&rhs[k * N + column]);
#define STEP_DIRECT(i) c##i += a[i * K + k] * r;
      ROWS(STEP_DIRECT)
    }
    ROWS(KEEP)
  });
}

}  // namespace

#define EXPORT(NAME, TYPE, SUFFIX, M, N, K)                                                                  \
  extern "C" void dma_##NAME##_##SUFFIX##_##M##x##N##x##K(const TYPE* l, const TYPE* r, TYPE* o, int t) { \
    NAME<TYPE, M, N, K>(l, r, o, t);                                                                         \
  }
#define VERSIONS(TYPE, SUFFIX, M, N, K) \
  EXPORT(ijk, TYPE, SUFFIX, M, N, K)    \
  EXPORT(ikj, TYPE, SUFFIX, M, N, K)    \
  EXPORT(registers, TYPE, SUFFIX, M, N, K) EXPORT(direct, TYPE, SUFFIX, M, N, K)

VERSIONS(int32_t, s32, 128, 256, 256)
VERSIONS(float, f32, 128, 256, 256)
VERSIONS(int32_t, s32, 1024, 1024, 1024)
VERSIONS(float, f32, 1024, 1024, 1024)
