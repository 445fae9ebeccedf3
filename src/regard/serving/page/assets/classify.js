// The tab Classify: labels of a text with their probabilities, as you type.

import { paintBars } from "./bars.js";
import { at, percent } from "./elements.js";
import { run } from "./server.js";
import { TypedTab } from "./typed_tab.js";

export const classify = new TypedTab({
  name: "classify",
  title: "Classify",
  box: at("labeled"),
  select: at("classify-model"),
  output: at("labels"),
  problem: at("classify-problem"),
  look: at("classify-look"),
  isReady: (text) => text.trim() !== "",
  show: async (model, text, signal) => {
    const { predictions } = await run("classify", model, { texts: [text] }, signal);
    const [labels] = predictions;
    paintBars(at("labels"), labels.map(({ label, probability }) => [label, probability]));
    return `${labels[0].label} ${percent(labels[0].probability)}`;
  },
});
