// Lines: query tokens on the left, key tokens on the right, a line for each weight.
//
// Of a long text only the visible tokens are in the document: each side scrolls by itself, and lines
// join the visible tokens.

// A line of a smaller weight is invisible; more lines than this are slow and cannot be told apart.
const MIN_WEIGHT = 0.01;
const MAX_LINES = 1500;
// Tokens with at least this weight are set in bold.
const NOTABLE = 0.1;
// More tokens than this are shown through a scrolling window.
const MAX_TOKENS = 300;
// Tokens built above and below the window.
const SPARE = 5;

const SIDES = { query: "queries", key: "keys" };

CARDS["lines"] = {
  markup: `
    <p class="explain">
      A line joins a query token on the left and a key token on the right. The thicker and stronger
      it is, the larger the attention weight; its color is the head. The colors behind a token show
      the attention that it receives from each head.
    </p>
    <div class="lines" data-part="lines">
      <p class="column-name to-the-right">queries</p>
      <p></p>
      <p class="column-name">keys</p>
      <ol class="tokens queries" data-part="queries" aria-label="Query tokens"></ol>
      <svg data-part="threads" preserveAspectRatio="none" aria-hidden="true"></svg>
      <ol class="tokens keys" data-part="keys" aria-label="Key tokens"></ol>
    </div>
    <p class="note" data-part="lines-note" data-note></p>`,

  uses: ["panel", "layer", "heads", "words"],

  has: ({ panels }) => panels.length > 0,

  build(column) {
    const { queries, keys, predicts } = column.attention();
    const box = column.part("lines");
    column.isWindowed = Math.max(queries.length, keys.length) > MAX_TOKENS;
    column.stops = { query: 0, key: 0 };
    box.classList.toggle("predicting", predicts.length > 0);
    box.classList.toggle("windowed", column.isWindowed);
    box.style.setProperty("--rows", Math.max(queries.length, keys.length, 1));
    for (const side of ["query", "key"]) {
      column.part(SIDES[side]).scrollTop = 0;
      buildTokens(column, side);
    }
    if (column.isWindowed) showPinned(column);
  },

  paint(column) {
    // A hidden list loses its scroll position. All else is painted by light.
    if (column.isWindowed) for (const side of ["query", "key"]) buildTokens(column, side);
  },

  light(column) {
    const visible = { query: windowOf(column, "query"), key: windowOf(column, "key") };
    paintLines(column, visible);
    paintTokens(column);
  },

  listen(column) {
    for (const side of ["query", "key"]) {
      const area = column.part(SIDES[side]);
      listenToTokens(column, area);
      area.addEventListener("keydown", (event) => moveAmongTokens(column, side, event));
      let frame = null; // at most once a frame
      area.addEventListener("scroll", () => {
        if (!column.isWindowed || frame) return;
        frame = requestAnimationFrame(() => {
          frame = null;
          buildTokens(column, side);
          CARDS["lines"].light(column);
        });
      });
    }
  },

  shown(column) {
    const { queries, keys } = column.attention();
    const visible = { query: windowOf(column, "query"), key: windowOf(column, "key") };
    const lines = linesOf(column, visible).drawn.map(([weight, head, query, key]) => ({
      head: head + 1,
      query,
      key,
      weight: rounded(weight),
    }));
    return { queries, keys, lines };
  },

  drawing(column) {
    return drawLines(column);
  },
};

// ---------------------------------------------------------------- tokens

/** Return the visible tokens of a side, and the number of rows above the edge. */
function windowOf(column, side) {
  const list = column.part(SIDES[side]);
  const count = column.attention()[SIDES[side]].length;
  if (!column.isWindowed) return { from: 0, to: count, top: 0, rows: count };
  const top = list.scrollTop / rowHeight(column);
  const rows = list.clientHeight / rowHeight(column);
  return { from: Math.floor(top), to: Math.min(Math.ceil(top + rows), count), top, rows };
}

function rowHeight(column) {
  const size = parseFloat(getComputedStyle(document.documentElement).fontSize);
  return size * (column.part("lines").classList.contains("predicting") ? 2.75 : 1.9);
}

