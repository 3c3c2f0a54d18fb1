// Clusters: blocks that start together, meet, and arrive at mbarriers in each other's shared memory. Included by
// croq_emulate.cpp alone.
//
// What blocks learn of each other here are messages (croq_emulate_messages.h) at places that no kernel can write to: the
// table of a cluster for its barrier, a number in the block for each of its mbarriers.
namespace croq_inside {
namespace {

char* letters_of(Cluster* cluster) { return (char*)cluster; }
char* letters_of(Block* block, const Mbarrier* barrier) { return (char*)block + 1 + (barrier - block->mbarriers); }

void forget_letters(Block* block, const Mbarrier* barrier) {
  Letterbox* box = letterbox(mail_of(block->worker), letters_of(block, barrier), false);
  if (box) box->last = nullptr;
}

// Everybody in the block knows what everybody has done.
void level(Block* block) {
  Order* order = block->order;
  ++order->turn;
  for (uint32_t i = 0; i < block->threads; ++i) order->floor[i] = order->clock[i]++;
}

// All threads that have not ended have come to the cluster's barrier.
void count_cluster(Cluster* cluster) {
  if (!cluster->arrived || cluster->begun < cluster->size) return;
  if (cluster->arrived + cluster->ended < (uint64_t)cluster->size * cluster->threads) return;
  cluster->arrived = 0;
  bool first = true;
  for (Block* block : cluster->blocks) {
    if (!block || !block->meeting.first || !block->worker->launch->checked) continue;
    level(block);
    pass_fence(block->meeting.first, 1);
    leave_message(block->meeting.first, letters_of(cluster), !first);
    first = false;
  }
  for (Block* block : cluster->blocks) {
    if (!block || !block->meeting.first) continue;
    ++block->worker->barriers;
    if (block->worker->launch->checked) {
      read_message(block->meeting.first, letters_of(cluster));
      level(block);
    }
    wake_all(block, block->meeting);
  }
}

Mbarrier* mbarrier_at(Block* block, uint64_t* address) {
  for (uint32_t i = 0; i < block->mbarrier_count; ++i)
    if (block->mbarriers[i].address == address) return &block->mbarriers[i];
  return nullptr;
}

}  // namespace

EXPORT void croq_emulate_cluster() {
  croq_thread* self = croq_self;
  Block* block = block_of(self);
  if (block->calm) wake_block(block);
  if (!block->cluster) {  // a launch without clusters: each block is one
    block->cluster = new_cluster(block->worker, 1);
    if (!block->cluster) no_memory(self);
    join_cluster(block, block->cluster);
  }
  ++block->cluster->arrived;
  self->state = CROQ_AT_CLUSTER;
  self->site = site_of(block->worker->launch, HERE);
  self->detail = 0;
  self->spins = 0;
  put(block->meeting, self);
  count_cluster(block->cluster);
  look(self);
  go_on(self, false);
}

// One arrival at the mbarrier that stands at the same place of another block's shared memory.
EXPORT void croq_emulate_cluster_arrive(uint64_t* address, uint32_t rank) {
  croq_thread* self = croq_self;
  Block* block = block_of(self);
  if (block->calm) wake_block(block);
  const uint32_t site = site_of(block->worker->launch, HERE);
  maybe_give_way(self, site);
  Cluster* cluster = block->cluster;
  if (rank >= (cluster ? cluster->size : 1)) report_barrier(self, site, -1, 4, rank);
  Block* there = cluster ? cluster->blocks[rank] : block;
  if (!there && rank < cluster->begun) report_barrier(self, site, -1, 5, rank);
  const int64_t offset = (char*)address - block->shared;
  if (there && offset >= 0 && offset < block->memory_size) address = (uint64_t*)(there->shared + offset);
  Mbarrier* barrier = there ? mbarrier_at(there, address) : nullptr;
  if (!barrier) report_barrier(self, site, -1, 0, 0);
  if (block->worker->launch->checked) {
    pass_fence(self, 1);
    leave_message(self, letters_of(there, barrier), true);
    if (there == block) pass_on(self, barrier->known);
  }
  arrive_at(there, barrier, 1);
}

EXPORT void croq_emulate_cluster_wait(uint64_t* address, uint32_t parity) {
  croq_thread* self = croq_self;
  Block* block = block_of(self);
  if (block->calm) wake_block(block);
  const uint32_t site = site_of(block->worker->launch, HERE);
  if (block->worker->launch->checked) watch_access(self, (char*)address, 8, kVolatile, HERE);
  for (;;) {
    Mbarrier* barrier = find_mbarrier(self, address, site);
    if (barrier->phase != (parity & 1)) {
      if (!block->worker->launch->checked) return;
      learn(self, barrier->known);
      read_message(self, letters_of(block, barrier));
      return;
    }
    wait_for(self, barrier->queue, CROQ_AT_MBARRIER, site, (uint32_t)(barrier - block->mbarriers));
  }
}

}  // namespace croq_inside
