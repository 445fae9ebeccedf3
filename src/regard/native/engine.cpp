// The forward pass of a Transformer for decoding on a CPU, from packed weights.
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
// point for each row. Their sums are exact.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "engine.h"
#include "status.h"
#include "threads.h"
#include "vectors.h"

using namespace regard;

constexpr int FOUR = 4;  // quantized inputs at a time

struct Matrix {
  int outputs, inputs, panels, bits;
  std::vector<float> weights;        // [panel][input][16]
  std::vector<int8_t> quantized;     // [panel][four inputs][16][4], inputs padded with zeros
  std::vector<float> scale, total;   // of each output, if quantized: total is the sum of its weights
  std::vector<float> bias;
  int padded() const { return (inputs + FOUR - 1) / FOUR * FOUR; }
};

namespace {

// ---------------------------------------------------------------- y = W x + b

constexpr int PANEL = 16;   // outputs in a panel
constexpr int DEPTH = 256;  // inputs at a time: so many of a panel fit the first-level cache
constexpr int CHUNK = 96;   // rows at a time

constexpr int MAX_QUANTIZED_INPUT = 255;  // inputs are from 0
constexpr int MAX_QUANTIZED_WEIGHT = 63;  // weights are of both signs

inline int index_in_panel(int output, int input) {
  return input / FOUR * FOUR * PANEL + output * FOUR + input % FOUR;
}

template <int ROWS, int PANELS>
inline void multiply(const float *w, int64_t panel_step, int depth, const float *x, int64_t x_step,
                     float *sums, bool fresh) {
  f8 acc[ROWS][2 * PANELS];
  for (int r = 0; r < ROWS; r++)
    for (int p = 0; p < 2 * PANELS; p++)
      acc[r][p] = fresh ? all(0.0f) : load(sums + r * PANELS * PANEL + p * 8);
  for (int i = 0; i < depth; i++) {
    f8 b[2 * PANELS];
#pragma GCC unroll 8
    for (int p = 0; p < 2 * PANELS; p++) b[p] = load(w + (p / 2) * panel_step + i * PANEL + (p % 2) * 8);
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++) {
      f8 a = all(x[r * x_step + i]);
#pragma GCC unroll 8
      for (int p = 0; p < 2 * PANELS; p++) acc[r][p] += a * b[p];
    }
  }
  for (int r = 0; r < ROWS; r++)
    for (int p = 0; p < 2 * PANELS; p++) store(sums + r * PANELS * PANEL + p * 8, acc[r][p]);
}

enum Activation { NONE, RELU, GELU, GELU_TANH, SILU, SIGMOID };

inline f8 activate(Activation how, f8 x) {
  const f8 zero = all(0.0f), one = all(1.0f);
  switch (how) {
    case NONE: return x;
    case RELU: return x < zero ? zero : x;  // NaN stays NaN
    case SIGMOID: return one / (one + exp8(-x));
    case SILU: return x / (one + exp8(-x));
    case GELU_TANH: {
      f8 u = all(0.7978845608f) * (x + all(0.044715f) * x * x * x);
      return x * (one - one / (one + exp8(u + u)));
    }
    case GELU:
      for (int i = 0; i < 8; i++) x[i] = 0.5f * x[i] * (1.0f + std::erf(x[i] * 0.70710678f));
      return x;
  }
  return x;
}

struct Finish {  // the operations after a product
  bool add = false;  // add to y instead of overwriting it
  Activation activation = NONE;
};

// Write the sums of `panels` panels (rows × panels·16, consecutive) to the outputs y.
inline void finish(const Matrix &m, int panel, int panels, int rows, const float *sums, float *y,
                   int64_t y_step, Finish how) {
  int first = panel * PANEL, width = std::min(panels * PANEL, m.outputs - first);
  for (int r = 0; r < rows; r++) {
    const float *from = sums + int64_t(r) * panels * PANEL;
    float *to = y + r * y_step + first;
    int c = 0;
    for (; c + 8 <= width; c += 8) {
      f8 v = activate(how.activation, load(from + c) + load(m.bias.data() + first + c));
      store(to + c, how.add ? load(to + c) + v : v);
    }
    for (; c < width; c++) {
      f8 v = activate(how.activation, all(from[c] + m.bias[first + c]));
      to[c] = how.add ? to[c] + v[0] : v[0];
    }
  }
}

