// Sparse attention: its tiles (kernels/sparse_tiles.h), shared among threads.

#include <atomic>
#include <vector>

#include "kernels.h"
#include "sparse.h"
#include "status.h"
#include "threads.h"

using namespace regard;

extern "C" {

int regard_sparse(const Sparse *args, int threads) {
  return status_of([&] {
    std::atomic<int> next{0};
    pool().run(threads, [&](Team) {
      std::vector<float> buffer(sparse_buffer_size(args->head_dim));
      const int items = args->rows * args->heads * args->tiles;
      for (int item; (item = next.fetch_add(1)) < items;) {
        const int head = item / args->tiles;
        kernels().sparse_forward(*args, head / args->heads, head % args->heads, item % args->tiles, buffer.data());
      }
    });
  });
}

// Tiles share keys, so one thread computes all tiles of a head of a row.
int regard_sparse_backward(const Sparse *args, int threads) {
  return status_of([&] {
    std::atomic<int> next{0};
    pool().run(threads, [&](Team) {
      std::vector<float> buffer(sparse_buffer_size(args->head_dim));
      for (int head; (head = next.fetch_add(1)) < args->rows * args->heads;)
        for (int tile = 0; tile < args->tiles; tile++)
          kernels().sparse_backward(*args, head / args->heads, head % args->heads, tile, buffer.data());
    });
  });
}

}  // extern "C"
