// The choices above the drawing: which are there depends on the view and on what there is to see.

const offered = new WeakMap(); // for each box of choices, what it was built from

/** Fill `box` with radio buttons; options are [value, text, head whose colour it has]. */
function paintChoices(box, name, options, chosen, choose) {
  const built = JSON.stringify(options);
  if (offered.get(box) !== built) {
    const hadFocus = box.contains(document.activeElement);
    box.replaceChildren(...options.map((option) => choice(name, option, choose)));
    offered.set(box, built);
    // What was rebuilt under somebody's hands gets the focus back.
    if (hadFocus) box.querySelectorAll("input")[options.findIndex(([v]) => v === chosen)]?.focus();
  }
  for (const [index, radio] of box.querySelectorAll("input").entries()) {
    radio.checked = options[index][0] === chosen;
  }
}

function choice(name, [value, text, head], choose) {
  const radio = element("input", { type: "radio", name });
  radio.addEventListener("change", () => choose(value));
  const label = element("span", { dir: "auto" }, text);
  if (head !== undefined) {
    colour(label, head).classList.add("swatch");
    radio.setAttribute("aria-label", `Head ${head + 1}`);
  }
  return element("label", { class: "choice", [`data-${name}`]: value }, radio, label);
}

function paintControls() {
  for (const group of at("controls").querySelectorAll("[data-uses]")) {
    group.hidden = !uses(group.dataset.uses);
  }
  const views = offeredViews().map((view) => [view, VIEWS[view].title]);
  paintChoices(at("views"), "view", views, state.view, chooseView);
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
  if (uses("one")) {
    paintChoices(at("ones"), "one", heads, columns[0].head(), (map) => change({ map }));
  }
  paintFlows();
  paintWordChoice();
  paintMerge();
}

function chooseView(view) {
  pointed = { ...NOTHING, column: null };
  change({ view });
}

function choosePanel(panel) {
  const { heads } = state;
  pointed = { ...NOTHING, column: null };
  Object.assign(state, { panel, pin: NOTHING, against: null });
  // Another panel may have fewer layers and heads; what still exists stays chosen.
  if (state.layer !== null) state.layer = clamp(state.layer, layerCount());
  if (heads) state.heads = heads.filter((head) => head < headCount());
  if (state.map !== "mean" && state.map >= headCount()) state.map = "mean";
  change({});
}

// ---------------------------------------------------------------- heads

function paintHeads() {
  const built = JSON.stringify([headCount(), colours]);
  if (offered.get(at("heads")) !== built) {
    const buttons = range(headCount()).map((head) => {
      const label = `Head ${head + 1}`;
      const attributes = { type: "button", "data-head": head, "aria-label": label, title: label };
      return colour(element("button", attributes, `${head + 1}`), head);
    });
    at("heads").replaceChildren(...buttons);
    rove(buttons, buttons[0]);
    offered.set(at("heads"), built);
  }
  for (const button of at("heads").children) {
    button.setAttribute("aria-pressed", chosenHeads().includes(Number(button.dataset.head)));
  }
}

/** Select these heads; all of them stay all of them in a panel that has more. */
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

// ---------------------------------------------------------------- one word, a flow, whole words

/** The word that is followed or taken through the steps, by its number and its text. */
function paintWordChoice() {
  if (!uses("word")) return;
  const names = range(queryCount()).map((index) => {
    const words = columns.map((column) => column.attention().queries[index] ?? "");
    return `${index + 1}  ${[...new Set(words.map(visible))].join(" | ")}`;
  });
  const built = JSON.stringify(names);
  if (offered.get(at("word")) !== built) {
    at("word").replaceChildren(...names.map((name, value) => element("option", { value }, name)));
    offered.set(at("word"), built);
  }
  at("word").value = columns[0].word();
}

function paintFlows() {
  if (!uses("flow")) return;
  const flows = new Map(
    columns.flatMap((column) => flowsOf(column).map(({ name, title }) => [name, title])),
  );
  const chosen = flowOf(columns[0])?.name;
  paintChoices(at("flows"), "flow", [...flows], chosen, (flow) => change({ flow }));
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
  at("word").addEventListener("change", ({ target }) => {
    const query = columns[0].attention().piece("query", Number(target.value));
    change({ pin: { query, key: null }, against: null });
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
