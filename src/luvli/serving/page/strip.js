// Several images as a strip under the stage.

import { isDoubtful } from "./geometry.js";
import { make } from "./panel.js";

const SIDE = 64;

/** One button for each image; hidden while there is only one. */
export function renderStrip(root, items, current, show) {
  root.hidden = items.length < 2;
  if (root.hidden) return root.replaceChildren();
  const kept = new Map([...root.children].map((child) => [child.item, child]));
  const children = items.map((item) => kept.get(item) || thumbnail(item));
  children.forEach((child, index) => {
    const { item } = child;
    const button = child.firstElementChild;
    button.onclick = () => show(index);
    button.setAttribute("aria-current", index === current ? "true" : "false");
    const failed = item.status === "error" || item.answer?.faces.some(isDoubtful);
    const words = item.status === "error" ? item.error : item.answer ? `${item.answer.faces.length} faces` : "waiting";
    button.setAttribute("aria-label", `${item.name}, ${words}${failed && item.answer ? ", check" : ""}`);
    button.className = `thumb ${item.status}${failed ? " failed" : ""}`;
    if (item.source && !child.painted) paint(child, item);
  });
  root.replaceChildren(...children);
}

function thumbnail(item) {
  const canvas = make("canvas", { width: 2 * SIDE, height: 2 * SIDE });
  const child = make("li", {}, make("button", { type: "button" }, canvas, make("span", { className: "mark" })));
  child.item = item;
  return child;
}

function paint(child, item) {
  const canvas = child.querySelector("canvas");
  const side = Math.min(item.width, item.height);
  const [x, y] = [(item.width - side) / 2, (item.height - side) / 2];
  canvas.getContext("2d").drawImage(item.source, x, y, side, side, 0, 0, canvas.width, canvas.height);
  child.painted = !item.live;
}
