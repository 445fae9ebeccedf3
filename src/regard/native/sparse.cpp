// Attention over some of the pairs, forward and back: a tile of queries with the keys it looks at.
//
// A tile is up to 64 queries in a row; it meets its keys 64 at a time. The scores of such a meeting,
// its keys and its values stay in the nearest caches, and nothing of them outlives it: the softmax is
// taken as keys come by (Milakov and Gimelshein 2018), and on the backward pass the weights come again out
// of queries, keys and the logarithm of each query's sum (Dao et al. 2022).
//
//   forward   s = k qᵀ   p = e^(s − most)   o = pᵀ v / Σ p
//   back      p = e^(s − total)   dv = p do   ds = p (v doᵀ − do·o)   dk = ds q   dq = dsᵀ k
//
// Scores lie as [key][query]. So eight queries stand side by side in whatever is done to each, keys
// and values are read as they lie, and only the queries of a tile are turned, once.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "threads.h"
#include "vectors.h"

using namespace regard;

// ---------------------------------------------------------------- what Python fills in

extern "C" {

struct Strided {  // vectors of one head: how many numbers from one to the next of each
  float *at;
  int64_t row, head, word;
};

struct Sparse {
  int rows, heads, words, keys, size;
  int dilation, before, after;  // a query sees keys from so many before it to so many after, `dilation` dilation
  int tiles, ranges, plans;
  const int *queries;           // [tiles][2]: from, to
  const int *key_ranges;         // [plans][tiles][ranges][2]: from, to; one plan is for all rows
  const int *asking, *asked;    // [rows][words], [rows][keys]: only equals see each other; may be absent
  Strided q, k, v, found;
  float *total;                 // [rows][heads][words]: log Σ e^s; absent where there is no backward pass
  Strided toward, of_q, of_k, of_v;
};

}  // extern "C"

namespace {

constexpr int TILE = 64;    // queries
constexpr int CHUNK = 64;   // keys
constexpr int EIGHTS = TILE / 8;
constexpr int WIDE = 16;    // columns of a product at a time
constexpr int TALL = 6;     // rows
constexpr float NOTHING = -std::numeric_limits<float>::infinity();

inline int up(int count) { return (count + WIDE - 1) / WIDE * WIDE; }
inline f8 larger(f8 one, f8 other) { return one > other ? one : other; }

// e^x, and nothing of what is too small for a number.
inline f8 vanishing(f8 x) { return x < all(-87.0f) ? all(0.0f) : exp8(x); }

// ---------------------------------------------------------------- products

struct Left {  // of a product: its numbers from row to row, and along a row
  const float *at;
  int64_t row, along;
};

// c = keep · c + a b, for ROWS rows and 16 columns; keep is one number for each row, absent for 0.
template <int ROWS>
inline void multiply(Left a, const float *b, int64_t b_step, int depth, float *c, int64_t c_step,
                     const float *keep) {
  f8 sums[ROWS][2];
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; r++)
    for (int half = 0; half < 2; half++)
      sums[r][half] = keep ? all(keep[r]) * load(c + r * c_step + half * 8) : all(0.0f);
  for (int i = 0; i < depth; i++) {
    f8 one = load(b + i * b_step), two = load(b + i * b_step + 8);
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++) {
      f8 x = all(a.at[r * a.row + i * a.along]);
      sums[r][0] += x * one, sums[r][1] += x * two;
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; r++)
    for (int half = 0; half < 2; half++) store(c + r * c_step + half * 8, sums[r][half]);
}

void multiply(int rows, int columns, Left a, const float *b, int64_t b_step, int depth, float *c,
              int64_t c_step, const float *keep) {
  for (int at = 0; at < columns; at += WIDE) {
    const float *from = b + at;
    float *to = c + at;
    switch (rows) {
      case 1: multiply<1>(a, from, b_step, depth, to, c_step, keep); break;
      case 2: multiply<2>(a, from, b_step, depth, to, c_step, keep); break;
      case 3: multiply<3>(a, from, b_step, depth, to, c_step, keep); break;
      case 4: multiply<4>(a, from, b_step, depth, to, c_step, keep); break;
      case 5: multiply<5>(a, from, b_step, depth, to, c_step, keep); break;
      default: multiply<TALL>(a, from, b_step, depth, to, c_step, keep); break;
    }
  }
}

template <typename Act>
inline void in_groups(int count, const Act &act) {
  int groups = (count + TALL - 1) / TALL;
  for (int g = 0; g < groups; g++) {
    int from = count * g / groups;
    act(from, count * (g + 1) / groups - from);
  }
}

