// Tests whether this processor can run the other library, which is compiled for x86-64-v3 (AVX2).
//
// Compiled for the baseline, in a library of its own: everything of the other one, its static
// initializers and its templates too, may contain instructions that an older processor lacks.

#if defined(__x86_64__)
#include <cpuid.h>

namespace {

constexpr unsigned kMovbe = 1u << 22, kF16c = 1u << 29;  // CPUID leaf 1, ECX
constexpr unsigned kLzcnt = 1u << 5;                     // CPUID leaf 0x80000001, ECX

unsigned features(unsigned leaf) {
  unsigned a, b, c = 0, d;
  return __get_cpuid(leaf, &a, &b, &c, &d) ? c : 0;
}

}  // namespace

extern "C" int regard_processor_is_supported() {
  __builtin_cpu_init();
  const unsigned first = features(1), extended = features(0x80000001);
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && (first & kMovbe) && (first & kF16c) && (extended & kLzcnt);
}

#else

extern "C" int regard_processor_is_supported() { return 1; }

#endif