template <int ROWS, int PANELS>
void few_rows(const Matrix &m, const float *x, int64_t x_step, float *y, int64_t y_step, int from,
              int to, Finish how) {
  float sums[ROWS * PANELS * PANEL];
  const int64_t step = int64_t(m.inputs) * PANEL;
  int p = from;
  for (; p + PANELS <= to; p += PANELS) {
    multiply<ROWS, PANELS>(m.weights.data() + p * step, step, m.inputs, x, x_step, sums, true);
    finish(m, p, PANELS, ROWS, sums, y, y_step, how);
  }
  for (; p < to; p++) {
    multiply<ROWS, 1>(m.weights.data() + p * step, step, m.inputs, x, x_step, sums, true);
    finish(m, p, 1, ROWS, sums, y, y_step, how);
  }
}

void many_rows(const Matrix &m, const float *x, int64_t x_step, int rows, float *y, int64_t y_step,
               int from, int to, Finish how) {
  float sums[CHUNK * PANEL];
  const int64_t step = int64_t(m.inputs) * PANEL;
  for (int start = 0; start < rows; start += CHUNK) {
    int count = std::min(CHUNK, rows - start), groups = (count + 5) / 6;
    for (int p = from; p < to; p++) {
      for (int k = 0; k < m.inputs; k += DEPTH) {
        int depth = std::min(DEPTH, m.inputs - k);
        const float *w = m.weights.data() + p * step + int64_t(k) * PANEL;
        for (int g = 0; g < groups; g++) {
          int r = count * g / groups, size = count * (g + 1) / groups - r;
          const float *rows_in = x + (start + r) * x_step + k;
          float *into = sums + r * PANEL;
          switch (size) {
            case 1: multiply<1, 1>(w, step, depth, rows_in, x_step, into, k == 0); break;
            case 2: multiply<2, 1>(w, step, depth, rows_in, x_step, into, k == 0); break;
            case 3: multiply<3, 1>(w, step, depth, rows_in, x_step, into, k == 0); break;
            case 4: multiply<4, 1>(w, step, depth, rows_in, x_step, into, k == 0); break;
            case 5: multiply<5, 1>(w, step, depth, rows_in, x_step, into, k == 0); break;
            default: multiply<6, 1>(w, step, depth, rows_in, x_step, into, k == 0); break;
          }
        }
      }
      finish(m, p, 1, count, sums, y + start * y_step, y_step, how);
    }
  }
}

// ---------------------------------------------------------------- y = W x + b with quantized weights

// A row of inputs is quantized to 0 … MAX_QUANTIZED_INPUT: x ≈ low + step · quantized.
struct Range {
  float low, step;
};

// A row with a number that is not finite gets a range of NaN, and its outputs are NaN.
Range quantize(const float *x, int inputs, int padded, uint8_t *to) {
  f8 least = all(INFINITY), most = all(-INFINITY), zeros = all(0.0f);
  int i = 0;
  for (; i + 8 <= inputs; i += 8) {
    f8 v = load(x + i);
    least = v < least ? v : least, most = v > most ? v : most, zeros += v * 0.0f;
  }
  float low = INFINITY, high = -INFINITY, zero = sum(zeros);
  for (int j = 0; j < 8; j++) low = std::min(low, least[j]), high = std::max(high, most[j]);
  for (; i < inputs; i++) low = std::min(low, x[i]), high = std::max(high, x[i]), zero += x[i] * 0.0f;
  if (zero != 0 || !std::isfinite(high - low)) {
    std::memset(to, 0, padded);
    return {NAN, NAN};
  }
  float scale = high > low ? MAX_QUANTIZED_INPUT / (high - low) : 0;
  for (i = 0; i < inputs; i++) to[i] = uint8_t(int((x[i] - low) * scale + 0.5f));
  for (; i < padded; i++) to[i] = 0;
  return {low, (high - low) / MAX_QUANTIZED_INPUT};
}

// Two products of 8 by 7 bits fit 16 bits, so that 32 of them take three instructions.
template <int ROWS>
inline void multiply_quantized(const int8_t *w, int padded, const uint8_t *x, int64_t x_step, int32_t *sums) {
#if defined(__AVX2__)
  const __m256i *weights = reinterpret_cast<const __m256i *>(w), ones = _mm256_set1_epi16(1);
  __m256i acc[ROWS][2];
  for (int r = 0; r < ROWS; r++)
    for (int p = 0; p < 2; p++) acc[r][p] = _mm256_setzero_si256();
  for (int i = 0; i < padded; i += FOUR, weights += 2) {
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++) {
      int four;
      std::memcpy(&four, x + r * x_step + i, FOUR);
      const __m256i inputs = _mm256_set1_epi32(four);
#pragma GCC unroll 2
      for (int p = 0; p < 2; p++) {
        __m256i pairs = _mm256_maddubs_epi16(inputs, _mm256_loadu_si256(weights + p));
        acc[r][p] = _mm256_add_epi32(acc[r][p], _mm256_madd_epi16(pairs, ones));
      }
    }
  }
  for (int r = 0; r < ROWS; r++)
    for (int p = 0; p < 2; p++)
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(sums + r * PANEL + p * 8), acc[r][p]);
#else
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < PANEL; c++) {
      int32_t acc = 0;
      for (int i = 0; i < padded; i++) acc += w[index_in_panel(c, i)] * x[r * x_step + i];
      sums[r * PANEL + c] = acc;
    }