// ---------------------------------------------------------------- who meets whom

struct Range {
  int from, to;
  int count() const { return std::max(0, to - from); }
};

struct Meeting {  // of a tile and some keys
  const Sparse &of;
  int queries, keys;
  int ahead;                  // how many steps the first key is ahead of the first query
  const int *asking;          // labels of the tile's queries
  const int *asked;           // of keys, from the first; may be absent

  // Queries that see any of these keys, and keys that any of these queries sees.
  Range seeing(Range some) const {
    return {std::max(0, ahead + some.from - of.after), std::min(queries, ahead + some.to + of.before)};
  }
  Range seen_by(Range some) const {
    return {std::max(0, some.from - of.before - ahead), std::min(keys, some.to + of.after - ahead)};
  }
};

struct Head {  // one head of one row
  const Sparse &of;
  int row, head;

  float *at(const Strided &x, int word) const {
    return x.at + row * x.row + head * x.head + word * x.word;
  }
  float *total() const { return of.total + (int64_t(row) * of.heads + head) * of.words; }

  template <typename Act>
  void meet(int tile, const Act &act) const {
    const int *asks = of.queries + 2 * tile;
    const int *plan = of.key_ranges + (int64_t(of.plans == 1 ? 0 : row) * of.tiles + tile) * of.ranges * 2;
    int queries = (asks[1] - asks[0] + of.dilation - 1) / of.dilation, past = of.keys - of.words;
    int asking[TILE] = {};
    if (of.asked)
      for (int t = 0; t < queries; t++)
        asking[t] = of.asking[int64_t(row) * of.words + asks[0] + t * of.dilation];
    for (int stretch = 0; stretch < of.ranges; stretch++) {
      int end = plan[2 * stretch + 1];
      for (int from = plan[2 * stretch]; from < end; from += CHUNK * of.dilation) {
        int keys = std::min(CHUNK, (end - from + of.dilation - 1) / of.dilation);
        const int *asked = of.asked ? of.asked + int64_t(row) * of.keys + from : nullptr;
        act(Meeting{of, queries, keys, (from - past - asks[0]) / of.dilation, asking, asked}, from);
      }
    }
  }
};

// ---------------------------------------------------------------- parts

// Vectors one behind the other, filled up to whole columns: as they lie if they do, or else copied.
const float *near(const float *from, int64_t step, int count, int size, std::vector<float> &room) {
  int wide = up(size);
  if (step == wide && size == wide) return from;
  room.resize(size_t(CHUNK) * wide);
  for (int i = 0; i < count; i++) {
    std::copy_n(from + i * step, size, &room[size_t(i) * wide]);
    std::fill_n(&room[size_t(i) * wide + size], wide - size, 0.0f);
  }
  return room.data();
}

// [number][query], times `scale`, and zeros where the tile has no query.
void turn(const float *from, int64_t step, int count, int size, float scale, std::vector<float> &to) {
  to.assign(size_t(up(size)) * TILE, 0.0f);
  for (int t = 0; t < count; t++)
    for (int i = 0; i < size; i++) to[size_t(i) * TILE + t] = scale * from[t * step + i];
}

// Products of keys (or values) with the turned queries (or what is sent back), where any is seen.
void compare(const Meeting &m, const float *keys, int wide, const float *turned, float *scores) {
  in_groups(m.keys, [&](int s, int count) {
    Range seeing = m.seeing({s, s + count});
    int from = seeing.from / WIDE * WIDE;
    if (seeing.count())
      multiply(count, up(seeing.to - from), {keys + int64_t(s) * wide, wide, 1}, turned + from, TILE,
               wide, scores + s * TILE + from, TILE, nullptr);
  });
}

const i8 EIGHT = {0, 1, 2, 3, 4, 5, 6, 7};

// −∞ wherever a query does not see a key.
void hide(const Meeting &m, float *scores) {
  for (int s = 0; s < m.keys; s++, scores += TILE) {
    Range seeing = m.seeing({s, s + 1});
    if (seeing.from == 0 && seeing.to == TILE && !m.asked) continue;
    for (int t = 0; t < TILE; t += 8) {
      i8 place = EIGHT + t, seen = (place >= seeing.from) & (place < seeing.to);
      if (m.asked) seen &= load(m.asking + t) == m.asked[s * m.of.dilation];
      store(scores + t, seen ? load(scores + t) : all(NOTHING));
    }
  }
}

