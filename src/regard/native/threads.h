// Threads that meet often: a pool of them, each with its share of the same work.

#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>
#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace regard {

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

class Barrier {
 public:
  void wait(int threads) {
    if (threads == 1) return;
    int turn = turn_.load(std::memory_order_relaxed);
    if (here_.fetch_add(1, std::memory_order_acq_rel) == threads - 1) {
      here_.store(0, std::memory_order_relaxed);
      turn_.store(turn + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; turn_.load(std::memory_order_acquire) == turn; spins++)
      spins < 4000 ? pause() : std::this_thread::yield();
  }

 private:
  std::atomic<int> here_{0}, turn_{0};
};

struct Team {  // one of several threads that do the same work, each its share
  int me, size;
  Barrier *barrier;
  void meet() const { barrier->wait(size); }
  int from(int count) const { return int(int64_t(count) * me / size); }
  int to(int count) const { return int(int64_t(count) * (me + 1) / size); }
};

class Pool {
 public:
  template <typename Work>
  void run(int threads, const Work &work) {
    Barrier barrier;
    if (threads <= 1) return work(Team{0, 1, &barrier});
    std::lock_guard<std::mutex> one_at_a_time(mutex_);
    while (int(workers_.size()) < threads - 1) hire();
    job_ = [](const void *of, Team team) { (*static_cast<const Work *>(of))(team); };
    of_ = &work, barrier_ = &barrier, threads_ = threads;
    left_.store(threads - 1, std::memory_order_relaxed);
    turn_.fetch_add(1, std::memory_order_release);
    turn_.notify_all();
    work(Team{0, threads, &barrier});
    while (left_.load(std::memory_order_acquire)) pause();
  }

 private:
  void hire() {
    int me = int(workers_.size()) + 1, seen = turn_.load();
    workers_.emplace_back([this, me, seen]() mutable {
      for (;;) {
        for (int spins = 0; spins < 20000 && turn_.load(std::memory_order_acquire) == seen; spins++) pause();
        turn_.wait(seen, std::memory_order_acquire);
        seen = turn_.load(std::memory_order_acquire);
        if (me < threads_) {
          job_(of_, Team{me, threads_, barrier_});
          left_.fetch_sub(1, std::memory_order_release);
        }
      }
    });
    workers_.back().detach();
  }

  std::mutex mutex_;
  std::vector<std::thread> workers_;
  std::atomic<int> turn_{0}, left_{0};
  void (*job_)(const void *, Team) = nullptr;
  const void *of_ = nullptr;
  Barrier *barrier_ = nullptr;
  int threads_ = 0;
};

inline Pool *the_pool = new Pool;  // never destroyed: its threads may outlive main

#if !defined(_WIN32)
// A forked process has none of its parent's threads.
[[maybe_unused]] inline const int forks_start_anew = pthread_atfork(nullptr, nullptr, [] { the_pool = new Pool; });
#endif

inline Pool &pool() { return *the_pool; }

}  // namespace regard
