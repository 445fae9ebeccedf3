// AVX-512 with the dot products of VNNI: four products and their sum in one instruction.

#if defined(__x86_64__)

#include <immintrin.h>

#define ISA avx512_vnni
#define LANES 16
#define MAX_ROWS 12
#define PANELS_AT_ONCE 2
#define FEW_SUMS 8
#define INPUT_OFFSET 0

#if defined(__AVX512VNNI__)
#define ADD_PRODUCTS(sums, inputs, weights) \
  ints(_mm512_dpbusd_epi32(__m512i(sums), __m512i(inputs), __m512i(weights)))
#endif

#include "all.h"

#endif
