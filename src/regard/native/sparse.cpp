// Sparse attention, forward and backward: tiles of queries with the ranges of keys they attend to.
//
// A tile is up to 64 consecutive queries; its keys are processed in chunks of 64. The scores, keys
// and values of a chunk fit the first-level caches and are not stored: the softmax is computed online
// (Milakov and Gimelshein 2018), and the backward pass recomputes the weights from queries, keys and
// the logarithm of each query's sum (Dao et al. 2022).
//
//   forward    s = k qᵀ   p = e^(s − highest)   o = pᵀ v / Σ p
//   backward   p = e^(s − log_sum)   dv = p do   ds = p (v doᵀ − do·o)   dk = ds q   dq = dsᵀ k
//
// Scores are stored as [key][query]: a vector holds eight queries, keys and values are read in place,
// and only the queries of a tile are transposed, once.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "sparse.h"
#include "status.h"
#include "threads.h"
#include "vectors.h"

using namespace regard;

namespace {

constexpr int TILE = 64;    // queries
constexpr int CHUNK = 64;   // keys
constexpr int EIGHTS = TILE / 8;
constexpr int COLUMNS = 16;  // of a product, computed at a time
constexpr int MAX_ROWS = 6;  // of a product, computed at a time
constexpr float MINUS_INFINITY = -std::numeric_limits<float>::infinity();

inline int round_up(int count) { return (count + COLUMNS - 1) / COLUMNS * COLUMNS; }
inline f8 max8(f8 one, f8 other) { return one > other ? one : other; }

// e^x, zero if it is below the smallest normal number.
inline f8 exp_or_zero(f8 x) { return x < all(-87.0f) ? all(0.0f) : exp8(x); }

// ---------------------------------------------------------------- products

struct Left {  // the left matrix of a product, with its strides
  const float *at;
  int64_t row, along;
};

// c = factors · c + a b, for ROWS rows and 16 columns; one factor for each row, null for 0.
template <int ROWS>
inline void multiply(Left a, const float *b, int64_t b_step, int depth, float *c, int64_t c_step,
                     const float *factors) {
  f8 sums[ROWS][2];
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; r++)
    for (int half = 0; half < 2; half++)
      sums[r][half] = factors ? all(factors[r]) * load(c + r * c_step + half * 8) : all(0.0f);
  for (int i = 0; i < depth; i++) {
    f8 one = load(b + i * b_step), two = load(b + i * b_step + 8);
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++) {
      f8 x = all(a.at[r * a.row + i * a.along]);
      sums[r][0] += x * one, sums[r][1] += x * two;
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; r++)
    for (int half = 0; half < 2; half++) store(c + r * c_step + half * 8, sums[r][half]);
}

void multiply(int rows, int columns, Left a, const float *b, int64_t b_step, int depth, float *c,
              int64_t c_step, const float *factors) {
  for (int at = 0; at < columns; at += COLUMNS) {
    const float *from = b + at;
    float *to = c + at;
    switch (rows) {
      case 1: multiply<1>(a, from, b_step, depth, to, c_step, factors); break;
      case 2: multiply<2>(a, from, b_step, depth, to, c_step, factors); break;
      case 3: multiply<3>(a, from, b_step, depth, to, c_step, factors); break;
      case 4: multiply<4>(a, from, b_step, depth, to, c_step, factors); break;
      case 5: multiply<5>(a, from, b_step, depth, to, c_step, factors); break;
      default: multiply<MAX_ROWS>(a, from, b_step, depth, to, c_step, factors); break;
    }
  }
}

template <typename Act>
inline void in_groups(int count, const Act &act) {
  int groups = (count + MAX_ROWS - 1) / MAX_ROWS;
  for (int g = 0; g < groups; g++) {
    int from = count * g / groups;
    act(from, count * (g + 1) / groups - from);
  }
}

// ---------------------------------------------------------------- tiles and chunks of keys

struct Range {
  int from, to;
  int count() const { return std::max(0, to - from); }
};

struct Chunk {  // some keys of a tile
  const Sparse &args;
  int queries, keys;
  int offset;                 // position of the first key − position of the first query, in steps
  const int *query_labels;    // of the queries of the tile
  const int *key_labels;      // from the first key; may be null

  // Queries that attend to any of these keys, and keys that any of these queries attends to.
  Range queries_of(Range some) const {
    return {std::max(0, offset + some.from - args.after), std::min(queries, offset + some.to + args.before)};
  }
  Range keys_of(Range some) const {
    return {std::max(0, some.from - args.before - offset), std::min(keys, some.to + args.after - offset)};
  }
};

