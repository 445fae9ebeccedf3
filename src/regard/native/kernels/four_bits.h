// y = W x + b with weights of 4 bits in groups of 32 inputs. Included in the namespace of an instruction set.
//
//   w = minimum + scale · q      q from 0 to 15, scale and minimum of each output and group
//   x ≈ step · p                 p from −127 to 127, step of each row and group
//   Σ w x ≈ Σ over groups of  scale · step · Σ q p  +  minimum · step · Σ p
//
// The sum of a group is exact; groups are added in order, whatever the number of rows.

constexpr int GROUPED_ROWS = MAX_ROWS / 3;  // whose sums of integers and numbers stay in registers

// The inputs of a group: step and step · Σ p.
struct Group {
  float step, total;
};

// A group with a number that is not finite gets a step of NaN, and the outputs of its row are NaN.
Group quantize_group(const float *x, int inputs, int8_t *to) {
  float top = 0, zero = 0;
  for (int i = 0; i < inputs; i++) top = greater(top, __builtin_fabsf(x[i])), zero += x[i] * 0.0f;
  if (zero != 0 || !__builtin_isfinite(top)) {
    __builtin_memset(to, 0, GROUP);
    return {__builtin_nanf(""), __builtin_nanf("")};
  }
  const float scale = top > 0 ? MAX_GROUPED_INPUT / top : 0;
  int total = 0;
  for (int i = 0; i < inputs; i++) {
    to[i] = int8_t(__builtin_nearbyintf(x[i] * scale));
    total += to[i];
  }
  for (int i = inputs; i < GROUP; i++) to[i] = 0;
  const float step = top / MAX_GROUPED_INPUT;
  return {step, step * float(total)};
}

// Half-precision numbers; scales are finite.
inline floats load_half(const uint16_t *from) {
#if defined(__AVX512F__) && LANES == 16
  return floats(_mm512_maskz_cvtph_ps(__mmask16(-1), _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from))));
#elif defined(__F16C__) && LANES == 8
  return floats(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from))));
#else
  typedef unsigned short shorts __attribute__((vector_size(2 * LANES)));
  shorts halves;
  __builtin_memcpy(&halves, from, sizeof halves);
  const ints bits = __builtin_convertvector(halves, ints);
  const ints magnitude = (bits & 0x7fff) << 13, sign = (bits & 0x8000) << 16;
  floats value;
  __builtin_memcpy(&value, &magnitude, sizeof value);
  value *= all(0x1p112f);  // from the exponents of half precision to those of single precision
  ints result;
  __builtin_memcpy(&result, &value, sizeof result);
  result |= sign;
  __builtin_memcpy(&value, &result, sizeof value);
  return value;
#endif
}

template <int ROWS, int PANELS>
inline void multiply_groups(const Packed &m, int panel, const uint8_t *x, int64_t x_step, float *sums) {
  constexpr int COLUMNS = PANELS * VECTORS;
  const int groups = m.padded / GROUP;
  const int64_t panel_step = int64_t(m.padded) * PANEL / 2, scale_step = int64_t(groups) * PANEL;
  const uint8_t *w = m.nibbles + panel * panel_step;
  const uint16_t *scales = m.group_scale + panel * scale_step, *minima = m.group_minimum + panel * scale_step;
  floats acc[ROWS][COLUMNS];
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 16
    for (int c = 0; c < COLUMNS; c++) acc[r][c] = all(0.0f);
  for (int g = 0; g < groups; g++) {
    ints dot[ROWS][COLUMNS];
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 16
      for (int c = 0; c < COLUMNS; c++) dot[r][c] = all(0);
#pragma GCC unroll 4
    for (int i = g * GROUP; i < (g + 1) * GROUP; i += 2 * FOUR) {
      ints low[COLUMNS], high[COLUMNS];
#pragma GCC unroll 16
      for (int c = 0; c < COLUMNS; c++) {
        const int64_t at = c / VECTORS * panel_step + int64_t(i) * PANEL / 2 + c % VECTORS * LANES * FOUR;
        const ints both = load(reinterpret_cast<const int8_t *>(w + at));
        low[c] = both & 0x0f0f0f0f, high[c] = (both >> 4) & 0x0f0f0f0f;
      }
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; r++) {
        int first, second;
        __builtin_memcpy(&first, x + r * x_step + i, FOUR);
        __builtin_memcpy(&second, x + r * x_step + i + FOUR, FOUR);
#pragma GCC unroll 16
        for (int c = 0; c < COLUMNS; c++)
          dot[r][c] = add_products(add_products(dot[r][c], low[c], all(first)), high[c], all(second));
      }
    }
#pragma GCC unroll 16
    for (int c = 0; c < COLUMNS; c++) {
      const int64_t at = c / VECTORS * scale_step + int64_t(g) * PANEL + c % VECTORS * LANES;
      const floats scale = load_half(scales + at), minimum = load_half(minima + at);
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; r++) {
        Group group;
        __builtin_memcpy(&group, x + r * x_step + m.padded + g * int(sizeof group), sizeof group);
        const floats products = __builtin_convertvector(dot[r][c], floats) * all(group.step);
        acc[r][c] += scale * products;
        acc[r][c] += minimum * all(group.total);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 16
    for (int c = 0; c < COLUMNS; c++) store(sums + (r * COLUMNS + c) * LANES, acc[r][c]);
}

template <int ROWS, int PANELS>
inline void multiply_grouped_rows(int rows, const Packed &m, int panel, const uint8_t *x, int64_t x_step, float *sums) {
  if constexpr (ROWS > 1)
    if (rows < ROWS) return multiply_grouped_rows<ROWS - 1, PANELS>(rows, m, panel, x, x_step, sums);
  multiply_groups<ROWS, PANELS>(m, panel, x, x_step, sums);
}

template <int PANELS>
inline void grouped_panels(const Packed &m, int panel, const uint8_t *inputs, int64_t step, int rows, float *y,
                           int64_t y_step, Finish how) {
  alignas(64) float sums[CHUNK_ROWS * PANELS * PANEL];
  const int groups = (rows + GROUPED_ROWS - 1) / GROUPED_ROWS;
  for (int g = 0; g < groups; g++) {
    int r = rows * g / groups, size = rows * (g + 1) / groups - r;
    multiply_grouped_rows<GROUPED_ROWS, PANELS>(size, m, panel, inputs + r * step, step, sums + r * PANELS * PANEL);
  }
  finish_sums(m, panel, PANELS, rows, sums, y, y_step, how);
}

void grouped_rows(const Packed &m, const float *x, int64_t x_step, int rows, float *y, int64_t y_step, int from,
                  int to, Finish how, uint8_t *inputs) {
  const int64_t step = quantized_row_size(m);
  for (int start = 0; start < rows; start += CHUNK_ROWS) {
    const int count = lesser(CHUNK_ROWS, rows - start);
    for (int r = 0; r < count; r++) {
      uint8_t *row = inputs + r * step;
      for (int k = 0; k < m.padded; k += GROUP) {
        const Group group = quantize_group(x + (start + r) * x_step + k, lesser(GROUP, m.inputs - k),
                                           reinterpret_cast<int8_t *>(row + k));
        __builtin_memcpy(row + m.padded + k / GROUP * int(sizeof group), &group, sizeof group);
      }
    }
    int p = from;
    for (; p + PANELS_AT_ONCE <= to; p += PANELS_AT_ONCE)
      grouped_panels<PANELS_AT_ONCE>(m, p, inputs, step, count, y + start * y_step, y_step, how);
    for (; p < to; p++) grouped_panels<1>(m, p, inputs, step, count, y + start * y_step, y_step, how);
  }
}
