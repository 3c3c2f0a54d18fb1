// The conformance programs at sizes of 1 to 16 million elements, as one would write them in C++: the same blocks, the
// same copies into tiles, plain loops, two threads over the blocks. A block's threads are loops; its shared and local
// memory are arrays on the stack. The extents are those of the programs in ../conformance_programs.py.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "threads.h"

namespace {

// Blocks 0..count on two threads, in some sixteen pieces.
template <class Body>
void blocks(long count, const Body& body) {
  peers::pool().run(count, count / 16 > 0 ? count / 16 : 1, 2, body);
}

#if defined(__FLT16_MAX__)
typedef _Float16 half;
#else
typedef __fp16 half;
#endif

}  // namespace

// ------------------------------------------------------------------------------------------------ scalar programs

extern "C" void C01(const int* v, int* r) { std::memcpy(r, v, (4l << 20) * sizeof(int)); }

extern "C" void C02(const int* x, const int* y, int* r) {
  blocks(2048, [=](long i) {
    for (int j = 0; j < 2048; ++j) r[i * 2048 + j] = 3 * x[i * 2048 + j] - y[i * 2048 + j];
  });
}

extern "C" void C03(const int* v, int* r) {
  int acc = 0;
  for (long i = 0; i < 4l << 20; ++i) acc += v[i];
  *r = acc;
}

extern "C" void C04(const float* x, float* r, float lo, float hi) {
  blocks(16384, [=](long b) {
    for (int p = 0; p < 256; ++p) {
      const float v = x[b * 256 + p];
      r[b * 256 + p] = v < lo ? lo : (v > hi ? hi : v);
    }
  });
}

extern "C" void C05(int* r) {
  blocks(4096, [=](long p) {
    for (int q = 0; q < 32; ++q)
      for (int k = 0; k < 32; ++k) {
        const int i = (int(p) * 32 + q) * 32 + k;
        r[i] = i * 10;
      }
  });
}

extern "C" void C06(int* v, int k) {
  blocks(16384, [=](long b) {
    for (int p = 0; p < 256; ++p) v[b * 256 + p] += k;
  });
}

extern "C" void C07(const float* x, int* r) {
  blocks(16384, [=](long b) {
    for (int p = 0; p < 256; ++p) r[b * 256 + p] = int(x[b * 256 + p] * 1.5f);
  });
}

extern "C" void C08(int* r) {
  blocks(4096, [=](long b) {
    for (int i = 0; i < 1024; ++i) r[b * 1024 + i] = 0;
    for (int k = 1; k < 1023; k += 2) r[b * 1024 + k] = k;
  });
}

extern "C" void C09(const int* x, int* r) {
  blocks(4096, [=](long b) {
    r[b * 1024] = x[b * 1024];
    for (int i = 1; i < 1024; ++i) r[b * 1024 + i] = x[b * 1024 + i] - x[b * 1024 + i - 1];
  });
}

extern "C" void C10(int* r) {
  blocks(4096, [=](long b) {
    for (int p = 0; p < 256; ++p) {
      int v = (int(b) * 256 + p) % 10000 + 1;
      int n = 0;
      while (v != 1) {
        if (v % 2 == 0)
          v = v / 2;
        else
          v = 3 * v + 1;
        n += 1;
      }
      r[b * 256 + p] = n;
    }
  });
}

extern "C" void C11(const int* x, int* r) {
  blocks(256, [=](long b) {
    for (int p = 0; p < 256; ++p) {
      const int* row = x + (b * 256 + p) * 64;
      int pos = -1, odd = 0;
      for (int i = 0; i < 64; ++i) {
        if (row[i] % 2 == 0) continue;
        odd += 1;
        if (row[i] < 0) {
          pos = i;
          break;
        }
      }
      r[b * 256 + p] = pos * 10 + odd;
    }
  });
}

extern "C" void C12(int* r) {
  blocks(16384, [=](long b) {
    for (int p = 0; p < 256; ++p) r[b * 256 + p] = 0;
    for (int p = 0; p < 256; ++p) {
      const int i = int(b) * 256 + p;
      if (i % 3 == 0) continue;
      r[i] = i;
    }
  });
}

// -------------------------------------------------------------------------------------------------- tiles, transfers

extern "C" void C13(const int* x, int* r) {
  blocks(16384, [=](long t) {
    int a[256], o[256];
    for (int i = 0; i < 256; ++i) a[i] = x[t * 256 + i];
    for (int i = 0; i < 256; ++i) o[i] = 2 * a[i] + int(t);
    for (int i = 0; i < 256; ++i) r[t * 256 + i] = o[i];
  });
}