function buildTokens(column, side) {
  const { predicts } = column.attention();
  const tokens = column.attention()[SIDES[side]];
  const { from, to } = windowOf(column, side);
  const [first, last] = [Math.max(from - SPARE, 0), Math.min(to + SPARE, tokens.length)];
  const focused = document.activeElement?.dataset[side];
  const hadFocus = column.part(SIDES[side]).contains(document.activeElement);
  const items = range(last - first).map((offset) => {
    const index = first + offset;
    const button = tokenButton(column, side, tokens, index, side === "query" ? predicts : []);
    const position = { "aria-setsize": tokens.length, "aria-posinset": index + 1 };
    return element("li", column.isWindowed ? position : {}, button);
  });
  if (column.isWindowed) {
    items.unshift(gap(first * rowHeight(column)));
    items.push(gap((tokens.length - last) * rowHeight(column)));
  }
  column.part(SIDES[side]).replaceChildren(...items);
  const buttons = tokensIn(column, side);
  const stop = buttons.find((button) => Number(button.dataset[side]) === column.stops[side]);
  rove(buttons, stop ?? buttons[0]);
  const again = hadFocus && buttons.find((button) => button.dataset[side] === focused);
  if (again) again.focus({ preventScroll: true });
}

/** Make an empty item as high as the tokens that are not in the document. */
function gap(height) {
  const room = element("li", { class: "gap", "aria-hidden": "true" });
  room.style.height = `${height}px`;
  return room;
}

function tokenButton(column, side, tokens, index, predicts) {
  const token = printable(tokens[index]);
  const label = `${token}, token ${index + 1} of ${tokens.length}`;
  const attributes = { type: "button", [`data-${side}`]: index, title: token };
  const button = element("button", attributes, colorCells(column), tokenElement(token));
  button.setAttribute("aria-label", label);
  if (predicts.length) {
    const next = printable(predicts[index]);
    button.append(nextToken(next));
    button.setAttribute("aria-label", `${label}; predicted next token: ${next}`);
  }
  return button;
}

/** Make the colored cells behind a token, one for each head. */
function colorCells(column) {
  const heads = range(column.attention().heads);
  const cells = heads.map((head) => color(element("i", { "data-head": head }), head));
  return element("span", { class: "cells", "aria-hidden": "true" }, ...cells);
}

const tokensIn = (column, side) => [...column.part(SIDES[side]).querySelectorAll("button")];

/** Paint the colors behind the tokens: the attention from each head. */
function paintTokens(column) {
  const attention = column.attention();
  const [layer, heads] = [column.layer(), column.heads()];
  const { query, key } = column.active();
  const received = attention.received(layer);
  // Means are small: the largest of them gets the full color.
  let largest = MIN_WEIGHT;
  for (const head of heads) for (const one of received[head]) largest = Math.max(largest, one);
  paintSide(column, "key", key, query, (head, k) => {
    if (query !== null) return [attention.weight(layer, head, query, k), 1];
    return key === null || key === k ? [received[head][k], largest] : [0, 1];
  });
  paintSide(column, "query", query, key, (head, q) =>
    key !== null && query === null ? [attention.weight(layer, head, q, key), 1] : [0, 1],
  );
}

/**
 * Paint the tokens of one side. `own` is the active token of this side and `other` that of the
 * other; `valueOf(head, index)` returns the value of a cell and the value of its full color.
 */
function paintSide(column, side, own, other, valueOf) {
  const heads = column.heads();
  const pin = column.pin()[side];
  for (const button of tokensIn(column, side)) {
    const index = Number(button.dataset[side]);
    let largest = 0;
    for (const cell of button.firstElementChild.children) {
      const head = Number(cell.dataset.head);
      const [value, full] = valueOf(head, index);
      cell.hidden = !heads.includes(head);
      cell.dataset.weight = value.toFixed(4);
      cell.style.setProperty("--weight", (value / full).toFixed(3));
      if (!cell.hidden) largest = Math.max(largest, value);
    }
    button.dataset.light = lightOf(own === index, own !== null, other !== null, largest);
    button.setAttribute("aria-pressed", pin === index);
  }
}

/** Return the emphasis of a token: active, attended (or attending), or dim. */
function lightOf(isActive, sideActive, otherActive, largest) {
  if (isActive) return "active";
  if (!sideActive && !otherActive) return "";
  return !sideActive && largest >= NOTABLE ? "attended" : "dim";
}

// ---------------------------------------------------------------- lines

