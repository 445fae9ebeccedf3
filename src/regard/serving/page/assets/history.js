// The history of texts, kept in this browser within limits.

import { at, element } from "./elements.js";
import { load, save } from "./storage.js";

const KEY = "regard.history";
const MAX_ENTRIES = 100;
const MAX_CHARACTERS = 200_000; // of all entries

const entries = () => load(KEY) ?? [];
const sizeOf = ({ input, output }) => input.length + output.length;

/** Keep an entry { tab, input, output, choices }; a text that was typed on replaces its beginning. */
export function remember(entry) {
  const [last, ...older] = entries();
  const isContinued = last?.tab === entry.tab && entry.input.startsWith(last.input);
  const all = [{ ...entry, time: Date.now() }, ...(isContinued || !last ? older : [last, ...older])];
  save(KEY, bounded(all));
}

function bounded(all) {
  const kept = all.slice(0, MAX_ENTRIES);
  let size = kept.reduce((sum, entry) => sum + sizeOf(entry), 0);
  while (size > MAX_CHARACTERS) size -= sizeOf(kept.pop());
  return kept;
}

/** Open the history from its button; `restore(entry)` shows one again. */
export function listenToHistory(restore) {
  at("history-open").addEventListener("click", () => openHistory(restore));
  at("history-clear").addEventListener("click", () => {
    save(KEY, []);
    openHistory(restore);
  });
}

function openHistory(restore) {
  const all = entries();
  at("entries").replaceChildren(...all.map((entry) => item(entry, restore)));
  at("history-note").textContent = all.length
    ? "It is kept in this browser only."
    : "There are no texts yet. They are kept in this browser only.";
  at("history-clear").hidden = !all.length;
  if (!at("history").open) at("history").showModal();
}

function item(entry, restore) {
  const time = new Date(entry.time);
  const button = element(
    "button",
    { type: "button", class: "entry" },
    element("span", { class: "entry-input", dir: "auto" }, entry.input),
    element("span", { class: "entry-output", dir: "auto" }, entry.output),
    element("time", { datetime: time.toISOString() }, time.toLocaleString()),
  );
  button.addEventListener("click", () => {
    at("history").close();
    restore(entry);
  });
  return element("li", {}, button);
}
