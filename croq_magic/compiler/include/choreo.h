// The host library of whole programs: shapes, views, arrays, checks. Included before the program's own text, which may
// use the standard library below without including it. Nothing here depends on a target.
//
// Measured with g++ 12: a program with this header compiles in 0.36 s, of which <iostream> is 0.25 s; <random> alone would
// add 0.07 s.
#pragma once
#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <iomanip>
#include <iostream>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__GLIBC__)
#include <ext/stdio_sync_filebuf.h>
#include <unistd.h>
#endif

#include "croq_types.h"

// The place of a call, where the compiler can tell it.
#define CROQ_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

namespace choreo {
// -------------------------------------------------------------------------------------------------------- failures
// Ends the program: what it has printed comes before the message.
[[noreturn]] __attribute__((noinline, cold)) inline void croq_die(const char* file, int line, const char* what,
                                                                  const char* message) {
  std::cout.flush();
  std::fflush(stdout);
  if (file) std::fprintf(stderr, "%s:%d: ", file, line);
  std::fprintf(stderr, "%s%s%s\n", what, *what && *message ? ": " : "", message);
  std::fflush(stderr);
  std::abort();
}

// Ends the program with file, line and message unless the condition holds.
inline void choreo_assert(bool condition, const char* message = "", CROQ_HERE) {
  if (CROQ_UNLIKELY(!condition)) croq_die(file, line, "assertion failed", message);
}
inline void choreo_assert(bool condition, const std::string& message, CROQ_HERE) {
  if (CROQ_UNLIKELY(!condition)) croq_die(file, line, "assertion failed", message.c_str());
}
inline void croq_assert(bool condition, const char* message = "", CROQ_HERE) {
  choreo_assert(condition, message, file, line);
}
inline void croq_assert(bool condition, const std::string& message, CROQ_HERE) {
  choreo_assert(condition, message, file, line);
}
inline void runtime_check(bool condition, const char* message = "", CROQ_HERE) {
  if (CROQ_UNLIKELY(!condition)) croq_die(file, line, "runtime check failed", message);
}
inline void runtime_check(bool condition, const std::string& message, CROQ_HERE) {
  runtime_check(condition, message.c_str(), file, line);
}

__attribute__((noinline, cold)) inline void croq_out_of_range(size_t index, size_t dimension, size_t extent) {
  char text[160];
  std::snprintf(text, sizeof text, "index %lld is out of range for dimension %zu, which has extent %zu",
                (long long)index, dimension, extent);
  croq_die(nullptr, 0, text, "");
}
inline void croq_in_range(size_t index, size_t dimension, size_t extent) {
#ifndef NDEBUG
  if (CROQ_UNLIKELY(index >= extent)) croq_out_of_range(index, dimension, extent);
#endif
  (void)index, (void)dimension, (void)extent;
}

// ---------------------------------------------------------------------------------------------------------- shapes
// The extents of an array, the slowest dimension first.
template <size_t Rank>
class mdspan {
  static_assert(Rank > 0, "a shape has at least one dimension");
  size_t extents_[Rank];

 public:
  mdspan() : extents_{} {}
  mdspan(std::initializer_list<size_t> extents) {
    if (extents.size() != Rank) {
      char text[96];
      std::snprintf(text, sizeof text, "a shape of rank %zu is given %zu extents", Rank, extents.size());
      croq_die(nullptr, 0, text, "");
    }
    std::copy(extents.begin(), extents.end(), extents_);
  }
  explicit mdspan(const size_t* extents) { std::copy(extents, extents + Rank, extents_); }

