// The scheduler of fibers: stacks, switching, deadlocks. Included by croq_runtime.cpp alone.
//
// A fiber that must wait continues the next ready one directly (croq_stacks.h). What a fiber must not do on its small
// stack (call into Python) the thread's own stack does.
#include "croq_fiber.h"

#include "croq_stacks.h"

extern "C" __attribute__((visibility("hidden"), noreturn)) void croq_fiber_main(croq_fiber* fiber);

namespace croq_inside {
namespace {

const int64_t kMostFibers = 1 << 17;  // of one region: each touches two pages at least
static_assert(sizeof(croq_fiber) <= kTop, "a fiber lies at the top of its stack");

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
    croq_fiber* fiber = (croq_fiber*)take_stack(count - i);
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
    fiber->stack = begin_stack(fiber);
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

extern "C" CROQ_ONCE void croq_fiber_main(croq_fiber* fiber) {
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
}  // namespace croq_inside
