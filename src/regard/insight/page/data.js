// What the page was given: packed arrays, unpacked when first looked at, and attention over them.

const WEIGHT_ONE = 65535; // a weight of 1 in 16 bits

const unpacked = new WeakMap();

/** The numbers of a packed array, flat. */
function numbersOf(packed) {
  if (!unpacked.has(packed)) {
    const { buffer } = bytesOf(packed.data);
    packed.data = ""; // the text is not needed again, and may be large
    const numbers = packed.type === "u16" ? new Uint16Array(buffer) : new Float32Array(buffer);
    unpacked.set(packed, numbers);
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

/** Part of a packed array: what is left of its shape once the first indices are chosen. */
function slice(packed, ...indices) {
  const size = packed.shape.slice(indices.length).reduce((all, one) => all * one, 1);
  const start = indices.reduce((sum, index, axis) => sum * packed.shape[axis] + index, 0) * size;
  return numbersOf(packed).subarray(start, start + size);
}

/**
 * Who looks at whom, in some layers and heads: a panel as it came, or with its pieces merged.
 * `layerOf(layer)` gives the values of one layer, flat, and which value is a weight of 1.
 */
class Attention {
  #layers = new Map();
  #matrices = new Map();
  #received = new Map();

  constructor(about, layers, heads, layerOf, groups = { query: null, key: null }) {
    const { name, title, queries, keys, predicts = [], causal = false } = about;
    Object.assign(this, { name, title, queries, keys, predicts, causal, layers, heads, groups });
    this.layerOf = layerOf;
    // Two pictures with the same key look alike, but for their numbers.
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

  /** The mean of some heads, flat, and which rows see nothing at all. */
  matrix(layer, heads) {
    const name = `${layer}:${heads}`;
    if (!this.#matrices.has(name)) {
      // A few are kept, so that going back and forth is quick; all of them could fill the memory.
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
    const blind = new Uint8Array(this.queries.length).fill(1);
    const full = one * Math.max(heads.length, 1);
    for (let i = 0; i < size; i += 1) {
      if (means[i] > 0) blind[Math.floor(i / width)] = 0;
      means[i] /= full;
    }
    return { means, blind };
  }

  /** For each head and key, the mean over the words that look. */
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

  /** Whether `query` could not see `key`: it comes later, or the whole row is empty. */
  masked(layer, heads, query, key) {
    if (heads.some((head) => this.weight(layer, head, query, key) > 0)) return false;
    return this.isLater(query, key) || this.matrix(layer, heads).blind[query] === 1;
  }

  isLater(query, key) {
    // With fewer queries than keys, the queries are the last ones of the sentence.
    return this.causal && key > query + this.keys.length - this.queries.length;
  }

  /** Where a piece is shown: itself, or the word it was merged into; null where there is none. */
  shown(side, piece) {
    const words = side === "query" ? this.queries : this.keys;
    const index = piece === null || !this.groups[side] ? piece : this.groups[side][piece];
    return index !== null && index < words.length ? index : null;
  }

  /** The first piece of what is shown at `index`. */
  piece(side, index) {
    return index === null || !this.groups[side] ? index : this.groups[side].indexOf(index);
  }
}

const NO_ATTENTION = new Attention(
  { name: "", title: "", queries: [], keys: [] },
  1,
  1,
  () => ({ values: new Float32Array(0), one: 1 }),
);

/** Make each thing once: for one object (a panel, a flow) and a name. */
const made = new WeakMap();
function once(owner, name, make) {
  if (!made.has(owner)) made.set(owner, new Map());
  const own = made.get(owner);
  if (!own.has(name)) own.set(name, make());
  return own.get(name);
}

function attentionOf(panel) {
  return once(panel, "pieces", () => {
    const [layers, heads] = panel.weights.shape;
    const layerOf = (layer) => ({ values: slice(panel.weights, layer), one: WEIGHT_ONE });
    return new Attention(panel, layers, heads, layerOf);
  });
}

/** The shares of a flow, as attention of one head. */
function attentionOfFlow(flow, panel) {
  return once(flow, "pieces", () => {
    const layerOf = (layer) => ({ values: slice(flow.weights, layer), one: WEIGHT_ONE });
    const about = { ...panel, keys: panel.queries, predicts: [] };
    return new Attention(about, flow.weights.shape[0], 1, layerOf);
  });
}

// ---------------------------------------------------------------- pieces merged to words

const knowsWords = (panel) => panel.query_words.length > 0 || panel.key_words.length > 0;

function mergedOf(panel) {
  return once(panel, "words", () =>
    merge(attentionOf(panel), panel.query_words, panel.key_words),
  );
}

function mergedFlow(flow, panel) {
  return once(flow, "words", () =>
    merge(attentionOfFlow(flow, panel), panel.query_words, panel.query_words),
  );
}

/** Attention between words: a word's queries look as its pieces do on average, its keys add up. */
function merge(pieces, queryWords, keyWords) {
  const queries = groupsOf(queryWords, pieces.queries.length);
  const keys = groupsOf(keyWords, pieces.keys.length);
  const about = {
    name: pieces.name,
    title: pieces.title,
    causal: pieces.causal,
    queries: joined(pieces.queries, queries),
    keys: joined(pieces.keys, keys),
    // After a word, the model says what it says after the last piece.
    predicts: pieces.predicts.length ? lasts(pieces.predicts, queries) : [],
  };
  const layerOf = (layer) => ({ values: mergedLayer(pieces, layer, queries, keys), one: 1 });
  const groups = { query: queries, key: keys };
  return new Attention(about, pieces.layers, pieces.heads, layerOf, groups);
}

/** For each piece the place of its word, counted from 0 in the order they come. */
function groupsOf(words, count) {
  if (!words.length) return range(count);
  const places = new Map();
  for (const word of words) if (!places.has(word)) places.set(word, places.size);
  return words.map((word) => places.get(word));
}

function joined(pieces, groups) {
  const words = Array(groups.length ? Math.max(...groups) + 1 : 0).fill("");
  for (const [piece, group] of groups.entries()) words[group] += pieces[piece];
  return words;
}

function lasts(pieces, groups) {
  const words = [];
  for (const [piece, group] of groups.entries()) words[group] = pieces[piece];
  return words;
}

function mergedLayer(pieces, layer, queries, keys) {
  const { values, one } = pieces.layer(layer);
  const [rows, columns] = [new Set(queries).size, new Set(keys).size];
  const members = new Float64Array(rows);
  for (const query of queries) members[query] += 1;
  const sums = new Float32Array(pieces.heads * rows * columns);
  for (let head = 0; head < pieces.heads; head += 1) {
    for (let query = 0; query < queries.length; query += 1) {
      const from = (head * queries.length + query) * keys.length;
      const to = (head * rows + queries[query]) * columns;
      const share = 1 / one / members[queries[query]];
      for (let key = 0; key < keys.length; key += 1) {
        sums[to + keys[key]] += values[from + key] * share;
      }
    }
  }
  return sums;
}
