// Follow one word: what it is made of after each layer, as shares of the input words.

const followCard = {
  uses: ["panel", "flow", "word", "words"],

  has: (picture) => followCard.panels(picture).length > 0,
  panels: (picture) =>
    picture.panels.filter(({ name }) => picture.flows.some(({ panel }) => panel === name)),

  paint(column) {
    const { keys, layers } = flowAttention(column);
    const shares = sharesOf(column);
    const table = column.part("follow");
    const shape = JSON.stringify([keys, layers]);
    if (table.shape !== shape) {
      table.shape = shape;
      buildGrid(
        table,
        "input word, after each layer",
        range(layers).map((layer) => heading("col", `layer ${layer + 1}`)),
        keys.map((word) => heading("row", word)),
        (key, layer) => element("td", { "data-word": key, "data-after": layer }),
      );
      table.style.setProperty("--longest", Math.max(...keys.map((word) => word.length), 3));
    }
    for (const cell of table.querySelectorAll("td")) {
      const value = shares[cell.dataset.after][cell.dataset.word];
      cell.textContent = value.toFixed(2);
      cell.dataset.weight = value.toFixed(4);
      cell.style.setProperty("--weight", heat(value).toFixed(3));
    }
    const word = column.attention().queries[column.word()] ?? "";
    column.part("follow-about").replaceChildren(
      "After each layer (left to right), ",
      quote(word),
      " is made of these shares of the input words. A column adds up to 1.",
    );
    table.setAttribute("aria-label", `${flowOf(column).title}: ${visible(word)}, layer by layer`);
  },

  listen(column) {
    listenToGrid(column.part("follow"));
    listenToTelling(column.part("follow"), "td", ({ dataset }) => {
      const [key, layer] = [Number(dataset.word), Number(dataset.after)];
      const { queries, keys } = flowAttention(column);
      const share = sharesOf(column)[layer][key];
      const said = [`after layer ${layer + 1}, `, quote(queries[column.word()]), " is "];
      return [...said, bold(share.toFixed(4)), " ", quote(keys[key])];
    });
  },

  sentence(column) {
    const { queries, keys, layers } = flowAttention(column);
    const shares = sharesOf(column)[layers - 1];
    const first = strongest(keys.length, (key) => shares[key]);
    if (!first.length) return [`${flowOf(column).title}.`];
    const whose = [quote(queries[column.word()]), " is mostly "];
    return [`after layer ${layers}, `, ...whose, ...listed(keys, first)];
  },

  shown(column) {
    const { name, title } = flowOf(column);
    const { queries, keys } = flowAttention(column);
    const shares = sharesOf(column).map((layer) => Array.from(layer, rounded));
    const query = column.word();
    return { flow: name, title, word: queries[query], query, keys, shares_after_layer: shares };
  },

  drawing(column) {
    const { keys, layers } = flowAttention(column);
    const shares = sharesOf(column);
    return drawGrid({
      rows: keys,
      columns: range(layers).map((layer) => `after layer ${layer + 1}`),
      cellOf: (key, layer) => ({
        fill: PAPER.mean,
        opacity: heat(shares[layer][key]),
        text: shares[layer][key].toFixed(2),
      }),
    });
  },
};

/** The flows through the panel that is shown. */
function flowsOf(column) {
  return column.picture.flows.filter(({ panel }) => panel === column.panel()?.name);
}

function flowOf(column) {
  const flows = flowsOf(column);
  return flows.find(({ name }) => name === state.flow) ?? flows[0] ?? null;
}

function flowAttention(column) {
  const [flow, panel] = [flowOf(column), column.panel()];
  const isMerged = column.merges() && panel.query_words.length > 0;
  return isMerged ? mergedFlow(flow, panel) : attentionOfFlow(flow, panel);
}

/** [layer][word]: the shares of the followed word. */
function sharesOf(column) {
  const flow = flowAttention(column);
  const word = column.word();
  const keys = range(flow.keys.length);
  return range(flow.layers).map((layer) => keys.map((key) => flow.weight(layer, 0, word, key)));
}
