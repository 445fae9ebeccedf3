// Which word looked at which, head by head.
//
// The page reads one picture (plain data, written into the file), keeps one small state, and
// paints from the two. The file reads in that order: data, state, address, building, painting,
// listening. Numbers inside the program count from 0, as in the arrays; whatever a person reads,
// the address included, counts from 1.

const picture = JSON.parse(document.getElementById("picture").textContent);
const at = (id) => document.getElementById(id);

// A line thinner than this cannot be seen; more lines than this are slow, and one grey cloud.
const FAINTEST = 0.01;
const MOST_LINES = 1500;
// From here on a word counts as looked at, and is set in bold.
const NOTABLE = 0.1;

const NOTHING = { query: null, key: null };
const VIEWS = { both: "Both", lines: "Lines", map: "Heat map" };

// ---------------------------------------------------------------- state

const state = {
  panel: 0,
  layer: 0,
  heads: [], // the selected heads, in order
  map: "mean", // what the heat map shows: "mean" of the selected heads, or one head
  view: "both",
  pin: NOTHING,
  theme: null, // "light" or "dark" once chosen; otherwise as the system is
};

// What the mouse or the keyboard is on now: a word (one side) or a cell of the map (both).
let pointed = NOTHING;

const panel = () => picture.panels[state.panel];
const layerCount = () => panel().weights.length;
const headCount = () => panel().weights[0].length;
const weight = (head, query, key) => panel().weights[state.layer][head][query][key];
const allHeads = () => panel().weights[0].map((_, head) => head);

/** The pinned word and the one pointed at, together: two sides make a pair. */
function active() {
  return { query: pointed.query ?? state.pin.query, key: pointed.key ?? state.pin.key };
}

/** The heads that the heat map averages. */
function mapHeads() {
  return state.map === "mean" ? state.heads : [state.map];
}

function mean(heads, query, key) {
  return heads.reduce((sum, head) => sum + weight(head, query, key), 0) / heads.length;
}

/** Whether `query` could not see `key`: it comes later, or the whole row is empty. */
function masked(heads, query, key) {
  if (heads.some((head) => weight(head, query, key) > 0)) return false;
  const { causal, queries, keys } = panel();
  // With fewer queries than keys, the queries are the last ones of the sentence.
  const later = causal && key > query + keys.length - queries.length;
  return later || isBlind(heads, query);
}

function isBlind(heads, query) {
  return heads.every((head) => panel().weights[state.layer][head][query].every((w) => w === 0));
}

// ---------------------------------------------------------------- address

function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const named = picture.panels.findIndex(({ name }) => name === asked.get("panel"));
  state.panel = Math.max(named, 0);
  state.layer = numberIn(asked.get("layer"), layerCount()) ?? layerCount() - 1;
  state.heads = readHeads(asked.get("heads"));
  state.map = numberIn(asked.get("map"), headCount()) ?? "mean";
  state.view = Object.hasOwn(VIEWS, asked.get("view") ?? "") ? asked.get("view") : "both";
  state.pin = readPin(asked.get("pin") ?? "");
  state.theme = ["light", "dark"].find((theme) => theme === asked.get("theme")) ?? null;
}

/** "3" as the index 2, or null where there are not so many. */
function numberIn(text, count) {
  const index = Number(text ?? NaN) - 1;
  return Number.isInteger(index) && index >= 0 && index < count ? index : null;
}

function readHeads(text) {
  if (text === null || text === "all") return allHeads();
  const asked = text.split(",").map((one) => numberIn(one, headCount()));
  return allHeads().filter((head) => asked.includes(head));
}

function readPin(text) {
  const [side, number] = text.split("-");
  if (side === "query") return { query: numberIn(number, panel().queries.length), key: null };
  if (side === "key") return { query: null, key: numberIn(number, panel().keys.length) };
  return NOTHING;
}

