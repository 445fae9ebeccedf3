// The code that all instruction sets share, in the namespace ISA, and the table of its functions.
//
// Defined before: ISA, LANES, MAX_ROWS, PANELS_AT_ONCE, FEW_SUMS, INPUT_OFFSET. Defined in the namespace
// ISA: ADD_PRODUCTS, the body of add_products, where an instruction set has a better one.

#include "../kernels.h"

namespace regard::ISA {
namespace {

#include "vectors.h"

// sums + Σ of four inputs · weights in each lane. Inputs are of 8 bits without sign, or with one if
// INPUT_OFFSET is not zero; weights have a sign. The sums are exact.
inline ints add_products(ints sums, ints inputs, ints weights) {
#if defined(ADD_PRODUCTS)
  return ADD_PRODUCTS(sums, inputs, weights);
#else
  for (int shift = 0; shift < 32; shift += 8)
    sums += ((inputs >> shift) & 255) * ((weights << (24 - shift)) >> 24);
  return sums;
#endif
}

#include "linear.h"

#include "eight_bits.h"
#include "four_bits.h"

void apply(const Packed &m, const float *x, int64_t x_step, int rows, float *y, int64_t y_step, int from, int to,
           Finish how, uint8_t *inputs) {
  switch (m.bits) {
    case 8: return quantized_rows(m, x, x_step, rows, y, y_step, from, to, how, inputs);
    case 4: return grouped_rows(m, x, x_step, rows, y, y_step, from, to, how, inputs);
    default: return unquantized_rows(m, x, x_step, rows, y, y_step, from, to, how);
  }
}

#include "rows.h"

namespace sparse {
#include "sparse_tiles.h"
}  // namespace sparse

}  // namespace

#define NAME_OF(isa) #isa
#define NAME(isa) NAME_OF(isa)
extern const Kernels table = {NAME(ISA), apply,     normalize,       attend,          multiply_elements,
                              rank,      highest,   is_finite,       sparse::forward, sparse::backward};

}  // namespace regard::ISA
