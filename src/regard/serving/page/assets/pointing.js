// Pointing at parts of a text by mouse, finger or arrow keys.

/** Call `point(index)` for the part under the mouse, also through a text box above it, or null. */
export function listenToPointer(area, point) {
  area.addEventListener("pointermove", ({ clientX, clientY }) => point(partAt(area, clientX, clientY)));
  area.addEventListener("pointerdown", ({ clientX, clientY }) => point(partAt(area, clientX, clientY)));
  area.addEventListener("pointerleave", ({ pointerType }) => pointerType === "mouse" && point(null));
}

/** Call `point(index)` for the part that the arrow keys reach in an area with the focus. */
export function listenToArrows(area, count, point) {
  let here = null;
  area.addEventListener("keydown", (event) => {
    const last = count() - 1;
    const there = {
      ArrowLeft: Math.max((here ?? 1) - 1, 0),
      ArrowRight: Math.min((here ?? -1) + 1, last),
      Home: 0,
      End: last,
    }[event.key];
    if (there === undefined || last < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    here = there;
    point(here);
  });
  area.addEventListener("blur", () => {
    here = null;
    point(null);
  });
}

function partAt(area, x, y) {
  const part = document.elementsFromPoint(x, y).find((one) => one.dataset.part && area.contains(one));
  return part ? Number(part.dataset.part) : null;
}
