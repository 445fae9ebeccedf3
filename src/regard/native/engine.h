// Arguments and functions of the engine; engine/library.py has the same structs.

#pragma once

#include <cstdint>

#pragma GCC visibility push(default)
extern "C" {

struct Matrix;  // a linear map with packed weights

struct Norm {
  const float *gain, *bias;  // may be null
  float eps;
  int kind;  // 0 none, 1 layer, 2 root mean square
};

struct Layer {
  Norm attention_norm, cross_norm, feed_forward_norm;
  Matrix *project, *merge;              // queries, keys and values in one; W_O
  Matrix *cross_query, *cross_merge;    // null without a source
  Matrix *gate, *up_proj, *down_proj;   // gate may be null
  const float *distance_bias;           // (heads, 2·capacity − 1) by key − query, may be null
  // Of this layer: heads may have been pruned. heads / kv_heads heads share keys and values.
  int heads, kv_heads, cross_heads, cross_kv_heads;
};

struct Stack {
  int dim, heads, kv_heads, head_dim, ffn_dim, layers, capacity, vocabulary;  // heads: the most of any layer
  int norm_first, activation, rotary;   // rotary: 0 none, 1 adjacent pairs, 2 halves
  float embedding_scale, score_scale;
  const float *tokens;                  // (vocabulary or more, dim), or null:
  const Matrix *token_matrix;           // the embeddings are the weights of this matrix, in 32 bits
  const float *positions;               // (capacity, dim), may be null
  const float *cosines, *sines;         // (capacity, head_dim / 2), if rotary
  Norm embedding_norm, final_norm;
  const Layer *layer;
  const Matrix *output;
};

struct Encoding {
  int sentences, tokens;
  const int *ids, *starts;              // (tokens), (sentences + 1)
  float *states;                        // (tokens, dim)
};

// New ids of each row, one or more: those of row r are ids[starts[r]] to ids[starts[r + 1] − 1].
struct Step {
  int rows;
  const int *ids, *starts;              // (tokens), (rows + 1)
  const int *past;                      // (rows): number of earlier tokens
  float *const *cache;                  // row by row, the keys and values of its tokens, the new ones last; each is
                                        // (layers, 2, kv_heads·head_dim)
  const float *const *source;           // of each row, (source tokens, layers, 2, kv_heads·head_dim); may be null
  const int *source_count;              // of each row
  int num_outputs;
  const int *outputs;                   // (num_outputs): the tokens after which logits are computed
  float *logits;                        // (num_outputs, vocabulary)
};

// How a request is decoded: greedily, or by beam search as decoding/beam.py describes it: it ends when no live
// hypothesis can be among its best.
struct Decoding {
  int limit, end;                       // maximum number of new tokens; id of the end token
  int width;                            // live hypotheses; 0: greedy, append the token of the highest logit
  int n_best;                           // hypotheses that are returned
  int early_stopping;                   // it ends when `width` hypotheses are finished
  const double *norms;                  // (limit + 2): length^α, of beam search
};

// The outputs of a request, best first.
struct Found {
  int count;                            // at most n_best
  int *tokens, *counts;                 // (n_best, limit), (n_best)
  float *scores;                        // (n_best): log p / length^α, of beam search
  int *ended_itself;                    // (n_best): 0 if the limit ended it and the model would continue; of beam search
};

struct Batch;  // requests that are decoded together, a step at a time; they join and leave between steps

enum RequestState { RUNNING = 0, DONE = 1, NO_NUMBERS = 2 };  // the last: its logits are not finite

// All requests of a batch, in the order in which they joined.
struct Progress {
  int count;
  int64_t *numbers;
  int *tokens;                          // of the last step, by greedy decoding; −1: none
  int *states;                          // RequestState
};

// Each returns a Status (status.h). Ids and sizes are not checked here: the callers do.
int regard_matrix(const float *weights, const float *bias, int outputs, int inputs, int bits, Matrix **matrix);
int regard_apply(const Matrix *matrix, const float *x, int rows, float *y, int threads);
int regard_rank(const float *x, int rows, int size, int count, float *log_sums, float *values, int *indices,
                int threads);
int regard_encode(const Stack *stack, const Encoding *encoding, int threads);
// y (rows, outputs) = norm(g(W x + b)) of each row, g: a code of enum Activation (kernels.h).
int regard_transform(const Matrix *matrix, int activation, const Norm *norm, const float *x, int rows, float *y,
                     int threads);
// Attention pooling: Σ_j softmax_j(query · x_j / √dim) x_j over the states x (tokens, dim) of each sentence.
int regard_pool(const float *query, const float *states, const int *starts, int sentences, int dim, float *pooled,
                int threads);
int regard_step(const Stack *stack, const Step *step, int threads);
// Decode each row of a step, which has one id for each, after `past`; starts and outputs are not used. The next row
// begins when all hypotheses of those that are being decoded, and its own, are at most max_rows.
int regard_decode(const Stack *stack, const Step *step, const Decoding *how, Found *found, int max_rows, int threads);

int regard_batch(const Stack *stack, Batch **batch);
// The same for a step of one row from now on; what the step points to stays until the request leaves.
int regard_join(Batch *batch, const Step *step, const Decoding *how, int64_t *number);
// Compute the next step of every request and, with it, a step of the caller's rows. finite: of each of its outputs.
int regard_advance(Batch *batch, const Step *others, int *finite, int threads, Progress *progress);
int regard_found(const Batch *batch, int64_t number, Found *found);
int regard_leave(Batch *batch, int64_t number);
void regard_free_batch(Batch *batch);

void regard_free_matrix(Matrix *matrix);
const char *regard_isa();             // the instruction set in use
const char *regard_isas();            // all that this processor executes, the best first
int regard_set_isa(const char *name); // returns a Status: use another one
int regard_interface();               // the version of these structs and functions
const char *regard_error_message();   // of this thread's last call that failed

}  // extern "C"
#pragma GCC visibility pop
