// Label: what bears on the label of a classifier, word by word.

const MEASURES = {
  flow: "attention flow",
  pooling: "pooling weight",
  without: "probability without it",
  change: "log-odds lost without it",
};

CARDS["label"] = {
  markup: `
    <p class="explain" data-part="label-about"></p>
    <div class="scroll"><table class="figures" data-part="label"></table></div>
    <p class="note">
      <b>Attention flow</b>: the share of the word in the pooled state, followed through all layers
      and weighted by the gradient of the label's log-probability. <b>Pooling weight</b>: the share of
      its last state in the pooled state. Both columns add up to 1. <b>Without it</b>: the model runs
      again without the word; log-odds lost (blue) speak for the label, log-odds gained (red, below 0)
      against it. Removal is the stronger evidence: attention shows where information comes from, not
      that it matters.
    </p>`,

  uses: [],

  has: (picture) => picture.views.label !== undefined,

  paint(column) {
    const evidence = column.picture.views.label;
    const table = column.part("label");
    column.part("label-about").replaceChildren(
      "The label is ",
      quote(evidence.label),
      `, with a probability of ${percent(evidence.probability)}. What bears on it:`,
    );
    table.setAttribute("aria-label", `What bears on the label ${evidence.label}`);
    if (table.evidence === evidence) return; // it does not depend on any choice
    table.evidence = evidence;
    const names = measuresOf(evidence);
    const top = ["word", ...names.map((name) => MEASURES[name])];
    const heads = top.map((text) => element("th", { scope: "col" }, text));
    const rows = evidence.words.map((word, index) => labelRow(evidence, names, word, index));
    table.replaceChildren(
      element("thead", {}, element("tr", {}, ...heads)),
      element("tbody", {}, ...rows),
    );
  },

  sentence(column) {
    const { words, label, change, without, probability } = column.picture.views.label;
    const [best] = strongest(words.length, (word) => change[word] ?? 0);
    if (!best) return [quote(label), ` ${percent(probability)}.`];
    const [word] = best;
    return [
      quote(label),
      ` ${percent(probability)}: without `,
      quote(words[word]),
      " it is ",
      bold(percent(without[word])),
    ];
  },

  shown: (column) => column.picture.views.label,

  drawing(column) {
    const evidence = column.picture.views.label;
    const rows = evidence.words.map((word, index) => ({
      token: word,
      strips: [],
      numbers: measuresOf(evidence).map((name) => ({
        name: MEASURES[name],
        value: evidence[name][index] ?? 0,
      })),
    }));
    return drawRows([], rows);
  },
};

const percent = (probability) => `${(100 * probability).toFixed(1)} %`;

/** Return the names of the measures that the model has. */
function measuresOf(evidence) {
  const isMeasured = (name) => evidence[name]?.some((value) => value !== null);
  return Object.keys(MEASURES).filter(isMeasured);
}

function labelRow(evidence, names, word, index) {
  const cells = names.map((name) => {
    const value = evidence[name][index];
    if (value === null) return element("td", { "data-name": name, "data-value": "" });
    const largest = Math.max(...evidence[name].map((one) => Math.abs(one ?? 0)));
    const share = name === "change" ? value / (largest || 1) : value;
    return barred(value, share, { "data-name": name });
  });
  const head = element("th", { scope: "row" }, tokenElement(word));
  return element("tr", { "data-row": index }, head, ...cells);
}
