// What a checked module tells: every access of its threads. Races, stray accesses, shared memory read before it is
// written. Included by croq_emulate.cpp alone.
//
// Order. Each thread of a block counts: its clock goes up whenever others may learn of what it has done. An access is
// recorded with the clock of its thread, and lies before what a thread does now if that thread knows of that clock: from
// a barrier of the block (`floor`), from one of its warp (`warp_floor`), or from a barrier of some threads, an mbarrier
// (`known`, a clock for every thread, made when first needed). Blocks know of each other through the grid's barrier
// (`phase`); for what threads learn through fences and places in memory see croq_emulate_messages.h.
namespace croq_inside {
namespace {

}  // namespace
}  // namespace croq_inside

#include "croq_emulate_buffers.h"

namespace croq_inside {
namespace {

// ------------------------------------------------------------------------------------------------------ the records
enum { kRead = 0, kWrite = 1, kAtomic = 2, kAsync = 4, kVolatile = 8, kLanding = 16 };
const int32_t kLoose = kAtomic | kVolatile;  // two such accesses never race

struct Covered;
struct Read;
struct Fence;
struct Mail;
struct Order {
  uint32_t threads;
  uint32_t *clock, *floor, *warp_floor;
  uint32_t *version;  // goes up when a thread learns something alone
  uint32_t** known;
  uint32_t turn;      // barriers of the block so far
  Fence* fences;      // of each thread
  uint32_t fence_count;
  Covered* floor_covered;
  uint32_t floor_turn;
  Read* reads;
  uint32_t read_count, read_capacity;
};
Mail* mail_of(Worker* worker);

struct Watch {
  Region** regions;  // in the order of their addresses
  int64_t count;
  Region* last;
  Region own[8];     // variables of the module
  int32_t own_count;
  const char *image, *image_end;
  Mail* mail;
  int64_t stack_bytes;
  int64_t array;         // the static shared array that was used last
  char* odd;             // an address that a compiler has found unaligned
  uint32_t odd_size;
  struct Counts* counts;
};

int compare_regions(const void* a, const void* b) {
  const Region *left = *(Region* const*)a, *right = *(Region* const*)b;
  return left->low < right->low ? -1 : left->low > right->low;
}

bool make_cells(Region& region, int32_t shift) {
  const int64_t count = (((region.end - region.begin) + 15) >> shift) + 16;
  Cell* cells = (Cell*)map_cells(count);
  if (!cells) return false;
  if (region.cells) {  // finer ones: each stands for a part of a former one
    const int32_t finer = region.shift - shift;
    for (int64_t i = 0; i < count && i >> finer < region.count; ++i) cells[i] = region.cells[i >> finer];
    drop_cells(region);
  }
  region.cells = cells;
  region.count = count;
  region.shift = shift;
  return true;
}

// ---------------------------------------------------------------------------------------------------------- clocks
void free_order(Block* block) {
  Order* order = block->order;
  drop_cells(block->statics);
  drop_cells(block->dynamics);
  for (Barrier& barrier : block->barriers) {
    free(barrier.known);
    barrier.known = nullptr;
  }
  for (uint32_t i = 0; i < block->mbarrier_capacity; ++i) {
    free(block->mbarriers[i].known);
    block->mbarriers[i].known = nullptr;
  }
  if (!order) return;
  for (uint32_t i = 0; i < order->threads; ++i) free(order->known[i]);
  free(order->clock);
  free(order->known);
  free((void*)order->fences);
  free((void*)order->reads);
  free(order);
  block->order = nullptr;
}

// Numbers of the blocks of this launch, by serial.
struct Numbers {
  uint32_t *numbers, count, capacity;
};
static __thread Numbers numbers;

void note_block(Block* block) {
  const uint32_t at = block->serial - block->worker->first_serial;
  if (at >= numbers.capacity) {
    const uint32_t capacity = at * 2 + 64;
    numbers.numbers = grow(numbers.numbers, numbers.capacity, capacity);
    numbers.capacity = numbers.numbers ? capacity : 0;
  }
  if (at < numbers.capacity) numbers.numbers[at] = block->number;
}

uint32_t block_number(Worker* worker, uint32_t serial) {
  const uint32_t at = serial - worker->first_serial;
  return at < numbers.capacity ? numbers.numbers[at] : 0;
}

void begin_region(Region& region, char* begin, int64_t bytes, char* high, int32_t space) {
  if (region.begin != begin || region.end != begin + bytes) drop_cells(region);
  region.begin = region.low = begin;
  region.end = begin + bytes;
  region.high = high;
  region.space = space;
}

Fence* new_fences(size_t threads);
void clear_fences(Order* order);

void begin_checks(Block* block) {
  const croq_emulate_launch* launch = block->worker->launch;
  if (block->order && block->order->threads < block->threads) free_order(block);
  Order* order = block->order;
  if (!order) {
    const size_t threads = block->threads;
    order = block->order = (Order*)calloc(1, sizeof(Order));
    order->threads = block->threads;
    order->clock = (uint32_t*)calloc(threads * 4, sizeof(uint32_t));
    order->known = (uint32_t**)calloc(threads, sizeof(uint32_t*));
    order->floor = order->clock + threads;
    order->warp_floor = order->floor + threads;
    order->version = order->warp_floor + threads;
    order->fences = new_fences(threads);
  }
  memset(order->clock, 0, sizeof(uint32_t) * 4 * order->threads);
  if (order->fence_count) clear_fences(order);
  order->turn = order->fence_count = order->read_count = 0;
  order->floor_covered = nullptr;
  for (uint32_t i = 0; i < order->threads; ++i) order->clock[i] = 1;
  for (uint32_t i = 0; i < order->threads; ++i)
    if (order->known[i]) memset(order->known[i], 0, sizeof(uint32_t) * order->threads);
  for (Barrier& barrier : block->barriers)
    if (barrier.known) memset(barrier.known, 0, sizeof(uint32_t) * order->threads);
  block->serial = __atomic_fetch_add(&serials, 1u, __ATOMIC_RELAXED);
  note_block(block);
  begin_region(block->dynamics, block->memory, launch->shared_bytes, block->memory + block->memory_size + kZone,
               CROQ_SPACE_DYNAMIC);
  // What nobody has written reads as NaN, or as -1.
  memset(block->memory, 255, (size_t)(block->memory_size + kZone));
  if (launch->shared_size) {
    char* statics = block->worker->static_shared;
    begin_region(block->statics, statics, launch->shared_size, statics + launch->shared_size, CROQ_SPACE_SHARED);
    if (!launch->array_count) memset(statics, 255, (size_t)launch->shared_size);
    for (int64_t i = 0; i < launch->array_count; ++i)
      memset(statics + launch->arrays[2 * i], 255, (size_t)launch->arrays[2 * i + 1]);
  }
}

uint32_t knows(const Order* order, uint32_t thread, uint32_t other) {
  uint32_t most = order->floor[other];
  if (thread / 32 == other / 32 && order->warp_floor[other] > most) most = order->warp_floor[other];
  const uint32_t* known = order->known[thread];
  if (known && known[other] > most) most = known[other];
  return most;
}

uint32_t* make_known(Order* order, uint32_t*& known) {
  if (!known) known = (uint32_t*)calloc(order->threads, sizeof(uint32_t));
  return known;
}

void clear_known(Block* block, uint32_t* known) {
  if (known) memset(known, 0, sizeof(uint32_t) * block->order->threads);
}

// Adds to `known` all that a thread knows and has done.
void pass_on(Block* block, uint32_t thread, uint32_t*& known) {
  Order* order = block->order;
  if (!make_known(order, known)) return;
  for (uint32_t i = 0; i < block->threads; ++i) {
    const uint32_t clock = knows(order, thread, i);
    if (clock > known[i]) known[i] = clock;
  }
  known[thread] = order->clock[thread]++;
}

void pass_on(croq_thread* self, uint32_t*& known) { pass_on(block_of(self), self->linear, known); }

void learn(Block* block, uint32_t thread, const uint32_t* known) {
  Order* order = block->order;
  if (!known || !make_known(order, order->known[thread])) return;
  uint32_t* own = order->known[thread];
  ++order->version[thread];
  for (uint32_t i = 0; i < block->threads; ++i)
    if (known[i] > own[i]) own[i] = known[i];
}

void learn(croq_thread* self, const uint32_t* known) { learn(block_of(self), self->linear, known); }

void come_to_barrier(croq_thread* self, Barrier& barrier) {
  if (barrier.expected) pass_on(self, barrier.known);
}

void settle_counts(Worker* worker);

void pass_barrier(Block* block, Barrier& barrier, croq_thread* self) {
  Order* order = block->order;
  if (block->worker->launch->profiled) settle_counts(block->worker);
  ++order->turn;
  if (!barrier.expected) {
    for (uint32_t i = 0; i < block->threads; ++i) order->floor[i] = order->clock[i]++;
    return;
  }
  if (self) learn(self, barrier.known);
  for (croq_thread* thread = barrier.queue.first; thread; thread = thread->next) learn(thread, barrier.known);
  clear_known(block, barrier.known);
}

void join_warp(Block* block, Warp& warp, uint32_t group) {
  Order* order = block->order;
  const uint32_t first = warp.lanes[__builtin_ctz(group)].thread->linear & ~31u;
  bool some = group != warp.live;
  for (uint32_t at = 0; at < 32; ++at) some |= (group >> at & 1) && order->known[first + at];
  if (!some) {
    for (uint32_t at = 0; at < 32; ++at)
      if (group >> at & 1) order->warp_floor[first + at] = order->clock[first + at]++, ++order->version[first + at];
    return;
  }
  uint32_t* known = nullptr;
  for (uint32_t at = 0; at < 32; ++at)
    if (group >> at & 1) pass_on(block, first + at, known);
  for (uint32_t at = 0; at < 32; ++at)
    if (group >> at & 1) learn(block, first + at, known);
  free(known);
}

}  // namespace
}  // namespace croq_inside

