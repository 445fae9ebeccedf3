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

/**
 * Return the directions of all translators: { model, source, target }.
 *
 * Of a model whose name chooses the target language, such as fr-en, only those with that target.
 */
export function directionsOf(models) {
  return models.flatMap(({ name, target: own, directions }) =>
    directions
      .filter(([, target]) => !own || target === own)
      .map(([source, target]) => ({ model: name, source, target })),
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
