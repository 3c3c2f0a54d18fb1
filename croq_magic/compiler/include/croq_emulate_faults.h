// What the processor refuses a kernel: memory that is not there, a stack that is full, a division by zero. It becomes a
// finding and ends the launch, not the process. Included by croq_emulate.cpp alone.
//
// Handlers are in place only while a launch runs, and act only for an OS thread that is on the stack of one of the
// emulator's threads; whoever had the signal before (faulthandler of Python, say) gets what is not ours. A handler runs
// on a stack of its own, since the fault may be that the thread's is full. It does not jump: it returns to the switch to
// the worker's stack, as if the thread had given up by itself, so the signal mask is the kernel's business.
#if CROQ_FIBERS && defined(__linux__)
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

namespace croq_inside {
namespace {

enum { kFaultNull = 1, kFaultAddress = 2, kFaultUnknown = 3, kFaultStack = 4, kFaultDivision = 5, kFaultInstruction = 6 };

const int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGURG};
const int kFaultCount = 6;
const int kTick = SIGURG;  // does nothing where it is not expected
const size_t kFaultStackBytes = 128 << 10;  // others' handlers may run on it too

pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;
int64_t fault_launches;
struct sigaction fault_before[kFaultCount];

// The calling thread's: where the code of the module that it runs lies.
static __thread const char *fault_module, *fault_code, *fault_code_end;

#if defined(__x86_64__)
char* fault_pc(const ucontext_t* context) { return (char*)context->uc_mcontext.gregs[REG_RIP]; }
char* fault_sp(const ucontext_t* context) { return (char*)context->uc_mcontext.gregs[REG_RSP]; }
int32_t fault_access(const ucontext_t* context) { return context->uc_mcontext.gregs[REG_ERR] >> 1 & 1; }
void* fault_caller(const ucontext_t*) { return nullptr; }

// Whether the instruction before `place` may be a call.
bool follows_call(const unsigned char* place) {
  if (place[-5] == 0xe8) return true;
  for (int bytes = 2; bytes <= 7; ++bytes)
    if (place[-bytes] == 0xff && (place[1 - bytes] >> 3 & 7) == 2) return true;
  return false;
}

// Where the signal returns to: croq_switch(save, load), on a stack that nobody needs any more.
void go_to_switch(ucontext_t* context, char* stack, void** save, void* load) {
  greg_t* registers = context->uc_mcontext.gregs;
  registers[REG_RIP] = (greg_t)(uintptr_t)croq_switch;
  registers[REG_RSP] = (greg_t)(uintptr_t)stack;
  registers[REG_RDI] = (greg_t)(uintptr_t)save;
  registers[REG_RSI] = (greg_t)(uintptr_t)load;
  registers[REG_EFL] &= ~(greg_t)0x400;  // strings go upwards
}
#elif defined(__aarch64__)
char* fault_pc(const ucontext_t* context) { return (char*)context->uc_mcontext.pc; }
char* fault_sp(const ucontext_t* context) { return (char*)context->uc_mcontext.sp; }
int32_t fault_access(const ucontext_t*) { return -1; }
void* fault_caller(const ucontext_t* context) { return (void*)context->uc_mcontext.regs[30]; }
bool follows_call(const unsigned char* place) {
  uint32_t before;
  memcpy(&before, place - 4, 4);
  return before >> 26 == 0x25 || (before & 0xfffffc1f) == 0xd63f0000;  // bl, blr
}
void go_to_switch(ucontext_t* context, char* stack, void** save, void* load) {
  context->uc_mcontext.pc = (uintptr_t)croq_switch;
  context->uc_mcontext.sp = (uintptr_t)stack;
  context->uc_mcontext.regs[0] = (uintptr_t)save;
  context->uc_mcontext.regs[1] = (uintptr_t)load;
}
#endif

bool in_code(const char* place) { return place >= fault_code && place < fault_code_end; }

// The stack, of those of this OS thread, whose guard or memory `place` lies in: its lowest byte that is not guard.
char* stack_bottom(const char* place) {
  const int64_t stride = own_stacks->bytes + kGuard;
  for (const Mapping* mapping = own_stacks->mappings; mapping; mapping = mapping->next)
    if (place >= mapping->memory && place < mapping->memory + mapping->bytes)
      return mapping->memory + (place - mapping->memory) / stride * stride + kGuard;
  return nullptr;
}

// The place in the module that the fault comes from, as an address to return to. Outside the module it is that of the
// innermost call that can be seen on the stack.
uint32_t fault_site(croq_thread* self, const croq_emulate_launch* launch, const ucontext_t* context) {
  const char* pc = fault_pc(context);
  if (in_code(pc)) return site_of(launch, pc + 1);
  const char* caller = (const char*)fault_caller(context);
  if (in_code(caller)) return site_of(launch, caller);
  char* bottom = stack_bottom((const char*)self);
  char* sp = fault_sp(context);
  if (!bottom || sp < bottom - kGuard || sp > (char*)self) return 0;
  if (sp < bottom) sp = bottom;
  sp = (char*)((uintptr_t)sp & ~(uintptr_t)7);
  for (int words = 0; words < 4096 && sp < (char*)self; ++words, sp += 8) {
    const char* word = *(const char**)sp;
    if (in_code(word) && in_code(word - 8) && follows_call((const unsigned char*)word)) return site_of(launch, word);
  }
  return 0;
}

int32_t fault_kind(croq_thread* self, int number, const siginfo_t* info, const ucontext_t* context) {
  if (number == SIGFPE) return kFaultDivision;
  if (number == SIGILL) return kFaultInstruction;
  const char* bottom = stack_bottom((const char*)self);
  const char *address = (const char*)info->si_addr, *sp = fault_sp(context);
  if (bottom && ((address >= bottom - kGuard && address < bottom) || (sp >= bottom - kGuard && sp < bottom)))
    return kFaultStack;
  if (number == SIGSEGV && info->si_code != SEGV_MAPERR && info->si_code != SEGV_ACCERR) return kFaultUnknown;
  return (uintptr_t)address < 1 << 16 ? kFaultNull : kFaultAddress;
}

void pass_fault_on(int number, siginfo_t* info, void* context) {
  int at = 0;
  while (kFaults[at] != number) ++at;
  const struct sigaction& before = fault_before[at];
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(number, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
  } else if (before.sa_handler == SIG_DFL || info->si_code > 0) {  // the instruction, or whoever sent it, does it again
    struct sigaction plain;
    memset(&plain, 0, sizeof plain);
    plain.sa_handler = SIG_DFL;
    sigaction(number, &plain, nullptr);
    if (info->si_code <= 0) raise(number);
  }
}

// While a loop runs that neither waits nor looks at memory nobody else would see the stop button. The handler is on the
// thread's own stack; in code of the module the thread holds nothing of the runtime's.
void on_tick(int number, siginfo_t* info, void* data) {
  croq_thread* self = croq_self;
  if (info->si_code != SI_TIMER || info->si_value.sival_ptr != &fault_launches) pass_fault_on(number, info, data);
  else if (self && in_code(fault_pc((ucontext_t*)data))) look(self);
}

void on_fault(int number, siginfo_t* info, void* data) {
  ucontext_t* context = (ucontext_t*)data;
  croq_thread* self = croq_self;
  const bool aborted = number == SIGABRT && info->si_code == SI_TKILL && info->si_pid == getpid();
  if (!self || (info->si_code <= 0 && !aborted)) {  // not a kernel's, or sent by somebody
    pass_fault_on(number, info, data);
    return;
  }
  Worker* worker = block_of(self)->worker;
  croq_finding finding = finding_of(self, CROQ_FOUND_FAULT, fault_site(self, worker->launch, context));
  if (aborted) finding.kind = CROQ_FOUND_TRAP, finding.size = 1;
  finding.details[0] = aborted ? 0 : fault_kind(self, number, info, context);
  finding.buffer = aborted ? 0 : (int64_t)(uintptr_t)info->si_addr;
  finding.extent = own_stacks->bytes;
  finding.access = (int32_t)(number == SIGSEGV ? fault_access(context) : -1);
  // A call is no access; of an address that cannot be, the processor does not say what it was for.
  if (!aborted && ((char*)info->si_addr == fault_pc(context) || finding.details[0] == kFaultUnknown)) finding.access = -1;
  report(worker->launch, finding);
  worker->request = kAbandon;
  go_to_switch(context, (char*)((uintptr_t)self & ~(uintptr_t)15) - 64, &self->stack, worker->main_stack);
}

void (*handler_of(int number))(int, siginfo_t*, void*) { return number == kTick ? on_tick : on_fault; }

// Around a launch.
void begin_faults() {
  pthread_mutex_lock(&fault_lock);
  if (!fault_launches++) {
    struct sigaction own;
    memset(&own, 0, sizeof own);
    for (int at = 0; at < kFaultCount; ++at) {
      own.sa_sigaction = handler_of(kFaults[at]);
      own.sa_flags = kFaults[at] == kTick ? SA_SIGINFO | SA_RESTART : SA_SIGINFO | SA_ONSTACK;
      // Where ours is still there, because another's handler has it as the one before, it keeps those before itself.
      struct sigaction before;
      if (sigaction(kFaults[at], &own, &before)) continue;
      if (!(before.sa_flags & SA_SIGINFO) || before.sa_sigaction != own.sa_sigaction) fault_before[at] = before;
    }
  }
  pthread_mutex_unlock(&fault_lock);
}

void end_faults() {
  pthread_mutex_lock(&fault_lock);
  if (!--fault_launches)
    for (int at = 0; at < kFaultCount; ++at) {
      struct sigaction now;  // somebody else's, set meanwhile, stays
      if (!sigaction(kFaults[at], nullptr, &now) && now.sa_flags & SA_SIGINFO && now.sa_sigaction == handler_of(kFaults[at]))
        sigaction(kFaults[at], &fault_before[at], nullptr);
    }
  pthread_mutex_unlock(&fault_lock);
}

int see_code(dl_phdr_info* info, size_t, void* module) {
  if ((const char*)info->dlpi_addr != (const char*)module) return 0;
  fault_module = (const char*)module;
  fault_code = fault_code_end = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || !(part.p_flags & PF_X)) continue;
    fault_code = (const char*)info->dlpi_addr + part.p_vaddr;
    fault_code_end = fault_code + part.p_memsz;
  }
  return 1;
}