#include "croq_emulate_messages.h"

namespace croq_inside {
namespace {

Mail* mail_of(Worker* worker) { return worker->watch->mail; }
Fence* new_fences(size_t threads) { return (Fence*)calloc(threads, sizeof(Fence)); }
void clear_fences(Order* order) { memset((void*)order->fences, 0, sizeof(Fence) * order->threads); }

// ------------------------------------------------------------------------------------------------------ the finding
// Whether a recorded access and one that `self` makes now have no order.
bool meets(croq_thread* self, Block* block, const Record& record, uint32_t stamp, bool shared) {
  if (!record.serial) return false;
  Worker* worker = block->worker;
  if (record.serial == block->serial) {
    if (record.thread == self->linear) return false;
    if (record.clock <= knows(block->order, self->linear, record.thread)) return false;
  } else if (shared || record.serial < worker->first_serial) {
    return false;
  }
  if (stamp < worker->phase) return false;
  return !block->order->read_count || !learnt(self, block, record);
}

croq_finding at_place(croq_thread* self, const Region& region, char* address, int32_t size, int32_t kind, int32_t access,
                      uint32_t site) {
  croq_finding finding = finding_of(self, kind, site);
  finding.space = region.space;
  finding.buffer = (int64_t)region.begin;
  finding.offset = address - region.begin;
  finding.extent = region.end - region.begin;
  finding.size = size;
  finding.access = access;
  return finding;
}

void report_race(croq_thread* self, const Region& region, char* address, int32_t size, int32_t access, uint32_t site,
                 const Record& other) {
  Block* block = block_of(self);
  croq_finding finding = at_place(self, region, address, size, CROQ_FOUND_RACE, access, site);
  finding.other_site = other.site;
  finding.other_thread = other.thread;
  finding.other_access = other.kind;
  finding.other_block = other.serial == block->serial ? block->number : block_number(block->worker, other.serial);
  report(block->worker->launch, finding);
}

// ---------------------------------------------------------------------------------------------------------- looking
Region* find_region(Watch* watch, Block* block, char* address) {
  Region* last = watch->last;
  if (last && address >= last->low && address < last->high) return last;
  if (address >= block->statics.low && address < block->statics.high) return &block->statics;
  if (address >= block->dynamics.low && address < block->dynamics.high) return &block->dynamics;
  int64_t low = 0, high = watch->count;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    Region* region = watch->regions[middle];
    if (address < region->low) high = middle;
    else if (address >= region->high) low = middle + 1;
    else return watch->last = region;
  }
  for (int32_t i = 0; i < watch->own_count; ++i)
    if (address >= watch->own[i].low && address < watch->own[i].high) return &watch->own[i];
  return nullptr;
}

void count_access(croq_thread* self, Block* block, const Region& region, char* address, uint32_t size, int32_t access,
                  uint32_t site);

// An access outside every buffer. Where it would fall on foreign memory the thread goes no further.
void report_stray(croq_thread* self, Region* region, char* address, int32_t size, int32_t access, uint32_t site) {
  Block* block = block_of(self);
  Region nothing;
  memset(&nothing, 0, sizeof nothing);
  Region* near = region;
  if (!near) {
    int64_t least = kDesert;
    Watch* watch = block->worker->watch;
    for (int64_t i = -2; i < watch->count; ++i) {
      Region* candidate = i == -2 ? &block->statics : i == -1 ? &block->dynamics : watch->regions[i];
      if (candidate->begin == candidate->end) continue;
      const int64_t far = address < candidate->begin ? candidate->begin - address : address - candidate->end;
      if (far < least) least = far, near = candidate;
    }
  }
  report(block->worker->launch,
         at_place(self, near ? *near : nothing, address, size, CROQ_FOUND_OUTSIDE, access, site));
  const bool ours = region && address + size <= region->high;
  if (!ours) abandon(self);
}

[[noreturn]] void no_cells(croq_thread* self) {
  report(block_of(self)->worker->launch, finding_of(self, 0, 0));
  abandon(self);
}

// Whether bytes of static shared memory belong to one array; between them there are zones (build.py).
bool in_array(Watch* watch, const croq_emulate_launch* launch, int64_t offset, uint32_t size) {
  const int64_t* arrays = launch->arrays;
  const int64_t* last = arrays + 2 * watch->array;
  if (offset >= last[0] && offset + size <= last[0] + last[1]) return true;
  for (int64_t i = 0; i < launch->array_count; ++i)
    if (offset >= arrays[2 * i] && offset + size <= arrays[2 * i] + arrays[2 * i + 1]) {
      watch->array = i;
      return true;
    }
  return false;
}

bool is_local(Watch* watch, croq_thread* self, char* address) {
  return address < (char*)self + kTop && address >= (char*)self - watch->stack_bytes;
}

// A copy reads its source when it lands: whoever writes there before changes what comes, with a barrier or without.
bool overwrites_source(croq_thread* self, const Region& region, char* address, uint32_t size, int32_t access,
                       uint32_t site) {
  Worker* worker = block_of(self)->worker;
  for (const Copy* copy = worker->flying; copy; copy = copy->earlier) {
    if (address >= copy->from + copy->valid || address + size <= copy->from) continue;
    croq_finding finding = at_place(self, region, address, (int32_t)size, CROQ_FOUND_PENDING, access, site);
    finding.other_site = copy->site;
    finding.other_thread = copy->thread->linear;
    finding.other_block = block_of(copy->thread)->number;
    finding.details[0] = 1;
    report(worker->launch, finding);
    return true;
  }
  return false;
}

// The same when the copy has landed meanwhile, but nothing tells who writes now.
void report_source(croq_thread* self, const Region& region, char* address, uint32_t size, int32_t access, uint32_t site,
                   const Record& read) {
  Block* block = block_of(self);
  croq_finding finding = at_place(self, region, address, (int32_t)size, CROQ_FOUND_PENDING, access, site);
  finding.other_site = read.site;
  finding.other_thread = read.thread;
  finding.other_block = read.serial == block->serial ? block->number : block_number(block->worker, read.serial);
  finding.details[0] = 1;
  report(block->worker->launch, finding);
}

void watch_access(croq_thread* self, char* address, uint32_t size, int32_t access, const void* place) {
  Block* block = block_of(self);
  Worker* worker = block->worker;
  Watch* watch = worker->watch;
  if (__builtin_expect(!watch || is_local(watch, self, address), 0)) return;
  Region* region = find_region(watch, block, address);
  const uint32_t site = site_of(worker->launch, place);
  if (__builtin_expect(++worker->looks > 1 << 16, 0)) {
    worker->looks = 0;
    look(self);
  }
  if (__builtin_expect(!region || address < region->begin || address + size > region->end, 0)) {
    if (!region && address >= watch->image && address + size <= watch->image_end && !(access & (kWrite | kAtomic)))
      return;  // constants
    report_stray(self, region, address, (int32_t)size, access, site);
    return;
  }
  if (region == &block->statics && worker->launch->array_count &&
      __builtin_expect(!in_array(watch, worker->launch, address - region->begin, size), 0)) {
    report_stray(self, region, address, (int32_t)size, access, site);
    return;
  }
  if (worker->launch->profiled && !(access & kLanding)) count_access(self, block, *region, address, size, access, site);
  char* origin = (char*)((uintptr_t)region->begin & ~(uintptr_t)15);
  int64_t offset = address - origin;
  if (__builtin_expect(!region->cells, 0)) {
    const int32_t shift = !((offset | size) & 3) ? 2 : !((offset | size) & 1) ? 1 : 0;
    if (!make_cells(*region, shift)) no_cells(self);
  }
  if (__builtin_expect((offset | size) & ((1 << region->shift) - 1), 0)) {
    const int32_t shift = !((offset | size) & 1) ? 1 : 0;
    if (!make_cells(*region, shift)) no_cells(self);
  }
  const bool shared = region->space == CROQ_SPACE_SHARED || region->space == CROQ_SPACE_DYNAMIC;
  const uint32_t stamp = worker->fences;
  const Record now = {block->serial, (uint16_t)self->linear, (uint8_t)access, 0,
                      block->order->clock[self->linear], site};
  Cell* cell = region->cells + (offset >> region->shift);
  Cell* end = region->cells + ((offset + size - 1) >> region->shift) + 1;
  for (; cell < end; ++cell) {
    const Record& write = cell->write;
    const bool own_write = write.serial == now.serial && write.thread == now.thread;
    if (__builtin_expect(write.kind & kAsync && write.serial == now.serial && !(access & kAsync), 0)) {
      croq_finding finding = at_place(self, *region, address, (int32_t)size, CROQ_FOUND_PENDING, access, site);
      finding.other_site = write.site;
      finding.other_thread = write.thread;
      finding.other_block = block->number;
      report(worker->launch, finding);
      cell->write.kind = kWrite;
      continue;
    }
    if (shared && (access & 3) != kWrite && !(access & kAsync) && write.serial != now.serial) {
      report(worker->launch, at_place(self, *region, address, (int32_t)size, CROQ_FOUND_UNINITIALISED, access, site));
      cell->write = now;  // once is enough
      cell->stamp[0] = stamp;
      continue;
    }
    if (__builtin_expect(region->fresh && !write.serial && (access & 3) != kWrite, 0)) {
      report(worker->launch, at_place(self, *region, address, (int32_t)size, CROQ_FOUND_UNINITIALISED, access, site));
      cell->write = now;
      cell->stamp[0] = stamp;
      continue;
    }
    if (!own_write && !(access & kLoose && write.kind & kLoose) && meets(self, block, write, cell->stamp[0], shared))
      report_race(self, *region, address, (int32_t)size, access, site, write);
    if ((access & 3) == kRead) {
      Record& first = cell->reads[0];
      if (first.serial == now.serial && first.thread == now.thread) {
        first = now;
        cell->stamp[1] = stamp;
      } else if (!meets(self, block, first, cell->stamp[1], shared)) {
        first = now;
        cell->stamp[1] = stamp;
      } else {
        cell->reads[1] = now;
        cell->stamp[2] = stamp;
      }
      continue;
    }
    bool accused = false;
    if (__builtin_expect(cell->sources, 0)) {
      accused = overwrites_source(self, *region, address, size, access, site);
      cell->sources = 0;  // once is enough; copies of an abandoned launch are gone
    }
    for (int i = 0; i < 2 && !accused; ++i) {
      const Record& read = cell->reads[i];
      if (read.serial && !(read.serial == now.serial && read.thread == now.thread) &&
          !(access & kLoose && read.kind & kLoose) &&
          meets(self, block, read, cell->stamp[1 + i], shared)) {
        if (read.kind & kAsync) report_source(self, *region, address, size, access, site, read);
        else report_race(self, *region, address, (int32_t)size, access, site, read);
      }
    }
    // An update right after the thread's own plain write leaves that on record: the plain one may race where updates do
    // not.
    const bool weaker = own_write && access & kLoose && !(write.kind & kLoose) && write.clock == now.clock;
    if (!weaker) cell->write = now;
    cell->reads[0].serial = cell->reads[1].serial = 0;
    cell->stamp[0] = stamp;
  }
}

void watch_copy(croq_thread* self, char* to, const char* from, uint32_t size, uint32_t valid, const void* place) {
  if (valid) watch_access(self, (char*)from, valid, kRead, place);
  watch_access(self, to, size, kWrite | kAsync, place);
}

// Cells of a copy's source when the copy begins, and when it lands: the read that is on record was as late as that.
void mark_source(croq_thread* self, const Copy& copy, bool begins) {
  Block* block = block_of(self);
  Worker* worker = block->worker;
  char* from = (char*)copy.from;
  Region* region = copy.valid ? find_region(worker->watch, block, from) : nullptr;
  if (!region || !region->cells || from < region->begin || from + copy.valid > region->end) return;
  const int64_t offset = from - (char*)((uintptr_t)region->begin & ~(uintptr_t)15);
  Cell* end = region->cells + ((offset + copy.valid - 1) >> region->shift) + 1;
  for (Cell* cell = region->cells + (offset >> region->shift); cell < end; ++cell) {
    if (begins) {
      ++cell->sources;
      continue;
    }
    if (cell->sources) --cell->sources;
    for (int i = 0; i < 2; ++i) {
      Record& read = cell->reads[i];
      if (read.serial != block->serial || read.thread != self->linear || read.site != copy.site) continue;
      read.kind = kRead | kAsync;
      read.clock = copy.clock ? copy.clock : block->order->clock[self->linear];
      cell->stamp[1 + i] = worker->fences;
    }
  }
}

void take_off(croq_thread* self, Copy* copy) {
  Worker* worker = block_of(self)->worker;
  copy->later = nullptr;
  copy->earlier = worker->flying;
  if (copy->earlier) copy->earlier->later = copy;
  worker->flying = copy;
  mark_source(self, *copy, true);
}

void leave_source(croq_thread* self, Copy* copy) {
  (copy->later ? copy->later->earlier : block_of(self)->worker->flying) = copy->earlier;
  if (copy->earlier) copy->earlier->later = copy->later;
  mark_source(self, *copy, false);
}

// With a `clock` it lies before what learns of that clock.
void watch_landing(croq_thread* self, char* to, uint32_t size, uint32_t site, uint32_t clock) {
  const char* place = block_of(self)->worker->launch->module + site;
  watch_access(self, to, size, kWrite | kAsync | kLanding, place);
  Block* block = block_of(self);
  Region* region = find_region(block->worker->watch, block, to);
  if (!region || to < region->begin || to + size > region->end) return;
  const int64_t offset = to - (char*)((uintptr_t)region->begin & ~(uintptr_t)15);
  Cell* end = region->cells + ((offset + size - 1) >> region->shift) + 1;
  for (Cell* cell = region->cells + (offset >> region->shift); cell < end; ++cell) {
    cell->write.kind = kWrite;
    if (clock) cell->write.clock = clock;
  }
}

// ------------------------------------------------------------------------------------------------------- a launch
struct Image {
  const char* module;
  Watch* watch;
};

int see_module(dl_phdr_info* info, size_t, void* data) {
  Image* image = (Image*)data;
  if ((const char*)info->dlpi_addr != image->module) return 0;
  Watch* watch = image->watch;
  watch->image = image->module;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    char* begin = (char*)info->dlpi_addr + part.p_vaddr;
    if (begin + part.p_memsz > watch->image_end) watch->image_end = begin + part.p_memsz;
    if (!(part.p_flags & PF_W) || watch->own_count == 8) continue;
    Region& region = watch->own[watch->own_count++];
    region.begin = region.low = begin;
    region.end = region.high = begin + part.p_memsz;
    region.space = CROQ_SPACE_MODULE;
  }
  return 1;
}

