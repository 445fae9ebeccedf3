// Attention step by step, with the vectors of this model: for one query in one layer and head.

// More keys than this do not fit on a screen; those with the largest weights are shown.
const MAX_KEYS = 24;

/** Each step: its name, its equation, an explanation, and the vectors and numbers it shows. */
const STEPS = [
  {
    name: "Input",
    equation: "x",
    explains: ({ token, layer, sizes }) => [
      `The input of layer ${layer + 1} at `,
      quote(token),
      ` is a vector x of ${sizes.D} numbers; so is that of each key.`,
    ],
    lead: ({ token, inputs }) => [{ name: "x", of: token, values: inputs }],
    strips: ({ memory }, key) => [{ name: "x", values: memory(key) }],
  },
  {
    name: "q, k, v",
    equation: "q = W_Q x,  k_j = W_K x_j,  v_j = W_V x_j",
    explains: ({ sizes }) => [
      `Three matrices project to ${sizes.K} numbers each: the query of this token, and the key and`,
      " the value of each token that it may attend to.",
    ],
    lead: ({ token, query }) => [{ name: "q", of: token, values: query }],
    strips: ({ keyOf, valueOf }, key) => [
      { name: "k", values: keyOf(key) },
      { name: "v", values: valueOf(key) },
    ],
  },
  {
    name: "q · k",
    equation: "e_j = q · k_j",
    explains: () => ["The dot product of query and key: the products of their numbers, added up."],
    lead: ({ token, query }) => [{ name: "q", of: token, values: query }],
    strips: ({ keyOf }, key) => [{ name: "k", values: keyOf(key) }],
    numbers: ({ dot }, key) => [{ name: "q · k", value: dot(key) }],
  },
  {
    name: "÷ √K",
    equation: "e_j = q · k_j / √K",
    explains: ({ sizes, hasBias }) => [
      `The dot products are divided by √K = √${sizes.K}, so that they do not grow with the vector size.`,
      hasBias ? " The rest is the position bias." : "",
    ],
    lead: () => [],
    strips: () => [],
    numbers: ({ dot, scaled, score, hasBias }, key) => [
      { name: "q · k", value: dot(key) },
      { name: "÷ √K", value: scaled(key) },
      ...(hasBias ? [{ name: "score", value: score(key) }] : []),
    ],
  },
  {
    name: "Softmax",
    equation: "α_j = exp e_j / Σ_i exp e_i",
    explains: () => ["The softmax turns scores into weights that are positive and add up to 1."],
    lead: () => [],
    strips: () => [],
    numbers: ({ score, weight }, key) => [
      { name: "score", value: score(key) },
      { name: "α", value: weight(key), isShare: true },
    ],
  },
  {
    name: "Σ α v",
    equation: "o = Σ_j α_j v_j",
    explains: () => ["The output of the head is the sum of the values times their weights."],
    lead: ({ token, headOutput }) => [{ name: "o", of: token, values: headOutput }],
    strips: ({ valueOf }, key) => [{ name: "v", values: valueOf(key) }],
    numbers: ({ weight }, key) => [{ name: "α", value: weight(key), isShare: true }],
  },
  {
    name: "Concatenate heads",
    equation: "[o_1; o_2; …]",
    explains: ({ heads }) => [
      heads === 1 ? "There is one head." : `The outputs of the ${heads} heads are concatenated.`,
    ],
    lead: ({ headOutputOf, heads }) =>
      range(heads).map((head) => ({
        name: `o of head ${head + 1}`,
        of: "",
        values: headOutputOf(head),
      })),
  },
  {
    name: "× Wₒ",
    equation: "y = W_O [o_1; o_2; …]",
    explains: ({ sizes, token }) => [
      `The output matrix maps them to ${sizes.D} numbers: the output of attention at `,
      quote(token),
      ".",
    ],
    lead: ({ token, output }) => [{ name: "y", of: token, values: output }],
  },
];

