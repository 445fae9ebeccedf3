// Lists of texts with bars for their probabilities.

import { element, percent, printable } from "./elements.js";

/**
 * Fill a list.
 *
 * @param {HTMLElement} list
 * @param {[string, number][]} entries texts with their probabilities
 * @param {(rank: number) => void} [choose] makes the entries buttons
 * @param {(text: string) => boolean} [canChoose] whether an entry becomes one
 */
export function paintBars(list, entries, choose, canChoose = () => true) {
  const rows = entries.map(([text, probability], rank) => {
    const row = bar(text, probability, choose && canChoose(text) ? "button" : "div");
    if (row.matches("button")) row.addEventListener("click", () => choose(rank));
    return element("li", {}, row);
  });
  list.replaceChildren(...rows);
}

function bar(text, probability, tag) {
  const name = element("bdi", { class: "bar-name" }, printable(text));
  const value = element("span", { class: "probability" }, percent(probability));
  const attributes = { class: "bar-row", "data-probability": probability };
  const row = element(tag, attributes, name, " ", value);
  row.style.setProperty("--share", probability);
  return row;
}
