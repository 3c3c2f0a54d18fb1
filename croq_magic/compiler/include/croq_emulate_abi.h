// What emulated kernels and the emulator's runtime (croq_emulate.cpp) share. CROQ_EMULATE_ABI changes with it.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define CROQ_EMULATE_ABI 2
#define CROQ_FINDINGS 64

struct croq_index {
  uint32_t x, y, z;
};

struct croq_block_state;

// One CUDA thread that has a stack: it lies at the stack's top. Threads that never wait share one, one after the other.
struct croq_thread {
  void* stack;                // its stack pointer while it does not run (croq_stacks.h links unused stacks here)
  croq_index index;           // threadIdx
  uint32_t linear;            // the same as one number: lane and warp are its remainder and quotient by 32
  croq_block_state* block;
  croq_thread* next;          // behind it in the queue it stands in
  croq_thread *before, *after;  // all stacks of a worker
  uint32_t state, site, detail, spins;  // what it waits for, where, and which; how much it seems to wait in a loop
  int32_t result;
  uint32_t group;             // commit groups of asynchronous copies so far
  void* copies;               // those that have not landed
  uint32_t changes;           // updates that changed memory since it last gave way
  uint32_t copied;            // asynchronous copies so far
};

// The part of a block that kernels look at.
struct croq_block_state {
  croq_index index;           // blockIdx
  croq_index block, grid;     // blockDim, gridDim
  uint32_t calm;              // no thread has waited yet, and threads start in order
  uint32_t threads, started;
  char* shared;               // dynamic shared memory
};

// What was found. `site` is an offset into the module: the address after the call that reported the access.
struct croq_finding {
  int32_t kind, space;        // CROQ_FOUND_..., CROQ_SPACE_...
  uint32_t site, other_site;
  uint32_t block, thread, other_block, other_thread;
  int32_t access, other_access;  // 0 read, 1 write, 2 atomic, 4 asynchronous copy
  int32_t size, count;
  int64_t offset, extent;     // in the buffer, in bytes
  int64_t buffer;             // address of the buffer
  int64_t details[8];
};

enum {
  CROQ_FOUND_RACE = 1, CROQ_FOUND_OUTSIDE = 2, CROQ_FOUND_UNINITIALISED = 3, CROQ_FOUND_DIVERGENT = 4,
  CROQ_FOUND_DEADLOCK = 5, CROQ_FOUND_PENDING = 6, CROQ_FOUND_MASK = 7, CROQ_FOUND_BARRIER = 8, CROQ_FOUND_ALIGNMENT = 9,
  CROQ_FOUND_ENDED = 10, CROQ_FOUND_TRAP = 11, CROQ_FOUND_ELEMENT = 12,
  CROQ_FOUND_FAULT = 13  // details[0]: kFault... of croq_emulate_faults.h; `buffer`: the address; `extent`: bytes of a stack
};
enum { CROQ_SPACE_NONE = 0, CROQ_SPACE_GLOBAL = 1, CROQ_SPACE_SHARED = 2, CROQ_SPACE_DYNAMIC = 3, CROQ_SPACE_LOCAL = 4,
       CROQ_SPACE_MODULE = 5 };
// What a thread waits for.
enum { CROQ_RUNS = 0, CROQ_AT_BARRIER = 1, CROQ_AT_WARP = 2, CROQ_AT_MBARRIER = 3, CROQ_AT_GRID = 4, CROQ_SPINS = 5,
       CROQ_AT_CLUSTER = 6 };

// Counts of one source place, one row for global and one for shared memory.
struct croq_counts {
  uint32_t site;
  int32_t space, access, size;  // size of the widest access of a thread in bytes
  int64_t accesses, bytes;    // by threads
  int64_t requests;           // by warps
  int64_t parts, least;       // sectors of 32 bytes, or passes over the banks; and how few could do
};

struct croq_report {
  int32_t count, lost;        // findings kept, and those beyond
  croq_finding findings[CROQ_FINDINGS];
  int64_t places;             // rows at `counts`
  croq_counts* counts;        // made by the runtime, released by croq_emulate_forget
  int64_t barriers, threads;
};

