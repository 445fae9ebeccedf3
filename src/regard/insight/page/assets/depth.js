// One head in depth: from the score of each word, before the softmax, to its weight.

const depthCard = {
  uses: ["panel", "layer", "one", "word", "against"],

  has: (picture) => depthCard.panels(picture).length > 0,
  panels: (picture) =>
    picture.panels.filter(({ name, scores }) => scores || stepsFor(picture, name)),

  paint(column) {
    const { queries, keys } = column.attention();
    const rows = depthRows(column);
    const against = againstOf(column, rows);
    column.part("depth-about").replaceChildren(
      `Layer ${column.layer() + 1}, head ${column.head() + 1}: `,
      quote(queries[column.word()] ?? ""),
      " looks at these words.",
    );
    const largest = Math.max(...rows.map(({ score }) => Math.abs(score)), 0);
    const body = rows.map((row) => depthRow(row, keys[row.key], largest, row.key === against));
    const sums = ["grown", "share", "weight"].map((name) => figure(total(rows, name)));
    const foot = ["sum", "", ...sums];
    const table = column.part("depth");
    table.tBodies[0].replaceChildren(...body);
    table.tFoot.rows[0].replaceChildren(
      ...foot.map((text, place) => element(place ? "td" : "th", {}, text)),
    );
    rove(table.querySelectorAll("button"), table.querySelector("[aria-pressed=true]"));
    const left = keys.length - rows.length;
    column.part("depth-note").textContent = left
      ? `${left} words with smaller weights, or that could not be seen, are left out.`
      : "";
    paintProducts(column, rows, against);
  },

  listen(column) {
    const table = column.part("depth");
    table.addEventListener("click", ({ target }) => {
      const button = target.closest("button");
      if (button) change({ against: Number(button.dataset.against) });
      // The table was made anew; the keyboard stays on the same word.
      if (button) table.querySelector("[aria-pressed=true]")?.focus();
    });
    table.addEventListener("keydown", (event) =>
      step(event, [...table.querySelectorAll("button")], { ArrowUp: -1, ArrowDown: 1 }),
    );
    listenToStrips(column.part("products"));
    listenToNumbers(column.part("product-numbers"));
  },

  sentence(column) {
    const { queries, keys } = column.attention();
    const rows = depthRows(column);
    const row = rows.find(({ key }) => key === againstOf(column, rows));
    if (!row) return [`${column.place([column.head()])}. There is nothing to see.`];
    return [
      `${column.place([column.head()])}: `,
      quote(queries[column.word()]),
      " → ",
      quote(keys[row.key]),
      " score ",
      bold(figure(row.score)),
      ", weight ",
      bold(figure(row.weight)),
    ];
  },

  shown(column) {
    const { queries, keys } = column.attention();
    const rows = depthRows(column).map((row) => ({ ...row, word: keys[row.key] }));
    const query = column.word();
    const { layer, head } = { layer: column.layer() + 1, head: column.head() + 1 };
    return { layer, head, query, word: queries[query], rows };
  },

  drawing(column) {
    return drawDepth(column);
  },
};

const MOST_ROWS = 200;

const total = (rows, name) => rows.reduce((sum, row) => sum + row[name], 0);

/**
 * For each word that could be seen: its score, e to the score (against the largest, which gets 1),
 * that as a share of all, and the weight that the model used.
 */
function depthRows(column) {
  const attention = column.attention();
  const [layer, head, query] = [column.layer(), column.head(), column.word()];
  const { scores } = column.panel();
  const scoreOf = scores
    ? slice(scores, layer, head, query)
    : scaledProducts(column).map(({ scaled }) => scaled);
  const rows = attention.keys
    .map((_, key) => ({ key, score: scoreOf[key] }))
    .filter(({ score }) => Number.isFinite(score));
  const largest = rows.reduce((best, { score }) => Math.max(best, score), -Infinity);
  for (const row of rows) row.grown = Math.exp(row.score - largest);
  const sum = total(rows, "grown");
  for (const row of rows) {
    row.share = row.grown / sum;
    row.weight = attention.weight(layer, head, query, row.key);
  }
  if (rows.length <= MOST_ROWS) return rows;
  // Too many to read: those that matter, in the order of the sentence.
  const kept = [...rows].sort((a, b) => b.weight - a.weight).slice(0, MOST_ROWS);
  return kept.sort((a, b) => a.key - b.key);
}

/** The word whose key is multiplied with the query: the chosen one, or the one looked at most. */
function againstOf(column, rows) {
  if (rows.some(({ key }) => key === state.against)) return state.against;
  const none = { key: null, weight: -1 };
  return rows.reduce((best, row) => (row.weight > best.weight ? row : best), none).key;
}

function depthRow({ key, score, grown, share, weight }, word, largest, isChosen) {
  const attributes = { type: "button", "data-against": key, "aria-pressed": isChosen };
  const button = element("button", attributes, wordOf(word));
  return element(
    "tr",
    { "data-row": key },
    element("th", { scope: "row" }, button),
    barred(score, largest ? score / largest : 0, { "data-name": "score" }),
    barred(grown, grown, { "data-name": "grown" }),
    barred(share, share, { "data-name": "share" }),
    barred(weight, weight, { "data-name": "weight" }),
  );
}

// ---------------------------------------------------------------- what a score is made of

const stepsFor = (picture, panel) => picture.steps.find((steps) => steps.panel === panel) ?? null;

/** For each key the products of query and key that add up to the score. */
function scaledProducts(column) {
  const steps = stepsFor(column.picture, column.panel().name);
  const [layer, head, query] = [column.layer(), column.head(), column.word()];
  const asked = slice(steps.queries, layer, head, query);
  return column.attention().keys.map((_, key) => {
    const held = slice(steps.keys, layer, head, key);
    const products = asked.map((one, place) => one * held[place]);
    const sum = products.reduce((all, one) => all + one, 0);
    return { asked, held, products, sum, scaled: sum / Math.sqrt(asked.length) };
  });
}

function paintProducts(column, rows, against) {
  const row = rows.find(({ key }) => key === against);
  const has = Boolean(row && stepsFor(column.picture, column.panel().name));
  column.part("products").hidden = !has;
  column.part("product-numbers").hidden = !has;
  if (!has) return;
  const { queries, keys } = column.attention();
  const { asked, held, products, sum, scaled } = scaledProducts(column)[against];
  const vectors = [
    { name: "q", of: queries[column.word()], values: asked },
    { name: "k", of: keys[against], values: held },
    { name: "q × k", of: "", values: products },
  ];
  const own = largestOf(vectors.slice(0, 2));
  const said = sumOf(asked.length, sum, scaled, row.score);
  column.part("products").replaceChildren(
    ...vectors.map((vector, place) => named(vector, place < 2 ? own : largestOf([vector]))),
    element("p", { class: "equation", "data-sum": "" }, ...said),
  );
  readyStrips(column.part("products"));
  paintNumbers(column.part("product-numbers"), vectors);
}

/** "q·k = 3.2; ÷ √64 = 0.4; + 0.1 for the positions = 0.5". */
function sumOf(size, sum, scaled, score) {
  const said = [`q·k = ${figure(sum)}; ÷ √${size} = `, bold(figure(scaled))];
  // What is left over is too large to be the rounding of 32 bits.
  const bias = score - scaled;
  if (Math.abs(bias) > 1e-3 * (1 + Math.abs(score))) {
    const sign = bias < 0 ? "−" : "+";
    said.push(`; ${sign} ${figure(Math.abs(bias))} for the positions = `, bold(figure(score)));
  }
  return said;
}
