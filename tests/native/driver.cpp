// Runs the compiled functions without Python: under sanitizers, and with allocations that fail.
//
//   driver [seconds]    exit code 0 if everything holds; on stdout the number of calls in that time, with
//                       forks unless it is 0, and the instruction sets

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "../../src/regard/native/engine.h"
#include "../../src/regard/native/sparse.h"
#include "../../src/regard/native/status.h"
#include "../../src/regard/native/threads.h"

using namespace regard;

// ---------------------------------------------------------------- allocations that fail

namespace {
std::atomic<long> allocations_left{-1};  // −1: all succeed; n: those after the next n fail
}

void *operator new(size_t size) {
  if (allocations_left.load(std::memory_order_relaxed) >= 0 && allocations_left.fetch_sub(1) <= 0) {
    allocations_left = 0;
    throw std::bad_alloc();
  }
  if (void *memory = std::malloc(size ? size : 1)) return memory;
  throw std::bad_alloc();
}
void *operator new(size_t size, const std::nothrow_t &) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
}
void *operator new[](size_t size) { return operator new(size); }
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
void operator delete[](void *memory) noexcept { std::free(memory); }
void operator delete[](void *memory, size_t) noexcept { std::free(memory); }

namespace {

void require(bool holds, const char *what) {
  if (holds) return;
  std::fprintf(stderr, "driver: %s\n", what);
  _exit(1);
}

std::vector<float> random_numbers(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, 0.5f);
  std::vector<float> numbers(count);
  for (float &number : numbers) number = normal(generator);
  return numbers;
}

// ---------------------------------------------------------------- a small encoder-decoder

constexpr int DIM = 24, HEAD = 6, FFN = 40, VOCABULARY = 50, LAYERS = 2, CAPACITY = 16, END = 3;
constexpr int ROWS = 5, LIMIT = 8, KV_HEADS = 2;

Matrix *matrix(int outputs, int inputs, int bits, unsigned seed) {
  auto weights = random_numbers(size_t(outputs) * inputs, seed), bias = random_numbers(outputs, seed + 1);
  Matrix *packed = nullptr;
  require(regard_matrix(weights.data(), bias.data(), outputs, inputs, bits, &packed) == OK, "a matrix is not packed");
  return packed;
}

struct Model {
  std::vector<float> tokens = random_numbers(VOCABULARY * DIM, 1), positions = random_numbers(CAPACITY * DIM, 2);
  std::vector<float> gain = random_numbers(DIM, 3);
  Layer layer[LAYERS] = {};
  Stack stack = {};
  Matrix *output, *source;

  explicit Model(int bits) : output(matrix(VOCABULARY, DIM, bits, 5)),
                             source(matrix(LAYERS * 2 * KV_HEADS * HEAD, DIM, bits, 6)) {
    const Norm norm{gain.data(), nullptr, 1e-5f, 1};
    for (int l = 0; l < LAYERS; l++) {
      const int heads = l ? 2 : 4, kv_heads = l ? 1 : 2;  // the second layer is pruned
      layer[l] = Layer{norm, norm, norm,
                       matrix((heads + 2 * kv_heads) * HEAD, DIM, bits, 10 + l), matrix(DIM, heads * HEAD, bits, 20 + l),
                       matrix(4 * HEAD, DIM, bits, 30 + l), matrix(DIM, 4 * HEAD, bits, 40 + l),
                       matrix(FFN, DIM, bits, 50 + l), matrix(FFN, DIM, bits, 60 + l), matrix(DIM, FFN, bits, 70 + l),
                       nullptr, heads, kv_heads, 4, 2};
    }
    stack = Stack{DIM, 4, KV_HEADS, HEAD, FFN, LAYERS, CAPACITY, VOCABULARY, 1, 4, 0, 1.0f, 0.4f,
                  tokens.data(), nullptr, positions.data(), nullptr, nullptr, norm, norm, layer, output};
  }
  Model(const Model &) = delete;
  ~Model() {
    for (Layer &l : layer)
      for (Matrix *part : {l.project, l.merge, l.cross_query, l.cross_merge, l.gate, l.up_proj, l.down_proj})
        regard_free_matrix(part);
    regard_free_matrix(output), regard_free_matrix(source);
  }
};

