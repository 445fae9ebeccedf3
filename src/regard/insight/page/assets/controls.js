// The controls above the view; which of them are shown depends on the view.

const offered = new WeakMap(); // for each box of choices, the options that it was built from

/** Fill `box` with radio buttons; options are [value, text, head for the color]. */
function paintChoices(box, name, options, chosen, choose) {
  const built = JSON.stringify(options);
  if (offered.get(box) !== built) {
    const hadFocus = box.contains(document.activeElement);
    box.replaceChildren(...options.map((option) => choice(name, option, choose)));
    offered.set(box, built);
    // The keyboard focus survives rebuilding.
    if (hadFocus) box.querySelectorAll("input")[options.findIndex(([v]) => v === chosen)]?.focus();
  }
  for (const [index, radio] of box.querySelectorAll("input").entries()) {
    radio.checked = options[index][0] === chosen;
    if (radio.checked) showInRow(box, radio.parentElement);
  }
}

/** Scroll a row of choices, on a narrow screen, so that one of them is visible. */
function showInRow(box, item) {
  const [row, own] = [box.getBoundingClientRect(), item.getBoundingClientRect()];
  if (own.left < row.left || own.right > row.right) {
    box.scrollLeft += own.left - row.left - (row.width - own.width) / 2;
  }
}

function choice(name, [value, text, head], choose) {
  const radio = element("input", { type: "radio", name });
  radio.addEventListener("change", () => choose(value));
  const label = element("span", { dir: "auto" }, text);
  if (head !== undefined) {
    color(label, head).classList.add("swatch");
    radio.setAttribute("aria-label", `Head ${head + 1}`);
  }
  return element("label", { class: "choice", [`data-${name}`]: value }, radio, label);
}

function paintControls() {
  for (const group of at("controls").querySelectorAll("[data-uses]")) {
    group.hidden = !uses(group.dataset.uses);
  }
  const views = offeredViews().map((view) => [view, viewNamed(view).title]);
  paintChoices(at("views"), "view", views, state.view, chooseView);
  paintGuide();
  const panels = new Map(
    columns.flatMap((column) => column.panels().map(({ name, title }) => [name, title])),
  );
  paintChoices(at("panels"), "panel", [...panels], columns[0].attention().name, choosePanel);
  const layers = range(layerCount()).map((layer) => [layer, `${layer + 1}`]);
  paintChoices(at("layers"), "layer", layers, chosenLayer(), (layer) => change({ layer }));
  paintHeads();
  const heads = range(headCount()).map((head) => [head, `${head + 1}`, head]);
  const maps = [["mean", "Mean of the selected heads"], ...heads];
  paintChoices(at("maps"), "map", maps, state.map, (map) => change({ map }));
  if (uses("head")) {
    paintChoices(at("one-head-choices"), "head", heads, columns[0].head(), (map) => change({ map }));
  }
  paintQueryChoice();
  paintMerge();
}

/** Show the question that the view answers, and the view to open after it. */
function paintGuide() {
  const path = suggestedViews();
  const place = path.indexOf(state.view);
  const counted = `${place + 1} of ${path.length}: `;
  const start = place === 0 ? "Start here: " : place < 0 ? "" : counted;
  at("guide").textContent = start + viewNamed(state.view).question;
  const next = viewNamed(nextView());
  at("guide-next").hidden = !next;
  if (next) at("guide-next").textContent = `Next: ${next.title} ›`;
}

/** Return the offered views in the suggested order, without those that another one contains. */
function suggestedViews() {
  const offered = offeredViews();
  const inside = offered.map(viewNamed).flatMap(({ name, cards }) => cards.filter((one) => one !== name));
  return offered.filter((name) => !inside.includes(name));
}

/** Return the view that is suggested after the one that is shown; undefined after the last. */
function nextView() {
  const later = offeredViews().slice(offeredViews().indexOf(state.view) + 1);
  return later.find((name) => suggestedViews().includes(name));
}

function chooseView(view) {
  pointed = { ...NOTHING, column: null };
  change({ view });
}

