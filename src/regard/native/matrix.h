// Packed matrices: linear maps whose weights are numbers, or integers of 8 or 4 bits.
//
// Matrices are stored in panels of 16 outputs: [panel][input][16]. With `bits` 8 weights are integers
// of 7 bits with a scale for each output, and inputs are integers of 8 bits with a scale and a zero
// point for each row. Their sums are exact. With `bits` 4 weights and inputs have scales for each group
// of 32 inputs.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "aligned.h"
#include "kernels.h"
#include "threads.h"

struct Matrix {
  regard::Packed packed;
  regard::Aligned<float> weights, scale, bias;
  regard::Aligned<int8_t> quantized;
  regard::Aligned<int> total;
  regard::Aligned<uint8_t> nibbles;
  regard::Aligned<uint16_t> group_scale, group_minimum;
};

namespace regard {

// Compute a thread's share of the outputs for all rows.
void apply(const Matrix &matrix, const float *x, int64_t x_step, int rows, float *y, int64_t y_step, Team team,
           Finish how = {});

std::unique_ptr<Matrix> pack(const float *weights, const float *bias, int outputs, int inputs, int bits);

}  // namespace regard
