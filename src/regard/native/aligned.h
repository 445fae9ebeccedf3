// Memory that begins at a cache line, so that no vector lies in two of them.

#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace regard {

constexpr std::align_val_t CACHE_LINE{64};

template <typename T>
struct AlignedAllocator {
  using value_type = T;

  AlignedAllocator() = default;
  template <typename U>
  AlignedAllocator(const AlignedAllocator<U> &) {}

  T *allocate(size_t count) { return static_cast<T *>(::operator new(count * sizeof(T), CACHE_LINE)); }
  void deallocate(T *memory, size_t) { ::operator delete(memory, CACHE_LINE); }

  template <typename U>
  bool operator==(const AlignedAllocator<U> &) const {
    return true;
  }
};

template <typename T>
using Aligned = std::vector<T, AlignedAllocator<T>>;

}  // namespace regard
