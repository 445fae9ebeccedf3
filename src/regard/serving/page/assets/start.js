// The start: ask the server for its models, and open the tabs of what they do.

import { classify } from "./classify.js";
import { at, element, listenToCopying } from "./elements.js";
import { fill } from "./fill.js";
import { listenToHistory } from "./history.js";
import { fetchServer } from "./server.js";
import { listenToShortcuts } from "./shortcuts.js";
import { summarize } from "./summarize.js";
import * as translate from "./translate.js";
import * as write from "./write.js";

// The tabs, and the task that a model must do for each.
const TABS = new Map([
  [translate, "translate"],
  [summarize, "summarize"],
  [write, "generate"],
  [fill, "fill"],
  [classify, "classify"],
]);

let open = null; // the open tab

const buttonOf = (tab) => at(`${tab.name}-tab`);

function openTab(tab) {
  for (const button of at("tabs").children) {
    const isOpen = button === buttonOf(tab);
    button.setAttribute("aria-selected", isOpen);
    button.tabIndex = isOpen ? 0 : -1;
  }
  for (const one of TABS.keys()) at(one.name).hidden = one !== tab;
  buttonOf(tab).scrollIntoView({ block: "nearest", inline: "nearest" });
  open = tab;
  history.replaceState(null, "", `#${tab.name}`);
}

function tabButton(tab) {
  const attributes = { type: "button", role: "tab", id: `${tab.name}-tab`, "aria-controls": tab.name };
  const button = element("button", attributes, tab.title);
  button.addEventListener("click", () => openTab(tab));
  return button;
}

/** Let the arrow keys move among the tabs. */
function listenToArrows(tabs) {
  at("tabs").addEventListener("keydown", ({ key }) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
    if (step === undefined) return;
    const next = tabs[(tabs.indexOf(open) + step + tabs.length) % tabs.length];
    openTab(next);
    buttonOf(next).focus();
  });
}

async function begin() {
  const { models, max_body: maxBody } = await fetchServer();
  const tabs = [...TABS.keys()].filter((tab) => {
    const able = models.filter(({ tasks }) => tasks.includes(TABS.get(tab)));
    if (able.length) tab.start(able, maxBody);
    return able.length;
  });
  if (!tabs.length) throw new Error("No model of this server has a page; its programs can use the API.");
  at("tabs").replaceChildren(...tabs.map(tabButton));
  openTab(tabs.find(({ name }) => `#${name}` === location.hash) ?? tabs[0]);
  listenToArrows(tabs);
  listenToCopying();
  listenToShortcuts(() => open, tabs, openTab);
  listenToHistory((entry) => {
    const tab = tabs.find(({ name }) => name === entry.tab);
    if (!tab) return;
    openTab(tab);
    tab.restore(entry);
  });
  open.focus();
}

begin().catch((error) => (at("problem").textContent = error.message));