struct Head {  // one head of one row
  const Sparse &args;
  int row, head;

  float *at(const Strided &x, int token) const {
    return x.at + row * x.row + head * x.head + token * x.token;
  }
  float *log_sum() const { return args.log_sum + (int64_t(row) * args.heads + head) * args.length; }

  template <typename Act>
  void for_each_chunk(int tile, const Act &act) const {
    const int *range = args.query_tiles + 2 * tile;
    const int *plan = args.key_ranges + (int64_t(args.plans == 1 ? 0 : row) * args.tiles + tile) * args.ranges * 2;
    int queries = (range[1] - range[0] + args.dilation - 1) / args.dilation, past = args.keys - args.length;
    int query_labels[TILE] = {};
    if (args.key_labels)
      for (int t = 0; t < queries; t++)
        query_labels[t] = args.query_labels[int64_t(row) * args.length + range[0] + t * args.dilation];
    for (int r = 0; r < args.ranges; r++) {
      int end = plan[2 * r + 1];
      for (int from = plan[2 * r]; from < end; from += CHUNK * args.dilation) {
        int keys = std::min(CHUNK, (end - from + args.dilation - 1) / args.dilation);
        const int *key_labels = args.key_labels ? args.key_labels + int64_t(row) * args.keys + from : nullptr;
        act(Chunk{args, queries, keys, (from - past - range[0]) / args.dilation, query_labels, key_labels}, from);
      }
    }
  }
};

// ---------------------------------------------------------------- steps of both passes

// Contiguous vectors, padded to a multiple of COLUMNS: in place if they are so already, else copied.
const float *contiguous(const float *from, int64_t step, int count, int head_dim, std::vector<float> &buffer) {
  int width = round_up(head_dim);
  if (step == width && head_dim == width) return from;
  buffer.resize(size_t(CHUNK) * width);
  for (int i = 0; i < count; i++) {
    std::copy_n(from + i * step, head_dim, buffer.data() + size_t(i) * width);
    std::fill_n(buffer.data() + size_t(i) * width + head_dim, width - head_dim, 0.0f);
  }
  return buffer.data();
}

// Transpose to [component][query], times `scale`, with zeros where the tile has no query.
void transpose(const float *from, int64_t step, int count, int head_dim, float scale, std::vector<float> &to) {
  to.assign(size_t(round_up(head_dim)) * TILE, 0.0f);
  for (int t = 0; t < count; t++)
    for (int i = 0; i < head_dim; i++) to[size_t(i) * TILE + t] = scale * from[t * step + i];
}

// Products of keys (or values) with the transposed queries (or gradients), for pairs that may attend.
void compare(const Chunk &chunk, const float *keys, int width, const float *transposed, float *scores) {
  in_groups(chunk.keys, [&](int s, int count) {
    Range queries = chunk.queries_of({s, s + count});
    int from = queries.from / COLUMNS * COLUMNS;
    if (queries.count())
      multiply(count, round_up(queries.to - from), {keys + int64_t(s) * width, width, 1}, transposed + from, TILE,
               width, scores + s * TILE + from, TILE, nullptr);
  });
}

const i8 EIGHT = {0, 1, 2, 3, 4, 5, 6, 7};

// Set the score to −∞ where a query does not attend to a key.
void mask(const Chunk &chunk, float *scores) {
  for (int s = 0; s < chunk.keys; s++, scores += TILE) {
    Range queries = chunk.queries_of({s, s + 1});
    if (queries.from == 0 && queries.to == TILE && !chunk.key_labels) continue;
    for (int t = 0; t < TILE; t += 8) {
      i8 query = EIGHT + t, visible = (query >= queries.from) & (query < queries.to);
      if (chunk.key_labels) visible &= load(chunk.query_labels + t) == chunk.key_labels[s * chunk.args.dilation];
      store(scores + t, visible ? load(scores + t) : all(MINUS_INFINITY));
    }
  }
}

struct OnlineSoftmax {  // running maximum and sum of each query
  alignas(32) float highest[TILE], sum[TILE], factors[TILE];
  OnlineSoftmax() { std::fill_n(highest, TILE, MINUS_INFINITY), std::fill_n(sum, TILE, 0.0f); }

