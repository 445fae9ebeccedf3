// Alignment: source against target as in the figures of Bahdanau et al. (2015), white on black.

const alignCard = {
  uses: ["layer", "heads"],

  has: (picture) => alignCard.panels(picture).length > 0,
  // Thousands of words are for the heat map, which draws only what is in sight.
  panels: (picture) =>
    picture.panels
      .filter(({ name }) => name === "cross")
      .filter(({ queries, keys }) => queries.length * keys.length <= 4 * MOST_CELLS),

  paint(column) {
    const { sources, targets, weights } = alignmentOf(column);
    const table = column.part("align");
    const shape = JSON.stringify([sources, targets]);
    if (table.shape !== shape) {
      table.shape = shape;
      buildGrid(
        table,
        "target against source",
        sources.map((word) => heading("col", word)),
        targets.map((word) => heading("row", word)),
        (target, source) => element("td", { "data-target": target, "data-from": source }),
      );
      // A last column names what is looked at most; it is read, not walked.
      table.tHead.rows[0].append(element("td", { class: "names" }, "comes from"));
      for (const row of table.tBodies[0].rows) {
        row.append(element("td", { class: "names", dir: "auto" }));
      }
      table.style.setProperty("--longest", Math.max(...targets.map((word) => word.length), 3));
    }
    table.setAttribute("aria-label", `Alignment, ${column.place(column.heads())}`);
    for (const [target, row] of [...table.tBodies[0].rows].entries()) {
      for (const source of sources.keys()) {
        const [cell, value] = [row.cells[source + 1], weights[target][source]];
        cell.dataset.weight = value.toFixed(4);
        cell.setAttribute("aria-label", value.toFixed(4));
        cell.style.setProperty("--weight", value.toFixed(4));
      }
      row.lastElementChild.textContent = comesFrom(sources, weights[target]);
    }
    column.part("align-note").textContent = column.heads().length ? "" : "No head is selected.";
  },

  listen(column) {
    listenToGrid(column.part("align"));
    listenToTelling(column.part("align"), "td[data-target]", ({ dataset }) => {
      const { sources, targets, weights } = alignmentOf(column);
      const [target, source] = [Number(dataset.target), Number(dataset.from)];
      const pair = [quote(targets[target]), " from ", quote(sources[source]), " "];
      const value = weights[target][source].toFixed(4);
      return [`${column.place(column.heads())}: `, ...pair, bold(value)];
    });
  },

  sentence(column) {
    return [`${column.place(column.heads())}. Point at a cell.`];
  },

  shown(column) {
    const { sources, targets, weights } = alignmentOf(column);
    return { sources, targets, weights: weights.map((row) => row.map(rounded)) };
  },

  drawing(column) {
    const { sources, targets, weights } = alignmentOf(column);
    return drawGrid({
      rows: targets,
      columns: sources,
      tails: weights.map((row) => comesFrom(sources, row)),
      cellOf: (target, source) => ({
        fill: range(3).map(() => Math.round(255 * weights[target][source])),
        opacity: 1,
        text: "",
      }),
    });
  },
};

/** The word that is looked at most, and how much: "animal 0.62". */
function comesFrom(sources, row) {
  const [best] = strongest(sources.length, (source) => row[source]);
  return best ? `${visible(sources[best[0]])} ${best[1].toFixed(2)}` : "nothing";
}

/** Whole words of both sides, and for each target word how much it looks at each source word. */
function alignmentOf(column) {
  const panel = column.panel();
  const attention = once(panel, "alignment", () => {
    const pieces = attentionOf(panel);
    // A row looks at what the word about to be said comes from: that word is its name.
    const isSaid = panel.predicts.length > 0;
    const about = { ...pieces, queries: isSaid ? panel.predicts : pieces.queries, predicts: [] };
    const said = new Attention(about, pieces.layers, pieces.heads, pieces.layerOf);
    return merge(said, isSaid ? saidWords(panel.query_words) : panel.query_words, panel.key_words);
  });
  const heads = column.heads();
  const { queries: targets, keys: sources } = attention;
  const { means } = attention.matrix(column.layer(), heads);
  const weights = targets.map((_, target) =>
    Array.from(means.subarray(target * sources.length, (target + 1) * sources.length)),
  );
  return { sources, targets, weights };
}

/** The word that each row says: that of the next piece; the last row ends the sentence. */
function saidWords(words) {
  return words.length ? [...words.slice(1), Math.max(...words) + 1] : [];
}
