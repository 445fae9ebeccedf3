// Vectors of eight numbers, and their exponentials.

#pragma once

#include <cstring>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace regard {

typedef float f8 __attribute__((vector_size(32)));
typedef int i8 __attribute__((vector_size(32)));
typedef float f8_unaligned __attribute__((vector_size(32), aligned(4)));
typedef int i8_unaligned __attribute__((vector_size(32), aligned(4)));

inline f8 load(const float *from) { return *reinterpret_cast<const f8_unaligned *>(from); }
inline i8 load(const int *from) { return *reinterpret_cast<const i8_unaligned *>(from); }
inline void store(float *to, f8 v) { *reinterpret_cast<f8_unaligned *>(to) = v; }
inline f8 all(float v) { return f8{v, v, v, v, v, v, v, v}; }
inline float sum(f8 v) {
#if defined(__AVX2__)
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(__m256(v)), _mm256_extractf128_ps(__m256(v), 1));
  __m128 two = _mm_add_ps(four, _mm_movehdup_ps(four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehl_ps(two, two)));
#else
  return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7]));
#endif
}

inline bool any(i8 v) {
#if defined(__AVX2__)
  return !_mm256_testz_si256(__m256i(v), __m256i(v));
#else
  return v[0] | v[1] | v[2] | v[3] | v[4] | v[5] | v[6] | v[7];
#endif
}

// exp by 2^n · p(r), |r| ≤ ln 2 / 2, p of degree 6: within two units in the last place.
inline f8 exp8(f8 x) {
  const f8 low = all(-87.0f), high = all(88.0f);
  x = x < low ? low : x;
  x = x > high ? high : x;
  const f8 magic = all(12582912.0f);  // adding it rounds to a whole number
  f8 n = (x * all(1.44269504f) + magic) - magic;
  f8 r = (x - n * all(0.693359375f)) + n * all(2.12194440e-4f);
  f8 p = all(1.3888889e-3f);
  p = p * r + all(8.3333333e-3f);
  p = p * r + all(4.1666667e-2f);
  p = p * r + all(1.6666667e-1f);
  p = p * r + all(0.5f);
  p = p * r + all(1.0f);
  p = p * r + all(1.0f);
  i8 power = (__builtin_convertvector(n, i8) + 127) << 23;
  f8 two_n;
  std::memcpy(&two_n, &power, sizeof two_n);
  return p * two_n;
}

}  // namespace regard
