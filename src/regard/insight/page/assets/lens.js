// Next words by layer: what the model would say after each word, were each layer the last.

// More words than this are more than anybody reads in a table.
const MOST_READ = 400;

const lensCard = {
  uses: [],

  has: (picture) => picture.lens !== null,

  paint(column) {
    const lens = column.picture.lens;
    const words = lens.words.slice(0, MOST_READ);
    const table = column.part("lens");
    if (table.lens === lens) return; // no choice changes it
    table.lens = lens;
    buildGrid(
      table,
      "after each layer, after each word",
      words.map((word) => heading("col", word)),
      lens.layers.map((layer) => element("th", { scope: "row", title: layer }, layer)),
      (layer, word) => lensCell(lens, layer, word),
    );
    const left = lens.words.length - words.length;
    column.part("lens-note").textContent = left ? `${left} more words are left out.` : "";
    listLikeliest(column, lens.layers.length - 1, words.length - 1);
  },

  listen(column) {
    const table = column.part("lens");
    listenToGrid(table);
    listenToTelling(table, "td", ({ dataset }) => {
      const [layer, word] = [Number(dataset.layer), Number(dataset.word)];
      listLikeliest(column, layer, word);
      const { lens } = column.picture;
      const [best] = lens.likeliest[layer][word];
      const said = [`${lens.layers[layer]}, after `, quote(lens.words[word]), ": "];
      return best ? [...said, quote(best[0]), " ", bold(best[1].toFixed(4))] : said;
    });
  },

  sentence() {
    return ["Point at a cell to see what else could be said there."];
  },

  shown: (column) => column.picture.lens,

  drawing(column) {
    const { words, layers, likeliest } = column.picture.lens;
    const kept = words.slice(0, MOST_READ);
    return drawGrid({
      rows: layers,
      columns: kept,
      width: 84,
      cellOf: (layer, word) => {
        const [piece, p] = likeliest[layer][word][0] ?? ["", 0];
        return { fill: PAPER.mean, opacity: p, text: `${visible(piece)} ${p.toFixed(2)}` };
      },
    });
  },
};

function lensCell(lens, layer, word) {
  const [piece, p] = lens.likeliest[layer][word][0] ?? ["", 0];
  const cell = element("td", { "data-layer": layer, "data-word": word });
  cell.dataset.weight = p.toFixed(4);
  cell.append(wordOf(piece), element("span", { class: "chance" }, p.toFixed(2)));
  cell.style.setProperty("--weight", p.toFixed(3));
  return cell;
}

/** The likeliest next pieces at one place, best first. */
function listLikeliest(column, layer, word) {
  const { words, layers, likeliest } = column.picture.lens;
  const list = column.part("likeliest");
  const entries = (likeliest[layer]?.[word] ?? []).map(([piece, p]) => {
    const bar = element("i", { class: "bar" });
    bar.style.setProperty("--share", p.toFixed(4));
    const number = element("span", { class: "chance" }, p.toFixed(4));
    return element("li", {}, bar, wordOf(piece), " ", number);
  });
  list.replaceChildren(...entries);
  const place = words.length ? [`${layers[layer]}, after `, quote(words[word])] : [];
  column.part("likeliest-title").replaceChildren(...place);
}
