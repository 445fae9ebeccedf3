// The heat map of a long text, drawn on a canvas that shows the visible part.
//
// Each cell is one pixel of a hidden image, whose visible part is copied enlarged. One element, the
// cursor, marks the cell under the mouse or the keyboard, also for screen readers.

const CELL_SIZES = [1, 2, 4, 8, 16]; // in pixels on the screen
const READABLE = 8; // from this size on, all visible tokens are written, not only the active one
const LABELS = { left: 104, top: 96 };

function buildWide(column) {
  const { queries, keys } = column.attention();
  column.wide = { size: CELL_SIZES.at(-1), cells: null, query: 0, key: 0 };
  const grid = column.part("wide-scroll");
  grid.setAttribute("aria-activedescendant", column.part("wide-cursor").id);
  grid.setAttribute("aria-rowcount", queries.length);
  grid.setAttribute("aria-colcount", keys.length);
  grid.scrollTo(0, 0);
}

/** Draw the hidden image. */
function paintWide(column) {
  const attention = column.attention();
  const heads = column.mapHeads();
  const label = `Heat map, ${column.place(heads)}`;
  column.part("wide-scroll").setAttribute("aria-label", label);
  column.wide.cells = pixelsOf(column, heads);
  const { empty } = attention.matrix(column.layer(), heads);
  const share = attention.share(column.layer());
  const isSome = share === null ? attention.causal : share < 1;
  describeMask(column, "Gray", heads.length > 0 && (isSome || empty.includes(1)));
  const { size } = column.wide;
  const room = column.part("wide-room");
  room.style.width = `${LABELS.left + attention.keys.length * size}px`;
  room.style.height = `${LABELS.top + attention.queries.length * size}px`;
}

