// Logit lens: the next tokens predicted from the residual stream after each layer.

// A table of more tokens is too wide to read.
const MAX_TOKENS_OF_LENS = 400;

CARDS["logit-lens"] = {
  markup: `
    <p class="explain">
      The most probable next token after each token, read from the residual stream after each layer
      with the final norm and the output layer. A stronger color is a higher probability.
    </p>
    <div class="lens-box">
      <div class="scroll"><table class="grid lens" role="grid" data-part="logit-lens"
        aria-label="Most probable next tokens"></table></div>
      <div class="beside">
        <h3 data-part="predictions-title"></h3>
        <ol class="predictions" data-part="predictions"></ol>
      </div>
    </div>
    <p class="note" data-part="logit-lens-note"></p>`,

  uses: [],

  has: (picture) => picture.views["logit-lens"] !== undefined,

  paint(column) {
    const lens = column.picture.views["logit-lens"];
    const tokens = lens.tokens.slice(0, MAX_TOKENS_OF_LENS);
    const table = column.part("logit-lens");
    if (table.lens === lens) return; // it does not depend on any choice
    table.lens = lens;
    buildGrid(
      table,
      "layers by tokens",
      tokens.map((token) => heading("col", token)),
      lens.layers.map((layer) => element("th", { scope: "row", title: layer }, layer)),
      (layer, position) => lensCell(lens, layer, position),
    );
    const left = lens.tokens.length - tokens.length;
    column.part("logit-lens-note").textContent = left ? `${left} more tokens are left out.` : "";
    listPredictions(column, lens.layers.length - 1, tokens.length - 1);
  },

  listen(column) {
    const table = column.part("logit-lens");
    listenToGrid(table);
    listenToDescriptions(table, "td", ({ dataset }) => {
      const [layer, position] = [Number(dataset.layer), Number(dataset.position)];
      listPredictions(column, layer, position);
      const lens = column.picture.views["logit-lens"];
      const [best] = lens.predictions[layer][position];
      const start = [`${lens.layers[layer]}, after `, quote(lens.tokens[position]), ": "];
      return best ? [...start, quote(best[0]), " ", bold(best[1].toFixed(4))] : start;
    });
  },

  sentence() {
    return ["Point at a cell to see other probable tokens."];
  },

  shown: (column) => column.picture.views["logit-lens"],

  drawing(column) {
    const { tokens, layers, predictions } = column.picture.views["logit-lens"];
    return drawGrid({
      rows: layers,
      columns: tokens.slice(0, MAX_TOKENS_OF_LENS),
      width: 84,
      cellOf: (layer, position) => {
        const [token, p] = predictions[layer][position][0] ?? ["", 0];
        return { fill: PAPER.mean, opacity: p, text: `${printable(token)} ${p.toFixed(2)}` };
      },
    });
  },
};

function lensCell(lens, layer, position) {
  const [token, p] = lens.predictions[layer][position][0] ?? ["", 0];
  const cell = element("td", { "data-layer": layer, "data-position": position });
  cell.dataset.weight = p.toFixed(4);
  cell.append(tokenElement(token), element("span", { class: "probability" }, p.toFixed(2)));
  cell.style.setProperty("--weight", p.toFixed(3));
  return cell;
}

/** List the most probable next tokens at one position, best first. */
function listPredictions(column, layer, position) {
  const { tokens, layers, predictions } = column.picture.views["logit-lens"];
  const list = column.part("predictions");
  const entries = (predictions[layer]?.[position] ?? []).map(([token, p]) => {
    const bar = element("i", { class: "bar" });
    bar.style.setProperty("--share", p.toFixed(4));
    const number = element("span", { class: "probability" }, p.toFixed(4));
    return element("li", {}, bar, tokenElement(token), " ", number);
  });
  list.replaceChildren(...entries);
  const title = tokens.length ? [`${layers[layer]}, after `, quote(tokens[position])] : [];
  column.part("predictions-title").replaceChildren(...title);
}