void finish_counts(Worker* worker);

void begin_watch(Worker* worker) {
  Watch* watch = worker->watch = (Watch*)calloc(1, sizeof(Watch));
  watch->mail = (Mail*)calloc(1, sizeof(Mail));
  pthread_mutex_lock(&buffer_lock);
  watch->regions = (Region**)malloc(sizeof(Region*) * (size_t)(buffer_count + 1));
  memcpy((void*)watch->regions, (void*)buffers, sizeof(Region*) * (size_t)buffer_count);
  watch->count = buffer_count;
  ++watches;
  pthread_mutex_unlock(&buffer_lock);
  qsort((void*)watch->regions, (size_t)watch->count, sizeof(Region*), compare_regions);
  Image image = {worker->launch->module, watch};
  dl_iterate_phdr(see_module, &image);
  watch->stack_bytes = own_stacks->bytes;
}

void end_watch(Worker* worker) {
  Watch* watch = worker->watch;
  if (worker->launch->profiled) finish_counts(worker);
  for (int32_t i = 0; i < watch->own_count; ++i) drop_cells(watch->own[i]);
  free_mail(watch->mail);
  free((void*)watch->mail);
  free((void*)watch->regions);
  free(watch);
  worker->watch = nullptr;
  let_go_of_buffers();
}

}  // namespace

