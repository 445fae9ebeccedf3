// The steps of the lecture, with the numbers of this model: from a word's vector to what attention
// makes of it, for one word in one layer and head.

// More words than this do not fit on a screen; those with the largest weights are shown.
const MOST_STEPPED = 24;

/** Each step: its name, the equation, what it does, and the vectors and numbers it shows. */
const STEPS = [
  {
    name: "Input",
    equation: "x",
    says: ({ word, layer, sizes }) => [
      quote(word),
      ` enters layer ${layer + 1} as a vector x of ${sizes.D} numbers, and so does each word that`,
      " it may look at.",
    ],
    lead: ({ word, entered }) => [{ name: "x", of: word, values: entered }],
    strips: ({ remembered }, key) => [{ name: "x", values: remembered(key) }],
  },
  {
    name: "q, k, v",
    equation: "q = W_Q x,  k_j = W_K x_j,  v_j = W_V x_j",
    says: ({ sizes }) => [
      `Three matrices make ${sizes.K} numbers each: a query from the word that looks, a key and a`,
      " value from each word looked at.",
    ],
    lead: ({ word, query }) => [{ name: "q", of: word, values: query }],
    strips: ({ keyOf, valueOf }, key) => [
      { name: "k", values: keyOf(key) },
      { name: "v", values: valueOf(key) },
    ],
  },
  {
    name: "q · k",
    equation: "e_j = q · k_j",
    says: () => ["Query and key are multiplied number by number, and the products added up."],
    lead: ({ word, query }) => [{ name: "q", of: word, values: query }],
    strips: ({ keyOf }, key) => [{ name: "k", values: keyOf(key) }],
    numbers: ({ dot }, key) => [{ name: "q · k", value: dot(key) }],
  },
  {
    name: "÷ √d",
    equation: "e_j = q · k_j / √d",
    says: ({ sizes, hasBias }) => [
      `The sums are divided by √${sizes.K}, so that they do not grow with the size of the vectors.`,
      hasBias ? " The positions add what is left." : "",
    ],
    lead: () => [],
    strips: () => [],
    numbers: ({ dot, scaled, score, hasBias }, key) => [
      { name: "q · k", value: dot(key) },
      { name: "÷ √d", value: scaled(key) },
      ...(hasBias ? [{ name: "score", value: score(key) }] : []),
    ],
  },
  {
    name: "Softmax",
    equation: "α_j = exp e_j / Σ_i exp e_i",
    says: () => ["The softmax makes weights of the scores: none below 0, and all together 1."],
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
    says: () => ["Each value counts as much as its weight; their sum is what this head found."],
    lead: ({ word, found }) => [{ name: "o", of: word, values: found }],
    strips: ({ valueOf }, key) => [{ name: "v", values: valueOf(key) }],
    numbers: ({ weight }, key) => [{ name: "α", value: weight(key), isShare: true }],
  },
  {
    name: "Heads joined",
    equation: "[o_1; o_2; …]",
    says: ({ heads }) => [
      heads === 1 ? "There is one head." : `What the ${heads} heads found is put side by side.`,
    ],
    lead: ({ foundBy, heads }) =>
      range(heads).map((one) => ({ name: `o of head ${one + 1}`, of: "", values: foundBy(one) })),
  },
  {
    name: "× Wₒ",
    equation: "y = W_O [o_1; o_2; …]",
    says: ({ sizes, word }) => [
      `A last matrix mixes the heads into ${sizes.D} numbers: what attention gives `,
      quote(word),
      ".",
    ],
    lead: ({ word, output }) => [{ name: "y", of: word, values: output }],
  },
];

const stepsCard = {
  uses: ["panel", "layer", "one", "word", "step"],

  has: (picture) => stepsCard.panels(picture).length > 0,
  panels: (picture) => picture.panels.filter(({ name }) => stepsFor(picture, name)),

  paint(column) {
    const { lecture, shown, lead, rows, left } = stepOf(column);
    const choices = STEPS.map(({ name }, place) => [place, name]);
    const [box, group] = [column.part("step-choices"), `step${column.index || ""}`];
    paintChoices(box, group, choices, state.step, (chosen) => change({ step: chosen }));
    column.part("step-back").disabled = state.step === 0;
    column.part("step-next").disabled = state.step === STEPS.length - 1;
    column.part("step-title").textContent = `${state.step + 1}. ${shown.name}`;
    column.part("step-equation").replaceChildren(...written(shown.equation));
    column.part("step-says").replaceChildren(...shown.says(lecture));
    const vectors = [...lead, ...rows.flatMap(({ strips }) => strips)];
    const scale = largestOf(vectors);
    column.part("step-lead").replaceChildren(
      ...lead.map((vector) => named(vector, scale)),
    );
    column.part("step-rows").replaceChildren(...(rows.length ? stepTable(rows, scale) : []));
    column.part("step-note").textContent = left
      ? `The ${rows.length} words with the largest weights; ${left} more could be seen.`
      : "";
    readyStrips(column.part("stepped"));
    column.part("step-numbers").hidden = vectors.length === 0;
    paintNumbers(column.part("step-numbers"), vectors);
  },

  listen(column) {
    column.part("step-back").addEventListener("click", () => takeStep(column, -1));
    column.part("step-next").addEventListener("click", () => takeStep(column, 1));
    column.part("stepper").addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by || event.target.matches("input")) return; // radio buttons move by themselves
      event.preventDefault();
      takeStep(column, by);
    });
    listenToStrips(column.part("stepped"));
    listenToNumbers(column.part("step-numbers"));
  },

  sentence(column) {
    const { lecture, shown } = stepOf(column);
    return [`${column.place([column.head()])}, step ${state.step + 1}: `, ...shown.says(lecture)];
  },

  shown(column) {
    const { lecture, shown, lead, rows } = stepOf(column);
    const plain = ({ name, of, values }) => ({ name, of, values: Array.from(values) });
    const about = { layer: lecture.layer + 1, head: column.head() + 1, word: lecture.word };
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
};

