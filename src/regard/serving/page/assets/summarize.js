// The tab Summarize: the summary of a text, as you type.

import { at } from "./elements.js";
import { run } from "./server.js";
import { TypedTab } from "./typed_tab.js";

export const summarize = new TypedTab({
  name: "summarize",
  title: "Summarize",
  box: at("long-text"),
  select: at("summarize-model"),
  output: at("summary"),
  problem: at("summarize-problem"),
  look: at("summarize-look"),
  isReady: (text) => text.trim() !== "",
  show: async (model, text, signal) => {
    const { summaries } = await run("summarize", model, { texts: [text] }, signal);
    at("summary").textContent = summaries[0].text;
    return summaries[0].text;
  },
});