function writeAddress() {
  const { heads, map, view, pin, theme } = state;
  const said = new URLSearchParams({ panel: panel().name, layer: state.layer + 1 });
  said.set("heads", heads.length === headCount() ? "all" : heads.map((head) => head + 1).join());
  said.set("map", map === "mean" ? "mean" : map + 1);
  said.set("view", view);
  if (pin.query !== null) said.set("pin", `query-${pin.query + 1}`);
  if (pin.key !== null) said.set("pin", `key-${pin.key + 1}`);
  if (theme) said.set("theme", theme);
  try {
    history.replaceState(null, "", `#${said}`);
  } catch {
    // Inside another page (a notebook's frame) there is no address to keep; all else works.
  }
}

// ---------------------------------------------------------------- building

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

function rgb(head) {
  const value = parseInt(picture.colours[head % picture.colours.length].slice(1), 16);
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

/** Fill `box` with radio buttons; options are [value, text, head whose colour it has]. */
function buildChoices(box, name, options, chosen, choose) {
  box.replaceChildren(
    ...options.map(([value, text, head]) => {
      const radio = element("input", { type: "radio", name });
      radio.checked = value === chosen;
      radio.addEventListener("change", () => choose(value));
      const label = element("span", { dir: "auto" }, text);
      if (head !== undefined) colour(label, head).classList.add("swatch");
      const shown = name === "panel" ? picture.panels[value].name : value;
      return element("label", { class: "choice", [`data-${name}`]: shown }, radio, label);
    }),
  );
}

function buildControls() {
  const layers = panel().weights.map((_, layer) => [layer, `${layer + 1}`]);
  const maps = allHeads().map((head) => [head, `${head + 1}`, head]);
  const panels = picture.panels.map(({ title }, index) => [index, title]);
  buildChoices(at("panels"), "panel", panels, state.panel, choosePanel);
  buildChoices(at("layers"), "layer", layers, state.layer, (layer) => change({ layer }));
  buildChoices(at("views"), "view", Object.entries(VIEWS), state.view, (view) => change({ view }));
  const mapChoices = [["mean", "Mean of the selected heads"], ...maps];
  buildChoices(at("maps"), "map", mapChoices, state.map, (map) => change({ map }));
  for (const choice of at("maps").querySelectorAll(".swatch")) {
    choice.previousElementSibling.setAttribute("aria-label", `Head ${choice.textContent}`);
  }
  buildHeads();
}

function buildHeads() {
  const buttons = allHeads().map((head) => {
    const label = `Head ${head + 1}`;
    const attributes = { type: "button", "data-head": head, "aria-label": label, title: label };
    return colour(element("button", attributes, `${head + 1}`), head);
  });
  at("heads").replaceChildren(...buttons);
  rove(buttons, buttons[0]);
}

function buildWords() {
  const { queries, keys, predicts } = panel();
  buildColumn(at("queries"), "query", queries, predicts);
  buildColumn(at("keys"), "key", keys, []);
  const rows = Math.max(queries.length, keys.length, 1);
  at("lines").classList.toggle("says", predicts.length > 0);
  at("lines").style.setProperty("--rows", rows);
  // A row is one unit high and the width is 100 units, whatever the size on the screen.
  at("threads").setAttribute("viewBox", `0 0 100 ${rows}`);
}

function buildColumn(column, side, words, predicts) {
  const buttons = words.map((word, index) => {
    const label = `${visible(word)}, word ${index + 1} of ${words.length}`;
    const attributes = { type: "button", [`data-${side}`]: index, title: visible(word) };
    const button = element("button", attributes, buildCells(), wordOf(word));
    button.setAttribute("aria-label", label);
    if (predicts.length) {
      const says = visible(predicts[index]);
      const attributes = { class: "says-word", "data-predicts": "" };
      button.append(element("span", attributes, "says ", element("bdi", {}, says)));
      button.setAttribute("aria-label", `${label}; then the model says ${says}`);
    }
    return button;
  });
  column.replaceChildren(...buttons.map((button) => element("li", {}, button)));
  rove(buttons, buttons[0]);
}

/** The coloured cells behind a word, one for each head. */
function buildCells() {
  const cells = allHeads().map((head) => colour(element("i", { "data-head": head }), head));
  return element("span", { class: "cells", "aria-hidden": "true" }, ...cells);
}

function buildMap() {
  const { queries, keys } = panel();
  const heading = (scope, side) => (word, index) =>
    element("th", { scope, [`data-${side}`]: index, title: visible(word) }, wordOf(word));
  const corner = element("th", { "aria-label": "who looks at whom" });
  const head = element("tr", {}, corner, ...keys.map(heading("col", "key")));
  const body = queries.map((word, query) => {
    const cells = keys.map((_, key) =>
      element("td", { role: "gridcell", "data-query": query, "data-key": key, tabindex: "-1" }),
    );
    return element("tr", {}, heading("row", "query")(word, query), ...cells);
  });
  const columns = element("colgroup", {}, ...["", ...keys].map(() => element("col")));
  at("map").replaceChildren(columns, element("thead", {}, head), element("tbody", {}, ...body));
  at("map").style.setProperty("--longest", Math.max(...queries.map((word) => word.length), 3));
  const first = at("map").querySelector("td");
  if (first) first.tabIndex = 0;
}

/** Of many, the tab key stops at one; the arrow keys reach the others. */
function rove(items, stop) {
  for (const item of items) item.tabIndex = item === stop ? 0 : -1;
}

// ---------------------------------------------------------------- painting

/** Everything that depends on the panel's shape, then everything else. */
function build() {
  buildControls();
  buildWords();
  buildMap();
  paint();
}

function paint() {
  at("main").dataset.view = state.view;
  for (const button of at("heads").children) {
    button.setAttribute("aria-pressed", state.heads.includes(Number(button.dataset.head)));
  }
  paintTheme();
  paintMap();
  paintActive();
}

/** Only what changes when the mouse or the keyboard moves. */
function paintActive() {
  paintLines();
  paintWords();
  paintHeadings();
  paintStatus();
}

function paintTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const theme = state.theme ?? system;
  const other = theme === "dark" ? "Light" : "Dark";
  document.documentElement.dataset.theme = theme;
  at("theme").textContent = other;
  at("theme").setAttribute("aria-label", `${other} colours`);
}

