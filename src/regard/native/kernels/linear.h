// y = W x + b with weights that are numbers, and what follows a product. Included in the namespace of an
// instruction set, which defines MAX_ROWS and PANELS_AT_ONCE: rows and panels of a product whose sums stay
// in registers.
//
// Every output is summed in the order of the inputs, whatever the number of rows.

constexpr int DEPTH = 256;  // inputs at a time: so many of a panel fit the first-level cache
constexpr int VECTORS = PANEL / LANES;  // in a panel

template <int ROWS, int PANELS>
inline void multiply(const float *w, int64_t panel_step, int depth, const float *x, int64_t x_step, float *sums,
                     bool fresh) {
  constexpr int COLUMNS = PANELS * VECTORS;
  floats acc[ROWS][COLUMNS];
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 16
    for (int c = 0; c < COLUMNS; c++) acc[r][c] = fresh ? all(0.0f) : load(sums + (r * COLUMNS + c) * LANES);
  for (int i = 0; i < depth; i++) {
    floats b[COLUMNS];
#pragma GCC unroll 16
    for (int c = 0; c < COLUMNS; c++) b[c] = load(w + c / VECTORS * panel_step + i * PANEL + c % VECTORS * LANES);
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; r++) {
      floats a = all(x[r * x_step + i]);
#pragma GCC unroll 16
      for (int c = 0; c < COLUMNS; c++) acc[r][c] += a * b[c];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 16
    for (int c = 0; c < COLUMNS; c++) store(sums + (r * COLUMNS + c) * LANES, acc[r][c]);
}

template <Activation HOW>
inline floats activate(floats x) {
  const floats zero = all(0.0f), one = all(1.0f);
  switch (HOW) {
    case NONE: return x;
    case RELU: return x < zero ? zero : x;  // NaN stays NaN
    case SIGMOID: return one / (one + exponential(-x));
    case SILU: return x / (one + exponential(-x));
    case GELU_TANH: {
      floats u = all(0.7978845608f) * (x + all(0.044715f) * x * x * x);
      return x * (one - one / (one + exponential(u + u)));
    }
    case GELU: return all(0.5f) * x * (one + error_function(x * all(0.70710678f)));
  }
  return x;
}

// Activate the outputs of `panels` panels and write them to y; outputs(row, column) gives LANES of them.
template <Activation HOW, typename Outputs>
inline void write(const Packed &m, int panel, int panels, int rows, float *y, int64_t y_step, bool add,
                  const Outputs &outputs) {
  const int first = panel * PANEL, width = lesser(panels * PANEL, m.outputs - first);
  for (int r = 0; r < rows; r++) {
    float *to = y + r * y_step + first;
    int c = 0;
    for (; c + LANES <= width; c += LANES) {
      const floats v = activate<HOW>(outputs(r, c));
      store(to + c, add ? load(to + c) + v : v);
    }
    if (c == width) continue;
    const floats v = activate<HOW>(outputs(r, c));
    for (int j = 0; c + j < width; j++) to[c + j] = add ? to[c + j] + v[j] : v[j];
  }
}

template <typename Outputs>
void finish(const Packed &m, int panel, int panels, int rows, float *y, int64_t y_step, Finish how,
            const Outputs &outputs) {
  switch (how.activation) {
    case NONE: return write<NONE>(m, panel, panels, rows, y, y_step, how.add, outputs);
    case RELU: return write<RELU>(m, panel, panels, rows, y, y_step, how.add, outputs);
    case GELU: return write<GELU>(m, panel, panels, rows, y, y_step, how.add, outputs);
    case GELU_TANH: return write<GELU_TANH>(m, panel, panels, rows, y, y_step, how.add, outputs);
    case SILU: return write<SILU>(m, panel, panels, rows, y, y_step, how.add, outputs);
    case SIGMOID: return write<SIGMOID>(m, panel, panels, rows, y, y_step, how.add, outputs);
  }
}

// The sums of `panels` panels are (rows × panels·16), consecutive.
void finish_sums(const Packed &m, int panel, int panels, int rows, const float *sums, float *y, int64_t y_step,
                 Finish how) {
  const float *bias = m.bias + panel * PANEL;
  const int width = panels * PANEL;
  finish(m, panel, panels, rows, y, y_step, how,
         [=](int r, int c) { return load(sums + int64_t(r) * width + c) + load(bias + c); });
}

// All inputs at once: a few rows read each weight once.
template <int ROWS, int PANELS>
void few_rows(const Packed &m, const float *x, int64_t x_step, float *y, int64_t y_step, int from, int to,
              Finish how) {
  alignas(64) float sums[ROWS * PANELS * PANEL];
  const int64_t step = int64_t(m.inputs) * PANEL;
  int p = from;
  for (; p + PANELS <= to; p += PANELS) {
    multiply<ROWS, PANELS>(m.weights + p * step, step, m.inputs, x, x_step, sums, true);
    finish_sums(m, p, PANELS, ROWS, sums, y, y_step, how);
  }
  for (; p < to; p++) {
    multiply<ROWS, 1>(m.weights + p * step, step, m.inputs, x, x_step, sums, true);
    finish_sums(m, p, 1, ROWS, sums, y, y_step, how);
  }
}

template <int ROWS, int PANELS>
inline void multiply_rows(int rows, const float *w, int64_t panel_step, int depth, const float *x, int64_t x_step,
                          float *sums, bool fresh) {
  if constexpr (ROWS > 1)
    if (rows < ROWS) return multiply_rows<ROWS - 1, PANELS>(rows, w, panel_step, depth, x, x_step, sums, fresh);
  multiply<ROWS, PANELS>(w, panel_step, depth, x, x_step, sums, fresh);
}

// PANELS panels of a chunk of rows: a part of the panels stays in the first-level cache for all rows.
template <int PANELS>
inline void chunk_of_rows(const Packed &m, int panel, const float *x, int64_t x_step, int rows, float *sums) {
  const int64_t step = int64_t(m.inputs) * PANEL;
  const int groups = (rows + MAX_ROWS - 1) / MAX_ROWS;
  for (int k = 0; k < m.inputs; k += DEPTH) {
    const float *w = m.weights + panel * step + int64_t(k) * PANEL;
    for (int g = 0; g < groups; g++) {
      int r = rows * g / groups, size = rows * (g + 1) / groups - r;
      multiply_rows<MAX_ROWS, PANELS>(size, w, step, lesser(DEPTH, m.inputs - k), x + r * x_step + k, x_step,
                                      sums + r * PANELS * PANEL, k == 0);
    }
  }
}

void many_rows(const Packed &m, const float *x, int64_t x_step, int rows, float *y, int64_t y_step, int from, int to,
               Finish how) {
  alignas(64) float sums[CHUNK_ROWS * PANELS_AT_ONCE * PANEL];
  for (int start = 0; start < rows; start += CHUNK_ROWS) {
    const int count = lesser(CHUNK_ROWS, rows - start);
    const float *in = x + start * x_step;
    float *out = y + start * y_step;
    int p = from;
    for (; p + PANELS_AT_ONCE <= to; p += PANELS_AT_ONCE) {
      chunk_of_rows<PANELS_AT_ONCE>(m, p, in, x_step, count, sums);
      finish_sums(m, p, PANELS_AT_ONCE, count, sums, out, y_step, how);
    }
    for (; p < to; p++) {
      chunk_of_rows<1>(m, p, in, x_step, count, sums);
      finish_sums(m, p, 1, count, sums, out, y_step, how);
    }
  }
}

void unquantized_rows(const Packed &m, const float *x, int64_t x_step, int rows, float *y, int64_t y_step, int from,
                      int to, Finish how) {
  switch (rows) {
    case 1: return few_rows<1, FEW_SUMS / VECTORS>(m, x, x_step, y, y_step, from, to, how);
    case 2: return few_rows<2, FEW_SUMS / 2 / VECTORS>(m, x, x_step, y, y_step, from, to, how);
    case 3: return few_rows<3, FEW_SUMS / 2 / VECTORS>(m, x, x_step, y, y_step, from, to, how);
    default: return many_rows(m, x, x_step, rows, y, y_step, from, to, how);
  }
}
