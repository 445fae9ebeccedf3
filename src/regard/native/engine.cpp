// The forward pass of a Transformer on a CPU, from packed weights: encoders, and decoders step by step.
//
// At each step a decoder reads all its weights once for a few rows, so the time depends on the memory
// layout of the weights and on the overhead. Here a whole step is one call: threads synchronize at
// barriers of their own instead of entering and leaving a kernel hundreds of times.
//
// Every output is summed in one fixed order, whatever the number of rows and threads: a sentence gets
// the same bits alone and in any batch.
//
// Matrices are stored in panels of 16 outputs: [panel][input][16]. With `bits` 8 weights are integers
// of 7 bits with a scale for each output, and inputs are integers of 8 bits with a scale and a zero
// point for each row. Their sums are exact. With `bits` 4 weights and inputs have scales for each group
// of 32 inputs.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "engine.h"
#include "kernels.h"
#include "status.h"
#include "threads.h"

using namespace regard;

struct Matrix {
  Packed packed;
  std::vector<float> weights, scale, bias;
  std::vector<int8_t> quantized;
  std::vector<int> total;
  std::vector<uint8_t> nibbles;
  std::vector<uint16_t> group_scale, group_minimum;
};

namespace {

// Compute a thread's share of the outputs for all rows.
void apply(const Matrix &matrix, const float *x, int64_t x_step, int rows, float *y, int64_t y_step, Team team,
           Finish how = {}) {
  thread_local std::vector<uint8_t> inputs;
  const Packed &m = matrix.packed;
  if (m.bits < 32) inputs.resize(size_t(CHUNK_ROWS) * quantized_row_size(m));
  kernels().apply(m, x, x_step, rows, y, y_step, team.from(m.panels), team.to(m.panels), how, inputs.data());
}

void normalize(const Norm &norm, const float *x, int dim, float *y) { kernels().normalize(norm, x, dim, y); }

void attend(const float *q, int size, KeyPointers keys, float scale, const float *bias, float *out,
            std::vector<float> &scores) {
  scores.resize(size_t(keys.count + SCORES_MULTIPLE - 1) / SCORES_MULTIPLE * SCORES_MULTIPLE);
  kernels().attend(q, size, keys, scale, bias, out, scores.data());
}

// ---------------------------------------------------------------- steps of a stack

struct Buffers {
  std::vector<float> x, input, projected, attended, hidden, gate;
  void prepare(const Stack &s, int tokens) {
    size_t n = tokens, heads = size_t(s.heads + 2 * s.kv_heads) * s.head_dim;
    x.resize(n * s.dim), input.resize(n * s.dim), projected.resize(n * heads);
    attended.resize(n * s.heads * s.head_dim), hidden.resize(n * s.ffn_dim);
    gate.resize(s.layer[0].gate ? n * s.ffn_dim : 0);
  }
};

void embed(const Stack &s, int id, int position, float *x) {
  const float *token = s.tokens + int64_t(id) * s.dim;
  const float *positional = s.positions ? s.positions + int64_t(position) * s.dim : nullptr;
  for (int i = 0; i < s.dim; i++) x[i] = token[i] * s.embedding_scale + (positional ? positional[i] : 0.0f);
  normalize(s.embedding_norm, x, s.dim, x);
}

void rotate(const Stack &s, float *x, int position) {
  const int half = s.head_dim / 2;
  const float *cosine = s.cosines + int64_t(position) * half, *sine = s.sines + int64_t(position) * half;
  for (int k = 0; k < half; k++) {
    int a = s.rotary == 1 ? 2 * k : k, b = s.rotary == 1 ? 2 * k + 1 : k + half;
    float first = x[a], second = x[b];
    x[a] = first * cosine[k] - second * sine[k];
    x[b] = first * sine[k] + second * cosine[k];
  }
}

// The residual connection of a sublayer: y = x + f(norm(x)), or norm(x + f(x)).
template <typename Sublayer>
void residual(const Stack &s, const Norm &norm, Buffers &b, int tokens, Team team, const Sublayer &f) {
  const int from = team.from(tokens), to = team.to(tokens);
  const float *input = b.x.data();
  if (s.norm_first) {
    for (int m = from; m < to; m++)
      normalize(norm, b.x.data() + size_t(m) * s.dim, s.dim, b.input.data() + size_t(m) * s.dim);
    input = b.input.data();
    team.sync();
  }
  f(input);  // adds to x
  team.sync();
  if (!s.norm_first) {
    for (int m = from; m < to; m++)
      normalize(norm, b.x.data() + size_t(m) * s.dim, s.dim, b.x.data() + size_t(m) * s.dim);
    team.sync();
  }
}

void feed_forward(const Stack &s, const Layer &layer, Buffers &b, int tokens, Team team) {
  residual(s, layer.feed_forward_norm, b, tokens, team, [&](const float *input) {
    Activation activation = Activation(s.activation);
    if (layer.gate) {
      apply(*layer.gate, input, s.dim, tokens, b.gate.data(), s.ffn_dim, team, {false, activation});
      apply(*layer.up_proj, input, s.dim, tokens, b.hidden.data(), s.ffn_dim, team);
      team.sync();
      for (int m = team.from(tokens); m < team.to(tokens); m++)
        kernels().multiply_elements(b.hidden.data() + size_t(m) * s.ffn_dim, b.gate.data() + size_t(m) * s.ffn_dim,
                                    s.ffn_dim);
    } else {
      apply(*layer.up_proj, input, s.dim, tokens, b.hidden.data(), s.ffn_dim, team, {false, activation});
    }
    team.sync();
    apply(*layer.down_proj, b.hidden.data(), s.ffn_dim, tokens, b.x.data(), s.dim, team, {true});
  });
}

// Sizes of an attention; the cache has the width of the attention with the most key heads.
struct Widths {
  int group, queries, values, total, cached;
};

inline Widths widths(const Stack &s, int heads, int kv_heads) {
  const int queries = heads * s.head_dim, values = kv_heads * s.head_dim;
  return {heads / kv_heads, queries, values, queries + 2 * values, s.kv_heads * s.head_dim};
}

// Queries, keys and values of the tokens, with rotary positions applied.
template <typename Position>
void project(const Stack &s, const Layer &layer, Buffers &b, const float *input, int tokens, Team team,
             const Position &position) {
  const Widths own = widths(s, layer.heads, layer.kv_heads);
  const int width = own.total, rotated_heads = layer.heads + layer.kv_heads;
  apply(*layer.project, input, s.dim, tokens, b.projected.data(), width, team);
  team.sync();
  if (!s.rotary) return;
  for (int m = team.from(tokens); m < team.to(tokens); m++)
    for (int h = 0; h < rotated_heads; h++)
      rotate(s, b.projected.data() + size_t(m) * width + size_t(h) * s.head_dim, position(m));
  team.sync();
}

// The bias of a head's scores of a query, by key from the first.
inline const float *bias_of(const Stack &s, const Layer &layer, int head, int query) {
  if (!layer.distance_bias) return nullptr;
  return layer.distance_bias + int64_t(head) * (2 * s.capacity - 1) + (s.capacity - 1 - query);
}

void encode(const Stack &s, const Encoding &e, Buffers &b, Team team) {
  thread_local std::vector<float> scores;
  std::vector<int> position(e.tokens), sentence(e.tokens);
  std::vector<const float *> projections(e.tokens);
  for (int n = 0; n < e.sentences; n++)
    for (int m = e.starts[n]; m < e.starts[n + 1]; m++) position[m] = m - e.starts[n], sentence[m] = n;
  for (int m = team.from(e.tokens); m < team.to(e.tokens); m++)
    embed(s, e.ids[m], position[m], b.x.data() + size_t(m) * s.dim);
  team.sync();
  for (int l = 0; l < s.layers; l++) {
    const Layer &layer = s.layer[l];
    const Widths own = widths(s, layer.heads, layer.kv_heads);
    for (int m = 0; m < e.tokens; m++) projections[m] = b.projected.data() + size_t(m) * own.total;
    residual(s, layer.attention_norm, b, e.tokens, team, [&](const float *input) {
      project(s, layer, b, input, e.tokens, team, [&](int m) { return position[m]; });
      const int work = e.tokens * layer.heads;
      for (int w = team.from(work); w < team.to(work); w++) {
        int m = w / layer.heads, h = w % layer.heads, start = e.starts[sentence[m]];
        KeyPointers keys{projections.data() + start, own.queries + (h / own.group) * s.head_dim, own.values,
                         e.starts[sentence[m] + 1] - start};
        attend(projections[m] + h * s.head_dim, s.head_dim, keys, s.score_scale, bias_of(s, layer, h, position[m]),
               b.attended.data() + (size_t(m) * layer.heads + h) * s.head_dim, scores);
      }
      team.sync();
      apply(*layer.merge, b.attended.data(), own.queries, e.tokens, b.x.data(), s.dim, team, {true});
    });
    feed_forward(s, layer, b, e.tokens, team);
  }
  for (int m = team.from(e.tokens); m < team.to(e.tokens); m++)
    normalize(s.final_norm, b.x.data() + size_t(m) * s.dim, s.dim, e.states + size_t(m) * s.dim);
}

void self_attend(const Stack &s, const Step &step, int l, const std::vector<const float *> &key_pointers, Buffers &b,
                 Team team) {
  thread_local std::vector<float> scores;
  const Layer &layer = s.layer[l];
  const int tokens = step.rows * step.count, length = step.past + step.count;
  const Widths own = widths(s, layer.heads, layer.kv_heads);
  residual(s, layer.attention_norm, b, tokens, team, [&](const float *input) {
    project(s, layer, b, input, tokens, team, [&](int m) { return step.past + m / step.rows; });
    for (int m = team.from(tokens); m < team.to(tokens); m++) {
      float *block = step.cache[step.past + m / step.rows];
      float *cached = block + (size_t(m % step.rows) * s.layers + l) * 2 * own.cached;
      const float *new_keys = b.projected.data() + size_t(m) * own.total + own.queries;
      std::memcpy(cached, new_keys, sizeof(float) * own.values);
      std::memcpy(cached + own.cached, new_keys + own.values, sizeof(float) * own.values);
    }
    team.sync();
    const int work = tokens * layer.heads;
    for (int w = team.from(work); w < team.to(work); w++) {
      int m = w / layer.heads, h = w % layer.heads, seen = step.past + m / step.rows + 1;
      KeyPointers keys{key_pointers.data() + size_t(m % step.rows) * length,
                       int64_t(l) * 2 * own.cached + (h / own.group) * s.head_dim, own.cached, seen};
      attend(b.projected.data() + size_t(m) * own.total + size_t(h) * s.head_dim, s.head_dim, keys, s.score_scale,
             bias_of(s, layer, h, seen - 1), b.attended.data() + (size_t(m) * layer.heads + h) * s.head_dim, scores);
    }
    team.sync();
    apply(*layer.merge, b.attended.data(), own.queries, tokens, b.x.data(), s.dim, team, {true});
  });
}

void cross_attend(const Stack &s, const Step &step, int l, const std::vector<const float *> &key_pointers, Buffers &b,
                  Team team) {
  thread_local std::vector<float> scores;
  const Layer &layer = s.layer[l];
  const int tokens = step.rows * step.count, heads = layer.cross_heads;
  const Widths own = widths(s, heads, layer.cross_kv_heads);
  residual(s, layer.cross_norm, b, tokens, team, [&](const float *input) {
    apply(*layer.cross_query, input, s.dim, tokens, b.projected.data(), own.queries, team);
    team.sync();
    const int work = tokens * heads;
    for (int w = team.from(work); w < team.to(work); w++) {
      int m = w / heads, h = w % heads, r = m % step.rows;
      KeyPointers keys{key_pointers.data() + step.source_start[r],
                       int64_t(l) * 2 * own.cached + (h / own.group) * s.head_dim, own.cached, step.source_count[r]};
      attend(b.projected.data() + size_t(m) * own.queries + size_t(h) * s.head_dim, s.head_dim, keys, s.score_scale,
             nullptr, b.attended.data() + (size_t(m) * heads + h) * s.head_dim, scores);
    }
    team.sync();
    apply(*layer.cross_merge, b.attended.data(), own.queries, tokens, b.x.data(), s.dim, team, {true});
  });
}

void advance(const Stack &s, const Step &step, const std::vector<const float *> &cache,
             const std::vector<const float *> &source, Buffers &b, Team team) {
  const int tokens = step.rows * step.count, first = (step.count - step.num_logits) * step.rows;
  for (int m = team.from(tokens); m < team.to(tokens); m++)
    embed(s, step.ids[m], step.past + m / step.rows, b.x.data() + size_t(m) * s.dim);
  team.sync();
  for (int l = 0; l < s.layers; l++) {
    self_attend(s, step, l, cache, b, team);
    if (step.source) cross_attend(s, step, l, source, b, team);
    feed_forward(s, s.layer[l], b, tokens, team);
  }
  if (!step.num_logits) return;
  for (int m = first + team.from(tokens - first); m < first + team.to(tokens - first); m++)
    normalize(s.final_norm, b.x.data() + size_t(m) * s.dim, s.dim, b.input.data() + size_t(m) * s.dim);
  team.sync();
  apply(*s.output, b.input.data() + size_t(first) * s.dim, s.dim, tokens - first, step.logits, s.vocabulary, team);
}

// Pointers to the cached keys of each row: in the block of each token, at the ancestor of the row.
std::vector<const float *> cached_keys(const Stack &s, const Step &step) {
  const int length = step.past + step.count;
  const size_t row = size_t(s.layers) * 2 * s.kv_heads * s.head_dim;
  std::vector<const float *> pointers(size_t(step.rows) * length);
  for (int r = 0; r < step.rows; r++)
    for (int j = 0; j < length; j++) {
      int ancestor = j < step.past ? step.ancestors[int64_t(r) * step.past + j] : r;
      pointers[size_t(r) * length + j] = step.cache[j] + ancestor * row;
    }
  return pointers;
}

std::vector<const float *> source_keys(const Stack &s, const Step &step) {
  int tokens = 0;
  if (step.source)
    for (int r = 0; r < step.rows; r++) tokens = std::max(tokens, step.source_start[r] + step.source_count[r]);
  std::vector<const float *> pointers(tokens);
  for (int j = 0; j < tokens; j++) pointers[j] = step.source + size_t(j) * s.layers * 2 * s.kv_heads * s.head_dim;
  return pointers;
}

void run_step(const Stack &s, const Step &step, Buffers &b, std::vector<int> *best, int threads) {
  b.prepare(s, step.rows * step.count);
  auto cache = cached_keys(s, step), source = source_keys(s, step);
  const int rows = step.num_logits * step.rows;
  pool().run(threads, [&](Team team) {
    advance(s, step, cache, source, b, team);
    team.sync();
    for (int r = team.from(rows); r < team.to(rows); r++) {
      const float *logits = step.logits + size_t(r) * s.vocabulary;
      if (!kernels().is_finite(logits, s.vocabulary)) throw NotFinite();
      if (best) (*best)[r] = kernels().highest(logits, s.vocabulary);
    }
  });
}

// Finished rows leave the batch; `ancestors` maps the others to their rows in each block.
void decode_greedily(const Stack &s, const Greedy &g, Buffers &b, int threads) {
  const size_t row = size_t(s.layers) * 2 * s.kv_heads * s.head_dim;
  Step step = g.step;
  std::vector<int> active, ids, ancestors, start, count, best(step.rows);
  std::vector<float *> cache(step.cache, step.cache + step.past);
  std::vector<std::unique_ptr<float[]>> blocks;
  std::unique_ptr<float[]> logits(new float[size_t(step.rows) * s.vocabulary]);
  for (int r = 0; r < step.rows; r++) {
    g.counts[r] = 0;
    if (g.limits[r] <= 0) continue;
    const int *own = step.ancestors + size_t(r) * step.past;
    active.push_back(r), ids.push_back(step.ids[r]), ancestors.insert(ancestors.end(), own, own + step.past);
    if (step.source) start.push_back(step.source_start[r]), count.push_back(step.source_count[r]);
  }
  for (int generated = 1; !active.empty(); generated++, step.past++) {
    step.rows = int(active.size()), step.count = step.num_logits = 1;
    blocks.emplace_back(new float[row * step.rows]);
    cache.push_back(blocks.back().get());
    step.ids = ids.data(), step.cache = cache.data(), step.ancestors = ancestors.data(), step.logits = logits.get();
    step.source_start = start.data(), step.source_count = count.data();
    run_step(s, step, b, &best, threads);
    int remaining = 0;
    std::vector<int> next_ancestors;
    for (int i = 0; i < step.rows; i++) {
      int r = active[i];
      if (best[i] == g.end) continue;
      g.tokens[size_t(r) * g.longest + g.counts[r]++] = best[i];
      if (generated >= g.limits[r]) continue;
      const int *own = ancestors.data() + size_t(i) * step.past;
      next_ancestors.insert(next_ancestors.end(), own, own + step.past);
      next_ancestors.push_back(i);
      if (step.source) start[remaining] = start[i], count[remaining] = count[i];
      ids[remaining] = best[i], active[remaining++] = r;
    }
    active.resize(remaining), ancestors.swap(next_ancestors);
  }
}

// Round the weights of each output to integers of 7 bits with a scale.
void quantize(const float *weights, Matrix &m) {
  const Packed &p = m.packed;
  m.scale.assign(size_t(p.panels) * PANEL, 0.0f);
  m.total.assign(size_t(p.panels) * PANEL, 0);
  m.quantized.assign(size_t(p.panels) * p.padded * PANEL, 0);
  for (int n = 0; n < p.outputs; n++) {
    const float *row = weights + size_t(n) * p.inputs;
    int8_t *panel = m.quantized.data() + size_t(n / PANEL) * p.padded * PANEL;
    float top = 0;
    for (int k = 0; k < p.inputs; k++) top = std::max(top, std::fabs(row[k]));
    m.scale[n] = top / MAX_QUANTIZED_WEIGHT;
    for (int k = 0; k < p.inputs && top > 0; k++) {
      int weight = int(std::nearbyintf(row[k] / top * MAX_QUANTIZED_WEIGHT));
      panel[index_in_panel(n % PANEL, k)] = int8_t(weight);
      m.total[n] += weight;
    }
  }
}

// The half-precision number nearest to a finite one, of which the magnitude must be below 65,520.
uint16_t half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 16 & 0x8000;
  const float magnitude = std::fabs(value);
  if (magnitude < 0x1p-14f) return uint16_t(sign | uint32_t(std::nearbyintf(magnitude * 0x1p24f)));
  const uint32_t shifted = (bits & 0x7fffffff) - (112u << 23);
  return uint16_t(sign | ((shifted + 0xfff + (shifted >> 13 & 1)) >> 13));
}

