// A pool for the peers: the calling thread and n - 1 workers take blocks from one counter. Workers spin for a few
// microseconds before they sleep, so that a short kernel is not dominated by waking them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace peers {

class Pool {
 public:
  template <class Body>
  void run(long blocks, long chunk, int threads, const Body& body) {
    if (threads <= 1 || blocks <= chunk) {
      for (long b = 0; b < blocks; ++b) body(b);
      return;
    }
    grow(threads - 1);
    call_ = [](const void* context, long first, long last) {
      const Body& f = *static_cast<const Body*>(context);
      for (long b = first; b < last; ++b) f(b);
    };
    context_ = &body;
    blocks_ = blocks;
    chunk_ = chunk;
    next_.store(0);
    busy_.store(static_cast<int>(workers_.size()));
    {
      std::lock_guard<std::mutex> hold(lock_);
      epoch_.fetch_add(1);
    }
    if (asleep_.load()) wake_.notify_all();
    drain();
    while (busy_.load(std::memory_order_acquire)) pause();
  }

 private:
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  void drain() {
    for (;;) {
      const long first = next_.fetch_add(chunk_);
      if (first >= blocks_) return;
      call_(context_, first, first + chunk_ < blocks_ ? first + chunk_ : blocks_);
    }
  }

  void grow(int count) {
    while (static_cast<int>(workers_.size()) < count) {
      workers_.emplace_back([this, seen = epoch_.load()]() mutable {
        for (;;) {
          for (int spin = 0; spin < 4000 && epoch_.load() == seen; ++spin) pause();
          if (epoch_.load() == seen) {
            std::unique_lock<std::mutex> hold(lock_);
            asleep_.fetch_add(1);
            wake_.wait(hold, [&] { return epoch_.load() != seen; });
            asleep_.fetch_sub(1);
          }
          seen = epoch_.load();
          drain();
          busy_.fetch_sub(1, std::memory_order_release);
        }
      });
      workers_.back().detach();
    }
  }

  std::vector<std::thread> workers_;
  std::mutex lock_;
  std::condition_variable wake_;
  std::atomic<long> next_{0};
  std::atomic<int> busy_{0}, asleep_{0};
  std::atomic<unsigned> epoch_{0};
  void (*call_)(const void*, long, long) = nullptr;
  const void* context_ = nullptr;
  long blocks_ = 0, chunk_ = 1;
};

inline Pool& pool() {
  static Pool* one = new Pool;  // never destroyed: its workers outlive main
  return *one;
}

}  // namespace peers
