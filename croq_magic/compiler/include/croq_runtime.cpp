// The CPU runtime: a thread pool over block ranges, the stop button, storage, prints and the fast call path.
// Compiled once per compiler and cached; generated modules reach it through the table of croq_cpu.h.
//
// Measured reasons for its shape. OpenMP hangs after a fork and, beside a busy process, made a 40 us kernel take 9 ms.
// So: a launch is started by its calling thread alone; only when the first blocks show that threads pay are workers
// asked to help, and the caller never waits for a worker that has not claimed blocks. Blocks are claimed in shrinking
// chunks, so a worker that loses its core holds little.
#include "croq_cpu.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

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
  void (*write)(const char*, int64_t);
  pthread_t main_thread;
} python;

// A seat holds the flag through which the watchdog reaches a running call. Seats are never freed, so a late write of
// the watchdog lands in valid storage.
struct alignas(64) Seat {
  int32_t taken;
  volatile int32_t attention;
};
Seat seats[kSeats];
Seat standing = {1, 1};  // for calls beyond kSeats: they look up at every opportunity

}  // namespace

// One call of a tileflow function; lives on the stack of the calling thread.
struct croq_call {
  croq_lane lane;
  Seat* seat;
  int32_t stop;      // reason, a CROQ_ code; 0 while running
  int32_t claimed;   // the failure record has an owner
  croq_failure* failure;
  void* released;    // Python's thread state while the interpreter lock is given up
  int64_t last_signals;
  char* text;
  int64_t text_size, text_capacity;
};