struct Running {  // of the softmax of each query
  alignas(32) float most[TILE], sum[TILE], keep[TILE];
  Running() { std::fill_n(most, TILE, NOTHING), std::fill_n(sum, TILE, 0.0f); }

  // Scores become weights against the largest so far; what there was is to be kept by `keep`.
  void take(int keys, float *scores) {
    f8 high[EIGHTS], sums[EIGHTS];
    for (int e = 0; e < EIGHTS; e++) high[e] = load(most + 8 * e), sums[e] = all(0.0f);
    for (int s = 0; s < keys; s++)
#pragma GCC unroll 8
      for (int e = 0; e < EIGHTS; e++) high[e] = larger(load(scores + s * TILE + 8 * e), high[e]);
    for (int e = 0; e < EIGHTS; e++) {
      f8 from = high[e] == all(NOTHING) ? all(0.0f) : high[e];  // who has seen nothing yet
      store(keep + 8 * e, vanishing(load(most + 8 * e) - from));
      store(most + 8 * e, high[e]);
      high[e] = from;
    }
    for (int s = 0; s < keys; s++)
#pragma GCC unroll 8
      for (int e = 0; e < EIGHTS; e++) {
        f8 weight = vanishing(load(scores + s * TILE + 8 * e) - high[e]);
        sums[e] += weight;
        store(scores + s * TILE + 8 * e, weight);
      }
    for (int e = 0; e < EIGHTS; e++)
      store(sum + 8 * e, load(sum + 8 * e) * load(keep + 8 * e) + sums[e]);
  }
};

// To each query: keep · what it has + Σ weight · vector, over keys.
void gather(const Meeting &m, const float *weights, const float *vectors, int wide, float *to,
            const float *keep) {
  in_groups(m.queries, [&](int t, int count) {
    Range seen = m.seen_by({t, t + count});
    multiply(count, wide, {weights + seen.from * TILE + t, 1, TILE}, vectors + int64_t(seen.from) * wide,
             wide, seen.count(), to + int64_t(t) * wide, wide, keep + t);
  });
}

const struct Ones {
  float of[TILE];
  Ones() { std::fill_n(of, TILE, 1.0f); }
} ONES;

// To each key: Σ weight · vector, over queries.
void scatter(const Meeting &m, const float *weights, const float *vectors, int wide, float *to,
             int64_t step, int size, std::vector<float> &room) {
  if (size != wide) room.assign(size_t(CHUNK) * wide, 0.0f);
  float *into = size == wide ? to : room.data();
  int64_t into_step = size == wide ? step : wide;
  in_groups(m.keys, [&](int s, int count) {
    Range seeing = m.seeing({s, s + count});
    if (seeing.count())
      multiply(count, wide, {weights + s * TILE + seeing.from, TILE, 1},
               vectors + int64_t(seeing.from) * wide, wide, seeing.count(), into + s * into_step,
               into_step, ONES.of);
  });
  if (size != wide)
    for (int s = 0; s < m.keys; s++)
      for (int i = 0; i < size; i++) to[s * step + i] += room[size_t(s) * wide + i];
}

// ---------------------------------------------------------------- forward

struct Looking {
  std::vector<float> turned, answers, keys, values;
  alignas(32) float scores[CHUNK * TILE];

  void tile(const Head &h, int number) {
    const Sparse &of = h.of;
    const int wide = up(of.size), first = of.queries[2 * number];
    const int count = (of.queries[2 * number + 1] - first + of.dilation - 1) / of.dilation;
    const int64_t k_step = of.k.word * of.dilation, v_step = of.v.word * of.dilation;
    turn(h.at(of.q, first), of.q.word * of.dilation, count, of.size, 1 / std::sqrt(float(of.size)), turned);
    answers.assign(size_t(TILE) * wide, 0.0f);
    Running running;
    h.meet(number, [&](const Meeting &m, int key) {
      compare(m, near(h.at(of.k, key), k_step, m.keys, of.size, keys), wide, turned.data(), scores);
      hide(m, scores);
      running.take(m.keys, scores);
      gather(m, scores, near(h.at(of.v, key), v_step, m.keys, of.size, values), wide, answers.data(),
             running.keep);
    });
    for (int t = 0; t < count; t++) {
      int word = first + t * of.dilation;
      float sum = running.sum[t], share = sum == 0 ? 0 : 1 / sum, *to = h.at(of.found, word);
      for (int i = 0; i < of.size; i++) to[i] = share * answers[size_t(t) * wide + i];
      // Who saw nothing weighs nothing on the backward pass: e^(s − ∞).
      if (of.total) h.total()[word] = sum == 0 ? -NOTHING : running.most[t] + std::log(sum);
    }
  }
};