/** An equation with what follows each "_" set below the line. */
function written(equation) {
  const parts = equation.split(/_(\w)/);
  return parts.map((part, place) => (place % 2 ? element("sub", {}, part) : part));
}

function takeStep(column, by) {
  change({ step: clamp(state.step + by, STEPS.length) });
  // A button that can go no further gives the focus to the other.
  const focused = document.activeElement;
  if (focused === document.body || focused.disabled) {
    column.part(by < 0 ? "step-next" : "step-back").focus();
  }
}

/** The numbers behind the steps for the chosen word, layer and head. */
function lectureOf(column) {
  const steps = stepsFor(column.picture, column.panel().name);
  const attention = column.attention();
  const [layer, head, asked] = [column.layer(), column.head(), column.word()];
  const [query, { scores }] = [slice(steps.queries, layer, head, asked), column.panel()];
  const keyOf = (key) => slice(steps.keys, layer, head, key);
  const dot = (key) => keyOf(key).reduce((sum, one, place) => sum + one * query[place], 0);
  const scaled = (key) => dot(key) / Math.sqrt(query.length);
  const score = (key) => (scores ? slice(scores, layer, head, asked)[key] : scaled(key));
  const weight = (key) => attention.weight(layer, head, asked, key);
  const isSeen = (key) => score(key) > -Infinity && (scores || !attention.isLater(asked, key));
  const seen = range(attention.keys.length).filter(isSeen);
  const isOff = (key) => Math.abs(score(key) - scaled(key)) > 1e-3 * (1 + Math.abs(score(key)));
  return {
    word: attention.queries[asked],
    words: attention.keys,
    layer,
    heads: attention.heads,
    sizes: { D: steps.entered.shape.at(-1), K: query.length },
    entered: slice(steps.entered, layer, asked),
    remembered: (key) => slice(steps.remembered, layer, key),
    query,
    keyOf,
    valueOf: (key) => slice(steps.values, layer, head, key),
    dot,
    scaled,
    score,
    weight,
    hasBias: seen.some(isOff),
    found: slice(steps.found, layer, head, asked),
    foundBy: (one) => slice(steps.found, layer, one, asked),
    output: slice(steps.output, layer, asked),
    seen,
  };
}

/** What the chosen step shows: vectors of the word itself, and a row for each word looked at. */
function stepOf(column) {
  const lecture = lectureOf(column);
  const shown = STEPS[state.step];
  const byWeight = [...lecture.seen].sort((a, b) => lecture.weight(b) - lecture.weight(a));
  const kept = shown.strips ? byWeight.slice(0, MOST_STEPPED).sort((a, b) => a - b) : [];
  const rows = kept.map((key) => ({
    key,
    word: lecture.words[key],
    strips: shown.strips(lecture, key).map((strip) => ({ ...strip, of: lecture.words[key] })),
    numbers: shown.numbers?.(lecture, key) ?? [],
  }));
  const left = shown.strips ? lecture.seen.length - rows.length : 0;
  return { lecture, shown, lead: shown.lead(lecture), rows, left };
}

function stepTable(rows, scale) {
  const [first] = rows;
  const names = [...first.numbers, ...first.strips].map(({ name }) => name);
  const top = ["word looked at", ...names].map((name) => element("th", { scope: "col" }, name));
  const largest = first.numbers.map((_, place) =>
    Math.max(...rows.map(({ numbers }) => Math.abs(numbers[place].value)), 0),
  );
  const body = rows.map(({ key, word, strips, numbers }) =>
    element(
      "tr",
      { "data-row": key },
      element("th", { scope: "row" }, wordOf(word)),
      ...numbers.map(({ name, value, isShare }, place) =>
        barred(value, isShare ? value : value / (largest[place] || 1), { "data-name": name }),
      ),
      ...strips.map((strip) => element("td", { class: "strip-cell" }, stripOf(strip, scale))),
    ),
  );
  return [element("thead", {}, element("tr", {}, ...top)), element("tbody", {}, ...body)];
}