namespace {

[[noreturn]] void report_unaligned(croq_thread* self, uint32_t size, int32_t access, const void* place) {
  const croq_emulate_launch* launch = block_of(self)->worker->launch;
  croq_finding finding = finding_of(self, CROQ_FOUND_ALIGNMENT, site_of(launch, place));
  finding.size = (int32_t)size;
  finding.access = access;
  finding.details[2] = 1;
  report(launch, finding);
  abandon(self);
}

}  // namespace

EXPORT void croq_emulate_touch(void* address, uint32_t size, int write, void* place) {
  croq_thread* self = croq_self;
  Watch* watch = self ? block_of(self)->worker->watch : nullptr;
  if (!watch) return;
  watch_access(self, (char*)address, size, write, place);
  if (__builtin_expect(watch->odd == address, 0)) report_unaligned(self, watch->odd_size, write, place);
  watch->odd = nullptr;
}

// An access of the machine's own width. A GPU refuses those whose address is not a multiple of their size.
EXPORT void croq_emulate_aligned(void* address, uint32_t size, int write, void* place) {
  croq_thread* self = croq_self;
  Watch* watch = self ? block_of(self)->worker->watch : nullptr;
  if (!watch) return;
  watch_access(self, (char*)address, size, write, place);
  if (__builtin_expect(!((uintptr_t)address & (size - 1)) || is_local(watch, self, (char*)address), 1)) return;
  report_unaligned(self, size, write, place);
}

