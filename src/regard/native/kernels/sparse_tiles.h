// Sparse attention, forward and backward: tiles of queries with the ranges of keys they attend to.
// Included in the namespace of an instruction set.
//
// A tile is up to 64 consecutive queries; its keys are processed in chunks of 64. The scores, keys
// and values of a chunk fit the first-level caches and are not stored: the softmax is computed online
// (Milakov and Gimelshein 2018), and the backward pass recomputes the weights from queries, keys and
// the logarithm of each query's sum (Dao et al. 2022).
//
//   forward    s = k qᵀ   p = e^(s − highest)   o = pᵀ v / Σ p
//   backward   p = e^(s − log_sum)   dv = p do   ds = p (v doᵀ − do·o)   dk = ds q   dq = dsᵀ k
//
// Scores are stored as [key][query]: a vector holds LANES queries, keys and values are read in place,
// and only the queries of a tile are transposed, once.

constexpr int TILE = SPARSE_TILE;    // queries
constexpr int CHUNK = SPARSE_TILE;   // keys
constexpr int COLUMNS = SPARSE_COLUMNS;  // of a product, computed at a time
constexpr int VECTORS = COLUMNS / LANES;
constexpr int GROUPS = TILE / LANES;  // vectors of queries
constexpr float MINUS_INFINITY = -__builtin_inff();

inline int round_up(int count) { return (count + COLUMNS - 1) / COLUMNS * COLUMNS; }
inline void fill(float *to, int count, float value) {
  for (int i = 0; i < count; i++) to[i] = value;
}
inline floats maximum(floats one, floats other) { return one > other ? one : other; }

// e^x, zero if it is below the smallest normal number.
inline floats exp_or_zero(floats x) { return x < all(-87.0f) ? all(0.0f) : exponential(x); }

// ---------------------------------------------------------------- products

struct Left {  // the left matrix of a product, with its strides
  const float *at;
  int64_t row, along;
};

// c = factors · c + a b, for ROWS rows and COLUMNS columns; one factor for each row, null for 0.
template <int ROWS>
inline void multiply(Left a, const float *b, int64_t b_step, int depth, float *c, int64_t c_step,
                     const float *factors) {
  floats sums[ROWS][VECTORS];
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 16
    for (int v = 0; v < VECTORS; v++)
      sums[r][v] = factors ? all(factors[r]) * load(c + r * c_step + v * LANES) : all(0.0f);
  for (int i = 0; i < depth; i++) {
    floats vectors[VECTORS];
#pragma GCC unroll 16
    for (int v = 0; v < VECTORS; v++) vectors[v] = load(b + i * b_step + v * LANES);
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; r++) {
      floats x = all(a.at[r * a.row + i * a.along]);
#pragma GCC unroll 16
      for (int v = 0; v < VECTORS; v++) sums[r][v] += x * vectors[v];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 16
    for (int v = 0; v < VECTORS; v++) store(c + r * c_step + v * LANES, sums[r][v]);
}

template <int ROWS>
inline void multiply_rows(int rows, Left a, const float *b, int64_t b_step, int depth, float *c, int64_t c_step,
                          const float *factors) {
  if constexpr (ROWS > 1)
    if (rows < ROWS) return multiply_rows<ROWS - 1>(rows, a, b, b_step, depth, c, c_step, factors);
  multiply<ROWS>(a, b, b_step, depth, c, c_step, factors);
}

void multiply(int rows, int columns, Left a, const float *b, int64_t b_step, int depth, float *c,
              int64_t c_step, const float *factors) {
  for (int at = 0; at < columns; at += COLUMNS)
    multiply_rows<MAX_ROWS>(rows, a, b + at, b_step, depth, c + at, c_step, factors);
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
  int count() const { return greater(0, to - from); }
};

struct Chunk {  // some keys of a tile
  const Sparse &args;
  int queries, keys;
  int offset;                 // position of the first key − position of the first query, in steps
  const int *query_labels;    // of the queries of the tile
  const int *key_labels;      // from the first key; may be null

  // Queries that attend to any of these keys, and keys that any of these queries attends to.
  Range queries_of(Range some) const {
    return {greater(0, offset + some.from - args.after), lesser(queries, offset + some.to + args.before)};
  }
  Range keys_of(Range some) const {
    return {greater(0, some.from - args.before - offset), lesser(keys, some.to + args.after - offset)};
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
        int keys = lesser(CHUNK, (end - from + args.dilation - 1) / args.dilation);
        const int *key_labels = args.key_labels ? args.key_labels + int64_t(row) * args.keys + from : nullptr;
        act(Chunk{args, queries, keys, (from - past - range[0]) / args.dilation, query_labels, key_labels}, from);
      }
    }
  }
};

// ---------------------------------------------------------------- steps of both passes

