// The tab Write: a language model continues a text, token by token.

import { at, element, grow, offer, setText } from "./elements.js";
import { remember } from "./history.js";
import { lookAddress } from "./look.js";
import { stream } from "./server.js";
import { TokenCard } from "./token_card.js";
import { Work } from "./work.js";

const TOP = 8; // alternatives of each token
const SLIDERS = { temperature: "temperature-value", "top-p": "top-p-value", penalty: "penalty-value" };
const ENDS = { stop: "The model ended the text.", length: "" };

export const name = "write";
export const title = "Write";

const work = new Work(at("written"), at("write-problem"));
const card = new TokenCard(at("written"), at("token-card"), (index) => tokens[index], continueFrom);

let models = [];
let prompt = ""; // that the tokens continue
let tokens = []; // { text, log_prob, top: [[text, log_prob]] }

const written = () => prompt + tokens.map(({ text }) => text).join("");
const number = (id) => (at(id).value === "" ? null : Number(at(id).value));

export function start(served) {
  models = served;
  offer(at("write-model"), models.map((model) => [model.name, model.name]));
  at("write-model").parentElement.hidden = models.length < 2;
  grow(at("prompt"));
  at("write-start").addEventListener("click", runNow);
  at("write-stop").addEventListener("click", stop);
  at("write-more").addEventListener("click", () => work.start(write));
  at("write-settings").addEventListener("submit", (event) => event.preventDefault());
  for (const [slider, value] of Object.entries(SLIDERS)) {
    const paint = () => (at(value).textContent = Number(at(slider).value).toFixed(2));
    at(slider).addEventListener("input", paint);
    paint();
  }
}

export const focus = () => at("prompt").focus();

/** Continue the text of the box. */
export function runNow() {
  prompt = at("prompt").value;
  tokens = [];
  paint();
  work.start(write);
}

/** End what runs; return whether anything did. */
export function stop() {
  if (card.hide()) return true;
  if (!work.isRunning) return false;
  work.stop();
  finish("Stopped.");
  return true;
}

/** Show an entry of the history. */
export function restore({ input }) {
  stop();
  setText(at("prompt"), input);
  focus();
}

/** Write on from the start of a token with an alternative in its place. */
function continueFrom(index, [text, log_prob]) {
  const { top } = tokens[index];
  tokens = [...tokens.slice(0, index), { text, log_prob, top }];
  paint();
  work.start(write);
}

/** Show tokens as they come. */
async function write(signal) {
  setRunning(true);
  const began = performance.now();
  const before = tokens.length;
  try {
    let result = null;
    for await (const event of stream("generate", at("write-model").value, request(), signal)) {
      if (event.result) result = event.result;
      else add(event.tokens ?? []);
    }
    const speed = ((tokens.length - before) / (performance.now() - began)) * 1000;
    finish(`${ENDS[result.choices[0].finish_reason] ?? ""} ${speed.toFixed(0)} tokens a second.`);
    remember({ tab: name, input: prompt, output: written().slice(prompt.length), choices: {} });
  } catch (error) {
    if (!signal.aborted) finish("");
    throw error;
  }
}

function request() {
  return {
    prompts: [written()],
    max_tokens: number("max-tokens"),
    temperature: number("temperature"),
    top_p: number("top-p"),
    repetition_penalty: number("penalty"),
    seed: number("seed"),
    logprobs: TOP,
    stream: true,
  };
}

function add(more) {
  at("written").append(...more.map((token, index) => part(token, tokens.length + index)));
  tokens.push(...more);
}

function finish(sentence) {
  setRunning(false);
  const count = `${tokens.length} ${tokens.length === 1 ? "token" : "tokens"}.`;
  at("write-note").textContent = [count, sentence.trim()].filter(Boolean).join(" ");
  paintLook();
}

function setRunning(isRunning) {
  at("write-stop").disabled = !isRunning;
  at("write-more").disabled = isRunning || !tokens.length;
  if (isRunning) at("write-note").textContent = "Writing…";
}

function paint() {
  card.hide();
  const beginning = element("span", { class: "prompt" }, prompt);
  at("written").replaceChildren(beginning, ...tokens.map(part));
}

function paintLook() {
  const model = models.find(({ name: one }) => one === at("write-model").value);
  at("write-actions").hidden = false;
  at("write-look").hidden = !model.tasks.includes("look");
  at("write-look").href = lookAddress(model.name, { text: written() });
}

/** Make the element of a token, underlined the more the less likely it was. */
function part({ text, log_prob: logProb }, index) {
  const probability = Math.exp(logProb);
  const attributes = { class: "token", "data-part": index, "data-probability": probability };
  const made = element("span", attributes, text);
  made.style.setProperty("--doubt", 1 - probability);
  return made;
}
