// Lines: words that look on the left, words looked at on the right, a line for each weight.
//
// Of very many words only those in sight exist: each side scrolls by itself, and lines are drawn
// between what can be seen.

// A line thinner than this cannot be seen; more lines than this are slow, and one grey cloud.
const FAINTEST = 0.01;
const MOST_LINES = 1500;
// From here on a word counts as looked at, and is set in bold.
const NOTABLE = 0.1;
// More words than this are shown through a window.
const MOST_WORDS = 300;
// Words kept ready above and below the window.
const SPARE = 5;

const SIDES = { query: "queries", key: "keys" };

const linesCard = {
  uses: ["panel", "layer", "heads", "words"],

  has: ({ panels }) => panels.length > 0,

  build(column) {
    const { queries, keys, predicts } = column.attention();
    const box = column.part("lines");
    column.isWindowed = Math.max(queries.length, keys.length) > MOST_WORDS;
    column.stops = { query: 0, key: 0 };
    box.classList.toggle("says", predicts.length > 0);
    box.classList.toggle("windowed", column.isWindowed);
    box.style.setProperty("--rows", Math.max(queries.length, keys.length, 1));
    for (const side of ["query", "key"]) {
      column.part(SIDES[side]).scrollTop = 0;
      buildWords(column, side);
    }
    if (column.isWindowed) showPinned(column);
  },

  paint(column) {
    // A hidden list forgets how far it was scrolled. All else follows the mouse: see light.
    if (column.isWindowed) for (const side of ["query", "key"]) buildWords(column, side);
  },

  light(column) {
    const words = { query: windowOf(column, "query"), key: windowOf(column, "key") };
    paintLines(column, words);
    paintWords(column);
  },

  listen(column) {
    for (const side of ["query", "key"]) {
      const area = column.part(SIDES[side]);
      listenToWords(column, area);
      area.addEventListener("keydown", (event) => moveAmongWords(column, side, event));
      let frame = null; // once a frame is often enough
      area.addEventListener("scroll", () => {
        if (!column.isWindowed || frame) return;
        frame = requestAnimationFrame(() => {
          frame = null;
          buildWords(column, side);
          linesCard.light(column);
        });
      });
    }
  },

  shown(column) {
    const { queries, keys } = column.attention();
    const words = { query: windowOf(column, "query"), key: windowOf(column, "key") };
    const lines = threadsOf(column, words).drawn.map(([weight, head, query, key]) => ({
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

// ---------------------------------------------------------------- words

/** Which words of a side are in sight, and how many rows are above the edge. */
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
  return size * (column.part("lines").classList.contains("says") ? 2.75 : 1.9);
}

function buildWords(column, side) {
  const { predicts } = column.attention();
  const words = column.attention()[SIDES[side]];
  const { from, to } = windowOf(column, side);
  const [first, last] = [Math.max(from - SPARE, 0), Math.min(to + SPARE, words.length)];
  const focused = document.activeElement?.dataset[side];
  const hadFocus = column.part(SIDES[side]).contains(document.activeElement);
  const items = range(last - first).map((place) => {
    const button = wordButton(column, side, words, first + place, side === "query" ? predicts : []);
    const position = { "aria-setsize": words.length, "aria-posinset": first + place + 1 };
    return element("li", column.isWindowed ? position : {}, button);
  });
  if (column.isWindowed) {
    items.unshift(gap(first * rowHeight(column)));
    items.push(gap((words.length - last) * rowHeight(column)));
  }
  column.part(SIDES[side]).replaceChildren(...items);
  const buttons = wordsIn(column, side);
  const stop = buttons.find((button) => Number(button.dataset[side]) === column.stops[side]);
  rove(buttons, stop ?? buttons[0]);
  const again = hadFocus && buttons.find((button) => button.dataset[side] === focused);
  if (again) again.focus({ preventScroll: true });
}

/** The room of the words that are not there. */
function gap(height) {
  const room = element("li", { class: "gap", "aria-hidden": "true" });
  room.style.height = `${height}px`;
  return room;
}

function wordButton(column, side, words, index, predicts) {
  const word = visible(words[index]);
  const label = `${word}, word ${index + 1} of ${words.length}`;
  const attributes = { type: "button", [`data-${side}`]: index, title: word };
  const button = element("button", attributes, colourCells(column), wordOf(word));
  button.setAttribute("aria-label", label);
  if (predicts.length) {
    const says = visible(predicts[index]);
    const below = { class: "says-word", "data-predicts": "" };
    button.append(element("span", below, "says ", element("bdi", {}, says)));
    button.setAttribute("aria-label", `${label}; then the model says ${says}`);
  }
  return button;
}

/** The coloured cells behind a word, one for each head. */
function colourCells(column) {
  const heads = range(column.attention().heads);
  const cells = heads.map((head) => colour(element("i", { "data-head": head }), head));
  return element("span", { class: "cells", "aria-hidden": "true" }, ...cells);
}

const wordsIn = (column, side) => [...column.part(SIDES[side]).querySelectorAll("button")];

/** Colours behind the words: what each head gives them. */
function paintWords(column) {
  const attention = column.attention();
  const [layer, heads] = [column.layer(), column.heads()];
  const { query, key } = column.active();
  const received = attention.received(layer);
  // Means are small: the strongest of them gets the full colour, so that they can be compared.
  let largest = FAINTEST;
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
 * Paint the words of one side. `own` is the active word of this side and `other` that of the
 * other; `valueOf(head, index)` gives what a cell stands for, and the value of its full colour.
 */
function paintSide(column, side, own, other, valueOf) {
  const heads = column.heads();
  const pin = column.pin()[side];
  for (const button of wordsIn(column, side)) {
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

/** How a word stands out: it is the one, it is looked at (or looks), or it steps back. */
function lightOf(isActive, sideActive, otherActive, largest) {
  if (isActive) return "active";
  if (!sideActive && !otherActive) return "";
  return !sideActive && largest >= NOTABLE ? "seen" : "dim";
}

// ---------------------------------------------------------------- lines

/** The lines worth drawing, weak ones first so that strong ones lie on top, and how many exist. */
function threadsOf(column, words) {
  const attention = column.attention();
  const [layer, heads] = [column.layer(), column.heads()];
  const { query, key } = column.active();
  const found = [];
  let all = 0;
  const inSight = ({ from, to }, chosen) =>
    range(to - from).map((place) => from + place).filter((i) => chosen === null || i === chosen);
  const keys = inSight(words.key, key);
  for (const q of inSight(words.query, query)) {
    for (const k of keys) {
      for (const head of heads) {
        const w = attention.weight(layer, head, q, k);
        if (w > 0) all += 1;
        if (w >= FAINTEST) found.push([w, head, q, k]);
      }
    }
  }
  found.sort((one, other) => one[0] - other[0]);
  return { drawn: found.slice(-MOST_LINES), all };
}

function paintLines(column, words) {
  const { drawn, all } = threadsOf(column, words);
  const rows = Math.max(words.query.rows, words.key.rows, 1);
  const threads = column.part("threads");
  // A row is one unit high and the width is 100 units, whatever the size on the screen.
  threads.setAttribute("viewBox", `0 0 100 ${rows}`);
  threads.innerHTML = drawn.map((line) => thread(column, words, line)).join("");
  column.part("lines-note").textContent = noteOnLines(column, drawn, all);
}

/** One line as SVG text: numbers and colours only, so it can be put together as text. */
function thread(column, words, [w, head, query, key]) {
  const shift = headShift(column, head);
  const from = (query + 0.5 + shift - words.query.top).toFixed(3);
  const to = (key + 0.5 + shift - words.key.top).toFixed(3);
  return (
    `<path d="M0 ${from}C40 ${from} 60 ${to} 100 ${to}" ${strokeOf(w, head)}` +
    ` data-weight="${w.toFixed(4)}" data-head="${head}" data-query="${query}" data-key="${key}"/>`
  );
}

/** Each head leaves and arrives a little lower than the one before, so none hides another. */
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
    const faintest = drawn.length === MOST_LINES ? drawn[0][0] : FAINTEST;
    const lines = left === 1 ? "1 line is" : `${left} lines are`;
    notes.push(`${lines} too faint to draw (weight below ${+faintest.toFixed(4)}).`);
  }
  if (column.isWindowed) {
    notes.push("Lines join the words in sight; each side scrolls by itself.");
  }
  return notes.join(" ");
}

// ---------------------------------------------------------------- mouse and keyboard

/** The word or cell that an element stands for, or null. */
function meantBy(target) {
  const found = target.closest?.("button[data-query], button[data-key], td[data-query]");
  if (!found) return null;
  const index = (name) => (name in found.dataset ? Number(found.dataset[name]) : null);
  return { query: index("query"), key: index("key"), cell: found.tagName === "TD" };
}

/** Where the keyboard is. A focus left behind by a mouse click is not meant to show anything. */
function keyboardPlace(column) {
  const focused = document.activeElement;
  const isHere = column.root.contains(focused) && focused.matches(":focus-visible");
  return isHere ? meantBy(focused) : null;
}

/** Words and cells are shown while the mouse or the keyboard is on them. */
function listenToPointing(column, area) {
  // Mouse events, not pointer events: after a tap they stay where the finger was.
  area.addEventListener("mouseover", ({ target }) =>
    point(column, meantBy(target) ?? keyboardPlace(column)),
  );
  area.addEventListener("mouseleave", () => point(column, keyboardPlace(column)));
  area.addEventListener("focusin", () => {
    const here = keyboardPlace(column);
    if (here) point(column, here);
  });
  area.addEventListener("focusout", () => point(column, null));
}

function listenToWords(column, area) {
  listenToPointing(column, area);
  area.addEventListener("click", ({ target }) => {
    const meant = meantBy(target);
    if (meant) togglePin(column, meant);
  });
}

function togglePin(column, { query, key }) {
  const pin = column.pin();
  const same = query === pin.query && key === pin.key;
  const attention = column.attention();
  const piece = { query: attention.piece("query", query), key: attention.piece("key", key) };
  change({ pin: same ? NOTHING : piece });
}

function moveAmongWords(column, side, event) {
  const here = meantBy(event.target)?.[side] ?? null;
  if (here === null) return;
  const other = side === "query" ? "key" : "query";
  const count = column.attention()[SIDES[side]].length;
  const crossing = side === "query" ? "ArrowRight" : "ArrowLeft";
  if (event.key === crossing) {
    event.preventDefault();
    const others = column.attention()[SIDES[other]];
    if (others.length) goToWord(column, other, acrossFrom(column, side, here));
    return;
  }
  const places = { ArrowUp: here - 1, ArrowDown: here + 1, Home: 0, End: count - 1 };
  const there = places[event.key];
  if (there === undefined || there < 0 || there >= count) return;
  event.preventDefault();
  goToWord(column, side, there);
}

/** The word on the other side with the strongest line. */
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

/** Bring a pinned word into the window, and what it looks at most (or who looks at it most). */
function showPinned(column) {
  const pin = column.pin();
  for (const [side, other] of [["query", "key"], ["key", "query"]]) {
    if (pin[side] === null) continue;
    bringIntoSight(column, side, pin[side]);
    bringIntoSight(column, other, acrossFrom(column, side, pin[side]));
  }
}

function bringIntoSight(column, side, index) {
  const { top, rows } = windowOf(column, side);
  if (index >= top && index + 1 <= top + rows) return;
  // The middle of the window, so that its neighbours are in sight too.
  column.part(SIDES[side]).scrollTop = (index + 0.5 - rows / 2) * rowHeight(column);
  buildWords(column, side);
}

function goToWord(column, side, index) {
  column.stops[side] = index;
  if (column.isWindowed) bringIntoSight(column, side, index);
  const buttons = wordsIn(column, side);
  const button = buttons.find((one) => Number(one.dataset[side]) === index);
  rove(buttons, button);
  button.focus({ preventScroll: column.isWindowed });
}
