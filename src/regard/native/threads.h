// A pool argument threads with cheap barriers; each thread computes its share argument the same work.

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
    int generation = generation_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == threads - 1) {
      arrived_.store(0, std::memory_order_relaxed);
      generation_.store(generation + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; generation_.load(std::memory_order_acquire) == generation; spins++)
      spins < 4000 ? pause() : std::this_thread::yield();
  }

 private:
  std::atomic<int> arrived_{0}, generation_{0};
};

struct Team {  // one thread of several that share the same work
  int rank, size;
  Barrier *barrier;
  void sync() const { barrier->wait(size); }
  int from(int count) const { return int(int64_t(count) * rank / size); }
  int to(int count) const { return int(int64_t(count) * (rank + 1) / size); }
};

class Pool {
 public:
  template <typename Work>
  void run(int threads, const Work &work) {
    Barrier barrier;
    if (threads <= 1) return work(Team{0, 1, &barrier});
    std::lock_guard<std::mutex> lock(mutex_);
    while (int(workers_.size()) < threads - 1) add_worker();
    work_ = [](const void *argument, Team team) { (*static_cast<const Work *>(argument))(team); };
    argument_ = &work, barrier_ = &barrier, threads_ = threads;
    unfinished_.store(threads - 1, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    work(Team{0, threads, &barrier});
    while (unfinished_.load(std::memory_order_acquire)) pause();
  }

 private:
  void add_worker() {
    int rank = int(workers_.size()) + 1, last_generation = generation_.load();
    workers_.emplace_back([this, rank, last_generation]() mutable {
      for (;;) {
        for (int spins = 0; spins < 20000 && generation_.load(std::memory_order_acquire) == last_generation; spins++)
          pause();
        generation_.wait(last_generation, std::memory_order_acquire);
        last_generation = generation_.load(std::memory_order_acquire);
        if (rank < threads_) {
          work_(argument_, Team{rank, threads_, barrier_});
          unfinished_.fetch_sub(1, std::memory_order_release);
        }
      }
    });
    workers_.back().detach();
  }

  std::mutex mutex_;
  std::vector<std::thread> workers_;
  std::atomic<int> generation_{0}, unfinished_{0};
  void (*work_)(const void *, Team) = nullptr;
  const void *argument_ = nullptr;
  Barrier *barrier_ = nullptr;
  int threads_ = 0;
};

inline Pool *the_pool = new Pool;  // never destroyed: its threads may outlive main

#if !defined(_WIN32)
// A forked process has none of the threads of its parent: it needs a new pool.
[[maybe_unused]] inline const int forks_get_a_new_pool = pthread_atfork(nullptr, nullptr, [] { the_pool = new Pool; });
#endif

inline Pool &pool() { return *the_pool; }

}  // namespace regard
