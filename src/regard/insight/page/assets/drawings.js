// Drawings of views as SVG: dark on white in either theme. A drawing is { width, height, body }.

const INK = "#24231f";
const FONT = 'font-family="system-ui, sans-serif"';
const MAX_LABEL = 120; // pixels; longer tokens are truncated
const LABEL_ROOM = MAX_LABEL + 6;

const pen = element("canvas").getContext("2d");

function widthOf(text, size = 12) {
  pen.font = `${size}px system-ui, sans-serif`;
  return pen.measureText(text).width;
}

function longestOf(tokens, size = 12) {
  const widths = tokens.map((token) => widthOf(printable(token), size));
  return Math.ceil(widths.reduce((most, width) => Math.max(most, width), 0));
}

function escaped(text) {
  const signs = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  // Characters that XML forbids would make the whole drawing unreadable.
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

/** Return a token, truncated to the width of labels. */
function label(token) {
  pen.font = "12px system-ui, sans-serif";
  return truncated(pen, printable(token), MAX_LABEL);
}

// ---------------------------------------------------------------- tables of colored cells

/** Draw rows by columns of cells, each { fill, opacity, text, masked }, with headings. */
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

/** Draw an image of one pixel a cell, enlarged without blurring. */
function svgPixels(x, y, width, height, address, more = "") {
  const box = `x="${x}" y="${y}" width="${width}" height="${height}"`;
  const how = `preserveAspectRatio="none" image-rendering="pixelated"`;
  return `<image ${box} ${how} href="${address}" ${more}/>`;
}

// ---------------------------------------------------------------- numbers and vectors

/** Draw vectors as strips, each with its name, then a row for each token with strips and numbers. */
function drawRows(lead, rows) {
  const [line, stripWidth, numberWidth] = [26, 320, 130];
  const names = lead.map(({ name, of }) => (of ? `${name} of ${printable(of)}` : name));
  const left = longestOf([...names, ...rows.map(({ token }) => label(token))]) + 10;
  const scale = largestOf([...lead, ...rows.flatMap(({ strips }) => strips)]);
  const strips = rows[0]?.strips ?? [];
  const heads = [...strips, ...(rows[0]?.numbers ?? [])];
  const stripAt = (place) => left + place * (stripWidth + 10);
  const numberAt = (place) => stripAt(strips.length) + place * numberWidth;
  const body = [];
  let y = 0;
  const write = (text) => body.push(svgText(left - 6, y + 17, text, { anchor: "end" }));
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
    write(label(row.token));
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
