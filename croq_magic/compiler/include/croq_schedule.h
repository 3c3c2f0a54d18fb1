// The scheduler of fibers: stacks, switching, deadlocks. Included by croq_runtime.cpp alone.
//
// The switch is written by hand: 5 ns, where swapcontext takes 165 ns (it saves the signal mask by a system call). A
// fiber that must wait continues the next ready one directly. Every stack ends in pages that cannot be touched, so an
// overrun stops at once. What a fiber must not do on its small stack (call into Python) the thread's own stack does.
#include "croq_fiber.h"

#include <sys/mman.h>

#if defined(__APPLE__)
#define CROQ_SYMBOL(name) "_" name
#define CROQ_TEXT ".text\n.p2align 4\n"
#define CROQ_END ""
#else
#define CROQ_SYMBOL(name) name
#define CROQ_TEXT ".pushsection .text\n.p2align 4\n"
#define CROQ_END ".popsection\n"
#endif

// Saves the registers that a call preserves, stores the stack pointer at `*save` and continues at `load`.
extern "C" __attribute__((visibility("hidden"))) void croq_switch(void** save, void* load);
// Where a new fiber begins: calls fiber_main with the fiber.
extern "C" __attribute__((visibility("hidden"))) void croq_begin_fiber();
extern "C" __attribute__((visibility("hidden"), noreturn)) void croq_fiber_main(croq_fiber* fiber);

#if defined(__x86_64__)
#define CROQ_FIBERS 1
__asm__(CROQ_TEXT CROQ_SYMBOL("croq_switch") ":\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  ret\n"
        CROQ_SYMBOL("croq_begin_fiber") ":\n  movq %rbx, %rdi\n  call " CROQ_SYMBOL("croq_fiber_main") "\n  ud2\n"
        CROQ_END);
#elif defined(__aarch64__)
#define CROQ_FIBERS 1
__asm__(CROQ_TEXT CROQ_SYMBOL("croq_switch") ":\n"
        "  stp x19, x20, [sp, #-160]!\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
        "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
        "  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n"
        "  ldp x29, x30, [sp, #80]\n  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n"
        "  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n  ldp x19, x20, [sp], #160\n  ret\n"
        CROQ_SYMBOL("croq_begin_fiber") ":\n  mov x0, x19\n  bl " CROQ_SYMBOL("croq_fiber_main") "\n  brk #1\n"
        CROQ_END);
#else
#define CROQ_FIBERS 0  // other processors: kernels with fibers are refused when they run
extern "C" void croq_switch(void**, void*) {}
extern "C" void croq_begin_fiber() {}
#endif

