// A pool of threads with cheap barriers; each thread computes its share of the same work.
//
// A job is one object on the stack of the caller. Each worker has a mailbox of its own, and only the
// workers of a job get it: another worker never reads it, and none can run it twice.
//
// Nothing here runs when the library is loaded: all globals are constants at compile time.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
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

inline void spin(int spins) { spins < 4000 ? pause() : std::this_thread::yield(); }

struct Stopped {};  // thrown at a barrier that a thread will not reach, because it failed

class Barrier {
 public:
  void wait(int threads) {
    if (threads == 1) return;
    const int generation = generation_.load(std::memory_order_acquire);
    if (generation == STOPPED) throw Stopped();
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == threads - 1) {
      arrived_.store(0, std::memory_order_relaxed);
      generation_.store(generation + 1, std::memory_order_release);
      return;
    }
    int current = generation;
    for (int spins = 0; current == generation; spins++) {
      spin(spins);
      current = generation_.load(std::memory_order_acquire);
    }
    if (current == STOPPED) throw Stopped();
  }

  // Called by a thread between two barriers: the next one cannot be completed without it.
  void stop() { generation_.store(STOPPED, std::memory_order_release); }

 private:
  static constexpr int STOPPED = -1;
  std::atomic<int> arrived_{0}, generation_{0};
};

struct Team {  // one thread of several that share the same work
  int rank, size;
  Barrier *barrier;
  void sync() const { barrier->wait(size); }
  int from(int count) const { return int(int64_t(count) * rank / size); }
  int to(int count) const { return int(int64_t(count) * (rank + 1) / size); }
};

class Job {
 public:
  template <typename Work>
  Job(int threads, const Work &work)
      : threads_(threads),
        work_([](const void *argument, Team team) { (*static_cast<const Work *>(argument))(team); }),
        argument_(&work),
        unfinished_(threads - 1) {}

  // The share of one thread. Its first exception is kept for the caller, and the others stop.
  void run(int rank) noexcept {
    try {
      work_(argument_, Team{rank, threads_, &barrier_});
    } catch (const Stopped &) {
    } catch (...) {
      if (!failed_.exchange(true)) error_ = std::current_exception();
      barrier_.stop();
    }
  }

  // The last access of a worker: the caller may destroy the job at once.
  void leave() { unfinished_.fetch_sub(1, std::memory_order_release); }

  void finish() {
    for (int spins = 0; unfinished_.load(std::memory_order_acquire); spins++) spin(spins);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const int threads_;
  void (*const work_)(const void *, Team);
  const void *const argument_;
  Barrier barrier_;
  std::atomic<int> unfinished_;
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
};

class Worker {
 public:
  explicit Worker(int rank) : rank_(rank) {}

  void start(Job &job) {
    job_ = &job;
    has_job_.store(1, std::memory_order_release);
    has_job_.notify_one();
  }

  [[noreturn]] void run() noexcept {
    for (;;) {
      for (int spins = 0; spins < 20000 && !has_job_.load(std::memory_order_acquire); spins++) pause();
      has_job_.wait(0, std::memory_order_acquire);
      has_job_.store(0, std::memory_order_relaxed);
      Job &job = *job_;
      job.run(rank_);
      job.leave();
    }
  }

 private:
  const int rank_;
  Job *job_ = nullptr;
  std::atomic<int> has_job_{0};  // an int, which the system can wait for
};

class Pool {
 public:
  template <typename Work>
  void run(int threads, const Work &work) {
    if (threads <= 1) {
      Barrier barrier;
      return work(Team{0, 1, &barrier});
    }
    std::lock_guard<std::mutex> lock(mutex_);
    threads = 1 + add_workers(threads - 1);
    Job job(threads, work);
    for (int rank = 1; rank < threads; rank++) workers_[rank - 1]->start(job);
    job.run(0);
    job.finish();
  }

 private:
  // Return the number of workers, `count` unless the system refuses to start so many threads.
  int add_workers(int count) {
    workers_.reserve(count);
    while (int(workers_.size()) < count) {
      auto worker = std::make_unique<Worker>(int(workers_.size()) + 1);
      try {
        std::thread([own = worker.get()] { own->run(); }).detach();
      } catch (const std::system_error &) {
        break;
      }
      workers_.push_back(std::move(worker));
    }
    return std::min(count, int(workers_.size()));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

inline std::atomic<Pool *> the_pool{nullptr};  // never destroyed: its threads may outlive main
inline std::atomic<bool> forks_are_handled{false};

// A forked process has none of the threads of its parent: it starts without a pool.
inline void handle_forks() {
#if !defined(_WIN32)
  if (forks_are_handled.load(std::memory_order_acquire)) return;
  pthread_atfork(nullptr, nullptr, [] { the_pool.store(nullptr, std::memory_order_relaxed); });
  forks_are_handled.store(true, std::memory_order_release);
#endif
}

inline Pool &pool() {
  if (Pool *current = the_pool.load(std::memory_order_acquire)) return *current;
  handle_forks();  // before there is a pool: twice does no harm
  auto own = std::make_unique<Pool>();
  Pool *current = nullptr;
  if (the_pool.compare_exchange_strong(current, own.get(), std::memory_order_acq_rel)) return *own.release();
  return *current;  // another thread was faster
}

}  // namespace regard