// Pool the states of ROWS sentences and transform the pooled vectors; return the first status that is not OK.
int pool_states(const Model &model, int threads, const std::vector<float> &states, const int *starts) {
  std::vector<float> pooled(size_t(ROWS) * DIM), logits(size_t(ROWS) * VOCABULARY);
  const auto gain = random_numbers(VOCABULARY, 4);
  const Norm norm{gain.data(), nullptr, 1e-5f, 1};
  if (int status = regard_pool(model.gain.data(), states.data(), starts, ROWS, DIM, pooled.data(), threads))
    return status;
  return regard_transform(model.output, 2, &norm, pooled.data(), ROWS, logits.data(), threads);
}

// What decodes ROWS sentences, and the memory for the outputs.
struct Requests {
  static constexpr int WIDTH = 3, BEST = 2;
  std::vector<double> norms = std::vector<double>(LIMIT + 2, 1.0);
  std::vector<int> tokens = std::vector<int>(ROWS * BEST * LIMIT), counts = std::vector<int>(ROWS * BEST);
  std::vector<int> ended = counts;
  std::vector<float> scores = std::vector<float>(ROWS * BEST);
  Decoding how[ROWS];
  Found found[ROWS];

  Requests(const std::vector<int> &limits, bool beam) {
    for (int r = 0; r < ROWS; r++) {
      how[r] = Decoding{limits[r], END, beam ? WIDTH : 0, beam ? BEST : 1, 0, norms.data()};
      found[r] = Found{0, &tokens[size_t(r) * BEST * LIMIT], &counts[r * BEST], &scores[r * BEST], &ended[r * BEST]};
    }
  }

  void append(std::vector<int> &result) const {
    for (const Found &outputs : found)
      for (int n = 0, limit = how[&outputs - found].limit; n < outputs.count; n++) {
        result.push_back(outputs.counts[n]);
        result.insert(result.end(), outputs.tokens + n * limit, outputs.tokens + n * limit + outputs.counts[n]);
      }
  }
};

// Decode the rows of a step in one batch, which they join one step after the other.
int decode_in_batch(const Stack &stack, const Step &step, Requests &requests, int threads) {
  Batch *batch = nullptr;
  if (int status = regard_batch(&stack, &batch)) return status;
  int status = OK;
  std::vector<int64_t> numbers(ROWS), joined(ROWS);
  std::vector<int> tokens(ROWS), states(ROWS);
  Progress progress{0, joined.data(), tokens.data(), states.data()};
  for (int r = 0, left = ROWS; left > 0 && status == OK; r++) {
    if (r < ROWS) {
      Step row = step;
      row.rows = 1, row.ids += r, row.past += r, row.source += r, row.source_count += r;
      if ((status = regard_join(batch, &row, &requests.how[r], &numbers[r]))) break;
    }
    if ((status = regard_advance(batch, nullptr, nullptr, threads, &progress))) break;
    for (int i = 0; i < progress.count && status == OK; i++) {
      if (states[i] == NO_NUMBERS) status = NOT_FINITE;
      if (states[i] != DONE) continue;
      const size_t row = size_t(joined[i] - 1);
      require(numbers[row] == joined[i], "a request has another number");
      status = regard_found(batch, joined[i], &requests.found[row]);
      if (status == OK) status = regard_leave(batch, joined[i]);
      left--;
    }
  }
  regard_free_batch(batch);
  return status;
}

enum Searches { GREEDY, GREEDY_AND_BEAM };

// Encode ROWS sentences and decode them; return the first status that is not OK.
int translate(const Model &model, int threads, std::vector<int> &result, const std::vector<int> &limits,
              Searches searches = GREEDY_AND_BEAM) {
  const int starts[ROWS + 1] = {0, 4, 5, 5, 9, 12}, count[ROWS] = {4, 1, 0, 4, 3};
  std::vector<int> ids(starts[ROWS]), first(ROWS, 2);
  for (size_t i = 0; i < ids.size(); i++) ids[i] = int(7 * i % VOCABULARY);
  std::vector<float> states(ids.size() * DIM), keys(ids.size() * LAYERS * 2 * KV_HEADS * HEAD);
  Encoding encoding{ROWS, int(ids.size()), ids.data(), starts, states.data()};
  if (int status = regard_encode(&model.stack, &encoding, threads)) return status;
  if (int status = regard_apply(model.source, states.data(), int(ids.size()), keys.data(), threads)) return status;
  if (int status = pool_states(model, threads, states, starts)) return status;
  const int past[ROWS] = {};
  const float *source[ROWS];
  for (int r = 0; r < ROWS; r++) source[r] = keys.data() + size_t(starts[r]) * LAYERS * 2 * KV_HEADS * HEAD;
  const Step step{ROWS, first.data(), nullptr, past, nullptr, source, count, 0, nullptr, nullptr};
  result.clear();
  for (int beam = 0; beam <= searches; beam++) {
    Requests together(limits, beam), joining(limits, beam);
    if (int status = regard_decode(&model.stack, &step, together.how, together.found, 4, threads)) return status;
    if (int status = decode_in_batch(model.stack, step, joining, threads)) return status;
    std::vector<int> expected;
    together.append(expected), joining.append(result);
    require(std::equal(expected.rbegin(), expected.rend(), result.rbegin()), "a batch decodes otherwise");
  }
  return OK;
}

