// One picture on the page. Two are shown side by side and follow the same choices.

class Column {
  constructor(index) {
    this.index = index;
    this.picture = null;
    this.built = new Map(); // for each card, the shape of the attention that it was built for
    this.stops = { query: 0, key: 0 }; // the token of each side that the tab key reaches
    this.root = at("column").content.firstElementChild.cloneNode(true);
    this.story = at("story").content.firstElementChild.cloneNode(true);
    this.parts = {};
    this.root.append(...VIEWS.filter(({ name }) => CARDS[name]).map(cardElement));
    for (const area of [this.root, this.story]) {
      for (const part of area.querySelectorAll("[data-part]")) this.#name(part);
    }
    for (const name of Object.keys(CARDS)) {
      this.part(`${name}-card`).setAttribute("aria-labeledby", this.part(`${name}-title`).id);
    }
    for (const card of Object.values(CARDS)) card.listen?.(this);
  }

  /** Give a part an id; the first column's ids are the plain names. */
  #name(part) {
    const { part: name } = part.dataset;
    part.id = this.index === 0 ? name : `${name}-${this.index + 1}`;
    this.parts[name] = part;
  }

  part(name) {
    return this.parts[name];
  }

  /** Return the panels that the view can show. */
  panels() {
    return cards()[0]?.panels?.(this.picture) ?? this.picture.panels;
  }

  panel() {
    const panels = this.panels();
    const named = (panel) => panels.find(({ name }) => name === panel);
    return named(state.panel) ?? named(this.picture.opening.panel) ?? panels[0] ?? null;
  }

  /** Return the attention that the view shows, with tokens merged into words where chosen. */
  attention() {
    const panel = this.panel();
    if (!panel) return NO_ATTENTION;
    return this.merges() ? mergedOf(panel) : attentionOf(panel);
  }

  merges() {
    return state.words && uses("words") && knowsWords(this.panel());
  }

  // The choices are the same for all columns; each column limits them to what it has.

  layer() {
    return clamp(chosenLayer(), this.attention().layers);
  }

  heads() {
    return chosenHeads().filter((head) => head < this.attention().heads);
  }

  /** Return the heads that the heat map averages. */
  mapHeads() {
    return state.map === "mean" ? this.heads() : [clamp(state.map, this.attention().heads)];
  }

  /** Return the head that a view of one head shows. */
  head() {
    return (state.map === "mean" ? this.heads() : this.mapHeads())[0] ?? 0;
  }

  pin() {
    const [attention, { query, key }] = [this.attention(), chosenPin()];
    return { query: attention.shown("query", query), key: attention.shown("key", key) };
  }

  /** Return the pinned token and the one pointed at; two sides make a pair. */
  active() {
    const [pin, here] = [this.pin(), pointed.column === this ? pointed : NOTHING];
    return { query: here.query ?? pin.query, key: here.key ?? pin.key };
  }

  /** Return the query that a view of one query shows: the pinned one, or the last. */
  query() {
    return this.pin().query ?? this.attention().queries.length - 1;
  }

  /** Return "layer 2, head 3", or "layer 2, mean of heads 1, 3". */
  place(heads) {
    const [layer, count] = [`layer ${this.layer() + 1}`, heads.length];
    if (count === 0) return `${layer}, no head`;
    if (count === 1) return `${layer}, head ${heads[0] + 1}`;
    if (count === this.attention().heads) return `${layer}, mean of all ${count} heads`;
    return `${layer}, mean of heads ${heads.map((head) => head + 1).join(", ")}`;
  }

  paintStory() {
    const { title, caption, source, output, notes, warnings } = this.picture;
    this.part("own-title").textContent = title;
    this.part("own-caption").textContent = caption;
    // One title at the top is enough for one model.
    const titles = new Set(columns.map(({ picture }) => `${picture.title}\n${picture.caption}`));
    this.part("own").hidden = titles.size === 1;
    this.part("source").textContent = source;
    this.part("source").parentElement.hidden = !source;
    this.part("output").textContent = output;
    this.part("output").parentElement.hidden = !output;
    this.part("warnings").textContent = warnings.join(" ");
    this.part("warnings").hidden = warnings.length === 0;
    const items = notes.map((note) => element("li", { dir: "auto" }, note));
    this.part("notes").replaceChildren(...items);
    this.part("notes").hidden = notes.length === 0;
  }

  paint() {
    for (const [name, card] of Object.entries(CARDS)) {
      const isShown = cards().includes(card) && card.has(this.picture);
      this.part(`${name}-card`).hidden = !isShown;
      if (!isShown) continue;
      const { shape } = this.attention();
      if (this.built.get(card) !== shape) card.build?.(this);
      this.built.set(card, shape);
      card.paint(this);
    }
    const empty = [...this.root.querySelectorAll(".card")].every((card) => card.hidden);
    this.part("nothing").hidden = !empty;
  }

  /** Paint what changes when the mouse or the keyboard moves. */
  light() {
    for (const card of cards()) if (card.has(this.picture)) card.light?.(this);
  }
}

/** Make the section of a view: its heading and its markup. */
function cardElement({ name, title }) {
  const part = (suffix) => ({ "data-part": `${name}-${suffix}` });
  const card = element("section", { class: `card ${name}-card`, ...part("card") });
  card.innerHTML = CARDS[name].markup ?? "";
  card.prepend(element("h2", part("title"), title));
  return card;
}

/** Show the pictures of the chosen snapshot, one column each. */
function takeSnapshot() {
  const pictures = snapshots[state.snapshot]?.pictures ?? [];
  if (pictures.length !== columns.length) {
    columns = pictures.map((_, index) => new Column(index));
    at("stories").replaceChildren(...columns.map(({ story }) => story));
    at("columns").replaceChildren(...columns.map(({ root }) => root));
    at("main").dataset.columns = columns.length;
  }
  for (const [index, picture] of pictures.entries()) columns[index].picture = picture;
  if (pictures.length) colors = pictures[0].colors;
  // Without a picture the choice stays, for the next one.
  if (pictures.length && !offeredViews().includes(state.view)) state.view = offeredViews()[0] ?? "";
}

function point(column, target) {
  pointed = { ...(target ?? NOTHING), column };
  light();
}

function light() {
  for (const column of columns) column.light();
  paintStatus();
}

function paint() {
  const isEmpty = offeredViews().length === 0;
  at("main").dataset.view = state.view;
  at("empty").hidden = !isEmpty || (isLive && columns.length === 0);
  for (const id of ["controls", "columns", "save", "help"]) at(id).hidden = isEmpty;
  paintTheme();
  paintHistory();
  if (columns.length) {
    at("title").textContent = columns[0].picture.title;
    at("caption").textContent = columns[0].picture.caption;
    for (const column of columns) column.paintStory();
  }
  if (isEmpty) return paintStatus();
  paintControls();
  for (const column of columns) column.paint();
  light();
}

function paintTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const theme = state.theme ?? system;
  const other = theme === "dark" ? "Light" : "Dark";
  document.documentElement.dataset.theme = theme;
  at("theme").textContent = other;
  at("theme").setAttribute("aria-label", `${other} colors`);
}