extern "C" void C14(const int* x, int* r) {
  blocks(64 * 64, [=](long b) {
    const long bi = b / 64, bj = b % 64;
    int s[32][32];
    for (int i = 0; i < 32; ++i)
      for (int j = 0; j < 32; ++j) s[i][j] = x[(bi * 32 + i) * 2048 + bj * 32 + j];
    for (int i = 0; i < 32; ++i)
      for (int j = 0; j < 32; ++j) r[(bi * 32 + i) * 2048 + bj * 32 + j] = s[31 - i][j] * 2 + int(bj) * 32 + j;
  });
}

extern "C" void C15(const int* x, int* r) {
  blocks(64, [=](long p) {
    for (int u = 0; u < 16; ++u)
      for (int v = 0; v < 16; ++v) {
        int a[16][16];
        for (int i = 0; i < 16; ++i)
          for (int j = 0; j < 16; ++j) a[i][j] = x[(p * 256 + u * 16 + i) * 256 + v * 16 + j];
        for (int i = 0; i < 16; ++i)
          for (int j = 0; j < 16; ++j) a[i][j] += u * 100 + v;
        for (int i = 0; i < 16; ++i)
          for (int j = 0; j < 16; ++j) r[(p * 256 + u * 16 + i) * 256 + v * 16 + j] = a[i][j];
      }
  });
}

extern "C" void C16(const int* x, int* r) {
  blocks(1024, [=](long b) {
    int a[64][64];
    for (int i = 0; i < 64; ++i)
      for (int j = 0; j < 64; ++j) a[i][j] = -1;
    for (int i = 0; i < 61; ++i)
      for (int j = 0; j < 59; ++j) a[1 + i][2 + j] = x[(b * 61 + i) * 59 + j];
    for (int i = 0; i < 64; ++i)
      for (int j = 0; j < 64; ++j) r[(b * 64 + i) * 64 + j] = a[i][j];
  });
}

extern "C" void C17(const float* x, float* r) {
  blocks(64 * 64, [=](long b) {
    const long bi = b / 64, bj = b % 64;
    float a[32][32];
    for (int j = 0; j < 32; ++j)
      for (int i = 0; i < 32; ++i) a[j][i] = x[(bi * 32 + i) * 2048 + bj * 32 + j];
    for (int j = 0; j < 32; ++j)
      for (int i = 0; i < 32; ++i) r[(bj * 32 + j) * 2048 + bi * 32 + i] = a[j][i];
  });
}

extern "C" void C18(const int16_t* x, int16_t* r) {
  blocks(16 * 16 * 16, [=](long b) {
    const long bi = b / 256, bj = b / 16 % 16, bk = b % 16;
    int16_t a[16][8][8];
    for (int k = 0; k < 16; ++k)
      for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; ++j) a[k][i][j] = x[((bi * 8 + i) * 128 + bj * 8 + j) * 256 + bk * 16 + k];
    for (int k = 0; k < 16; ++k)
      for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; ++j) r[((bk * 16 + k) * 128 + bi * 8 + i) * 128 + bj * 8 + j] = a[k][i][j];
  });
}

extern "C" void C19(const int* x, int* r) {
  blocks(512, [=](long b) {
    int a[4][1024];
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 1024; ++j) a[i][j] = x[(b * 4 + i) * 3072 + j * 3];
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 1024; ++j) r[(b * 4 + i) * 1024 + j] = a[i][j];
  });
}

extern "C" void C20(const int* x, int* r) {
  blocks(1 << 20, [=](long p) {
    int w[4];
    for (int i = 0; i < 4; ++i) w[i] = x[p * 2 + i];
    int m = w[0];
    for (int i = 0; i < 4; ++i) m = std::max(m, w[i]);
    r[p] = m;
  });
}

extern "C" void C21(const int* x, int* r) {
  constexpr long N = (4l << 20) - 55;
  blocks(16384, [=](long p) {
    int a[256];
    for (int i = 0; i < 256; ++i) a[i] = p * 256 + i < N ? x[p * 256 + i] : 0;
    for (int i = 0; i < 256; ++i) r[p * 256 + i] = a[i];
  });
}

extern "C" void C22(const int* x, int* r) {
  blocks(16384, [=](long b) {
    for (int p = 0; p < 256; ++p) r[b * 256 + p] = x[(4l << 20) - 1 - (b * 256 + p)];
  });
}

