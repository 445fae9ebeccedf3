// The choice of an instruction set: the best that this processor executes, or the one that is asked for.

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>

#include "kernels.h"
#include "status.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace regard {

#if defined(__x86_64__)
namespace avx2 { extern const Kernels table; }
namespace avx_vnni { extern const Kernels table; }
namespace avx512 { extern const Kernels table; }
namespace avx512_vnni { extern const Kernels table; }
#elif defined(__aarch64__)
namespace neon { extern const Kernels table; }
namespace neon_dot { extern const Kernels table; }
#endif
namespace portable { extern const Kernels table; }

namespace {

#if defined(REGARD_EMULATE)
// For tests: other instruction sets are compiled without their instructions.
bool executes(const Kernels &) { return true; }
#elif defined(__x86_64__)
// A register of a leaf of CPUID; the operating system saves the vectors if __builtin_cpu_supports says so.
struct Leaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  explicit Leaf(unsigned leaf, unsigned part = 0) { __get_cpuid_count(leaf, part, &eax, &ebx, &ecx, &edx); }
};

bool executes(const Kernels &table) {
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                  __builtin_cpu_supports("bmi2") && (Leaf(1).ecx >> 22 & 1) && (Leaf(1).ecx >> 29 & 1) &&  // movbe, f16c
                  (Leaf(0x80000001).ecx >> 5 & 1);                                                         // lzcnt
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  if (&table == &avx512_vnni::table) return v4 && __builtin_cpu_supports("avx512vnni");
  if (&table == &avx512::table) return v4;
  if (&table == &avx_vnni::table) return v3 && (Leaf(7, 1).eax >> 4 & 1);
  if (&table == &avx2::table) return v3;
  return true;
}
#elif defined(__aarch64__)
bool executes(const Kernels &table) {
  if (&table != &neon_dot::table) return true;
#if defined(__linux__)
  return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
#else
  return true;  // every Mac of this kind
#endif
}
#else
bool executes(const Kernels &) { return true; }
#endif

const Kernels *const tables[] = {  // the best first
#if defined(__x86_64__)
    &avx512_vnni::table, &avx512::table, &avx_vnni::table, &avx2::table,
#elif defined(__aarch64__)
    &neon_dot::table, &neon::table,
#endif
    &portable::table};

std::atomic<const Kernels *> chosen{nullptr};

const Kernels *best() {
  for (const Kernels *table : tables)
    if (executes(*table)) return table;
  return &portable::table;
}

}  // namespace

const Kernels &kernels() {
  if (const Kernels *table = chosen.load(std::memory_order_relaxed)) return *table;
  const Kernels *table = best(), *none = nullptr;
  chosen.compare_exchange_strong(none, table);
  return *chosen.load();
}

}  // namespace regard

using namespace regard;

extern "C" {

const char *regard_isa() { return kernels().name; }

// The instruction sets that this processor executes, the best first, separated by spaces.
const char *regard_isas() {
  static const std::string names = [] {
    std::string joined;
    for (const Kernels *table : tables)
      if (executes(*table)) joined += std::string(joined.empty() ? "" : " ") + table->name;
    return joined;
  }();
  return names.c_str();
}

int regard_set_isa(const char *name) {
  return status_of([&] {
    for (const Kernels *table : tables)
      if (!std::strcmp(table->name, name) && executes(*table)) return chosen.store(table);
    throw std::invalid_argument("this processor does not execute the instruction set");
  });
}

}  // extern "C"
