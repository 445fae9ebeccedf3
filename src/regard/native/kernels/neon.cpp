// NEON, which every arm64 has.

#if defined(__aarch64__)

#define ISA neon
#define LANES 4
#define MAX_ROWS 6
#define PANELS_AT_ONCE 1
#define FEW_SUMS 16
#define INPUT_OFFSET 0
#include "all.h"

#endif
