// The exported functions of the engine: Transformers on a CPU, from packed weights.
//
// At each step a decoder reads all its weights once for a few rows, so the time depends on the memory
// layout of the weights and on the overhead. Here a whole step is one call: threads synchronize at
// barriers of their own instead of entering and leaving a kernel hundreds of times.
//
// Every output is summed in one fixed order, whatever the number of rows and threads: a sentence gets
// the same bits alone and in any batch.

#include "engine.h"

#include <cmath>

#include "forward.h"
#include "matrix.h"
#include "search.h"
#include "status.h"

using namespace regard;

extern "C" {

int regard_interface() { return 7; }  // as INTERFACE of native/library.py

const char *regard_error_message() { return error_message; }

int regard_matrix(const float *weights, const float *bias, int outputs, int inputs, int bits, Matrix **matrix) {
  return status_of([&] { *matrix = pack(weights, bias, outputs, inputs, bits).release(); });
}

void regard_free_matrix(Matrix *matrix) { delete matrix; }

int regard_apply(const Matrix *matrix, const float *x, int rows, float *y, int threads) {
  return status_of([&] {
    pool().run(threads, [&](Team team) { apply(*matrix, x, matrix->packed.inputs, rows, y, matrix->packed.outputs, team); });
  });
}

// For each row of x (rows, size): log Σ exp, and the `count` ≤ size highest numbers with their indices.
int regard_rank(const float *x, int rows, int size, int count, float *log_sums, float *values, int *indices,
                int threads) {
  return status_of([&] {
    pool().run(threads, [&](Team team) {
      for (int r = team.from(rows); r < team.to(rows); r++)
        kernels().rank(x + size_t(r) * size, size, count, log_sums + r, values + size_t(r) * count,
                       indices + size_t(r) * count);
    });
  });
}

int regard_encode(const Stack *stack, const Encoding *encoding, int threads) {
  thread_local Buffers buffers;
  Buffers &own = buffers;
  return status_of([&] {
    own.prepare(*stack, encoding->tokens);
    pool().run(threads, [&](Team team) { encode(*stack, *encoding, own, team); });
  });
}

int regard_transform(const Matrix *matrix, int activation, const Norm *norm, const float *x, int rows, float *y,
                     int threads) {
  const int inputs = matrix->packed.inputs, outputs = matrix->packed.outputs;
  return status_of([&] {
    pool().run(threads, [&](Team team) {
      apply(*matrix, x, inputs, rows, y, outputs, team, {false, Activation(activation)});
      team.sync();
      for (int m = team.from(rows); m < team.to(rows); m++)
        normalize(*norm, y + size_t(m) * outputs, outputs, y + size_t(m) * outputs);
    });
  });
}

int regard_pool(const float *query, const float *states, const int *starts, int sentences, int dim, float *pooled,
                int threads) {
  const float scale = 1.0f / std::sqrt(float(dim));
  return status_of([&] {
    std::vector<const float *> pointers(starts[sentences]);
    for (size_t m = 0; m < pointers.size(); m++) pointers[m] = states + m * dim;
    pool().run(threads, [&](Team team) {
      thread_local std::vector<float> scores;
      for (int n = team.from(sentences); n < team.to(sentences); n++) {
        KeyPointers keys{pointers.data() + starts[n], 0, 0, starts[n + 1] - starts[n]};
        attend(query, dim, keys, scale, nullptr, pooled + size_t(n) * dim, scores);
      }
    });
  });
}

int regard_step(const Stack *stack, const Step *step, int threads) {
  thread_local Buffers buffers;
  Buffers &own = buffers;
  return status_of([&] { run_step(*stack, *step, own, threads); });
}

int regard_decode(const Stack *stack, const Step *step, const Decoding *how, Found *found, int max_rows, int threads) {
  thread_local Buffers buffers;
  Buffers &own = buffers;
  return status_of([&] {
    Batch batch(*stack);
    float *const *cached = step->cache;
    int next = 0;
    while (next < step->rows || !batch.is_empty()) {
      for (; next < step->rows && batch.has_room(how[next], max_rows); cached += step->past[next++])
        batch.join(*step, next, cached, how[next]);
      batch.advance(nullptr, nullptr, own, threads);
      batch.finish([&](int64_t number) -> Found & { return found[number - 1]; });
    }
  });
}

int regard_batch(const Stack *stack, Batch **batch) {
  return status_of([&] { *batch = new Batch(*stack); });
}

int regard_join(Batch *batch, const Step *step, const Decoding *how, int64_t *number) {
  return status_of([&] { *number = batch->join(*step, 0, step->cache, *how); });
}

int regard_advance(Batch *batch, const Step *others, int *finite, int threads, Progress *progress) {
  thread_local Buffers buffers;
  Buffers &own = buffers;
  return status_of([&] {
    batch->advance(others, finite, own, threads);
    batch->report(*progress);
  });
}

int regard_found(const Batch *batch, int64_t number, Found *found) {
  return status_of([&] { batch->write(number, *found); });
}

int regard_leave(Batch *batch, int64_t number) {
  return status_of([&] { batch->leave(number); });
}

void regard_free_batch(Batch *batch) { delete batch; }

}  // extern "C"
