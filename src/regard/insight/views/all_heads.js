// All heads: a small heat map of each head, layer by layer.

// A small heat map has at most this many pixels a side; of more cells, a pixel shows the largest.
const MAX_PIXELS = 128;
// The value of a pixel all of whose cells are masked.
const MASKED = -1;
// Milliseconds of drawing before control returns to the browser.
const TURN = 12;

CARDS["all-heads"] = {
  markup: `
    <p class="explain">
      One small heat map for each head of each layer. Open one to see it alone.
    </p>
    <div class="scroll"><table class="glance" data-part="all-heads"></table></div>`,

  uses: ["panel", "words"],

  has: ({ panels }) => panels.length > 0,

  build(column) {
    const { layers, heads } = column.attention();
    const columnHeads = range(heads).map((head) =>
      element("th", { scope: "col" }, `Head ${head + 1}`),
    );
    const rows = range(layers).map((layer) =>
      element(
        "tr",
        {},
        element("th", { scope: "row" }, `Layer ${layer + 1}`),
        ...range(heads).map((head) => element("td", {}, headButton(layer, head))),
      ),
    );
    const top = element("tr", {}, element("td"), ...columnHeads);
    const table = column.part("all-heads");
    table.replaceChildren(element("thead", {}, top), element("tbody", {}, ...rows));
    const buttons = table.querySelectorAll("button");
    rove(buttons, buttons[0]);
  },

  paint(column) {
    paintThumbnails(column, [...column.part("all-heads").querySelectorAll("button")]);
  },

  listen(column) {
    const grid = column.part("all-heads");
    const placeOf = (button) => [Number(button.dataset.layer), Number(button.dataset.head)];
    listenToDescriptions(grid, "button", (button) => [`${describe(column, ...placeOf(button))}.`]);
    grid.addEventListener("click", ({ target }) => {
      const button = target.closest("button");
      if (button) openHead(...placeOf(button));
    });
    grid.addEventListener("keydown", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      const { layers, heads } = column.attention();
      const there = walk(event, ...placeOf(button), layers, heads);
      const buttons = [...grid.querySelectorAll("button")];
      if (there) goTo(event, buttons, buttons[there[0] * heads + there[1]]);
    });
  },

  sentence(column) {
    return [`${column.attention().title}: point at a head, or open it to see it alone.`];
  },

  shown(column) {
    const attention = column.attention();
    const heads = range(attention.layers).flatMap((layer) =>
      range(attention.heads).map((head) => {
        const { what, weight } = mainTarget(attention, layer, head);
        return { layer: layer + 1, head: head + 1, attends_most_to: what, mean_weight: rounded(weight) };
      }),
    );
    return { panel: attention.name, heads };
  },

  drawing(column) {
    return drawHeads(column);
  },
};

function headButton(layer, head) {
  const attributes = { type: "button", "data-layer": layer, "data-head": head };
  return color(element("button", attributes, element("canvas")), head);
}

/** Show this head alone. */
function openHead(layer, head) {
  pointed = { ...NOTHING, column: null };
  change({ layer, heads: headCount() === 1 ? null : [head], map: "mean", view: VIEWS[0].name });
}

/** Draw one small heat map after another, returning to the browser in between. */
function paintThumbnails(column, buttons) {
  const turn = (column.turn = {}); // a newer call ends this one
  const attention = column.attention();
  const go = () => {
    const start = performance.now();
    while (column.turn === turn && buttons.length && performance.now() - start < TURN) {
      const button = buttons.shift();
      const [layer, head] = [Number(button.dataset.layer), Number(button.dataset.head)];
      paintThumbnail(attention, layer, head, button.firstElementChild);
      button.setAttribute("aria-label", describe(column, layer, head));
    }
    if (column.turn === turn && buttons.length) setTimeout(go);
  };
  go();
}

/** Draw one head; masked cells have the color of masked cells in the heat map. */
function paintThumbnail(attention, layer, head, canvas, paper = pageColors()) {
  const { queries, keys } = attention;
  const { values, one, allowed } = attention.layer(layer);
  const [rows, width] = [queries.length, keys.length].map((n) => Math.min(n, MAX_PIXELS));
  canvas.width = Math.max(width, 1);
  canvas.height = Math.max(rows, 1);
  const strengths = new Float32Array(rows * width).fill(allowed ? MASKED : 0);
  for (let query = 0; query < queries.length; query += 1) {
    const row = Math.floor((query * rows) / queries.length) * width;
    const from = (head * queries.length + query) * keys.length;
    for (let key = 0; key < keys.length; key += 1) {
      if (allowed && !allowed[query * keys.length + key]) continue;
      const pixel = row + Math.floor((key * width) / keys.length);
      if (values[from + key] > strengths[pixel]) strengths[pixel] = values[from + key];
    }
  }
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const [own, masked] = [rgb(head), [...channels(paper.hatch), 255]];
  for (const [pixel, strength] of strengths.entries()) {
    const painted = strength === MASKED ? masked : [...own, Math.round(255 * heat(strength / one))];
    image.data.set(painted, 4 * pixel);
  }
  context.putImageData(image, 0, 0);
}

/** Return "Layer 2, head 3: attends most to the previous token (mean weight 0.62)". */
function describe(column, layer, head) {
  const { what, weight } = mainTarget(column.attention(), layer, head);
  const place = `Layer ${layer + 1}, head ${head + 1}`;
  return what ? `${place}: attends most to ${what} (mean weight ${weight.toFixed(2)})` : place;
}

/** Return the target with the largest mean weight over all queries: a neighbor, or one token. */
function mainTarget(attention, layer, head) {
  return once(attention, `target ${layer} ${head}`, () => {
    const { queries, keys } = attention;
    const received = attention.received(layer)[head];
    let best = { what: "", weight: 0 };
    const offer = (what, weight) => {
      if (weight > best.weight) best = { what, weight };
    };
    const isSelf = queries.length === keys.length && queries.every((token, i) => token === keys[i]);
    const neighbors = { "the same token": 0, "the previous token": -1, "the next token": 1 };
    for (const [what, by] of Object.entries(isSelf ? neighbors : {})) {
      offer(what, offDiagonal(attention, layer, head, by));
    }
    received.forEach((weight, key) => offer(`“${printable(keys[key])}”`, weight));
    return best;
  });
}

/** Return the mean weight on the token at an offset. */
function offDiagonal(attention, layer, head, by) {
  const count = attention.queries.length;
  let sum = 0;
  for (let query = 0; query < count; query += 1) {
    const key = query + by;
    if (key >= 0 && key < count) sum += attention.weight(layer, head, query, key);
  }
  return count ? sum / count : 0;
}

// ---------------------------------------------------------------- export

function drawHeads(column) {
  const { layers, heads, queries, keys } = column.attention();
  const [size, left, top] = [96, 64, 24];
  const xOf = (head) => left + head * (size + 8);
  const body = range(heads).map((head) => svgText(xOf(head), 14, `Head ${head + 1}`));
  const canvas = element("canvas");
  for (const layer of range(layers)) {
    const y = top + layer * (size + 8);
    body.push(svgText(0, y + size / 2, `Layer ${layer + 1}`));
    for (const head of range(heads)) {
      paintThumbnail(column.attention(), layer, head, canvas, PAPER);
      const indices = `data-layer="${layer}" data-head="${head}"`;
      body.push(svgPixels(xOf(head), y, size, size, canvas.toDataURL(), indices));
    }
  }
  const [width, height] = [left + heads * (size + 8), top + layers * (size + 8)];
  return { width, height, body: queries.length && keys.length ? body.join("") : "" };
}
