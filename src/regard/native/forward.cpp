#include "forward.h"

#include <algorithm>
#include <cstring>

#include "matrix.h"
#include "status.h"

namespace regard {

void normalize(const Norm &norm, const float *x, int dim, float *y) { kernels().normalize(norm, x, dim, y); }

void attend(const float *q, int size, KeyPointers keys, float scale, const float *bias, float *out,
            std::vector<float> &scores) {
  scores.resize(size_t(keys.count + SCORES_MULTIPLE - 1) / SCORES_MULTIPLE * SCORES_MULTIPLE);
  kernels().attend(q, size, keys, scale, bias, out, scores.data());
}

namespace {

void embed(const Stack &s, int id, int position, float *x) {
  const Packed *tied = s.tokens ? nullptr : &s.token_matrix->packed;
  const float *token = tied ? tied->weights + int64_t(id / PANEL) * s.dim * PANEL + id % PANEL
                            : s.tokens + int64_t(id) * s.dim;
  const int step = tied ? PANEL : 1;
  const float *positional = s.positions ? s.positions + int64_t(position) * s.dim : nullptr;
  for (int i = 0; i < s.dim; i++) x[i] = token[i * step] * s.embedding_scale + (positional ? positional[i] : 0.0f);
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

}  // namespace

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

namespace {

// The new tokens of a step and what they attend to.
struct Tokens {
  int count;
  std::vector<int> row, position;              // of each token
  std::vector<float *const *> keys;            // of each token: those of its row, from the first
  std::vector<const float *> source;           // of each token of the sources, row by row
  std::vector<int> source_start;               // of each row

