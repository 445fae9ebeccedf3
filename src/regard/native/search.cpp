#include "search.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "status.h"

namespace regard {
namespace {

class GreedySearch : public Search {
 public:
  GreedySearch(const Stack &s, Row prompt, const float *source, int source_count, const Decoding &how)
      : Search(std::move(prompt), source, source_count), vocabulary_(s.vocabulary), limit_(how.limit), end_(how.end) {
    if (limit_ < 1) rows.clear();
  }

  void visit(int, const float *logits) override { best_ = kernels().highest(logits, vocabulary_); }

  void advance() override {
    last_ = best_ == end_ ? -1 : best_;
    if (last_ >= 0) tokens_.push_back(last_);
    if (last_ >= 0 && int(tokens_.size()) < limit_) rows[0].id = last_;
    else rows.clear();
  }

  int last_token() const override { return last_; }

  void write(Found &found) const override {
    found.count = 1;
    found.counts[0] = int(tokens_.size());
    std::copy(tokens_.begin(), tokens_.end(), found.tokens);
  }

 private:
  const int vocabulary_, limit_, end_;
  int best_ = 0, last_ = -1;
  std::vector<int> tokens_;
};

class BeamSearch : public Search {
 public:
  BeamSearch(const Stack &s, Row prompt, const float *source, int source_count, const Decoding &how)
      : Search(std::move(prompt), source, source_count), vocabulary_(s.vocabulary), how_(how),
        norms_(how.norms, how.norms + how.limit + 2), ranked_(std::min(how.width, s.vocabulary)) {
    tree_.push_back({-1, rows[0].id});
    live_.push_back({0.0f, 0});
  }

  void prepare() override {
    const size_t count = rows.size();
    log_sum_.resize(count), end_.resize(count), values_.resize(count * ranked_), ids_.resize(count * ranked_);
  }

  void visit(int row, const float *logits) override {
    const size_t first = size_t(row) * ranked_;
    kernels().rank(logits, vocabulary_, ranked_, &log_sum_[row], &values_[first], &ids_[first]);
    end_[row] = logits[how_.end];
  }

  void advance() override {
    const int length = ++length_;  // of a hypothesis that ends now: without the first id, with the end
    const bool must_end = length > how_.limit;
    std::vector<Candidate> continued;
    for (const Candidate &candidate : candidates(must_end)) {
      if (candidate.id != how_.end) {
        continued.push_back(candidate);
        continue;
      }
      const bool itself = !must_end || ids_[size_t(candidate.origin) * ranked_] == how_.end;
      finish({candidate.log_p / float(norms_[length]), live_[candidate.origin].token, itself});
    }
    std::vector<Live> live;
    std::vector<Row> kept;
    for (const Candidate &candidate : continued) {
      if (double(candidate.log_p) <= threshold_) continue;
      live.push_back({candidate.log_p, int(tree_.size())});
      tree_.push_back({live_[candidate.origin].token, candidate.id});
      kept.push_back({candidate.id, rows[candidate.origin].cached});
    }
    live_.swap(live), rows.swap(kept);
  }

  void write(Found &found) const override {
    found.count = int(finished_.size());
    for (size_t n = 0; n < finished_.size(); n++) {
      std::vector<int> ids;
      for (int token = finished_[n].token; tree_[token].parent >= 0; token = tree_[token].parent)
        ids.push_back(tree_[token].id);
      std::copy(ids.rbegin(), ids.rend(), found.tokens + n * how_.limit);
      found.counts[n] = int(ids.size()), found.scores[n] = finished_[n].score;
      found.ended_itself[n] = finished_[n].itself;
    }
  }

 private:
  struct Token {  // in the tree of generated tokens
    int parent, id;
  };
  struct Live {  // the hypothesis of a row
    float log_p;
    int token;  // the last one
  };
  struct Candidate {
    float log_p;
    int origin;  // index of the live hypothesis that it continues
    int id;
  };
  struct Finished {
    float score;
    int token;    // the last one before the end
    bool itself;  // false if the limit ended it and the model would continue
  };

  // The candidates with the highest log p; of equal ones, the earlier hypothesis first.
  std::vector<Candidate> candidates(bool must_end) const {
    std::vector<Candidate> all;
    for (int h = 0; h < int(live_.size()); h++) {
      const float log_p = live_[h].log_p;
      if (must_end) {
        all.push_back({log_p + (end_[h] - log_sum_[h]), h, how_.end});
        continue;
      }
      for (int k = 0; k < ranked_; k++) {
        const size_t at = size_t(h) * ranked_ + k;
        all.push_back({log_p + (values_[at] - log_sum_[h]), h, ids_[at]});
      }
    }
    std::stable_sort(all.begin(), all.end(), [](auto &one, auto &other) { return one.log_p > other.log_p; });
    all.resize(std::min(all.size(), size_t(how_.width)));
    return all;
  }

  void finish(Finished hypothesis) {
    total_++;
    auto place = std::upper_bound(finished_.begin(), finished_.end(), hypothesis,
                                  [](auto &one, auto &other) { return one.score > other.score; });
    finished_.insert(place, hypothesis);
    if (int(finished_.size()) > how_.n_best) finished_.pop_back();
    const bool enough = how_.early_stopping && total_ >= how_.width;
    if (enough) threshold_ = INFINITY;
    else if (int(finished_.size()) == how_.n_best)  // log p only falls: the best score of a longest one
      threshold_ = double(finished_.back().score) * norms_[how_.limit + 1];
  }

