// Packed arrays, unpacked when first used, and attention over them.

const WEIGHT_ONE = 65535; // a weight of 1 in 16 bits

const ARRAYS = { u16: Uint16Array, f32: Float32Array, bits: Uint8Array };

const unpacked = new WeakMap();

/** Return the numbers of a packed array, flat. */
function numbersOf(packed) {
  if (!unpacked.has(packed)) {
    const { buffer } = bytesOf(packed.data);
    packed.data = ""; // the text is not needed again, and may be large
    unpacked.set(packed, new ARRAYS[packed.type](buffer));
  }
  return unpacked.get(packed);
}

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const signs = atob(text);
  const bytes = new Uint8Array(signs.length);
  for (let i = 0; i < signs.length; i += 1) bytes[i] = signs.charCodeAt(i);
  return bytes;
}

/** Return a part of a packed array: the rest of its shape after the first indices. */
function slice(packed, ...indices) {
  const size = packed.shape.slice(indices.length).reduce((all, one) => all * one, 1);
  const start = indices.reduce((sum, index, axis) => sum * packed.shape[axis] + index, 0) * size;
  return numbersOf(packed).subarray(start, start + size);
}

/**
 * Attention weights in several layers and heads, between tokens or between words merged from them.
 * `layerOf(layer)` returns the values of one layer, flat, the value of a weight of 1, and, where it
 * is known, the mask: 1 where a query may attend to a key (`allowed`, flat).
 */
class Attention {
  #layers = new Map();
  #matrices = new Map();
  #received = new Map();

  constructor(about, layers, heads, layerOf, groups = { query: null, key: null }) {
    const { name, title, queries, keys, predicts = [], causal = false } = about;
    Object.assign(this, { name, title, queries, keys, predicts, causal, layers, heads, groups });
    this.layerOf = layerOf;
    // Views are built again only when this changes.
    this.shape = JSON.stringify([name, heads, queries, keys, predicts]);
  }

