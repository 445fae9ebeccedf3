// Word alignment of two texts: words light up with those of the other text that they come from.

import { element, percent } from "./elements.js";
import { listenToArrows, listenToPointer } from "./pointing.js";

const SOME = 0.15; // share of the attention from which a word lights up beside the first

/**
 * The alignment of a source, in a mirror behind its text box, and its translation.
 *
 * @param {HTMLElement} source box whose mirror has the words of the source
 * @param {HTMLElement} target shows the translation
 * @param {HTMLElement} note says what is pointed at
 */
export class Alignment {
  #links = []; // { source, target, weight }, the largest weight of each target word first

  constructor(source, target, note) {
    this.sides = { source: source.previousElementSibling, target };
    this.note = note;
    const point = (side) => (word) => this.point(side, word);
    listenToPointer(source.parentElement, point("source"));
    listenToPointer(target, point("target"));
    listenToArrows(target, () => this.#words("target").length, point("target"));
    // The word with the text cursor.
    for (const kind of ["keyup", "click"]) {
      source.addEventListener(kind, () => this.point("source", this.#wordAt(source.selectionStart)));
    }
  }

  /** Show texts with the words and links of their lines. */
  show(sourceText, targetText, lines) {
    this.#links = linksOf(lines);
    const words = (name) => lines.flatMap((line) => line[name]);
    this.sides.source.replaceChildren(...parts(sourceText, words("source_words")), "\n");
    this.sides.target.replaceChildren(...parts(targetText, words("target_words")));
    this.say("Point at a word to see where it comes from.");
  }

  /** Forget the words; the texts stay. */
  clear() {
    if (!this.#links.length) return;
    this.#links = [];
    for (const side of Object.values(this.sides)) side.replaceChildren(side.textContent);
  }

  /** Light up a word and those of the other side that it is aligned to; null for none. */
  point(side, word) {
    const other = side === "source" ? "target" : "source";
    for (const part of [...this.#words("source"), ...this.#words("target")]) delete part.dataset.light;
    const pointed = this.#words(side)[word];
    if (!pointed) return;
    pointed.dataset.light = "pointed";
    const links = this.#links.filter((link) => link[side] === word);
    const first = links.filter(({ isFirst }) => isFirst);
    for (const link of links.filter(({ weight }) => weight >= SOME)) this.#light(other, link, "some");
    for (const link of first) this.#light(other, link, "first");
    this.#describe(side, pointed, first.length ? first : links.slice(0, 1));
  }

  say(...parts) {
    this.note.replaceChildren(...parts);
  }

  #words(side) {
    return this.sides[side].querySelectorAll("[data-part]");
  }

  #light(side, link, light) {
    this.#words(side)[link[side]].dataset.light = light;
  }

  /** Write "dort ← sleeps 87.0 %". */
  #describe(side, pointed, links) {
    if (!links.length) return this.say("No word of the translation comes from ", quote(pointed), ".");
    const [{ source, weight }] = links;
    const targets = links.map(({ target }) => this.#words("target")[target]);
    const origin = this.#words("source")[source];
    const list = side === "target" ? [quote(pointed)] : targets.flatMap((word) => [quote(word), " "]);
    const share = links.length === 1 ? ` ${percent(weight)}` : "";
    this.say(...list, " ← ", quote(origin), share);
  }

  #wordAt(offset) {
    let end = 0;
    for (const node of this.sides.source.childNodes) {
      end += node.textContent.length;
      if (offset <= end) return node.dataset?.part === undefined ? null : Number(node.dataset.part);
    }
    return null;
  }
}

const quote = (word) => element("bdi", { class: "quoted" }, word.textContent);

/** Return the links of all lines, with words counted through the lines. */
function linksOf(lines) {
  const links = [];
  let [sources, targets] = [0, 0];
  for (const line of lines) {
    let last = null;
    for (const [source, target, weight] of line.links) {
      const isFirst = target !== last;
      links.push({ source: source + sources, target: target + targets, weight, isFirst });
      last = target;
    }
    sources += line.source_words.length;
    targets += line.target_words.length;
  }
  return links;
}

/** Cut a text into its words and what is between them. */
function parts(text, words) {
  const made = [];
  let end = 0;
  for (const [index, word] of words.entries()) {
    const start = text.indexOf(word, end);
    made.push(text.slice(end, start), element("span", { class: "word", "data-part": index }, word));
    end = start + word.length;
  }
  return [...made, text.slice(end)];
}
