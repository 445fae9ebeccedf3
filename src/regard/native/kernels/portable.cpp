// Any processor: what the compiler makes of vectors of four numbers.

#define ISA portable
#define LANES 4
#define MAX_ROWS 3
#define PANELS_AT_ONCE 1
#define FEW_SUMS 8
#define INPUT_OFFSET 0
#include "all.h"
