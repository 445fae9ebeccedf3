// Test whether AMX executes. Some virtual machines announce it in CPUID, the kernel grants it, and
// its first instruction raises a signal; oneDNN (torch) trusts CPUID and takes the process down.

extern "C" [[gnu::visibility("default")]] int regard_amx_executes();

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <immintrin.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr int kRequestPermission = 0x1023;                  // ARCH_REQ_XCOMP_PERM
constexpr int kTileData = 18;                               // XFEATURE_XTILEDATA
constexpr unsigned kBfloat16 = 1u << 22, kTile = 1u << 24;  // CPUID leaf 7, EDX

bool announced() {
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kTile) && (d & kBfloat16);
}

struct alignas(64) TileConfig {
  unsigned char palette = 1, start_row = 0, reserved[14] = {};
  unsigned short row_bytes[16] = {64, 64, 64};
  unsigned char rows[16] = {16, 16, 16};
};

// In read-only memory: GCC declares that ldtilecfg reads 8 bytes, and would leave out the other 56 of a
// local variable, after which the product raises SIGILL on every processor.
constexpr TileConfig CONFIG;

__attribute__((target("amx-tile,amx-bf16"))) void multiply_tiles() {
  _tile_loadconfig(&CONFIG);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_dpbf16ps(0, 1, 2);
  _tile_release();
}

}  // namespace

// In a child process: where the state of the tiles is broken, no signal handler returns.
int regard_amx_executes() {
  if (!announced()) return 0;
  const pid_t child = fork();
  if (child < 0) return 0;
  if (child == 0) {
    signal(SIGILL, SIG_DFL);
    signal(SIGSEGV, SIG_DFL);
    if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) _exit(1);
    multiply_tiles();
    _exit(0);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

#else

int regard_amx_executes() { return 0; }

#endif
