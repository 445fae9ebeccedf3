// NEON with the dot products of ARMv8.2, whose inputs have signs.

#if defined(__aarch64__)

#include <arm_neon.h>

#define ISA neon_dot
#define LANES 4
#define MAX_ROWS 6
#define PANELS_AT_ONCE 1
#define FEW_SUMS 16
#define INPUT_OFFSET 128
#define ADD_PRODUCTS(sums, inputs, weights) ints(vdotq_s32(int32x4_t(sums), int8x16_t(inputs), int8x16_t(weights)))

#include "all.h"

#endif
