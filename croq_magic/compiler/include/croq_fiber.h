// Fibers of a generated module: instances of a region that meet, each with a stack of its own, in turn on one thread.
// What they do most (passing an event that is ready, arriving where others are awaited) is inline here; waiting,
// which switches stacks, is the runtime's part (croq_schedule.h).
//
// A fiber has a number among all fibers of its region in the block; tables of events and meetings are indexed by it.
#pragma once
#include "croq_cpu.h"

struct croq_crew;
struct croq_fiber;

// Fibers that wait for one thing, in order of arrival.
struct croq_queue {
  croq_fiber *first, *last;
};

struct croq_fiber {
  void* stack;            // its stack pointer while it does not run
  croq_lane* lane;
  croq_crew* crew;
  croq_fiber* next;       // behind it in the queue it stands in
  int32_t state;          // CROQ_READY, ...
  int32_t turn;           // what its wait ends with: CROQ_GO, CROQ_LEAVE or CROQ_LEAD
  int32_t site;           // the check that describes what it waits for, and which part of it
  int32_t pending;        // children that have not ended
  int64_t slot, generation;
  // What a wait does not touch lies in another line of the cache.
  int64_t index, number;  // among the instances that its parent started, and among all of its region in the block
  croq_fiber* parent;     // the fiber that started its region
  croq_fiber* sibling;    // the next instance of that region
  croq_fiber* children;   // the instances of the region that it has started and waits for
  int32_t units;          // how many instances of the program it stands for
};
enum { CROQ_READY = 0, CROQ_WAITING = 1, CROQ_JOINING = 2, CROQ_ENDED = 3 };
enum { CROQ_GO = 0, CROQ_LEAVE = 1, CROQ_LEAD = 2 };

// The fibers of one range of blocks on one thread. `main` is the thread's own stack, which runs what stands in the block.
struct croq_crew {
  croq_lane* lane;
  croq_fiber main;
  croq_fiber* current;
  croq_queue ready;
  int32_t leaving;        // the work must stop: nobody waits any more
  int32_t errand;         // a fiber asks the thread's own stack to look at Python's signals
  int32_t deadlock_site;  // the check that reports a deadlock
  inline croq_crew(croq_lane* lane, int64_t stack_bytes, int32_t deadlock_site);
  inline ~croq_crew();
  croq_crew(const croq_crew&) = delete;
};

typedef void (*croq_instance)(const void* frame, croq_fiber* fiber);

struct croq_fiber_table {
  void (*begin)(croq_crew* crew, croq_lane* lane, int64_t stack_bytes, int32_t deadlock_site);
  void (*end)(croq_crew* crew);
  int32_t (*run)(croq_fiber* parent, croq_instance run, const void* frame, int64_t count, int32_t units);
  int32_t (*wait)(croq_fiber* fiber, croq_queue* queue, int32_t site, int64_t slot, int64_t generation);
  void (*wake)(croq_crew* crew, croq_queue* queue);
  void (*lead)(croq_crew* crew, croq_queue* queue);
  int32_t (*pause)(croq_fiber* fiber);
};

croq_crew::croq_crew(croq_lane* lane, int64_t stack_bytes, int32_t deadlock_site) {
  croq_rt->fibers->begin(this, lane, stack_bytes, deadlock_site);
}
croq_crew::~croq_crew() { croq_rt->fibers->end(this); }

// Runs `count` instances and waits until all have ended; true when the work must stop.
CROQ_INLINE bool croq_run_fibers(croq_fiber* parent, croq_instance run, const void* frame, int64_t count,
                                 int32_t units) {
  return croq_rt->fibers->run(parent, run, frame, count, units) != CROQ_GO;
}

// Lets the others run: for loops that wait for what another instance stores.
CROQ_INLINE bool croq_pause(croq_fiber* fiber) { return croq_rt->fibers->pause(fiber) != CROQ_GO; }

// ------------------------------------------------------------------------------------------------------- meetings
// Where instances meet, once for each unit (block, group): all arrive, the last one leads (and may do something for
// all), then all go on. `once` is the collective statement they are at, or -1 at a barrier.
struct croq_meeting {
  int32_t expected, arrived, once;
  croq_queue waiting;
};

