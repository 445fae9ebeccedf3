// The card of a token: its probability, and what the model could have generated in its place.

import { paintBars } from "./bars.js";
import { at, percent, printable } from "./elements.js";
import { listenToArrows, listenToPointer } from "./pointing.js";

const LEAVING = 300; // milliseconds to reach the card with the mouse

// Tokens such as </s> and <0x0A> are no text to continue from.
const isText = (token) => token !== "" && !/^<[^<>\s]+>$/.test(token);

export class TokenCard {
  #hiding = null;
  #shown = null; // index of the token

  /**
   * @param {HTMLElement} text its parts are tokens
   * @param {HTMLElement} card
   * @param {(index: number) => object} tokenAt returns { text, log_prob, top }
   * @param {(index: number, alternative: [string, number]) => void} choose
   */
  constructor(text, card, tokenAt, choose) {
    Object.assign(this, { text, card, tokenAt, choose });
    const point = (index) => (index === null ? this.#hideSoon() : this.#show(index));
    listenToPointer(text, point);
    listenToArrows(text, () => this.#parts().length, point);
    text.addEventListener("keydown", (event) => this.#enter(event));
    for (const kind of ["pointerenter", "focusin"]) card.addEventListener(kind, () => this.#stay());
    for (const kind of ["pointerleave", "focusout"]) card.addEventListener(kind, () => this.#hideSoon());
    document.addEventListener("pointerdown", ({ target }) => {
      if (!text.contains(target) && !card.contains(target)) this.hide();
    });
  }

  /** Hide the card; return whether it was shown. */
  hide() {
    this.#stay();
    if (this.card.hidden) return false;
    if (this.card.contains(document.activeElement)) this.text.focus();
    this.card.hidden = true;
    this.#mark(null);
    return true;
  }

  #show(index) {
    this.#stay();
    if (this.#shown === index && !this.card.hidden) return;
    this.#mark(index);
    const token = this.tokenAt(index);
    at("token-title").replaceChildren(printable(token.text), " ", percent(Math.exp(token.log_prob)));
    const entries = token.top.map(([text, logProb]) => [text, Math.exp(logProb)]);
    const choose = (rank) => this.choose(index, token.top[rank]);
    paintBars(at("token-alternatives"), entries, choose, isText);
    this.card.hidden = false;
    this.#place(this.#parts()[index]);
  }

  /** Put the card below its token, inside the width of the text. */
  #place(part) {
    const { left, bottom } = part.getClientRects()[0] ?? part.getBoundingClientRect();
    const room = this.card.offsetParent.getBoundingClientRect();
    const most = Math.max(room.width - this.card.offsetWidth, 0);
    this.card.style.left = `${Math.min(left - room.left, most)}px`;
    this.card.style.top = `${bottom - room.top}px`;
  }

  /** Go into the card by Enter or the arrow down. */
  #enter(event) {
    if (this.card.hidden || !["Enter", "ArrowDown"].includes(event.key)) return;
    event.preventDefault();
    this.card.querySelector("button")?.focus();
  }

  #mark(index) {
    this.#shown = index;
    for (const part of this.#parts()) delete part.dataset.light;
    if (index !== null) this.#parts()[index].dataset.light = "pointed";
  }

  #stay() {
    clearTimeout(this.#hiding);
  }

  #hideSoon() {
    this.#stay();
    this.#hiding = setTimeout(() => this.hide(), LEAVING);
  }

  #parts() {
    return this.text.querySelectorAll("[data-part]");
  }
}