extern "C" void C23(const int* x, int* r) {
  blocks(512, [=](long p) {
    int a[64][128];
    for (int i = 0; i < 64; ++i)
      for (int j = 0; j < 128; ++j) a[i][j] = x[(i * 512 + p) * 128 + j];
    for (int i = 0; i < 64; ++i)
      for (int j = 0; j < 128; ++j) r[(p * 64 + i) * 128 + j] = a[i][j];
  });
}

extern "C" void C24(const int* x, int* r) {
  blocks(4096, [=](long p) {
    int w[1026];
    for (int i = 0; i < 1026; ++i) w[i] = x[p * 1024 + i];
    for (int t = 0; t < 1024; ++t) r[p * 1024 + t] = w[t] + w[t + 1] + w[t + 2];
  });
}

extern "C" void C25(const float* x, float* r) {
  blocks(64 * 64, [=](long b) {
    const long bi = b / 64, bj = b % 64;
    float s[34][34];
    for (int i = 0; i < 34; ++i)
      for (int j = 0; j < 34; ++j) s[i][j] = x[(bi * 32 + i) * 2050 + bj * 32 + j];
    for (int i = 0; i < 32; ++i)
      for (int j = 0; j < 32; ++j)
        r[(bi * 32 + i) * 2048 + bj * 32 + j] =
            s[i][j + 1] + s[i + 2][j + 1] + s[i + 1][j] + s[i + 1][j + 2] - 4.0f * s[i + 1][j + 1];
  });
}

extern "C" void C26(const int* x, int* r) {
  blocks(4096, [=](long b) {
    int t[3][1024];
    for (int k = 0; k < 3; ++k) {
      for (int i = 0; i < 1024; ++i) t[k][i] = x[b * 1024 + i];
      for (int i = 0; i < 1024; ++i) t[k][i] += k * 10;
    }
    for (int i = 0; i < 1024; ++i) r[b * 1024 + i] = t[0][i] + t[1][1023 - i] - t[2][i];
  });
}

extern "C" void C27(const int* x, const int* b, int* r) {
  blocks(1024, [=](long p) {
    int a[4][1024], c[1024];
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 1024; ++j) a[i][j] = x[(p * 4 + i) * 1024 + j];
    for (int j = 0; j < 1024; ++j) c[j] = b[j];
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 1024; ++j) a[i][j] += c[j];
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 1024; ++j) a[i][j] *= 3;
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 1024; ++j) r[(p * 4 + i) * 1024 + j] = a[i][j];
  });
}

// ------------------------------------------------------------------------------- threads that meet, atomics, masks

extern "C" void C28(const int* x, int* r) {
  blocks(4096, [=](long b) {
    int bins[10] = {0};
    for (int t = 0; t < 1024; ++t) bins[x[b * 1024 + t] % 10] += 1;
    for (int t = 0; t < 10; ++t) r[b * 10 + t] = bins[t];
  });
}

extern "C" void C29(const int* x, int* r) {
  std::atomic<int> low{1000000}, high{-1000000}, flag{0};
  blocks(4096, [&, x](long b) {
    for (int t = 0; t < 256; ++t) {
      const int v = x[b * 256 + t];
      int old = low.load(std::memory_order_relaxed);
      while (v < old && !low.compare_exchange_weak(old, v, std::memory_order_relaxed)) {
      }
      old = high.load(std::memory_order_relaxed);
      while (v > old && !high.compare_exchange_weak(old, v, std::memory_order_relaxed)) {
      }
      int none = 0;
      if (flag.compare_exchange_strong(none, 1, std::memory_order_relaxed))
        flag.fetch_add(41, std::memory_order_relaxed);
    }
  });
  r[0] = low, r[1] = high, r[2] = flag;
}

extern "C" void C30(const int* x, int* r) {
  blocks(4096, [=](long b) {
    int s[256], add[256];
    for (int t = 0; t < 256; ++t) s[t] = x[b * 256 + t];
    for (int hop = 1; hop < 256; hop = hop * 2) {
      for (int t = 0; t < 256; ++t) add[t] = t >= hop ? s[t - hop] : 0;
      for (int t = 0; t < 256; ++t) s[t] += add[t];
    }
    for (int t = 0; t < 256; ++t) r[b * 256 + t] = s[t];
  });
}

extern "C" void C31(const int* x, int* r) {
  blocks(16384, [=](long b) {
    int s[256];
    for (int t = 0; t < 256; ++t) s[t] = x[b * 256 + t] * x[b * 256 + t];
    for (int k = 0; k < 8; ++k) {
      const int w = 128 >> k;
      for (int t = 0; t < w; ++t) s[t] += s[t + w];
    }
    r[b] = s[0];
  });
}

