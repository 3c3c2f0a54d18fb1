// What the C++ device functions of a cell may use without including anything: CUDA's qualifiers, defined away, and the
// math functions that CUDA declares by itself. Included only when a cell has such functions.
#pragma once

#define __device__
#define __co_device__
#define __host__
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))

#if defined(__GLIBC__) || defined(__linux__)
#define CROQ_NOTHROW noexcept  // as glibc declares them, in case the cell includes <cmath> too
#else
#define CROQ_NOTHROW
#endif
extern "C" {
#define CROQ_MATH1(name) float name##f(float) CROQ_NOTHROW; double name(double) CROQ_NOTHROW;
#define CROQ_MATH2(name) float name##f(float, float) CROQ_NOTHROW; double name(double, double) CROQ_NOTHROW;
CROQ_MATH1(sin) CROQ_MATH1(cos) CROQ_MATH1(tan) CROQ_MATH1(asin) CROQ_MATH1(acos) CROQ_MATH1(atan)
CROQ_MATH1(sinh) CROQ_MATH1(cosh) CROQ_MATH1(tanh) CROQ_MATH1(exp) CROQ_MATH1(exp2) CROQ_MATH1(expm1)
CROQ_MATH1(log) CROQ_MATH1(log2) CROQ_MATH1(log10) CROQ_MATH1(log1p) CROQ_MATH1(sqrt) CROQ_MATH1(cbrt)
CROQ_MATH1(fabs) CROQ_MATH1(floor) CROQ_MATH1(ceil) CROQ_MATH1(round) CROQ_MATH1(trunc) CROQ_MATH1(rint)
CROQ_MATH1(erf)
CROQ_MATH2(pow) CROQ_MATH2(atan2) CROQ_MATH2(fmax) CROQ_MATH2(fmin) CROQ_MATH2(fmod) CROQ_MATH2(hypot)
float fmaf(float, float, float) CROQ_NOTHROW;
double fma(double, double, double) CROQ_NOTHROW;
int abs(int) CROQ_NOTHROW;
#undef CROQ_MATH1
#undef CROQ_MATH2
}

// `printf` goes where `print` goes, which in a notebook is the cell. The name of its symbol says so and not a macro: what
// the cell includes may undefine macros, and declares the same function again.
#ifdef CROQ_PRINTS
#ifdef __APPLE__
#define CROQ_SYMBOL(name) "_" name
#else
#define CROQ_SYMBOL(name) name
#endif
#include <stdarg.h>
static __thread croq_lane* croq_printing;  // whose text this thread writes
extern "C" __attribute__((format(printf, 1, 2))) int croq_printf(const char* format, ...) {
  char room[512], *text = room;
  va_list list, again;
  va_start(list, format);
  va_copy(again, list);
  int size = __builtin_vsnprintf(room, sizeof room, format, list);
  if (size >= (int)sizeof room && (text = (char*)__builtin_malloc((size_t)size + 1)))
    __builtin_vsnprintf(text, (size_t)size + 1, format, again);
  if (text && size > 0 && croq_printing) croq_rt->print(croq_printing, text, size);
  if (text != room) __builtin_free(text);
  va_end(again);
  va_end(list);
  return size;
}
extern "C" __attribute__((format(printf, 1, 2))) int printf(const char*, ...) __asm__(CROQ_SYMBOL("croq_printf"));
#endif