float single(uint16_t half) {
  const uint32_t bits = uint32_t(half & 0x7fff) << 13;
  return std::copysign(std::bit_cast<float>(bits) * 0x1p112f, half & 0x8000 ? -1.0f : 1.0f);
}

bool fit_half_precision(const float *weights, size_t count) {
  return std::all_of(weights, weights + count, [](float w) { return std::fabs(w) <= 65504.0f; });
}

struct GroupScale {
  uint16_t scale, minimum;
};

// The scale and minimum of a group of weights with the least squared error, of a few that cut the extremes off.
GroupScale group_scale(const float *w, int count) {
  const auto [least, most] = std::minmax_element(w, w + count);
  GroupScale best{0, half(*least)};
  float lowest = INFINITY;
  for (float width : {1.0f, 0.95f, 0.9f, 0.85f, 0.8f}) {
    const float cut = (*most - *least) * (1 - width) / 2;
    const GroupScale candidate{half((*most - *least) * width / MAX_FOUR_BITS), half(*least + cut)};
    const float scale = single(candidate.scale), minimum = single(candidate.minimum);
    float error = 0;
    for (int k = 0; k < count; k++) {
      const float q = scale > 0 ? std::clamp(std::nearbyintf((w[k] - minimum) / scale), 0.0f, float(MAX_FOUR_BITS)) : 0;
      error += (minimum + scale * q - w[k]) * (minimum + scale * q - w[k]);
    }
    if (error < lowest) lowest = error, best = candidate;
  }
  return best;
}

