#include "matrix.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace regard {
namespace {

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

}  // namespace

void apply(const Matrix &matrix, const float *x, int64_t x_step, int rows, float *y, int64_t y_step, Team team,
           Finish how) {
  thread_local Aligned<uint8_t> inputs;
  const Packed &m = matrix.packed;
  if (m.bits < 32) inputs.resize(size_t(CHUNK_ROWS) * quantized_row_size(m));
  kernels().apply(m, x, x_step, rows, y, y_step, team.from(m.panels), team.to(m.panels), how, inputs.data());
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

}  // namespace regard
