// Vectors as strips of color: blue above 0, red below. A strip takes the focus as a whole; the arrow
// keys move along it, and the status line shows the number.

/** Make a strip of a vector { name, of, values }; `scale` is the value of full color. */
function stripOf(vector, scale) {
  const { name, of, values } = vector;
  const canvas = element("canvas", { width: Math.max(values.length, 1), height: 1 });
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, 1);
  for (const [place, value] of values.entries()) {
    const alpha = Math.round(255 * strength(value, scale));
    image.data.set([...(value < 0 ? BELOW : ABOVE), alpha], 4 * place);
  }
  context.putImageData(image, 0, 0);
  const label = `${name}${of ? ` of ${printable(of)}` : ""}: ${values.length} numbers`;
  const marker = element("i", { class: "marker", hidden: "" });
  const attributes = { class: "strip", role: "img", tabindex: -1, "aria-label": label };
  const strip = element("span", attributes, canvas, marker);
  strip.vector = vector;
  strip.place = 0;
  return strip;
}

/** Make a strip with its name before it. */
function named(vector, scale) {
  const { name, of } = vector;
  const title = element("span", { class: "vector-name" }, name, ...(of ? [" of ", quote(of)] : []));
  return element("p", { class: "vector" }, title, stripOf(vector, scale));
}

const strength = (value, scale) => (scale > 0 ? Math.min(Math.abs(value) / scale, 1) : 0);

function largestOf(vectors) {
  let largest = 0;
  for (const { values } of vectors) {
    for (const value of values) if (Math.abs(value) > largest) largest = Math.abs(value);
  }
  return largest;
}

/** Let the tab key stop at the first strip of an area. */
function readyStrips(area) {
  const strips = [...area.querySelectorAll(".strip")];
  rove(strips, strips[0]);
}

function listenToStrips(area) {
  const leave = () => {
    for (const marker of area.querySelectorAll(".marker")) marker.hidden = true;
    paintStatus();
  };
  area.addEventListener("mousemove", ({ target, clientX }) => {
    const strip = target.closest(".strip");
    if (!strip) return;
    const box = strip.getBoundingClientRect();
    const count = strip.vector.values.length;
    readStrip(area, strip, clamp(Math.floor(((clientX - box.left) / box.width) * count), count));
  });
  area.addEventListener("mouseleave", leave);
  area.addEventListener("focusin", ({ target }) => {
    const strip = target.closest(".strip");
    if (strip?.matches(":focus-visible")) readStrip(area, strip, strip.place);
  });
  area.addEventListener("focusout", leave);
  area.addEventListener("keydown", (event) => {
    const strip = event.target.closest(".strip");
    if (!strip) return;
    const strips = [...area.querySelectorAll(".strip")];
    const up = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (up) {
      const next = strips[strips.indexOf(strip) + up];
      if (next) goTo(event, strips, next);
      return;
    }
    const [here, count] = [strip.place, strip.vector.values.length];
    const moves = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: count - 1 };
    if (!Object.hasOwn(moves, event.key)) return;
    event.preventDefault();
    readStrip(area, strip, clamp(moves[event.key], count));
  });
}

function readStrip(area, strip, place) {
  const { name, of, values } = strip.vector;
  strip.place = place;
  for (const marker of area.querySelectorAll(".marker")) marker.hidden = true;
  const marker = strip.querySelector(".marker");
  marker.hidden = false;
  marker.style.left = `${(100 * place) / values.length}%`;
  marker.style.width = `${100 / values.length}%`;
  const whose = of ? [" of ", quote(of)] : [];
  showStatus(name, ...whose, `, number ${place + 1} of ${values.length}: `, bold(figure(values[place])));
}

/** Show the same vectors as a table of numbers, made when it is opened. */
function paintNumbers(details, vectors) {
  details.fill = () => {
    const count = Math.max(...vectors.map(({ values }) => values.length), 0);
    const heads = range(count).map((place) => element("th", { scope: "col" }, `${place + 1}`));
    const rows = vectors.map(({ name, of, values }) => {
      const title = element("th", { scope: "row" }, name, ...(of ? [" of ", quote(of)] : []));
      const cells = Array.from(values, (value) => element("td", {}, figure(value)));
      return element("tr", {}, title, ...cells);
    });
    const table = element(
      "table",
      {},
      element("thead", {}, element("tr", {}, element("td"), ...heads)),
      element("tbody", {}, ...rows),
    );
    details.lastElementChild.replaceChildren(table);
  };
  if (details.open) details.fill();
}

function listenToNumbers(details) {
  details.addEventListener("toggle", () => details.open && details.fill?.());
}

/** Make a cell with a number and a bar; `share` is the length of the bar, from −1 to 1. */
function barred(value, share, attributes = {}) {
  const bar = element("i", { class: share < 0 ? "bar below" : "bar" });
  bar.style.setProperty("--share", Math.abs(share).toFixed(4));
  return element("td", { "data-value": figure(value), ...attributes }, bar, figure(value));
}
