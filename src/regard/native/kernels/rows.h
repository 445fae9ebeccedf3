// Norms, attention and rankings of rows of numbers. Included in the namespace of an instruction set.

void normalize(const Norm &norm, const float *x, int dim, float *y) {
  if (norm.kind == 0) {
    if (x != y) __builtin_memcpy(y, x, sizeof(float) * dim);
    return;
  }
  const int whole = dim / LANES * LANES;
  float mean = 0;
  if (norm.kind == 1) {
    floats sums = all(0.0f);
    for (int i = 0; i < whole; i += LANES) sums += load(x + i);
    mean = sum(sums);
    for (int i = whole; i < dim; i++) mean += x[i];
    mean /= dim;
  }
  floats squares = all(0.0f);
  for (int i = 0; i < whole; i += LANES) {
    floats centered = load(x + i) - all(mean);
    squares += centered * centered;
  }
  float square = sum(squares);
  for (int i = whole; i < dim; i++) square += (x[i] - mean) * (x[i] - mean);
  float inverse_std = 1.0f / __builtin_sqrtf(square / dim + norm.eps);
  for (int i = 0; i < whole; i += LANES) {
    floats v = (load(x + i) - all(mean)) * all(inverse_std);
    if (norm.gain) v *= load(norm.gain + i);
    store(y + i, norm.bias ? v + load(norm.bias + i) : v);
  }
  for (int i = whole; i < dim; i++) {
    float v = (x[i] - mean) * inverse_std;
    if (norm.gain) v *= norm.gain[i];
    y[i] = norm.bias ? v + norm.bias[i] : v;
  }
}

void multiply_elements(float *x, const float *factors, int size) {
  for (int i = 0; i < size; i++) x[i] *= factors[i];
}

// ---------------------------------------------------------------- attention

constexpr int KEYS = 4;  // at a time

// Scores of KEYS keys, each summed in one fixed order.
inline four_floats dots(const float *q, const float *const *keys, int64_t offset, int size) {
  floats acc[KEYS];
#pragma GCC unroll 4
  for (int k = 0; k < KEYS; k++) acc[k] = all(0.0f);
  int i = 0;
  for (; i + LANES <= size; i += LANES) {
    const floats own = load(q + i);
#pragma GCC unroll 4
    for (int k = 0; k < KEYS; k++) acc[k] += own * load(keys[k] + offset + i);
  }
  four_floats totals = sums(acc[0], acc[1], acc[2], acc[3]);
  for (; i < size; i++)
    totals += q[i] * four_floats{keys[0][offset + i], keys[1][offset + i], keys[2][offset + i], keys[3][offset + i]};
  return totals;
}

// Σ_j scores[j] · value_j for LANES · BLOCKS components, which stay in registers over all keys: the even
// keys, then the odd ones.
template <int BLOCKS>
inline void weighted_sum(const float *scores, KeyPointers keys, int from, float scale, float *out) {
  const int64_t offset = keys.offset + keys.to_values + from;
  floats even[BLOCKS], odd[BLOCKS];
#pragma GCC unroll 16
  for (int b = 0; b < BLOCKS; b++) even[b] = odd[b] = all(0.0f);
  int j = 0;
  for (; j + 2 <= keys.count; j += 2) {
    const float *value = keys.pointers[j] + offset, *next = keys.pointers[j + 1] + offset;
#pragma GCC unroll 16
    for (int b = 0; b < BLOCKS; b++) even[b] += all(scores[j]) * load(value + LANES * b);
#pragma GCC unroll 16
    for (int b = 0; b < BLOCKS; b++) odd[b] += all(scores[j + 1]) * load(next + LANES * b);
  }
  if (j < keys.count)
#pragma GCC unroll 16
    for (int b = 0; b < BLOCKS; b++) even[b] += all(scores[j]) * load(keys.pointers[j] + offset + LANES * b);
#pragma GCC unroll 16
  for (int b = 0; b < BLOCKS; b++) store(out + from + LANES * b, (even[b] + odd[b]) * all(scale));
}