function paintLines() {
  const { query, key } = active();
  const queries = query === null ? panel().queries.keys() : [query];
  const found = [];
  let all = 0;
  for (const q of queries) {
    for (const k of key === null ? panel().keys.keys() : [key]) {
      for (const head of state.heads) {
        const w = weight(head, q, k);
        if (w > 0) all += 1;
        if (w >= FAINTEST) found.push([w, head, q, k]);
      }
    }
  }
  // Weak lines first, so that strong ones lie on top.
  found.sort((one, other) => one[0] - other[0]);
  const drawn = found.slice(-MOST_LINES);
  at("threads").innerHTML = drawn.map(thread).join("");
  at("lines-note").textContent = noteOnLines(drawn, all);
}

/** One line as SVG text: numbers and colours only, so it can be put together as text. */
function thread([w, head, query, key]) {
  // Each head leaves and arrives a little lower than the one before, so none hides another.
  const shift = 0.5 * ((head + 0.5) / headCount() - 0.5);
  const [from, to] = [query + 0.5 + shift, key + 0.5 + shift].map((y) => y.toFixed(3));
  const width = (0.75 + 4.25 * w).toFixed(3);
  const opacity = (0.08 + 0.87 * w).toFixed(4);
  return (
    `<path d="M0 ${from}C40 ${from} 60 ${to} 100 ${to}" stroke="rgb(${rgb(head)})"` +
    ` stroke-width="${width}" stroke-opacity="${opacity}" data-weight="${w.toFixed(4)}"` +
    ` data-head="${head}" data-query="${query}" data-key="${key}"/>`
  );
}

function noteOnLines(drawn, all) {
  if (state.heads.length === 0) return "No head is selected.";
  const left = all - drawn.length;
  if (left === 0) return "";
  const faintest = drawn.length === MOST_LINES ? drawn[0][0] : FAINTEST;
  const lines = left === 1 ? "1 line is" : `${left} lines are`;
  return `${lines} too faint to draw (weight below ${+faintest.toFixed(4)}).`;
}

/** Colours behind the words: what each head gives them. */
function paintWords() {
  const { query, key } = active();
  const received = attentionReceived();
  // Means are small: the strongest of them gets the full colour, so that they can be compared.
  const most = Math.max(...state.heads.flatMap((head) => received[head]), FAINTEST);
  paintColumn("key", key, query, (head, k) => {
    if (query !== null) return [weight(head, query, k), 1];
    return key === null || key === k ? [received[head][k], most] : [0, 1];
  });
  paintColumn("query", query, key, (head, q) =>
    key !== null && query === null ? [weight(head, q, key), 1] : [0, 1],
  );
}

