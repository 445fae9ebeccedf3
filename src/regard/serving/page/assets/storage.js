// Values that this browser keeps; where it keeps none, they last as long as the page.

const kept = new Map();

/** Return a stored value, or null; `area` is localStorage, or sessionStorage for this tab only. */
export function load(name, area = "localStorage") {
  try {
    return JSON.parse(window[area].getItem(name)) ?? kept.get(name) ?? null;
  } catch {
    return kept.get(name) ?? null;
  }
}

/** Store a value. */
export function save(name, value, area = "localStorage") {
  kept.set(name, value);
  try {
    window[area].setItem(name, JSON.stringify(value));
  } catch {
    // Storage is off, or full.
  }
}
