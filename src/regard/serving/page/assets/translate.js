// The tab Translate: source and target side by side, as you type.

import { Alignment } from "./alignment.js";
import { at, element, grow, offer, setText } from "./elements.js";
import { listenToFiles, stopFile } from "./files.js";
import { remember } from "./history.js";
import { ANY, directionsOf, languageName, modelsFor, sourcesOf, targetsOf } from "./languages.js";
import { lookAddress } from "./look.js";
import { run } from "./server.js";
import { Work } from "./work.js";

const ALTERNATIVES = 3;

export const name = "translate";
export const title = "Translate";

const work = new Work(at("target"), at("translate-problem"), clearResult);
const aligning = new Work(at("alignment"), at("alignment"));
const alignment = new Alignment(at("source"), at("target"), at("alignment"));

let models = [];
let directions = [];
let shown = null; // the translation: { text, lines, source, target, model }

const source = () => at("source-language").value;
const target = () => at("target-language").value;
const model = () => at("translate-model").value;

export function start(served, maxBody) {
  models = served;
  directions = directionsOf(models);
  const sources = sourcesOf(directions).map((code) => [code, languageName(code)]);
  offer(at("source-language"), [[ANY, "Detect language"], ...sources], ANY);
  offerTargets(models[0].target ?? directions[0].target);
  const hasReverse = ({ source: from, target: to }) => modelsFor(directions, to, from).length;
  at("swap").hidden = !directions.some(hasReverse);
  grow(at("source"));
  at("source").addEventListener("input", changeText);
  at("source-clear").addEventListener("click", clear);
  at("source-language").addEventListener("change", () => chooseLanguages(source(), target()));
  at("target-language").addEventListener("change", () => chooseLanguages(source(), target()));
  at("translate-model").addEventListener("change", runNow);
  at("swap").addEventListener("click", swap);
  at("alternatives").addEventListener("toggle", () => at("alternatives").open && runNow());
  listenToFiles(() => ({ model: model(), source: source(), target: target(), maxBody }));
}

export const focus = () => at("source").focus();

/** Translate the text now. */
export function runNow() {
  if (at("source").value.trim()) work.start(translate);
  else showNothing();
}

/** End what runs. */
export function stop() {
  work.stop();
  aligning.stop();
  stopFile();
}

/** Show an entry of the history. */
export function restore({ input, choices }) {
  offerSources(choices.source);
  offerTargets(choices.target);
  setText(at("source"), input);
  runNow();
}

// ---------------------------------------------------------------- languages

function offerSources(chosen) {
  at("source-language").value = chosen;
  at("source-language").options[0].textContent = "Detect language";
}

function offerTargets(chosen) {
  const targets = targetsOf(directions, source());
  offer(at("target-language"), targets.map((code) => [code, languageName(code)]), chosen);
  offerModels();
}

/** Offer the models of the direction, where there are several. */
function offerModels() {
  const suited = modelsFor(directions, source(), target());
  offer(at("translate-model"), suited.map((one) => [one, one]), model());
  at("translate-model-field").hidden = suited.length < 2;
}

function chooseLanguages(newSource, newTarget) {
  offerSources(newSource);
  offerTargets(newTarget);
  runNow();
}

/** Translate the translation back. */
function swap() {
  const from = source() || shown?.source || targetsOf(directions, target())[0];
  const text = shown?.text;
  if (!modelsFor(directions, target(), from).length) return;
  offerSources(target());
  offerTargets(from);
  if (text) setText(at("source"), text);
  runNow();
}

/** Name the detected language; offer another target where the text is in that language already. */
function showDetected(detected) {
  at("same-language").hidden = true;
  if (source() !== ANY) return;
  at("source-language").options[0].textContent = `${languageName(detected)} (detected)`;
  const [other] = targetsOf(directions, detected);
  if (detected !== target() || other === undefined) return;
  at("same-language").hidden = false;
  const [sentence, button] = at("same-language").children;
  sentence.textContent = `The text is ${languageName(detected)} already.`;
  button.textContent = `Translate it into ${languageName(other)}`;
  button.onclick = () => chooseLanguages(ANY, other);
}

// ---------------------------------------------------------------- translation

function changeText() {
  at("source-clear").hidden = !at("source").value;
  aligning.stop();
  alignment.clear();
  if (at("source").value.trim()) work.startAfterTyping(translate);
  else showNothing();
}

function clear() {
  setText(at("source"), "");
  focus();
}

function showNothing() {
  work.stop();
  clearResult();
  at("translate-problem").textContent = "";
}

function clearResult() {
  aligning.stop();
  alignment.clear();
  shown = null;
  at("target").replaceChildren();
  at("target-actions").hidden = at("same-language").hidden = true;
  at("source-language").options[0].textContent = "Detect language";
  at("alternative-list").replaceChildren();
}

/** Translate each line by itself and show the translations; then align them. */
async function translate(signal) {
  const input = at("source").value;
  const lines = input.split("\n");
  const body = { texts: lines, source: source() || null, to: target(), segments: true };
  if (at("alternatives").open) body.alternatives = ALTERNATIVES;
  const { translations } = await run("translate", model(), body, signal);
  const [longest] = translations.toSorted((a, b) => b.input_tokens - a.input_tokens);
  showDetected(longest.source);
  const pairs = translations.flatMap(({ segments }) => segments);
  const result = { text: joined(translations.map(({ text }) => text)), pairs, source: longest.source };
  show(result);
  showAlternatives(translations);
  remember({
    tab: name,
    input,
    output: result.text,
    choices: { source: source(), target: target() },
  });
  aligning.start(align);
}

const joined = (lines) => lines.join("\n");

function show({ text, pairs, source: from }) {
  shown = { text, pairs, source: from, target: target(), model: model() };
  aligning.stop();
  alignment.clear();
  at("target").replaceChildren(text);
  at("target").lang = shown.target;
  at("source").lang = from;
  at("target-actions").hidden = false;
  const [first] = pairs;
  const canLook = models.find(({ name: one }) => one === shown.model).tasks.includes("look");
  at("translate-look").hidden = !canLook || !first;
  if (!first) return;
  const [line, output] = first;
  at("translate-look").href = lookAddress(shown.model, { text: line, output, to: shown.target });
}

/** Show whole texts of each rank; a line with fewer translations keeps its last. */
function showAlternatives(translations) {
  const ranks = Math.max(...translations.map(({ alternatives }) => alternatives.length));
  const texts = Array.from({ length: ranks }, (_, rank) =>
    joined(translations.map((own) => own.alternatives[rank] ?? own.alternatives.at(-1) ?? own.text)),
  );
  at("alternative-list").replaceChildren(...texts.map(alternative));
}

function alternative(text) {
  const button = element("button", { type: "button", dir: "auto", lang: target() }, text);
  button.addEventListener("click", () => choose(button));
  return element("li", {}, button);
}

/** Show an alternative in place of the translation, and the translation in its place. */
function choose(button) {
  const lines = at("source").value.split("\n");
  const chosen = button.textContent.split("\n");
  const pairs = lines.map((line, index) => [line, chosen[index]]).filter(([line]) => line.trim());
  button.textContent = shown.text;
  show({ text: joined(chosen), pairs, source: shown.source });
  aligning.start(align);
}

/** Show which words of the translation come from which words of the source. */
async function align(signal) {
  const { text, pairs, model: one, source: from, target: to } = shown;
  if (from === to) return; // it is a copy
  const { alignments } = await run("align", one, { pairs, to }, signal);
  alignment.show(at("source").value, text, alignments);
}
