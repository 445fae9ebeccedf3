// Keyboard shortcuts, and the list of them that ? opens.

import { at, element } from "./elements.js";
import { load, save } from "./storage.js";

const KEY = "regard.single-keys";

/**
 * Listen to the keys of the whole page.
 *
 * @param {() => object} tab returns the open tab
 * @param {object[]} tabs
 * @param {(tab: object) => void} open opens a tab
 */
export function listenToShortcuts(tab, tabs, open) {
  const single = [
    ["/", "go to the text", () => tab().focus()],
    ["d", "switch between light and dark", () => at("theme").click()],
    ["h", "open the history", () => at("history-open").click()],
    ["?", "show these shortcuts", openHelp],
    ...tabs.map((one, index) => [`${index + 1}`, `open ${one.title}`, () => open(one)]),
  ];
  const always = [
    ["Ctrl + Enter", "run now"],
    ["Escape", "stop what runs"],
    ["← →", "in a result: point at words or tokens"],
  ];
  at("shortcuts").replaceChildren(...[...always, ...single].flatMap(line));
  at("single-keys").checked = load(KEY) ?? true;
  at("single-keys").addEventListener("change", () => save(KEY, at("single-keys").checked));
  at("help-open").addEventListener("click", openHelp);
  document.addEventListener("keydown", (event) => {
    if (!tab() || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") tab().stop();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) tab().runNow();
    const action = single.find(([key]) => key === event.key)?.[2];
    if (!action || !at("single-keys").checked || isTyping(event)) return;
    event.preventDefault();
    action();
  });
}

const openHelp = () => at("help").showModal();

function line([keys, meaning]) {
  return [element("dt", {}, element("kbd", {}, keys)), element("dd", {}, meaning)];
}

function isTyping({ target, ctrlKey, altKey, metaKey }) {
  return ctrlKey || altKey || metaKey || target.matches("input, textarea, select");
}