// An access that is marked volatile may be a look at what another thread writes.
EXPORT void croq_emulate_volatile(void* address, uint32_t size, int write, void* place) {
  croq_thread* self = croq_self;
  if (!self || !block_of(self)->worker->watch) return;
  watch_access(self, (char*)address, size, write | kVolatile, place);
  self->spins += write ? 0 : 64;
  if (self->spins > 2048) give_way(self, site_of(block_of(self)->worker->launch, place));
  if (write) leave_message(self, (char*)address, false);
  else read_message(self, (char*)address);
}

// --------------------------------------------------------------------------------------- what compilers call
#define CROQ_HOOK(size)                                                                          \
  EXPORT void __tsan_read##size(void* p) { croq_emulate_aligned(p, size, 0, HERE); }             \
  EXPORT void __tsan_write##size(void* p) { croq_emulate_aligned(p, size, 1, HERE); }            \
  EXPORT void __tsan_unaligned_read##size(void* p) { croq_emulate_touch(p, size, 0, HERE); }     \
  EXPORT void __tsan_unaligned_write##size(void* p) { croq_emulate_touch(p, size, 1, HERE); }    \
  EXPORT void __tsan_volatile_read##size(void* p) { croq_emulate_volatile(p, size, 0, HERE); }      \
  EXPORT void __tsan_volatile_write##size(void* p) { croq_emulate_volatile(p, size, 1, HERE); }