  explicit Tokens(const Stack &s, const Step &step) : count(step.starts[step.rows]) {
    row.reserve(count), position.reserve(count), keys.reserve(count);
    float *const *own = step.cache;
    for (int r = 0; r < step.rows; r++) {
      const int added = step.starts[r + 1] - step.starts[r];
      for (int t = 0; t < added; t++) row.push_back(r), position.push_back(step.past[r] + t), keys.push_back(own);
      own += step.past[r] + added;
    }
    if (!step.source) return;
    for (int r = 0; r < step.rows; r++) {
      source_start.push_back(int(source.size()));
      for (int j = 0; j < step.source_count[r]; j++) source.push_back(step.source[r] + size_t(j) * cache_row(s));
    }
  }
};

void self_attend(const Stack &s, const Step &step, const Tokens &tokens, int l, Buffers &b, Team team) {
  thread_local std::vector<float> scores;
  const Layer &layer = s.layer[l];
  const Widths own = widths(s, layer.heads, layer.kv_heads);
  residual(s, layer.attention_norm, b, tokens.count, team, [&](const float *input) {
    project(s, layer, b, input, tokens.count, team, [&](int m) { return tokens.position[m]; });
    for (int m = team.from(tokens.count); m < team.to(tokens.count); m++) {
      float *cached = tokens.keys[m][tokens.position[m]] + size_t(l) * 2 * own.cached;
      const float *new_keys = b.projected.data() + size_t(m) * own.total + own.queries;
      std::memcpy(cached, new_keys, sizeof(float) * own.values);
      std::memcpy(cached + own.cached, new_keys + own.values, sizeof(float) * own.values);
    }
    team.sync();
    const int work = tokens.count * layer.heads;
    for (int w = team.from(work); w < team.to(work); w++) {
      int m = w / layer.heads, h = w % layer.heads, position = tokens.position[m];
      KeyPointers keys{tokens.keys[m], int64_t(l) * 2 * own.cached + (h / own.group) * s.head_dim, own.cached,
                       position + 1};
      attend(b.projected.data() + size_t(m) * own.total + size_t(h) * s.head_dim, s.head_dim, keys, s.score_scale,
             bias_of(s, layer, h, position), b.attended.data() + (size_t(m) * layer.heads + h) * s.head_dim, scores);
    }
    team.sync();
    apply(*layer.merge, b.attended.data(), own.queries, tokens.count, b.x.data(), s.dim, team, {true});
  });
}

void cross_attend(const Stack &s, const Step &step, const Tokens &tokens, int l, Buffers &b, Team team) {
  thread_local std::vector<float> scores;
  const Layer &layer = s.layer[l];
  const int heads = layer.cross_heads;
  const Widths own = widths(s, heads, layer.cross_kv_heads);
  residual(s, layer.cross_norm, b, tokens.count, team, [&](const float *input) {
    apply(*layer.cross_query, input, s.dim, tokens.count, b.projected.data(), own.queries, team);
    team.sync();
    const int work = tokens.count * heads;
    for (int w = team.from(work); w < team.to(work); w++) {
      int m = w / heads, h = w % heads, r = tokens.row[m];
      KeyPointers keys{tokens.source.data() + tokens.source_start[r],
                       int64_t(l) * 2 * own.cached + (h / own.group) * s.head_dim, own.cached, step.source_count[r]};
      attend(b.projected.data() + size_t(m) * own.queries + size_t(h) * s.head_dim, s.head_dim, keys, s.score_scale,
             nullptr, b.attended.data() + (size_t(m) * heads + h) * s.head_dim, scores);
    }
    team.sync();
    apply(*layer.cross_merge, b.attended.data(), own.queries, tokens.count, b.x.data(), s.dim, team, {true});
  });
}

// Compute the inputs of the output layer, (num_outputs, dim), into b.input.
void advance(const Stack &s, const Step &step, const Tokens &tokens, Buffers &b, Team team) {
  for (int m = team.from(tokens.count); m < team.to(tokens.count); m++)
    embed(s, step.ids[m], tokens.position[m], b.x.data() + size_t(m) * s.dim);
  team.sync();
  for (int l = 0; l < s.layers; l++) {
    self_attend(s, step, tokens, l, b, team);
    if (step.source) cross_attend(s, step, tokens, l, b, team);
    feed_forward(s, s.layer[l], b, tokens.count, team);
  }
  for (int n = team.from(step.num_outputs); n < team.to(step.num_outputs); n++)
    normalize(s.final_norm, b.x.data() + size_t(step.outputs[n]) * s.dim, s.dim, b.input.data() + size_t(n) * s.dim);
  team.sync();
}

void check_finite(const Stack &s, const float *logits) {
  if (!kernels().is_finite(logits, s.vocabulary)) throw NotFinite();
}

// Append the tokens of a step, and let each thread do its work with the inputs of the output layer.
template <typename Work>
void run(const Stack &s, const Step &step, Buffers &b, int threads, const Work &work) {
  const Tokens tokens(s, step);
  b.prepare(s, tokens.count);
  pool().run(threads, [&](Team team) {
    advance(s, step, tokens, b, team);
    work(b.input.data(), team);
  });
}

// Rows of which a thread computes the logits and uses them while they are in the second-level cache.
constexpr int ROWS_AT_ONCE = 24;

}  // namespace

void run_step(const Stack &s, const Step &step, Buffers &b, int threads) {
  const int rows = step.num_outputs;
  run(s, step, b, threads, [&](const float *states, Team team) {
    apply(*s.output, states, s.dim, rows, step.logits, s.vocabulary, team);
    team.sync();
    for (int r = team.from(rows); r < team.to(rows); r++) check_finite(s, step.logits + size_t(r) * s.vocabulary);
  });
}

void visit_step(const Stack &s, const Step &step, Buffers &b, int threads, const Visit &visit) {
  const int rows = step.num_outputs;
  const bool has_many = rows >= threads * ROWS_AT_ONCE;
  b.logits.resize(size_t(has_many ? threads * ROWS_AT_ONCE : rows) * s.vocabulary);
  run(s, step, b, threads, [&](const float *states, Team team) {
    float *logits = b.logits.data();
    if (!has_many) {
      apply(*s.output, states, s.dim, rows, logits, s.vocabulary, team);
      team.sync();
      for (int r = team.from(rows); r < team.to(rows); r++) visit(r, logits + size_t(r) * s.vocabulary);
      return;
    }
    logits += size_t(team.rank) * ROWS_AT_ONCE * s.vocabulary;
    const Team alone{0, 1, nullptr};
    for (int first = team.from(rows); first < team.to(rows); first += ROWS_AT_ONCE) {
      const int count = std::min(ROWS_AT_ONCE, team.to(rows) - first);
      apply(*s.output, states + size_t(first) * s.dim, s.dim, count, logits, s.vocabulary, alone);
      for (int r = 0; r < count; r++) visit(first + r, logits + size_t(r) * s.vocabulary);
    }
  });
}

}  // namespace regard
