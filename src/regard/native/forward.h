// The forward pass of a Transformer: encoders, and decoders step by step.

#pragma once

#include <functional>
#include <vector>

#include "aligned.h"
#include "engine.h"
#include "kernels.h"
#include "threads.h"

namespace regard {

struct Buffers {
  Aligned<float> x, input, projected, attended, hidden, gate, logits;
  void prepare(const Stack &s, int tokens) {
    size_t n = tokens, heads = size_t(s.heads + 2 * s.kv_heads) * s.head_dim;
    x.resize(n * s.dim), input.resize(n * s.dim), projected.resize(n * heads);
    attended.resize(n * s.heads * s.head_dim), hidden.resize(n * s.ffn_dim);
    gate.resize(s.layer[0].gate ? n * s.ffn_dim : 0);
  }
};

void normalize(const Norm &norm, const float *x, int dim, float *y);

// softmax(scale · q·k + bias) v
void attend(const float *q, int size, KeyPointers keys, float scale, const float *bias, float *out,
            std::vector<float> &scores);

void encode(const Stack &s, const Encoding &e, Buffers &b, Team team);

// Called with each row of logits, by any thread of the step.
using Visit = std::function<void(int row, const float *logits)>;

// Append the tokens of a step and write their logits. Throws NotFinite if one is not finite.
void run_step(const Stack &s, const Step &step, Buffers &b, int threads);

// The same, but the logits are only visited, and not checked.
void visit_step(const Stack &s, const Step &step, Buffers &b, int threads, const Visit &visit);

// Numbers in the cache for one token of a row.
inline size_t cache_row(const Stack &s) { return size_t(s.layers) * 2 * s.kv_heads * s.head_dim; }

}  // namespace regard