  // Replace scores by weights relative to the highest so far; `factors` rescales earlier sums.
  void update(int keys, float *scores) {
    f8 high[EIGHTS], sums[EIGHTS];
    for (int e = 0; e < EIGHTS; e++) high[e] = load(highest + 8 * e), sums[e] = all(0.0f);
    for (int s = 0; s < keys; s++)
#pragma GCC unroll 8
      for (int e = 0; e < EIGHTS; e++) high[e] = max8(load(scores + s * TILE + 8 * e), high[e]);
    for (int e = 0; e < EIGHTS; e++) {
      f8 from = high[e] == all(MINUS_INFINITY) ? all(0.0f) : high[e];  // no key yet
      store(factors + 8 * e, exp_or_zero(load(highest + 8 * e) - from));
      store(highest + 8 * e, high[e]);
      high[e] = from;
    }
    for (int s = 0; s < keys; s++)
#pragma GCC unroll 8
      for (int e = 0; e < EIGHTS; e++) {
        f8 weight = exp_or_zero(load(scores + s * TILE + 8 * e) - high[e]);
        sums[e] += weight;
        store(scores + s * TILE + 8 * e, weight);
      }
    for (int e = 0; e < EIGHTS; e++)
      store(sum + 8 * e, load(sum + 8 * e) * load(factors + 8 * e) + sums[e]);
  }
};

// For each query: to = factors · to + Σ weight · vector, over keys.
void gather(const Chunk &chunk, const float *weights, const float *vectors, int width, float *to,
            const float *factors) {
  in_groups(chunk.queries, [&](int t, int count) {
    Range keys = chunk.keys_of({t, t + count});
    multiply(count, width, {weights + keys.from * TILE + t, 1, TILE}, vectors + int64_t(keys.from) * width,
             width, keys.count(), to + int64_t(t) * width, width, factors + t);
  });
}

const struct Ones {
  float values[TILE];
  Ones() { std::fill_n(values, TILE, 1.0f); }
} ONES;

// For each key: to += Σ weight · vector, over queries.
void scatter(const Chunk &chunk, const float *weights, const float *vectors, int width, float *to,
             int64_t step, int head_dim, std::vector<float> &buffer) {
  if (head_dim != width) buffer.assign(size_t(CHUNK) * width, 0.0f);
  float *into = head_dim == width ? to : buffer.data();
  int64_t into_step = head_dim == width ? step : width;
  in_groups(chunk.keys, [&](int s, int count) {
    Range queries = chunk.queries_of({s, s + count});
    if (queries.count())
      multiply(count, width, {weights + s * TILE + queries.from, TILE, 1},
               vectors + int64_t(queries.from) * width, width, queries.count(), into + s * into_step,
               into_step, ONES.values);
  });
  if (head_dim != width)
    for (int s = 0; s < chunk.keys; s++)
      for (int i = 0; i < head_dim; i++) to[s * step + i] += buffer[size_t(s) * width + i];
}

// ---------------------------------------------------------------- forward

struct Forward {
  std::vector<float> transposed, outputs, keys, values;
  alignas(32) float scores[CHUNK * TILE];

  void tile(const Head &h, int number) {
    const Sparse &args = h.args;
    const int width = round_up(args.head_dim), first = args.query_tiles[2 * number];
    const int count = (args.query_tiles[2 * number + 1] - first + args.dilation - 1) / args.dilation;
    const int64_t k_step = args.k.token * args.dilation, v_step = args.v.token * args.dilation;
    transpose(h.at(args.q, first), args.q.token * args.dilation, count, args.head_dim,
              1 / std::sqrt(float(args.head_dim)), transposed);
    outputs.assign(size_t(TILE) * width, 0.0f);
    OnlineSoftmax softmax;
    h.for_each_chunk(number, [&](const Chunk &chunk, int key) {
      compare(chunk, contiguous(h.at(args.k, key), k_step, chunk.keys, args.head_dim, keys), width,
              transposed.data(), scores);
      mask(chunk, scores);
      softmax.update(chunk.keys, scores);
      gather(chunk, scores, contiguous(h.at(args.v, key), v_step, chunk.keys, args.head_dim, values), width,
             outputs.data(), softmax.factors);
    });
    for (int t = 0; t < count; t++) {
      int token = first + t * args.dilation;
      float sum = softmax.sum[t], inverse = sum == 0 ? 0 : 1 / sum, *to = h.at(args.output, token);
      for (int i = 0; i < args.head_dim; i++) to[i] = inverse * outputs[size_t(t) * width + i];
      // A query without keys has weights of zero in the backward pass: e^(s − ∞).
      if (args.log_sum) h.log_sum()[token] = sum == 0 ? -MINUS_INFINITY : softmax.highest[t] + std::log(sum);
    }
  }
};

// ---------------------------------------------------------------- backward

