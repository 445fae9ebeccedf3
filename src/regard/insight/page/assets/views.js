// The views that can be chosen, and the cards that each of them shows.
//
// A card says which choices it uses, whether it has anything to show of a picture (`has`) and of
// which panels; it is built when the words change, painted when a choice changes, and lit when the
// mouse or the keyboard moves. What it shows can be saved as numbers (`shown`) and as a `drawing`.

const CARDS = {
  lines: linesCard,
  map: mapCard,
  heads: headsCard,
  depth: depthCard,
  follow: followCard,
  align: alignCard,
  lens: lensCard,
  steps: stepsCard,
};

const VIEWS = {
  both: { title: "Both", cards: ["lines", "map"] },
  lines: { title: "Lines", cards: ["lines"] },
  map: { title: "Heat map", cards: ["map"] },
  heads: { title: "All heads", cards: ["heads"] },
  depth: { title: "One head in depth", cards: ["depth"] },
  follow: { title: "Follow one word", cards: ["follow"] },
  align: { title: "Alignment", cards: ["align"] },
  lens: { title: "Next words by layer", cards: ["lens"] },
  steps: { title: "Step by step", cards: ["steps"] },
};

/** The names of the views that have something to show of some picture of the scene. */
function offeredViews() {
  return Object.keys(VIEWS).filter((view) =>
    columns.some(({ picture }) => VIEWS[view].cards.some((card) => CARDS[card].has(picture))),
  );
}