// ---------------------------------------------------------------- sparse attention

struct SparseCall {
  static constexpr int LENGTH = 70, SIZE = 10;
  std::vector<float> q = random_numbers(2 * LENGTH * SIZE, 1), k = random_numbers(2 * LENGTH * SIZE, 2);
  std::vector<float> v = random_numbers(2 * LENGTH * SIZE, 3), gradient = random_numbers(2 * LENGTH * SIZE, 4);
  std::vector<float> output = q, grad_q = q, grad_k = q, grad_v = q, log_sum = std::vector<float>(2 * LENGTH);
  std::vector<int> tiles{0, 64, 64, LENGTH}, ranges{0, LENGTH, 0, LENGTH};

  int run(int threads) {
    std::fill(grad_k.begin(), grad_k.end(), 0.0f), std::fill(grad_v.begin(), grad_v.end(), 0.0f);
    auto strided = [](std::vector<float> &x) { return Strided{x.data(), LENGTH * SIZE, LENGTH * SIZE, SIZE}; };
    Sparse args{2, 1, LENGTH, LENGTH, SIZE, 1, 9, 0, 2, 1, 1, tiles.data(), ranges.data(), nullptr, nullptr,
                strided(q), strided(k), strided(v), strided(output), log_sum.data(),
                strided(gradient), strided(grad_q), strided(grad_k), strided(grad_v)};
    if (int status = regard_sparse(&args, threads)) return status;
    return regard_sparse_backward(&args, threads);
  }
};

// ---------------------------------------------------------------- checks

constexpr int FIRST = 150;  // allocations that fail one by one; after them, one of 13
constexpr int SHARED = 11;  // every so many calls use several threads, which is slow on a busy machine

// A worker that is not in a job must not run it, and none may run the next one twice.
void check_every_job_runs_once(int jobs) {
  for (int job = 0; job < jobs; job++) {
    const int threads = 2 + job % 3 * (job % 2);
    std::vector<std::atomic<int>> runs(8);
    pool().run(threads, [&](Team team) {
      runs[team.rank]++;
      team.sync();
      require(runs[(team.rank + 1) % team.size] == 1, "a barrier was passed early");
    });
    for (int rank = 0; rank < 8; rank++) require(runs[rank] == (rank < threads), "a share ran twice or never");
  }
}

// One thread fails while the others wait for it at a barrier: the caller gets its exception.
void check_failure_in_any_thread() {
  for (int threads = 1; threads <= 4; threads++)
    for (int failing = 0; failing < threads; failing++) {
      const int status = status_of([&] {
        pool().run(threads, [&](Team team) {
          team.sync();
          if (team.rank == failing) throw std::runtime_error("a thread fails");
          team.sync();
          team.sync();
        });
      });
      require(status == FAILED && !std::strcmp(error_message, "a thread fails"), "an exception was lost");
    }
}

// Every allocation fails once, and all after it: each call returns a status, and the next one succeeds.
void check_every_allocation_can_fail(const Model &model) {
  const std::vector<int> limits{LIMIT, 0, 2, LIMIT, 5};
  std::vector<int> expected, result;
  require(translate(model, 1, expected, limits) == OK, "decoding fails");
  int failures = 0;
  for (long n = 0;; n += n < FIRST ? 1 : 13) {
    const int threads = n % SHARED ? 1 : 3;
    result.clear();
    int status = OUT_OF_MEMORY;
    allocations_left = n;
    try {  // new threads have no buffers yet
      std::thread([&] {
        try {
          status = translate(model, threads, result, limits);
        } catch (const std::bad_alloc &) {  // thrown here, not in a compiled function
        }
      }).join();
    } catch (const std::bad_alloc &) {
    }
    allocations_left = -1;
    require(status == OK || status == OUT_OF_MEMORY, "a failing allocation gives another status");
    if (status == OK) break;
    failures++;
  }
  require(failures > 60, "no allocation failed");
  require(result == expected, "results changed");
  SparseCall sparse;
  for (long n = 0, status = OUT_OF_MEMORY; status != OK; n++) {
    allocations_left = n;
    status = sparse.run(3);
    allocations_left = -1;
    require(status == OK || status == OUT_OF_MEMORY, "a failing allocation gives another status");
  }
}