struct Workspace {  // parts of the caller's buffer, each for TILE vectors
  float *next;
  int64_t width;
  float *take() {
    float *part = next;
    next += TILE * width;
    return part;
  }
};

// Contiguous vectors, padded to a multiple of COLUMNS: in place if they are so already, else copied.
const float *contiguous(const float *from, int64_t step, int count, int head_dim, float *buffer) {
  int width = round_up(head_dim);
  if (step == width && head_dim == width) return from;
  for (int i = 0; i < count; i++) {
    __builtin_memcpy(buffer + int64_t(i) * width, from + i * step, sizeof(float) * head_dim);
    fill(buffer + int64_t(i) * width + head_dim, width - head_dim, 0.0f);
  }
  return buffer;
}

// Transpose to [component][query], times `scale`, with zeros where the tile has no query.
void transpose(const float *from, int64_t step, int count, int head_dim, float scale, float *to) {
  __builtin_memset(to, 0, sizeof(float) * round_up(head_dim) * TILE);
  for (int t = 0; t < count; t++)
    for (int i = 0; i < head_dim; i++) to[int64_t(i) * TILE + t] = scale * from[t * step + i];
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

inline ints consecutive(int from) {
  ints v{};
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++) v[i] = from + i;
  return v;
}

// Set the score to −∞ where a query does not attend to a key.
void mask(const Chunk &chunk, float *scores) {
  for (int s = 0; s < chunk.keys; s++, scores += TILE) {
    Range queries = chunk.queries_of({s, s + 1});
    if (queries.from == 0 && queries.to == TILE && !chunk.key_labels) continue;
    for (int t = 0; t < TILE; t += LANES) {
      ints query = consecutive(t), visible = (query >= queries.from) & (query < queries.to);
      if (chunk.key_labels) visible &= load(chunk.query_labels + t) == chunk.key_labels[s * chunk.args.dilation];
      store(scores + t, visible ? load(scores + t) : all(MINUS_INFINITY));
    }
  }
}

struct OnlineSoftmax {  // running maximum and sum of each query
  float highest[TILE], sum[TILE], factors[TILE];
  OnlineSoftmax() { fill(highest, TILE, MINUS_INFINITY), fill(sum, TILE, 0.0f); }