CARDS["steps"] = {
  markup: `
    <div class="stepper" data-part="stepper">
      <div class="choices">
        <button type="button" class="pill strong" data-part="step-back">Back</button>
        <button type="button" class="pill strong" data-part="step-next">Next</button>
      </div>
      <div class="choices" role="radiogroup" aria-label="Step" data-part="step-choices"></div>
    </div>
    <h3 data-part="step-title"></h3>
    <p class="equation" data-part="step-equation"></p>
    <p class="explain" data-part="step-explains"></p>
    <div class="stepped" data-part="stepped">
      <div class="vectors" data-part="step-lead"></div>
      <div class="scroll"><table class="figures" data-part="step-rows"></table></div>
    </div>
    <p class="note" data-part="step-note"></p>
    <details class="numbers" data-part="step-numbers">
      <summary>The numbers of these vectors</summary>
      <div class="scroll"></div>
    </details>`,

  uses: ["panel", "layer", "head", "query"],
  choices: {
    step: { read: (text) => numberIn(text, STEPS.length) ?? 0, write: (step) => step + 1 },
  },

  has: (picture) => CARDS["steps"].panels(picture).length > 0,
  panels: (picture) => picture.panels.filter(({ name }) => stepsFor(picture, name)),

  paint(column) {
    const { values, shown, lead, rows, left } = stepOf(column);
    const choices = STEPS.map(({ name }, index) => [index, name]);
    const [box, group] = [column.part("step-choices"), `step${column.index || ""}`];
    paintChoices(box, group, choices, state.own.step, (step) => changeOwn({ step }));
    column.part("step-back").disabled = state.own.step === 0;
    column.part("step-next").disabled = state.own.step === STEPS.length - 1;
    column.part("step-title").textContent = `${state.own.step + 1}. ${shown.name}`;
    column.part("step-equation").replaceChildren(...written(shown.equation));
    column.part("step-explains").replaceChildren(...shown.explains(values));
    const vectors = [...lead, ...rows.flatMap(({ strips }) => strips)];
    const scale = largestOf(vectors);
    column.part("step-lead").replaceChildren(
      ...lead.map((vector) => named(vector, scale)),
    );
    column.part("step-rows").replaceChildren(...(rows.length ? stepTable(rows, scale) : []));
    column.part("step-note").textContent = left
      ? `The ${rows.length} keys with the largest weights; ${left} more are not masked.`
      : "";
    readyStrips(column.part("stepped"));
    column.part("step-numbers").hidden = vectors.length === 0;
    paintNumbers(column.part("step-numbers"), vectors);
  },

  listen(column) {
    column.part("step-back").addEventListener("click", () => goToStep(column, -1));
    column.part("step-next").addEventListener("click", () => goToStep(column, 1));
    column.part("stepper").addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by || event.target.matches("input")) return; // radio buttons have their own arrow keys
      event.preventDefault();
      goToStep(column, by);
    });
    listenToStrips(column.part("stepped"));
    listenToNumbers(column.part("step-numbers"));
  },

  sentence(column) {
    const { values, shown } = stepOf(column);
    return [`${column.place([column.head()])}, step ${state.own.step + 1}: `, ...shown.explains(values)];
  },

  shown(column) {
    const { values, shown, lead, rows } = stepOf(column);
    const plain = ({ name, of, values }) => ({ name, of, values: Array.from(values) });
    const about = { layer: values.layer + 1, head: column.head() + 1, token: values.token };
    return {
      step: shown.name,
      equation: shown.equation,
      ...about,
      vectors: lead.map(plain),
      rows: rows.map((row) => ({ ...row, strips: row.strips.map(plain) })),
    };
  },

  drawing(column) {
    return drawSteps(column);
  },

  fileParts: () => [`step-${state.own.step + 1}`],
};

/** Return the vectors behind a panel, or null. */
function stepsFor(picture, panel) {
  return picture.views.steps?.find((steps) => steps.panel === panel) ?? null;
}

/** Typeset an equation: the letter after each "_" is a subscript. */
function written(equation) {
  const parts = equation.split(/_(\w)/);
  return parts.map((part, index) => (index % 2 ? element("sub", {}, part) : part));
}

function goToStep(column, by) {
  changeOwn({ step: clamp(state.own.step + by, STEPS.length) });
  // A button that becomes disabled passes the focus to the other.
  const focused = document.activeElement;
  if (focused === document.body || focused.disabled) {
    column.part(by < 0 ? "step-next" : "step-back").focus();
  }
}

