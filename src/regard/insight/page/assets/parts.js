// Which word looked at which, head by head.
//
// The page reads a film (plain data, written into the file or fetched while it is live), keeps one
// small state, and paints from the two. These files are one module, put together in this order:
// parts, data, state, column, controls, one file for each view, status, export, film, live, start.
// Numbers inside the program count from 0, as in the arrays; whatever a person reads, the address
// included, counts from 1.
//
// This file: the small parts that everything else is made of.

const at = (id) => document.getElementById(id);

/** An element with attributes and children; text is always text, never markup. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** A word as it can be seen: blanks and line ends get a sign of their own. */
function visible(word) {
  return word.trim() === "" ? "␣" : word.replace(/\s*[\r\n]\s*/g, "↵");
}

/** A word that keeps its direction (left to right or right to left) to itself. */
function wordOf(word) {
  return element("bdi", { class: "word", "data-word": visible(word) }, visible(word));
}

function quote(word) {
  return element("span", {}, "“", element("bdi", {}, visible(word)), "”");
}

const bold = (text) => element("b", {}, text);

/** A number as it is printed: with a real minus, and a sign for what no number can hold. */
function figure(value, digits = 4) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "?" : value > 0 ? "∞" : "−∞";
  return value.toFixed(digits).replace("-", "−");
}

const range = (count) => Array.from({ length: count }, (_, index) => index);
const clamp = (value, count) => Math.max(Math.min(value, count - 1), 0);
const isCalm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** The three indices with the largest values above 0, as [index, value]. */
function strongest(count, valueOf) {
  const pairs = range(count).map((index) => [index, valueOf(index)]);
  return pairs.filter(([, value]) => value > 0).sort((a, b) => b[1] - a[1]).slice(0, 3);
}

// ---------------------------------------------------------------- colours

// Numbers above and below 0.
const ABOVE = [31, 119, 180];
const BELOW = [214, 39, 40];

let colours = ["#1f77b4"]; // one for each head; the film brings them

const rgb = (head) => channels(colours[head % colours.length]);

/** "#1f77b4" as red, green and blue. */
function channels(hex) {
  const value = parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

/** Give `target` the head's colour, and black or white for text on it, whichever reads better. */
function colour(target, head) {
  const [red, green, blue] = rgb(head).map((c) => (c / 255) ** 2.2);
  const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  target.style.setProperty("--head", rgb(head).join(" "));
  target.style.setProperty("--on-head", luminance > 0.18 ? "#000" : "#fff");
  return target;
}

const themed = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
/** What cells are drawn with: the colour of a mean, how strong it may be, what is closed. */
const pageColours = () => ({
  mean: themed("--mean").split(" ").map(Number),
  most: Number(themed("--most")),
  hatch: themed("--hatch"),
});
const PAPER = { mean: [52, 84, 159], most: 0.72, hatch: "#e3e0d8" };
/** How strong a colour stands for a weight: small weights are favoured, most of them are small. */
const heat = (weight) => weight ** 0.7;

// ---------------------------------------------------------------- moving by keyboard

/** Of many, the tab key stops at one; the arrow keys reach the others. */
function rove(items, stop) {
  for (const item of items) item.tabIndex = item === stop ? 0 : -1;
}

/** Move the focus among `items` by the steps that keys stand for; Home and End go to the ends. */
function step(event, items, steps) {
  const here = items.indexOf(document.activeElement);
  const places = { Home: 0, End: items.length - 1 };
  const there = places[event.key] ?? here + (steps[event.key] ?? NaN);
  if (items[there]) goTo(event, items, items[there]);
}

function goTo(event, items, item) {
  event.preventDefault();
  rove(items, item);
  item.focus();
}

/** Where a key leads from a cell of a table of `rows` by `columns`, or null. */
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

// ---------------------------------------------------------------- tables whose cells are walked

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

/** A heading of a row or a column that shows a word. */
function heading(scope, word, attributes = {}) {
  return element("th", { scope, title: visible(word), ...attributes }, wordOf(word));
}

/** Let the arrow keys walk the cells of a table that `buildGrid` filled. */
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

/** Read out what `sentenceOf(target)` says while the mouse or the keyboard is on it. */
function listenToTelling(area, selector, sentenceOf) {
  const tell = ({ target }) => {
    const found = target.closest?.(selector);
    if (found) say(...sentenceOf(found));
  };
  area.addEventListener("mouseover", tell);
  area.addEventListener("focusin", tell);
  area.addEventListener("mouseleave", () => paintStatus());
  area.addEventListener("focusout", () => paintStatus());
}
