// Names of languages, and the models that translate between them.

const NAMES = new Intl.DisplayNames(["en"], { type: "language" });
export const ANY = ""; // the source language is detected

/** Return the English name of a language. */
export function languageName(code) {
  try {
    return NAMES.of(code);
  } catch {
    return code; // a name of the user's own
  }
}

/** Return the directions of all translators: { model, source, target }. */
export function directionsOf(models) {
  return models.flatMap(({ name, directions }) =>
    directions.map(([source, target]) => ({ model: name, source, target })),
  );
}

/** Return the models that translate from a language, or from any, into another. */
export function modelsFor(directions, source, target) {
  const suited = directions.filter(
    (direction) => direction.target === target && (source === ANY || direction.source === source),
  );
  return [...new Set(suited.map(({ model }) => model))];
}

/** Return the target languages of a source, those of the first models first. */
export function targetsOf(directions, source) {
  const suited = directions.filter((direction) => source === ANY || direction.source === source);
  return [...new Set(suited.map(({ target }) => target))];
}

export const sourcesOf = (directions) => [...new Set(directions.map(({ source }) => source))];
