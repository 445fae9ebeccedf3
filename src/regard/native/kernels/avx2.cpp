// AVX2 with FMA: x86-64-v3.

#if defined(__x86_64__)

#include <immintrin.h>

#define ISA avx2
#define LANES 8
#define MAX_ROWS 6
#define PANELS_AT_ONCE 1
#define FEW_SUMS 8
#define INPUT_OFFSET 0

// Two products of 8 by 7 bits fit 16 bits, so that 32 of them take three instructions.
#define ADD_PRODUCTS(sums, inputs, weights)                                                             \
  sums + ints(_mm256_madd_epi16(_mm256_maddubs_epi16(__m256i(inputs), __m256i(weights)), _mm256_set1_epi16(1)))

#include "all.h"

#endif