pthread_key_t fault_key;  // frees a thread's stack for handlers
static __thread void* fault_stack;

// Around the part of a launch that one OS thread does. The runtime's own threads block all signals, and a fault that is
// blocked ends the process.
struct FaultsOfThread {
  stack_t before;
  sigset_t mask;
  bool placed;
  int ticks;  // a timer of the kernel's

  explicit FaultsOfThread(const char* module) {
    if (module != fault_module) dl_iterate_phdr(see_code, (void*)module);
    if (!fault_stack && (fault_stack = malloc(kFaultStackBytes))) pthread_setspecific(fault_key, fault_stack);
    stack_t own;
    memset(&own, 0, sizeof own);
    own.ss_sp = fault_stack;
    own.ss_size = kFaultStackBytes;
    placed = fault_stack && !sigaltstack(&own, &before);
    sigset_t ours;
    sigemptyset(&ours);
    for (int number : kFaults) sigaddset(&ours, number);
    pthread_sigmask(SIG_UNBLOCK, &ours, &mask);
    sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = kTick;
    event.sigev_value.sival_ptr = &fault_launches;
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &ticks)) ticks = -1;
    const itimerspec often = {{0, 100000000}, {0, 250000000}};
    if (ticks >= 0) syscall(SYS_timer_settime, ticks, 0, &often, nullptr);
  }
  ~FaultsOfThread() {
    if (ticks >= 0) syscall(SYS_timer_delete, ticks);
    pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    if (placed) sigaltstack(&before, nullptr);
  }
};

}  // namespace
}  // namespace croq_inside
#else
namespace croq_inside {
namespace {
pthread_key_t fault_key;
void begin_faults() {}
void end_faults() {}
struct FaultsOfThread {
  explicit FaultsOfThread(const char*) {}
};
}  // namespace
}  // namespace croq_inside
#endif