  const int vocabulary_;
  const Decoding how_;
  const std::vector<double> norms_;
  const int ranked_;  // tokens of each row that can be among the candidates
  int length_ = 0;
  std::vector<Token> tree_;
  std::vector<Live> live_;
  std::vector<Finished> finished_;  // best first
  int total_ = 0;                   // finished, also those that were not among the best
  double threshold_ = -INFINITY;    // log p at or below which a hypothesis is pruned
  // Of the logits of each row: log Σ exp, the highest with their ids, and that of the end.
  std::vector<float> log_sum_, values_, end_;
  std::vector<int> ids_;
};

}  // namespace
}  // namespace regard

using namespace regard;

int64_t Batch::join(const Step &step, int r, float *const *cached, const Decoding &how) {
  Row prompt{step.ids[r], {cached, cached + step.past[r]}};
  const float *source = step.source ? step.source[r] : nullptr;
  const int count = step.source ? step.source_count[r] : 0;
  std::unique_ptr<Search> search;
  if (how.width) search = std::make_unique<BeamSearch>(stack_, std::move(prompt), source, count, how);
  else search = std::make_unique<GreedySearch>(stack_, std::move(prompt), source, count, how);
  requests_.push_back({++joined_, std::move(search), std::max(1, how.width), {}});
  return joined_;
}

void Batch::leave(int64_t number) {
  std::erase_if(requests_, [&](const Request &request) { return request.number == number; });
}

void Batch::advance(const Step *others, int *finite, Buffers &buffers, int threads) {
  ids_.clear(), starts_.assign(1, 0), past_.clear(), source_count_.clear(), outputs_.clear();
  cache_.clear(), source_.clear(), visited_.clear();
  if (others) add_rows(*others);
  const int num_others = int(outputs_.size());
  for (Request &request : requests_)
    if (!request.search->rows.empty()) add_rows(request);
  if (past_.empty()) return;
  const Step step{int(past_.size()), ids_.data(), starts_.data(), past_.data(), cache_.data(),
                  source_.empty() ? nullptr : source_.data(), source_count_.data(),
                  int(outputs_.size()), outputs_.data(), nullptr};
  visit_step(stack_, step, buffers, threads, [&](int r, const float *logits) {
    const bool is_finite = kernels().is_finite(logits, stack_.vocabulary);
    if (r < num_others) {
      std::memcpy(others->logits + size_t(r) * stack_.vocabulary, logits, sizeof(float) * stack_.vocabulary);
      finite[r] = is_finite;
      return;
    }
    const Visited &visited = visited_[r - num_others];
    visited.request->finite[visited.row] = is_finite;
    if (is_finite) visited.request->search->visit(visited.row, logits);
  });
  for (Request &request : requests_) {
    Search &search = *request.search;
    if (search.rows.empty()) continue;
    request.failed = std::count(request.finite.begin(), request.finite.end(), 0) > 0;
    if (request.failed) search.rows.clear();
    else search.advance();
  }
}

void Batch::add_rows(const Step &others) {
  float *const *cached = others.cache;
  for (int r = 0; r < others.rows; r++) {
    const int added = others.starts[r + 1] - others.starts[r], length = others.past[r] + added;
    past_.push_back(others.past[r]);
    cache_.insert(cache_.end(), cached, cached + length);
    cached += length;
    if (others.source) source_.push_back(others.source[r]), source_count_.push_back(others.source_count[r]);
  }
  ids_.assign(others.ids, others.ids + others.starts[others.rows]);
  starts_.assign(others.starts, others.starts + others.rows + 1);
  outputs_.assign(others.outputs, others.outputs + others.num_outputs);
}

void Batch::add_rows(Request &request) {
  Search &search = *request.search;
  const size_t rows = search.rows.size(), size = cache_row(stack_);
  search.prepare();
  search.blocks.emplace_back(new float[size * rows]);
  request.finite.assign(rows, 0);
  for (size_t r = 0; r < rows; r++) {
    Row &row = search.rows[r];
    past_.push_back(int(row.cached.size()));
    row.cached.push_back(search.blocks.back().get() + r * size);
    cache_.insert(cache_.end(), row.cached.begin(), row.cached.end());
    if (search.source) source_.push_back(search.source), source_count_.push_back(search.source_count);
    outputs_.push_back(int(ids_.size()));
    ids_.push_back(row.id);
    starts_.push_back(int(ids_.size()));
    visited_.push_back({&request, int(r)});
  }
}

void Batch::report(Progress &progress) const {
  progress.count = int(requests_.size());
  for (size_t i = 0; i < requests_.size(); i++) {
    const Request &request = requests_[i];
    progress.numbers[i] = request.number, progress.tokens[i] = request.search->last_token();
    progress.states[i] = request.failed ? NO_NUMBERS : request.search->rows.empty() ? DONE : RUNNING;
  }
}

void Batch::write(int64_t number, Found &found) const {
  for (const Request &request : requests_)
    if (request.number == number) return request.search->write(found);
  throw std::out_of_range("the request is not in the batch");
}

bool Batch::has_room(const Decoding &how, int max_rows) const {
  int rows = 0;
  for (const Request &request : requests_) rows += request.width;
  return rows == 0 || rows + std::max(1, how.width) <= max_rows;
}

void Batch::finish(const std::function<Found &(int64_t number)> &found) {
  std::erase_if(requests_, [&](const Request &request) {
    if (request.failed) throw NotFinite();
    if (!request.search->rows.empty()) return false;
    request.search->write(found(request.number));
    return true;
  });
}