CROQ_HOOK(1) CROQ_HOOK(2) CROQ_HOOK(4) CROQ_HOOK(8) CROQ_HOOK(16)
#undef CROQ_HOOK

// Compilers ask this of every array whose extent they know (`-fsanitize=bounds`): those of a thread have no zones between
// them. The thread goes no further. build.py gives what compilers call `__ubsan_handle_...` this name.
struct Described {  // a type, as the compiler describes it
  uint16_t kind, info;
  char name[1];
};
struct Element {
  const char* file;
  uint32_t line, column;
  const Described *array, *index;
};
EXPORT void croq_emulate_handle_out_of_bounds(void* data, void* index) {
  croq_thread* self = croq_self;
  const Element* element = (const Element*)data;
  const croq_emulate_launch* launch = block_of(self)->worker->launch;
  croq_finding finding = finding_of(self, CROQ_FOUND_ELEMENT, site_of(launch, HERE));
  const bool is_signed = element->index->info & 1;
  const int32_t bits = 1 << (element->index->info >> 1);
  finding.details[0] = bits > 64 ? 0 : is_signed ? (int64_t)(intptr_t)index << (64 - bits) >> (64 - bits) : (int64_t)(intptr_t)index;
  const char* extent = strchr(element->array->name, '[');
  finding.details[1] = extent ? atoll(extent + 1) : 0;
  report(launch, finding);
  abandon(self);
}
EXPORT void croq_emulate_handle_out_of_bounds_abort(void* data, void* index) { croq_emulate_handle_out_of_bounds(data, index); }

