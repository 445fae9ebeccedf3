// The views: their names and titles come from the Python side, their cards from one script each.
//
// A script `views/NAME.js` sets CARDS["NAME"] to an object with
//
//   markup            HTML below the heading; elements with data-part="x" are column.part("x")
//   uses              the common controls above the view: panel, layer, heads (several), map (the
//                     heads of the heat map), head (one), query, words (tokens merged into words)
//   has(picture)      whether there is anything to show
//   panels(picture)   the panels that the view can show; all of them by default
//   build(column)     called when the tokens change
//   paint(column)     called when a choice changes
//   light(column)     called when the mouse or the keyboard moves to another token
//   listen(column)    called once, to add event listeners
//   sentence(column)  the status line, as nodes; by default the token or cell that is pointed at
//   shown(column)     the numbers shown, as plain data, for the export to JSON
//   drawing(column)   { width, height, body }: the same as SVG, for the export to SVG and PNG
//   choices           choices of its own, stored in the address under their names:
//                     { NAME: { read(text or null), write(value) → text or null, perPanel } };
//                     those with perPanel are reset when another panel is chosen
//   fileParts(column) what the names of exported files add to the view and the layer
//
// Only uses, has, paint, shown and drawing are required.

const VIEWS = JSON.parse(at("views-data").textContent);
const CARDS = {};

/** Return the names of the views that have something to show of some picture. */
function offeredViews() {
  const canShow = (name) => columns.some(({ picture }) => CARDS[name].has(picture));
  return VIEWS.filter(({ cards: names }) => names.some(canShow)).map(({ name }) => name);
}

/** Return the choices that views declare for themselves, as [name, { read, write, card }]. */
function ownChoices() {
  return Object.values(CARDS).flatMap((card) =>
    Object.entries(card.choices ?? {}).map(([name, choice]) => [name, { ...choice, card }]),
  );
}
