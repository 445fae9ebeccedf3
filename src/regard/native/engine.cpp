// The Transformer's forward pass for decoding on a CPU, from packed weights.
//
// At each step a decoder reads all its weights once for a handful of rows, so what matters is how
// the weights lie in memory and how little happens besides. Here a whole step is one call: threads
// meet at barriers of their own instead of entering and leaving a kernel hundreds of times.
//
// Every output number is summed in one fixed order, whatever the number of rows and threads: a
// sentence gets the same bits alone and in any batch.
//
// Matrices are stored in panels of 16 outputs, inputs running fastest but one: [panel][input][16].
// With `bits` 8 weights are whole numbers of 7 bits with a scale for each output, and inputs are whole
// numbers of 8 bits with a scale and a zero for each row. Their sums are exact.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "threads.h"
#include "vectors.h"

using namespace regard;

namespace {

// ---------------------------------------------------------------- y = W x + b

constexpr int PANEL = 16;   // outputs in a panel
constexpr int DEPTH = 256;  // inputs at a time: a panel's worth stays in the first cache
constexpr int CHUNK = 96;   // rows at a time

constexpr int FOUR = 4;     // whole inputs at a time
constexpr int MOST = 255;   // a whole input, at most; a whole weight is within ±MOST_WEIGHT
constexpr int MOST_WEIGHT = 63;

struct Matrix {
  int outputs, inputs, panels, bits;
  std::vector<float> weights;        // [panel][input][16]
  std::vector<int8_t> whole;         // [panel][four inputs][16][4], inputs padded with zeros
  std::vector<float> scale, total;   // of each output, where weights are whole numbers: their sum is total
  std::vector<float> bias;
  int padded() const { return (inputs + FOUR - 1) / FOUR * FOUR; }
};

inline int place_in_panel(int output, int input) {
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
    case RELU: return x > zero ? x : zero;
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

struct Finish {  // what happens to a product on its way out
  bool add = false;  // to what is there already
  Activation activation = NONE;
};

// Sums of `panels` panels (rows × panels·16, consecutive) become outputs.
inline void finish(const Matrix &m, int panel, int panels, int rows, const float *sums, float *y,
                   int64_t y_step, Finish how) {
  int first = panel * PANEL, width = std::min(panels * PANEL, m.outputs - first);
  for (int r = 0; r < rows; r++) {
    const float *from = sums + int64_t(r) * panels * PANEL;
    float *to = y + r * y_step + first;
    int c = 0;
    for (; c + 8 <= width; c += 8) {
      f8 v = activate(how.activation, load(from + c) + load(&m.bias[first + c]));
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
    multiply<ROWS, PANELS>(&m.weights[p * step], step, m.inputs, x, x_step, sums, true);
    finish(m, p, PANELS, ROWS, sums, y, y_step, how);
  }
  for (; p < to; p++) {
    multiply<ROWS, 1>(&m.weights[p * step], step, m.inputs, x, x_step, sums, true);
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
        const float *w = &m.weights[p * step + int64_t(k) * PANEL];
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

// ---------------------------------------------------------------- the same in whole numbers

// A row of inputs becomes whole numbers from 0 to MOST: x ≈ low + step · whole.
struct Range {
  float low, step;
};

Range to_whole(const float *x, int inputs, int padded, uint8_t *to) {
  f8 least = all(x[0]), most = least;
  int i = 0;
  for (; i + 8 <= inputs; i += 8) {
    f8 v = load(x + i);
    least = v < least ? v : least, most = v > most ? v : most;
  }
  float low = x[0], high = x[0];
  for (int j = 0; j < 8; j++) low = std::min(low, least[j]), high = std::max(high, most[j]);
  for (; i < inputs; i++) low = std::min(low, x[i]), high = std::max(high, x[i]);
  float up = high > low ? MOST / (high - low) : 0;
  for (i = 0; i < inputs; i++) to[i] = uint8_t(int((x[i] - low) * up + 0.5f));
  for (; i < padded; i++) to[i] = 0;
  return {low, (high - low) / MOST};
}

// Two products of 8 bits by 7 fit 16 bits, so that 32 of them take three instructions.
template <int ROWS>
inline void multiply_whole(const int8_t *w, int padded, const uint8_t *x, int64_t x_step, int32_t *sums) {
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
      for (int i = 0; i < padded; i++) acc += w[place_in_panel(c, i)] * x[r * x_step + i];
      sums[r * PANEL + c] = acc;
    }
#endif
}

// Σ w x ≈ scale · (step · Σ whole weights · whole inputs + low · Σ whole weights)
void rescale(const Matrix &m, int panel, int rows, const int32_t *sums, const Range *ranges, float *y,
             int64_t y_step, Finish how) {
  float products[CHUNK * PANEL];
  const float *scale = &m.scale[panel * PANEL], *total = &m.total[panel * PANEL];
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < PANEL; c++)
      products[r * PANEL + c] = scale[c] * (float(sums[r * PANEL + c]) * ranges[r].step + ranges[r].low * total[c]);
  finish(m, panel, 1, rows, products, y, y_step, how);
}

void whole_rows(const Matrix &m, const float *x, int64_t x_step, int rows, float *y, int64_t y_step,
                int from, int to, Finish how) {
  thread_local std::vector<uint8_t> input;
  const int padded = m.padded();
  int32_t sums[CHUNK * PANEL];
  Range ranges[CHUNK];
  input.resize(size_t(CHUNK) * padded);
  for (int start = 0; start < rows; start += CHUNK) {
    int count = std::min(CHUNK, rows - start), groups = (count + 5) / 6;
    for (int r = 0; r < count; r++)
      ranges[r] = to_whole(x + (start + r) * x_step, m.inputs, padded, &input[size_t(r) * padded]);
    for (int p = from; p < to; p++) {
      const int8_t *w = &m.whole[size_t(p) * padded * PANEL];
      for (int g = 0; g < groups; g++) {
        int r = count * g / groups, size = count * (g + 1) / groups - r;
        const uint8_t *in = &input[size_t(r) * padded];
        int32_t *into = sums + r * PANEL;
        switch (size) {
          case 1: multiply_whole<1>(w, padded, in, padded, into); break;
          case 2: multiply_whole<2>(w, padded, in, padded, into); break;
          case 3: multiply_whole<3>(w, padded, in, padded, into); break;
          case 4: multiply_whole<4>(w, padded, in, padded, into); break;
          case 5: multiply_whole<5>(w, padded, in, padded, into); break;
          default: multiply_whole<6>(w, padded, in, padded, into); break;
        }
      }
      rescale(m, p, count, sums, ranges, y + start * y_step, y_step, how);
    }
  }
}

// A thread's share of the outputs for all rows.
void apply(const Matrix &m, const float *x, int64_t x_step, int rows, float *y, int64_t y_step,
           Team team, Finish how = {}) {
  int from = team.from(m.panels), to = team.to(m.panels);
  if (m.bits == 8) return whole_rows(m, x, x_step, rows, y, y_step, from, to, how);
  switch (rows) {
    case 1: return few_rows<1, 4>(m, x, x_step, y, y_step, from, to, how);
    case 2: return few_rows<2, 2>(m, x, x_step, y, y_step, from, to, how);
    case 3: return few_rows<3, 2>(m, x, x_step, y, y_step, from, to, how);
    default: return many_rows(m, x, x_step, rows, y, y_step, from, to, how);
  }
}

// ---------------------------------------------------------------- parts of a block

struct Norm {
  const float *gain, *bias;  // may be absent
  float eps;
  int kind;  // 0 none, 1 layer, 2 root mean square
};

void normalise(const Norm &norm, const float *x, int dim, float *y) {
  if (norm.kind == 0) {
    if (x != y) std::memcpy(y, x, sizeof(float) * dim);
    return;
  }
  const int whole = dim / 8 * 8;
  float mean = 0;
  if (norm.kind == 1) {
    f8 added = all(0.0f);
    for (int i = 0; i < whole; i += 8) added += load(x + i);
    mean = sum(added);
    for (int i = whole; i < dim; i++) mean += x[i];
    mean /= dim;
  }
  f8 squares = all(0.0f);
  for (int i = 0; i < whole; i += 8) {
    f8 away = load(x + i) - all(mean);
    squares += away * away;
  }
  float square = sum(squares);
  for (int i = whole; i < dim; i++) square += (x[i] - mean) * (x[i] - mean);
  float up = 1.0f / std::sqrt(square / dim + norm.eps);
  for (int i = 0; i < whole; i += 8) {
    f8 v = (load(x + i) - all(mean)) * all(up);
    if (norm.gain) v *= load(norm.gain + i);
    store(y + i, norm.bias ? v + load(norm.bias + i) : v);
  }
  for (int i = whole; i < dim; i++) {
    float v = (x[i] - mean) * up;
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

// softmax(scale · q·k + bias) v, over keys that each lie somewhere; values at a distance from them.
struct Places {
  const float *const *keys;
  int64_t offset, to_values;
  int count;
};

// Σ_j scores[j] · value_j for 8 · BLOCKS components, which stay in registers over all places.
template <int BLOCKS>
inline void gather(const float *scores, Places at, int from, float down, float *out) {
  f8 acc[BLOCKS];
#pragma GCC unroll 8
  for (int b = 0; b < BLOCKS; b++) acc[b] = all(0.0f);
  for (int j = 0; j < at.count; j++) {
    const float *value = at.keys[j] + at.offset + at.to_values + from;
    f8 share = all(scores[j]);
#pragma GCC unroll 8
    for (int b = 0; b < BLOCKS; b++) acc[b] += share * load(value + 8 * b);
  }
#pragma GCC unroll 8
  for (int b = 0; b < BLOCKS; b++) store(out + from + 8 * b, acc[b] * all(down));
}

void attend(const float *q, int size, Places at, float scale, const float *bias, float *out,
            std::vector<float> &scores) {
  scores.resize(size_t(at.count + 7) / 8 * 8);
  float top = -INFINITY;
  for (int j = 0; j < at.count; j++) {
    float score = dot(q, at.keys[j] + at.offset, size) * scale + (bias ? bias[j] : 0.0f);
    scores[j] = score;
    top = std::max(top, score);
  }
  for (size_t j = at.count; j < scores.size(); j++) scores[j] = -INFINITY;
  f8 total8 = all(0.0f);
  for (size_t j = 0; j < scores.size(); j += 8) {
    f8 raised = exp8(load(&scores[j]) - all(top));
    store(&scores[j], raised);
  }
  for (size_t j = at.count; j < scores.size(); j++) scores[j] = 0.0f;
  for (size_t j = 0; j < scores.size(); j += 8) total8 += load(&scores[j]);
  float down = 1.0f / sum(total8);
  int i = 0;
  for (; i + 64 <= size; i += 64) gather<8>(scores.data(), at, i, down, out);
  for (; i + 32 <= size; i += 32) gather<4>(scores.data(), at, i, down, out);
  for (; i + 8 <= size; i += 8) gather<1>(scores.data(), at, i, down, out);
  for (; i < size; i++) {
    float acc = 0;
    for (int j = 0; j < at.count; j++) acc += scores[j] * at.keys[j][at.offset + at.to_values + i];
    out[i] = acc * down;
  }
}

}  // namespace

// ---------------------------------------------------------------- what Python fills in

extern "C" {

struct Layer {
  Norm attention_norm, cross_norm, feed_forward_norm;
  Matrix *project, *merge;              // queries, keys and values in one; W_O
  Matrix *cross_ask, *cross_merge;      // absent without a source
  Matrix *gate, *up_proj, *down_proj;        // gate may be absent
  const float *distance_bias;           // (heads, 2·capacity − 1) by key − query, may be absent
  int heads, cross_heads;               // of this layer: heads may have been removed
};

struct Stack {
  int dim, heads, kv_heads, head_dim, ffn_dim, layers, capacity, vocabulary;  // heads: of the widest layer
  int norm_first, activation, rotary;   // rotary: 0 none, 1 adjacent pairs, 2 halves
  float embedding_scale, score_scale;
  const float *tokens;                  // (vocabulary, dim)
  const float *positions;               // (capacity, dim), may be absent
  const float *cosines, *sines;         // (capacity, head_dim / 2), where rotary
  Norm embedding_norm, final_norm;
  const Layer *layer;
  const Matrix *output;
};

struct Encoding {
  int sentences, tokens;
  const int *ids, *starts;              // (tokens), (sentences + 1)
  float *states;                        // (tokens, dim)
};

// New ids for each row, all rows of one length; token t of row r is number t · rows + r.
struct Step {
  int rows, count, past;                // past: how many have been said before
  const int *ids;
  float *const *said;                   // (past + count) blocks: (its rows, layers, 2, kv_heads·head_dim)
  const int *ancestors;                 // (rows, past): each row's own row in each block
  const float *source;                  // (source tokens, layers, 2, kv_heads·head_dim), may be absent
  const int *source_start, *source_count;  // of each row
  int wanted;                           // logits of the last `wanted` tokens of each row
  float *logits;                        // (wanted · rows, vocabulary)
};

// The likeliest word of each row, again and again, until it ends or has said limits[row] words.
struct Greedy {
  Step step;                            // before the first word; its logits and count are not used
  const int *limits;
  int end, longest;                     // longest: the highest limit
  int *words, *counts;                  // (rows, longest), (rows): what each row says
};

}  // extern "C"

namespace {

struct Buffers {
  std::vector<float> x, entered, projected, found, hidden, gate;
  void prepare(const Stack &s, int tokens) {
    size_t n = tokens, heads = size_t(s.heads + 2 * s.kv_heads) * s.head_dim;
    x.resize(n * s.dim), entered.resize(n * s.dim), projected.resize(n * heads);
    found.resize(n * s.heads * s.head_dim), hidden.resize(n * s.ffn_dim);
    gate.resize(s.layer[0].gate ? n * s.ffn_dim : 0);
  }
};

void embed(const Stack &s, int id, int position, float *x) {
  const float *token = s.tokens + int64_t(id) * s.dim;
  const float *place = s.positions ? s.positions + int64_t(position) * s.dim : nullptr;
  for (int i = 0; i < s.dim; i++) x[i] = token[i] * s.embedding_scale + (place ? place[i] : 0.0f);
  normalise(s.embedding_norm, x, s.dim, x);
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

// y = x + f(norm(x)), or norm(x + f(x)): what every sublayer has around it.
template <typename Sublayer>
void around(const Stack &s, const Norm &norm, Buffers &b, int tokens, Team team, const Sublayer &f) {
  const int from = team.from(tokens), to = team.to(tokens);
  const float *entered = b.x.data();
  if (s.norm_first) {
    for (int m = from; m < to; m++) normalise(norm, &b.x[size_t(m) * s.dim], s.dim, &b.entered[size_t(m) * s.dim]);
    entered = b.entered.data();
    team.meet();
  }
  f(entered);  // adds to x
  team.meet();
  if (!s.norm_first) {
    for (int m = from; m < to; m++) normalise(norm, &b.x[size_t(m) * s.dim], s.dim, &b.x[size_t(m) * s.dim]);
    team.meet();
  }
}

void feed_forward(const Stack &s, const Layer &layer, Buffers &b, int tokens, Team team) {
  around(s, layer.feed_forward_norm, b, tokens, team, [&](const float *entered) {
    Activation activation = Activation(s.activation);
    if (layer.gate) {
      apply(*layer.gate, entered, s.dim, tokens, b.gate.data(), s.ffn_dim, team, {false, activation});
      apply(*layer.up_proj, entered, s.dim, tokens, b.hidden.data(), s.ffn_dim, team);
      team.meet();
      for (int m = team.from(tokens); m < team.to(tokens); m++)
        for (int i = 0; i < s.ffn_dim; i++) b.hidden[size_t(m) * s.ffn_dim + i] *= b.gate[size_t(m) * s.ffn_dim + i];
    } else {
      apply(*layer.up_proj, entered, s.dim, tokens, b.hidden.data(), s.ffn_dim, team, {false, activation});
    }
    team.meet();
    apply(*layer.down_proj, b.hidden.data(), s.ffn_dim, tokens, b.x.data(), s.dim, team, {true});
  });
}

// What a layer with so many heads computes; what is kept has the room of the widest layer.
struct Shares {
  int group, keys, values, width, kept;
};

inline Shares shares(const Stack &s, int heads) {
  const int group = s.heads / s.kv_heads, values = heads / group * s.head_dim;
  return {group, heads * s.head_dim, values, heads * s.head_dim + 2 * values, s.kv_heads * s.head_dim};
}

// Queries, keys and values of the entered tokens, turned where positions turn them.
template <typename Position>
void project(const Stack &s, const Layer &layer, Buffers &b, const float *entered, int tokens, Team team,
             const Position &position) {
  const Shares own = shares(s, layer.heads);
  const int width = own.width, turning = layer.heads + own.values / s.head_dim;
  apply(*layer.project, entered, s.dim, tokens, b.projected.data(), width, team);
  team.meet();
  if (!s.rotary) return;
  for (int m = team.from(tokens); m < team.to(tokens); m++)
    for (int h = 0; h < turning; h++)
      rotate(s, &b.projected[size_t(m) * width + size_t(h) * s.head_dim], position(m));
  team.meet();
}

// By which a head's scores of a query differ from one key to the next, the first key first.
inline const float *bias_of(const Stack &s, const Layer &layer, int head, int query) {
  if (!layer.distance_bias) return nullptr;
  return layer.distance_bias + int64_t(head) * (2 * s.capacity - 1) + (s.capacity - 1 - query);
}

void encode(const Stack &s, const Encoding &e, Buffers &b, Team team) {
  thread_local std::vector<float> scores;
  std::vector<int> position(e.tokens), sentence(e.tokens);
  std::vector<const float *> place(e.tokens);
  for (int n = 0; n < e.sentences; n++)
    for (int m = e.starts[n]; m < e.starts[n + 1]; m++) position[m] = m - e.starts[n], sentence[m] = n;
  for (int m = team.from(e.tokens); m < team.to(e.tokens); m++)
    embed(s, e.ids[m], position[m], &b.x[size_t(m) * s.dim]);
  team.meet();
  for (int l = 0; l < s.layers; l++) {
    const Layer &layer = s.layer[l];
    const Shares own = shares(s, layer.heads);
    for (int m = 0; m < e.tokens; m++) place[m] = &b.projected[size_t(m) * own.width];
    around(s, layer.attention_norm, b, e.tokens, team, [&](const float *entered) {
      project(s, layer, b, entered, e.tokens, team, [&](int m) { return position[m]; });
      const int work = e.tokens * layer.heads;
      for (int w = team.from(work); w < team.to(work); w++) {
        int m = w / layer.heads, h = w % layer.heads, start = e.starts[sentence[m]];
        Places at{&place[start], own.keys + (h / own.group) * s.head_dim, own.values, e.starts[sentence[m] + 1] - start};
        attend(place[m] + h * s.head_dim, s.head_dim, at, s.score_scale, bias_of(s, layer, h, position[m]),
               &b.found[(size_t(m) * layer.heads + h) * s.head_dim], scores);
      }
      team.meet();
      apply(*layer.merge, b.found.data(), own.keys, e.tokens, b.x.data(), s.dim, team, {true});
    });
    feed_forward(s, layer, b, e.tokens, team);
  }
  for (int m = team.from(e.tokens); m < team.to(e.tokens); m++)
    normalise(s.final_norm, &b.x[size_t(m) * s.dim], s.dim, e.states + size_t(m) * s.dim);
}

void look_back(const Stack &s, const Step &step, int l, const std::vector<const float *> &places, Buffers &b,
               Team team) {
  thread_local std::vector<float> scores;
  const Layer &layer = s.layer[l];
  const int tokens = step.rows * step.count, all_said = step.past + step.count;
  const Shares own = shares(s, layer.heads);
  around(s, layer.attention_norm, b, tokens, team, [&](const float *entered) {
    project(s, layer, b, entered, tokens, team, [&](int m) { return step.past + m / step.rows; });
    for (int m = team.from(tokens); m < team.to(tokens); m++) {
      float *block = step.said[step.past + m / step.rows];
      float *kept = block + (size_t(m % step.rows) * s.layers + l) * 2 * own.kept;
      const float *new_keys = &b.projected[size_t(m) * own.width + own.keys];
      std::memcpy(kept, new_keys, sizeof(float) * own.values);
      std::memcpy(kept + own.kept, new_keys + own.values, sizeof(float) * own.values);
    }
    team.meet();
    const int work = tokens * layer.heads;
    for (int w = team.from(work); w < team.to(work); w++) {
      int m = w / layer.heads, h = w % layer.heads, seen = step.past + m / step.rows + 1;
      Places at{&places[size_t(m % step.rows) * all_said], int64_t(l) * 2 * own.kept + (h / own.group) * s.head_dim,
                own.kept, seen};
      attend(&b.projected[size_t(m) * own.width + size_t(h) * s.head_dim], s.head_dim, at, s.score_scale,
             bias_of(s, layer, h, seen - 1), &b.found[(size_t(m) * layer.heads + h) * s.head_dim], scores);
    }
    team.meet();
    apply(*layer.merge, b.found.data(), own.keys, tokens, b.x.data(), s.dim, team, {true});
  });
}

void look_across(const Stack &s, const Step &step, int l, const std::vector<const float *> &places, Buffers &b,
                 Team team) {
  thread_local std::vector<float> scores;
  const Layer &layer = s.layer[l];
  const int tokens = step.rows * step.count, heads = layer.cross_heads;
  const Shares own = shares(s, heads);
  around(s, layer.cross_norm, b, tokens, team, [&](const float *entered) {
    apply(*layer.cross_ask, entered, s.dim, tokens, b.projected.data(), own.keys, team);
    team.meet();
    const int work = tokens * heads;
    for (int w = team.from(work); w < team.to(work); w++) {
      int m = w / heads, h = w % heads, r = m % step.rows;
      Places at{&places[step.source_start[r]], int64_t(l) * 2 * own.kept + (h / own.group) * s.head_dim, own.kept,
                step.source_count[r]};
      attend(&b.projected[size_t(m) * own.keys + size_t(h) * s.head_dim], s.head_dim, at, s.score_scale, nullptr,
             &b.found[(size_t(m) * heads + h) * s.head_dim], scores);
    }
    team.meet();
    apply(*layer.cross_merge, b.found.data(), own.keys, tokens, b.x.data(), s.dim, team, {true});
  });
}

void advance(const Stack &s, const Step &step, const std::vector<const float *> &said,
             const std::vector<const float *> &source, Buffers &b, Team team) {
  const int tokens = step.rows * step.count, first_wanted = (step.count - step.wanted) * step.rows;
  for (int m = team.from(tokens); m < team.to(tokens); m++)
    embed(s, step.ids[m], step.past + m / step.rows, &b.x[size_t(m) * s.dim]);
  team.meet();
  for (int l = 0; l < s.layers; l++) {
    look_back(s, step, l, said, b, team);
    if (step.source) look_across(s, step, l, source, b, team);
    feed_forward(s, s.layer[l], b, tokens, team);
  }
  if (!step.wanted) return;
  for (int m = first_wanted + team.from(tokens - first_wanted); m < first_wanted + team.to(tokens - first_wanted); m++)
    normalise(s.final_norm, &b.x[size_t(m) * s.dim], s.dim, &b.entered[size_t(m) * s.dim]);
  team.meet();
  apply(*s.output, &b.entered[size_t(first_wanted) * s.dim], s.dim, tokens - first_wanted, step.logits, s.vocabulary, team);
}

// log Σ exp of a row, and its highest numbers in order, the earlier of equals first.
void rank(const float *x, int size, int count, float *log_sum, float *values, int *places) {
  const int whole = size / 8 * 8;
  int found = 0;
  auto offer = [&](int place) {
    if (found == count && !(x[place] > values[count - 1])) return;
    int at = found < count ? found++ : count - 1;
    for (; at > 0 && x[place] > values[at - 1]; at--) values[at] = values[at - 1], places[at] = places[at - 1];
    values[at] = x[place], places[at] = place;
  };
  for (int i = 0; i < whole; i += 8) {
    if (found == count) {
      i8 higher = load(x + i) > all(values[count - 1]);
      if (!any(higher)) continue;
    }
    for (int j = i; j < i + 8; j++) offer(j);
  }
  for (int i = whole; i < size; i++) offer(i);
  const float top = values[0];
  f8 total8 = all(0.0f);
  for (int i = 0; i < whole; i += 8) total8 += exp8(load(x + i) - all(top));
  float total = sum(total8);
  for (int i = whole; i < size; i++) total += exp8(all(x[i] - top))[0];
  *log_sum = top + std::log(total);
}

// Where each row's keys of each word lie: in the block of that word, at the row it was said by.
std::vector<const float *> places_said(const Stack &s, const Step &step) {
  const int all_said = step.past + step.count;
  const size_t row = size_t(s.layers) * 2 * s.kv_heads * s.head_dim;
  std::vector<const float *> places(size_t(step.rows) * all_said);
  for (int r = 0; r < step.rows; r++)
    for (int j = 0; j < all_said; j++) {
      int at = j < step.past ? step.ancestors[int64_t(r) * step.past + j] : r;
      places[size_t(r) * all_said + j] = step.said[j] + at * row;
    }
  return places;
}

std::vector<const float *> places_of_source(const Stack &s, const Step &step) {
  int tokens = 0;
  if (step.source)
    for (int r = 0; r < step.rows; r++) tokens = std::max(tokens, step.source_start[r] + step.source_count[r]);
  std::vector<const float *> places(tokens);
  for (int j = 0; j < tokens; j++) places[j] = step.source + size_t(j) * s.layers * 2 * s.kv_heads * s.head_dim;
  return places;
}

int highest(const float *x, int size) {
  const int whole = size / 8 * 8;
  f8 most = all(-INFINITY);
  for (int i = 0; i < whole; i += 8) {
    f8 v = load(x + i);
    most = v > most ? v : most;
  }
  float top = -INFINITY;
  for (int j = 0; j < 8; j++) top = std::max(top, most[j]);
  for (int i = whole; i < size; i++) top = std::max(top, x[i]);
  const float *at = std::find(x, x + size, top);  // the earlier of equals
  return at < x + size ? int(at - x) : 0;         // where nothing is a number, any word will do
}

void take(const Stack &s, const Step &step, Buffers &b, std::vector<int> *best, int threads) {
  b.prepare(s, step.rows * step.count);
  auto said = places_said(s, step), source = places_of_source(s, step);
  pool().run(threads, [&](Team team) {
    advance(s, step, said, source, b, team);
    if (!best) return;
    team.meet();
    for (int r = team.from(step.rows); r < team.to(step.rows); r++)
      (*best)[r] = highest(step.logits + size_t(r) * s.vocabulary, s.vocabulary);
  });
}

// Rows that have ended leave the batch; the others know which row of each block they descend from.
void say_likeliest(const Stack &s, const Greedy &g, Buffers &b, int threads) {
  const size_t row = size_t(s.layers) * 2 * s.kv_heads * s.head_dim;
  Step step = g.step;
  std::vector<int> speaking(step.rows), ids(step.ids, step.ids + step.rows), best(step.rows);
  std::vector<int> ancestors(step.ancestors, step.ancestors + size_t(step.rows) * step.past), start, count;
  std::vector<float *> said(step.said, step.said + step.past);
  std::vector<std::unique_ptr<float[]>> blocks;
  std::unique_ptr<float[]> logits(new float[size_t(step.rows) * s.vocabulary]);
  for (int r = 0; r < step.rows; r++) speaking[r] = r, g.counts[r] = 0;
  if (step.source) start.assign(step.source_start, step.source_start + step.rows);
  if (step.source) count.assign(step.source_count, step.source_count + step.rows);
  for (int said_now = 1; !speaking.empty(); said_now++, step.past++) {
    step.rows = int(speaking.size()), step.count = step.wanted = 1;
    blocks.emplace_back(new float[row * step.rows]);
    said.push_back(blocks.back().get());
    step.ids = ids.data(), step.said = said.data(), step.ancestors = ancestors.data(), step.logits = logits.get();
    step.source_start = start.data(), step.source_count = count.data();
    take(s, step, b, &best, threads);
    int kept = 0;
    std::vector<int> longer;
    for (int i = 0; i < step.rows; i++) {
      int r = speaking[i];
      if (best[i] == g.end) continue;
      g.words[size_t(r) * g.longest + g.counts[r]++] = best[i];
      if (said_now >= g.limits[r]) continue;
      longer.insert(longer.end(), &ancestors[size_t(i) * step.past], &ancestors[size_t(i) * step.past] + step.past);
      longer.push_back(i);
      if (step.source) start[kept] = start[i], count[kept] = count[i];
      ids[kept] = best[i], speaking[kept++] = r;
    }
    speaking.resize(kept), ancestors.swap(longer);
  }
}

}  // namespace

// ---------------------------------------------------------------- the door

extern "C" {

int regard_supported() {
#if defined(__x86_64__) && defined(__AVX2__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return 1;
#endif
}

Matrix *regard_matrix(const float *weights, const float *bias, int outputs, int inputs, int bits) {
  Matrix *m = new Matrix{outputs, inputs, (outputs + PANEL - 1) / PANEL, bits, {}, {}, {}, {}, {}};
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
  m->whole.assign(size_t(m->panels) * m->padded() * PANEL, 0);
  for (int n = 0; n < outputs; n++) {
    const float *row = weights + size_t(n) * inputs;
    int8_t *panel = &m->whole[size_t(n / PANEL) * m->padded() * PANEL];
    float top = 0;
    for (int k = 0; k < inputs; k++) top = std::max(top, std::fabs(row[k]));
    m->scale[n] = top / MOST_WEIGHT;
    int total = 0;
    for (int k = 0; k < inputs && top > 0; k++) {
      int weight = int(std::nearbyintf(row[k] * MOST_WEIGHT / top));
      panel[place_in_panel(n % PANEL, k)] = int8_t(weight);
      total += weight;
    }
    m->total[n] = float(total);
  }
  return m;
}

void regard_forget(Matrix *matrix) { delete matrix; }

void regard_apply(const Matrix *matrix, const float *x, int rows, float *y, int threads) {
  pool().run(threads, [&](Team team) { apply(*matrix, x, matrix->inputs, rows, y, matrix->outputs, team); });
}

// Of each row (rows, size): log Σ exp, and its `count` ≤ size highest numbers and their places.
void regard_rank(const float *x, int rows, int size, int count, float *log_sums, float *values, int *places,
                 int threads) {
  pool().run(threads, [&](Team team) {
    for (int r = team.from(rows); r < team.to(rows); r++)
      rank(x + size_t(r) * size, size, count, log_sums + r, values + size_t(r) * count, places + size_t(r) * count);
  });
}

void regard_encode(const Stack *stack, const Encoding *encoding, int threads) {
  thread_local Buffers buffers;
  Buffers &mine = buffers;
  mine.prepare(*stack, encoding->tokens);
  pool().run(threads, [&](Team team) { encode(*stack, *encoding, mine, team); });
}

void regard_step(const Stack *stack, const Step *step, int threads) {
  thread_local Buffers buffers;
  take(*stack, *step, buffers, nullptr, threads);
}

void regard_greedy(const Stack *stack, const Greedy *greedy, int threads) {
  thread_local Buffers buffers;
  say_likeliest(*stack, *greedy, buffers, threads);
}

}  // extern "C"
