// The tab Fill: candidates for the blanks of a text, as you type.

import { paintBars } from "./bars.js";
import { at, element, percent, setText } from "./elements.js";
import { run } from "./server.js";
import { TypedTab } from "./typed_tab.js";

const TOP = 8; // candidates for each blank
const BLANK = "___";
const BLANKS = /\[MASK\]|<mask>|___+/;

export const fill = new TypedTab({
  name: "fill",
  title: "Fill",
  box: at("blanked"),
  select: at("fill-model"),
  output: at("blanks"),
  problem: at("fill-problem"),
  look: at("fill-look"),
  isReady: (text) => BLANKS.test(text),
  show: async (model, text, signal) => {
    const { fills } = await run("fill", model, { texts: [text], top: TOP }, signal);
    const [blanks] = fills;
    at("blanks").replaceChildren(...blanks.map(blank));
    return blanks.map(([best]) => `${best.text} ${percent(best.probability)}`).join(" · ");
  },
});

/** Make the list of a blank; a candidate that is chosen fills it. */
function blank(candidates, index) {
  const list = element("ul", { class: "bars" });
  const entries = candidates.map(({ text, probability }) => [text, probability]);
  paintBars(list, entries, (rank) => {
    setText(at("blanked"), candidates[rank].sequence);
    fill.focus();
  });
  return element("section", { class: "card" }, element("h2", {}, `Blank ${index + 1}`), list);
}

/** Put a blank where the text cursor is. */
at("add-blank").addEventListener("click", () => {
  const box = at("blanked");
  box.setRangeText(BLANK, box.selectionStart, box.selectionEnd, "end");
  box.dispatchEvent(new Event("input"));
  box.focus();
});
