// The image without a mouse: from landmark to landmark, zoom, move.

const SIDES = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };

/** The landmark to go to from `from` in a direction: near, and not far off to the side. */
export function neighbour(points, from, [dx, dy]) {
  let best = from;
  let least = Infinity;
  points.forEach(([x, y], j) => {
    const along = (x - points[from][0]) * dx + (y - points[from][1]) * dy;
    const aside = Math.abs((x - points[from][0]) * dy) + Math.abs((y - points[from][1]) * dx);
    if (j === from || along <= 0 || aside > 2.5 * along) return;
    const cost = along + 2 * aside;
    if (cost < least) {
      least = cost;
      best = j;
    }
  });
  return best;
}

/** Keys of the list of landmarks, which is what has the focus on the image. */
export function listenForKeys(list, { view, state, face, choose }) {
  list.addEventListener("keydown", (event) => {
    const current = face();
    if (!current || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = state.chosen.landmark;
    const side = SIDES[event.key];
    let next = null;
    if (side && event.shiftKey) view.move(-60 * side[0], -60 * side[1]);
    else if (side) next = at === null ? 0 : neighbour(current.points, at, side);
    else if (event.key === "Home") next = 0;
    else if (event.key === "End") next = current.points.length - 1;
    else if (event.key === "n" || event.key === "PageDown") next = at === null ? 0 : (at + 1) % current.points.length;
    else if (event.key === "p" || event.key === "PageUp") next = at === null ? 0 : (at + current.points.length - 1) % current.points.length;
    else if (event.key === "+" || event.key === "=") view.zoom(1.5, ...middle(view, current, at));
    else if (event.key === "-") view.zoom(1 / 1.5, ...middle(view, current, at));
    else if (event.key === "0") view.fit();
    else if (event.key === "Escape") choose(state.chosen.face, null);
    else return;
    event.preventDefault();
    if (next !== null) choose(state.chosen.face, next);
  });
  list.addEventListener("focus", () => {
    if (state.chosen.landmark === null && face() && list.matches(":focus-visible")) choose(state.chosen.face, 0);
  });
}

function middle(view, face, landmark) {
  return landmark === null ? [view.width / 2, view.height / 2] : view.place(face.points[landmark]);
}
