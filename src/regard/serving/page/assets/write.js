// The tab Write: a language model continues a text, token by token.

import { at, element, grow, offer, setText } from "./elements.js";
import { GeneratedText } from "./generated_text.js";
import { remember } from "./history.js";
import { lookAddress } from "./look.js";
import { stream } from "./server.js";
import { TokenCard } from "./token_card.js";
import { Work } from "./work.js";

const TOP = 8; // alternatives of each token
const MOST_TOKENS = 100; // unless the user wants another number
const SLIDERS = { temperature: "temperature-value", "top-p": "top-p-value", penalty: "penalty-value" };

export const name = "write";
export const title = "Write";

const work = new Work(at("written"), at("write-problem"));
const card = new TokenCard(at("written"), at("token-card"), (index) => written.tokens[index], branch);

let models = [];
let written = new GeneratedText("");

const number = (id) => (at(id).value === "" ? null : Number(at(id).value));
const chosenModel = () => models.find(({ name: one }) => one === at("write-model").value);

export function start(served) {
  models = served;
  offer(at("write-model"), models.map((model) => [model.name, model.name]));
  at("write-model").parentElement.hidden = models.length < 2;
  limitTokens();
  at("write-model").addEventListener("change", limitTokens);
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
  begin(new GeneratedText(at("prompt").value));
}

/** Close the card of a token, or end what runs. */
export function stop() {
  if (card.hide() || !work.isRunning) return;
  work.stop();
  finish("Stopped.");
}

/** Show an entry of the history. */
export function restore({ input }) {
  stop();
  setText(at("prompt"), input);
  focus();
}

/** Continue from a token with an alternative in its place. */
function branch(index, alternative) {
  begin(written.withAlternative(index, alternative));
}

function begin(text) {
  card.hide();
  written = text;
  const prompt = element("span", { class: "prompt" }, text.toString().slice(0, text.promptLength));
  at("written").replaceChildren(prompt);
  paintFrom(0);
  work.start(write);
}

/** Show tokens as they come. */
async function write(signal) {
  setRunning(true);
  const [began, before] = [performance.now(), written.tokens.length];
  let result;
  try {
    for await (const event of stream("generate", at("write-model").value, request(), signal)) {
      if (event.result) ({ result } = event);
      else add(event);
    }
  } catch (error) {
    if (!signal.aborted) finish("");
    throw error;
  }
  const speed = ((written.tokens.length - before) / (performance.now() - began)) * 1000;
  const end = result.choices[0].finish_reason === "stop" ? "The model ended the text. " : "";
  finish(`${end}${speed.toFixed(0)} tokens a second.`);
  const text = written.toString();
  const [input, output] = [text.slice(0, written.promptLength), text.slice(written.promptLength)];
  remember({ tab: name, input, output, choices: {} });
}

/** Offer numbers of tokens that fit the context of the model. */
function limitTokens() {
  const { max_length: most } = chosenModel();
  at("max-tokens").max = most;
  at("max-tokens").value = Math.min(MOST_TOKENS, Math.floor(most / 2));
}

function request() {
  return {
    prompts: [written.toString()],
    max_tokens: number("max-tokens"),
    temperature: number("temperature"),
    top_p: number("top-p"),
    repetition_penalty: number("penalty"),
    seed: number("seed"),
    logprobs: TOP,
    stream: true,
  };
}

function add(event) {
  const last = Math.max(written.tokens.length - 1, 0);
  written.add(event);
  paintFrom(last); // the text of the last token may have been incomplete
}

function finish(sentence) {
  setRunning(false);
  const count = written.tokens.length;
  at("write-note").textContent = `${count} ${count === 1 ? "token" : "tokens"}. ${sentence}`;
  const model = chosenModel();
  at("write-actions").hidden = false;
  at("write-look").hidden = !model.tasks.includes("look");
  at("write-look").href = lookAddress(model.name, { text: written });
}

function setRunning(isRunning) {
  at("write-stop").disabled = !isRunning;
  at("write-more").disabled = isRunning || !written.tokens.length;
  if (isRunning) at("write-note").textContent = "Writing…";
}

/** Show the tokens from one on. */
function paintFrom(first) {
  const parts = at("written").querySelectorAll("[data-part]");
  for (const old of [...parts].slice(first)) old.remove();
  const fresh = written.tokens.slice(first);
  at("written").append(...fresh.map((token, index) => part(token, first + index)));
}

/** Make the element of a token, underlined the more the less likely it was. */
function part({ log_prob: logProb }, index) {
  const probability = Math.exp(logProb);
  const attributes = { class: "token", "data-part": index, "data-probability": probability };
  const made = element("span", attributes, written.textOf(index));
  made.style.setProperty("--doubt", 1 - probability);
  return made;
}