/** For each head and key, the mean over the words that look. */
function attentionReceived() {
  const { queries, keys } = panel();
  return allHeads().map((head) =>
    keys.map((_, k) => queries.reduce((sum, _, q) => sum + weight(head, q, k), 0) / queries.length),
  );
}

/**
 * Paint the words of one side. `own` is the active word of this side and `other` that of the
 * other; `valueOf(head, index)` gives what a cell stands for, and the value of its full colour.
 */
function paintColumn(side, own, other, valueOf) {
  const buttons = at(side === "query" ? "queries" : "keys").querySelectorAll("button");
  for (const [index, button] of buttons.entries()) {
    let most = 0;
    for (const cell of button.firstElementChild.children) {
      const head = Number(cell.dataset.head);
      const [value, full] = valueOf(head, index);
      cell.hidden = !state.heads.includes(head);
      cell.dataset.weight = value.toFixed(4);
      cell.style.setProperty("--weight", (value / full).toFixed(3));
      if (!cell.hidden) most = Math.max(most, value);
    }
    button.dataset.light = lightOf(own === index, own !== null, other !== null, most);
    button.setAttribute("aria-pressed", state.pin[side] === index);
  }
}

/** How a word stands out: it is the one, it is looked at (or looks), or it steps back. */
function lightOf(isActive, sideActive, otherActive, most) {
  if (isActive) return "active";
  if (!sideActive && !otherActive) return "";
  return !sideActive && most >= NOTABLE ? "seen" : "dim";
}

function paintMap() {
  const heads = mapHeads();
  const hue = at("map").style;
  hue.setProperty("--head", heads.length === 1 ? rgb(heads[0]).join(" ") : "var(--mean)");
  at("map").setAttribute("aria-label", `Heat map, ${place(heads)}`);
  at("map-note").textContent = heads.length ? "" : "No head is selected.";
  let hatched = false;
  for (const cell of at("map").querySelectorAll("td")) {
    hatched = paintCell(cell, heads) || hatched;
  }
  at("map-hatching").hidden = !hatched;
}

/** Paint one cell and say whether it is hatched. */
function paintCell(cell, heads) {
  const [query, key] = [Number(cell.dataset.query), Number(cell.dataset.key)];
  const hidden = heads.length > 0 && masked(heads, query, key);
  const value = heads.length ? mean(heads, query, key) : 0;
  cell.textContent = hidden || !heads.length ? "" : value.toFixed(2);
  cell.dataset.weight = heads.length ? value.toFixed(4) : "";
  if (hidden !== cell.hasAttribute("data-masked")) {
    cell.toggleAttribute("data-masked", hidden);
    if (hidden) cell.setAttribute("aria-label", "could not be seen");
    else cell.removeAttribute("aria-label");
  }
  // The number is there to be read; the colour may favour small weights, which are most of them.
  cell.style.setProperty("--weight", (value ** 0.7).toFixed(3));
  return hidden;
}

/** Light up the heat map's headings, and the cell where they meet. */
function paintHeadings() {
  const { query, key } = active();
  for (const lit of at("map").querySelectorAll("[data-light]")) lit.removeAttribute("data-light");
  const row = query === null ? null : at("map").tBodies[0].rows[query];
  const column = key === null ? null : at("map").tHead.rows[0].cells[key + 1];
  row?.cells[0].setAttribute("data-light", "");
  column?.setAttribute("data-light", "");
  if (row && column) row.cells[key + 1].setAttribute("data-light", "");
}

// ---------------------------------------------------------------- saying

function paintStatus() {
  at("status").replaceChildren(...sentence());
}

function sentence() {
  const { query, key } = active();
  const isPair = query !== null && key !== null;
  if (isPair && pointed.cell) return sayCell(query, key);
  if (isPair) return sayPair(query, key);
  if (state.heads.length === 0) return [`${place([])}. Select a head to see what it looks at.`];
  if (query !== null) return sayQuery(query);
  if (key !== null) return sayKey(key);
  return [`${place(state.heads)}. Point at a word or a cell.`];
}