typedef void (*croq_kernel_body)(const uint64_t* words);

// One launch, as the host asks for it. The words are the kernel's arguments, eight bytes each.
struct croq_emulate_launch {
  croq_kernel_body run;
  const uint64_t* words;
  croq_index grid, block, cluster;  // blocks of a cluster; 0: none
  int64_t shared_bytes, stack_bytes;
  const char* module;         // where the module is loaded
  char* (*anchor)();          // a place in the calling thread's static shared memory of the module
  int64_t shared_size;        // bytes of that, from its first
  int64_t shared_shift;       // the anchor's place in it
  const int64_t* arrays;      // offset and size of each array in it, in their order
  int64_t array_count;
  uint64_t seed;              // 0: threads in order
  int32_t checked, profiled, cooperative, serial;
  croq_report* report;
};

// Calls from two lines are not to become one.
#if defined(__clang__)
#define CROQ_FROM_RUNTIME extern "C" __attribute__((visibility("default"), nomerge))
#else
#define CROQ_FROM_RUNTIME extern "C" __attribute__((visibility("default")))
#endif
extern "C" __attribute__((visibility("default"), tls_model("initial-exec"))) __thread croq_thread* croq_self;
CROQ_FROM_RUNTIME void croq_emulate_next(croq_thread* self);
CROQ_FROM_RUNTIME croq_index croq_emulate_index(int which) __attribute__((const));
CROQ_FROM_RUNTIME char* croq_emulate_shared() __attribute__((const));
CROQ_FROM_RUNTIME int croq_emulate_barrier(uint32_t id, uint32_t count, int op, int value);
CROQ_FROM_RUNTIME void croq_emulate_arrive(uint32_t id, uint32_t count);
CROQ_FROM_RUNTIME void croq_emulate_warp(int op, uint32_t mask, const void* in, void* out, uint32_t size, uint32_t param,
                                         uint32_t width, void* place);
CROQ_FROM_RUNTIME uint32_t croq_emulate_active();
CROQ_FROM_RUNTIME void croq_emulate_fence(int scope);
CROQ_FROM_RUNTIME void croq_emulate_atomic(void* address, uint32_t size, void* place);
CROQ_FROM_RUNTIME void croq_emulate_updated(void* address);
CROQ_FROM_RUNTIME void croq_emulate_spin(void* place);
CROQ_FROM_RUNTIME void croq_emulate_sleep();
CROQ_FROM_RUNTIME void croq_emulate_touch(void* address, uint32_t size, int write, void* place);
CROQ_FROM_RUNTIME void croq_emulate_copy(void* shared, const void* global, uint32_t size, uint32_t valid, void* place);
CROQ_FROM_RUNTIME void croq_emulate_commit();
CROQ_FROM_RUNTIME void croq_emulate_settle(uint32_t groups);
CROQ_FROM_RUNTIME void croq_emulate_mbarrier_init(uint64_t* barrier, uint32_t count);
CROQ_FROM_RUNTIME uint64_t croq_emulate_mbarrier_arrive(uint64_t* barrier, uint32_t count);
CROQ_FROM_RUNTIME void croq_emulate_mbarrier_follow(uint64_t* barrier, int counted);
CROQ_FROM_RUNTIME int croq_emulate_mbarrier_test(uint64_t* barrier, uint32_t parity);
CROQ_FROM_RUNTIME void croq_emulate_mbarrier_wait(uint64_t* barrier, uint32_t parity);
CROQ_FROM_RUNTIME void croq_emulate_grid();
CROQ_FROM_RUNTIME void croq_emulate_cluster();
CROQ_FROM_RUNTIME void croq_emulate_cluster_arrive(uint64_t* barrier, uint32_t rank);
CROQ_FROM_RUNTIME void croq_emulate_cluster_wait(uint64_t* barrier, uint32_t parity);
CROQ_FROM_RUNTIME int croq_emulate_printf(const char* format, ...) __attribute__((format(printf, 1, 2)));
CROQ_FROM_RUNTIME void croq_emulate_trap();