CROQ_INLINE int32_t croq_arrive(croq_fiber* fiber, croq_meeting* meeting, int32_t site, bool once) {
  if (croq_stop(fiber->lane)) return CROQ_LEAVE;
  const int32_t at = once ? site : -1;
  if (!meeting->arrived) meeting->once = at;
  else if (CROQ_UNLIKELY(meeting->once != at)) croq_fail(fiber->lane, site, -1, 0);  // instances stand at different ones
  if (++meeting->arrived >= meeting->expected) return CROQ_LEAD;
  return croq_rt->fibers->wait(fiber, &meeting->waiting, site, -1, 0);
}

CROQ_INLINE void croq_part(croq_fiber* fiber, croq_meeting* meeting) {
  meeting->arrived = 0;
  if (meeting->waiting.first) croq_rt->fibers->wake(fiber->crew, &meeting->waiting);
}

// A barrier; true when the work must stop.
CROQ_INLINE bool croq_barrier(croq_fiber* fiber, croq_meeting* meeting, int32_t site) {
  const int32_t turn = croq_arrive(fiber, meeting, site, false);
  if (turn == CROQ_LEAD) croq_part(fiber, meeting);
  return turn == CROQ_LEAVE;
}

// An instance that yields is not expected any more.
CROQ_INLINE void croq_quit(croq_fiber* fiber, croq_meeting* meeting) {
  if (--meeting->expected == meeting->arrived && meeting->arrived)
    croq_rt->fibers->lead(fiber->crew, &meeting->waiting);
}

// `__bar_sync` and `__bar_arrive`: whoever comes counts with the threads it stands for.
CROQ_INLINE bool croq_named_barrier(croq_fiber* fiber, croq_meeting* barriers, int64_t number, int64_t threads,
                                    int32_t weight, bool waits, int32_t site) {
  if (croq_stop(fiber->lane)) return true;
  croq_meeting* meeting = barriers + (number & 15);
  meeting->arrived += weight;
  if (meeting->arrived >= threads) {
    croq_part(fiber, meeting);
    return false;
  }
  return waits && croq_rt->fibers->wait(fiber, &meeting->waiting, site, number, 0) == CROQ_LEAVE;
}

// --------------------------------------------------------------------------------------------------------- events
// One slot of an event: how many generations are ready, and who waits for the next.
struct croq_slot {
  int64_t ready;
  int64_t slowest;  // every waiter has passed at least so many
  croq_queue waiting;
};

// The waits of the fibers of one region for an event: how many generations of each slot each fiber has passed.
struct croq_watch {
  uint32_t* passed;       // [slot][fiber]
  const uint8_t* member;  // fibers that surely pass its generations; all zero before their region has started
  int64_t fibers, per_unit;
};

// The triggers of an event by one role. A round is complete when every member has arrived once more.
struct croq_rounds {
  int64_t complete;
  int32_t arrived;
};
struct croq_turns {
  uint32_t* count;         // [slot][fiber]: how often each fiber has arrived
  croq_rounds* rounds;     // [slot]
  const int32_t* parties;  // [unit]: members of the role
  int64_t fibers;
};

// An event, or one a group (`units` of them). Slots of a unit follow each other.
struct croq_event {
  croq_slot* slot;
  croq_watch* watch;
  croq_turns* turns;
  int32_t watches, roles;
  int32_t units, each;  // `each`: slots of one
  int32_t threads;      // of `event<n>`: n arrivals complete a generation, whoever they come from; else 0
  int32_t ready;        // generation 0 is ready from the start
};

CROQ_COLD void croq_reset(croq_event* event) {
  const int32_t slots = event->units * event->each;
  for (int32_t s = 0; s < slots; ++s) event->slot[s] = {event->ready, 0, {nullptr, nullptr}};
  for (int32_t w = 0; w < event->watches; ++w) {
    croq_watch& watch = event->watch[w];
    __builtin_memset(watch.passed, 0, sizeof(uint32_t) * (size_t)(slots * watch.fibers));
  }
  for (int32_t r = 0; r < event->roles; ++r) {
    croq_turns& turns = event->turns[r];
    __builtin_memset(turns.rounds, 0, sizeof(croq_rounds) * (size_t)slots);
    if (turns.count) __builtin_memset(turns.count, 0, sizeof(uint32_t) * (size_t)(slots * turns.fibers));
  }
}

