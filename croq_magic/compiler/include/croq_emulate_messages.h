// What threads learn of each other through memory: who writes a place (an update, or a volatile store) after a fence
// leaves a message there, and who looks at that place later (by an update, or a volatile load) has read it. Included by
// croq_emulate_check.h alone.
//
// A message covers what its thread knew and had done at its last fence, and what other threads of its block had done
// before fences of their own that it knows of. `near` is what holds for threads of the block, `far`, by fences of the
// device, for all. Messages at one place follow each other; a message also carries those that its thread had read.
namespace croq_inside {
namespace {

// A clock for every thread of a block: mostly one and the same.
struct Covered {
  Covered* next;
  uint32_t base, count;
  uint32_t* all;  // or one for each
  struct {
    uint32_t thread, clock;
  } few[32];
};

struct Message {
  Message *next, *before;  // of all; at the same place, and not cut off
  uint32_t serial, thread;
  uint32_t own[2];         // clock of its thread at the fence: of the block, of the device; 0: none
  Covered* covered[2];
  Message** read;
  uint32_t count, visit;
};

struct Letterbox {
  char* address;
  Message* last;
};

// A thread has read a message; those who know of that clock of it have, too.
struct Read {
  Message* message;
  char* address;
  uint32_t thread, clock;
};

// A thread's last fences.
struct Fence {
  uint32_t clock[2];
  Covered* covered[2];
  uint32_t turn, version;    // what it knew then
  Covered* passed[2];        // what its messages cover since
  uint32_t passed_turn, passed_version;
};

struct Mail {
  Letterbox* boxes;
  uint32_t box_count, box_capacity;  // a power of two
  Covered* covered;
  Message* messages;
  uint32_t visit;
};

const int32_t kMostVisits = 4096;  // of messages that carry others; beyond, nobody is accused

uint32_t clock_in(const Covered* covered, uint32_t thread) {
  if (!covered) return 0;
  if (covered->all) return covered->all[thread];
  for (uint32_t i = 0; i < covered->count; ++i)
    if (covered->few[i].thread == thread) return covered->few[i].clock;
  return covered->base;
}

template <typename Clock>
Covered* cover(Mail* mail, uint32_t threads, Clock clock) {
  Covered* made = (Covered*)calloc(1, sizeof(Covered));
  if (!made) return nullptr;
  made->next = mail->covered;
  mail->covered = made;
  made->base = clock(threads - 1);
  for (uint32_t i = 0; i < threads; ++i) {
    const uint32_t now = clock(i);
    if (made->all) {
      made->all[i] = now;
    } else if (now != made->base) {
      if (made->count < 32) {
        made->few[made->count++] = {i, now};
      } else if ((made->all = (uint32_t*)malloc(threads * sizeof(uint32_t)))) {
        for (uint32_t before = 0; before < i; ++before) made->all[before] = made->base;
        for (const auto& one : made->few) made->all[one.thread] = one.clock;
        made->all[i] = now;
      }
    }
  }
  return made;
}

Letterbox* letterbox(Mail* mail, char* address, bool make) {
  if (make && mail->box_count * 2 >= mail->box_capacity) {
    const uint32_t capacity = mail->box_capacity ? mail->box_capacity * 2 : 64;
    Letterbox* boxes = (Letterbox*)calloc(capacity, sizeof(Letterbox));
    if (!boxes) return nullptr;
    for (uint32_t i = 0; i < mail->box_capacity; ++i) {
      if (!mail->boxes[i].address) continue;
      uint32_t at = (uint32_t)((uintptr_t)mail->boxes[i].address * 0x9e3779b97f4a7c15ull >> 40) & (capacity - 1);
      while (boxes[at].address) at = (at + 1) & (capacity - 1);
      boxes[at] = mail->boxes[i];
    }
    free(mail->boxes);
    mail->boxes = boxes;
    mail->box_capacity = capacity;
  }
  if (!mail->box_capacity) return nullptr;
  uint32_t at = (uint32_t)((uintptr_t)address * 0x9e3779b97f4a7c15ull >> 40) & (mail->box_capacity - 1);
  while (mail->boxes[at].address && mail->boxes[at].address != address) at = (at + 1) & (mail->box_capacity - 1);
  if (mail->boxes[at].address) return mail->boxes + at;
  if (!make) return nullptr;
  ++mail->box_count;
  mail->boxes[at] = {address, nullptr};
  return mail->boxes + at;
}

void free_mail(Mail* mail) {
  free(mail->boxes);
  while (Covered* covered = mail->covered) {
    mail->covered = covered->next;
    free(covered->all);
    free(covered);
  }
  while (Message* message = mail->messages) {
    mail->messages = message->next;
    free((void*)message->read);
    free(message);
  }
  *mail = {};
}

// Fences: scope 0 is the block, others the device.
void pass_fence(croq_thread* self, int scope) {
  Block* block = block_of(self);
  Order* order = block->order;
  Mail* mail = mail_of(block->worker);
  const uint32_t thread = self->linear;
  Fence& fence = order->fences[thread];
  bool plain = !order->known[thread];
  const uint32_t first = thread & ~31u, end = first + 32 < block->threads ? first + 32 : block->threads;
  for (uint32_t i = first; i < end && plain; ++i) plain = order->warp_floor[i] <= order->floor[i];
  Covered* covered;
  if (plain) {
    if (order->floor_turn != order->turn || !order->floor_covered) {
      order->floor_covered = cover(mail, block->threads, [&](uint32_t i) { return order->floor[i]; });
      order->floor_turn = order->turn;
    }
    covered = order->floor_covered;
  } else {
    covered = cover(mail, block->threads, [&](uint32_t i) { return knows(order, thread, i); });
  }
  for (int far = 0; far < (scope ? 2 : 1); ++far) {
    fence.clock[far] = order->clock[thread];
    fence.covered[far] = covered;
  }
  ++order->clock[thread];
  fence.turn = order->turn;
  fence.version = order->version[thread];
  fence.passed[0] = fence.passed[1] = nullptr;
  ++order->fence_count;
  ++block->worker->fences;
}

Covered* passed_by(Block* block, uint32_t thread, int far) {
  Order* order = block->order;
  Fence& fence = order->fences[thread];
  if (fence.turn == order->turn && fence.version == order->version[thread]) return fence.covered[far];
  if (fence.passed_turn != order->turn || fence.passed_version != order->version[thread])
    fence.passed[0] = fence.passed[1] = nullptr;
  fence.passed_turn = order->turn;
  fence.passed_version = order->version[thread];
  if (!fence.passed[far])
    fence.passed[far] = cover(mail_of(block->worker), block->threads, [&](uint32_t i) {
      const uint32_t then = clock_in(fence.covered[far], i), now = knows(order, thread, i);
      const uint32_t theirs = order->fences[i].clock[far] < now ? order->fences[i].clock[far] : now;
      return then > theirs ? then : theirs;
    });
  return fence.passed[far];
}

bool has_read(const Order* order, uint32_t thread, const Read& read) {
  return read.thread == thread || knows(order, thread, read.thread) >= read.clock;
}

// `self` has written a place that others may look at.
void leave_message(croq_thread* self, char* address, bool update) {
  Block* block = block_of(self);
  Order* order = block->order;
  Mail* mail = mail_of(block->worker);
  if (!block->worker->fences) return;
  const uint32_t thread = self->linear;
  if (!order->fence_count) {  // no fence in the block: others' messages are cut off by a store, not by an update
    Letterbox* box = update ? nullptr : letterbox(mail, address, false);
    if (box) box->last = nullptr;
    return;
  }
  Letterbox* box = letterbox(mail, address, true);
  if (!box) return;
  const Fence& fence = order->fences[thread];
  Covered* const near = passed_by(block, thread, 0);
  Covered* const far = passed_by(block, thread, 1);
  uint32_t count = 0;
  for (uint32_t i = 0; i < order->read_count; ++i) count += has_read(order, thread, order->reads[i]);
  Message* last = box->last;
  if (last && last->serial == block->serial && last->thread == thread && last->own[0] == fence.clock[0] &&
      last->own[1] == fence.clock[1] && last->covered[0] == near && last->covered[1] == far && last->count == count)
    return;
  Message* message = (Message*)calloc(1, sizeof(Message));
  if (!message) return;
  message->next = mail->messages;
  mail->messages = message;
  message->before = update ? last : nullptr;
  message->serial = block->serial;
  message->thread = thread;
  for (int i = 0; i < 2; ++i) message->own[i] = fence.clock[i];
  message->covered[0] = near;
  message->covered[1] = far;
  message->read = count ? (Message**)malloc(count * sizeof(Message*)) : nullptr;
  if (message->read)
    for (uint32_t i = 0; i < order->read_count; ++i)
      if (has_read(order, thread, order->reads[i])) message->read[message->count++] = order->reads[i].message;
  box->last = message;
}

// `self` looks at a place.
void read_message(croq_thread* self, char* address) {
  Block* block = block_of(self);
  if (!block->worker->fences) return;
  const Letterbox* box = letterbox(mail_of(block->worker), address, false);
  if (!box || !box->last) return;
  Order* order = block->order;
  const uint32_t thread = self->linear, clock = order->clock[thread];
  uint32_t mine = 0, oldest = 0;
  for (uint32_t i = order->read_count; i-- > 0;) {
    Read& read = order->reads[i];
    if (read.thread != thread || read.address != address) continue;
    if (read.message == box->last) return;
    if (read.clock == clock) {  // nobody else knows of that one
      read.message = box->last;
      return;
    }
    // What everybody knows to be read stands for what was read before it.
    if (++mine >= 2 && order->reads[oldest].clock <= order->floor[thread]) {
      read = {box->last, address, thread, clock};
      return;
    }
    oldest = i;
  }
  if (order->read_count == order->read_capacity) {
    const uint32_t capacity = order->read_capacity * 2 + 16;
    order->reads = grow(order->reads, order->read_count, capacity);
    order->read_capacity = order->reads ? capacity : 0;
    if (!order->reads) {
      order->read_count = 0;
      return;
    }
  }
  order->reads[order->read_count++] = {box->last, address, thread, clock};
}

// Whether a message, or one that it carries, covers an access.
bool covers(Message* message, uint32_t serial, const Record& record, uint32_t visit, int32_t& left) {
  for (; message && message->visit != visit; message = message->before) {
    message->visit = visit;
    if (--left < 0) return true;
    const int far = message->serial != serial;
    if (far && !message->own[1] && !message->covered[1]) continue;
    if (message->serial == record.serial) {
      const int which = far ? 1 : 0;
      if (message->thread == record.thread && record.clock <= message->own[which]) return true;
      if (record.clock <= clock_in(message->covered[which], record.thread)) return true;
    }
    for (uint32_t i = 0; i < message->count; ++i)
      if (covers(message->read[i], serial, record, visit, left)) return true;
  }
  return false;
}

bool learnt(croq_thread* self, Block* block, const Record& record) {
  const Order* order = block->order;
  const uint32_t visit = ++mail_of(block->worker)->visit;
  int32_t left = kMostVisits;
  for (uint32_t i = order->read_count; i-- > 0;)
    if (has_read(order, self->linear, order->reads[i]) &&
        covers(order->reads[i].message, block->serial, record, visit, left))
      return true;
  return false;
}

}  // namespace
}  // namespace croq_inside
