// y = W x + b with weights of 8 bits. Included in the namespace of an instruction set, which defines
//   INPUT_OFFSET   subtracted from quantized inputs, for instructions with signed ones
//   add_products   sums + Σ of four inputs · weights, in each lane
//
// The sums are exact.

// A row of inputs is quantized to 0 … MAX_QUANTIZED_INPUT: x ≈ step · (quantized + zero).
struct Range {
  float zero, step;
};

struct Extremes {
  floats least, most, not_finite;  // the last is zero, or NaN

  void add(floats v) { least = v < least ? v : least, most = choose_greater(most, v), not_finite += v * 0.0f; }
};

// A row with a number that is not finite gets a range of NaN, and its outputs are NaN.
Range quantize(const float *x, int inputs, int padded, uint8_t *to) {
  Extremes even{all(__builtin_inff()), all(-__builtin_inff()), all(0.0f)}, odd = even;
  int i = 0;
  for (; i + 2 * LANES <= inputs; i += 2 * LANES) even.add(load(x + i)), odd.add(load(x + i + LANES));
  for (; i + LANES <= inputs; i += LANES) even.add(load(x + i));
  float low = -highest(choose_greater(-even.least, -odd.least)), high = highest(choose_greater(even.most, odd.most));
  float not_finite = sum(even.not_finite + odd.not_finite);
  for (; i < inputs; i++) low = lesser(low, x[i]), high = greater(high, x[i]), not_finite += x[i] * 0.0f;
  if (not_finite != 0 || !__builtin_isfinite(high - low)) {
    __builtin_memset(to, 0, padded);
    return {__builtin_nanf(""), __builtin_nanf("")};
  }
  const float scale = high > low ? MAX_QUANTIZED_INPUT / (high - low) : 0;
  for (i = 0; i < inputs; i++) to[i] = uint8_t(int((x[i] - low) * scale + 0.5f) - INPUT_OFFSET);
  for (; i < padded; i++) to[i] = 0;  // as the weights there
  return high > low ? Range{low * scale, (high - low) / MAX_QUANTIZED_INPUT} : Range{low, 1};
}

template <int ROWS, int PANELS>
inline void multiply_quantized(const Packed &m, int panel, const uint8_t *x, int *sums) {
  constexpr int COLUMNS = PANELS * VECTORS;
  const int8_t *w = m.quantized + int64_t(panel) * m.padded * PANEL;
  const int64_t panel_step = int64_t(m.padded) * PANEL;
  ints acc[ROWS][COLUMNS];
#pragma GCC unroll 16
  for (int c = 0; c < COLUMNS; c++) {
    ints start = all(0);
    if constexpr (INPUT_OFFSET != 0) start = load(m.total + panel * PANEL + c * LANES) * INPUT_OFFSET;
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; r++) acc[r][c] = start;
  }
  for (int i = 0; i < m.padded; i += FOUR) {
    ints b[COLUMNS];
#pragma GCC unroll 16
    for (int c = 0; c < COLUMNS; c++)
      b[c] = load(w + c / VECTORS * panel_step + i * PANEL + c % VECTORS * LANES * FOUR);
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; r++) {
      int four;
      __builtin_memcpy(&four, x + int64_t(r) * m.padded + i, FOUR);
      const ints inputs = all(four);
#pragma GCC unroll 16
      for (int c = 0; c < COLUMNS; c++) acc[r][c] = add_products(acc[r][c], inputs, b[c]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 16
    for (int c = 0; c < COLUMNS; c++) store(sums + (r * COLUMNS + c) * LANES, acc[r][c]);
}

template <int ROWS, int PANELS>
inline void multiply_quantized_rows(int rows, const Packed &m, int panel, const uint8_t *x, int *sums) {
  if constexpr (ROWS > 1)
    if (rows < ROWS) return multiply_quantized_rows<ROWS - 1, PANELS>(rows, m, panel, x, sums);
  multiply_quantized<ROWS, PANELS>(m, panel, x, sums);
}

// Σ w x ≈ scale · step · (Σ quantized weights · quantized inputs + zero · Σ quantized weights)
void finish_quantized(const Packed &m, int panel, int panels, int rows, const int *sums, const Range *ranges, float *y,
                      int64_t y_step, Finish how) {
  const float *scale = m.scale + panel * PANEL, *bias = m.bias + panel * PANEL;
  const int *total = m.total + panel * PANEL, width = panels * PANEL;
  finish(m, panel, panels, rows, y, y_step, how, [=](int r, int c) {
    const floats products = __builtin_convertvector(load(sums + r * width + c), floats);
    const floats totals = __builtin_convertvector(load(total + c), floats);
    return (products + all(ranges[r].zero) * totals) * (load(scale + c) * ranges[r].step) + load(bias + c);
  });
}

template <int PANELS>
inline void quantized_panels(const Packed &m, int panel, const uint8_t *inputs, const Range *ranges, int rows,
                             float *y, int64_t y_step, Finish how) {
  alignas(64) int sums[CHUNK_ROWS * PANELS * PANEL];
  const int groups = (rows + MAX_ROWS - 1) / MAX_ROWS;
  for (int g = 0; g < groups; g++) {
    int r = rows * g / groups, size = rows * (g + 1) / groups - r;
    multiply_quantized_rows<MAX_ROWS, PANELS>(size, m, panel, inputs + int64_t(r) * m.padded,
                                              sums + r * PANELS * PANEL);
  }
  finish_quantized(m, panel, PANELS, rows, sums, ranges, y, y_step, how);
}

void quantized_rows(const Packed &m, const float *x, int64_t x_step, int rows, float *y, int64_t y_step, int from,
                    int to, Finish how, uint8_t *inputs) {
  Range ranges[CHUNK_ROWS];
  for (int start = 0; start < rows; start += CHUNK_ROWS) {
    const int count = lesser(CHUNK_ROWS, rows - start);
    for (int r = 0; r < count; r++)
      ranges[r] = quantize(x + (start + r) * x_step, m.inputs, m.padded, inputs + int64_t(r) * m.padded);
    int p = from;
    for (; p + PANELS_AT_ONCE <= to; p += PANELS_AT_ONCE)
      quantized_panels<PANELS_AT_ONCE>(m, p, inputs, ranges, count, y + start * y_step, y_step, how);
    for (; p < to; p++) quantized_panels<1>(m, p, inputs, ranges, count, y + start * y_step, y_step, how);
  }
}
