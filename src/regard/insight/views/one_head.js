// Scores of one head: for one query, the score of each key before the softmax, and its weight.

CARDS["one-head"] = {
  markup: `
    <p class="explain">
      <span data-part="one-head-about"></span>
      The softmax turns scores into weights: e to the score, divided by the sum over all keys.
    </p>
    <div class="scroll">
      <table class="figures" data-part="one-head">
        <thead>
          <tr>
            <th scope="col">key</th>
            <th scope="col">score</th>
            <th scope="col">e<sup>score − largest</sup></th>
            <th scope="col">share</th>
            <th scope="col">weight</th>
          </tr>
        </thead>
        <tbody></tbody>
        <tfoot><tr></tr></tfoot>
      </table>
    </div>
    <p class="note" data-part="one-head-note"></p>
    <div class="vectors" data-part="products" role="group" aria-label="Products of query and key">
    </div>
    <details class="numbers" data-part="product-numbers">
      <summary>The numbers of these vectors</summary>
      <div class="scroll"></div>
    </details>`,

  uses: ["panel", "layer", "head", "query"],
  // The key whose product with the query is shown; by default the one with the largest weight.
  choices: {
    key: {
      read: (text) => numberIn(text, Infinity),
      write: (key) => (key === null ? null : key + 1),
      perPanel: true,
    },
  },

  has: (picture) => CARDS["one-head"].panels(picture).length > 0,
  panels: (picture) =>
    picture.panels.filter(({ name, scores }) => scores || stepsFor(picture, name)),

  paint(column) {
    const { queries, keys } = column.attention();
    const rows = scoreRows(column);
    const chosen = chosenKey(column, rows);
    column.part("one-head-about").replaceChildren(
      `Layer ${column.layer() + 1}, head ${column.head() + 1}: `,
      quote(queries[column.query()] ?? ""),
      " attends to these keys.",
    );
    const largest = Math.max(...rows.map(({ score }) => Math.abs(score)), 0);
    const body = rows.map((row) => scoreRow(row, keys[row.key], largest, row.key === chosen));
    const sums = ["exp", "share", "weight"].map((name) => figure(total(rows, name)));
    const foot = ["sum", "", ...sums];
    const table = column.part("one-head");
    table.tBodies[0].replaceChildren(...body);
    table.tFoot.rows[0].replaceChildren(
      ...foot.map((text, index) => element(index ? "td" : "th", {}, text)),
    );
    rove(table.querySelectorAll("button"), table.querySelector("[aria-pressed=true]"));
    const left = keys.length - rows.length;
    column.part("one-head-note").textContent = left
      ? `${left} keys with smaller weights, or masked, are left out.`
      : "";
    paintProducts(column, rows, chosen);
  },

  listen(column) {
    const table = column.part("one-head");
    table.addEventListener("click", ({ target }) => {
      const button = target.closest("button");
      if (button) changeOwn({ key: Number(button.dataset.key) });
      // The table was built again; the keyboard stays on the same key.
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
    const rows = scoreRows(column);
    const row = rows.find(({ key }) => key === chosenKey(column, rows));
    if (!row) return [`${column.place([column.head()])}. Every key is masked.`];
    return [
      `${column.place([column.head()])}: `,
      quote(queries[column.query()]),
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
    const rows = scoreRows(column).map((row) => ({ ...row, token: keys[row.key] }));
    const query = column.query();
    const { layer, head } = { layer: column.layer() + 1, head: column.head() + 1 };
    return { layer, head, query, token: queries[query], rows };
  },

  drawing(column) {
    return drawScores(column);
  },
};

const MAX_ROWS = 200;

const total = (rows, name) => rows.reduce((sum, row) => sum + row[name], 0);

/**
 * Return for each key that is not masked: its score, e to the score (less the largest, which gets 1),
 * its share of their sum, and the weight that the model used.
 */
function scoreRows(column) {
  const attention = column.attention();
  const [layer, head, query] = [column.layer(), column.head(), column.query()];
  const { scores } = column.panel();
  const scoreOf = scores
    ? slice(scores, layer, head, query)
    : scaledProducts(column).map(({ scaled }) => scaled);
  const rows = attention.keys
    .map((_, key) => ({ key, score: scoreOf[key] }))
    .filter(({ score }) => Number.isFinite(score));
  const largest = rows.reduce((best, { score }) => Math.max(best, score), -Infinity);
  for (const row of rows) row.exp = Math.exp(row.score - largest);
  const sum = total(rows, "exp");
  for (const row of rows) {
    row.share = row.exp / sum;
    row.weight = attention.weight(layer, head, query, row.key);
  }
  if (rows.length <= MAX_ROWS) return rows;
  // Too many to read: those with the largest weights, in the order of the text.
  const largestWeights = [...rows].sort((a, b) => b.weight - a.weight).slice(0, MAX_ROWS);
  return largestWeights.sort((a, b) => a.key - b.key);
}

/** Return the key whose product with the query is shown: the chosen one, or the largest. */
function chosenKey(column, rows) {
  if (rows.some(({ key }) => key === state.own.key)) return state.own.key;
  const none = { key: null, weight: -1 };
  return rows.reduce((best, row) => (row.weight > best.weight ? row : best), none).key;
}

function scoreRow({ key, score, exp, share, weight }, token, largest, isChosen) {
  const attributes = { type: "button", "data-key": key, "aria-pressed": isChosen };
  const button = element("button", attributes, tokenElement(token));
  return element(
    "tr",
    { "data-row": key },
    element("th", { scope: "row" }, button),
    barred(score, largest ? score / largest : 0, { "data-name": "score" }),
    barred(exp, exp, { "data-name": "exp" }),
    barred(share, share, { "data-name": "share" }),
    barred(weight, weight, { "data-name": "weight" }),
  );
}

// ---------------------------------------------------------------- products of query and key

/** Return for each key the products of query and key that add up to the score. */
function scaledProducts(column) {
  const steps = stepsFor(column.picture, column.panel().name);
  const [layer, head, query] = [column.layer(), column.head(), column.query()];
  const q = slice(steps.queries, layer, head, query);
  return column.attention().keys.map((_, key) => {
    const k = slice(steps.keys, layer, head, key);
    const products = q.map((one, i) => one * k[i]);
    const sum = products.reduce((all, one) => all + one, 0);
    return { q, k, products, sum, scaled: sum / Math.sqrt(q.length) };
  });
}

function paintProducts(column, rows, chosen) {
  const row = rows.find(({ key }) => key === chosen);
  const has = Boolean(row && stepsFor(column.picture, column.panel().name));
  column.part("products").hidden = !has;
  column.part("product-numbers").hidden = !has;
  if (!has) return;
  const { queries, keys } = column.attention();
  const { q, k, products, sum, scaled } = scaledProducts(column)[chosen];
  const vectors = [
    { name: "q", of: queries[column.query()], values: q },
    { name: "k", of: keys[chosen], values: k },
    { name: "q × k", of: "", values: products },
  ];
  const own = largestOf(vectors.slice(0, 2));
  const equation = sumOf(q.length, sum, scaled, row.score);
  column.part("products").replaceChildren(
    ...vectors.map((vector, index) => named(vector, index < 2 ? own : largestOf([vector]))),
    element("p", { class: "equation", "data-sum": "" }, ...equation),
  );
  readyStrips(column.part("products"));
  paintNumbers(column.part("product-numbers"), vectors);
}

/** Return "q·k = 3.2; ÷ √K (K = 64) = 0.4; + 0.1 position bias = 0.5". */
function sumOf(size, sum, scaled, score) {
  const parts = [`q·k = ${figure(sum)}; ÷ √K (K = ${size}) = `, bold(figure(scaled))];
  // Larger than the rounding error of 32 bits.
  const bias = score - scaled;
  if (Math.abs(bias) > 1e-3 * (1 + Math.abs(score))) {
    const sign = bias < 0 ? "−" : "+";
    parts.push(`; ${sign} ${figure(Math.abs(bias))} position bias = `, bold(figure(score)));
  }
  return parts;
}

// ---------------------------------------------------------------- export

function drawScores(column) {
  const { keys } = column.attention();
  const names = { score: "score", exp: "e^(score − largest)", share: "share", weight: "weight" };
  const rows = scoreRows(column).map((row) => ({
    token: keys[row.key],
    strips: [],
    numbers: Object.entries(names).map(([name, title]) => ({ name: title, value: row[name] })),
  }));
  return drawRows([], rows);
}