/** Return the vectors and numbers of the chosen query, layer and head. */
function valuesOfStep(column) {
  const steps = stepsFor(column.picture, column.panel().name);
  const attention = column.attention();
  const [layer, head, index] = [column.layer(), column.head(), column.query()];
  const [query, { scores }] = [slice(steps.queries, layer, head, index), column.panel()];
  const keyOf = (key) => slice(steps.keys, layer, head, key);
  const dot = (key) => keyOf(key).reduce((sum, one, i) => sum + one * query[i], 0);
  const scaled = (key) => dot(key) / Math.sqrt(query.length);
  const score = (key) => (scores ? slice(scores, layer, head, index)[key] : scaled(key));
  const weight = (key) => attention.weight(layer, head, index, key);
  const isAllowed = (key) => score(key) > -Infinity && (scores || !attention.isLater(index, key));
  const allowed = range(attention.keys.length).filter(isAllowed);
  const isBiased = (key) => Math.abs(score(key) - scaled(key)) > 1e-3 * (1 + Math.abs(score(key)));
  return {
    token: attention.queries[index],
    keys: attention.keys,
    layer,
    heads: attention.heads,
    sizes: { D: steps.inputs.shape.at(-1), K: query.length },
    inputs: slice(steps.inputs, layer, index),
    memory: (key) => slice(steps.memory, layer, key),
    query,
    keyOf,
    valueOf: (key) => slice(steps.values, layer, head, key),
    dot,
    scaled,
    score,
    weight,
    hasBias: allowed.some(isBiased),
    headOutput: slice(steps.head_outputs, layer, head, index),
    headOutputOf: (one) => slice(steps.head_outputs, layer, one, index),
    output: slice(steps.output, layer, index),
    allowed,
  };
}

/** Return what the chosen step shows: vectors of the query, and a row for each key. */
function stepOf(column) {
  const values = valuesOfStep(column);
  const shown = STEPS[state.own.step];
  const byWeight = [...values.allowed].sort((a, b) => values.weight(b) - values.weight(a));
  const keys = shown.strips ? byWeight.slice(0, MAX_KEYS).sort((a, b) => a - b) : [];
  const rows = keys.map((key) => ({
    key,
    token: values.keys[key],
    strips: shown.strips(values, key).map((strip) => ({ ...strip, of: values.keys[key] })),
    numbers: shown.numbers?.(values, key) ?? [],
  }));
  const left = shown.strips ? values.allowed.length - rows.length : 0;
  return { values, shown, lead: shown.lead(values), rows, left };
}

function stepTable(rows, scale) {
  const [first] = rows;
  const names = [...first.numbers, ...first.strips].map(({ name }) => name);
  const top = ["key", ...names].map((name) => element("th", { scope: "col" }, name));
  const largest = first.numbers.map((_, index) =>
    Math.max(...rows.map(({ numbers }) => Math.abs(numbers[index].value)), 0),
  );
  const body = rows.map(({ key, token, strips, numbers }) =>
    element(
      "tr",
      { "data-row": key },
      element("th", { scope: "row" }, tokenElement(token)),
      ...numbers.map(({ name, value, isShare }, index) =>
        barred(value, isShare ? value : value / (largest[index] || 1), { "data-name": name }),
      ),
      ...strips.map((strip) => element("td", { class: "strip-cell" }, stripOf(strip, scale))),
    ),
  );
  return [element("thead", {}, element("tr", {}, ...top)), element("tbody", {}, ...body)];
}

// ---------------------------------------------------------------- export

function drawSteps(column) {
  const { shown, lead, rows } = stepOf(column);
  const drawn = drawRows(lead, rows);
  const parts = shown.equation.split(/_(\w)/).map(escaped);
  const lowered = (part) => `<tspan font-size="10" baseline-shift="sub">${part}</tspan>`;
  const equation = parts.map((part, index) => (index % 2 ? lowered(part) : part)).join("");
  const title = `<text y="16" font-size="14">${state.own.step + 1}. ${equation}</text>`;
  const body = `${title}<g transform="translate(0 30)">${drawn.body}</g>`;
  return { width: Math.max(drawn.width, 480), height: drawn.height + 30, body };
}