#endif
}

// Σ w x ≈ scale · (step · Σ quantized weights · quantized inputs + low · Σ quantized weights)
void rescale(const Matrix &m, int panel, int rows, const int32_t *sums, const Range *ranges, float *y,
             int64_t y_step, Finish how) {
  float products[CHUNK * PANEL];
  const float *scale = m.scale.data() + panel * PANEL, *total = m.total.data() + panel * PANEL;
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < PANEL; c++)
      products[r * PANEL + c] = scale[c] * (float(sums[r * PANEL + c]) * ranges[r].step + ranges[r].low * total[c]);
  finish(m, panel, 1, rows, products, y, y_step, how);
}

void quantized_rows(const Matrix &m, const float *x, int64_t x_step, int rows, float *y, int64_t y_step,
                int from, int to, Finish how) {
  thread_local std::vector<uint8_t> input;
  const int padded = m.padded();
  int32_t sums[CHUNK * PANEL];
  Range ranges[CHUNK];
  input.resize(size_t(CHUNK) * padded);
  for (int start = 0; start < rows; start += CHUNK) {
    int count = std::min(CHUNK, rows - start), groups = (count + 5) / 6;
    for (int r = 0; r < count; r++)
      ranges[r] = quantize(x + (start + r) * x_step, m.inputs, padded, input.data() + size_t(r) * padded);
    for (int p = from; p < to; p++) {
      const int8_t *w = m.quantized.data() + size_t(p) * padded * PANEL;
      for (int g = 0; g < groups; g++) {
        int r = count * g / groups, size = count * (g + 1) / groups - r;
        const uint8_t *in = input.data() + size_t(r) * padded;
        int32_t *into = sums + r * PANEL;
        switch (size) {
          case 1: multiply_quantized<1>(w, padded, in, padded, into); break;
          case 2: multiply_quantized<2>(w, padded, in, padded, into); break;
          case 3: multiply_quantized<3>(w, padded, in, padded, into); break;
          case 4: multiply_quantized<4>(w, padded, in, padded, into); break;
          case 5: multiply_quantized<5>(w, padded, in, padded, into); break;
          default: multiply_quantized<6>(w, padded, in, padded, into); break;
        }
      }
      rescale(m, p, count, sums, ranges, y + start * y_step, y_step, how);
    }
  }
}

// Compute a thread's share of the outputs for all rows.
void apply(const Matrix &m, const float *x, int64_t x_step, int rows, float *y, int64_t y_step,
           Team team, Finish how = {}) {
  int from = team.from(m.panels), to = team.to(m.panels);
  if (m.bits == 8) return quantized_rows(m, x, x_step, rows, y, y_step, from, to, how);
  switch (rows) {
    case 1: return few_rows<1, 4>(m, x, x_step, y, y_step, from, to, how);
    case 2: return few_rows<2, 2>(m, x, x_step, y, y_step, from, to, how);
    case 3: return few_rows<3, 2>(m, x, x_step, y, y_step, from, to, how);
    default: return many_rows(m, x, x_step, rows, y, y_step, from, to, how);
  }
}

// ---------------------------------------------------------------- parts of a block

void normalize(const Norm &norm, const float *x, int dim, float *y) {
  if (norm.kind == 0) {
    if (x != y) std::memcpy(y, x, sizeof(float) * dim);
    return;
  }
  const int whole = dim / 8 * 8;
  float mean = 0;
  if (norm.kind == 1) {
    f8 sums = all(0.0f);
    for (int i = 0; i < whole; i += 8) sums += load(x + i);
    mean = sum(sums);
    for (int i = whole; i < dim; i++) mean += x[i];
    mean /= dim;
  }
  f8 squares = all(0.0f);
  for (int i = 0; i < whole; i += 8) {
    f8 centered = load(x + i) - all(mean);
    squares += centered * centered;
  }
  float square = sum(squares);
  for (int i = whole; i < dim; i++) square += (x[i] - mean) * (x[i] - mean);
  float inverse_std = 1.0f / std::sqrt(square / dim + norm.eps);
  for (int i = 0; i < whole; i += 8) {
    f8 v = (load(x + i) - all(mean)) * all(inverse_std);
    if (norm.gain) v *= load(norm.gain + i);
    store(y + i, norm.bias ? v + load(norm.bias + i) : v);
  }
  for (int i = whole; i < dim; i++) {
    float v = (x[i] - mean) * inverse_std;
    if (norm.gain) v *= norm.gain[i];
    y[i] = norm.bias ? v + norm.bias[i] : v;
  }
}