void check_limits_of_zero(const Model &model) {
  std::vector<int> result;
  require(translate(model, 2, result, std::vector<int>(ROWS, 0)) == OK, "decoding fails");
  require(result == std::vector<int>(2 * ROWS, 0), "a limit of 0 gives tokens");
}

void check_numbers_that_are_not_finite(Model &model) {
  std::vector<int> result;
  const float before = model.tokens[2 * DIM];
  model.tokens[2 * DIM] = NAN;
  for (int threads : {1, 3})
    require(translate(model, threads, result, std::vector<int>(ROWS, 4)) == NOT_FINITE, "NaN is not reported");
  model.tokens[2 * DIM] = before;
}

// Every instruction set that the processor executes decodes the same tokens, and attends within rounding.
void check_instruction_sets_agree(const Model &exact, const Model &quantized) {
  const std::vector<int> limits(ROWS, LIMIT);
  const std::string first = regard_isa();
  std::vector<int> expected[2];
  std::vector<float> outputs, gradients;
  std::istringstream names(regard_isas());
  for (std::string name; names >> name;) {
    require(regard_set_isa(name.c_str()) == OK && name == regard_isa(), "an instruction set cannot be chosen");
    int m = 0;
    for (const Model *model : {&exact, &quantized}) {
      std::vector<int> result;
      require(translate(*model, 2, result, limits, GREEDY) == OK, "decoding fails");
      if (expected[m].empty()) expected[m] = result;
      require(result == expected[m++], "instruction sets decode other tokens");
    }
    SparseCall sparse;
    require(sparse.run(2) == OK, "sparse attention fails");
    if (outputs.empty()) outputs = sparse.output, gradients = sparse.grad_k;
    for (size_t i = 0; i < outputs.size(); i++)
      require(std::fabs(sparse.output[i] - outputs[i]) < 1e-5f && std::fabs(sparse.grad_k[i] - gradients[i]) < 1e-4f,
              "instruction sets attend differently");
  }
  require(regard_set_isa("none") == FAILED, "an unknown instruction set is accepted");
  require(regard_set_isa(first.c_str()) == OK, "an instruction set cannot be chosen");
}

// ThreadSanitizer in a forked process refuses threads with the id (the stack) of one of its parent:
// threads of another stack size get stacks of their own.
void use_new_stacks() {
#if defined(__GLIBC__)
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 16 << 20);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
#endif
}

// Threads decode with changing numbers of threads, and forked processes too.
long soak(const Model &exact, const Model &quantized, double seconds) {
  const std::vector<int> limits(ROWS, LIMIT);
  const Model *models[] = {&exact, &quantized};
  std::vector<int> expected[2];
  for (int m = 0; m < 2; m++) require(translate(*models[m], 1, expected[m], limits) == OK, "decoding fails");
  std::atomic<long> calls{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; caller++)
    callers.emplace_back([&, caller] {
      SparseCall sparse;
      std::mt19937 generator(caller);
      while (!stop) {
        std::vector<int> result;
        const int m = int(generator() % 2), threads = 1 + int(generator() % 4);
        require(translate(*models[m], threads, result, limits) == OK, "decoding fails");
        require(result == expected[m], "the result depends on threads");
        require(sparse.run(threads) == OK, "sparse attention fails");
        calls++;
      }
    });
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const pid_t child = fork();
    require(child >= 0, "fork fails");
    if (child == 0) {
      use_new_stacks();
      std::vector<int> result;
      for (int threads = 1; threads <= 3; threads++)
        require(translate(exact, threads, result, limits) == OK && result == expected[0], "a fork decodes otherwise");
      _exit(0);
    }
    int status = 0;
    require(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "a fork failed");
  }
  stop = true;
  for (std::thread &caller : callers) caller.join();
  return calls;
}

}  // namespace

int main(int count, char **arguments) {
  const double seconds = count > 1 ? std::atof(arguments[1]) : 1;
  Model exact(32), quantized(8);
  check_every_job_runs_once(300);
  check_failure_in_any_thread();
  check_limits_of_zero(exact);
  check_every_allocation_can_fail(quantized);  // the exact one allocates nothing more
  check_numbers_that_are_not_finite(exact);
  check_numbers_that_are_not_finite(quantized);
  check_instruction_sets_agree(exact, quantized);
  std::printf("%ld %s\n", soak(exact, quantized, seconds), regard_isas());
  std::fflush(stdout);
  _exit(0);  // threads of the pool never end
}