/** Return the lines to draw, weakest first so that strong ones lie on top, and their number. */
function linesOf(column, visible) {
  const attention = column.attention();
  const [layer, heads] = [column.layer(), column.heads()];
  const { query, key } = column.active();
  const lines = [];
  let all = 0;
  const shown = ({ from, to }, active) =>
    range(to - from).map((offset) => from + offset).filter((i) => active === null || i === active);
  const keys = shown(visible.key, key);
  for (const q of shown(visible.query, query)) {
    for (const k of keys) {
      for (const head of heads) {
        const w = attention.weight(layer, head, q, k);
        if (w > 0) all += 1;
        if (w >= MIN_WEIGHT) lines.push([w, head, q, k]);
      }
    }
  }
  lines.sort((one, other) => one[0] - other[0]);
  return { drawn: lines.slice(-MAX_LINES), all };
}

function paintLines(column, visible) {
  const { drawn, all } = linesOf(column, visible);
  const rows = Math.max(visible.query.rows, visible.key.rows, 1);
  const threads = column.part("threads");
  // A row is one unit high and the width is 100 units.
  threads.setAttribute("viewBox", `0 0 100 ${rows}`);
  threads.innerHTML = drawn.map((line) => linePath(column, visible, line)).join("");
  column.part("lines-note").textContent = noteOnLines(column, drawn, all);
}

/** Return one line as SVG text: it has numbers and colors only. */
function linePath(column, visible, [w, head, query, key]) {
  const shift = headShift(column, head);
  const from = (query + 0.5 + shift - visible.query.top).toFixed(3);
  const to = (key + 0.5 + shift - visible.key.top).toFixed(3);
  return (
    `<path d="M0 ${from}C40 ${from} 60 ${to} 100 ${to}" ${strokeOf(w, head)}` +
    ` data-weight="${w.toFixed(4)}" data-head="${head}" data-query="${query}" data-key="${key}"/>`
  );
}

/** Return the vertical offset of a head, so that no head hides another. */
function headShift(column, head) {
  return 0.5 * ((head + 0.5) / column.attention().heads - 0.5);
}

function strokeOf(w, head) {
  const [width, opacity] = [(0.75 + 4.25 * w).toFixed(3), (0.08 + 0.87 * w).toFixed(4)];
  return `stroke="rgb(${rgb(head)})" stroke-width="${width}" stroke-opacity="${opacity}"`;
}

function noteOnLines(column, drawn, all) {
  if (column.heads().length === 0) return "No head is selected.";
  const notes = [];
  const left = all - drawn.length;
  if (left > 0) {
    const faintest = drawn.length === MAX_LINES ? drawn[0][0] : MIN_WEIGHT;
    const lines = left === 1 ? "1 line is" : `${left} lines are`;
    notes.push(`${lines} too faint to draw (weight below ${+faintest.toFixed(4)}).`);
  }
  if (column.isWindowed) {
    notes.push("Lines join the visible tokens; each side scrolls by itself.");
  }
  return notes.join(" ");
}

// ---------------------------------------------------------------- mouse and keyboard

/** Return the token or cell of an element, or null. */
function targetOf(target) {
  const item = target.closest?.("button[data-query], button[data-key], td[data-query]");
  if (!item) return null;
  const index = (name) => (name in item.dataset ? Number(item.dataset[name]) : null);
  return { query: index("query"), key: index("key"), cell: item.tagName === "TD" };
}

/** Return the token or cell with the keyboard focus; the focus after a mouse click does not count. */
function keyboardTarget(column) {
  const focused = document.activeElement;
  const isHere = column.root.contains(focused) && focused.matches(":focus-visible");
  return isHere ? targetOf(focused) : null;
}

/** Show tokens and cells while the mouse or the keyboard is on them. */
function listenToPointing(column, area) {
  // Mouse events, not pointer events: after a tap they stay at the same element.
  area.addEventListener("mouseover", ({ target }) =>
    point(column, targetOf(target) ?? keyboardTarget(column)),
  );
  area.addEventListener("mouseleave", () => point(column, keyboardTarget(column)));
  area.addEventListener("focusin", () => {
    const here = keyboardTarget(column);
    if (here) point(column, here);
  });
  area.addEventListener("focusout", () => point(column, null));
}

