// y = W x + b with weights of 8 bits. Included in the namespace of an instruction set, which defines
//   INPUT_OFFSET   subtracted from quantized inputs, for instructions with signed ones
//   add_products   sums + Σ of four inputs · weights, in each lane
//
// The sums are exact.

// A row of inputs is quantized to 0 … MAX_QUANTIZED_INPUT: x ≈ low + step · quantized.
struct Range {
  float low, step;
};

// A row with a number that is not finite gets a range of NaN, and its outputs are NaN.
Range quantize(const float *x, int inputs, int padded, uint8_t *to) {
  floats least = all(__builtin_inff()), most = all(-__builtin_inff()), zeros = all(0.0f);
  int i = 0;
  for (; i + LANES <= inputs; i += LANES) {
    floats v = load(x + i);
    least = v < least ? v : least, most = v > most ? v : most, zeros += v * 0.0f;
  }
  float low = __builtin_inff(), high = -__builtin_inff(), zero = sum(zeros);
  for (int j = 0; j < LANES; j++) low = lesser(low, least[j]), high = greater(high, most[j]);
  for (; i < inputs; i++) low = lesser(low, x[i]), high = greater(high, x[i]), zero += x[i] * 0.0f;
  if (zero != 0 || !__builtin_isfinite(high - low)) {
    __builtin_memset(to, 0, padded);
    return {__builtin_nanf(""), __builtin_nanf("")};
  }
  float scale = high > low ? MAX_QUANTIZED_INPUT / (high - low) : 0;
  for (i = 0; i < inputs; i++) to[i] = uint8_t(int((x[i] - low) * scale + 0.5f) - INPUT_OFFSET);
  for (; i < padded; i++) to[i] = 0;  // as the weights there
  return {low, (high - low) / MAX_QUANTIZED_INPUT};
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

// Σ w x ≈ scale · (step · Σ quantized weights · quantized inputs + low · Σ quantized weights)
void rescale(const Packed &m, int panel, int panels, int rows, const int *sums, const Range *ranges, float *y,
             int64_t y_step, Finish how) {
  float products[CHUNK_ROWS * PANELS_AT_ONCE * PANEL];
  const float *scale = m.scale + panel * PANEL;
  const int *total = m.total + panel * PANEL, width = panels * PANEL;
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < width; c++)
      products[r * width + c] =
          scale[c] * (float(sums[r * width + c]) * ranges[r].step + ranges[r].low * float(total[c]));
  finish(m, panel, panels, rows, products, y, y_step, how);
}

template <int PANELS>
inline void quantized_panels(const Packed &m, int panel, const uint8_t *inputs, const Range *ranges, int rows,
                             float *y, int64_t y_step, Finish how) {
  int sums[CHUNK_ROWS * PANELS * PANEL];
  const int groups = (rows + MAX_ROWS - 1) / MAX_ROWS;
  for (int g = 0; g < groups; g++) {
    int r = rows * g / groups, size = rows * (g + 1) / groups - r;
    multiply_quantized_rows<MAX_ROWS, PANELS>(size, m, panel, inputs + int64_t(r) * m.padded,
                                              sums + r * PANELS * PANEL);
  }
  rescale(m, panel, PANELS, rows, sums, ranges, y, y_step, how);
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
