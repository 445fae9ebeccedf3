// Attention entropy: the mean entropy of every head, layer by layer, in bits.

CARDS["entropy"] = {
  markup: `
    <p class="explain" data-part="entropy-about"></p>
    <div class="scroll"><table class="grid" role="grid" data-part="entropy"></table></div>`,

  uses: ["panel"],

  has: (picture) => CARDS["entropy"].panels(picture).length > 0,
  panels: (picture) =>
    picture.panels.filter(({ name }) =>
      picture.views.entropy?.some(({ panel }) => panel === name),
    ),

  paint(column) {
    const { bits, largest } = entropyOf(column);
    const table = column.part("entropy");
    buildGrid(
      table,
      "layers by heads",
      range(bits[0].length).map((head) => heading("col", `head ${head + 1}`)),
      range(bits.length).map((layer) => heading("row", `layer ${layer + 1}`)),
      (layer, head) => entropyCell(bits[layer][head], largest, layer, head),
    );
    table.setAttribute("aria-label", `Entropy in bits, ${column.attention().title}`);
    column.part("entropy-about").textContent =
      "The entropy −Σ α log₂ α of a head's attention weights in bits, averaged over the queries: " +
      `0 attends to one token, ${largest.toFixed(2)} to all tokens alike.`;
  },

  listen(column) {
    listenToGrid(column.part("entropy"));
    listenToDescriptions(column.part("entropy"), "td", ({ dataset }) => {
      const [layer, head] = [Number(dataset.layer), Number(dataset.head)];
      const value = entropyOf(column).bits[layer][head];
      const text = value === null ? "attends to nothing" : `${value.toFixed(4)} bits`;
      return [`layer ${layer + 1}, head ${head + 1}: `, bold(text)];
    });
  },

  sentence(column) {
    return [`${column.attention().title}: point at a cell.`];
  },

  shown(column) {
    const { panel, bits } = entropyOf(column);
    return { panel, entropy_in_bits: bits };
  },

  drawing(column) {
    const { bits, largest } = entropyOf(column);
    return drawGrid({
      rows: range(bits.length).map((layer) => `layer ${layer + 1}`),
      columns: range(bits[0].length).map((head) => `head ${head + 1}`),
      cellOf: (layer, head) => ({
        fill: PAPER.mean,
        opacity: (bits[layer][head] ?? 0) / (largest || 1),
        text: bits[layer][head]?.toFixed(2) ?? "–",
      }),
    });
  },
};

function entropyOf(column) {
  const { name } = column.panel();
  return column.picture.views.entropy.find(({ panel }) => panel === name);
}

function entropyCell(value, largest, layer, head) {
  const cell = element("td", { "data-layer": layer, "data-head": head });
  cell.dataset.bits = value?.toFixed(4) ?? "";
  cell.textContent = value?.toFixed(2) ?? "–";
  cell.style.setProperty("--weight", ((value ?? 0) / (largest || 1)).toFixed(3));
  return cell;
}