namespace {

// ------------------------------------------------------------------------------------------------------ the pool
struct alignas(64) Slot {
  uint64_t state;  // epoch << 32 | open << 31 | workers inside
  int32_t owned;
  croq_call* call;
  croq_blocks run;
  const void* frame;
  int64_t blocks, scratch_bytes;
  int32_t crew;
  double nanoseconds_per_block;
  int32_t waiting;
  pthread_mutex_t lock;
  pthread_cond_t done;
  alignas(64) int64_t next;
};
const uint64_t kOpen = 1ull << 31;
const uint64_t kInside = kOpen - 1;

Slot slots[kSlots];
int32_t wanted_threads = 1;  // the caller included
int32_t workers;
int32_t sleepers;
uint32_t work_sequence;
pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t pool_wake = PTHREAD_COND_INITIALIZER;

pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t watch_wake = PTHREAD_COND_INITIALIZER;
int32_t watchdog_exists, watchdog_asleep;
uint32_t calls_begun;

bool start_thread(void* (*body)(void*)) {
  sigset_t all, before;
  sigfillset(&all);  // Python handles signals in its main thread: ours must never be chosen for one
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  bool started = pthread_create(&thread, nullptr, body, nullptr) == 0;
  if (started) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

timespec wall_clock_after(int64_t nanoseconds) {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  int64_t total = t.tv_nsec + nanoseconds;
  t.tv_sec += total / 1000000000;
  t.tv_nsec = total % 1000000000;
  return t;
}

// Sets every running call's attention flag 20 times a second; sleeps after two idle seconds.
void* watchdog(void*) {
  uint32_t seen = load(calls_begun);
  for (int idle = 0;;) {
    timespec pause = {0, (long)kPollNanoseconds};
    nanosleep(&pause, nullptr);
    bool busy = false;
    for (Seat& seat : seats)
      if (load(seat.taken)) {
        seat.attention = 1;
        busy = true;
      }
    uint32_t begun = load(calls_begun);
    idle = busy || begun != seen ? 0 : idle + 1;
    seen = begun;
    if (idle < 40) continue;
    pthread_mutex_lock(&watch_lock);
    store(watchdog_asleep, 1);
    while (load(calls_begun) == seen) pthread_cond_wait(&watch_wake, &watch_lock);
    store(watchdog_asleep, 0);
    pthread_mutex_unlock(&watch_lock);
    idle = 0;
  }
}

void take_seat(croq_call* call) {
  static __thread int hint;
  for (int i = 0; i < kSeats; ++i) {
    Seat& seat = seats[(hint + i) % kSeats];
    int32_t free = 0;
    if (!load(seat.taken) && exchange_if(seat.taken, free, 1)) {
      hint = (hint + i) % kSeats;
      seat.attention = 0;
      call->seat = &seat;
      break;
    }
  }
  add(calls_begun, 1u);
  if (!load(watchdog_exists)) {
    pthread_mutex_lock(&watch_lock);
    if (!watchdog_exists) store(watchdog_exists, start_thread(watchdog));
    pthread_mutex_unlock(&watch_lock);
  } else if (load(watchdog_asleep)) {
    pthread_mutex_lock(&watch_lock);
    pthread_cond_signal(&watch_wake);
    pthread_mutex_unlock(&watch_lock);
  }
}

void give_up_lock(croq_call* call) {
  if (python.save_thread && !call->released) call->released = python.save_thread();
}

void take_lock(croq_call* call) {
  if (!call->released) return;
  python.restore_thread(call->released);
  call->released = nullptr;
}

void flush_text(croq_call* call) {  // needs the interpreter lock
  if (!call->text_size) return;
  if (python.write) python.write(call->text, call->text_size);
  else fwrite(call->text, 1, (size_t)call->text_size, stdout);
  call->text_size = 0;
}

void stop_call(croq_call* call, int32_t reason) {
  int32_t running = 0;
  exchange_if(call->stop, running, reason);
  call->seat->attention = 1;
}

// The calling thread's look at signals; everyone else only learns whether to stop.
void look_up(croq_call* call) {
  int64_t time = now();
  if (time - call->last_signals < kPollNanoseconds / 2) return;
  call->last_signals = time;
  if (!python.check_signals || !pthread_equal(pthread_self(), python.main_thread)) {
    give_up_lock(call);
    return;
  }
  take_lock(call);
  flush_text(call);
  if (python.check_signals() != 0) stop_call(call, CROQ_INTERRUPTED);
  give_up_lock(call);
}

int32_t poll_in_fiber(croq_lane* lane);

int32_t poll(croq_lane* lane) {
  if (lane->in_fiber) return poll_in_fiber(lane);
  croq_call* call = lane->call;
  if (lane->is_caller && call->seat != &standing && !load(call->stop)) call->seat->attention = 0;
  if (lane->is_caller && !load(call->stop)) look_up(call);
  return lane->stopped = load(call->stop) != 0;
}

// -------------------------------------------------------------------------------------------------------- storage
void* aligned(int64_t bytes) {
  void* storage = nullptr;
  if (bytes < 1) bytes = 1;
  return posix_memalign(&storage, 128, (size_t)bytes) == 0 ? storage : nullptr;
}

// Block storage of one thread, kept from launch to launch. A pthread key frees it when the thread ends: a C++
// destructor of a thread_local object would need the C++ runtime library, which zig builds anew (50 s).
struct Scratch {
  char* storage;
  int64_t size;
};
static __thread Scratch scratch;
pthread_key_t scratch_key, stacks_key;

bool give_scratch(croq_lane* lane, int64_t bytes) {
  if (bytes > scratch.size) {
    free(scratch.storage);
    scratch.storage = (char*)aligned(bytes);
    scratch.size = scratch.storage ? bytes : 0;
    pthread_setspecific(scratch_key, scratch.storage);
  }
  lane->scratch = scratch.storage;
  return bytes <= scratch.size;
}

void* allocate(croq_lane* lane, int64_t bytes) {
  void* storage = nullptr;
  if (bytes >= 0 && bytes <= (int64_t)1 << 46) storage = aligned(bytes);
  if (!storage) stop_call(lane->call, CROQ_MEMORY);
  else memset(storage, 0, (size_t)bytes);
  return storage;
}

void release(void* storage) { free(storage); }

// ------------------------------------------------------------------------------------------- failures and prints
void fail(croq_lane* lane, int32_t check, int32_t count, const int64_t* values) {
  croq_call* call = lane->call;
  int32_t free = 0;
  if (exchange_if(call->claimed, free, 1)) {
    croq_failure* record = call->failure;
    record->check = check;
    record->count = count < CROQ_VALUES ? count : CROQ_VALUES;
    memcpy(record->values, values, sizeof(int64_t) * (size_t)record->count);
  }
  stop_call(call, CROQ_CHECK);
  lane->stopped = 1;
}

void print(croq_lane* lane, const char* text, int64_t bytes) {
  croq_call* call = lane->call;
  if (call->text_size + bytes > call->text_capacity) {
    int64_t capacity = call->text_capacity * 2 + bytes + 256;
    char* bigger = (char*)realloc(call->text, (size_t)capacity);
    if (!bigger) return stop_call(call, CROQ_MEMORY);
    call->text = bigger;
    call->text_capacity = capacity;
  }
  memcpy(call->text + call->text_size, text, (size_t)bytes);
  call->text_size += bytes;
}

// kind 0: signed, 1: unsigned, 2: real ("%f"), 3: truth value
void print_number(croq_lane* lane, int32_t kind, int64_t integer, double real) {
  char text[512];
  int size = 0;
  if (kind == 0) size = snprintf(text, sizeof text, "%lld", (long long)integer);
  if (kind == 1) size = snprintf(text, sizeof text, "%llu", (unsigned long long)integer);
  if (kind == 2) size = snprintf(text, sizeof text, "%f", real);
  if (kind == 3) size = snprintf(text, sizeof text, "%s", integer ? "true" : "false");
  print(lane, text, size);
}

}  // namespace

#include "croq_fibers.h"

namespace {

// A fiber looks up through its scheduler, which has the thread's own stack.
int32_t poll_in_fiber(croq_lane* lane) {
  crew->wants_poll = 1;
  back_to_scheduler();
  return lane->stopped = load(lane->call->stop) != 0;
}

// ------------------------------------------------------------------------------------------------------- launches
// Takes blocks until none are left. Chunks shrink with what remains, but hold at least a few microseconds of work.
void take_part(Slot* slot, croq_lane* lane) {
  int64_t least = 1;
  if (slot->nanoseconds_per_block > 0) least = (int64_t)(2000 / slot->nanoseconds_per_block) + 1;
  while (!load(slot->call->stop)) {
    int64_t begin = load(slot->next), left = slot->blocks - begin;
    if (left <= 0) return;
    int64_t chunk = left / (4 * slot->crew);
    if (chunk < least) chunk = least;
    begin = add(slot->next, chunk);
    if (begin >= slot->blocks) return;
    int64_t end = begin + chunk < slot->blocks ? begin + chunk : slot->blocks;
    slot->run(slot->frame, begin, end, lane);
  }
}

void help(Slot* slot) {
  croq_call* call = slot->call;
  croq_lane lane = {&call->seat->attention, call, nullptr, 0, 0, 0};
  if (give_scratch(&lane, slot->scratch_bytes)) take_part(slot, &lane);
}

bool help_anyone() {
  bool helped = false;
  for (Slot& slot : slots) {
    uint64_t state = load(slot.state);
    if (!(state & kOpen) || load(slot.next) >= slot.blocks) continue;
    if ((int32_t)(state & kInside) >= slot.crew - 1) continue;
    if (!exchange_if(slot.state, state, state + 1)) continue;
    help(&slot);
    helped = true;
    uint64_t after = add(slot.state, ~0ull) - 1;
    if (!(after & kInside) && !(after & kOpen) && load(slot.waiting)) {
      pthread_mutex_lock(&slot.lock);
      pthread_cond_signal(&slot.done);
      pthread_mutex_unlock(&slot.lock);
    }
  }
  return helped;
}

void* worker(void*) {
  for (;;) {
    uint32_t seen = load(work_sequence);
    while (help_anyone()) {
    }
    int64_t until = now() + 30000;  // a short spin: launches in a loop find their workers awake
    bool more = false;
    do {
      for (int i = 0; i < 64 && !more; ++i) {
        more = load(work_sequence) != seen;
        relax();
      }
    } while (!more && now() < until);
    if (more) continue;
    pthread_mutex_lock(&pool_lock);
    add(sleepers, 1);
    while (load(work_sequence) == seen) pthread_cond_wait(&pool_wake, &pool_lock);
    add(sleepers, -1);
    pthread_mutex_unlock(&pool_lock);
  }
  return nullptr;
}

void call_workers(int32_t crew) {
  add(work_sequence, 1u);
  if (load(workers) < crew - 1) {
    pthread_mutex_lock(&pool_lock);
    while (workers < crew - 1 && start_thread(worker)) store(workers, workers + 1);
    pthread_mutex_unlock(&pool_lock);
  }
  if (load(sleepers)) {
    pthread_mutex_lock(&pool_lock);
    if (crew > 2) pthread_cond_broadcast(&pool_wake);
    else pthread_cond_signal(&pool_wake);
    pthread_mutex_unlock(&pool_lock);
  }
}

void wait_for_workers(Slot* slot, croq_lane* lane) {
  uint64_t state = __atomic_and_fetch(&slot->state, ~kOpen, __ATOMIC_SEQ_CST);
  for (int i = 0; i < 4000 && (state & kInside); ++i) {
    relax();
    state = load(slot->state);
  }
  if (!(state & kInside)) return;
  store(slot->waiting, 1);
  while (load(slot->state) & kInside) {
    pthread_mutex_lock(&slot->lock);
    timespec deadline = wall_clock_after(kPollNanoseconds);
    if (load(slot->state) & kInside) pthread_cond_timedwait(&slot->done, &slot->lock, &deadline);
    pthread_mutex_unlock(&slot->lock);
    if (load(slot->state) & kInside) poll(lane);
  }
  store(slot->waiting, 0);
}

Slot* open_slot(croq_call* call, croq_blocks run, const void* frame, int64_t begin, int64_t blocks,
                int64_t scratch_bytes, int32_t crew, double nanoseconds_per_block) {
  for (Slot& slot : slots) {
    int32_t free = 0;
    if (load(slot.owned) || !exchange_if(slot.owned, free, 1)) continue;
    slot.call = call;
    slot.run = run;
    slot.frame = frame;
    slot.blocks = blocks;
    slot.scratch_bytes = scratch_bytes;
    slot.crew = crew;
    slot.nanoseconds_per_block = nanoseconds_per_block;
    store(slot.next, begin);
    uint64_t epoch = (load(slot.state) >> 32) + 1;
    store(slot.state, epoch << 32 | kOpen);
    return &slot;
  }
  return nullptr;
}

int32_t launch(croq_lane* lane, croq_site* site, croq_blocks run, const void* frame, int64_t blocks,
               int64_t scratch_bytes, int32_t flags) {
  croq_call* call = lane->call;
  if (load(call->stop)) return load(call->stop);
  if (blocks <= 0) return 0;
  if (!give_scratch(lane, scratch_bytes)) {
    stop_call(call, CROQ_MEMORY);
    return call->stop;
  }
  double expected = site->nanoseconds_per_block * (double)blocks;
  if (expected == 0 || expected > 2 * kSmallLaunch) give_up_lock(call);
  int32_t crew = flags & CROQ_SERIAL ? 1 : wanted_threads;
  int64_t done = 0, chunk = 1, start = now(), spent = 0;
  while (done < blocks && !load(call->stop)) {
    double left = site->nanoseconds_per_block * (double)(blocks - done);
    bool known = done ? spent > kProbe : expected > 4 * kSmallLaunch;
    if (crew > 1 && known && blocks - done > 1 && left > kSmallLaunch) {
      int32_t most = blocks - done < crew ? (int32_t)(blocks - done) : crew;
      give_up_lock(call);
      Slot* slot = open_slot(call, run, frame, done, blocks, scratch_bytes, most, site->nanoseconds_per_block);
      if (slot) {
        int64_t opened = now();
        call_workers(most);
        take_part(slot, lane);
        wait_for_workers(slot, lane);
        store(slot->owned, 0);
        site->nanoseconds_per_block = (double)(now() - opened) * most / (double)(blocks - done);
        return load(call->stop);
      }
      crew = 1;  // every slot is taken: do it alone
    }
    int64_t end = crew == 1 || done + chunk > blocks ? blocks : done + chunk;
    if (expected > 0 && done == 0 && expected < kSmallLaunch) end = blocks;
    run(frame, done, end, lane);
    done = end;
    chunk *= 2;
    spent = now() - start;
    site->nanoseconds_per_block = (double)spent / (double)done;
  }
  return load(call->stop);
}

const croq_runtime table = {CROQ_ABI, launch, poll, fail, allocate, release, print, print_number,
                            run_fibers, yield_fiber, note_progress};

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
typedef int32_t (*croq_entry)(croq_lane* lane, const int64_t* words);

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

EXPORT void croq_runtime_write_to(void* write) { python.write = (void (*)(const char*, int64_t))write; }
EXPORT void croq_runtime_threads(int32_t threads) {
  wanted_threads = threads < 1 ? 1 : threads > kMaxThreads ? kMaxThreads : threads;
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
  flush_text(&call);
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
  int64_t words[64];
  if (plan->count > 64) return CROQ_ARGUMENT;
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
  return croq_run(plan->entry, words, &last_failure);
}
