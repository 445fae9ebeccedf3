// Vectors of LANES numbers, and their exponentials. Included in the namespace of an instruction set.

typedef float floats __attribute__((vector_size(4 * LANES)));
typedef int ints __attribute__((vector_size(4 * LANES)));
typedef float floats_unaligned __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int ints_unaligned __attribute__((vector_size(4 * LANES), aligned(1)));

inline floats load(const float *from) { return *reinterpret_cast<const floats_unaligned *>(from); }
inline ints load(const int *from) { return *reinterpret_cast<const ints_unaligned *>(from); }
inline ints load(const int8_t *from) { return *reinterpret_cast<const ints_unaligned *>(from); }
inline void store(float *to, floats v) { *reinterpret_cast<floats_unaligned *>(to) = v; }
inline void store(int *to, ints v) { *reinterpret_cast<ints_unaligned *>(to) = v; }
inline floats all(float v) { return v - floats{}; }
inline ints all(int v) { return v - ints{}; }

inline int lesser(int one, int other) { return one < other ? one : other; }
inline int greater(int one, int other) { return one > other ? one : other; }
inline float lesser(float one, float other) { return other < one ? other : one; }
inline float greater(float one, float other) { return one < other ? other : one; }

typedef float four_floats __attribute__((vector_size(16)));

#if defined(__SSE3__)
inline float sum(four_floats v) {
  __m128 two = _mm_add_ps(__m128(v), _mm_movehdup_ps(__m128(v)));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehl_ps(two, two)));
}
#else
inline float sum(four_floats v) { return (v[0] + v[1]) + (v[2] + v[3]); }
#endif
// Four numbers, each combined from every fourth of a vector.
template <typename Combine>
inline four_floats fold(floats v, const Combine &combine) {
#if LANES == 4
  return v;
#elif LANES == 8
  return combine(__builtin_shufflevector(v, v, 0, 1, 2, 3), __builtin_shufflevector(v, v, 4, 5, 6, 7));
#elif LANES == 16
  const auto half = combine(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),
                            __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
  return combine(__builtin_shufflevector(half, half, 0, 1, 2, 3), __builtin_shufflevector(half, half, 4, 5, 6, 7));
#endif
}

constexpr auto add = [](auto one, auto other) { return one + other; };
constexpr auto choose_greater = [](auto one, auto other) { return one < other ? other : one; };

#if LANES > 4
inline float sum(floats v) { return sum(fold(v, add)); }
#endif

inline float highest(floats v) {
  const four_floats four = fold(v, choose_greater);
  return greater(greater(four[0], four[1]), greater(four[2], four[3]));
}

// The sums of four vectors.
inline four_floats sums(floats v0, floats v1, floats v2, floats v3) {
  const four_floats a = fold(v0, add), b = fold(v1, add), c = fold(v2, add), d = fold(v3, add);
  const four_floats ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const four_floats cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

#if defined(__AVX512F__) && LANES == 16
inline bool any(ints v) { return _mm512_test_epi32_mask(__m512i(v), __m512i(v)); }
#elif defined(__AVX2__) && LANES == 8
inline bool any(ints v) { return !_mm256_testz_si256(__m256i(v), __m256i(v)); }
#else
inline bool any(ints v) {
  int found = 0;
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++) found |= v[i];
  return found;
}
#endif

// exp by 2^n · p(r), |r| ≤ ln 2 / 2, p of degree 6: within two units in the last place.
inline floats exponential(floats x) {
  const floats low = all(-87.0f), high = all(88.0f);
  x = x < low ? low : x;
  x = x > high ? high : x;
  const floats magic = all(12582912.0f);  // adding it rounds to a whole number
  floats n = (x * all(1.44269504f) + magic) - magic;
  floats r = (x - n * all(0.693359375f)) + n * all(2.12194440e-4f);
  floats p = all(1.3888889e-3f);
  p = p * r + all(8.3333333e-3f);
  p = p * r + all(4.1666667e-2f);
  p = p * r + all(1.6666667e-1f);
  p = p * r + all(0.5f);
  p = p * r + all(1.0f);
  p = p * r + all(1.0f);
  ints power = (__builtin_convertvector(n, ints) + 127) << 23;
  floats two_n;
  __builtin_memcpy(&two_n, &power, sizeof two_n);
  return p * two_n;
}

// erf by x · p(x²) below 1 and 1 − exp(q(|x|)) above, with p and q of degree 6: fitted so that the
// greatest error is least. It is 1.3e-7, two units in the last place of 1.
inline floats error_function(floats x) {
  const floats magnitude = x < all(0.0f) ? -x : x, square = x * x;
  const floats t = magnitude < all(4.0f) ? magnitude : all(4.0f);
  floats p = all(7.88911954e-5f);
  p = p * square + all(-8.02084128e-4f);
  p = p * square + all(5.18953534e-3f);
  p = p * square + all(-2.68544446e-2f);
  p = p * square + all(1.12836002e-1f);
  p = p * square + all(-3.76126271e-1f);
  p = p * square + all(1.12837917f);
  floats q = all(1.85574893e-4f);
  q = q * t + all(-2.93961574e-3f);
  q = q * t + all(2.18053512e-2f);
  q = q * t + all(-1.03037436e-1f);
  q = q * t + all(-6.38225602e-1f);
  q = q * t + all(-1.12704008f);
  q = q * t + all(-3.53708928e-4f);
  const floats far = all(1.0f) - exponential(q);
  return magnitude < all(1.0f) ? p * x : x < all(0.0f) ? -far : far;
}
