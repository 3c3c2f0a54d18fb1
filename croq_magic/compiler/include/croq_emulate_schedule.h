// Starting threads and blocks, waiting, deadlocks. Included by croq_emulate.cpp alone.
namespace croq_inside {
namespace {

// --------------------------------------------------------------------------------------------------- blocks begin
uint32_t common_divisor(uint32_t a, uint32_t b) { return b ? common_divisor(b, a % b) : a; }

// A permutation of 0 .. count - 1 that costs nothing to keep: i -> (i * stride + offset) mod count.
void shuffle(Worker* worker, uint32_t count, uint32_t& stride, uint32_t& offset) {
  stride = 1;
  offset = 0;
  if (!worker->launch->seed || count < 2) return;
  offset = (uint32_t)(random_number(worker) % count);
  do stride = 1 + (uint32_t)(random_number(worker) % count);
  while (common_divisor(stride, count) != 1);
}

croq_index unfold(uint64_t linear, const croq_index& extent) {
  return {(uint32_t)(linear % extent.x), (uint32_t)(linear / extent.x % extent.y),
          (uint32_t)(linear / extent.x / extent.y)};
}

void place_thread(croq_thread* self, Block* block, uint32_t linear, const croq_index& index) {
  self->block = block;
  self->index = index;
  self->linear = linear;
  self->state = CROQ_RUNS;
  self->spins = 0;
  self->group = 0;
  self->copies = nullptr;
  self->changes = 0;
  self->copied = 0;
  block->worker->spins = 0;
}

// The next thread of the block, on the stack of `self`.
void start_thread(croq_thread* self, Block* block) {
  const uint32_t order = block->started++;
  const croq_emulate_launch* launch = block->worker->launch;
  const uint32_t linear =
      launch->seed ? (uint32_t)(((uint64_t)order * block->stride + block->offset) % block->threads) : order;
  place_thread(self, block, linear, unfold(linear, launch->block));
}

void activate(Worker* worker, Block* block) {
  Block* before = worker->active;
  if (worker->launch->profiled && before != block) settle_counts(worker);
  worker->active = block;
  if (!block || before == block || !worker->launch->shared_size) return;
  const size_t size = (size_t)worker->launch->shared_size;
  if (before && before->image) memcpy(before->image, worker->static_shared, size);
  if (block->image && block->started) memcpy(worker->static_shared, block->image, size);
}

Block* new_block(Worker* worker) {
  Block* block = worker->unused;
  if (block) worker->unused = block->other;
  else if (!(block = (Block*)calloc(1, sizeof(Block)))) return nullptr;
  const croq_emulate_launch* launch = worker->launch;
  if (block->memory_size < launch->shared_bytes || !block->memory) {
    free(block->memory);
    block->memory_size = launch->shared_bytes < 1024 ? 1024 : launch->shared_bytes;
    block->memory = nullptr;
    if (posix_memalign((void**)&block->memory, 1024, (size_t)block->memory_size + kZone)) return nullptr;
  }
  block->shared = block->memory;
  block->worker = worker;
  block->block = launch->block;
  block->grid = launch->grid;
  block->threads = launch->block.x * launch->block.y * launch->block.z;
  return block;
}

void free_block(Block* block) {
  free_order(block);
  free(block->warps);
  free(block->mbarriers);
  free(block->image);
  free(block->memory);
  free(block);
}

Cluster* new_cluster(Worker* worker, uint32_t size) {
  Cluster* cluster = worker->spare;
  if (cluster) worker->spare = cluster->next;
  else if (!(cluster = (Cluster*)malloc(sizeof(Cluster)))) return nullptr;
  memset((void*)cluster, 0, sizeof(Cluster));
  cluster->size = size;
  return cluster;
}

void join_cluster(Block* block, Cluster* cluster) {
  block->cluster = cluster;
  block->rank = cluster->begun++;
  cluster->blocks[block->rank] = block;
  cluster->threads = block->threads;
  cluster->ended += block->ended;
}

void leave_cluster(Block* block) {
  Cluster* cluster = block->cluster;
  if (!cluster) return;
  cluster->blocks[block->rank] = nullptr;
  block->cluster = nullptr;
  if (++cluster->gone < cluster->size) return;
  cluster->next = block->worker->spare;
  block->worker->spare = cluster;
}

// The index of a block of a cluster: neighbours along each axis.
croq_index unfold_cluster(const croq_emulate_launch* launch, uint64_t cluster, uint32_t rank) {
  const croq_index &grid = launch->grid, &each = launch->cluster;
  const croq_index first = unfold(cluster, {grid.x / each.x, grid.y / each.y, grid.z / each.z});
  const croq_index at = unfold(rank, each);
  return {first.x * each.x + at.x, first.y * each.y + at.y, first.z * each.z + at.z};
}

// Prepares a block for its threads. Blocks of the worker are numbered in the grid's order, or shuffled.
void prepare_block(Block* block);

void begin_block(Worker* worker, Block* block) {
  const croq_emulate_launch* launch = worker->launch;
  const int64_t order = worker->next_block++;
  const int64_t units = worker->blocks / worker->cluster_size, unit = order / worker->cluster_size;
  uint64_t number = launch->seed && launch->serial
                        ? (uint64_t)(((__int128)unit * worker->block_stride + worker->block_offset) % units)
                        : (uint64_t)unit;
  block->started = block->ended = 0;
  block->cluster = nullptr;
  if (worker->cluster_size > 1) {
    const uint32_t rank = (uint32_t)(order % worker->cluster_size);
    if (!rank) worker->cluster = new_cluster(worker, worker->cluster_size);
    if (worker->cluster) join_cluster(block, worker->cluster);
    block->index = unfold_cluster(launch, number, rank);
    number = block->index.x + launch->grid.x * (block->index.y + (uint64_t)launch->grid.y * block->index.z);
  } else {
    block->index = unfold(number, launch->grid);
  }
  block->number = (uint32_t)number;
  block->calm = !launch->seed && !launch->checked;
  block->at_grid = 0;
  block->mbarrier_count = 0;
  if (launch->seed) shuffle(worker, block->threads, block->stride, block->offset);
  if (!block->calm) prepare_block(block);
  ++worker->resident;
}

// What is only needed once a thread waits.
void prepare_warps(Block* block) {
  const uint32_t warps = (block->threads + 31) / 32;
  if (block->warp_capacity < warps) {
    block->warps = grow(block->warps, 0, warps);
    block->warp_capacity = warps;
  }
  if (!block->warps) return;
  for (uint32_t i = 0; i < warps; ++i) {
    const uint32_t left = block->threads - i * 32;
    block->warps[i].live = left < 32 ? (1u << left) - 1 : ~0u;
    block->warps[i].waiting = 0;
  }
  for (Barrier& barrier : block->barriers) barrier.arrived = barrier.differ = 0;
}

void prepare_block(Block* block) {
  prepare_warps(block);
  if (block->worker->launch->checked) begin_checks(block);
}

// From now on the block's threads are counted one by one.
void wake_block(Block* block) {
  block->calm = 0;
  prepare_block(block);
  block->ended = block->started - 1;
  if (block->cluster) block->cluster->ended += block->ended;
  for (uint32_t i = 0; i < block->ended; ++i) block->warps[i / 32].live &= ~(1u << i % 32);
}

// -------------------------------------------------------------------------------------------------------- waiting
croq_thread* new_stack(Worker* worker, int64_t more) {
  croq_thread* thread = worker->dead;
  if (thread) {
    worker->dead = nullptr;
  } else {
    thread = (croq_thread*)take_stack(more);
    if (!thread) return nullptr;
    thread->before = nullptr;
    thread->after = worker->stacks;
    if (worker->stacks) worker->stacks->before = thread;
    worker->stacks = thread;
  }
  thread->stack = begin_stack(thread);
  return thread;
}

void drop_stack(Worker* worker, croq_thread* thread) {
  if (thread->before) thread->before->after = thread->after;
  else worker->stacks = thread->after;
  if (thread->after) thread->after->before = thread->before;
  give_stack(thread);
}

void report_deadlock(croq_thread* self, Worker* worker);

bool may_start_block(Worker* worker) { return worker->next_block < worker->end_block; }

// Blocks of a cluster run together.
bool cluster_waits(Worker* worker) {
  return worker->cluster_size > 1 && worker->cluster && worker->cluster->begun < worker->cluster_size;
}

// Who goes on when `self` cannot. Null: a block that is not under way yet must begin, with the block at `fresh`.
// `self` itself is given when it may go on after all.
croq_thread* choose_next(croq_thread* self, Block*& fresh, bool& starts) {
  Block* here = block_of(self);
  Worker* worker = here->worker;
  int64_t spinners = 0;
  starts = false;
  if (worker->launch->seed && cluster_waits(worker) && random_number(worker) & 1) {
    starts = true;
    return nullptr;
  }
  for (;;) {
    bool spinning = false, at_grid = false;
    Block* block = here;
    do {
      const bool more = block->started < block->threads;
      if (block->ready.first && worker->launch->seed) {
        if (!more || random_number(worker) & 1) return take_random(worker, block->ready);
      } else if (block->ready.first) {
        return take(block->ready);
      }
      if (more) {
        fresh = block;
        starts = true;
        return nullptr;
      }
      spinning |= block->spinning.first != nullptr;
      at_grid |= block->gathered.first != nullptr;
      block = block->other;
    } while (block != here);
    // The machine's own copies are never waited for longer than this.
    if (land_some(worker, here)) continue;
    if (cluster_waits(worker) || ((spinning || at_grid) && may_start_block(worker))) {
      fresh = nullptr;
      starts = true;
      return nullptr;
    }
    if (!spinning) return nullptr;
    // Everybody spins: once around for each, until nothing can come of it.
    look(self);
    // Where nobody else can change anything, some turns of each are enough.
    if (worker->spins > (worker->launch->serial ? 200000 + 100 * spinners : 100000000)) return nullptr;
    spinners = 0;
    block = here;
    do {
      worker->spins += block->spinning.count;
      spinners += block->spinning.count;
      while (croq_thread* thread = take(block->spinning)) put(block->ready, thread);
      block = block->other;
    } while (block != here);
  }
}

Block* add_block(Worker* worker) {
  Block* block = new_block(worker);
  if (!block) return nullptr;
  const size_t size = (size_t)worker->launch->shared_size;
  // The first block that has company needs a place for its static shared memory.
  Block* ring = worker->active;
  if (size && ring) {
    if (!ring->image || ring->image_size < (int64_t)size) {
      ring->image = (char*)realloc(ring->image, size);
      ring->image_size = (int64_t)size;
    }
    if (!block->image || block->image_size < (int64_t)size) {
      block->image = (char*)realloc(block->image, size);
      block->image_size = (int64_t)size;
    }
  }
  if (ring) {
    block->other = ring->other;
    ring->other = block;
  } else {
    block->other = block;
  }
  block->started = 0;
  activate(worker, block);
  begin_block(worker, block);
  return block;
}

void no_memory(croq_thread* self) {
  Worker* worker = block_of(self)->worker;
  croq_finding finding = finding_of(self, 0, 0);
  report(worker->launch, finding);
  abandon(self);
}

// Leaves `self`, which has been put where somebody will find it, or has ended, and continues somebody else.
// Gives true when an ended thread's stack is to run the thread that has been started on it.
bool go_on(croq_thread* self, bool ended) {
  Block* here = block_of(self);
  Worker* worker = here->worker;
  Block* fresh = nullptr;
  bool starts;
  croq_thread* next = choose_next(self, fresh, starts);
  if (starts) {
    next = ended ? self : new_stack(worker, here->threads - here->started + 1);
    if (!next) no_memory(self);
    if (!fresh && !(fresh = add_block(worker))) no_memory(self);
    activate(worker, fresh);
    start_thread(next, fresh);
    if (ended) return true;
  } else if (!next) {
    report_deadlock(self, worker);
    abandon(self);
  } else {
    if (next == self) return true;
    activate(worker, block_of(next));
  }
  if (ended) {
    if (worker->dead) drop_stack(worker, worker->dead);
    worker->dead = self;
  }
  croq_self = next;
  croq_switch(&self->stack, next->stack);
  return false;
}

void wait_for(croq_thread* self, Queue& queue, uint32_t state, uint32_t site, uint32_t detail) {
  look(self);
  self->state = state;
  self->site = site;
  self->detail = detail;
  self->spins = 0;
  put(queue, self);
  go_on(self, false);
  self->state = CROQ_RUNS;
}

void make_ready(Block* block, croq_thread* thread) {
  block->worker->spins = 0;
  thread->state = CROQ_RUNS;
  put(block->ready, thread);
}

void wake_all(Block* block, Queue& queue) {
  while (croq_thread* thread = take(queue)) make_ready(block, thread);
}

// Lets others run, when the order of threads is shuffled or when this one waits for what others do.
void give_way(croq_thread* self, uint32_t site) {
  Block* block = block_of(self);
  if (block->calm) wake_block(block);
  if (self->changes) block->worker->spins = 0;
  self->changes = 0;
  wait_for(self, block->spinning, CROQ_SPINS, site, 0);
}

void count_grid(Worker* worker) {
  const uint64_t all = (uint64_t)worker->blocks * (worker->active ? worker->active->threads : 0);
  if (!worker->at_grid || worker->at_grid + (uint64_t)worker->grid_ended < all) return;
  worker->at_grid = 0;
  worker->phase = ++worker->fences;
  Block* block = worker->active;
  do {
    wake_all(block, block->gathered);
    block->at_grid = 0;
    block = block->other;
  } while (block != worker->active);
}

// ------------------------------------------------------------------------------------------------------- barriers
// `self`, if any, passes without having waited.
void release_barrier(Block* block, Barrier& barrier, croq_thread* self) {
  Worker* worker = block->worker;
  ++worker->barriers;
  if (worker->launch->checked) pass_barrier(block, barrier, self);
  for (croq_thread* thread = barrier.queue.first; thread; thread = thread->next)
    thread->result = barrier.count | (barrier.all ? 1 << 30 : 0) | (barrier.any ? 1 << 29 : 0);
  if (barrier.differ) {
    croq_finding finding;
    memset(&finding, 0, sizeof finding);
    finding.kind = CROQ_FOUND_DIVERGENT;
    finding.site = barrier.site;
    finding.other_site = barrier.other_site;
    finding.block = finding.other_block = block->number;
    finding.thread = barrier.thread;
    finding.other_thread = barrier.other_thread;
    finding.details[0] = barrier.arrived;
    finding.details[1] = (int64_t)(&barrier - block->barriers);
    report(worker->launch, finding);
  }
  barrier.arrived = barrier.differ = 0;
  wake_all(block, barrier.queue);
}

// `what`: 0 no such barrier, 1 a part of a warp, 2 two counts, 3 an mbarrier of no arrivals. The thread goes no further.
void report_barrier(croq_thread* self, uint32_t site, int64_t id, int64_t what, int64_t count) {
  croq_finding finding = finding_of(self, CROQ_FOUND_BARRIER, site);
  finding.details[0] = id;
  finding.details[1] = what;
  finding.details[2] = count;
  report(block_of(self)->worker->launch, finding);
  abandon(self);
}

void report_ended(croq_thread* self, Block* block, const Barrier& barrier) {
  croq_finding finding = finding_of(self, CROQ_FOUND_ENDED, barrier.site);
  finding.thread = barrier.thread;
  finding.other_thread = self->linear;
  finding.details[0] = barrier.arrived;
  finding.details[1] = block->ended;
  report(block->worker->launch, finding);
}

void arrive(croq_thread* self, Barrier& barrier, uint32_t count, uint32_t site, int value) {
  if (!barrier.arrived) {
    barrier.site = site;
    barrier.thread = self->linear;
    barrier.count = barrier.any = 0;
    barrier.all = 1;
    barrier.expected = count;
    if (count % 32) report_barrier(self, site, (int64_t)(&barrier - block_of(self)->barriers), 1, count);
  } else if (barrier.expected != count) {
    croq_finding finding = finding_of(self, CROQ_FOUND_BARRIER, site);
    finding.details[0] = (int64_t)(&barrier - block_of(self)->barriers);
    finding.details[1] = 2;
    finding.details[2] = count;
    finding.details[3] = barrier.expected;
    finding.other_site = barrier.site;
    finding.other_thread = barrier.thread;
    report(block_of(self)->worker->launch, finding);
    abandon(self);
  } else if (barrier.site != site && !barrier.differ && &barrier == block_of(self)->barriers &&
             block_of(self)->worker->launch->checked) {  // otherwise calls have been moved
    barrier.differ = 1;
    barrier.other_site = site;
    barrier.other_thread = self->linear;
  }
  barrier.count += value != 0;
  barrier.all &= value != 0;
  barrier.any |= value != 0;
  ++barrier.arrived;
}

// ------------------------------------------------------------------------------------------------------ the end
void end_thread_of_warp(Block* block, uint32_t linear);

void end_thread(croq_thread* self, Block* block) {
  if (self->copies) run_copies(self, 0);
  ++block->ended;
  block->worker->spins = 0;
  ++block->worker->grid_ended;
  end_thread_of_warp(block, self->linear);
  Barrier& barrier = block->barriers[0];
  if (barrier.arrived && !barrier.expected && barrier.arrived == block->threads - block->ended) {
    report_ended(self, block, barrier);
    release_barrier(block, barrier, nullptr);
  }
  if (block->worker->at_grid) count_grid(block->worker);
  if (block->cluster) {
    ++block->cluster->ended;
    count_cluster(block->cluster);
  }
}

// A block has ended on the stack of `self`: the next one begins on it, or another block's thread continues, or all is
// done. Gives only when a thread has been started.
void end_block(croq_thread* self, Block* block) {
  Worker* worker = block->worker;
  worker->threads += block->threads;
  if (worker->launch->profiled) settle_counts(worker);
  if (block->calm) worker->grid_ended += block->threads;
  if (block->calm && block->cluster) {
    block->cluster->ended += block->threads;
    count_cluster(block->cluster);
  }
  leave_cluster(block);
  --worker->resident;
  look(self);
  if (block->other == block) {
    if (!may_start_block(worker)) {
      worker->active = nullptr;
      block->other = worker->unused;
      worker->unused = block;
      leave_for_main(self, kDone);
      __builtin_unreachable();
    }
    begin_block(worker, block);
    start_thread(self, block);
    return;
  }
  Block* rest = block->other;
  Block* before = rest;
  while (before->other != block) before = before->other;
  before->other = rest;
  worker->active = nullptr;
  activate(worker, rest);
  block->other = worker->unused;
  worker->unused = block;
  self->block = rest;
  go_on(self, true);
}

// A place of those who wait, with the number of those who wait there for the same.
struct Waits {
  croq_finding finding;
  int32_t places;
};

void add_waits(Waits& waits, const Queue& queue) {
  for (croq_thread* thread = queue.first; thread; thread = thread->next) {
    int64_t* details = waits.finding.details;
    // Each place: site << 32 | kind << 28 | detail << 24, and the number that wait there.
    const int64_t key = (int64_t)thread->site << 32 | (int64_t)thread->state << 28 | (int64_t)(thread->detail & 15) << 24;
    int32_t at = 0;
    while (at < waits.places && details[2 * at] != key) ++at;
    if (at == 4) continue;
    if (at == waits.places) {
      ++waits.places;
      details[2 * at] = key;
      if (at == 0) waits.finding.site = thread->site, waits.finding.thread = thread->linear;
      if (at == 1) waits.finding.other_site = thread->site, waits.finding.other_thread = thread->linear;
    }
    ++details[2 * at + 1];
  }
}

void report_deadlock(croq_thread* self, Worker* worker) {
  Block* here = block_of(self);
  Block* block = here;
  do {
    Waits waits;
    memset(&waits, 0, sizeof waits);
    waits.finding.kind = CROQ_FOUND_DEADLOCK;
    waits.finding.block = block->number;
    waits.finding.size = (int32_t)block->ended;
    for (Barrier& barrier : block->barriers) add_waits(waits, barrier.queue);
    for (uint32_t i = 0; i < block->mbarrier_count; ++i) add_waits(waits, block->mbarriers[i].queue);
    for (uint32_t i = 0; block->warps && i < (block->threads + 31) / 32; ++i)
      for (uint32_t lane = 0; lane < 32; ++lane)
        if (block->warps[i].waiting >> lane & 1) {
          Queue one = {block->warps[i].lanes[lane].thread, nullptr, 1};
          croq_thread* next = one.first->next;
          one.first->next = nullptr;
          add_waits(waits, one);
          one.first->next = next;
        }
    add_waits(waits, block->gathered);
    add_waits(waits, block->meeting);
    add_waits(waits, block->spinning);
    if (waits.places) report(worker->launch, waits.finding);
    block = block->other;
  } while (block != here);
}

// ------------------------------------------------------------------------------------------------------ the worker
struct Frame {
  const croq_emulate_launch* launch;
};

void give_all_back(Worker* worker) {
  while (worker->stacks) drop_stack(worker, worker->stacks);
}

void reset_block(Block* block) {
  while (Arrival* arrival = block->arrivals) {
    block->arrivals = arrival->next;
    free(arrival->known);
    free(arrival);
  }
  block->ready = block->spinning = block->gathered = block->meeting = {nullptr, nullptr, 0};
  for (Barrier& barrier : block->barriers) barrier.queue = {nullptr, nullptr, 0};
  for (uint32_t i = 0; i < block->mbarrier_capacity; ++i) block->mbarriers[i].queue = {nullptr, nullptr, 0};
}

static __thread Block* kept_blocks;  // from launch to launch: checked blocks own large tables
pthread_key_t blocks_key;

void free_blocks(void*) {
  while (Block* block = kept_blocks) {
    kept_blocks = block->other;
    free_block(block);
  }
}

void run_blocks(const void* frame, int64_t begin, int64_t end, croq_lane* lane) {
  const croq_emulate_launch* launch = (const croq_emulate_launch*)frame;
  Worker worker;
  memset((void*)&worker, 0, sizeof worker);
  worker.launch = launch;
  worker.lane = lane;
  worker.next_block = begin;
  worker.end_block = end;
  worker.blocks = end - begin;
  worker.random = (launch->seed + (uint64_t)begin) * 0x9e3779b97f4a7c15ull | 1;
  worker.unused = kept_blocks;
  kept_blocks = nullptr;
  uint32_t stride, offset;
  worker.cluster_size = launch->cluster.x ? launch->cluster.x * launch->cluster.y * launch->cluster.z : 1;
  shuffle(&worker, (uint32_t)(worker.blocks / worker.cluster_size), stride, offset);
  worker.block_stride = stride;
  worker.block_offset = offset;
  if (launch->anchor && launch->shared_size) worker.static_shared = launch->anchor() - launch->shared_shift;
  worker.first_serial = __atomic_load_n(&serials, __ATOMIC_RELAXED);
  FaultsOfThread faults(launch->module);
  Stacks* stacks = stacks_of_thread();
  const int64_t unit = 1 << 14;
  const int64_t wanted = (launch->stack_bytes + unit - 1) / unit * unit;
  if (stacks && stacks->bytes < wanted) {
    unmap_stacks(stacks);
    stacks->bytes = wanted;
  }
  croq_thread* outer = croq_self;
  croq_thread* first = stacks ? new_stack(&worker, 1) : nullptr;
  Block* block = first ? add_block(&worker) : nullptr;
  if (!block) {
    croq_finding finding;
    memset(&finding, 0, sizeof finding);
    report(launch, finding);
  } else {
    if (launch->checked) begin_watch(&worker);
    start_thread(first, block);
    croq_self = first;
    croq_switch(&worker.main_stack, first->stack);
    while (worker.request == kErrand) {
      croq_thread* current = croq_self;
      croq_self = outer;
      const bool stop = croq_rt->poll(lane) != 0;
      croq_self = current;
      if (stop) break;
      croq_switch(&worker.main_stack, current->stack);
    }
    if (launch->checked) end_watch(&worker);
  }
  croq_self = outer;
  if (worker.dead) worker.dead = nullptr;  // it is among `stacks`
  give_all_back(&worker);
  Block* ring = worker.active;
  while (ring) {
    Block* next = ring->other == worker.active ? nullptr : ring->other;
    reset_block(ring);
    worker.cluster = ring->cluster;
    leave_cluster(ring);
    if (worker.cluster && worker.cluster->begun < worker.cluster->size && worker.cluster->gone == worker.cluster->begun)
      free(worker.cluster);  // whose other blocks have never begun
    ring->other = worker.unused;
    worker.unused = ring;
    ring = next;
  }
  kept_blocks = worker.unused;
  if (kept_blocks) pthread_setspecific(blocks_key, kept_blocks);
  while (Cluster* cluster = worker.spare) {
    worker.spare = cluster->next;
    free(cluster);
  }
  while (Copy* copy = worker.copies) {
    worker.copies = copy->next;
    free(copy);
  }
  __atomic_fetch_add(&launch->report->threads, worker.threads, __ATOMIC_RELAXED);
  __atomic_fetch_add(&launch->report->barriers, worker.barriers, __ATOMIC_RELAXED);
  if (launch->report->count && worker.request == kAbandon) {
    int64_t none = 0;
    croq_rt->fail(lane, 0, 0, &none);
  }
}

}  // namespace

// A new stack begins here: it starts threads for as long as there are any. Its first is in place.
extern "C" void croq_fiber_main(croq_thread* self) {
  const croq_emulate_launch* launch = block_of(self)->worker->launch;
  launch->run(launch->words);  // does not return
  __builtin_unreachable();
}

EXPORT void croq_emulate_next(croq_thread* self) {
  Block* block = block_of(self);
  if (!block->calm) {
    end_thread(self, block);
    if (block->ended < block->threads) {
      go_on(self, true);
      return;
    }
  } else if (block->started < block->threads) {
    start_thread(self, block);
    return;
  }
  end_block(self, block);
}

EXPORT int32_t croq_emulate_entry(croq_lane* lane, const int64_t* words) {
  const croq_emulate_launch* launch = (const croq_emulate_launch*)words[0];
  croq_site own = {0};
  const int64_t blocks = (int64_t)launch->grid.x * launch->grid.y * launch->grid.z;
  begin_faults();
  const int32_t code = croq_rt->launch(lane, &own, run_blocks, launch, blocks, 0, launch->serial ? CROQ_SERIAL : 0);
  end_faults();
  return code;
}

EXPORT void croq_emulate_attach(const croq_runtime* table) {
  static bool started;
  croq_rt = table;
  if (started) return;
  started = true;
  pthread_key_create(&stacks_key, free_stacks);
  pthread_key_create(&blocks_key, free_blocks);
  pthread_key_create(&fault_key, free);
}

}  // namespace croq_inside
