// Element-wise add of two large arrays, and the 6 x 17 x 128 program with a device function.
#include <cstdint>

#include "threads.h"

namespace {

template <class T>
void plain(const T* a, const T* b, T* c, long count, int threads) {
  constexpr long PIECE = 1 << 16;
  peers::pool().run((count + PIECE - 1) / PIECE, 4, threads, [=](long piece) {
    const long last = (piece + 1) * PIECE < count ? (piece + 1) * PIECE : count;
    for (long i = piece * PIECE; i < last; ++i) c[i] = a[i] + b[i];
  });
}

// Stores that do not read the destination's cache lines first. Needs c on a 64-byte boundary and whole lines.
template <class T>
void streamed(const T* a, const T* b, T* c, long count, int threads) {
#if defined(__AVX512F__)
  constexpr int BYTES = 64;
#elif defined(__AVX__)
  constexpr int BYTES = 32;
#else
  constexpr int BYTES = 16;
#endif
  constexpr int LANES = BYTES / sizeof(T);
  typedef T V __attribute__((vector_size(BYTES)));
  typedef T U __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));
  constexpr long PIECE = 1 << 16;
  peers::pool().run((count + PIECE - 1) / PIECE, 4, threads, [=](long piece) {
    const long last = (piece + 1) * PIECE < count ? (piece + 1) * PIECE : count;
    for (long i = piece * PIECE; i < last; i += LANES) {
      const V sum = *reinterpret_cast<const U*>(a + i) + *reinterpret_cast<const U*>(b + i);
#if defined(__AVX512F__)
      __builtin_ia32_movntps512(reinterpret_cast<float*>(c + i), (float __attribute__((vector_size(64))))sum);
#elif defined(__AVX__)
      __builtin_ia32_movntps256(reinterpret_cast<float*>(c + i), (float __attribute__((vector_size(32))))sum);
#elif defined(__SSE__)
      __builtin_ia32_movntps(reinterpret_cast<float*>(c + i), (float __attribute__((vector_size(16))))sum);
#else
      *reinterpret_cast<V*>(c + i) = sum;
#endif
    }
#if defined(__SSE__)
    __builtin_ia32_sfence();
#endif
  });
}

inline void kernel(int* a, int* b, int* c, int n) {
  for (int i = 0; i < n; ++i) c[i] = a[i] + b[i];
}

}  // namespace

extern "C" void add_plain_s32(const int32_t* a, const int32_t* b, int32_t* c, long n, int t) { plain(a, b, c, n, t); }
extern "C" void add_plain_f32(const float* a, const float* b, float* c, long n, int t) { plain(a, b, c, n, t); }
extern "C" void add_streamed_s32(const int32_t* a, const int32_t* b, int32_t* c, long n, int t) {
  streamed(a, b, c, n, t);
}
extern "C" void add_streamed_f32(const float* a, const float* b, float* c, long n, int t) { streamed(a, b, c, n, t); }

// Chunks of 1 x 1 x 32 are copied in, added by the device function and copied out.
extern "C" void ele_add(const int* lhs, const int* rhs, int* out) {
  for (int p = 0; p < 6; ++p)
    for (int x = 0; x < 17; ++x)
      for (int y = 0; y < 4; ++y) {
        int a[32], b[32], c[32];
        const int base = (p * 17 + x) * 128 + y * 32;
        for (int i = 0; i < 32; ++i) a[i] = lhs[base + i];
        for (int i = 0; i < 32; ++i) b[i] = rhs[base + i];
        kernel(a, b, c, 32);
        for (int i = 0; i < 32; ++i) out[base + i] = c[i];
      }
}

// Does nothing: what a call through ctypes costs.
extern "C" void nothing(const int*, const int*, int*) {}
