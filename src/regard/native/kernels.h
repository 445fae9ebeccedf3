// Kernels: the functions that are compiled once for each instruction set.
//
// kernels/NAME.cpp defines the vectors of an instruction set and includes the code that all share
// (kernels/*.h). dispatch.cpp chooses one table when the library is first used. Weights are packed in
// the same way for all of them.
//
// The code of an instruction set is in a namespace of its own and uses nothing that the linker could
// merge with another file's: an inline function of the standard library, compiled for AVX-512, must
// not become the one that an older processor calls.

#pragma once

#include <cstddef>
#include <cstdint>

#include "engine.h"
#include "sparse.h"

namespace regard {

constexpr int PANEL = 16;        // outputs of a matrix in a panel
constexpr int FOUR = 4;          // quantized inputs at a time
constexpr int GROUP = 32;        // inputs whose weights of 4 bits share a scale
constexpr int CHUNK_ROWS = 96;   // rows of a product at a time

constexpr int MAX_QUANTIZED_INPUT = 255;  // inputs are from 0
constexpr int MAX_QUANTIZED_WEIGHT = 63;  // weights are of both signs: two products fit 16 bits
constexpr int MAX_FOUR_BITS = 15;         // weights of 4 bits are from 0
constexpr int MAX_GROUPED_INPUT = 127;    // inputs of both signs, of weights of 4 bits

enum Activation { NONE, RELU, GELU, GELU_TANH, SILU, SIGMOID };

struct Finish {  // the operations after a product
  bool add = false;  // add to y instead of overwriting it
  Activation activation = NONE;
};

// A linear map y = W x + b. With `bits` 32 the weights are numbers.
//
// With 8 they are integers with a scale for each output, and the inputs of a row are integers with a
// scale and a zero point. With 4, each group of 32 inputs has its own scales: weights are
// minimum + scale · (0 … 15), the inputs of a row scale · (−127 … 127).
struct Packed {
  int outputs, inputs, panels, bits;
  int padded;                // inputs, rounded up to FOUR or to GROUP
  const float *weights;      // [panel][input][16]
  const int8_t *quantized;   // [panel][four inputs][16][4], inputs padded with zeros
  const float *scale;        // of each output, with 8 bits
  const int *total;          // Σ weights of each output, with 8 bits
  const uint8_t *nibbles;    // [panel][eight inputs][16][4], with 4 bits: the first four inputs in the low ones
  const uint16_t *group_scale, *group_minimum;  // [panel][group][16], in half precision
  const float *bias;
};

inline int index_in_panel(int output, int input) {
  return input / FOUR * FOUR * PANEL + output * FOUR + input % FOUR;
}

inline int nibble_in_panel(int output, int input) {
  return input / (2 * FOUR) * FOUR * PANEL + output * FOUR + input % FOUR;
}

// Bytes of a row of quantized inputs; with 4 bits, two numbers for each group follow.
inline int quantized_row_size(const Packed &m) {
  return m.padded + (m.bits == 4 ? m.padded / GROUP * 2 * int(sizeof(float)) : 0);
}

// Pointers to the keys of a query, which are scattered in memory; the value of a key is `to_values` after it.
struct KeyPointers {
  const float *const *pointers;
  int64_t offset, to_values;
  int count;
};

constexpr int SPARSE_TILE = 64;     // queries, and keys, of sparse attention at a time
constexpr int SPARSE_COLUMNS = 16;  // vectors are padded to a multiple of so many components

inline size_t sparse_buffer_size(int head_dim) {
  return size_t(8) * SPARSE_TILE * ((head_dim + SPARSE_COLUMNS - 1) / SPARSE_COLUMNS * SPARSE_COLUMNS);
}

constexpr int SCORES_MULTIPLE = 16;  // the buffer of `attend` has room for a multiple of so many scores

struct Kernels {
  const char *name;
  // Panels `from` … `to` of y = W x + b. `inputs` has room for CHUNK_ROWS rows, if quantized.
  void (*apply)(const Packed &m, const float *x, int64_t x_step, int rows, float *y, int64_t y_step, int from,
                int to, Finish how, uint8_t *inputs);
  void (*normalize)(const Norm &norm, const float *x, int dim, float *y);
  // softmax(scale · q·k + bias) v; zeros without keys
  void (*attend)(const float *q, int size, KeyPointers keys, float scale, const float *bias, float *out,
                 float *scores);
  void (*multiply_elements)(float *x, const float *factors, int size);
  // log Σ exp of a row, and its highest numbers in descending order, the earlier of equal numbers first
  void (*rank)(const float *x, int size, int count, float *log_sum, float *values, int *indices);
  int (*highest)(const float *x, int size);  // the index of the highest number, the first of equal ones
  bool (*is_finite)(const float *x, int size);
  // A tile of sparse attention; `buffer` has room for sparse_buffer_size(head_dim) numbers.
  void (*sparse_forward)(const Sparse &args, int row, int head, int tile, float *buffer);
  void (*sparse_backward)(const Sparse &args, int row, int head, int tile, float *buffer);
};

// The kernels of this processor, or those that `regard_set_isa` chose.
const Kernels &kernels();

}  // namespace regard
