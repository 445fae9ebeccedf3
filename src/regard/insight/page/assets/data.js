// What the page was given: packed arrays, unpacked when first looked at, and attention over them.

const WEIGHT_ONE = 65535; // a weight of 1 in 16 bits

const ARRAYS = { u16: Uint16Array, f32: Float32Array, bits: Uint8Array };

const unpacked = new WeakMap();

/** The numbers of a packed array, flat. */
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

/** Part of a packed array: what is left of its shape once the first indices are chosen. */
function slice(packed, ...indices) {
  const size = packed.shape.slice(indices.length).reduce((all, one) => all * one, 1);
  const start = indices.reduce((sum, index, axis) => sum * packed.shape[axis] + index, 0) * size;
  return numbersOf(packed).subarray(start, start + size);
}

/**
 * Who looks at whom, in some layers and heads: a panel as it came, or with its pieces merged.
 * `layerOf(layer)` gives the values of one layer, flat, which value is a weight of 1, and, where
 * that is known, which queries may look at which keys (`seen`, flat).
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

  /** Whether `query` could not see `key`: it may not look there, or the whole row is empty. */
  masked(layer, heads, query, key) {
    if (heads.some((head) => this.weight(layer, head, query, key) > 0)) return false;
    return this.isClosed(layer, query, key) || this.matrix(layer, heads).blind[query] === 1;
  }

  isClosed(layer, query, key) {
    const { seen } = this.layer(layer);
    return seen ? seen[query * this.keys.length + key] === 0 : this.isLater(query, key);
  }

  /** How many of all pairs a layer may look at, from 0 to 1; null where that is not known. */
  share(layer) {
    const { seen } = this.layer(layer);
    if (!seen?.length) return null;
    return once(seen, "share", () => seen.reduce((sum, one) => sum + one, 0) / seen.length);
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
    const layerOf = (layer) => ({ ...valuesOf(panel, layer), one: WEIGHT_ONE });
    return new Attention(panel, layers, heads, layerOf);
  });
}

/** The weights of a layer. Those of pairs that may not look are not written; they are 0. */
function valuesOf({ weights, visible }, layer) {
  if (!visible) return { values: slice(weights, layer), seen: null };
  const [, heads, queries, keys] = weights.shape;
  const size = queries * keys;
  const bits = numbersOf(visible);
  const isSeen = (place) => (bits[place >> 3] >> (place & 7)) & 1;
  const seen = new Uint8Array(size);
  for (let place = 0; place < size; place += 1) seen[place] = isSeen(layer * size + place);
  let next = 0; // of the weights that are written, the first of this layer
  for (let place = 0; place < layer * size; place += 1) next += heads * isSeen(place);
  const values = new Uint16Array(heads * size);
  const written = numbersOf(weights);
  for (let head = 0; head < heads; head += 1) {
    for (let place = 0; place < size; place += 1) {
      if (seen[place]) values[head * size + place] = written[next++];
    }
  }
  return { values, seen };
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
  const layerOf = (layer) => ({ ...mergedLayer(pieces, layer, queries, keys), one: 1 });
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
  const { values, one, seen } = pieces.layer(layer);
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
  return { values: sums, seen: seen && mergedPlaces(seen, queries, keys, rows, columns) };
}

/** A word may look where one of its pieces may. */
function mergedPlaces(seen, queries, keys, rows, columns) {
  const any = new Uint8Array(rows * columns);
  for (const [query, row] of queries.entries()) {
    for (const [key, place] of keys.entries()) {
      any[row * columns + place] |= seen[query * keys.length + key];
    }
  }
  return any;
}