struct Backward {
  std::vector<float> transposed, transposed_grad, grad_q, keys, values, queries, grad_output, buffer;
  alignas(32) float weights[CHUNK * TILE], grad_scores[CHUNK * TILE];
  alignas(32) float log_sum[TILE], delta[TILE];

  void tile(const Head &h, int number) {
    const Sparse &args = h.args;
    const int width = round_up(args.head_dim), first = args.query_tiles[2 * number];
    const int count = (args.query_tiles[2 * number + 1] - first + args.dilation - 1) / args.dilation;
    const float scale = 1 / std::sqrt(float(args.head_dim));
    const float *grad = h.at(args.grad_output, first);
    const int64_t q_step = args.q.token * args.dilation, grad_step = args.grad_output.token * args.dilation;
    transpose(h.at(args.q, first), q_step, count, args.head_dim, scale, transposed);
    transpose(grad, grad_step, count, args.head_dim, 1, transposed_grad);
    const float *q = contiguous(h.at(args.q, first), q_step, count, args.head_dim, queries);
    const float *grads = contiguous(grad, grad_step, count, args.head_dim, grad_output);
    grad_q.assign(size_t(TILE) * width, 0.0f);
    std::fill_n(log_sum, TILE, -MINUS_INFINITY), std::fill_n(delta, TILE, 0.0f);
    for (int t = 0; t < count; t++) {
      int token = first + t * args.dilation;
      const float *output = h.at(args.output, token);
      log_sum[t] = h.log_sum()[token];
      for (int i = 0; i < args.head_dim; i++) delta[t] += grad[t * grad_step + i] * output[i];
    }
    h.for_each_chunk(number, [&](const Chunk &chunk, int key) {
      const int64_t k_step = args.k.token * args.dilation, v_step = args.v.token * args.dilation;
      const float *k = contiguous(h.at(args.k, key), k_step, chunk.keys, args.head_dim, keys);
      const float *v = contiguous(h.at(args.v, key), v_step, chunk.keys, args.head_dim, values);
      compare(chunk, k, width, transposed.data(), weights);
      mask(chunk, weights);
      compare(chunk, v, width, transposed_grad.data(), grad_scores);
      differentiate(chunk.keys, scale);
      scatter(chunk, weights, grads, width, h.at(args.grad_v, key), args.grad_v.token * args.dilation,
              args.head_dim, buffer);
      scatter(chunk, grad_scores, q, width, h.at(args.grad_k, key), args.grad_k.token * args.dilation,
              args.head_dim, buffer);
      gather(chunk, grad_scores, k, width, grad_q.data(), ONES.values);
    });
    for (int t = 0; t < count; t++)
      std::copy_n(grad_q.data() + size_t(t) * width, args.head_dim, h.at(args.grad_q, first + t * args.dilation));
  }

  // Replace scores by weights, and products of values and gradients by the gradients of the scores.
  void differentiate(int keys_, float scale) {
    for (int s = 0; s < keys_; s++)
#pragma GCC unroll 8
      for (int e = 0; e < EIGHTS; e++) {
        float *weight_at = weights + s * TILE + 8 * e, *grad_score = grad_scores + s * TILE + 8 * e;
        f8 weight = exp_or_zero(load(weight_at) - load(log_sum + 8 * e));
        f8 grad = all(scale) * weight * (load(grad_score) - load(delta + 8 * e));
        store(weight_at, weight);
        store(grad_score, weight == all(0.0f) ? all(0.0f) : grad);  // masked pairs hold arbitrary numbers
      }
  }
};

}  // namespace

// ---------------------------------------------------------------- interface

extern "C" {

int regard_sparse(const Sparse *args, int threads) {
  return status_of([&] {
    std::atomic<int> next{0};
    pool().run(threads, [&](Team) {
      Forward forward;
      const int items = args->rows * args->heads * args->tiles;
      for (int item; (item = next.fetch_add(1)) < items;) {
        int head = item / args->tiles;
        forward.tile({*args, head / args->heads, head % args->heads}, item % args->tiles);
      }
    });
  });
}

// Tiles share keys, so one thread computes all tiles of a head of a row.
int regard_sparse_backward(const Sparse *args, int threads) {
  return status_of([&] {
    std::atomic<int> next{0};
    pool().run(threads, [&](Team) {
      Backward backward;
      for (int head; (head = next.fetch_add(1)) < args->rows * args->heads;)
        for (int tile = 0; tile < args->tiles; tile++)
          backward.tile({*args, head / args->heads, head % args->heads}, tile);
    });
  });
}

}  // extern "C"
