// Heat map: a row is a word that looks, a column a word looked at.

// More cells than this are slow as elements of a page; they are drawn on a canvas instead.
const MOST_CELLS = 10000;

const isLargeMap = ({ queries, keys }) => queries.length * keys.length > MOST_CELLS;

const mapCard = {
  uses: ["panel", "layer", "heads", "map", "words"],

  has: ({ panels }) => panels.length > 0,

  build(column) {
    const attention = column.attention();
    const { queries, keys } = attention;
    const isLarge = isLargeMap(attention);
    column.part("scroll").hidden = isLarge;
    column.part("wide").hidden = !isLarge;
    if (isLarge) return buildWide(column);
    const map = column.part("map");
    buildGrid(
      map,
      "who looks at whom",
      keys.map((word, key) => heading("col", word, { "data-key": key })),
      queries.map((word, query) => heading("row", word, { "data-query": query })),
      (query, key) => element("td", { "data-query": query, "data-key": key }),
    );
    map.style.setProperty("--longest", Math.max(...queries.map((word) => word.length), 3));
  },

  paint(column) {
    const heads = column.mapHeads();
    const attention = column.attention();
    column.part("map-note").textContent = heads.length ? "" : "No head is selected.";
    if (isLargeMap(attention)) return paintWide(column);
    const map = column.part("map");
    map.style.setProperty("--head", heads.length === 1 ? rgb(heads[0]).join(" ") : "var(--mean)");
    map.setAttribute("aria-label", `Heat map, ${column.place(heads)}`);
    let hatched = false;
    for (const cell of map.querySelectorAll("td")) {
      hatched = paintCell(column, cell, heads) || hatched;
    }
    sayWhatIsHidden(column, "Hatched", hatched);
  },

  light(column) {
    if (isLargeMap(column.attention())) lightWide(column);
    else paintHeadings(column);
  },

  listen(column) {
    listenToPointing(column, column.part("map"));
    listenToGrid(column.part("map"));
    listenToWide(column);
  },

  shown(column) {
    const { queries, keys } = column.attention();
    const { means } = column.attention().matrix(column.layer(), column.mapHeads());
    const heads = column.mapHeads().map((head) => head + 1);
    const weights = queries.map((_, query) =>
      Array.from(means.subarray(query * keys.length, (query + 1) * keys.length), rounded),
    );
    return { queries, keys, mean_of_heads: heads, weights };
  },

  drawing(column) {
    return drawMap(column);
  },
};

/** "Hatched cells could not be seen: this layer looks at 12 % of all pairs." */
function sayWhatIsHidden(column, cells, isAny) {
  const share = column.attention().share(column.layer());
  const percent = Math.min(Number((100 * share).toPrecision(2)), 99); // not all: some are hidden
  const pairs = share === null ? "" : `: this layer looks at ${percent} % of all pairs`;
  column.part("map-hatching").textContent = `${cells} cells could not be seen${pairs}.`;
  column.part("map-hatching").hidden = !isAny;
}

/** Paint one cell and say whether it is hatched. */
function paintCell(column, cell, heads) {
  const attention = column.attention();
  const layer = column.layer();
  const [query, key] = [Number(cell.dataset.query), Number(cell.dataset.key)];
  const hidden = heads.length > 0 && attention.masked(layer, heads, query, key);
  const value = heads.length ? attention.mean(layer, heads, query, key) : 0;
  cell.textContent = hidden || !heads.length ? "" : value.toFixed(2);
  cell.dataset.weight = heads.length ? value.toFixed(4) : "";
  if (hidden !== cell.hasAttribute("data-masked")) {
    cell.toggleAttribute("data-masked", hidden);
    if (hidden) cell.setAttribute("aria-label", "could not be seen");
    else cell.removeAttribute("aria-label");
  }
  // The number is there to be read; the colour may favour small weights, which are most of them.
  cell.style.setProperty("--weight", heat(value).toFixed(3));
  return hidden;
}

/** Light up the heat map's headings, and the cell where they meet. */
function paintHeadings(column) {
  const { query, key } = column.active();
  const map = column.part("map");
  for (const lit of map.querySelectorAll("[data-light]")) lit.removeAttribute("data-light");
  const row = query === null ? null : map.tBodies[0].rows[query];
  const head = key === null ? null : map.tHead.rows[0].cells[key + 1];
  row?.cells[0].setAttribute("data-light", "");
  head?.setAttribute("data-light", "");
  if (row && head) row.cells[key + 1].setAttribute("data-light", "");
}
