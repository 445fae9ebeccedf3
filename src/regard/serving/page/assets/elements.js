// Small helpers that all other modules use.

export const at = (id) => document.getElementById(id);

/** Make an element with attributes and children; strings become text, never markup. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Fill a select with options [value, text], and choose one; the first if that is not among them. */
export function offer(select, options, chosen) {
  select.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
  const values = options.map(([value]) => value);
  select.value = values.includes(chosen) ? chosen : (values[0] ?? "");
}

/** Let the mirror behind a text box give it its height: the same text in the same font. */
export function grow(box) {
  const mirror = box.previousElementSibling;
  const copy = () => mirror.replaceChildren(`${box.value}\n`);
  box.addEventListener("input", copy);
  copy();
}

/** Set the text of a box as if it was typed. */
export function setText(box, text) {
  box.value = text;
  box.dispatchEvent(new Event("input", { bubbles: true }));
}

/** Format a probability: 37.2 %, and less exactly at the ends. */
export function percent(probability) {
  if (probability < 0.0005) return "< 0.1 %";
  return `${(100 * probability).toFixed(1)} %`;
}

/** Return a token without the space before it; blanks and line ends become visible signs. */
export function printable(token) {
  if (token === "") return "∅";
  return token.trim() || token.replace(/[\r\n]/g, "↵").replace(/\s/g, "␣");
}

/** Make buttons copy the text of the element that their data-copy names. */
export function listenToCopying() {
  document.addEventListener("click", async ({ target }) => {
    const button = target.closest("[data-copy]");
    if (!button) return;
    const name = button.textContent;
    button.textContent = (await copied(at(button.dataset.copy).textContent)) ? "Copied" : "Not copied";
    setTimeout(() => (button.textContent = name), 1500);
  });
}

/** Copy a text; away from localhost and https, browsers have the old command only. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const box = element("textarea", { class: "off-screen", "aria-hidden": "true" });
    box.value = text;
    document.body.append(box);
    box.select();
    const isCopied = document.execCommand("copy");
    box.remove();
    return isCopied;
  }
}
