// Each view drawn anew from its numbers, as SVG that any program can open: dark on white, whatever
// the colours of the page. A drawing is { width, height, body }.

const INK = "#24231f";
const FONT = 'font-family="system-ui, sans-serif"';
const MOST_LABEL = 120; // pixels; longer words are cut
const LABEL_ROOM = MOST_LABEL + 6;

const pen = element("canvas").getContext("2d");

function widthOf(text, size = 12) {
  pen.font = `${size}px system-ui, sans-serif`;
  return pen.measureText(text).width;
}

function longestOf(words, size = 12) {
  return Math.ceil(words.reduce((most, word) => Math.max(most, widthOf(visible(word), size)), 0));
}

function escaped(text) {
  const signs = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  // Signs that no XML may hold would make the whole drawing unreadable.
  const clean = text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "·");
  return clean.toWellFormed().replace(/[&<>"]/g, (sign) => signs[sign]);
}

function svgText(x, y, text, { size = 12, anchor = "start", more = "" } = {}) {
  const place = `x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}"`;
  return `<text ${place} font-size="${size}" ${more}>${escaped(text)}</text>`;
}

function svgRect(x, y, width, height, fill, opacity = 1) {
  const [left, top, across, down] = [x, y, width, height].map((number) => number.toFixed(2));
  const box = `x="${left}" y="${top}" width="${across}" height="${down}"`;
  return `<rect ${box} fill="rgb(${fill})" fill-opacity="${opacity.toFixed(4)}"/>`;
}

/** A word that fits into the room for labels. */
function label(word) {
  pen.font = "12px system-ui, sans-serif";
  return cut(pen, visible(word), MOST_LABEL);
}

// ---------------------------------------------------------------- lines

function drawLines(column) {
  const { queries, keys } = column.attention();
  const words = { query: windowOf(column, "query"), key: windowOf(column, "key") };
  const inSight = (all, { from, to }) => all.slice(from, to).map(label);
  const [left, right] = [inSight(queries, words.query), inSight(keys, words.key)];
  const [row, gap] = [24, 260];
  const start = longestOf(left) + 8;
  const width = start + gap + longestOf(right) + 8;
  const middle = (place) => (place + 0.5) * row;
  const { drawn } = threadsOf(column, words);
  const body = drawn.map(([w, head, query, key]) => {
    const shift = headShift(column, head);
    const from = middle(query - words.query.from + shift).toFixed(1);
    const to = middle(key - words.key.from + shift).toFixed(1);
    const [x, near, far, end] = [0, 0.4, 0.6, 1].map((share) => start + share * gap);
    const curve = `M${x} ${from}C${near} ${from} ${far} ${to} ${end} ${to}`;
    const said = `data-head="${head}" data-query="${query}" data-key="${key}"`;
    const weight = `data-weight="${w.toFixed(4)}"`;
    return `<path d="${curve}" fill="none" ${strokeOf(w, head)} ${said} ${weight}/>`;
  });
  body.push(
    ...left.map((word, i) => svgText(start - 6, middle(i) + 4, word, { anchor: "end" })),
    ...right.map((word, i) => svgText(start + gap + 6, middle(i) + 4, word)),
  );
  return { width, height: row * Math.max(left.length, right.length, 1), body: body.join("") };
}

// ---------------------------------------------------------------- tables of coloured cells

/** Rows by columns of cells, each { fill, opacity, text, masked }, with words around them. */
function drawGrid({ rows, columns: tops, cellOf, tails = [], width: cellWidth = 40 }) {
  const cellHeight = 26;
  const [names, heads] = [rows.map(label), tops.map(label)];
  const [left, top] = [longestOf(names) + 10, longestOf(heads) + 10];
  const body = [];
  for (const [row, name] of names.entries()) {
    body.push(svgText(left - 6, top + (row + 0.6) * cellHeight, name, { anchor: "end" }));
    for (const place of heads.keys()) {
      const { fill, opacity, text, masked } = cellOf(row, place);
      const [x, y] = [left + place * cellWidth, top + row * cellHeight];
      const paint = masked ? [[227, 224, 216], 1] : [fill, PAPER.most * opacity];
      if (!masked && text === "") paint[1] = opacity;
      body.push(svgRect(x + 1, y + 1, cellWidth - 2, cellHeight - 2, ...paint));
      if (text) body.push(svgText(x + cellWidth / 2, y + 17, text, { size: 11, anchor: "middle" }));
    }
  }
  for (const [place, head] of heads.entries()) {
    const x = left + (place + 0.5) * cellWidth + 4;
    const turned = `transform="rotate(-90 ${x.toFixed(1)} ${top - 6})"`;
    body.push(svgText(x, top - 6, head, { more: turned }));
  }
  const end = left + heads.length * cellWidth;
  for (const [row, tail] of tails.entries()) {
    body.push(svgText(end + 10, top + (row + 0.6) * cellHeight, tail));
  }
  const width = end + (tails.length ? longestOf(tails) + 10 : 0);
  return { width, height: top + names.length * cellHeight, body: body.join("") };
}

function drawMap(column) {
  const attention = column.attention();
  const [layer, heads] = [column.layer(), column.mapHeads()];
  if (isLargeMap(attention)) return drawLargeMap(column, heads);
  return drawGrid({
    rows: attention.queries,
    columns: attention.keys,
    cellOf: (query, key) => {
      const value = heads.length ? attention.mean(layer, heads, query, key) : 0;
      const masked = heads.length > 0 && attention.masked(layer, heads, query, key);
      const text = masked || !heads.length ? "" : value.toFixed(2);
      const fill = heads.length === 1 ? rgb(heads[0]) : PAPER.mean;
      return { fill, opacity: heat(value), text, masked };
    },
  });
}

/** Too many cells for shapes of their own: a picture of one pixel for each. */
function drawLargeMap(column, heads) {
  const { queries, keys } = column.attention();
  const pixels = pixelsOf(column, heads, PAPER).toDataURL();
  const [width, height] = [Math.min(keys.length, 2000), Math.min(queries.length, 2000)];
  const image = svgPixels(LABEL_ROOM, LABEL_ROOM, width, height, pixels);
  // As many words as there is room for, each where its cells are.
  const labels = (words, room, draw) => {
    const nth = Math.max(Math.ceil((14 * words.length) / room), 1);
    const kept = range(words.length).filter((index) => index % nth === 0);
    const placeOf = (index) => LABEL_ROOM + ((index + 0.5) * room) / words.length + 4;
    return kept.map((index) => draw(placeOf(index), label(words[index]))).join("");
  };
  const edge = LABEL_ROOM - 6;
  const rows = labels(queries, height, (y, word) =>
    svgText(edge, y, word, { size: 11, anchor: "end" }),
  );
  const tops = labels(keys, width, (x, word) => {
    const turned = `transform="rotate(-90 ${x.toFixed(1)} ${edge})"`;
    return svgText(x, edge, word, { size: 11, more: turned });
  });
  return { width: width + LABEL_ROOM, height: height + LABEL_ROOM, body: image + rows + tops };
}

/** A picture of one pixel for each cell, enlarged without blurring. */
function svgPixels(x, y, width, height, address, more = "") {
  const box = `x="${x}" y="${y}" width="${width}" height="${height}"`;
  const how = `preserveAspectRatio="none" image-rendering="pixelated"`;
  return `<image ${box} ${how} href="${address}" ${more}/>`;
}

function drawHeads(column) {
  const { layers, heads, queries, keys } = column.attention();
  const [size, left, top] = [96, 64, 24];
  const xOf = (head) => left + head * (size + 8);
  const body = range(heads).map((head) => svgText(xOf(head), 14, `Head ${head + 1}`));
  const canvas = element("canvas");
  for (const layer of range(layers)) {
    const y = top + layer * (size + 8);
    body.push(svgText(0, y + size / 2, `Layer ${layer + 1}`));
    for (const head of range(heads)) {
      paintThumbnail(column.attention(), layer, head, canvas, PAPER);
      const said = `data-layer="${layer}" data-head="${head}"`;
      body.push(svgPixels(xOf(head), y, size, size, canvas.toDataURL(), said));
    }
  }
  const [width, height] = [left + heads * (size + 8), top + layers * (size + 8)];
  return { width, height, body: queries.length && keys.length ? body.join("") : "" };
}

// ---------------------------------------------------------------- numbers and vectors

function drawDepth(column) {
  const { keys } = column.attention();
  const names = { score: "score", grown: "e^(score − largest)", share: "share", weight: "weight" };
  const rows = depthRows(column).map((row) => ({
    word: keys[row.key],
    strips: [],
    numbers: Object.entries(names).map(([name, title]) => ({ name: title, value: row[name] })),
  }));
  return drawRows([], rows);
}

function drawSteps(column) {
  const { shown, lead, rows } = stepOf(column);
  const drawn = drawRows(lead, rows);
  const parts = shown.equation.split(/_(\w)/).map(escaped);
  const lowered = (part) => `<tspan font-size="10" baseline-shift="sub">${part}</tspan>`;
  const equation = parts.map((part, place) => (place % 2 ? lowered(part) : part)).join("");
  const title = `<text y="16" font-size="14">${state.step + 1}. ${equation}</text>`;
  const body = `${title}<g transform="translate(0 30)">${drawn.body}</g>`;
  return { width: Math.max(drawn.width, 480), height: drawn.height + 30, body };
}

/** Vectors as strips, each with its name, then a row for each word with strips and numbers. */
function drawRows(lead, rows) {
  const [line, stripWidth, numberWidth] = [26, 320, 130];
  const names = lead.map(({ name, of }) => (of ? `${name} of ${visible(of)}` : name));
  const words = [...names, ...rows.map(({ word }) => label(word))];
  const left = longestOf(words) + 10;
  const scale = largestOf([...lead, ...rows.flatMap(({ strips }) => strips)]);
  const strips = rows[0]?.strips ?? [];
  const heads = [...strips, ...(rows[0]?.numbers ?? [])];
  const stripAt = (place) => left + place * (stripWidth + 10);
  const numberAt = (place) => stripAt(strips.length) + place * numberWidth;
  const body = [];
  let y = 0;
  const write = (word) => body.push(svgText(left - 6, y + 17, word, { anchor: "end" }));
  for (const [place, vector] of lead.entries()) {
    write(names[place]);
    body.push(drawStrip(left, y, stripWidth, vector, scale));
    y += line;
  }
  for (const [place, { name }] of heads.entries()) {
    const x = place < strips.length ? stripAt(place) : numberAt(place - strips.length);
    body.push(svgText(x, y + 17, name));
  }
  if (heads.length) y += line;
  for (const row of rows) {
    write(label(row.word));
    for (const [place, vector] of row.strips.entries()) {
      body.push(drawStrip(stripAt(place), y, stripWidth, vector, scale));
    }
    for (const [place, { value }] of row.numbers.entries()) {
      const largest = Math.max(...rows.map(({ numbers }) => Math.abs(numbers[place].value)), 1e-9);
      const long = (Math.abs(value) / largest) * (numberWidth - 20);
      body.push(svgRect(numberAt(place), y + 2, long, line - 6, value < 0 ? BELOW : ABOVE, 0.25));
      body.push(svgText(numberAt(place) + 4, y + 17, figure(value)));
    }
    y += line;
  }
  const width = Math.max(numberAt(heads.length - strips.length), left + stripWidth);
  return { width, height: Math.max(y, line), body: body.join("") };
}

function drawStrip(x, y, width, { values }, scale) {
  const one = width / Math.max(values.length, 1);
  return Array.from(values, (value, place) =>
    svgRect(x + place * one, y + 3, one, 20, value < 0 ? BELOW : ABOVE, strength(value, scale)),
  ).join("");
}
