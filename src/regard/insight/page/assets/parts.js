// Small helpers that all other files use.
//
// The page reads a history (JSON in the file, or fetched from the server of a live page), keeps one
// small state, and paints from the two. All files form one module, in the order that
// `insight/page/render.py` puts them together: common files, the views, and the rest. Indices count
// from 0, as in the arrays; numbers that are shown, the address included, count from 1.

const at = (id) => document.getElementById(id);

/** Make an element with attributes and children; strings become text, never markup. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Return a token with visible signs for blanks and line ends. */
function printable(token) {
  return token.trim() === "" ? "␣" : token.replace(/\s*[\r\n]\s*/g, "↵");
}

/** Make an element for a token; its direction (left to right or not) does not affect others. */
function tokenElement(token) {
  return element("bdi", { class: "token", "data-token": printable(token) }, printable(token));
}

/** Make the label of the token that the model predicts after another. */
function nextToken(token) {
  const attributes = { class: "next-token", "data-predicts": "" };
  return element("span", attributes, "next: ", element("bdi", {}, printable(token)));
}

/** Return the queries of an attention, each with the token predicted after it. */
function rowLabels({ queries, predicts }) {
  if (!predicts.length) return queries;
  return queries.map((token, i) => `${printable(token)} → ${printable(predicts[i])}`);
}

function quote(token) {
  return element("span", {}, "“", element("bdi", {}, printable(token)), "”");
}

const bold = (text) => element("b", {}, text);

/** Format a number, with a typographic minus and signs for infinity and NaN. */
function figure(value, digits = 4) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "?" : value > 0 ? "∞" : "−∞";
  return value.toFixed(digits).replace("-", "−");
}

const range = (count) => Array.from({ length: count }, (_, index) => index);
const clamp = (value, count) => Math.max(Math.min(value, count - 1), 0);
const isCalm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Return the three indices with the largest values above 0, as [index, value]. */
function strongest(count, valueOf) {
  const pairs = range(count).map((index) => [index, valueOf(index)]);
  return pairs.filter(([, value]) => value > 0).sort((a, b) => b[1] - a[1]).slice(0, 3);
}

// ---------------------------------------------------------------- colors

// Numbers above and below 0.
const ABOVE = [31, 119, 180];
const BELOW = [214, 39, 40];

let colors = ["#1f77b4"]; // one for each head, from the history

const rgb = (head) => channels(colors[head % colors.length]);

/** Parse "#1f77b4" into red, green and blue. */
function channels(hex) {
  const value = parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

/** Give `target` the head's color, and black or white text, whichever has more contrast. */
function color(target, head) {
  const [red, green, blue] = rgb(head).map((c) => (c / 255) ** 2.2);
  const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  target.style.setProperty("--head", rgb(head).join(" "));
  target.style.setProperty("--on-head", luminance > 0.18 ? "#000" : "#fff");
  return target;
}

const themed = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
/** Return the colors of cells: of a mean, its largest opacity, and of masked cells. */
const pageColors = () => ({
  mean: themed("--mean").split(" ").map(Number),
  most: Number(themed("--most")),
  hatch: themed("--hatch"),
});
const PAPER = { mean: [52, 84, 159], most: 0.72, hatch: "#e3e0d8" };
/** Return the opacity of a weight; small weights are raised, because most are small. */
const heat = (weight) => weight ** 0.7;

// ---------------------------------------------------------------- moving by keyboard

/** Let the tab key stop at one of many items; the arrow keys reach the others. */
function rove(items, stop) {
  for (const item of items) item.tabIndex = item === stop ? 0 : -1;
}

/** Move the focus among `items` by the steps of each key; Home and End go to the ends. */
function step(event, items, steps) {
  const here = items.indexOf(document.activeElement);
  const ends = { Home: 0, End: items.length - 1 };
  const there = ends[event.key] ?? here + (steps[event.key] ?? NaN);
  if (items[there]) goTo(event, items, items[there]);
}

function goTo(event, items, item) {
  event.preventDefault();
  rove(items, item);
  item.focus();
}

/** Return the cell that a key leads to in a table of `rows` by `columns`, or null. */
function walk({ key, ctrlKey }, row, column, rows, columns) {
  const moves = {
    ArrowUp: [row - 1, column],
    ArrowDown: [row + 1, column],
    ArrowLeft: [row, column - 1],
    ArrowRight: [row, column + 1],
    Home: [ctrlKey ? 0 : row, 0],
    End: [ctrlKey ? rows - 1 : row, columns - 1],
  };
  if (!Object.hasOwn(moves, key)) return null;
  const [newRow, newColumn] = moves[key];
  return [clamp(newRow, rows), clamp(newColumn, columns)];
}

// ---------------------------------------------------------------- tables with keyboard focus

/** Fill `table` with headings and cells; `cellOf(row, column)` makes one. */
function buildGrid(table, corner, columnHeads, rowHeads, cellOf) {
  const head = element("tr", {}, element("th", { "aria-label": corner }), ...columnHeads);
  const body = rowHeads.map((rowHead, row) => {
    const cells = columnHeads.map((_, column) => cellOf(row, column));
    for (const cell of cells) {
      cell.setAttribute("role", "gridcell");
      cell.tabIndex = -1;
    }
    return element("tr", {}, rowHead, ...cells);
  });
  const columns = element("colgroup", {}, ...["", ...columnHeads].map(() => element("col")));
  table.replaceChildren(columns, element("thead", {}, head), element("tbody", {}, ...body));
  const first = table.querySelector("td");
  if (first) first.tabIndex = 0;
}

/** Make the heading of a row or a column that shows a token. */
function heading(scope, token, attributes = {}) {
  return element("th", { scope, title: printable(token), ...attributes }, tokenElement(token));
}

/** Let the arrow keys move among the cells of a table that `buildGrid` filled. */
function listenToGrid(table) {
  table.addEventListener("keydown", (event) => {
    const cell = event.target.closest("td");
    if (!cell) return;
    const rows = [...table.tBodies[0].rows];
    const width = rows[0].querySelectorAll("td[tabindex]").length;
    const row = rows.indexOf(cell.parentElement);
    const there = walk(event, row, cell.cellIndex - 1, rows.length, width);
    if (!there) return;
    event.preventDefault();
    const target = rows[there[0]].cells[there[1] + 1];
    cell.tabIndex = -1;
    target.tabIndex = 0;
    target.focus();
  });
}

/** Show `sentenceOf(target)` in the status line while the mouse or the keyboard is on it. */
function listenToDescriptions(area, selector, sentenceOf) {
  const describe = ({ target }) => {
    const item = target.closest?.(selector);
    if (item) showStatus(...sentenceOf(item));
  };
  area.addEventListener("mouseover", describe);
  area.addEventListener("focusin", describe);
  area.addEventListener("mouseleave", () => paintStatus());
  area.addEventListener("focusout", () => paintStatus());
}
