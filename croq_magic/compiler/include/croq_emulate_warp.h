// What threads do together: barriers, operations of a warp, mbarriers, the grid's barrier; and what kernels call for the
// rest. Included by croq_emulate.cpp alone.
namespace croq_inside {
namespace {

Barrier& barrier_of(croq_thread* self, uint32_t id, uint32_t site) {
  if (id >= kBarriers) {
    report_barrier(self, site, id, 0, 0);
  }
  return block_of(self)->barriers[id];
}

bool complete(Block* block, const Barrier& barrier) {
  return barrier.arrived >= (barrier.expected ? barrier.expected : block->threads - block->ended);
}

// With a shuffled order, who comes last does not always go on first, and the machine's copies land at any time.
void maybe_give_way(croq_thread* self, uint32_t site) {
  Worker* worker = block_of(self)->worker;
  if (block_of(self)->arrivals && worker->launch->seed && !(random_number(worker) & 3)) land_some(worker, block_of(self));
  if (worker->launch->seed && !(random_number(worker) & 3)) give_way(self, site);
}

// --------------------------------------------------------------------------------------------------------- warps
enum { kShuffle = 0, kUp = 1, kDown = 2, kXor = 3, kBallot = 4, kMatch = 5, kMatchAll = 6, kSync = 7,
       kAdd = 8, kMinSigned = 9, kMaxSigned = 10, kMinUnsigned = 11, kMaxUnsigned = 12, kAnd = 13, kOr = 14, kXorAll = 15 };

uint32_t word_of(const Lane& lane) {
  uint32_t word;
  memcpy(&word, lane.in, 4);
  return word;
}

uint32_t source_of(const Lane& lane, uint32_t at) {
  const uint32_t width = lane.width, first = at & ~(width - 1);
  uint32_t from = at;
  if (lane.op == kShuffle) from = first | (lane.param & (width - 1));
  if (lane.op == kUp) from = at - first >= lane.param ? at - lane.param : at;
  if (lane.op == kDown) from = at - first + lane.param < width ? at + lane.param : at;
  if (lane.op == kXor) from = (at ^ lane.param) < first + width ? at ^ lane.param : at;
  return from & 31;
}

uint32_t combine(int op, uint32_t a, uint32_t b) {
  switch (op) {
    case kAdd: return a + b;
    case kMinSigned: return (int32_t)a < (int32_t)b ? a : b;
    case kMaxSigned: return (int32_t)a > (int32_t)b ? a : b;
    case kMinUnsigned: return a < b ? a : b;
    case kMaxUnsigned: return a > b ? a : b;
    case kAnd: return a & b;
    case kOr: return a | b;
    default: return a ^ b;
  }
}

// All lanes of `group` have come: everybody's result.
void complete_warp(Block* block, Warp& warp, uint32_t group) {
  const uint32_t first = (uint32_t)__builtin_ctz(group);
  const Lane& lead = warp.lanes[first];
  uint32_t ballot = 0, total = 0;
  bool differs = false, started = false;
  for (uint32_t at = 0; at < 32; ++at) {
    if (!(group >> at & 1)) continue;
    const Lane& lane = warp.lanes[at];
    differs |= lane.op != lead.op;
    if (lead.op == kBallot) ballot |= (uint32_t)(word_of(lane) != 0) << at;
    if (lead.op >= kAdd) total = started ? combine(lead.op, total, word_of(lane)) : word_of(lane);
    started = true;
  }
  if (differs) {
    uint32_t other = first;
    while (!(group >> other & 1) || warp.lanes[other].op == lead.op) ++other;
    croq_finding finding = finding_of(lead.thread, CROQ_FOUND_MASK, lead.site);
    finding.other_site = warp.lanes[other].site;
    finding.other_thread = warp.lanes[other].thread->linear;
    finding.details[0] = 1;
    report(block->worker->launch, finding);
  }
  for (uint32_t at = 0; at < 32; ++at) {
    if (!(group >> at & 1)) continue;
    Lane& lane = warp.lanes[at];
    if (lane.op <= kXor) {
      const uint32_t from = source_of(lane, at);
      if (group >> from & 1) {
        memcpy(lane.out, warp.lanes[from].in, sizeof lane.out);
        continue;
      }
      // Undefined: never what it would take to be right by chance. Lanes beside the mask may ask, and drop what they get.
      memset(lane.out, 255, sizeof lane.out);
      if (lane.mask >> from & 1) {
        croq_finding finding = finding_of(lane.thread, CROQ_FOUND_MASK, lane.site);
        finding.details[0] = 2;
        finding.details[1] = from;
        report(block->worker->launch, finding);
      }
    } else if (lane.op == kBallot) {
      memcpy(lane.out, &ballot, 4);
    } else if (lane.op == kMatch || lane.op == kMatchAll) {
      uint32_t same = 0;
      for (uint32_t other = 0; other < 32; ++other)
        if (group >> other & 1 && !memcmp(warp.lanes[other].in, lane.in, lane.size)) same |= 1u << other;
      if (lane.op == kMatchAll && same != group) same = 0;
      memcpy(lane.out, &same, 4);
    } else {
      memcpy(lane.out, &total, 4);
    }
  }
  if (block->worker->launch->checked) join_warp(block, warp, group);
  warp.waiting &= ~group;
}

// The lanes that the waiting lane `at` waits for, when they are all there; else 0.
uint32_t ready_group(const Warp& warp, uint32_t at) {
  const uint32_t mask = warp.lanes[at].mask, group = mask & warp.live;
  if ((warp.waiting & group) != group) return 0;
  for (uint32_t other = 0; other < 32; ++other)
    if (group >> other & 1 && warp.lanes[other].mask != mask) return 0;
  return group;
}

void end_thread_of_warp(Block* block, uint32_t linear) {
  Warp& warp = block->warps[linear / 32];
  warp.live &= ~(1u << linear % 32);
  for (uint32_t at = 0; at < 32 && warp.waiting; ++at) {
    if (!(warp.waiting >> at & 1)) continue;
    const uint32_t group = ready_group(warp, at);
    if (!group) continue;
    complete_warp(block, warp, group);
    for (uint32_t other = 0; other < 32; ++other)
      if (group >> other & 1) make_ready(block, warp.lanes[other].thread);
  }
}

void forget_letters(Block* block, const Mbarrier* barrier);

Mbarrier* find_mbarrier(croq_thread* self, uint64_t* address, uint32_t site) {
  Block* block = block_of(self);
  for (uint32_t i = 0; i < block->mbarrier_count; ++i)
    if (block->mbarriers[i].address == address) return &block->mbarriers[i];
  croq_finding finding = finding_of(self, CROQ_FOUND_BARRIER, site);
  finding.details[0] = -1;
  report(block->worker->launch, finding);
  abandon(self);
}

}  // namespace

// -------------------------------------------------------------------------------------------- what kernels call
// which: 0 threadIdx, 1 blockIdx, 2 blockDim, 3 gridDim
EXPORT croq_index croq_emulate_index(int which) {
  if (which == 0) return croq_self->index;
  const croq_block_state* block = croq_self->block;
  return which == 1 ? block->index : which == 2 ? block->block : block->grid;
}

EXPORT char* croq_emulate_shared() { return croq_self->block->shared; }

// op: 0 nothing, 1 how many values are not zero, 2 whether all, 3 whether any
EXPORT int croq_emulate_barrier(uint32_t id, uint32_t count, int op, int value) {
  croq_thread* self = croq_self;
  Block* block = block_of(self);
  if (block->calm) wake_block(block);
  const uint32_t site = site_of(block->worker->launch, HERE);
  Barrier& barrier = barrier_of(self, id, site);
  arrive(self, barrier, count, site, value);
  if (block->worker->launch->checked) come_to_barrier(self, barrier);
  if (complete(block, barrier)) {
    self->result = barrier.count | (barrier.all ? 1 << 30 : 0) | (barrier.any ? 1 << 29 : 0);
    if (!barrier.expected && block->ended && block->worker->launch->checked) report_ended(self, block, barrier);
    release_barrier(block, barrier, self);
    self->spins = 0;
    maybe_give_way(self, site);
  } else {
    wait_for(self, barrier.queue, CROQ_AT_BARRIER, site, id);
  }
  if (op == 0) return 0;
  if (op == 1) return self->result & ((1 << 29) - 1);
  return self->result >> (op == 2 ? 30 : 29) & 1;
}

EXPORT void croq_emulate_arrive(uint32_t id, uint32_t count) {
  croq_thread* self = croq_self;
  Block* block = block_of(self);
  if (block->calm) wake_block(block);
  const uint32_t site = site_of(block->worker->launch, HERE);
  Barrier& barrier = barrier_of(self, id, site);
  arrive(self, barrier, count, site, 0);
  if (block->worker->launch->checked) come_to_barrier(self, barrier);
  if (complete(block, barrier)) release_barrier(block, barrier, nullptr);
}

EXPORT void croq_emulate_warp(int op, uint32_t mask, const void* in, void* out, uint32_t size, uint32_t param,
                              uint32_t width, void* place) {
  croq_thread* self = croq_self;
  Block* block = block_of(self);
  if (block->calm) wake_block(block);
  const croq_emulate_launch* launch = block->worker->launch;
  Warp& warp = block->warps[self->linear / 32];
  const uint32_t at = self->linear % 32;
  Lane& lane = warp.lanes[at];
  if (!(mask >> at & 1)) {
    croq_finding finding = finding_of(self, CROQ_FOUND_MASK, site_of(launch, place));
    finding.details[1] = mask;
    report(launch, finding);
    mask |= 1u << at;
  }
  lane.thread = self;
  lane.mask = mask;
  lane.op = op;
  lane.size = size;
  lane.param = param;
  lane.width = width;
  lane.site = site_of(launch, place);
  memcpy(lane.in, in, size);
  warp.waiting |= 1u << at;
  if (const uint32_t group = ready_group(warp, at)) {
    complete_warp(block, warp, group);
    for (uint32_t other = 0; other < 32; ++other)
      if (group >> other & 1 && other != at) make_ready(block, warp.lanes[other].thread);
    maybe_give_way(self, lane.site);
  } else {
    look(self);
    self->state = CROQ_AT_WARP;
    self->site = lane.site;
    self->detail = 0;
    self->spins = 0;
    go_on(self, false);
  }
  memcpy(out, lane.out, op <= kXor ? size : 4);
}

// Lanes of the warp that have come as far as this cannot be known before they do: all that have not ended.
EXPORT uint32_t croq_emulate_active() {
  croq_thread* self = croq_self;
  Block* block = block_of(self);
  if (block->calm) wake_block(block);
  return block->warps[self->linear / 32].live;
}

EXPORT void croq_emulate_fence(int scope) {
  croq_thread* self = croq_self;
  Block* block = block_of(self);
  if (block->worker->launch->checked) pass_fence(self, scope);
  maybe_give_way(self, site_of(block->worker->launch, HERE));
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

// An update in a loop may wait for what other threads do: after some in a row the others have their turn.
EXPORT void croq_emulate_spin(void* place) {
  croq_thread* self = croq_self;
  self->spins = 0;
  give_way(self, site_of(block_of(self)->worker->launch, place));
}

// A thread that sleeps lets others run.
EXPORT void croq_emulate_sleep() {
  croq_thread* self = croq_self;
  give_way(self, site_of(block_of(self)->worker->launch, HERE));
}

EXPORT void croq_emulate_atomic(void* address, uint32_t size, void* place) {
  croq_thread* self = croq_self;
  maybe_give_way(self, site_of(block_of(self)->worker->launch, place));
  if (!block_of(self)->worker->watch) return;
  watch_access(self, (char*)address, size, kAtomic, place);
  read_message(self, (char*)address);
}

// An update has changed what it found.
EXPORT void croq_emulate_updated(void* address) {
  if (block_of(croq_self)->worker->watch) leave_message(croq_self, (char*)address, true);
}

EXPORT void croq_emulate_mbarrier_init(uint64_t* address, uint32_t count) {
  croq_thread* self = croq_self;
  Block* block = block_of(self);
  if (block->calm) wake_block(block);
  if (count - 1 > (1u << 20) - 2) report_barrier(self, site_of(block->worker->launch, HERE), -1, 3, count);
  Mbarrier* found = nullptr;
  for (uint32_t i = 0; i < block->mbarrier_count && !found; ++i)
    if (block->mbarriers[i].address == address) found = &block->mbarriers[i];
  if (!found) {
    if (block->mbarrier_count == block->mbarrier_capacity) {
      const uint32_t capacity = block->mbarrier_capacity * 2 + 64;
      // Queues hold no pointers to the table, so it may move.
      block->mbarriers = grow(block->mbarriers, block->mbarrier_capacity, capacity);
      if (!block->mbarriers) abandon(self);
      block->mbarrier_capacity = capacity;
    }
    found = &block->mbarriers[block->mbarrier_count++];
  }
  found->address = address;
  found->count = found->pending = count;
  found->phase = 0;
  found->queue = {nullptr, nullptr, 0};
  if (block->worker->launch->checked) {
    croq_emulate_touch(address, 8, 1, HERE);
    clear_known(block, found->known);
    forget_letters(block, found);
  }
}

namespace {

void arrive_at(Block* block, Mbarrier* barrier, uint32_t count) {
  barrier->pending -= count < barrier->pending ? count : barrier->pending;
  if (barrier->pending == 0) {
    barrier->pending = barrier->count;
    barrier->phase ^= 1;
    wake_all(block, barrier->queue);
  }
}

}  // namespace

EXPORT uint64_t croq_emulate_mbarrier_arrive(uint64_t* address, uint32_t count) {
  croq_thread* self = croq_self;
  Block* block = block_of(self);
  const uint32_t site = site_of(block->worker->launch, HERE);
  if (block->arrivals) maybe_give_way(self, site);
  Mbarrier* barrier = find_mbarrier(self, address, site);
  const uint64_t phase = barrier->phase;
  if (block->worker->launch->checked) watch_access(self, (char*)address, 8, kVolatile, HERE);
  if (block->worker->launch->checked) pass_on(self, barrier->known);
  arrive_at(block, barrier, count);
  return phase;
}

EXPORT int croq_emulate_mbarrier_test(uint64_t* address, uint32_t parity) {
  croq_thread* self = croq_self;
  Block* block = block_of(self);
  const uint32_t site = site_of(block->worker->launch, HERE);
  Mbarrier* barrier = find_mbarrier(self, address, site);
  if (block->worker->launch->checked) watch_access(self, (char*)address, 8, kVolatile, HERE);
  if (barrier->phase == (parity & 1)) {
    give_way(self, site);
    barrier = find_mbarrier(self, address, site);
    if (barrier->phase == (parity & 1)) return 0;
  }
  if (block->worker->launch->checked) learn(self, barrier->known);
  return 1;
}

EXPORT void croq_emulate_mbarrier_wait(uint64_t* address, uint32_t parity) {
  croq_thread* self = croq_self;
  Block* block = block_of(self);
  const uint32_t site = site_of(block->worker->launch, HERE);
  if (block->worker->launch->checked) watch_access(self, (char*)address, 8, kVolatile, HERE);
  for (;;) {
    Mbarrier* barrier = find_mbarrier(self, address, site);
    if (barrier->phase != (parity & 1)) {
      if (block->worker->launch->checked) learn(self, barrier->known);
      return;
    }
    wait_for(self, barrier->queue, CROQ_AT_MBARRIER, site, (uint32_t)(barrier - block->mbarriers));
  }
}

EXPORT void croq_emulate_grid() {
  croq_thread* self = croq_self;
  Block* block = block_of(self);
  Worker* worker = block->worker;
  if (block->calm) wake_block(block);
  ++worker->at_grid;
  ++block->at_grid;
  self->state = CROQ_AT_GRID;
  self->site = site_of(worker->launch, HERE);
  put(block->gathered, self);
  count_grid(worker);
  look(self);
  go_on(self, false);
}

// ------------------------------------------------------------------------------------------- asynchronous copies
namespace {

void land(croq_thread* self, Copy* copy) {
  Worker* worker = block_of(self)->worker;
  if (worker->launch->checked) {
    leave_source(self, copy);
    watch_landing(self, copy->to, copy->size, copy->site, copy->clock);
  }
  memcpy(copy->to, copy->from, copy->valid);
  memset(copy->to + copy->valid, 0, copy->size - copy->valid);
}

}  // namespace

EXPORT void croq_emulate_copy(void* shared, const void* global, uint32_t size, uint32_t valid, void* place) {
  croq_thread* self = croq_self;
  Block* block = block_of(self);
  Worker* worker = block->worker;
  if (block->calm) wake_block(block);
  const uint32_t site = site_of(worker->launch, place);
  if (((uintptr_t)shared | (valid ? (uintptr_t)global : 0)) & (size - 1)) {
    croq_finding finding = finding_of(self, CROQ_FOUND_ALIGNMENT, site);
    finding.size = (int32_t)size;
    finding.details[0] = (int64_t)((uintptr_t)shared & (size - 1));
    finding.details[1] = (int64_t)((uintptr_t)global & (size - 1));
    report(worker->launch, finding);
  }
  if (worker->launch->checked) watch_copy(self, (char*)shared, (const char*)global, size, valid, place);
  Copy* copy = worker->copies;
  if (copy) worker->copies = copy->next;
  else if (!(copy = (Copy*)malloc(sizeof(Copy)))) no_memory(self);
  *copy = {(Copy*)self->copies, (char*)shared, (const char*)global, size, valid, self->group, site, self->copied++, 0,
           self, nullptr, nullptr};
  self->copies = copy;
  if (worker->launch->checked) take_off(self, copy);
  if (worker->launch->seed && random_number(worker) & 1) {  // the machine may copy at once, or late
    self->copies = copy->next;
    land(self, copy);
    copy->next = worker->copies;
    worker->copies = copy;
  }
}

EXPORT void croq_emulate_commit() { ++croq_self->group; }

namespace {

// Arrivals of a thread whose copies have all landed take place.
void make_arrivals(croq_thread* thread) {
  Block* block = block_of(thread);
  Arrival** at = &block->arrivals;
  while (Arrival* arrival = *at) {
    bool due = arrival->thread == thread;
    for (Copy* copy = (Copy*)thread->copies; copy && due; copy = copy->next) due = copy->number >= arrival->copies;
    if (!due) {
      at = &arrival->next;
      continue;
    }
    *at = arrival->next;
    Mbarrier* barrier = &block->mbarriers[arrival->mbarrier];
    if (arrival->known && make_known(block->order, barrier->known)) {
      for (uint32_t i = 0; i < block->threads; ++i)
        if (arrival->known[i] > barrier->known[i]) barrier->known[i] = arrival->known[i];
    }
    free(arrival->known);
    free(arrival);
    arrive_at(block, barrier, 1);
  }
}

// Lands the copies that one arrival of the block, or of another that is under way, waits for: the oldest one, or with a
// shuffled order that of any thread. Gives whether there was one.
bool land_some(Worker* worker, Block* block) {
  Block* first = block;
  while (!block->arrivals) {
    block = block->other;
    if (block == first) return false;
  }
  Block* active = worker->active;
  if (active) activate(worker, block);  // shared memory is written
  Arrival* chosen = block->arrivals;
  if (worker->launch->seed) {
    uint32_t count = 0;
    for (Arrival* arrival = chosen; arrival && count < 64; arrival = arrival->next) ++count;
    for (uint32_t skip = (uint32_t)(random_number(worker) % count); skip; --skip) chosen = chosen->next;
  }
  croq_thread* thread = chosen->thread;
  const uint32_t copies = chosen->copies;
  Copy** at = (Copy**)&thread->copies;
  while (Copy* copy = *at) {
    if (copy->number >= copies) {
      at = &copy->next;
      continue;
    }
    *at = copy->next;
    worker->looks = 0;  // not now: another thread's stack is in use
    land(thread, copy);
    copy->next = worker->copies;
    worker->copies = copy;
  }
  make_arrivals(thread);
  if (active) activate(worker, active);
  return true;
}

}  // namespace

// Arrives when the thread's copies so far have landed. `counted`: the mbarrier's count has this arrival in it; otherwise
// the phase expects one more.
EXPORT void croq_emulate_mbarrier_follow(uint64_t* address, int counted) {
  croq_thread* self = croq_self;
  Block* block = block_of(self);
  const uint32_t site = site_of(block->worker->launch, HERE);
  Mbarrier* barrier = find_mbarrier(self, address, site);
  const bool checked = block->worker->launch->checked;
  if (checked) watch_access(self, (char*)address, 8, kVolatile, HERE);
  if (!counted) ++barrier->pending;
  Arrival* arrival = (Arrival*)calloc(1, sizeof(Arrival));
  if (!arrival) no_memory(self);
  arrival->thread = self;
  arrival->copies = self->copied;
  arrival->mbarrier = (uint32_t)(barrier - block->mbarriers);
  if (checked) {
    const uint32_t clock = block->order->clock[self->linear];
    for (Copy* copy = (Copy*)self->copies; copy; copy = copy->next)
      if (!copy->clock) copy->clock = clock;
    pass_on(self, arrival->known);
  }
  Arrival** last = &block->arrivals;
  while (*last) last = &(*last)->next;
  *last = arrival;
  make_arrivals(self);
  maybe_give_way(self, site);
}

// Waits until at most `groups` of the committed groups are under way; ~0: for everything.
EXPORT void croq_emulate_settle(uint32_t groups) {
  croq_thread* self = croq_self;
  Worker* worker = block_of(self)->worker;
  Copy** at = (Copy**)&self->copies;
  while (Copy* copy = *at) {
    const bool committed = copy->group < self->group || groups == ~0u;
    const bool newest = groups != ~0u && copy->group + groups >= self->group;
    if (!committed || newest) {
      at = &copy->next;
      continue;
    }
    *at = copy->next;
    land(self, copy);
    copy->next = worker->copies;
    worker->copies = copy;
  }
  if (block_of(self)->arrivals) make_arrivals(self);
}

namespace {

// At the end of `self`, which is the current thread.
void run_copies(croq_thread*, uint32_t) { croq_emulate_settle(~0u); }

}  // namespace

// ------------------------------------------------------------------------------------------------------- printing
EXPORT int croq_emulate_printf(const char* format, ...) {
  char room[512], *text = room;
  va_list list, again;
  va_start(list, format);
  va_copy(again, list);
  int size = vsnprintf(room, sizeof room, format, list);
  if (size >= (int)sizeof room && (text = (char*)malloc((size_t)size + 1))) vsnprintf(text, (size_t)size + 1, format, again);
  if (text && size > 0) croq_rt->print(block_of(croq_self)->worker->lane, text, size);
  if (text != room) free(text);
  va_end(again);
  va_end(list);
  return size;
}

namespace {

// `how`: 0 trap, 1 abort, 2 a false assertion, 3 exit
[[noreturn]] void stop_kernel(int32_t how, const char* text, const void* place) {
  croq_thread* self = croq_self;
  const croq_emulate_launch* launch = block_of(self)->worker->launch;
  croq_finding finding = finding_of(self, CROQ_FOUND_TRAP, site_of(launch, place));
  finding.size = how;
  finding.buffer = (int64_t)text;
  report(launch, finding);
  abandon(self);
}

}  // namespace

EXPORT void croq_emulate_trap() { stop_kernel(0, nullptr, HERE); }
EXPORT void croq_emulate_abort() { stop_kernel(1, nullptr, HERE); }
EXPORT void croq_emulate_exit(int) { stop_kernel(3, nullptr, HERE); }
EXPORT void croq_emulate_assert(const char* text, const char*, unsigned, const char*) { stop_kernel(2, text, HERE); }

}  // namespace croq_inside
