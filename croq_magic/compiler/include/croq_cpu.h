// What a generated CPU module needs: element types, the runtime's function table, scalar helpers.
// No heavy header is included (<cmath> or <iostream> would double the compile time of a cell).
#pragma once
#undef _FORTIFY_SOURCE  // its inline `printf` would write past the cell
#include "croq_types.h"

// ---------------------------------------------------------------------------------------------- runtime interface
// These structures are shared with croq_runtime.cpp; CROQ_ABI changes with them.
#define CROQ_ABI 4
#define CROQ_VALUES 24

enum { CROQ_OK = 0, CROQ_CHECK = 1, CROQ_INTERRUPTED = 2, CROQ_MEMORY = 3, CROQ_ARGUMENT = 4 };

// What a failed check leaves behind: which check, and the integers its message shows (instance indices, then operands).
struct croq_failure {
  int32_t check;
  int32_t count;
  int64_t values[CROQ_VALUES];
};

struct croq_call;

// One thread at work on one call. `attention` is non-zero when somebody wants this call to look up from its work.
struct croq_lane {
  const volatile int32_t* attention;
  croq_call* call;
  char* scratch;    // storage of one block that is too large for the stack; 128-byte aligned
  int32_t is_caller;
  int32_t stopped;
  struct croq_crew* crew;  // the fibers of this thread, null while it has none
};

// What the runtime remembers of one `Launch` in the program, to decide early whether threads pay.
struct croq_site {
  double nanoseconds_per_block;
};

// The entry of a tileflow function: `words` has parameters, symbolic dimensions and the address of the result.
typedef int32_t (*croq_entry)(croq_lane* lane, const int64_t* words);
typedef void (*croq_blocks)(const void* frame, int64_t begin, int64_t end, croq_lane* lane);

enum { CROQ_SERIAL = 1 };  // launch flag: blocks in order in the calling thread (prints, grid barriers)

struct croq_runtime {
  int32_t abi;
  int32_t (*launch)(croq_lane* host, croq_site* site, croq_blocks run, const void* frame, int64_t blocks,
                    int64_t scratch_bytes, int32_t flags);
  int32_t (*poll)(croq_lane* lane);
  void (*fail)(croq_lane* lane, int32_t check, int32_t count, const int64_t* values);
  // 128-byte aligned, zero-filled if asked for; null after recording the failure
  void* (*allocate)(croq_lane* lane, int64_t bytes, bool zeroed);
  void (*release)(void* storage);
  void (*print)(croq_lane* lane, const char* text, int64_t bytes);
  void (*print_number)(croq_lane* lane, int32_t kind, int64_t integer, double real);
  const struct croq_fiber_table* fibers;  // croq_fiber.h
};

// Each module keeps the table it was given at load in its own hidden variable.
static const croq_runtime* croq_rt;

// True when the work must stop: asked for between blocks, at the back edge of a `while` and in long loops.
CROQ_INLINE bool croq_stop(croq_lane* lane) { return CROQ_UNLIKELY(*lane->attention) && croq_rt->poll(lane); }

// Reports a failed check; the values are passed as one list so that the call site stays small.
template <typename... Values>
CROQ_COLD void croq_fail(croq_lane* lane, int32_t check, Values... values) {
  const int64_t list[sizeof...(Values) + 1] = {(int64_t)values..., 0};
  croq_rt->fail(lane, check, (int32_t)sizeof...(Values), list);
}

// ------------------------------------------------------------------------------------------------ scalar helpers
// Float to integer: truncates, saturates, and turns NaN into 0 (the language defines out-of-range conversions).
template <typename To, typename From>
CROQ_INLINE To croq_to_int(From value) {
  constexpr bool is_signed = (To)-1 < (To)0;
  constexpr int bits = (int)sizeof(To) * 8;
  constexpr To low = is_signed ? (To)((To)1 << (bits - 1)) : (To)0;
  constexpr To high = (To)~low;
  constexpr From limit = (From)((From)(1ull << (bits - 1)) * (is_signed ? (From)1 : (From)2));
  if (!(value == value)) return 0;
  if (value >= limit) return high;
  if (value <= (is_signed ? -limit : (From)0)) return low;
  return (To)value;
}

template <typename T>
CROQ_INLINE T croq_min(T a, T b) { return b < a ? b : a; }
template <typename T>
CROQ_INLINE T croq_max(T a, T b) { return a < b ? b : a; }