function listenToTokens(column, area) {
  listenToPointing(column, area);
  area.addEventListener("click", ({ target }) => {
    const item = targetOf(target);
    if (item) togglePin(column, item);
  });
}

function togglePin(column, { query, key }) {
  const pin = column.pin();
  const same = query === pin.query && key === pin.key;
  const attention = column.attention();
  const tokens = { query: attention.token("query", query), key: attention.token("key", key) };
  change({ pin: same ? NOTHING : tokens });
}

function moveAmongTokens(column, side, event) {
  const here = targetOf(event.target)?.[side] ?? null;
  if (here === null) return;
  const other = side === "query" ? "key" : "query";
  const count = column.attention()[SIDES[side]].length;
  const crossing = side === "query" ? "ArrowRight" : "ArrowLeft";
  if (event.key === crossing) {
    event.preventDefault();
    const others = column.attention()[SIDES[other]];
    if (others.length) goToToken(column, other, acrossFrom(column, side, here));
    return;
  }
  const moves = { ArrowUp: here - 1, ArrowDown: here + 1, Home: 0, End: count - 1 };
  const there = moves[event.key];
  if (there === undefined || there < 0 || there >= count) return;
  event.preventDefault();
  goToToken(column, side, there);
}

/** Return the token on the other side with the strongest line. */
function acrossFrom(column, side, here) {
  const attention = column.attention();
  const [layer, heads] = [column.layer(), column.heads()];
  const others = side === "query" ? attention.keys : attention.queries;
  const [best] = strongest(heads.length && others.length, (other) =>
    side === "query"
      ? attention.mean(layer, heads, here, other)
      : attention.mean(layer, heads, other, here),
  );
  return best?.[0] ?? 0;
}

/** Scroll to a pinned token and to the token on the other side with the strongest line. */
function showPinned(column) {
  const pin = column.pin();
  for (const [side, other] of [["query", "key"], ["key", "query"]]) {
    if (pin[side] === null) continue;
    scrollToToken(column, side, pin[side]);
    scrollToToken(column, other, acrossFrom(column, side, pin[side]));
  }
}

function scrollToToken(column, side, index) {
  const { top, rows } = windowOf(column, side);
  if (index >= top && index + 1 <= top + rows) return;
  // To the middle of the window, so that its neighbors are visible too.
  column.part(SIDES[side]).scrollTop = (index + 0.5 - rows / 2) * rowHeight(column);
  buildTokens(column, side);
}

function goToToken(column, side, index) {
  column.stops[side] = index;
  if (column.isWindowed) scrollToToken(column, side, index);
  const buttons = tokensIn(column, side);
  const button = buttons.find((one) => Number(one.dataset[side]) === index);
  rove(buttons, button);
  button.focus({ preventScroll: column.isWindowed });
}

// ---------------------------------------------------------------- export

function drawLines(column) {
  const { queries, keys } = column.attention();
  const visible = { query: windowOf(column, "query"), key: windowOf(column, "key") };
  const labels = (all, { from, to }) => all.slice(from, to).map(label);
  const [left, right] = [labels(queries, visible.query), labels(keys, visible.key)];
  const [row, gap] = [24, 260];
  const start = longestOf(left) + 8;
  const width = start + gap + longestOf(right) + 8;
  const middle = (index) => (index + 0.5) * row;
  const { drawn } = linesOf(column, visible);
  const body = drawn.map(([w, head, query, key]) => {
    const shift = headShift(column, head);
    const from = middle(query - visible.query.from + shift).toFixed(1);
    const to = middle(key - visible.key.from + shift).toFixed(1);
    const [x, near, far, end] = [0, 0.4, 0.6, 1].map((share) => start + share * gap);
    const curve = `M${x} ${from}C${near} ${from} ${far} ${to} ${end} ${to}`;
    const indices = `data-head="${head}" data-query="${query}" data-key="${key}"`;
    const weight = `data-weight="${w.toFixed(4)}"`;
    return `<path d="${curve}" fill="none" ${strokeOf(w, head)} ${indices} ${weight}/>`;
  });
  body.push(
    ...left.map((token, i) => svgText(start - 6, middle(i) + 4, token, { anchor: "end" })),
    ...right.map((token, i) => svgText(start + gap + 6, middle(i) + 4, token)),
  );
  return { width, height: row * Math.max(left.length, right.length, 1), body: body.join("") };
}