function choosePanel(panel) {
  const { heads } = state;
  pointed = { ...NOTHING, column: null };
  Object.assign(state, { panel, pin: NOTHING });
  resetPerPanel();
  // Another panel may have fewer layers and heads; choices that still exist stay.
  if (state.layer !== null) state.layer = clamp(state.layer, layerCount());
  if (heads) state.heads = heads.filter((head) => head < headCount());
  if (state.map !== "mean" && state.map >= headCount()) state.map = "mean";
  change({});
}

/** Forget the choices of views that refer to tokens of one panel. */
function resetPerPanel() {
  for (const [name, { read, perPanel }] of ownChoices()) if (perPanel) state.own[name] = read(null);
}

// ---------------------------------------------------------------- heads

function paintHeads() {
  const built = JSON.stringify([headCount(), colors]);
  if (offered.get(at("heads")) !== built) {
    const buttons = range(headCount()).map((head) => {
      const label = `Head ${head + 1}`;
      const attributes = { type: "button", "data-head": head, "aria-label": label, title: label };
      return color(element("button", attributes, `${head + 1}`), head);
    });
    at("heads").replaceChildren(...buttons);
    rove(buttons, buttons[0]);
    offered.set(at("heads"), built);
  }
  for (const button of at("heads").children) {
    button.setAttribute("aria-pressed", chosenHeads().includes(Number(button.dataset.head)));
  }
}

/** Select these heads; a selection of all heads stays one in a panel with more heads. */
function selectHeads(heads) {
  change({ heads: heads.length === headCount() ? null : heads });
}

function toggleHead(head) {
  const on = chosenHeads();
  selectHeads(
    range(headCount()).filter((one) => (one === head ? !on.includes(one) : on.includes(one))),
  );
}

function listenToHeads() {
  const headOf = ({ target }) => target.closest("[data-head]")?.dataset.head;
  const only = (event) => {
    event.preventDefault();
    selectHeads([Number(headOf(event))]);
  };
  at("heads").addEventListener("click", (event) => {
    if (headOf(event) === undefined) return;
    if (event.shiftKey) only(event);
    else toggleHead(Number(headOf(event)));
  });
  at("heads").addEventListener("dblclick", (event) => headOf(event) !== undefined && only(event));
  at("heads").addEventListener("keydown", (event) => {
    if (event.shiftKey && ["Enter", " "].includes(event.key)) only(event);
    step(event, [...at("heads").children], { ArrowLeft: -1, ArrowRight: 1 });
  });
}

// ---------------------------------------------------------------- one query, whole words

/** Offer the query tokens by number and text. */
function paintQueryChoice() {
  if (!uses("query")) return;
  const names = range(queryCount()).map((index) => {
    const tokens = columns.map((column) => column.attention().queries[index] ?? "");
    return `${index + 1}  ${[...new Set(tokens.map(printable))].join(" | ")}`;
  });
  const built = JSON.stringify(names);
  if (offered.get(at("query")) !== built) {
    at("query").replaceChildren(...names.map((name, value) => element("option", { value }, name)));
    offered.set(at("query"), built);
  }
  at("query").value = columns[0].query();
}

function paintMerge() {
  const panels = columns.map((column) => column.panel()).filter(Boolean);
  const can = uses("words") && panels.some(knowsWords);
  at("merge").closest("fieldset").hidden = !can;
  at("merge").checked = state.words;
}

function listenToControls() {
  listenToHeads();
  at("all").addEventListener("click", () => change({ heads: null }));
  at("guide-next").addEventListener("click", () => chooseView(nextView()));
  at("query").addEventListener("change", ({ target }) => {
    const query = columns[0].attention().token("query", Number(target.value));
    resetPerPanel();
    change({ pin: { query, key: null } });
  });
  at("merge").addEventListener("change", ({ target }) => change({ words: target.checked }));
  at("theme").addEventListener("click", () => {
    change({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" });
  });
  document.addEventListener("keydown", ({ key }) => key === "Escape" && change({ pin: NOTHING }));
  for (const form of document.querySelectorAll("form")) {
    form.addEventListener("submit", (event) => event.preventDefault());
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  addEventListener("hashchange", () => {
    pointed = { ...NOTHING, column: null };
    readAddress();
    paint();
    readLiveAddress();
  });
}
