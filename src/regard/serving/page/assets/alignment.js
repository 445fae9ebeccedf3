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
  #links = []; // { source, target, weight, isFirst }; first is the largest of a target word

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

  /** Show texts with the words and links of their parts. */
  show(sourceText, targetText, alignments) {
    this.#links = linksOf(alignments);
    const words = (name) => alignments.flatMap((alignment) => alignment[name]);
    this.sides.source.replaceChildren(...parts(sourceText, words("source_words")), "\n");
    this.sides.target.replaceChildren(...parts(targetText, words("target_words")));
    this.say("Point at a word to see where it comes from.");
  }

  /** Forget the words; the texts stay. */
  clear() {
    this.say();
    if (!this.#links.length) return;
    this.#links = [];
    for (const side of Object.values(this.sides)) side.replaceChildren(side.textContent);
  }

  /** Light up a word and those of the other side that it is aligned to; null for none. */
  point(side, index) {
    for (const word of [...this.#words("source"), ...this.#words("target")]) delete word.dataset.light;
    const pointed = this.#word(side, index);
    if (!pointed) return;
    pointed.dataset.light = "pointed";
    const links = this.#links.filter((link) => link[side] === index);
    const first = links.filter(({ isFirst }) => isFirst);
    const other = side === "source" ? "target" : "source";
    for (const link of links.filter(({ weight }) => weight >= SOME)) this.#light(other, link, "some");
    for (const link of first) this.#light(other, link, "first");
    this.#describe(side, pointed, first);
  }

  say(...parts) {
    this.note.replaceChildren(...parts);
  }

  #words(side) {
    return this.sides[side].querySelectorAll("[data-part]");
  }

  #word(side, index) {
    return this.sides[side].querySelector(`[data-part="${index}"]`);
  }

  #light(side, link, light) {
    const word = this.#word(side, link[side]);
    if (word) word.dataset.light = light;
  }

  /** Write “dort” ← “sleeps” 87.0 %. */
  #describe(side, pointed, links) {
    if (!links.length) return this.say("No word of the translation comes from ", quote(pointed), ".");
    const words = (name) => links.map((link) => this.#word(name, link[name])).filter(Boolean);
    const targets = side === "target" ? [pointed] : words("target");
    const [origin] = side === "source" ? [pointed] : words("source");
    const share = links.length === 1 ? ` ${percent(links[0].weight)}` : "";
    this.say(...targets.flatMap((word) => [quote(word), " "]), "← ", quote(origin), share);
  }

  /** Return the index of the source word at a place in the text, or null. */
  #wordAt(offset) {
    let end = 0;
    for (const node of this.sides.source.childNodes) {
      end += node.textContent.length;
      if (offset <= end) return node.dataset?.part ?? null;
    }
    return null;
  }
}

const quote = (word) => element("bdi", { class: "quoted" }, word.textContent);

/** Return the links of all parts, with words counted through the parts. */
function linksOf(alignments) {
  const all = [];
  let [sources, targets] = [0, 0];
  for (const { source_words, target_words, links } of alignments) {
    let last = null;
    for (const [source, target, weight] of links) {
      const isFirst = target !== last;
      all.push({ source: source + sources, target: target + targets, weight, isFirst });
      last = target;
    }
    sources += source_words.length;
    targets += target_words.length;
  }
  return all;
}

/** Cut a text into its words and what is between them; a word that is not in the text is left out. */
function parts(text, words) {
  const made = [];
  let end = 0;
  for (const [index, word] of words.entries()) {
    const start = place(text, word, end);
    if (start < 0) continue;
    const shown = text.slice(start, start + word.length);
    made.push(text.slice(end, start), element("span", { class: "word", "data-part": index }, shown));
    end = start + word.length;
  }
  return [...made, text.slice(end)];
}

/** Return the place of a word; of a text in capitals, the server aligns the small letters. */
function place(text, word, from) {
  const exact = text.indexOf(word, from);
  return exact < 0 ? text.toLowerCase().indexOf(word.toLowerCase(), from) : exact;
}
