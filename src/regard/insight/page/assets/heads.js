// All heads at a glance: a small picture of each, layer by layer.

// A small picture has at most so many pixels a side; where there are more cells than that, a
// pixel shows the strongest of those it stands for.
const MOST_PIXELS = 128;
// The strength of a pixel all of whose cells are closed.
const CLOSED = -1;
// Milliseconds of drawing before the browser gets its turn.
const TURN = 12;

const headsCard = {
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
    const table = column.part("glance");
    table.replaceChildren(element("thead", {}, top), element("tbody", {}, ...rows));
    const buttons = table.querySelectorAll("button");
    rove(buttons, buttons[0]);
  },

  paint(column) {
    paintThumbnails(column, [...column.part("glance").querySelectorAll("button")]);
  },

  listen(column) {
    const glance = column.part("glance");
    const meant = (button) => [Number(button.dataset.layer), Number(button.dataset.head)];
    listenToTelling(glance, "button", (button) => [`${describe(column, ...meant(button))}.`]);
    glance.addEventListener("click", ({ target }) => {
      const button = target.closest("button");
      if (button) openHead(...meant(button));
    });
    glance.addEventListener("keydown", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      const { layers, heads } = column.attention();
      const there = walk(event, ...meant(button), layers, heads);
      const buttons = [...glance.querySelectorAll("button")];
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
        const { what, weight } = habit(attention, layer, head);
        return { layer: layer + 1, head: head + 1, most_on: what, mean_weight: rounded(weight) };
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
  return colour(element("button", attributes, element("canvas")), head);
}

/** Show this head alone. */
function openHead(layer, head) {
  pointed = { ...NOTHING, column: null };
  change({ layer, heads: headCount() === 1 ? null : [head], map: "mean", view: "both" });
}

/** Draw one small picture after another, letting the browser breathe when there are many. */
function paintThumbnails(column, buttons) {
  const turn = (column.turn = {}); // a newer painting ends this one
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

/** Where a word may not look, it is as in the heat map of very many words. */
function paintThumbnail(attention, layer, head, canvas, paper = pageColours()) {
  const { queries, keys } = attention;
  const { values, one, seen } = attention.layer(layer);
  const [rows, width] = [queries.length, keys.length].map((n) => Math.min(n, MOST_PIXELS));
  canvas.width = Math.max(width, 1);
  canvas.height = Math.max(rows, 1);
  const strengths = new Float32Array(rows * width).fill(seen ? CLOSED : 0);
  for (let query = 0; query < queries.length; query += 1) {
    const row = Math.floor((query * rows) / queries.length) * width;
    const from = (head * queries.length + query) * keys.length;
    for (let key = 0; key < keys.length; key += 1) {
      if (seen && !seen[query * keys.length + key]) continue;
      const pixel = row + Math.floor((key * width) / keys.length);
      if (values[from + key] > strengths[pixel]) strengths[pixel] = values[from + key];
    }
  }
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const [own, closed] = [rgb(head), [...channels(paper.hatch), 255]];
  for (const [pixel, strength] of strengths.entries()) {
    const isClosed = strength === CLOSED;
    const painted = isClosed ? closed : [...own, Math.round(255 * heat(strength / one))];
    image.data.set(painted, 4 * pixel);
  }
  context.putImageData(image, 0, 0);
}

/** "Layer 2, head 3: most on the previous word (0.62 on average)". */
function describe(column, layer, head) {
  const { what, weight } = habit(column.attention(), layer, head);
  const place = `Layer ${layer + 1}, head ${head + 1}`;
  return what ? `${place}: most on ${what} (${weight.toFixed(2)} on average)` : place;
}

/** What a head does most, over all words that look: a neighbour, or always the same word. */
function habit(attention, layer, head) {
  return once(attention, `habit ${layer} ${head}`, () => {
    const { queries, keys } = attention;
    const received = attention.received(layer)[head];
    let best = { what: "", weight: 0 };
    const offer = (what, weight) => {
      if (weight > best.weight) best = { what, weight };
    };
    const isSelf = queries.length === keys.length && queries.every((word, i) => word === keys[i]);
    const neighbours = { "the word itself": 0, "the previous word": -1, "the next word": 1 };
    for (const [what, by] of Object.entries(isSelf ? neighbours : {})) {
      offer(what, offDiagonal(attention, layer, head, by));
    }
    received.forEach((weight, key) => offer(`“${visible(keys[key])}”`, weight));
    return best;
  });
}

/** The mean weight on the word so many places away. */
function offDiagonal(attention, layer, head, by) {
  const count = attention.queries.length;
  let sum = 0;
  for (let query = 0; query < count; query += 1) {
    const key = query + by;
    if (key >= 0 && key < count) sum += attention.weight(layer, head, query, key);
  }
  return count ? sum / count : 0;
}
