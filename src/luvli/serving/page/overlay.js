// Draws faces: on the screen over the image, and into the PNG that is kept.

import { colourOf, ellipse, faceSize, isDoubtful, isOccluded, opacity, radiusOf } from "./geometry.js";

const RIM = "rgba(10,12,18,0.65)";
const DOUBTFUL = "#ff5462";

/**
 * All faces of an image. `place` maps image pixels to the context's, `scale` is its enlargement,
 * `look` holds model, settings, and the chosen face and landmark.
 */
export function drawFaces(context, faces, place, scale, look) {
  faces.forEach((face, number) => drawFace(context, face, number, faces.length, place, scale, look));
}

function drawFace(context, face, number, count, place, scale, look) {
  const { model, settings, chosen } = look;
  const unit = Math.min(2.6, Math.max(0.75, (faceSize(face) * scale) / 260)) * (look.pixelRatio || 1);
  const others = count > 1 && chosen && chosen.face !== number;
  context.save();
  if (others && !isDoubtful(face)) context.globalAlpha = 0.85;
  if (settings.boxes || isDoubtful(face)) drawBox(context, face, number, count, place, unit);
  if (settings.lines) drawLines(context, face, place, unit, model);
  const order = face.points.map((_, j) => j).filter((j) => face.points[j][0] !== null);
  if (settings.ellipses) {
    for (const j of order) drawEllipse(context, face, j, place, scale, unit, look);
  }
  if (settings.points) {
    for (const j of order) drawPoint(context, face, j, place, unit, look);
  }
  if (chosen && chosen.face === number && chosen.landmark !== null && chosen.landmark !== undefined) {
    drawChosen(context, face, chosen.landmark, place, scale, unit, look);
  }
  context.restore();
}

function drawEllipse(context, face, j, place, scale, unit, { model, settings }) {
  const [x, y] = place(face.points[j]);
  const { a, b, angle } = ellipse(face, j, radiusOf(face, j, model, settings));
  if (!Number.isFinite(a)) return;
  const colour = colourOf(face, j, model, settings.colour);
  // large ellipses lie over each other: the larger, the thinner, so that the image stays in sight
  const part = Math.min(1, (0.07 * faceSize(face)) / Math.sqrt(a * b));
  const alpha = opacity(face, j) * Math.max(0.35, part);
  context.beginPath();
  context.ellipse(x, y, a * scale, b * scale, angle, 0, 2 * Math.PI);
  context.globalAlpha = 0.13 * alpha * part * part;
  context.fillStyle = colour;
  context.fill();
  context.globalAlpha = 0.35 * alpha;
  context.lineWidth = 2.6 * unit;
  context.strokeStyle = RIM;
  context.stroke();
  context.globalAlpha = 0.95 * alpha;
  context.lineWidth = 1.25 * unit;
  context.strokeStyle = colour;
  context.stroke();
  context.globalAlpha = 1;
}

function drawPoint(context, face, j, place, unit, { model, settings }) {
  const [x, y] = place(face.points[j]);
  const colour = colourOf(face, j, model, settings.colour);
  const radius = 2.3 * unit;
  context.globalAlpha = opacity(face, j);
  context.beginPath();
  context.arc(x, y, radius + 0.9 * unit, 0, 2 * Math.PI);
  context.fillStyle = RIM;
  if (!isOccluded(face, j)) context.fill();
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  if (isOccluded(face, j)) {
    context.lineWidth = 2.6 * unit;
    context.strokeStyle = RIM;
    context.stroke();
    context.lineWidth = 1.4 * unit;
    context.strokeStyle = colour;
    context.stroke();
  } else {
    context.fillStyle = colour;
    context.fill();
  }
  context.globalAlpha = 1;
}

function drawChosen(context, face, j, place, scale, unit, look) {
  const [x, y] = place(face.points[j]);
  const { a, b, angle } = ellipse(face, j, radiusOf(face, j, look.model, look.settings));
  context.lineWidth = 2.2 * unit;
  context.strokeStyle = "#ffffff";
  context.shadowColor = "rgba(0,0,0,0.8)";
  context.shadowBlur = 6;
  context.beginPath();
  if (Number.isFinite(a)) context.ellipse(x, y, a * scale, b * scale, angle, 0, 2 * Math.PI);
  context.stroke();
  context.beginPath();
  context.arc(x, y, 4.2 * unit, 0, 2 * Math.PI);
  context.stroke();
  context.shadowBlur = 0;
}

function drawLines(context, face, place, unit, model) {
  context.lineWidth = 1.1 * unit;
  context.strokeStyle = "#ffffff";
  for (const [i, j] of model.edges || []) {
    context.globalAlpha = 0.6 * Math.min(opacity(face, i), opacity(face, j));
    context.beginPath();
    context.moveTo(...place(face.points[i]));
    context.lineTo(...place(face.points[j]));
    context.stroke();
  }
  context.globalAlpha = 1;
}

function drawBox(context, face, number, count, place, unit) {
  const [x0, y0] = place([face.box[0], face.box[1]]);
  const [x1, y1] = place([face.box[2], face.box[3]]);
  const doubtful = isDoubtful(face);
  const margin = 0.06 * (x1 - x0);
  const corner = [x0 - margin, y0 - margin, x1 - x0 + 2 * margin, y1 - y0 + 2 * margin];
  context.lineWidth = 3.4 * unit;
  context.strokeStyle = RIM;
  context.setLineDash(doubtful ? [7 * unit, 5 * unit] : []);
  context.strokeRect(...corner);
  context.lineWidth = 1.7 * unit;
  context.strokeStyle = doubtful ? DOUBTFUL : "#ffffff";
  context.strokeRect(...corner);
  context.setLineDash([]);
  const words = doubtful ? (count > 1 ? `${number + 1}: check` : "check") : count > 1 ? `${number + 1}` : "";
  if (!words) return;
  context.font = `600 ${12 * unit}px ui-sans-serif, system-ui, sans-serif`;
  const width = context.measureText(words).width + 10 * unit;
  context.fillStyle = doubtful ? "#b3162a" : "#12151b";
  context.fillRect(corner[0] - unit, corner[1] - 18 * unit, width, 18 * unit);
  context.fillStyle = "#ffffff";
  context.textBaseline = "middle";
  context.fillText(words, corner[0] + 4 * unit, corner[1] - 9 * unit);
}
