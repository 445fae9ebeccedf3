// AVX2 with the dot products of AVX-VNNI.

#if defined(__x86_64__)

#include <immintrin.h>

#define ISA avx_vnni
#define LANES 8
#define MAX_ROWS 6
#define PANELS_AT_ONCE 1
#define FEW_SUMS 8
#define INPUT_OFFSET 0

#if defined(__AVXVNNI__)
#define ADD_PRODUCTS(sums, inputs, weights) \
  ints(_mm256_dpbusd_avx_epi32(__m256i(sums), __m256i(inputs), __m256i(weights)))
#endif

#include "all.h"

#endif