  // Replace scores by weights relative to the highest so far; `factors` rescales earlier sums.
  void update(int keys, float *scores) {
    floats high[GROUPS], sums[GROUPS];
    for (int e = 0; e < GROUPS; e++) high[e] = load(highest + LANES * e), sums[e] = all(0.0f);
    for (int s = 0; s < keys; s++)
#pragma GCC unroll 16
      for (int e = 0; e < GROUPS; e++) high[e] = maximum(load(scores + s * TILE + LANES * e), high[e]);
    for (int e = 0; e < GROUPS; e++) {
      floats from = high[e] == all(MINUS_INFINITY) ? all(0.0f) : high[e];  // no key yet
      store(factors + LANES * e, exp_or_zero(load(highest + LANES * e) - from));
      store(highest + LANES * e, high[e]);
      high[e] = from;
    }
    for (int s = 0; s < keys; s++)
#pragma GCC unroll 16
      for (int e = 0; e < GROUPS; e++) {
        floats weight = exp_or_zero(load(scores + s * TILE + LANES * e) - high[e]);
        sums[e] += weight;
        store(scores + s * TILE + LANES * e, weight);
      }
    for (int e = 0; e < GROUPS; e++)
      store(sum + LANES * e, load(sum + LANES * e) * load(factors + LANES * e) + sums[e]);
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

// For each key: to += Σ weight · vector, over queries.
void scatter(const Chunk &chunk, const float *weights, const float *vectors, int width, float *to,
             int64_t step, int head_dim, const float *ones, float *buffer) {
  if (head_dim != width) __builtin_memset(buffer, 0, sizeof(float) * CHUNK * width);
  float *into = head_dim == width ? to : buffer;
  int64_t into_step = head_dim == width ? step : width;
  in_groups(chunk.keys, [&](int s, int count) {
    Range queries = chunk.queries_of({s, s + count});
    if (queries.count())
      multiply(count, width, {weights + s * TILE + queries.from, TILE, 1},
               vectors + int64_t(queries.from) * width, width, queries.count(), into + s * into_step,
               into_step, ones);
  });
  if (head_dim != width)
    for (int s = 0; s < chunk.keys; s++)
      for (int i = 0; i < head_dim; i++) to[s * step + i] += buffer[int64_t(s) * width + i];
}

// ---------------------------------------------------------------- forward

void forward(const Sparse &args, int row, int head, int number, float *buffer) {
  const Head h{args, row, head};
  float scores[CHUNK * TILE];
  const int width = round_up(args.head_dim), first = args.query_tiles[2 * number];
  const int count = (args.query_tiles[2 * number + 1] - first + args.dilation - 1) / args.dilation;
  Workspace workspace{buffer, width};
  float *transposed = workspace.take(), *outputs = workspace.take();
  float *keys = workspace.take(), *values = workspace.take();
  const int64_t k_step = args.k.token * args.dilation, v_step = args.v.token * args.dilation;
  transpose(h.at(args.q, first), args.q.token * args.dilation, count, args.head_dim,
            1 / __builtin_sqrtf(float(args.head_dim)), transposed);
  __builtin_memset(outputs, 0, sizeof(float) * TILE * width);
  OnlineSoftmax softmax;
  h.for_each_chunk(number, [&](const Chunk &chunk, int key) {
    compare(chunk, contiguous(h.at(args.k, key), k_step, chunk.keys, args.head_dim, keys), width,
            transposed, scores);
    mask(chunk, scores);
    softmax.update(chunk.keys, scores);
    gather(chunk, scores, contiguous(h.at(args.v, key), v_step, chunk.keys, args.head_dim, values), width,
           outputs, softmax.factors);
  });
  for (int t = 0; t < count; t++) {
    int token = first + t * args.dilation;
    float sum = softmax.sum[t], inverse = sum == 0 ? 0 : 1 / sum, *to = h.at(args.output, token);
    for (int i = 0; i < args.head_dim; i++) to[i] = inverse * outputs[int64_t(t) * width + i];
    // A query without keys has weights of zero in the backward pass: e^(s − ∞).
    if (args.log_sum) h.log_sum()[token] = sum == 0 ? -MINUS_INFINITY : softmax.highest[t] + __builtin_logf(sum);
  }
}

// ---------------------------------------------------------------- backward

// Replace scores by weights, and products of values and gradients by the gradients of the scores.
void differentiate(int keys, float scale, const float *log_sum, const float *delta, float *weights,
                   float *grad_scores) {
  for (int s = 0; s < keys; s++)
#pragma GCC unroll 16
    for (int e = 0; e < GROUPS; e++) {
      float *weight_at = weights + s * TILE + LANES * e, *grad_score = grad_scores + s * TILE + LANES * e;
      floats weight = exp_or_zero(load(weight_at) - load(log_sum + LANES * e));
      floats grad = all(scale) * weight * (load(grad_score) - load(delta + LANES * e));
      store(weight_at, weight);
      store(grad_score, weight == all(0.0f) ? all(0.0f) : grad);  // masked pairs hold arbitrary numbers
    }
}

void backward(const Sparse &args, int row, int head, int number, float *buffer) {
  const Head h{args, row, head};
  float weights[CHUNK * TILE], grad_scores[CHUNK * TILE], log_sum[TILE], delta[TILE], ones[TILE];
  const int width = round_up(args.head_dim), first = args.query_tiles[2 * number];
  const int count = (args.query_tiles[2 * number + 1] - first + args.dilation - 1) / args.dilation;
  Workspace workspace{buffer, width};
  float *transposed = workspace.take(), *transposed_grad = workspace.take(), *grad_q = workspace.take();
  float *keys = workspace.take(), *values = workspace.take(), *queries = workspace.take();
  float *grad_output = workspace.take(), *sums = workspace.take();
  const float scale = 1 / __builtin_sqrtf(float(args.head_dim));
  const float *grad = h.at(args.grad_output, first);
  const int64_t q_step = args.q.token * args.dilation, grad_step = args.grad_output.token * args.dilation;
  transpose(h.at(args.q, first), q_step, count, args.head_dim, scale, transposed);
  transpose(grad, grad_step, count, args.head_dim, 1, transposed_grad);
  const float *q = contiguous(h.at(args.q, first), q_step, count, args.head_dim, queries);
  const float *grads = contiguous(grad, grad_step, count, args.head_dim, grad_output);
  __builtin_memset(grad_q, 0, sizeof(float) * TILE * width);
  fill(log_sum, TILE, -MINUS_INFINITY), fill(delta, TILE, 0.0f), fill(ones, TILE, 1.0f);
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
    compare(chunk, k, width, transposed, weights);
    mask(chunk, weights);
    compare(chunk, v, width, transposed_grad, grad_scores);
    differentiate(chunk.keys, scale, log_sum, delta, weights, grad_scores);
    scatter(chunk, weights, grads, width, h.at(args.grad_v, key), args.grad_v.token * args.dilation,
            args.head_dim, ones, sums);
    scatter(chunk, grad_scores, q, width, h.at(args.grad_k, key), args.grad_k.token * args.dilation,
            args.head_dim, ones, sums);
    gather(chunk, grad_scores, k, width, grad_q, ones);
  });
  for (int t = 0; t < count; t++)
    __builtin_memcpy(h.at(args.grad_q, first + t * args.dilation), grad_q + int64_t(t) * width,
                     sizeof(float) * args.head_dim);
}