/** Return an image of one pixel a cell: the head's color, with the weight as its opacity. */
function pixelsOf(column, heads, paper = pageColors()) {
  const attention = column.attention();
  const { queries, keys } = attention;
  const canvas = element("canvas", { width: keys.length, height: queries.length });
  const context = canvas.getContext("2d");
  const image = context.createImageData(keys.length, queries.length);
  const { means, empty } = attention.matrix(column.layer(), heads);
  const [red, green, blue] = heads.length === 1 ? rgb(heads[0]) : paper.mean;
  const fullAlpha = 255 * paper.most;
  const [closedRed, closedGreen, closedBlue] = channels(paper.hatch);
  const pixels = new Uint32Array(image.data.buffer);
  const paint = (blue << 16) | (green << 8) | red;
  const closed = 0xff000000 | (closedBlue << 16) | (closedGreen << 8) | closedRed;
  // A table of opacities is faster than a power for each cell.
  const strengths = Uint8Array.from(range(4097), (i) => Math.round(fullAlpha * heat(i / 4096)));
  const isAny = heads.length > 0;
  const { allowed } = attention.layer(column.layer());
  for (let query = 0, i = 0; query < queries.length; query += 1) {
    for (let key = 0; key < keys.length; key += 1, i += 1) {
      const isOutside = allowed ? allowed[i] === 0 : attention.isLater(query, key);
      const hidden = isAny && means[i] === 0 && (isOutside || empty[query] === 1);
      pixels[i] = hidden ? closed : (strengths[Math.round(means[i] * 4096)] << 24) | paint;
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** Draw the visible part: cells, the tokens beside them, and the cursor. */
function lightWide(column) {
  const scroll = column.part("wide-scroll");
  const canvas = column.part("wide-canvas");
  const { cells, size } = column.wide;
  const [width, height] = [scroll.clientWidth, scroll.clientHeight];
  const sharp = devicePixelRatio;
  canvas.width = width * sharp;
  canvas.height = height * sharp;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(sharp, sharp);
  context.imageSmoothingEnabled = size === 1;
  const [left, top] = [scroll.scrollLeft, scroll.scrollTop];
  context.save();
  context.beginPath();
  context.rect(LABELS.left, LABELS.top, width, height);
  context.clip();
  context.translate(LABELS.left - left, LABELS.top - top);
  const [x, y] = [Math.floor(left / size), Math.floor(top / size)];
  const across = Math.min(Math.ceil(width / size) + 1, cells.width - x);
  const down = Math.min(Math.ceil(height / size) + 1, cells.height - y);
  context.drawImage(cells, x, y, across, down, x * size, y * size, across * size, down * size);
  context.restore();
  writeTokens(column, context, { x, y, across, down, left, top });
  placeCursor(column);
}

function writeTokens(column, context, { x, y, across, down, left, top }) {
  const { keys } = column.attention();
  const rows = rowLabels(column.attention());
  const { size } = column.wide;
  const { query, key } = column.active();
  context.textBaseline = "middle";
  const [ink, accent, font] = [themed("--ink"), themed("--accent"), themed("--sans")];
  const write = (token, isActive, room) => {
    context.fillStyle = isActive ? accent : ink;
    context.font = `${isActive ? 700 : 400} 11px ${font}`;
    context.fillText(truncated(context, printable(token), room - 8), 0, 0);
  };
  const isWritten = (index, active) => size >= READABLE || index === active;
  context.textAlign = "right";
  for (let row = y; row < y + down; row += 1) {
    const middle = LABELS.top + (row + 0.5) * size - top;
    if (!isWritten(row, query) || middle < LABELS.top) continue;
    context.save();
    context.translate(LABELS.left - 4, middle);
    write(rows[row], row === query, LABELS.left);
    context.restore();
  }
  context.textAlign = "left";
  for (let place = x; place < x + across; place += 1) {
    const middle = LABELS.left + (place + 0.5) * size - left;
    if (!isWritten(place, key) || middle < LABELS.left) continue;
    context.save();
    context.translate(middle, LABELS.top - 4);
    context.rotate(-Math.PI / 2);
    write(keys[place], place === key, LABELS.top);
    context.restore();
  }
}

/** Truncate a token to a width in pixels. */
function truncated(context, token, room) {
  if (context.measureText(token).width <= room) return token;
  let length = token.length;
  while (length > 1 && context.measureText(`${token.slice(0, length)}…`).width > room) length -= 1;
  return `${token.slice(0, length)}…`;
}

/** Put the cursor on the active cell, or on the cell where the keyboard starts. */
function placeCursor(column) {
  const { size } = column.wide;
  const attention = column.attention();
  const scroll = column.part("wide-scroll");
  const { query, key } = column.active();
  const isPair = query !== null && key !== null;
  const { query: row, key: place } = isPair ? { query, key } : column.wide;
  const heads = column.mapHeads();
  const cursor = column.part("wide-cursor");
  const [x, y] = [LABELS.left + place * size, LABELS.top + row * size];
  const isInSight = place * size >= scroll.scrollLeft && row * size >= scroll.scrollTop;
  cursor.toggleAttribute("data-light", isPair && isInSight);
  cursor.style.transform = `translate(${x}px, ${y}px)`;
  cursor.style.width = cursor.style.height = `${size}px`;
  cursor.dataset.query = row;
  cursor.dataset.key = place;
  cursor.setAttribute("aria-colindex", place + 1);
  cursor.parentElement.setAttribute("aria-rowindex", row + 1);
  const value = heads.length ? attention.mean(column.layer(), heads, row, place) : 0;
  cursor.dataset.weight = heads.length ? value.toFixed(4) : "";
  const [from, to] = [printable(attention.queries[row]), printable(attention.keys[place])];
  cursor.setAttribute("aria-label", `${from} → ${to} ${cursor.dataset.weight}`);
}

function listenToWide(column) {
  const scroll = column.part("wide-scroll");
  scroll.addEventListener("scroll", () => requestAnimationFrame(() => redrawWide(column)));
  scroll.addEventListener("mousemove", (event) => {
    const cell = cellUnder(column, event);
    const here = pointed.column === column && pointed.cell ? pointed : NOTHING;
    if (cell?.query !== here.query || cell?.key !== here.key) point(column, cell);
  });
  scroll.addEventListener("mouseleave", () => point(column, null));
  scroll.addEventListener("focus", () => {
    if (scroll.matches(":focus-visible")) goToCell(column, column.wide.query, column.wide.key);
  });
  scroll.addEventListener("blur", () => point(column, null));
  scroll.addEventListener("keydown", (event) => {
    const { queries, keys } = column.attention();
    const { query, key } = column.wide;
    const there = walk(event, query, key, queries.length, keys.length);
    if (!there) return;
    event.preventDefault();
    goToCell(column, ...there);
  });
  column.part("wide-out").addEventListener("click", () => zoom(column, -1));
  column.part("wide-in").addEventListener("click", () => zoom(column, 1));
  new ResizeObserver(() => redrawWide(column)).observe(scroll);
}

function redrawWide(column) {
  if (column.wide?.cells && !column.part("wide").hidden && cardNames().includes("heat-map")) {
    lightWide(column);
  }
}

function cellUnder(column, { clientX, clientY }) {
  const scroll = column.part("wide-scroll");
  const { queries, keys } = column.attention();
  const box = scroll.getBoundingClientRect();
  const { size } = column.wide;
  const [x, y] = [clientX - box.left - LABELS.left, clientY - box.top - LABELS.top];
  if (x < 0 || y < 0) return null;
  const query = Math.floor((y + scroll.scrollTop) / size);
  const key = Math.floor((x + scroll.scrollLeft) / size);
  return query < queries.length && key < keys.length ? { query, key, cell: true } : null;
}

/** Scroll to a cell as little as needed, and point at it. */
function goToCell(column, query, key) {
  Object.assign(column.wide, { query, key });
  const scroll = column.part("wide-scroll");
  const { size } = column.wide;
  const near = (start, place, room) =>
    Math.min(Math.max(start, (place + 1) * size - room), place * size);
  scroll.scrollTop = near(scroll.scrollTop, query, scroll.clientHeight - LABELS.top);
  scroll.scrollLeft = near(scroll.scrollLeft, key, scroll.clientWidth - LABELS.left);
  point(column, { query, key, cell: true });
}

/** Make the cells larger or smaller, with the same center. */
function zoom(column, by) {
  const scroll = column.part("wide-scroll");
  const before = column.wide.size;
  const place = clamp(CELL_SIZES.indexOf(before) + by, CELL_SIZES.length);
  column.wide.size = CELL_SIZES[place];
  const middle = (start, room) => ((start + room / 2) / before) * column.wide.size - room / 2;
  const [left, top] = [
    middle(scroll.scrollLeft, scroll.clientWidth - LABELS.left),
    middle(scroll.scrollTop, scroll.clientHeight - LABELS.top),
  ];
  paintWide(column);
  scroll.scrollTo(left, top);
  lightWide(column);
}
