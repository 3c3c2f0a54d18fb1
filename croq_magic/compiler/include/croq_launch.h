// The thread pool: launches claim blocks, and workers help. Included by croq_runtime.cpp alone.
namespace croq_inside {
namespace {

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

timespec wall_clock_after(int64_t nanoseconds) {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  int64_t total = t.tv_nsec + nanoseconds;
  t.tv_sec += total / 1000000000;
  t.tv_nsec = total % 1000000000;
  return t;
}

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
  croq_lane lane = {&call->seat->attention, call, nullptr, 0, 0, nullptr};
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

}  // namespace
}  // namespace croq_inside