// Numeric maximum and minimum of floats: a NaN loses. Two selections in a row, the first of which is one instruction:
// in other forms g++ (12) makes branches of them, which random values cost several times as much.
#define CROQ_EXTREME(name, type, replaces)                  \
  CROQ_INLINE type name(type a, type b) {                   \
    const type chosen = replaces ? b : a; /* a if b is NaN */ \
    return a != a ? b : chosen;                             \
  }
CROQ_EXTREME(croq_fmax, float, a < b)
CROQ_EXTREME(croq_fmin, float, b < a)
CROQ_EXTREME(croq_fmax, double, a < b)
CROQ_EXTREME(croq_fmin, double, b < a)
#undef CROQ_EXTREME

// The maximum or minimum of `result` and value(begin) .. value(end - 1), in as many parts at once as there are values
// for. Parts are joined by halves: one after the other they would take longer than the rest of a row of 256.
#define CROQ_RUNNING(name, better)                                                          \
  template <int half, typename T>                                                           \
  CROQ_INLINE void croq_fold_##name(T* parts) {                                             \
    if constexpr (half > 0) {                                                               \
      T others[half];                                                                       \
      for (int i = 0; i < half; ++i) others[i] = parts[half + i];                           \
      for (int i = 0; i < half; ++i) parts[i] = better(parts[i], others[i]);                \
      croq_fold_##name<half / 2>(parts);                                                    \
    }                                                                                       \
  }                                                                                         \
  template <typename T, int count, typename Value>                                          \
  CROQ_INLINE T croq_parts_##name(T result, int64_t& begin, int64_t end, Value value) {     \
    if (end - begin < count) return result;                                                 \
    T parts[count];                                                                         \
    for (int i = 0; i < count; ++i) parts[i] = value(begin + i);                            \
    for (begin += count; end - begin >= count; begin += count)                              \
      for (int i = 0; i < count; ++i) parts[i] = better(parts[i], value(begin + i));        \
    croq_fold_##name<count / 2>(parts);                                                     \
    return better(result, parts[0]);                                                        \
  }                                                                                         \
  template <typename T, typename Value>                                                     \
  CROQ_INLINE T croq_running_##name(T result, int64_t begin, int64_t end, Value value) {    \
    result = croq_parts_##name<T, 256 / (int)sizeof(T)>(result, begin, end, value);         \
    result = croq_parts_##name<T, 64 / (int)sizeof(T)>(result, begin, end, value);          \
    result = croq_parts_##name<T, 16 / (int)sizeof(T)>(result, begin, end, value);          \
    for (; begin < end; ++begin) result = better(result, value(begin));                     \
    return result;                                                                          \
  }
CROQ_RUNNING(max, croq_fmax)
CROQ_RUNNING(min, croq_fmin)
#undef CROQ_RUNNING

// Division rounds towards zero; a zero divisor gives 0, and the most negative value over -1 wraps, instead of a trap.
template <typename T>
CROQ_INLINE T croq_div(T a, T b) {
  if (CROQ_UNLIKELY(b == 0)) return 0;
  if ((T)-1 < (T)0 && b == (T)-1) return (T)(0 - a);
  return (T)(a / b);
}
template <typename T>
CROQ_INLINE T croq_mod(T a, T b) {
  if (CROQ_UNLIKELY(b == 0)) return 0;
  if ((T)-1 < (T)0 && b == (T)-1) return 0;
  return (T)(a % b);
}

// Shifts by the width or more give what arithmetic says (0, or the sign), where C++ leaves it undefined.
template <typename T>
CROQ_INLINE T croq_shl(T a, int64_t n) { return n < 0 || n >= (int64_t)sizeof(T) * 8 ? (T)0 : (T)(a << n); }
template <typename T>
CROQ_INLINE T croq_shr(T a, int64_t n) {
  constexpr int64_t last = (int64_t)sizeof(T) * 8 - 1;
  return n < 0 || n > last ? (a < (T)0 ? (T)-1 : (T)0) : (T)(a >> n);
}

template <typename T>
CROQ_INLINE T croq_alignup(T v, T a) { return (T)((v + a - 1) / a * a); }
template <typename T>
CROQ_INLINE T croq_aligndown(T v, T a) { return (T)(v / a * a); }
template <typename T>
CROQ_INLINE T croq_ceildiv(T a, T b) { return b == 0 ? (T)0 : (T)((a + b - 1) / b); }

// A product of extents that stops at the largest number instead of wrapping round to a small one.
template <typename... Extents>
CROQ_INLINE int64_t croq_product(Extents... extents) {
  int64_t total = 1;
  bool wraps = false;
  (void)((wraps |= __builtin_mul_overflow(total, (int64_t)extents, &total)), ...);
  return wraps ? INT64_MAX : total;
}

