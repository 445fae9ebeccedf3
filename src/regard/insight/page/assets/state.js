// What is chosen, and the address that keeps it.

const NOTHING = { query: null, key: null };

const state = {
  scene: 0,
  view: "both",
  panel: null, // its name; the first one that the view can show where there is no such
  layer: null, // the last one until chosen
  heads: null, // the selected heads, in order; all of them until chosen
  map: "mean", // what the heat map shows: "mean" of the selected heads, or one head
  words: false, // whether pieces are merged to words
  pin: NOTHING, // the pinned word, as the index of a piece
  against: null, // in depth: the piece whose key is multiplied with the query
  flow: null, // the name of the way to follow a word
  step: 0, // of the lecture
  theme: null, // "light" or "dark" once chosen; otherwise as the system is
};

let scenes = [];
let columns = []; // one for each picture of the scene, side by side

// What the mouse or the keyboard is on now, in which column: a word (one side) or a cell (both).
let pointed = { ...NOTHING, column: null };

const cards = () => VIEWS[state.view].cards.map((name) => CARDS[name]);
const uses = (what) => cards().some((card) => card.uses.includes(what));
const most = (countOf) => Math.max(1, ...columns.map(countOf));
const layerCount = () => most((column) => column.attention().layers);
const headCount = () => most((column) => column.attention().heads);
const queryCount = () => most((column) => column.attention().queries.length);
const chosenLayer = () => (state.layer === null ? layerCount() - 1 : state.layer);
const chosenHeads = () => state.heads ?? range(headCount());

/** Change the state, then show it and write it into the address. */
function change(changes) {
  Object.assign(state, changes);
  paint();
  writeAddress();
}

function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const view = asked.get("view") ?? "";
  state.scene = numberIn(asked.get("scene"), scenes.length) ?? 0;
  takeScene();
  state.view = offeredViews().includes(view) ? view : (offeredViews()[0] ?? "both");
  state.words = asked.get("words") === "merged";
  state.panel = asked.get("panel");
  state.layer = numberIn(asked.get("layer"), layerCount());
  state.heads = readHeads(asked.get("heads"));
  state.map = numberIn(asked.get("map"), headCount()) ?? "mean";
  state.pin = readPin(asked.get("pin") ?? "");
  state.against = numberIn(asked.get("against"), Infinity);
  state.flow = asked.get("flow");
  state.step = numberIn(asked.get("step"), STEPS.length) ?? 0;
  state.theme = ["light", "dark"].find((theme) => theme === asked.get("theme")) ?? null;
}

/** "3" as the index 2, or null where there are not so many. */
function numberIn(text, count) {
  const index = Number(text ?? NaN) - 1;
  return Number.isInteger(index) && index >= 0 && index < count ? index : null;
}

function readHeads(text) {
  if (text === null || text === "all") return null;
  const asked = text.split(",").map((one) => numberIn(one, headCount()));
  return range(headCount()).filter((head) => asked.includes(head));
}

function readPin(text) {
  const [side, number] = text.split("-");
  if (side === "query") return { query: numberIn(number, Infinity), key: null };
  if (side === "key") return { query: null, key: numberIn(number, Infinity) };
  return NOTHING;
}

function writeAddress() {
  const { map, pin } = state;
  const said = new URLSearchParams(liveWords());
  if (columns.length) {
    said.set("panel", columns[0].attention().name);
    said.set("layer", chosenLayer() + 1);
    const all = chosenHeads().length === headCount();
    said.set("heads", all ? "all" : chosenHeads().map((head) => head + 1).join());
    said.set("map", map === "mean" ? "mean" : map + 1);
    said.set("view", state.view);
  }
  if (pin.query !== null) said.set("pin", `query-${pin.query + 1}`);
  if (pin.key !== null) said.set("pin", `key-${pin.key + 1}`);
  if (state.words) said.set("words", "merged");
  if (scenes.length > 1) said.set("scene", state.scene + 1);
  if (uses("flow") && state.flow) said.set("flow", state.flow);
  if (uses("against") && state.against !== null) said.set("against", state.against + 1);
  if (uses("step")) said.set("step", state.step + 1);
  if (state.theme) said.set("theme", state.theme);
  try {
    history.replaceState(null, "", `#${said}`);
  } catch {
    // Inside another page (a notebook's frame) there is no address to keep; all else works.
  }
}
