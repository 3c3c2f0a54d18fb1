// How the C++ functions that replace tileflow functions call the CPU runtime: checks at entry, the call, and what a failed
// check says before it ends the program. Included by whole programs alone.
#pragma once
#include "choreo.h"
#include "croq_cpu.h"

extern "C" const croq_runtime* croq_runtime_alone();
extern "C" int32_t croq_run(croq_entry entry, const int64_t* words, croq_failure* failure);

// ------------------------------------------------------------------------------------------------------ entry checks
namespace croq_host {
using choreo::croq_die;

[[noreturn]] CROQ_COLD void refuse(const char* declared, const char* text) {
  char all[2048];
  snprintf(all, sizeof all, "%s\n    declared: %s", text, declared);
  croq_die(nullptr, 0, all, "");
}

// A tileflow function's parameter that is an array: its name and which of its extents the message is about.
struct parameter {
  const char* function;
  const char* declared;  // the function's signature
  const char* name;
};
CROQ_COLD void unequal(const parameter& p, int dimension, int64_t expected, int64_t got, const char* symbol,
                       const char* other, int other_dimension) {
  char text[512], as[160] = "";
  if (symbol)
    snprintf(as, sizeof as, " (%s is that in dimension %d of `%s`)", symbol, other_dimension, other);
  snprintf(text, sizeof text, "%s: parameter `%s`: dimension %d: expected %lld, got %lld%s", p.function, p.name,
           dimension, (long long)expected, (long long)got, as);
  refuse(p.declared, text);
}
template <typename T, size_t Rank>
CROQ_INLINE void there(const parameter& p, const choreo::spanned_view<T, Rank>& view) {
  // Without elements there need be no memory (an empty std::vector); what is wrong then is the extent.
  if (CROQ_LIKELY(view.data() != nullptr) || view.element_count() == 0) return;
  char text[256];
  snprintf(text, sizeof text, "%s: parameter `%s` is a null pointer", p.function, p.name);
  refuse(p.declared, text);
}
template <typename T, size_t Rank>
CROQ_INLINE void expect(const parameter& p, const choreo::spanned_view<T, Rank>& view, int dimension, int64_t expected,
                        const char* symbol = nullptr, const char* other = nullptr, int other_dimension = 0) {
  const int64_t got = (int64_t)view.shape()[dimension];
  if (CROQ_UNLIKELY(got != expected)) unequal(p, dimension, expected, got, symbol, other, other_dimension);
}
// The extent that a symbolic dimension stands for.
template <typename T, size_t Rank>
CROQ_INLINE int64_t extent(const parameter& p, const choreo::spanned_view<T, Rank>& view, int dimension) {
  const int64_t got = (int64_t)view.shape()[dimension];
  if (CROQ_LIKELY(got >= 1)) return got;
  char text[256];
  snprintf(text, sizeof text, "%s: parameter `%s`: dimension %d: expected 1 or more, got %lld", p.function, p.name,
           dimension, (long long)got);
  refuse(p.declared, text);
}
// An extent of the result, which is computed from the arguments.
CROQ_INLINE size_t result_extent(const char* function, const char* declared, const char* written, int64_t value) {
  if (CROQ_LIKELY(value >= 1)) return (size_t)value;
  char text[256];
  snprintf(text, sizeof text, "%s: extent `%s` of the result is %lld; extents are at least 1 [RTA03]", function, written,
           (long long)value);
  refuse(declared, text);
}
template <typename T, size_t A, typename U, size_t B>
CROQ_INLINE bool overlap(const choreo::spanned_view<T, A>& a, const choreo::spanned_view<U, B>& b) {
  const char *first = (const char*)a.data(), *second = (const char*)b.data();
  return first < second + b.bytes() && second < first + a.bytes();
}
[[noreturn]] CROQ_COLD void share_memory(const parameter& a, const char* other) {
  char text[256];
  snprintf(text, sizeof text, "%s: `%s` and `%s` share memory, and the function writes to both", a.function, a.name,
           other);
  refuse(a.declared, text);
}
// Memory of an input that a function reads: a copy when it overlaps an array that the function writes to.
struct input {
  void* copy = nullptr;
  const void* data;
  template <typename T, size_t Rank>
  explicit input(const choreo::spanned_view<T, Rank>& view) : data(view.data()) {}
  input(const input&) = delete;
  ~input() { free(copy); }
  template <typename T, size_t A, typename U, size_t B>
  void apart_from(const choreo::spanned_view<T, A>& view, const choreo::spanned_view<U, B>& written) {
    if (copy || !overlap(view, written)) return;
    copy = choreo::croq_memory(view.element_count(), sizeof(T), false);
    memcpy(copy, view.data(), view.bytes());
    data = copy;
  }
};

template <typename T>
CROQ_INLINE int64_t word(T value) {
  int64_t out = 0;
  __builtin_memcpy(&out, &value, sizeof value);
  return out;
}

// --------------------------------------------------------------------------------------------------- failed checks
// One check of a tileflow function. Lists are separated by newlines. `kind`: i index, a assertion, or where fibers wait:
// d deadlock, m meeting, n named barrier, e event, t trigger. `types` has i, f or b per operand.
struct check {
  char kind;
  const char *place, *excerpt, *what, *code, *instance, *operands, *types;
  int count;  // of `dims`: the dimensions of an index check, the extents of an event
  int dims[8];
};

struct message {
  char text[4096];
  size_t size = 0;
  __attribute__((format(printf, 2, 3))) void add(const char* format, ...) {
    va_list list;
    va_start(list, format);
    const int more = vsnprintf(text + size, sizeof text - size, format, list);
    va_end(list);
    size = more > 0 && size + (size_t)more < sizeof text ? size + (size_t)more : sizeof text - 1;
  }
};
CROQ_COLD int item(const char*& list) {  // length of the next item, -1 at the end
  if (!*list) return -1;
  const char* end = strchr(list, '\n');
  return end ? (int)(end - list) : (int)strlen(list);
}
CROQ_COLD void values(message& m, const char* names, const char* types, const int64_t*& value, const int64_t* end) {
  const char* separator = "";
  for (int size; (size = item(names)) >= 0 && value < end; ++value) {
    m.add("%s%.*s = ", separator, size, names);
    if (types && *types == 'f') m.add("%.17g", choreo::croq_bits<double>(*value));
    else if (types && *types == 'b') m.add("%s", *value ? "true" : "false");
    else m.add("%lld", (long long)*value);
    types += types && *types ? 1 : 0;
    separator = ", ";
    names += names[size] ? size + 1 : size;
  }
}
CROQ_COLD void event(message& m, const check& c, int64_t slot) {
  int64_t step = 1;
  for (int d = 0; d < c.count; ++d) step *= c.dims[d];
  m.add("`%s", c.what);
  slot %= step;
  for (int d = 0; d < c.count; ++d) {
    step /= c.dims[d];
    m.add("[%lld]", (long long)(slot / step % c.dims[d]));
  }
  m.add("`");
}
CROQ_COLD void waiting(message& m, const check* checks, const int64_t* value, const int64_t* end) {
  const int64_t ended = *value++;
  m.add("deadlock: ");
  for (const char* separator = ""; value + 4 <= end; value += 4, separator = "; ") {
    const check& c = checks[value[0]];
    m.add("%s%lld instance%s ", separator, (long long)value[1], value[1] == 1 ? " waits" : "s wait");
    if (c.kind == 'e') {
      m.add("for ");
      event(m, c, value[2]);
      m.add(" (generation %lld)", (long long)value[3]);
    } else if (c.kind == 'n') {
      m.add("at named barrier %lld", (long long)value[2]);
    } else {
      m.add("at %s", c.what);
    }
    m.add(" (%s)", c.place);
  }
  if (ended) m.add("; %lld instance%s ended", (long long)ended, ended == 1 ? " has" : "s have");
}
CROQ_COLD void describe(message& m, const check* checks, const croq_failure& f) {
  const check& c = checks[f.check];
  const int64_t *value = f.values, *end = f.values + f.count;
  if (c.kind == 'd') return waiting(m, checks, value, end);
  if (c.kind == 'm') return m.add("instances that must meet stand at different statements; some at %s", c.what);
  if (c.kind == 'e' || c.kind == 't' || c.kind == 'n') {
    if (f.count < 3) return m.add("an event is used out of order");
    if (value[1] < 0)
      return m.add("the order of `%s.at(...)` is %lld; it counts from 0", c.what, (long long)value[0]);
    if (c.kind == 't') {
      event(m, c, value[0]);
      m.add(" is triggered for generation %lld while an instance has still to wait for generation %lld",
            (long long)value[1], (long long)value[2]);
    } else {
      m.add("this waits for generation %lld of ", (long long)value[1]);
      event(m, c, value[0]);
      m.add(", but the next one that the instance has not waited for is %lld", (long long)value[2]);
    }
    return;
  }
  message where;
  where.text[0] = 0;
  values(where, c.instance, nullptr, value, end);
  if (c.kind == 'i') {
    int failed = -1;
    for (int d = 0; d < c.count && value + 2 * d + 2 <= end; ++d)
      if (failed < 0 && !((uint64_t)value[2 * d] < (uint64_t)value[2 * d + 1])) failed = d;
    if (failed >= 0)
      m.add("index %lld is out of range for dimension %d of `%s`, which has extent %lld", (long long)value[2 * failed],
            c.dims[failed], c.what, (long long)value[2 * failed + 1]);
    else m.add("an index is out of range for `%s`", c.what);
  } else {
    m.add("%s", c.what);
    if (*c.operands) {
      m.add(" (");
      values(m, c.operands, c.types, value, end);
      m.add(")");
    }
  }
  if (where.size) m.add(" (at %s)", where.text);
}

// What is probably not meant, said once: it stops nothing.
template <typename... Values>
CROQ_COLD void warn(const char* function, const check* checks, int32_t number, Values... values) {
  const croq_failure found = {number, (int32_t)sizeof...(Values), {(int64_t)values...}};
  message m;
  m.add("%s: warning: %s: ", checks[number].place, function);
  describe(m, checks, found);
  m.add(" [%s]\n%s%s", checks[number].code, checks[number].excerpt, *checks[number].excerpt ? "\n" : "");
  std::cout.flush();
  fputs(m.text, stderr);
}

[[noreturn]] CROQ_COLD void failed(const char* function, int32_t code, const check* checks, const croq_failure& failure) {
  message m;
  if (code == CROQ_CHECK) {
    const check& c = checks[checks[failure.check].kind == 'd' && failure.count > 1 ? failure.values[1] : failure.check];
    if (*c.place) m.add("%s: ", c.place);
    m.add("%s: ", function);
    describe(m, checks, failure);
    if (*c.code) m.add(" [%s]", c.code);
    if (*c.excerpt) m.add("\n%s", c.excerpt);
  } else {
    m.add("%s: %s", function, code == CROQ_MEMORY ? "not enough memory for its buffers" : "it was interrupted");
  }
  croq_die(nullptr, 0, m.text, "");
}

// Runs a tileflow function; a failed check ends the program.
CROQ_INLINE void run(const char* function, croq_entry entry, const int64_t* words, const check* checks) {
  croq_failure failure;
  if (!croq_rt) croq_rt = croq_runtime_alone();
  const int32_t code = croq_run(entry, words, &failure);
  if (CROQ_UNLIKELY(code != CROQ_OK)) failed(function, code, checks, failure);
}
}  // namespace croq_host