void attend(const float *q, int size, KeyPointers keys, float scale, const float *bias, float *out, float *scores) {
  if (keys.count == 0) {
    __builtin_memset(out, 0, sizeof(float) * size);
    return;
  }
  const int padded = (keys.count + LANES - 1) / LANES * LANES, last = keys.count - 1;
  for (int j = 0; j < keys.count; j += KEYS) {
    const float *four[KEYS];
    for (int k = 0; k < KEYS; k++) four[k] = keys.pointers[lesser(j + k, last)];
    const four_floats products = dots(q, four, keys.offset, size) * scale;
    __builtin_memcpy(scores + j, &products, sizeof products);
  }
  if (bias)
    for (int j = 0; j < keys.count; j++) scores[j] += bias[j];
  for (int j = keys.count; j < padded; j++) scores[j] = -__builtin_inff();
  floats tops = all(-__builtin_inff()), totals = all(0.0f);
  for (int j = 0; j < padded; j += LANES) tops = choose_greater(tops, load(scores + j));
  const float top = highest(tops);
  for (int j = 0; j < padded; j += LANES) store(scores + j, exponential(load(scores + j) - all(top)));
  for (int j = keys.count; j < padded; j++) scores[j] = 0.0f;
  for (int j = 0; j < padded; j += LANES) totals += load(scores + j);
  const float inverse_sum = 1.0f / sum(totals);
  int i = 0;
  for (; i + 64 <= size; i += 64) weighted_sum<64 / LANES>(scores, keys, i, inverse_sum, out);
  for (; i + 32 <= size; i += 32) weighted_sum<32 / LANES>(scores, keys, i, inverse_sum, out);
  for (; i + LANES <= size; i += LANES) weighted_sum<1>(scores, keys, i, inverse_sum, out);
  for (; i < size; i++) {
    float acc = 0;
    for (int j = 0; j < keys.count; j++) acc += scores[j] * keys.pointers[j][keys.offset + keys.to_values + i];
    out[i] = acc * inverse_sum;
  }
}

// ---------------------------------------------------------------- logits

void rank(const float *x, int size, int count, float *log_sum, float *values, int *indices) {
  const int whole = size / LANES * LANES;
  int filled = 0;
  auto consider = [&](int index) {
    if (filled == count && !(x[index] > values[count - 1])) return;
    int at = filled < count ? filled++ : count - 1;
    for (; at > 0 && x[index] > values[at - 1]; at--) values[at] = values[at - 1], indices[at] = indices[at - 1];
    values[at] = x[index], indices[at] = index;
  };
  for (int i = 0; i < whole; i += LANES) {
    if (filled == count && !any(load(x + i) > all(values[count - 1]))) continue;
    for (int j = i; j < i + LANES; j++) consider(j);
  }
  for (int i = whole; i < size; i++) consider(i);
  const float top = values[0];
  floats totals = all(0.0f);
  for (int i = 0; i < whole; i += LANES) totals += exponential(load(x + i) - all(top));
  float total = sum(totals);
  for (int i = whole; i < size; i++) total += exponential(all(x[i] - top))[0];
  *log_sum = top + __builtin_logf(total);
}

bool is_finite(const float *x, int size) {
  const int whole = size / LANES * LANES;
  floats zeros = all(0.0f);
  for (int i = 0; i < whole; i += LANES) zeros += load(x + i) * 0.0f;  // NaN if x is NaN or infinite
  float zero = sum(zeros);
  for (int i = whole; i < size; i++) zero += x[i] * 0.0f;
  return zero == 0;
}

int highest(const float *x, int size) {
  const int whole = size / LANES * LANES;
  floats tops = all(-__builtin_inff());
  for (int i = 0; i < whole; i += LANES) tops = choose_greater(tops, load(x + i));
  float top = highest(tops);
  for (int i = whole; i < size; i++) top = greater(top, x[i]);
  int at = 0;
  while (at < size && x[at] != top) at++;
  return at;
}
