// Rollout: the shares of the input tokens in one token's state after each layer.

CARDS["rollout"] = {
  markup: `
    <div class="choices" role="radiogroup" aria-label="Method" data-part="rollout-methods"></div>
    <p class="explain" data-part="rollout-about"></p>
    <div class="scroll"><table class="grid" role="grid" data-part="rollout"></table></div>`,

  uses: ["panel", "query", "words"],
  choices: { method: { read: (text) => text, write: (method) => method } },

  has: (picture) => CARDS["rollout"].panels(picture).length > 0,
  panels: (picture) =>
    picture.panels.filter(({ name }) => picture.views.rollout?.some(({ panel }) => panel === name)),

  paint(column) {
    const { keys, layers } = rolloutAttention(column);
    const shares = sharesOf(column);
    const table = column.part("rollout");
    const methods = rolloutsOf(column).map(({ method, title }) => [method, title]);
    const [box, group] = [column.part("rollout-methods"), `method${column.index || ""}`];
    const chosen = rolloutOf(column).method;
    paintChoices(box, group, methods, chosen, (method) => changeOwn({ method }));
    const shape = JSON.stringify([keys, layers]);
    if (table.shape !== shape) {
      table.shape = shape;
      buildGrid(
        table,
        "input tokens by layers",
        range(layers).map((layer) => heading("col", `layer ${layer + 1}`)),
        keys.map((token) => heading("row", token)),
        (key, layer) => element("td", { "data-input": key, "data-after": layer }),
      );
      table.style.setProperty("--longest", Math.max(...keys.map((token) => token.length), 3));
    }
    for (const cell of table.querySelectorAll("td")) {
      const value = shares[cell.dataset.after][cell.dataset.input];
      cell.textContent = value.toFixed(2);
      cell.dataset.weight = value.toFixed(4);
      cell.style.setProperty("--weight", heat(value).toFixed(3));
    }
    const token = column.attention().queries[column.query()] ?? "";
    column.part("rollout-about").replaceChildren(
      "Shares of the input tokens in the state of ",
      quote(token),
      " after each layer. A column adds up to 1.",
    );
    table.setAttribute("aria-label", `${rolloutOf(column).title}: ${printable(token)}, layer by layer`);
  },

  listen(column) {
    listenToGrid(column.part("rollout"));
    listenToDescriptions(column.part("rollout"), "td", ({ dataset }) => {
      const [key, layer] = [Number(dataset.input), Number(dataset.after)];
      const { queries, keys } = rolloutAttention(column);
      const share = sharesOf(column)[layer][key];
      const start = [`after layer ${layer + 1}, `, quote(queries[column.query()]), " is "];
      return [...start, bold(share.toFixed(4)), " ", quote(keys[key])];
    });
  },

  sentence(column) {
    const { queries, keys, layers } = rolloutAttention(column);
    const shares = sharesOf(column)[layers - 1];
    const first = strongest(keys.length, (key) => shares[key]);
    if (!first.length) return [`${rolloutOf(column).title}.`];
    const whose = [quote(queries[column.query()]), " is mostly "];
    return [`after layer ${layers}, `, ...whose, ...listed(keys, first)];
  },

  shown(column) {
    const { method, title } = rolloutOf(column);
    const { queries, keys } = rolloutAttention(column);
    const shares = sharesOf(column).map((layer) => Array.from(layer, rounded));
    const query = column.query();
    return { method, title, token: queries[query], query, keys, shares_after_layer: shares };
  },

  drawing(column) {
    const { keys, layers } = rolloutAttention(column);
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

/** Return the rollouts of the panel that is shown. */
function rolloutsOf(column) {
  return (column.picture.views.rollout ?? []).filter(({ panel }) => panel === column.panel()?.name);
}

function rolloutOf(column) {
  const rollouts = rolloutsOf(column);
  return rollouts.find(({ method }) => method === state.own.method) ?? rollouts[0] ?? null;
}

function rolloutAttention(column) {
  const [rollout, panel] = [rolloutOf(column), column.panel()];
  return column.merges() ? mergedRollout(rollout, panel) : attentionOfRollout(rollout, panel);
}

/** Return the shares of the chosen query: [layer][input token]. */
function sharesOf(column) {
  const rollout = rolloutAttention(column);
  const query = column.query();
  const keys = range(rollout.keys.length);
  return range(rollout.layers).map((layer) => keys.map((key) => rollout.weight(layer, 0, query, key)));
}
