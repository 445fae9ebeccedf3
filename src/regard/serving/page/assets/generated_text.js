// A text of a language model: the prompt that it continues, and its tokens with their places.

export class GeneratedText {
  #characters; // code points, as the server counts them

  constructor(prompt, tokens = []) {
    this.#characters = [...prompt];
    this.promptLength = prompt.length;
    this.tokens = tokens; // { offset, text, log_prob, top: [[text, log_prob]] }
  }

  toString() {
    return this.#characters.join("");
  }

  /** Append an event of the server: a text and its tokens. */
  add({ text, tokens }) {
    this.#characters.push(...text);
    this.tokens.push(...tokens);
  }

  /** Return the text up to the next token; "" for one that spells a character with the next. */
  textOf(index) {
    const next = this.tokens[index + 1]?.offset;
    return this.#characters.slice(this.tokens[index].offset, next).join("");
  }

  /** Return the text up to a token, with an alternative in its place. */
  withAlternative(index, [text, logProb]) {
    const token = { ...this.tokens[index], text, log_prob: logProb };
    const before = this.#characters.slice(0, token.offset).join("");
    const branch = new GeneratedText(before + text, [...this.tokens.slice(0, index), token]);
    branch.promptLength = this.promptLength;
    return branch;
  }
}
