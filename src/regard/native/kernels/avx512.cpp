// AVX-512 (F, BW, CD, DQ, VL): x86-64-v4. 32 registers of 16 numbers.

#if defined(__x86_64__)

#include <immintrin.h>

#define ISA avx512
#define LANES 16
#define MAX_ROWS 12
#define PANELS_AT_ONCE 2
#define FEW_SUMS 8
#define INPUT_OFFSET 0

#if defined(__AVX512BW__)
#define ADD_PRODUCTS(sums, inputs, weights)                                                             \
  sums + ints(_mm512_madd_epi16(_mm512_maddubs_epi16(__m512i(inputs), __m512i(weights)), _mm512_set1_epi16(1)))
#endif

#include "all.h"

#endif
