// Lists of texts with bars for their probabilities.

import { element, percent, printable } from "./elements.js";

/** Fill a list; an entry [text, probability] becomes a button where there is `choose(rank)`. */
export function paintBars(list, entries, choose) {
  list.replaceChildren(...entries.map((entry, rank) => bar(entry, choose && (() => choose(rank)))));
}

function bar([text, probability], choose) {
  const name = element("bdi", { class: "bar-name" }, printable(text));
  const value = element("span", { class: "probability" }, percent(probability));
  const row = element(choose ? "button" : "div", choose ? { type: "button" } : {}, name, " ", value);
  row.classList.add("bar-row");
  row.dataset.probability = probability;
  row.style.setProperty("--share", probability);
  if (choose) row.addEventListener("click", choose);
  return element("li", {}, row);
}
