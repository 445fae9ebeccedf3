// Greedy decoding and beam search of requests that are decoded together, a step at a time.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "forward.h"

namespace regard {

// A row of the decoder. Its cached keys and values are never moved: it has a pointer to those of each of its
// tokens, which rows of the same origin share.
struct Row {
  int id;  // the next one to append
  std::vector<float *> cached;
};

// One request. Between two steps it has the rows of the next one; without any it is done.
class Search {
 public:
  Search(Row prompt, const float *source, int source_count) : source(source), source_count(source_count) {
    rows.push_back(std::move(prompt));
  }
  virtual ~Search() = default;

  virtual void prepare() {}                              // before the rows of a step are visited
  virtual void visit(int row, const float *logits) = 0;  // by any thread of the step
  virtual void advance() = 0;                            // after all rows were visited
  virtual int last_token() const { return -1; }          // of greedy decoding
  virtual void write(Found &found) const = 0;

  const float *const source;  // may be null
  const int source_count;
  std::vector<Row> rows;
  std::vector<std::unique_ptr<float[]>> blocks;  // keys and values of generated tokens
};

}  // namespace regard

// Requests that join and leave between steps. The results of each are those that it has alone.
struct Batch {
  explicit Batch(const Stack &stack) : stack_(stack) {}

  // Decode row r of a step from now on, whose earlier tokens have these keys and values.
  int64_t join(const Step &step, int r, float *const *cached, const Decoding &how);
  void leave(int64_t number);

  // Compute the next step of every request and, with it, a step of the caller's rows, if any.
  void advance(const Step *others, int *finite, regard::Buffers &buffers, int threads);

  void report(Progress &progress) const;
  void write(int64_t number, Found &found) const;
  bool is_empty() const { return requests_.empty(); }
  bool has_room(const Decoding &how, int max_rows) const;

  // Write the outputs of the requests that are done, which leave. Throws NotFinite if one has failed.
  void finish(const std::function<Found &(int64_t number)> &found);

 private:
  struct Request {
    int64_t number;
    std::unique_ptr<regard::Search> search;
    int width;                 // rows of the decoder that it may have
    std::vector<char> finite;  // of each row in the last step
    bool failed = false;
  };
  struct Visited {
    Request *request;
    int row;
  };

  void add_rows(const Step &others);
  void add_rows(Request &request);

  const Stack &stack_;
  std::vector<Request> requests_;
  int64_t joined_ = 0;
  // The step of all rows, those of the caller first.
  std::vector<int> ids_, starts_, past_, source_count_, outputs_;
  std::vector<float *> cache_;
  std::vector<const float *> source_;
  std::vector<Visited> visited_;  // what the logits of each row of a request are for
};
