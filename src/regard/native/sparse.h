// Arguments and functions of sparse.cpp; attention/sparse_kernel.py has the same structs.

#pragma once

#include <cstdint>

#pragma GCC visibility push(default)
extern "C" {

struct Strided {  // a tensor (row, head, token, component) with its strides; the last stride is 1
  float *at;
  int64_t row, head, token;
};

struct Sparse {
  int rows, heads, length, keys, head_dim;
  int dilation, before, after;  // a query attends to keys `before` … `after` steps of `dilation` around it
  int tiles, ranges, plans;
  const int *query_tiles;       // [tiles][2]: from, to
  const int *key_ranges;        // [plans][tiles][ranges][2]: from, to; plans = 1: the same for all rows
  // [rows][length], [rows][keys]: a query attends only to keys of its label; may be null
  const int *query_labels, *key_labels;
  Strided q, k, v, output;
  float *log_sum;               // [rows][heads][length]: log Σ e^s; null without a backward pass
  Strided grad_output, grad_q, grad_k, grad_v;
};

// Each returns a Status (status.h).
int regard_sparse(const Sparse *args, int threads);
int regard_sparse_backward(const Sparse *args, int threads);

}  // extern "C"
#pragma GCC visibility pop
