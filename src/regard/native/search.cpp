#include "search.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

namespace regard {
namespace {

// The rows that are being generated. Their cached keys and values are never moved: a row has pointers
// to those of each of its tokens, which rows of the same origin share.
class Rows {
 public:
  Rows(const Stack &stack, const Step &before, Buffers &buffers, int threads)
      : stack_(stack), step_(before), buffers_(buffers), threads_(threads) {
    float *const *cache = before.cache;
    for (int r = 0; r < before.rows; r++) {
      cached_.emplace_back(cache, cache + before.past[r]);
      cache += before.past[r];
      if (before.source) source_.push_back(before.source[r]), count_.push_back(before.source_count[r]);
    }
  }

  // Append an id to each row.
  void step(const std::vector<int> &ids, const Visit &visit) {
    const size_t rows = ids.size(), size = cache_row(stack_);
    blocks_.emplace_back(new float[size * rows]);
    past_.clear(), all_.clear(), numbers_.resize(rows + 1);
    for (size_t r = 0; r < rows; r++) {
      past_.push_back(int(cached_[r].size()));
      cached_[r].push_back(blocks_.back().get() + r * size);
      all_.insert(all_.end(), cached_[r].begin(), cached_[r].end());
    }
    std::iota(numbers_.begin(), numbers_.end(), 0);
    step_.rows = step_.num_outputs = int(rows);
    step_.ids = ids.data(), step_.starts = step_.outputs = numbers_.data();
    step_.past = past_.data(), step_.cache = all_.data();
    if (step_.source) step_.source = source_.data(), step_.source_count = count_.data();
    visit_step(stack_, step_, buffers_, threads_, visit);
  }

  // Keep these rows, in this order; a row may be repeated.
  void reorder(const std::vector<int> &rows) {
    std::vector<std::vector<float *>> cached;
    std::vector<const float *> source;
    std::vector<int> count;
    cached.reserve(rows.size());
    for (int r : rows) {
      cached.push_back(cached_[r]);
      if (step_.source) source.push_back(source_[r]), count.push_back(count_[r]);
    }
    cached_.swap(cached), source_.swap(source), count_.swap(count);
  }

 private:
  const Stack &stack_;
  Step step_;
  Buffers &buffers_;
  const int threads_;
  std::vector<std::vector<float *>> cached_;  // of each row, a pointer for each token
  std::vector<const float *> source_;         // and those of its source
  std::vector<int> count_;
  std::vector<float *> all_;
  std::vector<int> past_, numbers_;           // numbers_: 0, 1, 2, …
  std::vector<std::unique_ptr<float[]>> blocks_;
};

struct Token {  // in the tree of generated tokens
  int parent, id;
};

struct Live {
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

struct Row {
  int number;
  std::vector<Live> live;
  std::vector<Finished> finished;  // best first
  int total = 0;                   // finished, also those that were not among the best
  double threshold = -INFINITY;    // log p at or below which a hypothesis is pruned
};

// What the search needs of the logits of each hypothesis: log Σ exp, the highest, and that of the end.
struct Ranking {
  int width;
  std::vector<float> log_sum, values, end;
  std::vector<int> ids;