namespace {

// --------------------------------------------------------------------------------------------------------- stacks
// Stacks of one thread, kept from block to block and from launch to launch. The fiber's own structure lies at the top
// of its stack. Freed when the thread ends.
const int64_t kGuard = 1 << 16;       // more than a page: a function with a large frame may skip one
const int64_t kKept = 64ll << 20;     // bytes of large stacks that a thread keeps
const int64_t kLarge = 1ll << 20;     // smaller stacks are kept in any case: few of their pages are ever touched
const int64_t kMostAtOnce = 64;       // stacks of one mapping
const int64_t kMostFibers = 1 << 17;  // of one region: each touches two pages at least

// Each guard splits a mapping of the process in two, and Linux gives a process 65530: when they are used up, nothing in
// it can get memory. Further stacks go without.
const int64_t kMostGuards = 8192;
int64_t guards;

struct Mapping {
  Mapping* next;
  char* memory;
  size_t bytes;
  int64_t stacks;
};
struct Stacks {
  Mapping* mappings;
  croq_fiber* unused;
  int64_t bytes, count, live;  // of one stack; stacks that exist; those in use
};
static __thread Stacks* own_stacks;

void unmap_stacks(Stacks* stacks) {
  while (Mapping* mapping = stacks->mappings) {
    stacks->mappings = mapping->next;
    munmap(mapping->memory, mapping->bytes);
    add(guards, -mapping->stacks);
    free(mapping);
  }
  *stacks = {nullptr, nullptr, 0, 0, 0};
}

void free_stacks(void* stacks) {
  unmap_stacks((Stacks*)stacks);
  free(stacks);
}

Stacks* stacks_of_thread() {
  if (!own_stacks && (own_stacks = (Stacks*)calloc(1, sizeof(Stacks)))) pthread_setspecific(stacks_key, own_stacks);
  return own_stacks;
}

bool map_stacks(Stacks* stacks, int64_t wanted) {
  const int64_t count = wanted < 1 ? 1 : wanted > kMostAtOnce ? kMostAtOnce : wanted;
  const int64_t stride = stacks->bytes + kGuard;
  const size_t bytes = (size_t)(count * stride);
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#if defined(MAP_NORESERVE)
  flags |= MAP_NORESERVE;
#endif
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  Mapping* mapping = memory == MAP_FAILED ? nullptr : (Mapping*)malloc(sizeof(Mapping));
  if (!mapping) {
    if (memory != MAP_FAILED) munmap(memory, bytes);
    return false;
  }
  *mapping = {stacks->mappings, (char*)memory, bytes, count};
  stacks->mappings = mapping;
  for (int64_t i = count - 1; i >= 0; --i) {
    char* low = (char*)memory + i * stride;
    if (add(guards, (int64_t)1) <= kMostGuards) mprotect(low, kGuard, PROT_NONE);
    // Stacks begin at different places of a page, or their ends would compete for the same lines of the cache.
    char* top = low + stride - ((stacks->count + i) % 32) * 128;
    croq_fiber* fiber = (croq_fiber*)(((uintptr_t)top - sizeof(croq_fiber)) & ~(uintptr_t)63);
    fiber->next = stacks->unused;
    stacks->unused = fiber;
  }
  stacks->count += count;
  return true;
}

croq_fiber* take_stack(int64_t more) {
  Stacks* stacks = own_stacks;
  if (!stacks || (!stacks->unused && !map_stacks(stacks, more))) return nullptr;
  croq_fiber* fiber = stacks->unused;
  stacks->unused = fiber->next;
  ++stacks->live;
  return fiber;
}

void give_stack(croq_fiber* fiber) {
  fiber->next = own_stacks->unused;
  own_stacks->unused = fiber;
  --own_stacks->live;
}

// ------------------------------------------------------------------------------------------------------- switching
void append(croq_queue* queue, croq_fiber* fiber) {
  fiber->next = nullptr;
  if (queue->first) queue->last->next = fiber;
  else queue->first = fiber;
  queue->last = fiber;
}

croq_fiber* take_first(croq_queue* queue) {
  croq_fiber* fiber = queue->first;
  if (fiber) queue->first = fiber->next;
  return fiber;
}

void make_ready(croq_crew* crew, croq_fiber* fiber, int32_t turn) {
  fiber->state = CROQ_READY;
  fiber->turn = turn;
  append(&crew->ready, fiber);
}

void change(croq_crew* crew, croq_fiber* from, croq_fiber* to) {
  crew->current = to;
  croq_switch(&from->stack, to->stack);
  while (crew->errand) {  // only the thread's own stack gets here with one
    crew->errand = 0;
    poll_here(crew->lane);
    croq_switch(&from->stack, crew->current->stack);
  }
}

template <typename Visit>
void each_fiber(croq_fiber* fiber, Visit visit) {
  visit(fiber);
  for (croq_fiber* child = fiber->children; child; child = child->sibling) each_fiber(child, visit);
}

// Nobody waits any more: every waiting fiber goes on and finds that it must leave.
void dismiss(croq_crew* crew) {
  crew->leaving = 1;
  each_fiber(&crew->main, [crew](croq_fiber* fiber) {
    if (fiber->state == CROQ_WAITING) make_ready(crew, fiber, CROQ_LEAVE);
  });
}

// No fiber can go on. The record has the number of instances that have ended, then for each thing that is waited for:
// its check, how many instances wait, slot and generation.
void report_deadlock(croq_crew* crew) {
  int64_t values[CROQ_VALUES] = {0};
  int32_t count = 1;
  each_fiber(&crew->main, [&](croq_fiber* fiber) {
    if (fiber->state == CROQ_ENDED) values[0] += fiber->units;
    if (fiber->state != CROQ_WAITING) return;
    int32_t at = 1;
    while (at < count && (values[at] != fiber->site || values[at + 2] != fiber->slot ||
                          values[at + 3] != fiber->generation))
      at += 4;
    if (at + 4 > CROQ_VALUES) return;
    if (at == count) {
      count += 4;
      values[at] = fiber->site;
      values[at + 2] = fiber->slot;
      values[at + 3] = fiber->generation;
    }
    values[at + 1] += fiber->units;
  });
  fail(crew->lane, crew->deadlock_site, count, values);
}

// Leaves `fiber`, which has been put where somebody will find it, and continues the next ready one.
void resume_next(croq_crew* crew, croq_fiber* fiber) {
  croq_fiber* next = take_first(&crew->ready);
  if (!next) {
    if (!load(crew->lane->call->stop)) report_deadlock(crew);
    dismiss(crew);
    next = take_first(&crew->ready);
  }
  if (next != fiber) change(crew, fiber, next);
}

// ------------------------------------------------------------------------------------------- what modules may call
void begin_crew(croq_crew* crew, croq_lane* lane, int64_t stack_bytes, int32_t deadlock_site) {
  memset((void*)crew, 0, sizeof *crew);
  crew->lane = lane;
  crew->deadlock_site = deadlock_site;
  crew->main.lane = lane;
  crew->main.crew = crew;
  crew->main.units = 1;
  crew->current = &crew->main;
  lane->crew = crew;
  const int64_t unit = 1 << 14;  // a multiple of the page size of every system we know
  stack_bytes = (stack_bytes + unit - 1) / unit * unit;
  Stacks* stacks = stacks_of_thread();
  if (stacks && stack_bytes > stacks->bytes) {
    unmap_stacks(stacks);
    stacks->bytes = stack_bytes;
  }
}

void end_crew(croq_crew* crew) {
  crew->lane->crew = nullptr;
  Stacks* stacks = own_stacks;
  if (stacks && stacks->bytes > kLarge && stacks->bytes * stacks->count > kKept) unmap_stacks(stacks);
}

int32_t run_fibers(croq_fiber* parent, croq_instance run, const void* frame, int64_t count, int32_t units) {
  croq_crew* crew = parent->crew;
  croq_call* call = crew->lane->call;
  if (!CROQ_FIBERS) stop_call(call, CROQ_ARGUMENT);
  if (crew->leaving || load(call->stop)) return CROQ_LEAVE;
  if (count <= 0) return CROQ_GO;
  // Large stacks hold arrays of the program, which uses them; of small ones few pages are ever touched.
  const bool large = own_stacks && own_stacks->bytes > kLarge;
  if (!own_stacks || count > kMostFibers || (large && count > most_memory / own_stacks->bytes)) {
    stop_call(call, CROQ_MEMORY);
    return CROQ_LEAVE;
  }
  croq_fiber** end = &parent->children;
  for (int64_t i = 0; i < count; ++i) {
    croq_fiber* fiber = take_stack(count - i);
    if (!fiber) {
      stop_call(call, CROQ_MEMORY);
      break;
    }
    memset((void*)fiber, 0, sizeof *fiber);
    fiber->lane = crew->lane;
    fiber->crew = crew;
    fiber->parent = parent;
    fiber->index = i;
    fiber->number = parent->number * count + i;
    fiber->units = units;
    *end = fiber;
    end = &fiber->sibling;
#if defined(__x86_64__)
    void** top = (void**)fiber - 9;  // six registers, the address to return to, and two words for alignment
    memset(top, 0, 72);
    top[4] = fiber;                     // rbx
    top[6] = (void*)croq_begin_fiber;
#else
    void** top = (void**)fiber - 20;
    memset(top, 0, 160);
    top[0] = fiber;                     // x19
    top[11] = (void*)croq_begin_fiber;  // x30
#endif
    fiber->stack = top;
    fiber->generation = (int64_t)run;   // until it has started
    fiber->slot = (int64_t)frame;
  }
  if (!load(call->stop)) {
    for (croq_fiber* child = parent->children; child; child = child->sibling) {
      ++parent->pending;
      make_ready(crew, child, CROQ_GO);
    }
    parent->state = CROQ_JOINING;
    resume_next(crew, parent);
    parent->state = CROQ_READY;
  }
  while (croq_fiber* child = parent->children) {
    parent->children = child->sibling;
    give_stack(child);
  }
  return load(call->stop) ? CROQ_LEAVE : CROQ_GO;
}

int32_t wait_in(croq_fiber* fiber, croq_queue* queue, int32_t site, int64_t slot, int64_t generation) {
  croq_crew* crew = fiber->crew;
  if (crew->leaving || load(crew->lane->call->stop)) return CROQ_LEAVE;
  fiber->site = site;
  fiber->slot = slot;
  fiber->generation = generation;
  fiber->state = CROQ_WAITING;
  append(queue, fiber);
  resume_next(crew, fiber);
  return load(crew->lane->call->stop) ? CROQ_LEAVE : fiber->turn;
}

void wake_all(croq_crew* crew, croq_queue* queue) {
  if (crew->leaving) return;  // everybody is awake already
  while (croq_fiber* fiber = take_first(queue)) make_ready(crew, fiber, CROQ_GO);
}

void wake_leader(croq_crew* crew, croq_queue* queue) {
  if (crew->leaving) return;
  if (croq_fiber* fiber = take_first(queue)) make_ready(crew, fiber, CROQ_LEAD);
}

int32_t pause_fiber(croq_fiber* fiber) {
  croq_crew* crew = fiber->crew;
  if (!crew->leaving && crew->ready.first) {
    make_ready(crew, fiber, CROQ_GO);
    resume_next(crew, fiber);
  }
  return load(crew->lane->call->stop) ? CROQ_LEAVE : CROQ_GO;
}

const croq_fiber_table fiber_table = {begin_crew, end_crew,  run_fibers, wait_in,
                                      wake_all,   wake_leader, pause_fiber};

// A look at the stop flag; where it includes one at Python's signals, the thread's own stack takes it.
int32_t poll_in_crew(croq_lane* lane) {
  croq_crew* crew = lane->crew;
  croq_fiber* fiber = crew->current;
  if (fiber == &crew->main || !lane->is_caller) return poll_here(lane);
  crew->errand = 1;
  croq_switch(&fiber->stack, crew->main.stack);
  return lane->stopped = load(lane->call->stop) != 0;
}

}  // namespace

extern "C" void croq_fiber_main(croq_fiber* fiber) {
  croq_crew* crew = fiber->crew;
  croq_instance run = (croq_instance)fiber->generation;
  // Nothing else may look at the stop flag between fibers that never wait.
  if (*crew->lane->attention) poll_in_crew(crew->lane);
  if (!crew->leaving && !load(crew->lane->call->stop)) run((const void*)fiber->slot, fiber);
  fiber->state = CROQ_ENDED;
  if (--fiber->parent->pending == 0) make_ready(crew, fiber->parent, CROQ_GO);
  resume_next(crew, fiber);
  __builtin_unreachable();
}