  size_t operator[](size_t dimension) const {
    croq_in_range(dimension, 0, Rank);
    return extents_[dimension];
  }
  size_t& operator[](size_t dimension) {
    croq_in_range(dimension, 0, Rank);
    return extents_[dimension];
  }
  static constexpr size_t size() { return Rank; }
  static constexpr size_t rank() { return Rank; }
  size_t element_count() const {
    size_t count = 1;
    for (size_t extent : extents_) count *= extent;
    return count;
  }
  const size_t* data() const { return extents_; }
  const size_t* begin() const { return extents_; }
  const size_t* end() const { return extents_ + Rank; }
  bool operator==(const mdspan& other) const { return std::equal(begin(), end(), other.begin()); }
  bool operator!=(const mdspan& other) const { return !(*this == other); }
};
template <size_t A, size_t B, typename = std::enable_if_t<A != B>>
bool operator==(const mdspan<A>&, const mdspan<B>&) {
  return false;
}
template <size_t A, size_t B, typename = std::enable_if_t<A != B>>
bool operator!=(const mdspan<A>&, const mdspan<B>&) {
  return true;
}
template <size_t Rank>
std::ostream& operator<<(std::ostream& out, const mdspan<Rank>& shape) {
  for (size_t i = 0; i < Rank; ++i) out << (i ? ", " : "[") << shape[i];
  return out << ']';
}

// ------------------------------------------------------------------------------------------------- random contents
// Integers of splitmix64, seeded by the environment variable CHOREO_SEED, else differently each time.
inline uint64_t croq_random() {
  static uint64_t state = [] {
    const char* seed = std::getenv("CHOREO_SEED");
    if (seed && *seed) return (uint64_t)std::strtoull(seed, nullptr, 0);
    int place;
    return (uint64_t)std::chrono::steady_clock::now().time_since_epoch().count() ^ (uint64_t)(uintptr_t)&place << 20;
  }();
  uint64_t z = state += 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

// Whether a type is one of the integers below 8 bits, which convert to int32_t.
template <int Bits, bool Signed>
constexpr bool croq_small_whole(const small_integer<Bits, Signed>*) { return true; }
constexpr bool croq_small_whole(const s6*) { return true; }
constexpr bool croq_small_whole(...) { return false; }

// A number from `low` to `high`: whole ones include both ends, others exclude `high`.
template <typename T>
T croq_between(T low, T high) {
  if constexpr (std::is_same<T, bool>::value) {
    return low == high ? low : (croq_random() & 1) != 0;
  } else if constexpr (std::is_integral<T>::value) {
    const uint64_t count = (uint64_t)high - (uint64_t)low + 1;  // 0 for all 64-bit numbers
    if (count == 0) return (T)croq_random();
    const uint64_t most = ~0ull - (~0ull % count + 1) % count;  // above it some remainders would be likelier
    uint64_t number = croq_random();
    while (number > most) number = croq_random();
    return (T)((uint64_t)low + number % count);
  } else if constexpr (croq_small_whole((const T*)nullptr)) {
    return (T)croq_between<int32_t>((int32_t)low, (int32_t)high);
  } else {
    const double from = (double)low, to = (double)high;
    for (int tries = 0; tries < 100; ++tries) {  // a narrow type may round up to `high`
      const T number = (T)(from + (to - from) * ((double)(croq_random() >> 11) * 0x1p-53));
      if ((double)number < to && (double)number >= from) return number;
    }
    return low;
  }
}

// -------------------------------------------------------------------------------------------------- views and arrays
template <typename T, size_t Rank>
class spanned_view;

// What `x[i]` is while subscripts are missing: the part of an array that begins there.
template <typename T, size_t Rank, size_t Left>
class croq_part {
  T* data_;
  const size_t* extents_;  // of the whole array

 public:
  croq_part(T* data, const size_t* extents) : data_(data), extents_(extents) {}
  decltype(auto) operator[](size_t index) const {
    constexpr size_t dimension = Rank - Left;
    croq_in_range(index, dimension, extents_[dimension]);
    if constexpr (Left == 1) {
      return (data_[index]);
    } else {
      size_t step = 1;
      for (size_t d = dimension + 1; d < Rank; ++d) step *= extents_[d];
      return croq_part<T, Rank, Left - 1>(data_ + index * step, extents_);
    }
  }
  T* data() const { return data_; }
  mdspan<Left> shape() const { return mdspan<Left>(extents_ + (Rank - Left)); }
  operator spanned_view<T, Left>() const { return spanned_view<T, Left>(data_, shape()); }
};

// What views and arrays have in common. `Self` gives `data()` and `shape()`.
template <typename Self, typename T, size_t Rank>
class croq_contents {
  const Self& self() const { return static_cast<const Self&>(*this); }

 public:
  typedef T value_type;
  static constexpr size_t rank() { return Rank; }
  size_t element_count() const { return self().shape().element_count(); }
  size_t bytes() const { return element_count() * sizeof(T); }

  // Every element gets the value.
  void fill(T value) { std::fill_n(mutable_data(), element_count(), value); }
  // Uniform random numbers between the bounds: integers include both, floats exclude the upper one.
  void fill_random(T low, T high) {
    if (high < low) croq_die(nullptr, 0, "fill_random: the lower bound is above the upper one", "");
    T* data = mutable_data();
    for (size_t i = 0, count = element_count(); i < count; ++i) data[i] = croq_between<T>(low, high);
  }
  // The same for 8-bit floats, whose values are given as floats; bytes hold the format e4m3.
  void fill_fp8(float value) {
    for (size_t i = 0, count = element_count(); i < count; ++i) store_fp8(i, value);
  }
  void fill_random_fp8(float low, float high) {
    if (high < low) croq_die(nullptr, 0, "fill_random_fp8: the lower bound is above the upper one", "");
    for (size_t i = 0, count = element_count(); i < count; ++i) {
      if constexpr (std::is_integral<T>::value) store_fp8(i, (float)croq_between<f8_e4m3>(low, high));
      else store_fp8(i, (float)croq_between<T>((T)low, (T)high));
    }
  }

 private:
  T* mutable_data() { return static_cast<Self&>(*this).data(); }
  void store_fp8(size_t i, float value) {
    static_assert(sizeof(T) == 1, "the elements of this array have more than 8 bits");
    if constexpr (std::is_integral<T>::value) mutable_data()[i] = (T)f8_e4m3(value).bits;
    else mutable_data()[i] = T(value);
  }
};

// An array in memory that somebody else owns, in C order.
template <typename T, size_t Rank>
class spanned_view : public croq_contents<spanned_view<T, Rank>, T, Rank> {
  T* data_;
  mdspan<Rank> shape_;

 public:
  spanned_view(T* data, const mdspan<Rank>& shape) : data_(data), shape_(shape) {}
  T* data() const { return data_; }
  const mdspan<Rank>& shape() const { return shape_; }
  spanned_view view() const { return *this; }
  T* begin() const { return data_; }
  T* end() const { return data_ + this->element_count(); }
  decltype(auto) operator[](size_t index) const { return croq_part<T, Rank, Rank>(data_, shape_.data())[index]; }
};

// Memory of an array, aligned for vectors; ends the program when there is none.
inline void* croq_memory(size_t count, size_t size, bool zeroed) {
  size_t bytes = 0;
  void* memory = nullptr;
  const bool wraps = __builtin_mul_overflow(count, size, &bytes) || bytes > (~(size_t)0 >> 1);
  if (wraps || posix_memalign(&memory, 128, bytes ? bytes : 1) != 0) {
    char text[96];
    std::snprintf(text, sizeof text, "not enough memory for an array of %zu elements of %zu bytes", count, size);
    croq_die(nullptr, 0, text, "");
  }
  if (zeroed) std::memset(memory, 0, bytes);
  return memory;
}

// An array that owns its memory. It can be moved, not copied.
template <typename T, size_t Rank>
class spanned_data : public croq_contents<spanned_data<T, Rank>, T, Rank> {
  T* data_;
  mdspan<Rank> shape_;

 public:
  // Contents are unspecified unless `zeroed`.
  explicit spanned_data(const mdspan<Rank>& shape, bool zeroed = false)
      : data_((T*)croq_memory(shape.element_count(), sizeof(T), zeroed)), shape_(shape) {}
  spanned_data(spanned_data&& other) noexcept : data_(other.data_), shape_(other.shape_) { other.data_ = nullptr; }
  spanned_data& operator=(spanned_data&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(shape_, other.shape_);
    return *this;
  }
  spanned_data(const spanned_data&) = delete;
  spanned_data& operator=(const spanned_data&) = delete;
  ~spanned_data() { std::free(data_); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  const mdspan<Rank>& shape() const { return shape_; }
  spanned_view<T, Rank> view() const { return spanned_view<T, Rank>(data_, shape_); }
  operator spanned_view<T, Rank>() const { return view(); }
  T* begin() { return data_; }
  T* end() { return data_ + this->element_count(); }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + this->element_count(); }
  decltype(auto) operator[](size_t index) { return croq_part<T, Rank, Rank>(data_, shape_.data())[index]; }
  decltype(auto) operator[](size_t index) const {
    return croq_part<const T, Rank, Rank>(data_, shape_.data())[index];
  }
};

template <typename T, size_t Rank>
bool operator==(const spanned_view<T, Rank>& a, const spanned_view<T, Rank>& b) {
  if (a.shape() != b.shape()) return false;
  for (size_t i = 0, count = a.element_count(); i < count; ++i)
    if (!(a.data()[i] == b.data()[i])) return false;
  return true;
}
template <typename T, size_t Rank>
bool operator==(const spanned_data<T, Rank>& a, const spanned_data<T, Rank>& b) { return a.view() == b.view(); }
template <typename T, size_t Rank>
bool operator==(const spanned_data<T, Rank>& a, const spanned_view<T, Rank>& b) { return a.view() == b; }
template <typename T, size_t Rank>
bool operator==(const spanned_view<T, Rank>& a, const spanned_data<T, Rank>& b) { return a == b.view(); }
template <typename T, size_t Rank>
bool operator!=(const spanned_view<T, Rank>& a, const spanned_view<T, Rank>& b) { return !(a == b); }
template <typename T, size_t Rank>
bool operator!=(const spanned_data<T, Rank>& a, const spanned_data<T, Rank>& b) { return !(a == b); }
template <typename T, size_t Rank>
bool operator!=(const spanned_data<T, Rank>& a, const spanned_view<T, Rank>& b) { return !(a == b); }
template <typename T, size_t Rank>
bool operator!=(const spanned_view<T, Rank>& a, const spanned_data<T, Rank>& b) { return !(a == b); }

// ------------------------------------------------------------------------------------------- making views and arrays
// A view of memory at `data`; the extents are given with the slowest dimension first.
template <size_t Rank, typename T>
spanned_view<T, Rank> make_spanview(T* data, std::initializer_list<size_t> extents) {
  return spanned_view<T, Rank>(data, mdspan<Rank>(extents));
}
template <size_t Rank, typename T>
spanned_view<T, Rank> make_spanview(const T* data, std::initializer_list<size_t> extents) {
  return spanned_view<T, Rank>(const_cast<T*>(data), mdspan<Rank>(extents));
}
template <size_t Rank, typename T>
spanned_view<std::remove_const_t<T>, Rank> make_spanview(T* data, const mdspan<Rank>& shape) {
  return spanned_view<std::remove_const_t<T>, Rank>(const_cast<std::remove_const_t<T>*>(data), shape);
}
// The same with the element type given, for any pointer, one to memory of a device included.
template <typename T, size_t Rank>
spanned_view<T, Rank> make_spanview(const void* data, std::initializer_list<size_t> extents) {
  return spanned_view<T, Rank>((T*)const_cast<void*>(data), mdspan<Rank>(extents));
}
template <typename T, size_t Rank>
spanned_view<T, Rank> make_spanview(const void* data, const mdspan<Rank>& shape) {
  return spanned_view<T, Rank>((T*)const_cast<void*>(data), shape);
}
// A view of a C array.
template <typename T, size_t N>
spanned_view<T, 1> make_spanview(T (&array)[N]) {
  return spanned_view<T, 1>(array, {N});
}
template <typename T, size_t M, size_t N>
spanned_view<T, 2> make_spanview(T (&array)[M][N]) {
  return spanned_view<T, 2>(&array[0][0], {M, N});
}
template <typename T, size_t L, size_t M, size_t N>
spanned_view<T, 3> make_spanview(T (&array)[L][M][N]) {
  return spanned_view<T, 3>(&array[0][0][0], {L, M, N});
}
// The older name.
template <size_t Rank, typename T>
auto make_spanned(T* data, std::initializer_list<size_t> extents) {
  return make_spanview<Rank>(data, extents);
}

// An array of the given extents; its contents are unspecified.
template <typename T, typename... Extents,
          typename = std::enable_if_t<(std::is_convertible<Extents, size_t>::value && ...)>>
spanned_data<T, sizeof...(Extents)> make_spandata(Extents... extents) {
  return spanned_data<T, sizeof...(Extents)>(mdspan<sizeof...(Extents)>{(size_t)extents...});
}
template <typename T, size_t Rank>
spanned_data<T, Rank> make_spandata(std::initializer_list<size_t> extents) {
  return spanned_data<T, Rank>(mdspan<Rank>(extents));
}
template <typename T, size_t Rank>
spanned_data<T, Rank> make_spandata(const mdspan<Rank>& shape) {
  return spanned_data<T, Rank>(shape);
}
// An array with a copy of what lies at `data`.
template <size_t Rank, typename T>
spanned_data<std::remove_const_t<T>, Rank> copy_as_spanned(T* data, const mdspan<Rank>& shape) {
  spanned_data<std::remove_const_t<T>, Rank> copy(shape);
  std::copy_n(data, copy.element_count(), copy.data());
  return copy;
}
template <size_t Rank, typename T>
spanned_data<std::remove_const_t<T>, Rank> copy_as_spanned(T* data, std::initializer_list<size_t> extents) {
  return copy_as_spanned<Rank>(data, mdspan<Rank>(extents));
}

// ----------------------------------------------------------------------------------------------------- conversions
inline f16 f32_to_f16(float value) { return f16(value); }
inline float f16_to_f32(f16 value) { return (float)value; }
inline bf16 f32_to_bf16(float value) { return bf16(value); }
inline float bf16_to_f32(bf16 value) { return (float)value; }

// ---------------------------------------------------------------------------------------------- output in a notebook
// Where CROQ_STREAMED is set, both streams are one pipe whose reader wants the lines in their order and wants to know
// which are errors: standard output is written line by line, and what goes to stderr or std::cerr stands between marks,
// the value of the variable and E or O.
#if defined(__GLIBC__)
inline ssize_t croq_marked(void* mark, const char* text, size_t size) {
  const std::string mark_text((const char*)mark);
  const std::string all = mark_text + "E" + std::string(text, size) + mark_text + "O";
  for (size_t done = 0; done < all.size();) {
    const ssize_t count = ::write(2, all.data() + done, all.size() - done);
    if (count <= 0) return 0;
    done += (size_t)count;
  }
  return (ssize_t)size;
}
#endif
inline bool croq_stream() {
  const char* mark = std::getenv("CROQ_STREAMED");
  if (!mark || !*mark) return false;
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 16);
#if defined(__GLIBC__)
  cookie_io_functions_t functions = {nullptr, croq_marked, nullptr, nullptr};
  if (FILE* file = fopencookie((void*)mark, "w", functions)) {
    std::setvbuf(file, nullptr, _IONBF, 0);
    stderr = file;
    static __gnu_cxx::stdio_sync_filebuf<char> buffer(file);
    std::cerr.rdbuf(&buffer);
    std::clog.rdbuf(&buffer);
  }
#endif
  return true;
}
inline const bool croq_streamed = croq_stream();
}  // namespace choreo

using choreo::croq_assert;

#if defined(__FLT16_MANT_DIG__) && !defined(CROQ_SOFTWARE_F16)
// A built-in type: only the global namespace is looked up for it.
inline std::ostream& operator<<(std::ostream& out, choreo::f16 value) { return out << (float)value; }
#endif
