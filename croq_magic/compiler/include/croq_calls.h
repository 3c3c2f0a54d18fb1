// What a running call can do besides computing: give up the interpreter lock, look at signals, stop, fail, print, and
// get storage. Included by croq_runtime.cpp alone.
namespace croq_inside {
namespace {

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

void stop_call(croq_call* call, int32_t reason) {
  int32_t running = 0;
  exchange_if(call->stop, running, reason);
  call->seat->attention = 1;
}

void flush_text(croq_call* call) {  // needs the interpreter lock
  if (!call->text_size) return;
  int32_t failed = 0;
  if (python.write) failed = python.write(call->text, call->text_size);
  else fwrite(call->text, 1, (size_t)call->text_size, stdout);
  call->text_size = 0;
  if (failed) stop_call(call, CROQ_INTERRUPTED);
}

// Whether this is the thread in which Python handles signals.
bool is_main_thread() { return python.check_signals && pthread_equal(pthread_self(), python.main_thread); }

// The calling thread's look at signals; everyone else only learns whether to stop.
void look_up(croq_call* call) {
  int64_t time = now();
  if (time - call->last_signals < kPollNanoseconds / 2) return;
  call->last_signals = time;
  if (!is_main_thread()) {
    give_up_lock(call);
    return;
  }
  take_lock(call);
  // Before the text: an exception raised by a signal while Python writes for us would be lost.
  if (python.check_signals() != 0) stop_call(call, CROQ_INTERRUPTED);
  else flush_text(call);
  give_up_lock(call);
}

int32_t poll_here(croq_lane* lane) {
  croq_call* call = lane->call;
  if (lane->is_caller && call->seat != &standing && !load(call->stop)) call->seat->attention = 0;
  if (lane->is_caller && !load(call->stop)) look_up(call);
  return lane->stopped = load(call->stop) != 0;
}

int32_t poll_in_crew(croq_lane* lane);

int32_t poll(croq_lane* lane) { return lane->crew ? poll_in_crew(lane) : poll_here(lane); }

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
pthread_key_t scratch_key;

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

int64_t most_memory = (int64_t)1 << 46;  // what there is: more would be granted, and the process killed when it is used

void* allocate(croq_lane* lane, int64_t bytes, bool zeroed) {
  void* storage = nullptr;
  if (bytes >= 0 && bytes <= most_memory) storage = aligned(bytes);
  if (!storage) stop_call(lane->call, CROQ_MEMORY);
  else if (zeroed) memset(storage, 0, (size_t)bytes);
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
  if (!python.write) {  // a program of its own: in order with what it prints itself
    fwrite(text, 1, (size_t)bytes, stdout);
    return;
  }
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
}  // namespace croq_inside