// Whether a waiter of the slot has still to pass the generation before the last.
CROQ_COLD bool croq_is_ahead(croq_event* event, int64_t slot) {
  croq_slot& at = event->slot[slot];
  int64_t slowest = INT64_MAX;
  for (int32_t w = 0; w < event->watches; ++w) {
    const croq_watch& watch = event->watch[w];
    const int64_t first = slot / event->each * watch.per_unit;
    const int64_t end = first + watch.per_unit < watch.fibers ? first + watch.per_unit : watch.fibers;
    for (int64_t i = first; i < end; ++i) {
      const int64_t passed = watch.passed[slot * watch.fibers + i];
      if (watch.member[i] && passed < slowest) slowest = passed;
    }
  }
  if (slowest == INT64_MAX) return false;  // nobody waits for it, or not yet
  at.slowest = slowest;
  return at.ready - slowest > 1;
}

// The next generation of a slot is ready. Being two ahead of a waiter is a fault: on hardware that waiter would miss it.
CROQ_INLINE void croq_complete(croq_fiber* fiber, croq_event* event, int64_t slot, int32_t site) {
  croq_slot& at = event->slot[slot];
  ++at.ready;
  if (at.ready - at.slowest > 1 && CROQ_UNLIKELY(croq_is_ahead(event, slot)))
    croq_fail(fiber->lane, site, slot, at.ready - 1, at.slowest);
  if (at.waiting.first) croq_rt->fibers->wake(fiber->crew, &at.waiting);
}

// `trigger` of one slot. `weight` is the number of threads that the fiber stands for.
CROQ_INLINE void croq_trigger(croq_fiber* fiber, croq_event* event, int32_t role, int64_t slot, int32_t weight,
                              int32_t site) {
  croq_turns& turns = event->turns[role];
  croq_rounds& round = turns.rounds[slot];
  if (event->threads) {
    round.arrived += weight < event->threads ? weight : event->threads;
    if (round.arrived < event->threads) return;
    round.arrived -= event->threads;
    croq_complete(fiber, event, slot, site);
    return;
  }
  const int32_t parties = turns.parties[slot / event->each];
  uint32_t* count = turns.count + slot * turns.fibers;
  if (count[fiber->number]++ != (uint32_t)round.complete) return;  // ahead of its role: counts in a later round
  if (++round.arrived < parties) return;
  do {
    ++round.complete;
    round.arrived = 0;
    for (int64_t i = 0; parties > 1 && i < turns.fibers; ++i) round.arrived += count[i] > (uint64_t)round.complete;
    croq_complete(fiber, event, slot, site);
  } while (round.arrived >= parties);
}

// `wait` for one slot (`spins`: `while (event);`, which passes nothing); true when the work must stop.
CROQ_INLINE bool croq_wait(croq_fiber* fiber, croq_event* event, int32_t watch, int64_t slot, bool spins,
                           int32_t site) {
  if (croq_stop(fiber->lane)) return true;
  croq_slot& at = event->slot[slot];
  uint32_t& passed = event->watch[watch].passed[slot * event->watch[watch].fibers + fiber->number];
  while (at.ready <= passed)
    if (croq_rt->fibers->wait(fiber, &at.waiting, site, slot, passed) != CROQ_GO) return true;
  if (!spins) ++passed;
  return false;
}

// The slot of `trigger event.at(order)` of the unit whose slots begin at `base`; -1 after reporting a negative order.
CROQ_INLINE int64_t croq_slot_of(croq_fiber* fiber, croq_event* event, int64_t base, int64_t order, int32_t site) {
  if (CROQ_LIKELY(order >= 0)) return base + order % event->each;
  croq_fail(fiber->lane, site, order, -1, -1);
  return -1;
}

// The same for `wait event.at(order)`: the order and the waiter's own count must agree. `order` counts up, or is kept
// modulo twice the number of slots.
CROQ_INLINE int64_t croq_ordered(croq_fiber* fiber, croq_event* event, int32_t watch, int64_t base, int64_t order,
                                 int32_t site) {
  const int64_t slot = croq_slot_of(fiber, event, base, order, site), generation = order / event->each;
  if (slot < 0) return -1;
  const int64_t passed = event->watch[watch].passed[slot * event->watch[watch].fibers + fiber->number];
  if (CROQ_LIKELY(generation == passed || (generation < 2 && !((generation ^ passed) & 1)))) return slot;
  croq_fail(fiber->lane, site, slot, generation, passed);
  return -1;
}