// ---------------------------------------------------------------- back

struct LookingBack {
  std::vector<float> turned, turned_toward, of_q, keys, values, queries, toward, room;
  alignas(32) float weights[CHUNK * TILE], of_scores[CHUNK * TILE];
  alignas(32) float total[TILE], share[TILE];

  void tile(const Head &h, int number) {
    const Sparse &of = h.of;
    const int wide = up(of.size), first = of.queries[2 * number];
    const int count = (of.queries[2 * number + 1] - first + of.dilation - 1) / of.dilation;
    const float scale = 1 / std::sqrt(float(of.size));
    const float *sent = h.at(of.toward, first);
    const int64_t q_step = of.q.word * of.dilation, sent_step = of.toward.word * of.dilation;
    turn(h.at(of.q, first), q_step, count, of.size, scale, turned);
    turn(sent, sent_step, count, of.size, 1, turned_toward);
    const float *q = near(h.at(of.q, first), q_step, count, of.size, queries);
    const float *wanted = near(sent, sent_step, count, of.size, toward);
    of_q.assign(size_t(TILE) * wide, 0.0f);
    std::fill_n(total, TILE, -NOTHING), std::fill_n(share, TILE, 0.0f);
    for (int t = 0; t < count; t++) {
      int word = first + t * of.dilation;
      const float *answer = h.at(of.found, word);
      total[t] = h.total()[word];
      for (int i = 0; i < of.size; i++) share[t] += sent[t * sent_step + i] * answer[i];
    }
    h.meet(number, [&](const Meeting &m, int key) {
      const int64_t k_step = of.k.word * of.dilation, v_step = of.v.word * of.dilation;
      const float *k = near(h.at(of.k, key), k_step, m.keys, of.size, keys);
      const float *v = near(h.at(of.v, key), v_step, m.keys, of.size, values);
      compare(m, k, wide, turned.data(), weights);
      hide(m, weights);
      compare(m, v, wide, turned_toward.data(), of_scores);
      weigh(m.keys, scale);
      scatter(m, weights, wanted, wide, h.at(of.of_v, key), of.of_v.word * of.dilation, of.size, room);
      scatter(m, of_scores, q, wide, h.at(of.of_k, key), of.of_k.word * of.dilation, of.size, room);
      gather(m, of_scores, k, wide, of_q.data(), ONES.of);
    });
    for (int t = 0; t < count; t++)
      std::copy_n(&of_q[size_t(t) * wide], of.size, h.at(of.of_q, first + t * of.dilation));
  }

  // From scores and the products of values with what is sent back, weights and what goes to scores.
  void weigh(int keys_, float scale) {
    for (int s = 0; s < keys_; s++)
#pragma GCC unroll 8
      for (int e = 0; e < EIGHTS; e++) {
        float *weight_at = weights + s * TILE + 8 * e, *of_score = of_scores + s * TILE + 8 * e;
        f8 weight = vanishing(load(weight_at) - load(total + 8 * e));
        f8 sent = all(scale) * weight * (load(of_score) - load(share + 8 * e));
        store(weight_at, weight);
        store(of_score, weight == all(0.0f) ? all(0.0f) : sent);  // there may be anything where none is seen
      }
  }
};

}  // namespace

// ---------------------------------------------------------------- the door

extern "C" {

void regard_sparse(const Sparse *of, int threads) {
  std::atomic<int> next{0};
  pool().run(threads, [&](Team) {
    Looking looking;
    const int all_of_them = of->rows * of->heads * of->tiles;
    for (int each; (each = next.fetch_add(1)) < all_of_them;) {
      int head = each / of->tiles;
      looking.tile({*of, head / of->heads, head % of->heads}, each % of->tiles);
    }
  });
}

// Tiles share keys, so that each head of each row is one thread's.
void regard_sparse_back(const Sparse *of, int threads) {
  std::atomic<int> next{0};
  pool().run(threads, [&](Team) {
    LookingBack looking;
    for (int head; (head = next.fetch_add(1)) < of->rows * of->heads;)
      for (int tile = 0; tile < of->tiles; tile++)
        looking.tile({*of, head / of->heads, head % of->heads}, tile);
  });
}

}  // extern "C"
