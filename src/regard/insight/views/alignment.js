// Alignment: target words by source words as in Bahdanau et al. (2015), white on black.

CARDS["alignment"] = {
  markup: `
    <p class="explain">
      A row is a target word, a column a source word: the whiter, the larger the attention weight
      before the target word is predicted. The mean of the selected heads, tokens merged into words.
    </p>
    <div class="scroll"><table class="grid align" role="grid" data-part="alignment"></table></div>
    <p class="note" data-part="alignment-note"></p>`,

  uses: ["layer", "heads"],

  has: (picture) => CARDS["alignment"].panels(picture).length > 0,
  // Longer texts are for the heat map, which draws only the visible part.
  panels: (picture) =>
    picture.panels
      .filter(({ name }) => name === "cross")
      .filter(({ queries, keys }) => queries.length * keys.length <= 4 * MAX_CELLS),

  paint(column) {
    const { sources, targets, weights } = alignmentOf(column);
    const table = column.part("alignment");
    const shape = JSON.stringify([sources, targets]);
    if (table.shape !== shape) {
      table.shape = shape;
      buildGrid(
        table,
        "target words by source words",
        sources.map((word) => heading("col", word)),
        targets.map((word) => heading("row", word)),
        (target, source) => element("td", { "data-target": target, "data-from": source }),
      );
      // A last column has the source word with the largest weight; it takes no keyboard focus.
      table.tHead.rows[0].append(element("td", { class: "names" }, "aligned to"));
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
      row.lastElementChild.textContent = alignedTo(sources, weights[target]);
    }
    column.part("alignment-note").textContent = column.heads().length ? "" : "No head is selected.";
  },

  listen(column) {
    listenToGrid(column.part("alignment"));
    listenToDescriptions(column.part("alignment"), "td[data-target]", ({ dataset }) => {
      const { sources, targets, weights } = alignmentOf(column);
      const [target, source] = [Number(dataset.target), Number(dataset.from)];
      const pair = [quote(targets[target]), " aligned to ", quote(sources[source]), " "];
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
      tails: weights.map((row) => alignedTo(sources, row)),
      cellOf: (target, source) => ({
        fill: range(3).map(() => Math.round(255 * weights[target][source])),
        opacity: 1,
        text: "",
      }),
    });
  },
};

/** Return the source word with the largest weight, and the weight: "animal 0.62". */
function alignedTo(sources, row) {
  const [best] = strongest(sources.length, (source) => row[source]);
  return best ? `${printable(sources[best[0]])} ${best[1].toFixed(2)}` : "nothing";
}

/** Return the words of both sides, and the weights of target words on source words. */
function alignmentOf(column) {
  const panel = column.panel();
  const attention = once(panel, "alignment", () => {
    const tokens = attentionOf(panel);
    // The weights of a query belong to the token that it predicts: that token names the row.
    const hasPredictions = panel.predicts.length > 0;
    const rows = hasPredictions ? panel.predicts : tokens.queries;
    const about = { ...tokens, queries: rows, predicts: [] };
    const byTarget = new Attention(about, tokens.layers, tokens.heads, tokens.layerOf);
    const { query_words: words } = panel;
    return merge(byTarget, hasPredictions ? predictedWords(words) : words, panel.key_words);
  });
  const heads = column.heads();
  const { queries: targets, keys: sources } = attention;
  const { means } = attention.matrix(column.layer(), heads);
  const weights = targets.map((_, target) =>
    Array.from(means.subarray(target * sources.length, (target + 1) * sources.length)),
  );
  return { sources, targets, weights };
}

/** Return the word of the token that each query predicts; the last one predicts the end. */
function predictedWords(words) {
  return words.length ? [...words.slice(1), Math.max(...words) + 1] : [];
}