/** "layer 2, head 3", or "layer 2, mean of heads 1, 3". */
function place(heads) {
  const layer = `layer ${state.layer + 1}`;
  if (heads.length === 0) return `${layer}, no head`;
  if (heads.length === 1) return `${layer}, head ${heads[0] + 1}`;
  if (heads.length === headCount()) return `${layer}, mean of all ${heads.length} heads`;
  return `${layer}, mean of heads ${heads.map((head) => head + 1).join(", ")}`;
}

function quote(word) {
  return element("span", {}, "“", element("bdi", {}, visible(word)), "”");
}

const bold = (text) => element("b", {}, text);
const arrow = (query, key) => [quote(panel().queries[query]), " → ", quote(panel().keys[key])];

function sayCell(query, key) {
  const heads = mapHeads();
  const said = [`${place(heads)}: `, ...arrow(query, key)];
  if (heads.length === 0) return said;
  const hidden = masked(heads, query, key);
  return [...said, " ", bold(hidden ? "could not be seen" : mean(heads, query, key).toFixed(4))];
}

function sayPair(query, key) {
  const values = state.heads.map((h) => `head ${h + 1} ${weight(h, query, key).toFixed(4)}`);
  return [`layer ${state.layer + 1}: `, ...arrow(query, key), " ", bold(values.join(", "))];
}

function sayQuery(query) {
  const { queries, keys, predicts } = panel();
  const said = [`${place(state.heads)}: `, quote(queries[query])];
  const first = strongest(keys.length, (key) => mean(state.heads, query, key));
  if (first.length) said.push(" looks most at ", ...list(keys, first));
  else said.push(" looks at nothing");
  if (predicts.length) {
    said.push(". After ", quote(queries[query]), " the model says ", quote(predicts[query]));
  }
  return said;
}

function sayKey(key) {
  const { queries, keys } = panel();
  const first = strongest(queries.length, (query) => mean(state.heads, query, key));
  const said = [`${place(state.heads)}: `, quote(keys[key])];
  if (!first.length) return [...said, " is looked at by nobody"];
  return [...said, " is looked at most by ", ...list(queries, first)];
}

/** The three indices with the largest values, as [index, value]. */
function strongest(count, valueOf) {
  const pairs = Array.from({ length: count }, (_, index) => [index, valueOf(index)]);
  return pairs.filter(([, value]) => value > 0).sort((a, b) => b[1] - a[1]).slice(0, 3);
}

function list(words, pairs) {
  return pairs.flatMap(([index, value], place) => [
    place ? ", " : "",
    quote(words[index]),
    " ",
    bold(value.toFixed(4)),
  ]);
}

// ---------------------------------------------------------------- listening

/** Change the state, then show it and write it into the address. */
function change(changes) {
  Object.assign(state, changes);
  paint();
  writeAddress();
}

function choosePanel(index) {
  const all = state.heads.length === headCount();
  pointed = NOTHING;
  Object.assign(state, { panel: index, pin: NOTHING });
  // Another panel may have fewer layers and heads; what still exists stays chosen.
  state.layer = Math.min(state.layer, layerCount() - 1);
  state.heads = allHeads().filter((head) => all || state.heads.includes(head));
  if (state.map !== "mean" && state.map >= headCount()) state.map = "mean";
  buildLeavingFocus();
  writeAddress();
}

/** Rebuild, and give the focus back to the panel's button that was just rebuilt. */
function buildLeavingFocus() {
  const inPanels = at("panels").contains(document.activeElement);
  build();
  if (inPanels) at("panels").querySelector("input:checked").focus();
}

function toggleHead(head) {
  const on = state.heads.includes(head);
  change({ heads: allHeads().filter((one) => (one === head ? !on : state.heads.includes(one))) });
}

function togglePin(word) {
  const same = word.query === state.pin.query && word.key === state.pin.key;
  change({ pin: same ? NOTHING : word });
}

/** The word or cell that an element stands for, or null. */
function meantBy(target) {
  const found = target.closest?.("button[data-query], button[data-key], td");
  if (!found) return null;
  const index = (name) => (name in found.dataset ? Number(found.dataset[name]) : null);
  return { query: index("query"), key: index("key"), cell: found.tagName === "TD" };
}