// Round the weights to integers of 4 bits with a scale and a minimum for each output and group of inputs.
void quantize_groups(const float *weights, Matrix &m) {
  const Packed &p = m.packed;
  const int groups = p.padded / GROUP;
  m.nibbles.assign(size_t(p.panels) * p.padded * PANEL / 2, 0);
  m.group_scale.assign(size_t(p.panels) * groups * PANEL, 0);
  m.group_minimum.assign(size_t(p.panels) * groups * PANEL, 0);
  for (int n = 0; n < p.outputs; n++) {
    uint8_t *panel = m.nibbles.data() + size_t(n / PANEL) * p.padded * PANEL / 2;
    for (int g = 0; g < groups; g++) {
      const int first = g * GROUP, count = std::min(GROUP, p.inputs - first);
      const float *w = weights + size_t(n) * p.inputs + first;
      const GroupScale own = group_scale(w, count);
      const size_t at = (size_t(n / PANEL) * groups + g) * PANEL + n % PANEL;
      m.group_scale[at] = own.scale, m.group_minimum[at] = own.minimum;
      const float scale = single(own.scale), minimum = single(own.minimum);
      for (int k = 0; k < count && scale > 0; k++) {
        const float q = std::clamp(std::nearbyintf((w[k] - minimum) / scale), 0.0f, float(MAX_FOUR_BITS));
        panel[nibble_in_panel(n % PANEL, first + k)] |= uint8_t(q) << ((first + k) / FOUR % 2 * 4);
      }
    }
  }
}

