// A tab with one text box, whose text is sent as it is typed.

import { grow, offer, setText } from "./elements.js";
import { remember } from "./history.js";
import { lookAddress } from "./look.js";
import { Work } from "./work.js";

export class TypedTab {
  #models = [];
  #work;

  /**
   * @param {object} parts
   * @param {string} parts.name of the tab's panel
   * @param {string} parts.title
   * @param {HTMLTextAreaElement} parts.box
   * @param {HTMLSelectElement} parts.select the model, in a label that is hidden where there is one
   * @param {HTMLElement} parts.output
   * @param {HTMLElement} parts.problem
   * @param {HTMLAnchorElement} parts.look link to the attention page
   * @param {(text: string) => boolean} parts.isReady whether there is something to send
   * @param {(model: string, text: string, signal: AbortSignal) => Promise<string>} parts.show sends a
   *   text, shows the result and returns its summary for the history
   */
  constructor(parts) {
    Object.assign(this, parts);
    this.#work = new Work(parts.output, parts.problem, () => this.#clear());
  }

  start(models) {
    this.#models = models;
    offer(this.select, models.map(({ name }) => [name, name]));
    this.select.parentElement.hidden = models.length < 2;
    grow(this.box);
    this.box.addEventListener("input", () => this.#changeText());
    this.select.addEventListener("change", () => this.runNow());
  }

  focus() {
    this.box.focus();
  }

  runNow() {
    if (this.isReady(this.box.value)) this.#work.start((signal) => this.#send(signal));
    else this.#showNothing();
  }

  /** End what runs. */
  stop() {
    this.#work.stop();
  }

  /** Show an entry of the history. */
  restore({ input }) {
    setText(this.box, input);
    this.runNow();
  }

  #changeText() {
    if (this.isReady(this.box.value)) this.#work.startAfterTyping((signal) => this.#send(signal));
    else this.#showNothing();
  }

  #showNothing() {
    this.stop();
    this.#clear();
    this.problem.textContent = "";
  }

  #clear() {
    this.output.replaceChildren();
    this.look.hidden = true;
  }

  async #send(signal) {
    const [model, input] = [this.select.value, this.box.value];
    const output = await this.show(model, input, signal);
    const { tasks } = this.#models.find(({ name }) => name === model);
    this.look.hidden = !tasks.includes("look");
    this.look.href = lookAddress(model, { text: input });
    remember({ tab: this.name, input, output, choices: {} });
  }
}
