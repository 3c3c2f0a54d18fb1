// Stacks and the switch between them: what the fibers of the CPU target and the threads of the emulator run on. Included
// by croq_runtime.cpp and croq_emulate.cpp alone; each defines croq_fiber_main.
//
// The switch is written by hand: 5 ns, where swapcontext takes 165 ns (it saves the signal mask by a system call).
// Every stack ends in pages that cannot be touched, so an overrun stops at once.
#pragma once
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef CROQ_FIBER_MAIN  // in a program that holds both runtimes, one of them has another name for it
#define CROQ_FIBER_MAIN "croq_fiber_main"
#endif
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
// Where a new fiber begins: calls croq_fiber_main with the place at the top of its stack.
extern "C" __attribute__((visibility("hidden"))) void croq_begin_fiber();

#if defined(__x86_64__)
#define CROQ_FIBERS 1
__asm__(CROQ_TEXT CROQ_SYMBOL("croq_switch") ":\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  ret\n"
        CROQ_SYMBOL("croq_begin_fiber") ":\n  movq %rbx, %rdi\n  call " CROQ_SYMBOL(CROQ_FIBER_MAIN) "\n  ud2\n"
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
        CROQ_SYMBOL("croq_begin_fiber") ":\n  mov x0, x19\n  bl " CROQ_SYMBOL(CROQ_FIBER_MAIN) "\n  brk #1\n"
        CROQ_END);
#else
#define CROQ_FIBERS 0  // other processors: kernels with fibers are refused when they run
extern "C" void croq_switch(void**, void*) {}
extern "C" void croq_begin_fiber() {}
#endif

namespace croq_inside {

namespace {

// --------------------------------------------------------------------------------------------------------- stacks
// Stacks of one thread, kept from block to block and from launch to launch. Each has room for its owner's structure at
// its top; the first word of that links the stacks that nobody uses. Freed when the thread ends.
const int64_t kGuard = 1 << 16;       // more than a page: a function with a large frame may skip one
const int64_t kKept = 64ll << 20;     // bytes of large stacks that a thread keeps
const int64_t kLarge = 1ll << 20;     // smaller stacks are kept in any case: few of their pages are ever touched
const int64_t kMostAtOnce = 64;       // stacks of one mapping
const int64_t kTop = 256;             // bytes of the owner's structure

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
  void* unused;
  int64_t bytes, count, live;  // of one stack; stacks that exist; those in use
};
static __thread Stacks* own_stacks;
pthread_key_t stacks_key;  // frees the stacks of a thread that ends

void unmap_stacks(Stacks* stacks) {
  while (Mapping* mapping = stacks->mappings) {
    stacks->mappings = mapping->next;
    munmap(mapping->memory, mapping->bytes);
    __atomic_fetch_add(&guards, -mapping->stacks, __ATOMIC_SEQ_CST);
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
    if (__atomic_fetch_add(&guards, (int64_t)1, __ATOMIC_SEQ_CST) <= kMostGuards) mprotect(low, kGuard, PROT_NONE);
    // Stacks begin at different places of a page, or their ends would compete for the same lines of the cache.
    char* top = low + stride - ((stacks->count + i) % 32) * 128;
    void* place = (void*)(((uintptr_t)top - kTop) & ~(uintptr_t)63);
    *(void**)place = stacks->unused;
    stacks->unused = place;
  }
  stacks->count += count;
  return true;
}

// The place at the top of a stack, null without memory. `more` stacks in all are likely to be wanted.
void* take_stack(int64_t more) {
  Stacks* stacks = own_stacks;
  if (!stacks || (!stacks->unused && !map_stacks(stacks, more))) return nullptr;
  void* place = stacks->unused;
  stacks->unused = *(void**)place;
  ++stacks->live;
  return place;
}

void give_stack(void* place) {
  *(void**)place = own_stacks->unused;
  own_stacks->unused = place;
  --own_stacks->live;
}

// Makes what the first switch to the stack below `place` starts: croq_fiber_main(place). Gives its stack pointer.
void* begin_stack(void* place) {
#if defined(__x86_64__)
  void** top = (void**)place - 9;  // six registers, the address to return to, and two words for alignment
  memset(top, 0, 72);
  top[4] = place;                     // rbx
  top[6] = (void*)croq_begin_fiber;
#else
  void** top = (void**)place - 20;
  memset(top, 0, 160);
  top[0] = place;                     // x19
  top[11] = (void*)croq_begin_fiber;  // x30
#endif
  return top;
}

}  // namespace
}  // namespace croq_inside
