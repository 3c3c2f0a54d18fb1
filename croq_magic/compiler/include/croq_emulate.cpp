// The emulator: CUDA kernels, compiled as C++ over croq_emulate.h, run with one fiber per CUDA thread.
//
// A stack starts threads one after the other for as long as none of them waits; that is a plain loop in the kernel's
// module, about 3 ns a thread. A thread that must wait keeps the stack it is on, and another stack starts the rest. So
// stacks are needed, and switched, only for threads that wait. Blocks of a launch are spread over the CPU runtime's
// threads, except where their order or their findings must not depend on the machine (printing, checking), and where
// blocks wait for each other: then they live side by side on one thread.
//
// croq_emulate_check.h sees every access of a checked module, croq_emulate_profile.h counts; croq_emulate_faults.h takes
// what the processor refuses.
#include "croq_cpu.h"

#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "croq_emulate_abi.h"
#define CROQ_FIBER_MAIN "croq_emulate_main"
#define croq_fiber_main croq_emulate_main
#include "croq_stacks.h"

#define EXPORT extern "C" __attribute__((visibility("default")))
#define HERE __builtin_return_address(0)

extern "C" {
__attribute__((visibility("default"), tls_model("initial-exec"))) __thread croq_thread* croq_self;
}

namespace croq_inside {
namespace {

static_assert(sizeof(croq_thread) <= kTop, "a thread lies at the top of its stack");

struct Queue {
  croq_thread *first, *last;
  uint32_t count;
};

struct Lane {  // one thread's part in an operation of its warp
  croq_thread* thread;
  uint32_t mask, size, param, width;
  int32_t op;
  uint32_t site;
  alignas(16) unsigned char in[16], out[16];
};
struct Warp {
  uint32_t live, waiting;  // lanes that have not ended, lanes that wait for the others
  Lane lanes[32];
};

struct Barrier {
  uint32_t arrived, expected, site, other_site, differ;
  uint32_t thread, other_thread;
  int32_t count, all, any;
  Queue queue;
  uint32_t* known;  // what those that arrived pass on (croq_emulate_check.h)
};

struct Mbarrier {
  uint64_t* address;
  uint32_t count, pending, phase, site;
  Queue queue;
  uint32_t* known;
};

struct Copy {
  Copy* next;
  char* to;
  const char* from;
  uint32_t size, valid, group, site;
  uint32_t number;  // among the thread's copies
  uint32_t clock;   // of its thread when an arrival at an mbarrier was bound to it; 0: none is
  croq_thread* thread;
  Copy *earlier, *later;  // among all that have not landed, of a checked launch
};

// An arrival that waits for the copies a thread has started before it.
struct Arrival {
  Arrival* next;
  croq_thread* thread;
  uint32_t copies, mbarrier;  // how many copies; the place in the block's table
  uint32_t* known;            // what the thread knew and had done
};

struct Cell;
struct Order;
struct Region {      // a range of memory that kernels may use, with what is known of each of its parts
  char *begin, *end;
  char *low, *high;  // the same with red zones: memory of ours that kernels may not use
  Cell* cells;
  int64_t count;     // of cells
  int32_t shift;     // a cell stands for 1 << shift bytes
  int32_t space;
  char* mapping;     // of a global buffer
  int64_t mapped;
  int32_t fresh;     // it holds what kernels have written, and nothing else
  Region* next;      // of those that are released and still looked at
};
const int64_t kZone = 4096;

const uint32_t kBarriers = 16;
const uint32_t kCluster = 16;  // most blocks of a cluster
struct Worker;
struct Block;

struct Cluster {
  Cluster* next;            // of those that nobody uses
  Block* blocks[kCluster];  // that are under way, by rank
  uint32_t size, threads, begun, gone;  // blocks; threads of each; blocks that have begun, and ended
  uint64_t arrived, ended;  // threads at its barrier, threads that have ended
};

struct Block : croq_block_state {
  Worker* worker;
  uint32_t serial, ended, number;
  uint32_t at_grid, stride, offset;  // threads in the grid's barrier; the order in which threads start
  Queue ready, spinning, gathered, meeting;  // the last two: at the barrier of the grid, of the cluster
  Barrier barriers[kBarriers];
  Warp* warps;
  uint32_t warp_capacity;
  Mbarrier* mbarriers;
  uint32_t mbarrier_count, mbarrier_capacity;
  Cluster* cluster;
  uint32_t rank;
  Arrival* arrivals;                 // those that wait for copies, oldest first
  Block* other;                      // the next block of the worker that is under way, in a ring
  char* image;                       // its static shared memory while another block's is in place
  char* memory;                      // dynamic shared memory, owned
  int64_t memory_size, image_size;
  Order* order;                      // clocks of its threads
  Region statics, dynamics;          // its shared memory
};

enum { kDone = 1, kErrand = 2, kAbandon = 3 };

// What runs a range of blocks on one OS thread.
struct Worker {
  const croq_emulate_launch* launch;
  croq_lane* lane;
  void* main_stack;
  int32_t request;
  int64_t next_block, end_block, blocks, block_offset, block_stride;
  Block* active;       // whose threads run; its static shared memory is in place
  uint32_t resident;
  Block* unused;
  croq_thread* stacks;  // all in use
  croq_thread* dead;    // a stack that is being left for good
  Copy* copies;         // unused ones
  Copy* flying;         // those that have not landed, of a checked launch
  Cluster *cluster, *spare;  // the one whose blocks begin, and unused ones
  uint32_t cluster_size;
  uint64_t random;
  uint32_t at_grid, grid_ended;
  char* static_shared;
  int64_t spins;       // turns in which threads did nothing but spin, since one did something else
  int64_t threads, barriers;
  uint32_t first_serial, fences, phase;  // fences and barriers of the grid so far, and as many at the last of these
  int64_t looks;
  struct Watch* watch;
};

uint32_t serials = 1;  // of blocks, over all launches

template <typename T>
T* grow(T* place, int64_t from, int64_t to) {
  T* bigger = (T*)realloc((void*)place, sizeof(T) * (size_t)to);
  if (bigger && to > from) memset((void*)(bigger + from), 0, sizeof(T) * (size_t)(to - from));
  return bigger;
}

void put(Queue& queue, croq_thread* thread) {
  thread->next = nullptr;
  if (queue.first) queue.last->next = thread;
  else queue.first = thread;
  queue.last = thread;
  ++queue.count;
}

croq_thread* take(Queue& queue) {
  croq_thread* thread = queue.first;
  if (thread) {
    queue.first = thread->next;
    --queue.count;
  }
  return thread;
}

uint64_t random_number(Worker* worker) {
  uint64_t x = worker->random;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return (worker->random = x) * 0x2545f4914f6cdd1dull >> 16;
}

// One of the first few, so that a queue stays fair.
croq_thread* take_random(Worker* worker, Queue& queue) {
  if (queue.count < 2) return take(queue);
  uint32_t skip = (uint32_t)(random_number(worker) % (queue.count < 64 ? queue.count : 64));
  if (!skip) return take(queue);
  croq_thread* before = queue.first;
  while (--skip) before = before->next;
  croq_thread* thread = before->next;
  before->next = thread->next;
  if (queue.last == thread) queue.last = before;
  --queue.count;
  return thread;
}

uint32_t site_of(const croq_emulate_launch* launch, const void* place) {
  return (uint32_t)((const char*)place - launch->module);
}

Block* block_of(croq_thread* self) { return static_cast<Block*>(self->block); }

// ------------------------------------------------------------------------------------------------------- findings
bool same_finding(const croq_finding& a, const croq_finding& b) {
  if (a.kind != b.kind || a.space != b.space) return false;
  return (a.site == b.site && a.other_site == b.other_site) ||
         (a.kind == CROQ_FOUND_RACE && a.site == b.other_site && a.other_site == b.site);
}

// Keeps one finding for each pair of places, with the number of times it was met.
int32_t report_lock;
void report(const croq_emulate_launch* launch, croq_finding finding) {
  while (__atomic_exchange_n(&report_lock, 1, __ATOMIC_ACQUIRE)) {
  }
  croq_report* into = launch->report;
  finding.count = 1;
  bool met = false;
  for (int32_t i = 0; i < into->count && !met; ++i)
    if ((met = same_finding(into->findings[i], finding))) ++into->findings[i].count;
  if (!met) {
    if (into->count < CROQ_FINDINGS) into->findings[into->count++] = finding;
    else ++into->lost;
  }
  __atomic_store_n(&report_lock, 0, __ATOMIC_RELEASE);
}

croq_finding finding_of(croq_thread* self, int32_t kind, uint32_t site) {
  croq_finding finding;
  memset(&finding, 0, sizeof finding);
  finding.kind = kind;
  finding.site = site;
  finding.block = block_of(self)->number;
  finding.thread = self->linear;
  return finding;
}

void leave_for_main(croq_thread* self, int32_t request) {
  Worker* worker = block_of(self)->worker;
  worker->request = request;
  croq_switch(&self->stack, worker->main_stack);
}

[[noreturn]] void abandon(croq_thread* self) {
  leave_for_main(self, kAbandon);
  __builtin_unreachable();
}

// A look at the stop button and at Python's signals, on the OS thread's own stack.
void look(croq_thread* self) {
  if (__builtin_expect(*block_of(self)->worker->lane->attention, 0)) leave_for_main(self, kErrand);
}

void run_copies(croq_thread* self, uint32_t kept);
bool land_some(Worker* worker, Block* block);
void count_cluster(Cluster* cluster);
void give_way(croq_thread* self, uint32_t site);

}  // namespace
}  // namespace croq_inside

#include "croq_emulate_check.h"
#include "croq_emulate_faults.h"
#include "croq_emulate_schedule.h"
#include "croq_emulate_warp.h"
#include "croq_emulate_cluster.h"