  void prepare(size_t rows) {
    log_sum.resize(rows), end.resize(rows), values.resize(rows * width), ids.resize(rows * width);
  }
};

// The candidates with the highest log p; of equal ones, the earlier hypothesis first.
std::vector<Candidate> candidates(const Row &row, const Ranking &ranking, int first, bool must_end, const Beam &beam) {
  std::vector<Candidate> all;
  for (int h = 0; h < int(row.live.size()); h++) {
    const float log_p = row.live[h].log_p, log_sum = ranking.log_sum[first + h];
    if (must_end) {
      all.push_back({log_p + (ranking.end[first + h] - log_sum), h, beam.end});
      continue;
    }
    for (int k = 0; k < ranking.width; k++) {
      const size_t at = size_t(first + h) * ranking.width + k;
      all.push_back({log_p + (ranking.values[at] - log_sum), h, ranking.ids[at]});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](auto &one, auto &other) { return one.log_p > other.log_p; });
  all.resize(std::min(all.size(), size_t(beam.width)));
  return all;
}

void finish(Row &row, Finished hypothesis, const Beam &beam) {
  row.total++;
  auto place = std::upper_bound(row.finished.begin(), row.finished.end(), hypothesis,
                                [](auto &one, auto &other) { return one.score > other.score; });
  row.finished.insert(place, hypothesis);
  if (int(row.finished.size()) > beam.n_best) row.finished.pop_back();
  const bool enough = beam.early_stopping && row.total >= beam.width;
  if (enough) row.threshold = INFINITY;
  else if (int(row.finished.size()) == beam.n_best)  // log p only falls: the best score of a longest one
    row.threshold = double(row.finished.back().score) * beam.norms[beam.limits[row.number] + 1];
}

// Continue the hypotheses of a row; add those of the decoder's rows that they descend from to `kept`.
void advance(Row &row, const Ranking &ranking, int first, int length, const Beam &beam, std::vector<Token> &tree,
             std::vector<int> &kept) {
  const bool must_end = length > beam.limits[row.number];
  std::vector<Candidate> continued;
  for (const Candidate &candidate : candidates(row, ranking, first, must_end, beam)) {
    if (candidate.id != beam.end) {
      continued.push_back(candidate);
      continue;
    }
    const bool itself = !must_end || ranking.ids[size_t(first + candidate.origin) * ranking.width] == beam.end;
    finish(row, {candidate.log_p / float(beam.norms[length]), row.live[candidate.origin].token, itself}, beam);
  }
  std::vector<Live> live;
  for (const Candidate &candidate : continued) {
    if (double(candidate.log_p) <= row.threshold) continue;
    live.push_back({candidate.log_p, int(tree.size())});
    tree.push_back({row.live[candidate.origin].token, candidate.id});
    kept.push_back(first + candidate.origin);
  }
  row.live.swap(live);
}

void write(const Row &row, const std::vector<Token> &tree, const Beam &beam) {
  beam.num_found[row.number] = int(row.finished.size());
  for (size_t n = 0; n < row.finished.size(); n++) {
    const size_t at = size_t(row.number) * beam.n_best + n;
    std::vector<int> ids;
    for (int token = row.finished[n].token; tree[token].parent >= 0; token = tree[token].parent)
      ids.push_back(tree[token].id);
    std::copy(ids.rbegin(), ids.rend(), beam.tokens + at * beam.longest);
    beam.counts[at] = int(ids.size()), beam.scores[at] = row.finished[n].score;
    beam.ended_itself[at] = row.finished[n].itself;
  }
}

}  // namespace

void decode_greedily(const Stack &s, const Greedy &g, Buffers &b, int threads) {
  Rows rows(s, g.step, b, threads);
  std::vector<int> active, ids, kept, best(g.step.rows);
  for (int r = 0; r < g.step.rows; r++) {
    g.counts[r] = 0;
    if (g.limits[r] > 0) active.push_back(r), ids.push_back(g.step.ids[r]);
  }
  rows.reorder(active);
  for (int generated = 1; !active.empty(); generated++) {
    rows.step(ids, [&](int r, const float *logits) { best[r] = kernels().highest(logits, s.vocabulary); });
    ids.clear(), kept.clear();
    for (size_t i = 0; i < active.size(); i++) {
      const int r = active[i];
      if (best[i] == g.end) continue;
      g.tokens[size_t(r) * g.longest + g.counts[r]++] = best[i];
      if (generated < g.limits[r]) ids.push_back(best[i]), active[kept.size()] = r, kept.push_back(int(i));
    }
    active.resize(kept.size());
    rows.reorder(kept);
  }
}

void search_beam(const Stack &s, const Beam &beam, Buffers &b, int threads) {
  Rows decoder(s, beam.step, b, threads);
  std::vector<Token> tree;
  std::vector<Row> rows(beam.step.rows);
  for (int r = 0; r < beam.step.rows; r++) {
    rows[r].number = r, rows[r].live = {{0.0f, r}};
    tree.push_back({-1, beam.step.ids[r]});
  }
  Ranking ranking{std::min(beam.width, s.vocabulary), {}, {}, {}, {}};
  std::vector<int> ids, kept;
  for (int length = 1; !rows.empty(); length++) {
    ids.clear(), kept.clear();
    for (const Row &row : rows)
      for (const Live &live : row.live) ids.push_back(tree[live.token].id);
    ranking.prepare(ids.size());
    decoder.step(ids, [&](int r, const float *logits) {
      const size_t first = size_t(r) * ranking.width;
      kernels().rank(logits, s.vocabulary, ranking.width, &ranking.log_sum[r], &ranking.values[first],
                     &ranking.ids[first]);
      ranking.end[r] = logits[beam.end];
    });
    int first = 0;
    for (Row &row : rows) {
      const int live = int(row.live.size());
      advance(row, ranking, first, length, beam, tree, kept);
      first += live;
    }
    std::erase_if(rows, [&](const Row &row) {
      if (row.live.empty()) write(row, tree, beam);
      return row.live.empty();
    });
    decoder.reorder(kept);
  }
}

}  // namespace regard
