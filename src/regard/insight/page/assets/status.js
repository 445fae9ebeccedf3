// The line at the bottom, which a screen reader reads out: what is pointed at, in words.

function say(...parts) {
  at("status").replaceChildren(...parts);
}

function paintStatus() {
  if (!columns.length) return;
  if (!offeredViews().length) return say();
  const isPointing = pointed.column && (pointed.query !== null || pointed.key !== null);
  const column = isPointing ? pointed.column : columns[0];
  const isPinned = state.pin.query !== null || state.pin.key !== null;
  const [card] = cards();
  if (card.sentence) {
    const able = columns.filter(({ picture }) => card.has(picture));
    return say(...sentences(able, card.sentence));
  }
  if (columns.length > 1 && isPinned && !isPointing) return say(...sentences(columns, sentence));
  say(...sentence(column));
}

/** One sentence for each column; two of them say which is which. */
function sentences(shown, sentenceOf) {
  if (shown.length === 1) return sentenceOf(shown[0]);
  const names = ["left: ", " · right: "];
  return shown.flatMap((column, place) => [names[place], ...sentenceOf(column)]);
}

function sentence(column) {
  const { query, key } = column.active();
  const heads = column.heads();
  const isPair = query !== null && key !== null;
  if (isPair && pointed.cell) return sayCell(column, query, key);
  if (isPair) return sayPair(column, query, key);
  if (heads.length === 0) return [`${column.place([])}. Select a head to see what it looks at.`];
  if (query !== null) return sayQuery(column, query);
  if (key !== null) return sayKey(column, key);
  return [`${column.place(heads)}. Point at a word or a cell.`];
}

function arrow(column, query, key) {
  const { queries, keys } = column.attention();
  return [quote(queries[query]), " → ", quote(keys[key])];
}

function sayCell(column, query, key) {
  const heads = column.mapHeads();
  const said = [`${column.place(heads)}: `, ...arrow(column, query, key)];
  if (heads.length === 0) return said;
  const attention = column.attention();
  const hidden = attention.masked(column.layer(), heads, query, key);
  const value = attention.mean(column.layer(), heads, query, key).toFixed(4);
  return [...said, " ", bold(hidden ? "could not be seen" : value)];
}

function sayPair(column, query, key) {
  const attention = column.attention();
  const layer = column.layer();
  const values = attention.isClosed(layer, query, key)
    ? ["could not be seen"]
    : column
        .heads()
        .map((head) => `head ${head + 1} ${attention.weight(layer, head, query, key).toFixed(4)}`);
  return [`layer ${layer + 1}: `, ...arrow(column, query, key), " ", bold(values.join(", "))];
}

function sayQuery(column, query) {
  const attention = column.attention();
  const { queries, keys, predicts } = attention;
  const [layer, heads] = [column.layer(), column.heads()];
  const said = [`${column.place(heads)}: `, quote(queries[query])];
  const first = strongest(keys.length, (key) => attention.mean(layer, heads, query, key));
  if (first.length) said.push(" looks most at ", ...listed(keys, first));
  else said.push(" looks at nothing");
  if (predicts.length) {
    said.push(". After ", quote(queries[query]), " the model says ", quote(predicts[query]));
  }
  return said;
}

function sayKey(column, key) {
  const attention = column.attention();
  const { queries, keys } = attention;
  const [layer, heads] = [column.layer(), column.heads()];
  const first = strongest(queries.length, (query) => attention.mean(layer, heads, query, key));
  const said = [`${column.place(heads)}: `, quote(keys[key])];
  if (!first.length) return [...said, " is looked at by nobody"];
  return [...said, " is looked at most by ", ...listed(queries, first)];
}

/** "“it” 0.5312, “animal” 0.2204". */
function listed(words, pairs) {
  return pairs.flatMap(([index, value], place) => [
    place ? ", " : "",
    quote(words[index]),
    " ",
    bold(value.toFixed(4)),
  ]);
}
