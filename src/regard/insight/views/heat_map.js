// Heat map: rows are queries, columns are keys.

// More cells than this are slow as elements; they are drawn on a canvas instead (wide.js).
const MAX_CELLS = 10000;

const isLargeMap = ({ queries, keys }) => queries.length * keys.length > MAX_CELLS;

CARDS["heat-map"] = {
  markup: `
    <p class="explain">
      A row is a query token, a column a key token; a row adds up to 1.
      <span data-part="map-mask"></span>
    </p>
    <div class="scroll" data-part="scroll">
      <table class="grid" role="grid" data-part="heat-map"></table>
    </div>
    <div data-part="wide" hidden>
      <div class="zoom" role="group" aria-label="Size of the cells">
        <button type="button" class="pill" data-part="wide-out" aria-label="Smaller">−</button>
        <button type="button" class="pill" data-part="wide-in" aria-label="Larger">+</button>
      </div>
      <div class="wide">
        <canvas class="wide-canvas" data-part="wide-canvas" aria-hidden="true"></canvas>
        <div class="wide-scroll" role="grid" tabindex="0" data-part="wide-scroll">
          <div class="wide-room" data-part="wide-room"></div>
          <div role="row">
            <div class="wide-cursor" role="gridcell" data-part="wide-cursor"></div>
          </div>
        </div>
      </div>
    </div>
    <p class="note" data-part="map-note"></p>`,

  uses: ["panel", "layer", "heads", "map", "words"],

  has: ({ panels }) => panels.length > 0,

  build(column) {
    const attention = column.attention();
    const { queries, keys, predicts } = attention;
    const isLarge = isLargeMap(attention);
    column.part("scroll").hidden = isLarge;
    column.part("wide").hidden = !isLarge;
    if (isLarge) return buildWide(column);
    const map = column.part("heat-map");
    buildGrid(
      map,
      "queries by keys",
      keys.map((token, key) => heading("col", token, { "data-key": key })),
      queries.map((token, query) => queryHeading(token, query, predicts[query])),
      (query, key) => element("td", { "data-query": query, "data-key": key }),
    );
    map.classList.toggle("predicting", predicts.length > 0);
    map.style.setProperty("--longest", Math.max(...queries.map((token) => token.length), 3));
  },

  paint(column) {
    const heads = column.mapHeads();
    const attention = column.attention();
    column.part("map-note").textContent = heads.length ? "" : "No head is selected.";
    if (isLargeMap(attention)) return paintWide(column);
    const map = column.part("heat-map");
    map.style.setProperty("--head", heads.length === 1 ? rgb(heads[0]).join(" ") : "var(--mean)");
    map.setAttribute("aria-label", `Heat map, ${column.place(heads)}`);
    let hatched = false;
    for (const cell of map.querySelectorAll("td")) {
      hatched = paintCell(column, cell, heads) || hatched;
    }
    describeMask(column, "Hatched", hatched);
  },

  light(column) {
    if (isLargeMap(column.attention())) lightWide(column);
    else paintHeadings(column);
  },

  listen(column) {
    listenToPointing(column, column.part("heat-map"));
    listenToGrid(column.part("heat-map"));
    listenToWide(column);
  },

  shown(column) {
    const { queries, keys, predicts } = column.attention();
    const { means } = column.attention().matrix(column.layer(), column.mapHeads());
    const heads = column.mapHeads().map((head) => head + 1);
    const weights = queries.map((_, query) =>
      Array.from(means.subarray(query * keys.length, (query + 1) * keys.length), rounded),
    );
    return { queries, predicts, keys, mean_of_heads: heads, weights };
  },

  drawing(column) {
    return drawMap(column);
  },
};

/** Make the heading of a row: the query, and the token predicted after it. */
function queryHeading(token, query, next) {
  const head = heading("row", token, { "data-query": query });
  if (next !== undefined) head.append(nextToken(next));
  return head;
}

/** Show "Hatched cells are masked: this layer attends to 12 % of all pairs." */
function describeMask(column, cells, isAny) {
  const share = column.attention().share(column.layer());
  const percent = Math.min(Number((100 * share).toPrecision(2)), 99); // never 100: some are masked
  const pairs = share === null ? "" : `: this layer attends to ${percent} % of all pairs`;
  column.part("map-mask").textContent = `${cells} cells are masked${pairs}.`;
  column.part("map-mask").hidden = !isAny;
}

/** Paint one cell and return whether it is masked. */
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
    if (hidden) cell.setAttribute("aria-label", "masked");
    else cell.removeAttribute("aria-label");
  }
  // The number is exact; the color raises small weights.
  cell.style.setProperty("--weight", heat(value).toFixed(3));
  return hidden;
}

/** Highlight the headings of the active row and column, and their cell. */
function paintHeadings(column) {
  const { query, key } = column.active();
  const map = column.part("heat-map");
  for (const lit of map.querySelectorAll("[data-light]")) lit.removeAttribute("data-light");
  const row = query === null ? null : map.tBodies[0].rows[query];
  const head = key === null ? null : map.tHead.rows[0].cells[key + 1];
  row?.cells[0].setAttribute("data-light", "");
  head?.setAttribute("data-light", "");
  if (row && head) row.cells[key + 1].setAttribute("data-light", "");
}

// ---------------------------------------------------------------- export

function drawMap(column) {
  const attention = column.attention();
  const [layer, heads] = [column.layer(), column.mapHeads()];
  if (isLargeMap(attention)) return drawLargeMap(column, heads);
  return drawGrid({
    rows: rowLabels(attention),
    columns: attention.keys,
    cellOf: (query, key) => {
      const value = heads.length ? attention.mean(layer, heads, query, key) : 0;
      const masked = heads.length > 0 && attention.masked(layer, heads, query, key);
      const text = masked || !heads.length ? "" : value.toFixed(2);
      const fill = heads.length === 1 ? rgb(heads[0]) : PAPER.mean;
      return { fill, opacity: heat(value), text, masked };
    },
  });
}

/** Draw very many cells as an image of one pixel each. */
function drawLargeMap(column, heads) {
  const { queries, keys } = column.attention();
  const pixels = pixelsOf(column, heads, PAPER).toDataURL();
  const [width, height] = [Math.min(keys.length, 2000), Math.min(queries.length, 2000)];
  const image = svgPixels(LABEL_ROOM, LABEL_ROOM, width, height, pixels);
  // As many labels as fit, each beside its cells.
  const labels = (tokens, room, draw) => {
    const nth = Math.max(Math.ceil((14 * tokens.length) / room), 1);
    const shown = range(tokens.length).filter((index) => index % nth === 0);
    const offsetOf = (index) => LABEL_ROOM + ((index + 0.5) * room) / tokens.length + 4;
    return shown.map((index) => draw(offsetOf(index), label(tokens[index]))).join("");
  };
  const edge = LABEL_ROOM - 6;
  const rows = labels(rowLabels(column.attention()), height, (y, token) =>
    svgText(edge, y, token, { size: 11, anchor: "end" }),
  );
  const tops = labels(keys, width, (x, token) => {
    const turned = `transform="rotate(-90 ${x.toFixed(1)} ${edge})"`;
    return svgText(x, edge, token, { size: 11, more: turned });
  });
  return { width: width + LABEL_ROOM, height: height + LABEL_ROOM, body: image + rows + tops };
}
