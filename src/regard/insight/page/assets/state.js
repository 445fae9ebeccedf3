// The choices of the user, and the address (the part after #) that stores them.

const NOTHING = { query: null, key: null };

const state = {
  snapshot: 0,
  view: "",
  panel: null, // its name; until chosen, the one that the picture opens with
  layer: null, // the last one until chosen
  heads: null, // the selected heads, in order; all of them until chosen
  map: "mean", // what the heat map shows: "mean" of the selected heads, or one head
  words: false, // whether tokens are merged into words
  pin: null, // the pinned token, by its index; until chosen, the one that the picture opens with
  own: {}, // the choices of single views, by name: see views.js
  theme: null, // "light" or "dark" once chosen; otherwise as the system is
};

let snapshots = [];
let columns = []; // one for each picture of the snapshot, side by side

// The token (one side) or cell (both) under the mouse or the keyboard, and its column.
let pointed = { ...NOTHING, column: null };

const viewNamed = (name) => VIEWS.find((view) => view.name === name);
const cardNames = () => viewNamed(state.view)?.cards ?? [];
const cards = () => cardNames().map((name) => CARDS[name]);
const uses = (control) => cards().some((card) => card.uses.includes(control));
const most = (countOf) => Math.max(1, ...columns.map(countOf));
const layerCount = () => most((column) => column.attention().layers);
const headCount = () => most((column) => column.attention().heads);
const queryCount = () => most((column) => column.attention().queries.length);
const chosenLayer = () => (state.layer === null ? layerCount() - 1 : state.layer);
const chosenHeads = () => state.heads ?? range(headCount());
const chosenPin = () => state.pin ?? openingPin();

/** Return the query that the page opens with; of a history, that of its last snapshot. */
function openingPin() {
  const opening = snapshots.at(-1)?.pictures[0]?.opening;
  const isShown = opening && columns[0]?.panel()?.name === opening.panel;
  return isShown ? { query: opening.query, key: null } : NOTHING;
}

/** Change the state, then show it and write it into the address. */
function change(changes) {
  Object.assign(state, changes);
  paint();
  writeAddress();
}

/** Change the choices that views declare for themselves. */
function changeOwn(changes) {
  Object.assign(state.own, changes);
  change({});
}

function readAddress() {
  const address = new URLSearchParams(location.hash.slice(1));
  const view = address.get("view") ?? "";
  state.snapshot = numberIn(address.get("snapshot"), snapshots.length) ?? 0;
  takeSnapshot();
  state.view = offeredViews().includes(view) ? view : (offeredViews()[0] ?? "");
  state.words = address.get("words") === "merged";
  state.panel = address.get("panel");
  state.layer = numberIn(address.get("layer"), layerCount());
  state.heads = readHeads(address.get("heads"));
  state.map = numberIn(address.get("map"), headCount()) ?? "mean";
  const isChosen = address.has("panel") || address.has("pin");
  state.pin = isChosen ? readPin(address.get("pin") ?? "") : null;
  for (const [name, { read }] of ownChoices()) state.own[name] = read(address.get(name));
  state.theme = ["light", "dark"].find((theme) => theme === address.get("theme")) ?? null;
}

/** Return "3" as the index 2, or null where there are fewer. */
function numberIn(text, count) {
  const index = Number(text ?? NaN) - 1;
  return Number.isInteger(index) && index >= 0 && index < count ? index : null;
}

function readHeads(text) {
  if (text === null || text === "all") return null;
  const heads = text.split(",").map((one) => numberIn(one, headCount()));
  return range(headCount()).filter((head) => heads.includes(head));
}

function readPin(text) {
  const [side, number] = text.split("-");
  if (side === "query") return { query: numberIn(number, Infinity), key: null };
  if (side === "key") return { query: null, key: numberIn(number, Infinity) };
  return NOTHING;
}

function writeAddress() {
  const [{ map }, pin] = [state, chosenPin()];
  const address = new URLSearchParams(liveTexts());
  if (columns.length) {
    address.set("panel", columns[0].attention().name);
    address.set("layer", chosenLayer() + 1);
    const all = chosenHeads().length === headCount();
    address.set("heads", all ? "all" : chosenHeads().map((head) => head + 1).join());
    address.set("map", map === "mean" ? "mean" : map + 1);
    address.set("view", state.view);
  }
  if (pin.query !== null) address.set("pin", `query-${pin.query + 1}`);
  if (pin.key !== null) address.set("pin", `key-${pin.key + 1}`);
  if (state.words) address.set("words", "merged");
  if (snapshots.length > 1) address.set("snapshot", state.snapshot + 1);
  for (const [name, { write, card }] of ownChoices()) {
    const text = cards().includes(card) ? write(state.own[name]) : null;
    if (text !== null) address.set(name, text);
  }
  if (state.theme) address.set("theme", state.theme);
  try {
    history.replaceState(null, "", `#${address}`);
  } catch {
    // Inside another page (a notebook's frame) there is no address to store choices in.
  }
}