function point(meant) {
  pointed = meant ?? NOTHING;
  paintActive();
}

/** Where the keyboard is. A focus left behind by a mouse click is not meant to show anything. */
function keyboardPlace() {
  const focused = document.activeElement;
  return focused.matches(":focus-visible") ? meantBy(focused) : null;
}

function listen() {
  // Mouse events, not pointer events: after a tap they stay where the finger was.
  for (const area of [at("queries"), at("keys"), at("map")]) {
    area.addEventListener("mouseover", ({ target }) => point(meantBy(target) ?? keyboardPlace()));
    area.addEventListener("mouseleave", () => point(keyboardPlace()));
    area.addEventListener("focusin", () => keyboardPlace() && point(keyboardPlace()));
    area.addEventListener("focusout", () => point(null));
  }
  for (const area of [at("queries"), at("keys")]) {
    area.addEventListener("click", ({ target }) => {
      const { query, key } = meantBy(target) ?? NOTHING;
      if (query !== null || key !== null) togglePin({ query, key });
    });
    area.addEventListener("keydown", moveAmongWords);
  }
  at("map").addEventListener("keydown", moveAmongCells);
  listenToHeads();
  at("all").addEventListener("click", () => change({ heads: allHeads() }));
  at("theme").addEventListener("click", () => {
    change({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" });
  });
  document.addEventListener("keydown", ({ key }) => key === "Escape" && change({ pin: NOTHING }));
  document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paintTheme);
  addEventListener("hashchange", () => {
    pointed = NOTHING;
    readAddress();
    build();
  });
}

function listenToHeads() {
  const headOf = ({ target }) => target.closest("[data-head]")?.dataset.head;
  const only = (event) => {
    event.preventDefault();
    change({ heads: [Number(headOf(event))] });
  };
  at("heads").addEventListener("click", (event) => {
    if (headOf(event) === undefined) return;
    if (event.shiftKey) only(event);
    else toggleHead(Number(headOf(event)));
  });
  at("heads").addEventListener("dblclick", (event) => headOf(event) !== undefined && only(event));
  at("heads").addEventListener("keydown", (event) => {
    if (event.shiftKey && ["Enter", " "].includes(event.key)) only(event);
    step(event, [...at("heads").children], { ArrowLeft: -1, ArrowRight: 1 });
  });
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

function moveAmongWords(event) {
  const here = meantBy(event.target);
  const columns = { query: at("queries"), key: at("keys") };
  const wordsIn = (side) => [...columns[side].querySelectorAll("button")];
  const side = here.query !== null ? "query" : "key";
  const crossing = side === "query" ? "ArrowRight" : "ArrowLeft";
  if (event.key !== crossing) return step(event, wordsIn(side), { ArrowUp: -1, ArrowDown: 1 });
  const others = wordsIn(side === "query" ? "key" : "query");
  const [best] = strongest(state.heads.length && others.length, (other) =>
    side === "query"
      ? mean(state.heads, here.query, other)
      : mean(state.heads, other, here.key),
  );
  if (others.length) goTo(event, others, others[best?.[0] ?? 0]);
}

function moveAmongCells(event) {
  const width = panel().keys.length;
  const cells = [...at("map").querySelectorAll("td")];
  const here = cells.indexOf(event.target);
  const column = here % width;
  const moves = {
    ArrowUp: -width,
    ArrowDown: width,
    ArrowLeft: column > 0 ? -1 : 0,
    ArrowRight: column < width - 1 ? 1 : 0,
    Home: event.ctrlKey ? -here : -column,
    End: event.ctrlKey ? cells.length - 1 - here : width - 1 - column,
  };
  const there = cells[here + (moves[event.key] ?? NaN)];
  if (there) goTo(event, cells, there);
}

// ---------------------------------------------------------------- start

at("needs").hidden = true;
at("theme").hidden = false;
at("main").hidden = false;
if (picture.panels.length) {
  readAddress();
  build();
  listen();
} else {
  at("main").replaceChildren(element("p", {}, "This picture holds no attention to show."));
}
