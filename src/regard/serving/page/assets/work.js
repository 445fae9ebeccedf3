// Work for the server, one piece at a time: starting another one ends it, as Escape does.

const TYPING_PAUSE = 250; // milliseconds without a key before a text is sent

/** The requests of one tab: where their results appear, and their errors. */
export class Work {
  #controller = null;
  #timer = null;

  /**
   * @param {HTMLElement} output has aria-busy while a request runs
   * @param {HTMLElement} problem shows the sentence of an error
   * @param {() => void} [clear] removes the result of an earlier request when one fails
   */
  constructor(output, problem, clear = () => {}) {
    Object.assign(this, { output, problem, clear });
  }

  get isRunning() {
    return this.#controller !== null;
  }

  /** Run `job(signal)` now. */
  async start(job) {
    this.stop();
    const mine = (this.#controller = new AbortController());
    this.output.setAttribute("aria-busy", "true");
    this.problem.textContent = "";
    try {
      await job(mine.signal);
    } catch (error) {
      if (!mine.signal.aborted) this.#fail(error);
    }
    if (this.#controller === mine) this.#finish();
  }

  /** Run `job(signal)` once nothing was typed for a moment. */
  startAfterTyping(job) {
    this.stop();
    this.#timer = setTimeout(() => this.start(job), TYPING_PAUSE);
  }

  /** End the running request, and the one that waits. */
  stop() {
    clearTimeout(this.#timer);
    this.#controller?.abort();
    this.#finish();
  }

  #fail(error) {
    this.clear();
    this.problem.textContent = error.message;
  }

  #finish() {
    this.#controller = null;
    this.output.setAttribute("aria-busy", "false");
  }
}
