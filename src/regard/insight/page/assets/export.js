// Export of the view: a drawing (SVG, or PNG made from it) and the numbers behind it (JSON).

const rounded = (weight) => Number(weight.toFixed(5));
// Some browsers refuse a canvas with more pixels than this.
const MAX_CANVAS_PIXELS = 40e6;

/** Return the cards that are shown, column by column. */
function shownCards() {
  return columns.map((column) => ({
    column,
    names: cardNames().filter((name) => CARDS[name].has(column.picture)),
  }));
}

/** Return the view as one SVG: columns side by side, the cards of each below one another. */
function drawView() {
  const [gap, edge] = [40, 20];
  let [x, height] = [edge, 0];
  const body = [];
  for (const { column, names } of shownCards()) {
    let [y, width] = [edge, 0];
    const put = (drawing) => {
      body.push(`<g transform="translate(${x.toFixed(1)} ${y.toFixed(1)})">${drawing.body}</g>`);
      y += drawing.height + 24;
      width = Math.max(width, drawing.width);
    };
    const { title, source } = column.picture;
    const top = [...new Set([title, source, whereOf(column)])].filter(Boolean);
    for (const line of top) put(headline(line));
    for (const name of names) put(CARDS[name].drawing(column));
    x += width + gap;
    height = Math.max(height, y);
  }
  const [width, tall] = [Math.ceil(x - gap + edge), Math.ceil(height)];
  const size = `width="${width}" height="${tall}" viewBox="0 0 ${width} ${tall}"`;
  const paper = `<rect width="100%" height="100%" fill="#ffffff"/>`;
  const start = `<svg xmlns="http://www.w3.org/2000/svg" ${size} ${FONT} fill="${INK}">`;
  return { text: `${start}${paper}${body.join("")}</svg>`, width, height: tall };
}

function headline(line) {
  pen.font = "12px system-ui, sans-serif";
  const text = truncated(pen, printable(line), 900);
  return { width: widthOf(text), height: 0, body: svgText(0, 12, text) };
}

/** Return "Cross-attention, layer 2, head 3". */
function whereOf(column) {
  const parts = uses("panel") || uses("heads") ? [column.attention().title] : [];
  if (uses("layer")) parts.push(column.place(uses("head") ? [column.head()] : headsShown(column)));
  if (uses("query")) parts.push(`“${printable(column.attention().queries[column.query()] ?? "")}”`);
  return parts.join(", ");
}

const headsShown = (column) => (uses("map") ? column.mapHeads() : column.heads());

/** Return everything that the view shows, as plain data. */
function dataOfView() {
  const snapshot = snapshots[state.snapshot].title;
  const pictures = shownCards().map(({ column, names }) => {
    const { title, source, output } = column.picture;
    const shown = names.map((name) => [name, CARDS[name].shown(column)]);
    return { title, source, output, where: whereOf(column), ...Object.fromEntries(shown) };
  });
  return { view: state.view, ...(snapshot ? { snapshot } : {}), pictures };
}

/** Return a name such as "lines-encoder-layer-2.svg", of letters and digits only. */
function fileName(ending) {
  const parts = [state.view];
  if (uses("panel") || uses("heads")) parts.push(columns[0].attention().name);
  if (uses("layer")) parts.push(`layer-${columns[0].layer() + 1}`);
  if (uses("head")) parts.push(`head-${columns[0].head() + 1}`);
  for (const card of cards()) parts.push(...(card.fileParts?.(columns[0]) ?? []));
  if (snapshots.length > 1) parts.push(snapshots[state.snapshot].title);
  const plain = parts.map((part) => part.match(/[\p{L}\p{N}]+/gu)?.join("-").slice(0, 40));
  return `${plain.filter(Boolean).join("-")}.${ending}`;
}

function download(blob, ending) {
  const address = URL.createObjectURL(blob);
  element("a", { href: address, download: fileName(ending) }).click();
  showStatus(`Saved as ${fileName(ending)}.`);
  // By then every browser has started the download.
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}

const saves = {
  svg: () => download(new Blob([drawView().text], { type: "image/svg+xml" }), "svg"),
  json: () => {
    const text = JSON.stringify(dataOfView(), null, 1);
    download(new Blob([text], { type: "application/json" }), "json");
  },
  png: async () => {
    const { text, width, height } = drawView();
    const scale = Math.min(2, Math.sqrt(MAX_CANVAS_PIXELS / (width * height)));
    const [across, down] = [Math.ceil(width * scale), Math.ceil(height * scale)];
    const canvas = element("canvas", { width: across, height: down });
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    canvas.getContext("2d").drawImage(image, 0, 0, across, down);
    canvas.toBlob((blob) => download(blob, "png"), "image/png");
  },
};

function listenToSaving() {
  at("save").addEventListener("click", async ({ target }) => {
    const kind = target.closest("[data-save]")?.dataset.save;
    if (!kind) return;
    try {
      await saves[kind]();
    } catch (error) {
      showStatus(`Saving failed: ${error.message}`);
    }
  });
}