extern "C" void C32(const float* x, float* r) {
  blocks(4096, [=](long b) {
    float e[256];
    for (int t = 0; t < 256; ++t) e[t] = std::exp(x[b * 256 + t]);
    float s = 0.0f;
    for (int i = 0; i < 256; ++i) s += e[i];
    for (int t = 0; t < 256; ++t) r[b * 256 + t] = e[t] / s;
  });
}

extern "C" void C33(const int* x, int* r) {
  blocks(16384, [=](long b) {
    int s[256];
    for (int t = 0; t < 128; ++t) s[t] = x[b * 256 + t];
    for (int t = 128; t < 256; ++t) s[t] = 0 - x[b * 256 + t];
    for (int t = 0; t < 256; ++t) r[b * 256 + t] = s[255 - t];
  });
}

extern "C" void C34(int* r) {
  blocks(1 << 20, [=](long b) {
    int n = 0;
    for (int t = 0; t < 32; ++t) n += 1;
    n += 100;
    for (int u = 0; u < 32; ++u)
      if (u == 0) r[b] = n + int(b);
  });
}

extern "C" void C35(int* r) {
  blocks(65536, [=](long b) {
    for (int g = 0; g < 2; ++g)
      for (int t = 0; t < 32; ++t) r[(b * 2 + g) * 32 + t] = 1000 * int(b) + 100 * g + t;
  });
}

// ------------------------------------------------------------------------------------- extents known at the call

extern "C" void C36(const int* a, const int* b, int* c, long M, long N, long K) {
  blocks(N * M, [=](long block) {
    const long j = block / M, i = block % M;
    int sum = 0;
    for (long k = 0; k < K; ++k) sum += a[i * K + k] * b[k * N + j];
    c[i * N + j] = sum;
  });
}

extern "C" void C37(const float* x, float* r, long rows) {
  blocks(rows, [=](long p) {
    float a[64];
    for (int i = 0; i < 64; ++i) a[i] = x[p * 64 + i];
    float s = 0.0f;
    for (int i = 0; i < 64; ++i) s += a[i];
    r[p] = s;
  });
}

// --------------------------------------------------------------------------------- several kernels, asynchrony, rings

extern "C" void C38(const int* x, int* t, int* r) {
  constexpr long N = 4l << 20;
  blocks(16384, [=](long b) {
    for (int p = 0; p < 256; ++p) t[b * 256 + p] = x[b * 256 + p] + 1;
  });
  blocks(16384, [=](long b) {
    for (int p = 0; p < 256; ++p) r[b * 256 + p] = t[b * 256 + p] * t[N - 1 - (b * 256 + p)];
  });
}

extern "C" void C39(const int* x, int* b, int* a, int times) {
  constexpr int N = 1 << 20;
  std::memcpy(a, x, N * sizeof(int));
  for (int s = 0; s < times; ++s) {
    blocks(4096, [=](long p) {
      for (int t = 0; t < 256; ++t) {
        const int i = int(p) * 256 + t;
        b[i] = a[i] + a[(i + 1) % N];
      }
    });
    blocks(4096, [=](long p) {
      for (int t = 0; t < 256; ++t) a[p * 256 + t] = b[p * 256 + t];
    });
  }
}

extern "C" void C40(const int* x, const int* y, int* r) {
  blocks(16384, [=](long b) {
    int fx[256], fy[256];
    for (int i = 0; i < 256; ++i) fx[i] = x[b * 256 + i];
    for (int i = 0; i < 256; ++i) fy[i] = y[b * 256 + i];
    for (int t = 0; t < 256; ++t) r[b * 256 + t] = fx[t] + fy[255 - t];
  });
}

extern "C" void C41(const int* x, int* r) {
  blocks(4096, [=](long b) {
    int acc[128] = {0};
    for (int k = 0; k < 8; ++k) {
      int cur[128];
      for (int i = 0; i < 128; ++i) cur[i] = x[b * 1024 + k * 128 + i];
      for (int i = 0; i < 128; ++i) acc[i] += cur[i] * (k + 1);
    }
    for (int i = 0; i < 128; ++i) r[b * 128 + i] = acc[i];
  });
}