inline float dot(const float *a, const float *b, int size) {
  f8 acc = all(0.0f);
  int i = 0;
  for (; i + 8 <= size; i += 8) acc += load(a + i) * load(b + i);
  float total = sum(acc);
  for (; i < size; i++) total += a[i] * b[i];
  return total;
}

// Pointers to the keys of a query, which are scattered in memory; the value of a key is `to_values` after it.
struct KeyPointers {
  const float *const *pointers;
  int64_t offset, to_values;
  int count;
};

// Σ_j scores[j] · value_j for 8 · BLOCKS components, which stay in registers over all keys.
template <int BLOCKS>
inline void gather(const float *scores, KeyPointers keys, int from, float scale, float *out) {
  f8 acc[BLOCKS];
#pragma GCC unroll 8
  for (int b = 0; b < BLOCKS; b++) acc[b] = all(0.0f);
  for (int j = 0; j < keys.count; j++) {
    const float *value = keys.pointers[j] + keys.offset + keys.to_values + from;
    f8 share = all(scores[j]);
#pragma GCC unroll 8
    for (int b = 0; b < BLOCKS; b++) acc[b] += share * load(value + 8 * b);
  }
#pragma GCC unroll 8
  for (int b = 0; b < BLOCKS; b++) store(out + from + 8 * b, acc[b] * all(scale));
}