// A host-side buffer; `data` is null when there was no memory.
struct croq_storage {
  void* data;
  croq_storage(croq_lane* lane, int64_t bytes, bool zeroed = true) : data(croq_rt->allocate(lane, bytes, zeroed)) {}
  ~croq_storage() { croq_rt->release(data); }
  croq_storage(const croq_storage&) = delete;
};

// Atomic updates return the old value. `global`: several threads may meet; `block`: one thread runs the whole block.
// An update that changes nothing is a load: a minimum is mostly found already, and a locked store costs 20 times as much.
template <typename T, typename Change>
CROQ_INLINE T croq_update(T* place, Change change) {
  T old, next;
  __atomic_load(place, &old, __ATOMIC_RELAXED);
  do {
    next = change(old);
    if (!__builtin_memcmp(&next, &old, sizeof old)) return old;
  } while (!__atomic_compare_exchange(place, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}
#define CROQ_ATOMIC(op, expression)                                                                  \
  template <typename T>                                                                              \
  CROQ_INLINE T croq_global_##op(T* place, T value) {                                                \
    return croq_update(place, [value](T old) { return (T)(expression); });                           \
  }                                                                                                  \
  template <typename T>                                                                              \
  CROQ_INLINE T croq_block_##op(T* place, T value) {                                                 \
    T old = *place;                                                                                  \
    *place = (T)(expression);                                                                        \
    return old;                                                                                      \
  }
CROQ_ATOMIC(add, old + value)
CROQ_ATOMIC(sub, old - value)
CROQ_ATOMIC(exch, value)
CROQ_ATOMIC(min, value < old ? value : old)
CROQ_ATOMIC(max, old < value ? value : old)
#undef CROQ_ATOMIC
#define CROQ_ATOMIC(op, sign)                                                                        \
  template <typename T>                                                                              \
  CROQ_INLINE T croq_global_##op(T* place, T value) { return __atomic_fetch_##op(place, value, __ATOMIC_RELAXED); } \
  template <typename T>                                                                              \
  CROQ_INLINE T croq_block_##op(T* place, T value) {                                                 \
    T old = *place;                                                                                  \
    *place = (T)(old sign value);                                                                    \
    return old;                                                                                      \
  }
CROQ_ATOMIC(and, &)
CROQ_ATOMIC(or, |)
CROQ_ATOMIC(xor, ^)
#undef CROQ_ATOMIC
template <typename T>
CROQ_INLINE T croq_global_cas(T* place, T expected, T value) {
  T old;
  __atomic_load(place, &old, __ATOMIC_RELAXED);
  if (__builtin_memcmp(&old, &expected, sizeof old)) return old;
  __atomic_compare_exchange(place, &expected, &value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
template <typename T>
CROQ_INLINE T croq_block_cas(T* place, T expected, T value) {
  T old = *place;
  if (old == expected) *place = value;
  return old;
}

// Stores a vector past the caches, in parts of 16 bytes: NumPy aligns arrays to no more. Measured with three arrays of
// 64 MiB: 1.2 to 1.6 times faster than stores that fetch the line first, and as fast as whole lines.
#if defined(__has_builtin)
#if __has_builtin(__builtin_nontemporal_store)
#define CROQ_STREAM_PART(place, part) __builtin_nontemporal_store(part, place)
#endif
#endif
#if !defined(CROQ_STREAM_PART) && defined(__SSE__)
#define CROQ_STREAM_PART(place, part) __builtin_ia32_movntps((float*)(place), part)
#endif
template <typename Place, typename Vector>
CROQ_INLINE void croq_stream(Place* place, Vector value) {
#if defined(CROQ_STREAM_PART)
  typedef float part __attribute__((vector_size(16), may_alias));
  constexpr int parts = sizeof(Vector) / 16;
  if (parts && !((uintptr_t)place & 15)) {
    part pieces[parts ? parts : 1];
    __builtin_memcpy(pieces, &value, sizeof value);
#if !defined(__CUDACC__)  // its front end does not know the words
#pragma GCC unroll 8
#endif
    for (int i = 0; i < parts; ++i) CROQ_STREAM_PART((part*)place + i, pieces[i]);
    return;
  }
#endif
  __builtin_memcpy(place, &value, sizeof value);
}
// Streamed stores are seen by other threads after this.
CROQ_INLINE void croq_stream_end() {
#if defined(__SSE__)
  __builtin_ia32_sfence();
#endif
}

template <typename T>
CROQ_INLINE T croq_load(const int64_t* words, int index) {
  T out;
  __builtin_memcpy(&out, words + index, sizeof out);
  return out;
}