  layer(layer) {
    if (!this.#layers.has(layer)) this.#layers.set(layer, this.layerOf(layer));
    return this.#layers.get(layer);
  }

  weight(layer, head, query, key) {
    const { values, one } = this.layer(layer);
    return values[(head * this.queries.length + query) * this.keys.length + key] / one;
  }

  mean(layer, heads, query, key) {
    const sum = heads.reduce((all, head) => all + this.weight(layer, head, query, key), 0);
    return sum / heads.length;
  }

  /** Return the mean of some heads, flat, and which rows attend to nothing (`empty`). */
  matrix(layer, heads) {
    const name = `${layer}:${heads}`;
    if (!this.#matrices.has(name)) {
      // A few are cached, so that going back and forth is fast; all of them could fill the memory.
      if (this.#matrices.size > 3) this.#matrices.delete(this.#matrices.keys().next().value);
      this.#matrices.set(name, this.#averaged(layer, heads));
    }
    return this.#matrices.get(name);
  }

  #averaged(layer, heads) {
    const [width, size] = [this.keys.length, this.queries.length * this.keys.length];
    const { values, one } = this.layer(layer);
    const means = new Float32Array(size);
    for (const head of heads) {
      const part = values.subarray(head * size, (head + 1) * size);
      for (let i = 0; i < size; i += 1) means[i] += part[i];
    }
    const empty = new Uint8Array(this.queries.length).fill(1);
    const full = one * Math.max(heads.length, 1);
    for (let i = 0; i < size; i += 1) {
      if (means[i] > 0) empty[Math.floor(i / width)] = 0;
      means[i] /= full;
    }
    return { means, empty };
  }

  /** Return for each head and key the mean weight over the queries. */
  received(layer) {
    if (!this.#received.has(layer)) {
      const { values, one } = this.layer(layer);
      const [rows, width] = [this.queries.length, this.keys.length];
      const sums = range(this.heads).map(() => new Float64Array(width));
      for (let row = 0; row < this.heads * rows; row += 1) {
        const sum = sums[Math.floor(row / rows)];
        for (let key = 0; key < width; key += 1) sum[key] += values[row * width + key];
      }
      this.#received.set(layer, sums.map((sum) => sum.map((all) => all / one / rows)));
    }
    return this.#received.get(layer);
  }

  /** Return whether a weight of 0 is shown as masked: by the mask, or because the row is empty. */
  masked(layer, heads, query, key) {
    if (heads.some((head) => this.weight(layer, head, query, key) > 0)) return false;
    return this.isMasked(layer, query, key) || this.matrix(layer, heads).empty[query] === 1;
  }

  isMasked(layer, query, key) {
    const { allowed } = this.layer(layer);
    return allowed ? allowed[query * this.keys.length + key] === 0 : this.isLater(query, key);
  }

  /** Return the share of pairs that the mask of a layer allows; null where it is unknown. */
  share(layer) {
    const { allowed } = this.layer(layer);
    if (!allowed?.length) return null;
    return once(allowed, "share", () => allowed.reduce((sum, one) => sum + one, 0) / allowed.length);
  }

  isLater(query, key) {
    // With fewer queries than keys, the queries are the last tokens of the text.
    return this.causal && key > query + this.keys.length - this.queries.length;
  }

  /** Return the index of a token, or of the word it is merged into; null where there is none. */
  shown(side, token) {
    const tokens = side === "query" ? this.queries : this.keys;
    const index = token === null || !this.groups[side] ? token : this.groups[side][token];
    return index !== null && index < tokens.length ? index : null;
  }

  /** Return the first token of the word at `index`, or the token itself. */
  token(side, index) {
    return index === null || !this.groups[side] ? index : this.groups[side].indexOf(index);
  }
}

const NO_ATTENTION = new Attention(
  { name: "", title: "", queries: [], keys: [] },
  1,
  1,
  () => ({ values: new Float32Array(0), one: 1 }),
);

/** Compute a value once for an object (a panel, a rollout) and a name. */
const made = new WeakMap();
function once(owner, name, make) {
  if (!made.has(owner)) made.set(owner, new Map());
  const own = made.get(owner);
  if (!own.has(name)) own.set(name, make());
  return own.get(name);
}

function attentionOf(panel) {
  return once(panel, "tokens", () => {
    const [layers, heads] = panel.weights.shape;
    const layerOf = (layer) => ({ ...valuesOf(panel, layer), one: WEIGHT_ONE });
    return new Attention(panel, layers, heads, layerOf);
  });
}

/** Return the weights of a layer. Those of masked pairs are not written; they are 0. */
function valuesOf({ weights, may_attend: mask }, layer) {
  if (!mask) return { values: slice(weights, layer), allowed: null };
  const [, heads, queries, keys] = weights.shape;
  const size = queries * keys;
  const bits = numbersOf(mask);
  const isAllowed = (position) => (bits[position >> 3] >> (position & 7)) & 1;
  const allowed = new Uint8Array(size);
  for (let position = 0; position < size; position += 1) {
    allowed[position] = isAllowed(layer * size + position);
  }
  let next = 0; // index of the first written weight of this layer
  for (let position = 0; position < layer * size; position += 1) next += heads * isAllowed(position);
  const values = new Uint16Array(heads * size);
  const written = numbersOf(weights);
  for (let head = 0; head < heads; head += 1) {
    for (let position = 0; position < size; position += 1) {
      if (allowed[position]) values[head * size + position] = written[next++];
    }
  }
  return { values, allowed };
}

/** Return the shares of a rollout as attention of one head, from the panel's queries to its keys. */
function attentionOfRollout(rollout, panel) {
  return once(rollout, "tokens", () => {
    const layerOf = (layer) => ({ values: slice(rollout.weights, layer), one: WEIGHT_ONE });
    const about = { ...panel, predicts: [] };
    return new Attention(about, rollout.weights.shape[0], 1, layerOf);
  });
}

// ---------------------------------------------------------------- tokens merged into words

const knowsWords = (panel) => panel.query_words.length > 0 || panel.key_words.length > 0;

function mergedOf(panel) {
  return once(panel, "words", () =>
    merge(attentionOf(panel), panel.query_words, panel.key_words),
  );
}

function mergedRollout(rollout, panel) {
  return once(rollout, "words", () =>
    merge(attentionOfRollout(rollout, panel), panel.query_words, panel.key_words),
  );
}

/** Merge tokens into words: weights are averaged over query tokens and summed over key tokens. */
function merge(tokens, queryWords, keyWords) {
  const queries = groupsOf(queryWords, tokens.queries.length);
  const keys = groupsOf(keyWords, tokens.keys.length);
  const about = {
    name: tokens.name,
    title: tokens.title,
    causal: tokens.causal,
    queries: joined(tokens.queries, queries),
    keys: joined(tokens.keys, keys),
    // The prediction of a word is that of its last token.
    predicts: tokens.predicts.length ? lasts(tokens.predicts, queries) : [],
  };
  const layerOf = (layer) => ({ ...mergedLayer(tokens, layer, queries, keys), one: 1 });
  const groups = { query: queries, key: keys };
  return new Attention(about, tokens.layers, tokens.heads, layerOf, groups);
}

/** Return for each token the index of its word, from 0 in order. */
function groupsOf(words, count) {
  if (!words.length) return range(count);
  const positions = new Map();
  for (const word of words) if (!positions.has(word)) positions.set(word, positions.size);
  return words.map((word) => positions.get(word));
}

function joined(tokens, groups) {
  const words = Array(groups.length ? Math.max(...groups) + 1 : 0).fill("");
  for (const [token, group] of groups.entries()) words[group] += tokens[token];
  return words;
}

function lasts(tokens, groups) {
  const words = [];
  for (const [token, group] of groups.entries()) words[group] = tokens[token];
  return words;
}

function mergedLayer(tokens, layer, queries, keys) {
  const { values, one, allowed } = tokens.layer(layer);
  const [rows, columns] = [new Set(queries).size, new Set(keys).size];
  const members = new Float64Array(rows);
  for (const query of queries) members[query] += 1;
  const sums = new Float32Array(tokens.heads * rows * columns);
  for (let head = 0; head < tokens.heads; head += 1) {
    for (let query = 0; query < queries.length; query += 1) {
      const from = (head * queries.length + query) * keys.length;
      const to = (head * rows + queries[query]) * columns;
      const share = 1 / one / members[queries[query]];
      for (let key = 0; key < keys.length; key += 1) {
        sums[to + keys[key]] += values[from + key] * share;
      }
    }
  }
  return { values: sums, allowed: allowed && mergedMask(allowed, queries, keys, rows, columns) };
}

/** Return the mask of words: allowed where any of their tokens is. */
function mergedMask(allowed, queries, keys, rows, columns) {
  const any = new Uint8Array(rows * columns);
  for (const [query, row] of queries.entries()) {
    for (const [key, position] of keys.entries()) {
      any[row * columns + position] |= allowed[query * keys.length + key];
    }
  }
  return any;
}