// And this of an address that is less aligned than its type (`-fsanitize=alignment`): where compilers know that it is,
// they report the access as one of bytes. A reference is no access yet.
struct Mistyped {
  const char* file;
  uint32_t line, column;
  const Described* type;
  uint8_t log_alignment, kind;  // 0 a load, 1 a store
};
EXPORT void croq_emulate_handle_type_mismatch_v1(void* data, void* address) {
  croq_thread* self = croq_self;
  Watch* watch = self ? block_of(self)->worker->watch : nullptr;
  const Mistyped* mistyped = (const Mistyped*)data;
  if (!watch || is_local(watch, self, (char*)address)) return;
  const uint32_t size = 1u << mistyped->log_alignment;
  watch->odd = (char*)address;
  watch->odd_size = size;
  if (mistyped->kind > 1) return;
  Region* region = find_region(watch, block_of(self), (char*)address);
  if (!region || (char*)address < region->begin || (char*)address + size > region->end) return;  // found where it is used
  report_unaligned(self, size, mistyped->kind, HERE);
}
EXPORT void croq_emulate_handle_type_mismatch_v1_abort(void* data, void* address) {
  croq_emulate_handle_type_mismatch_v1(data, address);
}

EXPORT void __tsan_read_range(void* p, unsigned long n) { if (n) croq_emulate_touch(p, (uint32_t)n, 0, HERE); }
EXPORT void __tsan_write_range(void* p, unsigned long n) { if (n) croq_emulate_touch(p, (uint32_t)n, 1, HERE); }
EXPORT void __tsan_func_entry(void*) {}
EXPORT void __tsan_func_exit() {}
EXPORT void __tsan_init() {}
EXPORT void __tsan_vptr_update(void**, void*) {}
EXPORT void __tsan_vptr_read(void**) {}
EXPORT void* __tsan_memcpy(void* to, const void* from, unsigned long n) {
  if (n) croq_emulate_touch((void*)from, (uint32_t)n, 0, HERE), croq_emulate_touch(to, (uint32_t)n, 1, HERE);
  return memcpy(to, from, n);
}
EXPORT void* __tsan_memmove(void* to, const void* from, unsigned long n) {
  if (n) croq_emulate_touch((void*)from, (uint32_t)n, 0, HERE), croq_emulate_touch(to, (uint32_t)n, 1, HERE);
  return memmove(to, from, n);
}
EXPORT void* __tsan_memset(void* to, int value, unsigned long n) {
  if (n) croq_emulate_touch(to, (uint32_t)n, 1, HERE);
  return memset(to, value, n);
}

}  // namespace croq_inside

#include "croq_emulate_profile.h"