extern "C" void C42(const int* x, int* r) {
  blocks(1024, [=](long b) {
    int slot[2][512];
    for (int k = 0; k < 8; ++k) {
      int* f = slot[k % 2];
      for (int i = 0; i < 512; ++i) f[i] = x[(b * 8 + k) * 512 + i];
      for (int i = 0; i < 512; ++i) r[(b * 8 + k) * 512 + i] = f[i];
    }
    r[b * 8 * 512] = slot[0][0] * 1000 + slot[1][0];
  });
}

extern "C" void C43(const int* x, int* r) {
  blocks(1024, [=](long b) {
    int a[3][1024];
    for (int k = 0; k < 3; ++k)
      for (int i = 0; i < 1024; ++i) a[k][i] = x[(b * 3 + k) * 1024 + i];
    for (int k = 0; k < 3; ++k)
      for (int i = 0; i < 1024; ++i) r[(b * 3 + k) * 1024 + i] = a[(k + 1) % 3][i];
  });
}

extern "C" void C44(const int* x, int* a, int* r) {
  blocks(64, [=](long b) {
    for (int i = 0; i < 65536; ++i) a[b * 65536 + i] = x[b * 65536 + i] * 2;
  });
  blocks(64, [=](long b) {
    for (int i = 0; i < 65536; ++i) r[b * 65536 + i] = a[(b + 1) % 64 * 65536 + i];
  });
}

// One thread plays both roles in turn: what the ring means where nothing runs beside it.
extern "C" void C45(const int* x, int* r) {
  blocks(512, [=](long b) {
    int slot[2][128];
    for (int n = 0; n < 16; ++n) {
      for (int t = 0; t < 128; ++t) slot[n % 2][t] = x[(b * 16 + n) * 128 + t] * 2;
      for (int t = 0; t < 128; ++t) r[(b * 16 + n) * 128 + t] = slot[n % 2][127 - t] + 1;
    }
  });
}

extern "C" void C46(const int* x, int* r) {
  blocks(512, [=](long b) {
    int slot[2][512];
    for (int n = 0; n < 8; ++n) {
      for (int t = 0; t < 512; ++t) slot[n % 2][t] = x[(b * 8 + n) * 512 + t];
      for (int t = 0; t < 512; ++t) r[(b * 8 + n) * 512 + t] = slot[n % 2][t];
    }
  });
}

// -------------------------------------------------------------------------------------------- functions, arithmetic

namespace {

int twice_plus(int v, int k) { return 2 * v + k; }

template <int N>
void rev(int* p) {
  for (int i = 0; i < N / 2; ++i) {
    const int h = p[i];
    p[i] = p[N - 1 - i];
    p[N - 1 - i] = h;
  }
}

}  // namespace

extern "C" void C47(const int* x, int* r) {
  blocks(16384, [=](long b) {
    for (int t = 0; t < 256; ++t) r[b * 256 + t] = twice_plus(x[b * 256 + t], 5);
  });
}

extern "C" void C48(const int* x, int* r) {
  blocks(16384, [=](long p) {
    int a[256];
    for (int i = 0; i < 256; ++i) a[i] = x[p * 256 + i];
    rev<256>(a);
    for (int i = 0; i < 256; ++i) r[p * 256 + i] = a[i];
  });
}

extern "C" void C49(int* r) {
  blocks(1448, [=](long i) {
    for (int j = 0; j < 2896; ++j) r[i * 2896 + j] = int(i) * int(i) + j;
  });
}

extern "C" void C50(const float* x, float* r) {
  blocks(4096, [=](long b) {
    for (int p = 0; p < 256; ++p) {
      const float v = x[b * 256 + p];
      r[b * 256 + p] = std::sqrt(std::fabs(v)) + std::tanh(v) * (1.0f / (1.0f + std::exp(-v))) + std::max(v, 0.5f) -
                       std::floor(v);
    }
  });
}

extern "C" void C51(const half* x, const half* y, half* r) {
  blocks(16384, [=](long b) {
    for (int p = 0; p < 256; ++p) {
      const long i = b * 256 + p;
      r[i] = half(float(x[i]) * float(y[i]) + float(x[i]));
    }
  });
}

// ---------------------------------------------------------------------------------------------------- tensor cores

extern "C" void C52(const half* a, const half* b, float* c) {
  blocks(4096, [=](long m) {
    float acc[16][16] = {};
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 16; ++j)
        for (int k = 0; k < 16; ++k) acc[i][j] += float(a[(m * 16 + i) * 16 + k]) * float(b[k * 16 + j]);
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 16; ++j) c[(m * 16 + i) * 16 + j] = acc[i][j];
  });
}

