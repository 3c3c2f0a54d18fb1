// Fibers: the instances of a region that meet at events or barriers, each with a stack of its own, in turn on one
// thread. Included by croq_runtime.cpp alone.
//
// The switch is written by hand: 5 ns, where swapcontext takes 165 ns (it saves the signal mask by a system call).
// Every stack ends in a page that cannot be touched, so an overrun stops at once. What a fiber must not do on its
// small stack (look at Python's signals) the scheduler does for it.
#include <sys/mman.h>
#include <unistd.h>

#if defined(__APPLE__)
#define CROQ_SYMBOL(name) "_" name
#else
#define CROQ_SYMBOL(name) name
#endif

// Saves the callee-saved registers on the stack, stores the stack pointer at `*save` and continues at `load`.
extern "C" __attribute__((visibility("hidden"))) void croq_switch(void** save, void* load);

#if defined(__x86_64__)
__asm__(".text\n.p2align 4\n" CROQ_SYMBOL("croq_switch") ":\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  ret\n");
#define CROQ_FIBERS 1
#elif defined(__aarch64__)
__asm__(".text\n.p2align 4\n" CROQ_SYMBOL("croq_switch") ":\n"
        "  stp x19, x20, [sp, #-160]!\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
        "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
        "  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n"
        "  ldp x29, x30, [sp, #80]\n  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n"
        "  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n  ldp x19, x20, [sp], #160\n  ret\n");
#define CROQ_FIBERS 1
#else
extern "C" void croq_switch(void**, void*) {}  // other processors: such kernels are refused when they run
#define CROQ_FIBERS 0
#endif

namespace {

struct Fiber {
  void* stack_pointer;
  int32_t finished;
  int32_t waiting;  // the check that names the statement it waits at, -1 while it can run
};

// The fibers of one block on this thread.
struct Crew {
  void* scheduler;  // its saved stack pointer
  croq_lane* lane;
  croq_instance run;
  void* closure;
  Fiber* fibers;
  int64_t current;
  int64_t progress;  // counts everything that may let a waiting fiber go on
  int32_t wants_poll;
};

// Stacks are kept from block to block, and freed when the thread ends.
struct Stacks {
  char* memory;
  size_t bytes;
  int64_t count, stack;
  Fiber* fibers;
};
static __thread Stacks stacks;
static __thread Crew* crew;

const int64_t kPage = 4096 * 4;  // a multiple of the page size of every system we know

void free_stacks(void*) {
  if (stacks.memory) munmap(stacks.memory, stacks.bytes);
  free(stacks.fibers);
  stacks = {nullptr, 0, 0, 0, nullptr};
}

bool give_stacks(int64_t count, int64_t stack) {
  stack = (stack + kPage - 1) / kPage * kPage;
  if (count <= stacks.count && stack <= stacks.stack) return true;
  free_stacks(nullptr);
  const size_t bytes = (size_t)(count * (stack + kPage));
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  // Stacks grow down into the guard below. When the system has no more mappings to give, later stacks go without.
  for (int64_t i = 0; i < count; ++i)
    if (mprotect((char*)memory + i * (stack + kPage), kPage, PROT_NONE)) break;
  stacks = {(char*)memory, bytes, count, stack, (Fiber*)malloc(sizeof(Fiber) * (size_t)count)};
  pthread_setspecific(stacks_key, stacks.memory);
  return stacks.fibers != nullptr;
}

void back_to_scheduler() {
  Crew* mine = crew;
  croq_switch(&mine->fibers[mine->current].stack_pointer, mine->scheduler);
}

void fiber_main() {
  Crew* mine = crew;
  mine->run(mine->closure, mine->current, mine->lane);
  mine->fibers[mine->current].finished = 1;
  ++mine->progress;
  back_to_scheduler();
}

void prepare(Fiber& fiber, char* stack_end) {
#if defined(__x86_64__)
  void** top = (void**)stack_end - 8;  // six registers, the address to return to, and a slot that keeps alignment
  memset(top, 0, 64);
  top[6] = (void*)fiber_main;
#else
  void** top = (void**)stack_end - 20;
  memset(top, 0, 160);
  top[11] = (void*)fiber_main;  // x30
#endif
  fiber = {top, 0, -1};
}

// All live fibers wait, and nothing happened in a whole round: reports where they stand.
void deadlock(croq_lane* lane, int64_t count) {
  int64_t places[CROQ_VALUES];
  int32_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (stacks.fibers[i].finished) continue;
    bool known = false;
    for (int32_t k = 0; k < found; ++k) known = known || places[k] == stacks.fibers[i].waiting;
    if (!known && found < CROQ_VALUES) places[found++] = stacks.fibers[i].waiting;
  }
  fail(lane, (int32_t)places[0], found, places);
}

int32_t poll_on_own_stack(croq_lane* lane) {
  lane->in_fiber = 0;
  const int32_t stop = poll(lane);
  lane->in_fiber = 1;
  return stop;
}

int32_t run_fibers(croq_lane* lane, int64_t count, int64_t stack_bytes, croq_instance run, void* closure) {
  croq_call* call = lane->call;
  if (!CROQ_FIBERS || !give_stacks(count, stack_bytes)) {
    stop_call(call, CROQ_FIBERS ? CROQ_MEMORY : CROQ_ARGUMENT);
    return lane->stopped = 1;
  }
  Crew mine = {nullptr, lane, run, closure, stacks.fibers, 0, 0, 0};
  for (int64_t i = 0; i < count; ++i)
    prepare(stacks.fibers[i], stacks.memory + (i + 1) * (stacks.stack + kPage));
  crew = &mine;
  lane->in_fiber = 1;
  int64_t live = count;
  while (live > 0 && !load(call->stop)) {
    const int64_t before = mine.progress;
    live = 0;
    for (int64_t i = 0; i < count && !load(call->stop); ++i) {
      Fiber& fiber = stacks.fibers[i];
      if (fiber.finished) continue;
      mine.current = i;
      for (;;) {
        croq_switch(&mine.scheduler, fiber.stack_pointer);
        if (!mine.wants_poll) break;
        mine.wants_poll = 0;
        if (poll_on_own_stack(lane)) break;
      }
      live += !fiber.finished;
    }
    if (live > 0 && mine.progress == before && !load(call->stop)) deadlock(lane, count);
    if (*lane->attention && !load(call->stop)) poll_on_own_stack(lane);
  }
  lane->in_fiber = 0;
  crew = nullptr;
  return lane->stopped = load(call->stop) != 0;  // stacks of stopped fibers are simply used again: nothing lives there
}

// Lets the other fibers run; true when the work must stop. `place` is the check that names the waiting statement.
int32_t yield_fiber(croq_lane* lane, int32_t place) {
  if (!lane->in_fiber) {  // a wait in a single program: nobody else can end it
    const int64_t places[] = {place};
    fail(lane, place, 1, places);
    return 1;
  }
  Crew* mine = crew;
  mine->fibers[mine->current].waiting = place;
  back_to_scheduler();
  mine->fibers[mine->current].waiting = -1;
  return load(lane->call->stop) != 0;
}

void note_progress(croq_lane* lane) {
  if (lane->in_fiber) ++crew->progress;
}

// A fiber looks up through its scheduler, which has the thread's own stack.
int32_t poll_in_fiber(croq_lane* lane) {
  crew->wants_poll = 1;
  back_to_scheduler();
  return lane->stopped = load(lane->call->stop) != 0;
}

}  // namespace
