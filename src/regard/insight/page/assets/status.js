// The status line at the bottom, which screen readers announce: the token or cell pointed at.

function showStatus(...parts) {
  at("status").replaceChildren(...parts);
}

function paintStatus() {
  if (!columns.length) return;
  if (!offeredViews().length) return showStatus();
  const isPointing = pointed.column && (pointed.query !== null || pointed.key !== null);
  const column = isPointing ? pointed.column : columns[0];
  const { query, key } = chosenPin();
  const isPinned = query !== null || key !== null;
  const [card] = cards();
  if (card.sentence) {
    const able = columns.filter(({ picture }) => card.has(picture));
    return showStatus(...sentences(able, card.sentence));
  }
  if (columns.length > 1 && isPinned && !isPointing) return showStatus(...sentences(columns, sentence));
  showStatus(...sentence(column));
}

/** Return one sentence for each column, named where there are two. */
function sentences(shown, sentenceOf) {
  if (shown.length === 1) return sentenceOf(shown[0]);
  const names = ["left: ", " · right: "];
  return shown.flatMap((column, index) => [names[index], ...sentenceOf(column)]);
}

function sentence(column) {
  const { query, key } = column.active();
  const heads = column.heads();
  const isPair = query !== null && key !== null;
  if (isPair && pointed.cell) return describeCell(column, query, key);
  if (isPair) return describePair(column, query, key);
  if (heads.length === 0) return [`${column.place([])}. Select a head to see its weights.`];
  if (query !== null) return describeQuery(column, query);
  if (key !== null) return describeKey(column, key);
  return [`${column.place(heads)}. Point at a token or a cell.`];
}

function arrow(column, query, key) {
  const { queries, keys } = column.attention();
  return [quote(queries[query]), " → ", quote(keys[key])];
}

function describeCell(column, query, key) {
  const heads = column.mapHeads();
  const start = [`${column.place(heads)}: `, ...arrow(column, query, key)];
  if (heads.length === 0) return start;
  const attention = column.attention();
  const hidden = attention.masked(column.layer(), heads, query, key);
  const value = attention.mean(column.layer(), heads, query, key).toFixed(4);
  return [...start, " ", bold(hidden ? "masked" : value)];
}

function describePair(column, query, key) {
  const attention = column.attention();
  const layer = column.layer();
  const values = attention.isMasked(layer, query, key)
    ? ["masked"]
    : column
        .heads()
        .map((head) => `head ${head + 1} ${attention.weight(layer, head, query, key).toFixed(4)}`);
  return [`layer ${layer + 1}: `, ...arrow(column, query, key), " ", bold(values.join(", "))];
}

function describeQuery(column, query) {
  const attention = column.attention();
  const { queries, keys, predicts } = attention;
  const [layer, heads] = [column.layer(), column.heads()];
  const parts = [`${column.place(heads)}: `, quote(queries[query])];
  const first = strongest(keys.length, (key) => attention.mean(layer, heads, query, key));
  if (first.length) parts.push(" attends most to ", ...listed(keys, first));
  else parts.push(" attends to nothing");
  if (predicts.length) {
    parts.push(". Next token after ", quote(queries[query]), ": ", quote(predicts[query]));
  }
  return parts;
}

function describeKey(column, key) {
  const attention = column.attention();
  const { queries, keys } = attention;
  const [layer, heads] = [column.layer(), column.heads()];
  const first = strongest(queries.length, (query) => attention.mean(layer, heads, query, key));
  const start = [`${column.place(heads)}: `, quote(keys[key])];
  if (!first.length) return [...start, " is attended to by no token"];
  return [...start, " is attended to most by ", ...listed(queries, first)];
}

/** Return "“it” 0.5312, “animal” 0.2204". */
function listed(tokens, pairs) {
  return pairs.flatMap(([index, value], rank) => [
    rank ? ", " : "",
    quote(tokens[index]),
    " ",
    bold(value.toFixed(4)),
  ]);
}