// softmax(scale · q·k + bias) v
void attend(const float *q, int size, KeyPointers keys, float scale, const float *bias, float *out,
            std::vector<float> &scores) {
  if (keys.count == 0) {  // nothing to attend to: zeros
    std::memset(out, 0, sizeof(float) * size);
    return;
  }
  scores.resize(size_t(keys.count + 7) / 8 * 8);
  float top = -INFINITY;
  for (int j = 0; j < keys.count; j++) {
    float score = dot(q, keys.pointers[j] + keys.offset, size) * scale + (bias ? bias[j] : 0.0f);
    scores[j] = score;
    top = std::max(top, score);
  }
  for (size_t j = keys.count; j < scores.size(); j++) scores[j] = -INFINITY;
  f8 total8 = all(0.0f);
  for (size_t j = 0; j < scores.size(); j += 8) {
    f8 weights = exp8(load(scores.data() + j) - all(top));
    store(scores.data() + j, weights);
  }
  for (size_t j = keys.count; j < scores.size(); j++) scores[j] = 0.0f;
  for (size_t j = 0; j < scores.size(); j += 8) total8 += load(scores.data() + j);
  float inverse_sum = 1.0f / sum(total8);
  int i = 0;
  for (; i + 64 <= size; i += 64) gather<8>(scores.data(), keys, i, inverse_sum, out);
  for (; i + 32 <= size; i += 32) gather<4>(scores.data(), keys, i, inverse_sum, out);
  for (; i + 8 <= size; i += 8) gather<1>(scores.data(), keys, i, inverse_sum, out);
  for (; i < size; i++) {
    float acc = 0;
    for (int j = 0; j < keys.count; j++) acc += scores[j] * keys.pointers[j][keys.offset + keys.to_values + i];
    out[i] = acc * inverse_sum;
  }
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
        for (int i = 0; i < s.ffn_dim; i++) b.hidden[size_t(m) * s.ffn_dim + i] *= b.gate[size_t(m) * s.ffn_dim + i];
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

// log Σ exp of a row, and its highest numbers in descending order, the earlier of equal numbers first.
void rank(const float *x, int size, int count, float *log_sum, float *values, int *indices) {
  const int whole = size / 8 * 8;
  int filled = 0;
  auto consider = [&](int index) {
    if (filled == count && !(x[index] > values[count - 1])) return;
    int at = filled < count ? filled++ : count - 1;
    for (; at > 0 && x[index] > values[at - 1]; at--) values[at] = values[at - 1], indices[at] = indices[at - 1];
    values[at] = x[index], indices[at] = index;
  };
  for (int i = 0; i < whole; i += 8) {
    if (filled == count) {
      i8 higher = load(x + i) > all(values[count - 1]);
      if (!any(higher)) continue;
    }
    for (int j = i; j < i + 8; j++) consider(j);
  }
  for (int i = whole; i < size; i++) consider(i);
  const float top = values[0];
  f8 total8 = all(0.0f);
  for (int i = 0; i < whole; i += 8) total8 += exp8(load(x + i) - all(top));
  float total = sum(total8);
  for (int i = whole; i < size; i++) total += exp8(all(x[i] - top))[0];
  *log_sum = top + std::log(total);
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

bool is_finite(const float *x, int size) {
  const int whole = size / 8 * 8;
  f8 zeros = all(0.0f);
  for (int i = 0; i < whole; i += 8) zeros += load(x + i) * 0.0f;  // NaN if x is NaN or infinite
  float zero = sum(zeros);
  for (int i = whole; i < size; i++) zero += x[i] * 0.0f;
  return zero == 0;
}

// The index of the highest number, the first of equal ones.
int highest(const float *x, int size) {
  const int whole = size / 8 * 8;
  f8 highest8 = all(-INFINITY);
  for (int i = 0; i < whole; i += 8) {
    f8 v = load(x + i);
    highest8 = v > highest8 ? v : highest8;
  }
  float top = -INFINITY;
  for (int j = 0; j < 8; j++) top = std::max(top, highest8[j]);
  for (int i = whole; i < size; i++) top = std::max(top, x[i]);
  return int(std::find(x, x + size, top) - x);
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
      if (!is_finite(logits, s.vocabulary)) throw NotFinite();
      if (best) (*best)[r] = highest(logits, s.vocabulary);
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

std::unique_ptr<Matrix> pack(const float *weights, const float *bias, int outputs, int inputs, int bits) {
  std::unique_ptr<Matrix> m(new Matrix{outputs, inputs, (outputs + PANEL - 1) / PANEL, bits, {}, {}, {}, {}, {}});
  m->bias.assign(size_t(m->panels) * PANEL, 0.0f);
  if (bias) std::copy(bias, bias + outputs, m->bias.begin());
  if (bits != 8) {
    m->weights.assign(size_t(m->panels) * inputs * PANEL, 0.0f);
    for (int n = 0; n < outputs; n++)
      for (int k = 0; k < inputs; k++)
        m->weights[(size_t(n / PANEL) * inputs + k) * PANEL + n % PANEL] = weights[size_t(n) * inputs + k];
    return m;
  }
  m->scale.assign(size_t(m->panels) * PANEL, 0.0f);
  m->total.assign(size_t(m->panels) * PANEL, 0.0f);
  m->quantized.assign(size_t(m->panels) * m->padded() * PANEL, 0);
  for (int n = 0; n < outputs; n++) {
    const float *row = weights + size_t(n) * inputs;
    int8_t *panel = m->quantized.data() + size_t(n / PANEL) * m->padded() * PANEL;
    float top = 0;
    for (int k = 0; k < inputs; k++) top = std::max(top, std::fabs(row[k]));
    m->scale[n] = top / MAX_QUANTIZED_WEIGHT;
    int total = 0;
    for (int k = 0; k < inputs && top > 0; k++) {
      int weight = int(std::nearbyintf(row[k] / top * MAX_QUANTIZED_WEIGHT));
      panel[index_in_panel(n % PANEL, k)] = int8_t(weight);
      total += weight;
    }
    m->total[n] = float(total);
  }
  return m;
}

}  // namespace

// ---------------------------------------------------------------- interface

extern "C" {

int regard_interface() { return 2; }  // as INTERFACE of native/library.py

const char *regard_error_message() { return error_message; }

int regard_matrix(const float *weights, const float *bias, int outputs, int inputs, int bits, Matrix **matrix) {
  return status_of([&] { *matrix = pack(weights, bias, outputs, inputs, bits).release(); });
}

void regard_free_matrix(Matrix *matrix) { delete matrix; }

int regard_apply(const Matrix *matrix, const float *x, int rows, float *y, int threads) {
  return status_of([&] {
    pool().run(threads, [&](Team team) { apply(*matrix, x, matrix->inputs, rows, y, matrix->outputs, team); });
  });
}

// For each row of x (rows, size): log Σ exp, and the `count` ≤ size highest numbers with their indices.
int regard_rank(const float *x, int rows, int size, int count, float *log_sums, float *values, int *indices,
                int threads) {
  return status_of([&] {
    pool().run(threads, [&](Team team) {
      for (int r = team.from(rows); r < team.to(rows); r++)
        rank(x + size_t(r) * size, size, count, log_sums + r, values + size_t(r) * count, indices + size_t(r) * count);
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
