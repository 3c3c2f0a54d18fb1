// The CPU runtime: a thread pool over block ranges, the stop button, storage, prints and the fast call path.
// Compiled once per compiler and cached; generated modules reach it through the table of croq_cpu.h.
//
// Measured reasons for its shape. OpenMP hangs after a fork and, beside a busy process, made a 40 us kernel take 9 ms.
// So: a launch is started by its calling thread alone; only when the first blocks show that threads pay are workers
// asked to help, and the caller never waits for a worker that has not claimed blocks. Blocks are claimed in shrinking
// chunks, so a worker that loses its core holds little.
#include "croq_cpu.h"

#include <pthread.h>
#if defined(__linux__)
#include <sched.h>
#endif
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// Several self-contained programs can be linked together: then the first of their runtimes serves them all.
#ifdef CROQ_SELF_CONTAINED
#define CROQ_ONCE __attribute__((weak))
#else
#define CROQ_ONCE
#endif
#define EXPORT extern "C" CROQ_ONCE __attribute__((visibility("default")))

namespace croq_inside {
namespace {

const int kSeats = 64;              // concurrent calls that the watchdog knows one by one
const int kSlots = 16;              // concurrent launches that workers can help
const int kMaxThreads = 256;
const int64_t kPollNanoseconds = 50 * 1000 * 1000;
const double kSmallLaunch = 20000;  // nanoseconds of remaining work below which threads are not worth waking
const double kProbe = 5000;         // nanoseconds the caller works alone before it decides

template <typename T>
T load(T& value) { return __atomic_load_n(&value, __ATOMIC_SEQ_CST); }
template <typename T, typename U>
void store(T& value, U next) { __atomic_store_n(&value, (T)next, __ATOMIC_SEQ_CST); }
template <typename T, typename U>
T add(T& value, U next) { return __atomic_fetch_add(&value, (T)next, __ATOMIC_SEQ_CST); }
template <typename T>
bool exchange_if(T& value, T& expected, T next) {
  return __atomic_compare_exchange_n(&value, &expected, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

int64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

// Python's entry points; null when a program runs without an interpreter. Objects are opaque here.
struct Python {
  void* (*tuple_item)(void*, intptr_t);
  unsigned long long (*integer)(void*);
  double (*real)(void*);
  void* (*save_thread)();
  void (*restore_thread)(void*);
  int (*check_signals)();
  int32_t (*write)(const char*, int64_t);
  pthread_t main_thread;
} python;

// A seat holds the flag through which the watchdog reaches a running call. Seats are never freed, so a late write of
// the watchdog lands in valid storage.
}  // namespace
struct alignas(64) Seat {
  int32_t taken;
  volatile int32_t attention;
};
namespace {
Seat seats[kSeats];
Seat standing = {1, 1};  // for calls beyond kSeats: they look up at every opportunity

}  // namespace
}  // namespace croq_inside

// One call of a tileflow function; lives on the stack of the calling thread.
struct croq_call {
  croq_lane lane;
  croq_inside::Seat* seat;
  int32_t stop;      // reason, a CROQ_ code; 0 while running
  int32_t claimed;   // the failure record has an owner
  croq_failure* failure;
  void* released;    // Python's thread state while the interpreter lock is given up
  int64_t last_signals;
  char* text;
  int64_t text_size, text_capacity;
};

#include "croq_calls.h"
#include "croq_schedule.h"
#include "croq_launch.h"

namespace croq_inside {
namespace {

const croq_runtime table = {CROQ_ABI, launch, poll, fail, allocate, release, print, print_number,
                            &fiber_table};

// Only the forking thread lives on in a child: its copy of the pool starts empty.
void after_fork_in_child() {
  pthread_mutex_init(&pool_lock, nullptr);
  pthread_cond_init(&pool_wake, nullptr);
  pthread_mutex_init(&watch_lock, nullptr);
  pthread_cond_init(&watch_wake, nullptr);
  workers = sleepers = watchdog_exists = watchdog_asleep = 0;
  for (Slot& slot : slots) {
    slot.state &= ~(kOpen | kInside);
    slot.owned = slot.waiting = 0;
    pthread_mutex_init(&slot.lock, nullptr);
    pthread_cond_init(&slot.done, nullptr);
  }
  for (Seat& seat : seats) seat.taken = 0;
  python.main_thread = pthread_self();
}

}  // namespace

// --------------------------------------------------------------------------------------------- entries for Python
EXPORT const croq_runtime* croq_runtime_table() { return &table; }

// Called once after loading. Every argument but `threads` may be null: then there is no interpreter to care for.
EXPORT void croq_runtime_start(int32_t threads, void* save_thread, void* restore_thread, void* check_signals,
                               uint64_t main_thread) {
  static bool started;
  wanted_threads = threads < 1 ? 1 : threads > kMaxThreads ? kMaxThreads : threads;
  python.save_thread = (void* (*)())save_thread;
  python.restore_thread = (void (*)(void*))restore_thread;
  python.check_signals = (int (*)())check_signals;
  python.main_thread = (pthread_t)main_thread;
  if (started) return;
  started = true;
  for (Slot& slot : slots) {
    pthread_mutex_init(&slot.lock, nullptr);
    pthread_cond_init(&slot.done, nullptr);
  }
  pthread_key_create(&scratch_key, free);
  pthread_key_create(&stacks_key, free_stacks);
  pthread_atfork(nullptr, nullptr, after_fork_in_child);
}

EXPORT void croq_runtime_write_to(void* write) { python.write = (int32_t (*)(const char*, int64_t))write; }
EXPORT void croq_runtime_memory(int64_t bytes) { most_memory = bytes; }
EXPORT void croq_runtime_threads(int32_t threads) {
  wanted_threads = threads < 1 ? 1 : threads > kMaxThreads ? kMaxThreads : threads;
}
// Threads of a program of its own: `CROQ_NUM_THREADS`, else the processors that it may use, a container's quota included.
static int32_t own_threads() {
  const char* chosen = getenv("CROQ_NUM_THREADS");
  if (chosen && atoi(chosen) > 0) return atoi(chosen);
  long count = sysconf(_SC_NPROCESSORS_ONLN);
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) count = CPU_COUNT(&set);
  if (FILE* file = fopen("/sys/fs/cgroup/cpu.max", "r")) {
    double quota, period;
    if (fscanf(file, "%lf %lf", &quota, &period) == 2 && period > 0) {
      const long most = (long)(quota / period + 0.5);
      if (most < count) count = most;
    }
    fclose(file);
  }
#endif
  return (int32_t)count;
}
static void start_alone() {
  croq_runtime_start(own_threads(), nullptr, nullptr, nullptr, 0);
  const int64_t pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  if (pages > 0 && size > 0) most_memory = pages * size;
}
// Starts the runtime in a process without an interpreter, once.
EXPORT const croq_runtime* croq_runtime_alone() {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, start_alone);
  return &table;
}

EXPORT int32_t croq_runtime_workers() { return load(workers); }

EXPORT void croq_runtime_objects(void* tuple_item, void* integer, void* real) {
  python.tuple_item = (void* (*)(void*, intptr_t))tuple_item;
  python.integer = (unsigned long long (*)(void*))integer;
  python.real = (double (*)(void*))real;
}

// Runs one tileflow function with the interpreter lock held by the caller; returns a CROQ_ code. With
// CROQ_INTERRUPTED a Python exception is set.
EXPORT int32_t croq_run(croq_entry entry, const int64_t* words, croq_failure* failure) {
  croq_call call;
  memset(&call, 0, sizeof call);
  call.seat = &standing;
  call.failure = failure;
  call.last_signals = 0;
  take_seat(&call);
  call.lane.attention = &call.seat->attention;
  call.lane.call = &call;
  call.lane.is_caller = 1;
  int32_t code = entry(&call.lane, words);
  take_lock(&call);
  if (call.seat != &standing) store(call.seat->taken, 0);
  if (call.text_size && call.stop != CROQ_INTERRUPTED && is_main_thread() && python.check_signals() != 0)
    stop_call(&call, CROQ_INTERRUPTED);
  if (call.stop != CROQ_INTERRUPTED) flush_text(&call);  // an exception that is set allows no more Python
  free(call.text);
  return call.stop ? call.stop : code;
}

// How one function is called with one set of extents: prepared once, so that a call is one foreign call of two
// arguments. `kinds` says, per item of the argument tuple, where its word comes from: 'a' the data pointer of a NumPy
// array (at byte `data_offset` of the object), 'i' an integer, 'f' a float, 'd' a double, '-' nothing. The words of
// the dimensions stand ready in `words`; `places` gives each item's word.
struct croq_plan {
  croq_entry entry;
  int64_t items, count, data_offset;
  const char* kinds;
  const int32_t* places;
  const int64_t* words;
};

static __thread croq_failure last_failure;
EXPORT const croq_failure* croq_last_failure() { return &last_failure; }

EXPORT int32_t croq_invoke(const croq_plan* plan, void* arguments) {
  int64_t few[64], *words = few;
  if (plan->count > 64) words = (int64_t*)malloc(sizeof(int64_t) * (size_t)plan->count);
  if (!words) return CROQ_MEMORY;
  memcpy(words, plan->words, sizeof(int64_t) * (size_t)plan->count);
  for (int64_t i = 0; i < plan->items; ++i) {
    int64_t& word = words[plan->places[i]];
    void* item = plan->kinds[i] == '-' ? nullptr : python.tuple_item(arguments, i);
    if (plan->kinds[i] == 'a') memcpy(&word, (char*)item + plan->data_offset, sizeof word);
    if (plan->kinds[i] == 'i') word = (int64_t)python.integer(item);
    if (plan->kinds[i] == 'd') {
      double value = python.real(item);
      memcpy(&word, &value, sizeof value);
    }
    if (plan->kinds[i] == 'f') {
      float value = (float)python.real(item);
      memcpy(&word, &value, sizeof value);
    }
  }
  int32_t code = croq_run(plan->entry, words, &last_failure);
  if (words != few) free(words);
  return code;
}

}  // namespace croq_inside
