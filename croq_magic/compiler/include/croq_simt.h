// The host part of a tileflow function whose kernels run on a device with memory of its own: what `croq_device` has to
// do for it, and when data moves. Included by whole programs alone, before one of croq_host_opencl.h, croq_host_cuda.h,
// croq_host_emulate.h, which define the functions of croq_device_functions.h.
#pragma once
#include "croq_device_functions.h"
#include "croq_host.h"

namespace croq_simt {
const int kReportWords = 64;

class array;

// One call of a tileflow function.
class call {
  const char* function_;
  const croq_host::check* checks_;  // of the kernels
  croq_device::module& kernels_;
  bool pending_ = false;  // launches may be running
  void* report_ = nullptr;
  int64_t words_[kReportWords] = {};
  std::vector<void*> memory_;
  std::vector<std::unique_ptr<uint32_t[]>> counters_;
  std::vector<array*> outputs_;

 public:
  call(const char* function, const croq_host::check* checks, croq_device::module& kernels)
      : function_(function), checks_(checks), kernels_(kernels) {
    require(croq_device::open(kernels));
  }
  call(const call&) = delete;
  ~call() {
    wait();
    for (void* memory : memory_) croq_device::release(memory);
  }

  void require(const char* problem) const {
    if (CROQ_LIKELY(!problem)) return;
    const std::string text = std::string(function_) + ": " + problem;
    choreo::croq_die(nullptr, 0, text.c_str(), "");
  }
  void output(array* one) { outputs_.push_back(one); }
  void* allocate(size_t bytes) {
    void* memory = nullptr;
    require(croq_device::allocate(&memory, bytes ? bytes : 1));
    return memory;
  }
  bool pending() const { return pending_; }
  void wait() {
    if (!pending_) return;
    require(croq_device::synchronize());
    pending_ = false;
  }

  // Waits for all launches; a check that failed in one ends the program.
  void settle() {
    if (!pending_) return;
    if (!report_ || croq_device::unified()) require(croq_device::synchronize());
    else require(croq_device::download(words_, report_, sizeof words_));
    pending_ = false;
    if (CROQ_LIKELY(!report_ || !words_[0])) return;
    croq_failure failure = {(int32_t)words_[0] - 1, CROQ_VALUES, {}};
    std::memcpy(failure.values, words_ + 1, sizeof failure.values);
    croq_host::failed(function_, CROQ_CHECK, checks_, failure);
  }
  // Brings everything that the caller sees up to date.
  inline int32_t finish();

  // What failed checks of kernels are reported through.
  croq_device::argument report() {
    if (!report_) {
      if (croq_device::unified()) {
        report_ = words_;
      } else {
        memory_.push_back(report_ = allocate(sizeof words_));
        require(croq_device::zero(report_, sizeof words_));
      }
    }
    return {{report_}, 0};
  }
  // Words of 32 bits, all zero, with which the blocks of a launch meet.
  croq_device::argument counter(int64_t words) {
    if (croq_device::unified()) {
      counters_.emplace_back(new uint32_t[(size_t)words]());
      return {{counters_.back().get()}, 0};
    }
    memory_.push_back(allocate((size_t)words * 4));
    require(croq_device::zero(memory_.back(), (size_t)words * 4));
    return {{memory_.back()}, 0};
  }
  void launch(const char* kernel, croq_device::extents grid, croq_device::extents block, int64_t shared_bytes,
              std::initializer_list<croq_device::argument> arguments, bool cooperative = false,
              void* stream = nullptr) {
    if (grid.x < 1 || grid.y < 1 || grid.z < 1) return;
    const char* problem = croq_device::launch(kernels_, kernel, grid, block, shared_bytes, arguments.begin(),
                                              (int)arguments.size(), cooperative, stream);
    pending_ = true;
    if (CROQ_LIKELY(!problem)) return;
    const std::string kept = problem;
    settle();  // a check that failed is the reason for what else went wrong
    require(kept.c_str());
  }
};

template <typename T>
croq_device::argument value(T number) {
  static_assert(sizeof number <= 8, "a scalar");
  croq_device::argument out = {{nullptr}, (uint32_t)sizeof number};
  std::memcpy(out.bytes, &number, sizeof number);
  return out;
}

// A buffer in global memory: storage of the host, memory of the device, or both, copied when it is needed. Where the
// device is unified there is one memory, and only order matters.
class array {
 protected:
  call& owner_;
  char* data_;
  size_t bytes_;
  void* memory_ = nullptr;
  bool owned_ = false, zeroed_, ready_, on_host_, on_device_ = false;

  array(call& owner, void* data, size_t bytes, bool zeroed, bool filled)
      : owner_(owner), data_((char*)data), bytes_(bytes), zeroed_(zeroed), ready_(filled), on_host_(filled) {}
  array(const array&) = delete;
  ~array() {
    if (owner_.pending() && croq_device::unified()) owner_.wait();
    if (memory_) croq_device::release(memory_);
    if (owned_) std::free(data_);
  }
  void prepare(bool zero) {
    if (!data_) {
      data_ = (char*)choreo::croq_memory(bytes_, 1, zero);
      owned_ = true;
    } else if (zero) {
      std::memset(data_, 0, bytes_);
    }
    ready_ = true;
  }

  __attribute__((noinline)) void fetch() {
    owner_.settle();
    if (on_device_ && !on_host_ && !croq_device::unified()) {
      if (!ready_) prepare(false);
      owner_.require(croq_device::download(data_, memory_, bytes_));
    } else if (!ready_) {
      prepare(zeroed_);
    }
    on_host_ = true;
  }

 public:
  // The storage with the current contents.
  char* host() {
    if (CROQ_UNLIKELY(!on_host_ || owner_.pending())) fetch();
    return data_;
  }
  // The storage, which is about to change.
  char* changed() {
    host();
    on_device_ = false;
    return data_;
  }
  // The memory on the device with the current contents; `written`: a kernel is about to change them.
  croq_device::argument device(bool written) {
    if (croq_device::unified()) {
      if (!ready_) prepare(zeroed_);
      on_host_ = true;
      return {{data_}, 0};
    }
    if (!memory_) memory_ = owner_.allocate(bytes_);
    if (!on_device_) {
      if (on_host_) owner_.require(croq_device::upload(memory_, data_, bytes_));
      else if (zeroed_) owner_.require(croq_device::zero(memory_, bytes_));
      on_device_ = true;
    }
    if (written) on_host_ = false;
    return {{memory_}, 0};
  }
};

inline int32_t call::finish() {
  settle();
  for (array* one : outputs_) one->host();
  return CROQ_OK;
}

// `argument`: the caller's array. `output`: one that the caller looks at after the call. `result`: the array of what is
// returned. `declared`: storage of the function's own.
enum class role { argument, output, result, declared };

template <typename T>
class span : public array {
 public:
  span(call& owner, role what, T* data, int64_t bytes, bool zeroed = false)
      : array(owner, data, (size_t)bytes, zeroed, what == role::argument || what == role::output) {
    if (what == role::output || what == role::result) owner.output(this);
  }
  T* at() { return (T*)host(); }
  T* change() { return (T*)changed(); }
  operator T*() { return change(); }  // text of the program itself may do anything
};
}  // namespace croq_simt
