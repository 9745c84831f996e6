// The face on the start page: the model's own point set as a drawing, with ellipses to play with.

import { drawFaces } from "./overlay.js";

const SIGMA = { jaw: 0.052, brows: 0.036, nose: 0.024, eyes: 0.016, mouth: 0.026 };
const GROWING = 900; // milliseconds

/** A made-up face: places from the drawing, ellipses along its lines, less sure to one side. */
export function drawnFace({ schematic, groups, edges }, side) {
  const scale = side / 2.5;
  const along = schematic.map(() => [1, 0]);
  for (const [i, j] of edges) {
    const d = [schematic[j][0] - schematic[i][0], schematic[j][1] - schematic[i][1]];
    const length = Math.hypot(...d) || 1;
    along[i] = along[j] = [d[0] / length, d[1] / length];
  }
  const part = (j) => Object.keys(groups).find((name) => groups[name].includes(j));
  const covariance = schematic.map(([x], j) => {
    const sigma = (SIGMA[part(j)] || 0.04) * scale * (1 + 0.55 * x);
    const [u, v] = along[j];
    const [a, b] = [(1.35 * sigma) ** 2, (0.8 * sigma) ** 2];
    const xy = (a - b) * u * v;
    return [[a * u * u + b * v * v, xy], [xy, a * v * v + b * u * u]];
  });
  const points = schematic.map(([x, y]) => [x * scale + side / 2, y * scale + side / 2]);
  return {
    points,
    covariance,
    visibility: schematic.map(([x]) => Math.min(1, 1.3 - 0.45 * Math.max(0, x))),
    visibility_trained: true,
    box: [0.1 * side, 0.1 * side, 0.9 * side, 0.9 * side],
    confidence: 1,
  };
}

/** Draws it; the first time, its ellipses grow. */
export function welcome(canvas, model, settings) {
  if (!model.schematic || !canvas.clientWidth) return;
  const side = canvas.clientWidth;
  const ratio = window.devicePixelRatio || 1;
  const face = drawnFace(model, side);
  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches || canvas.dataset.drawn;
  canvas.dataset.drawn = "yes";
  const start = performance.now();
  const frame = (now) => {
    const t = still ? 1 : Math.min(1, Math.max(0, (now - start) / GROWING));
    const grown = 1 - (1 - t) ** 3;
    canvas.width = canvas.height = Math.round(side * ratio);
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const radius = Object.fromEntries(Object.entries(model.radius).map(([c, r]) => [c, r * grown]));
    const look = { model: { ...model, radius }, settings: { ...settings, region: "model", boxes: false }, chosen: null };
    drawFaces(context, [face], (point) => point, 1, look);
    if (t < 1 && canvas.clientWidth) requestAnimationFrame(frame);
  };
  frame(start);
  if (!still) requestAnimationFrame(frame);
}