extern "C" void C53(const half* a, const half* b, float* c) {
  blocks(128 * 64, [=](long block) {
    const long n = block / 64, m = block % 64;
    float acc[16][8] = {};
    for (int k0 = 0; k0 < 64; k0 += 16) {
      half sa[16][16], sb[8][16];
      for (int i = 0; i < 16; ++i)
        for (int k = 0; k < 16; ++k) sa[i][k] = a[(m * 16 + i) * 64 + k0 + k];
      for (int j = 0; j < 8; ++j)
        for (int k = 0; k < 16; ++k) sb[j][k] = b[(n * 8 + j) * 64 + k0 + k];
      for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 8; ++j)
          for (int k = 0; k < 16; ++k) acc[i][j] += float(sa[i][k]) * float(sb[j][k]);
    }
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 8; ++j) c[(m * 16 + i) * 1024 + n * 8 + j] = acc[i][j];
  });
}

extern "C" void C54(const int8_t* a, const int8_t* b, int* c, long P, long Q) {
  const long N = (Q + 7) / 8, M = (P + 7) / 8;
  blocks(N * M, [=](long block) {
    const long n = block / M, m = block % M;
    int8_t sa[8][16], sb[16][8];
    for (int i = 0; i < 8; ++i)
      for (int k = 0; k < 16; ++k) sa[i][k] = m * 8 + i < P ? a[(m * 8 + i) * 16 + k] : 0;
    for (int k = 0; k < 16; ++k)
      for (int j = 0; j < 8; ++j) sb[k][j] = n * 8 + j < Q ? b[k * Q + n * 8 + j] : 0;
    int acc[8][8] = {};
    for (int i = 0; i < 8; ++i)
      for (int j = 0; j < 8; ++j)
        for (int k = 0; k < 16; ++k) acc[i][j] += sa[i][k] * sb[k][j];
    for (int i = 0; i < 8 && m * 8 + i < P; ++i)
      for (int j = 0; j < 8 && n * 8 + j < Q; ++j) c[(m * 8 + i) * Q + n * 8 + j] = acc[i][j];
  });
}

extern "C" void C55(const float* x, float* r) {
  blocks(1024, [=](long b) {
    float s[16][64], m[16];
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 64; ++j) s[i][j] = x[(b * 16 + i) * 64 + j];
    for (int i = 0; i < 16; ++i) {
      m[i] = s[i][0];
      for (int j = 1; j < 64; ++j) m[i] = std::max(m[i], s[i][j]);
    }
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 64; ++j) r[(b * 16 + i) * 64 + j] = s[i][j] - m[i];
  });
}

extern "C" void C56(const half* a, const half* b, float* c) {
  blocks(512, [=](long p) {
    half sa[64][64], sb[32][64];
    for (int i = 0; i < 64; ++i)
      for (int k = 0; k < 64; ++k) sa[i][k] = a[(p * 64 + i) * 64 + k];
    for (int j = 0; j < 32; ++j)
      for (int k = 0; k < 64; ++k) sb[j][k] = b[j * 64 + k];
    float acc[64][32] = {};
    for (int i = 0; i < 64; ++i)
      for (int j = 0; j < 32; ++j)
        for (int k = 0; k < 64; ++k) acc[i][j] += float(sa[i][k]) * float(sb[j][k]);
    for (int i = 0; i < 64; ++i)
      for (int j = 0; j < 32; ++j) c[(p * 64 + i) * 32 + j] = acc[i][j];
  });
}

extern "C" void C57(const half* a, const half* b, float* c, long K) {
  blocks(512, [=](long p) {
    half ta[2][64][32], tb[2][32][32];
    float acc[64][32] = {};
    for (long n = 0; n < (K + 31) / 32; ++n) {
      for (int i = 0; i < 64; ++i)
        for (int k = 0; k < 32; ++k) ta[n % 2][i][k] = a[(p * 64 + i) * K + n * 32 + k];
      for (int j = 0; j < 32; ++j)
        for (int k = 0; k < 32; ++k) tb[n % 2][j][k] = b[j * K + n * 32 + k];
      for (int i = 0; i < 64; ++i)
        for (int j = 0; j < 32; ++j)
          for (int k = 0; k < 32; ++k) acc[i][j] += float(ta[n % 2][i][k]) * float(tb[n % 2][j][k]);
    }
    for (int i = 0; i < 64; ++i)
      for (int j = 0; j < 32; ++j) c[(p * 64 + i) * 32 + j] = acc[i][j];
  });
}