// Store numbers by panel, those of an input side by side.
void arrange(const float *weights, Matrix &m) {
  const Packed &p = m.packed;
  m.weights.assign(size_t(p.panels) * p.inputs * PANEL, 0.0f);
  for (int n = 0; n < p.outputs; n++)
    for (int k = 0; k < p.inputs; k++)
      m.weights[(size_t(n / PANEL) * p.inputs + k) * PANEL + n % PANEL] = weights[size_t(n) * p.inputs + k];
}

std::unique_ptr<Matrix> pack(const float *weights, const float *bias, int outputs, int inputs, int bits) {
  auto m = std::make_unique<Matrix>();
  Packed &p = m->packed;
  if (bits == 4 && !fit_half_precision(weights, size_t(outputs) * inputs)) bits = 8;
  const int multiple = bits == 4 ? GROUP : FOUR;
  p.outputs = outputs, p.inputs = inputs, p.panels = (outputs + PANEL - 1) / PANEL, p.bits = bits;
  p.padded = (inputs + multiple - 1) / multiple * multiple;
  m->bias.assign(size_t(p.panels) * PANEL, 0.0f);
  if (bias) std::copy(bias, bias + outputs, m->bias.begin());
  bits == 8 ? quantize(weights, *m) : bits == 4 ? quantize_groups(weights, *m) : arrange(weights, *m);
  p.weights = m->weights.data(), p.quantized = m->quantized.data(), p.scale = m->scale.data();
  p.total = m->total.data(), p.bias = m->bias.data(), p.nibbles = m->nibbles.data();
  p.group_scale = m->group_scale.data(), p.group_minimum = m->group_minimum.data();
  return m;
}

}  // namespace

// ---------------------------------------------------------------- interface

extern "C" {

int regard_interface() { return 4; }  // as INTERFACE of native/library.py

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
  return status_of([&] { run_step(*stack, *step, own, nullptr, threads); });
}

int regard_greedy(const Stack *stack, const Greedy *greedy, int threads) {
  thread_local Buffers buffers;
  Buffers &own = buffers;
  return status_of([&] { decode_greedily(*stack, *greedy, own, threads); });
}

}  // extern "C"
