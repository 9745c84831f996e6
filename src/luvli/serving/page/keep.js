// Results to keep: JSON and CSV as the server gives them, PNG as it is drawn here.

import { drawFaces } from "./overlay.js";
import { predict } from "./server.js";

function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const stem = (item) => item.name.replace(/\.[^.]*$/, "") || "faces";

export function keepJson(item) {
  const text = JSON.stringify({ image: item.name, ...item.answer });
  download(new Blob([text], { type: "application/json" }), `${stem(item)}.json`);
}

/** The server's own table, so that there is one kind of CSV. */
export async function keepCsv(item, model) {
  const blob = item.blob || (await toBlob(frameOf(item), "image/png"));
  const text = await predict(blob, model, "text/csv");
  download(new Blob([text], { type: "text/csv" }), `${stem(item)}.csv`);
}

/** The image with what is shown on it, small ones enlarged so that it can be read. */
export async function keepPng(item, model, settings) {
  const scale = Math.max(1, Math.min(4, Math.floor(1600 / Math.max(item.width, item.height))));
  const canvas = frameOf(item, scale);
  const place = ([x, y]) => [(x + 0.5) * scale, (y + 0.5) * scale];
  drawFaces(canvas.getContext("2d"), item.answer.faces, place, scale, { model, settings, chosen: null });
  download(await toBlob(canvas, "image/png"), `${stem(item)}-landmarks.png`);
}

function frameOf(item, scale = 1) {
  const canvas = document.createElement("canvas");
  canvas.width = item.width * scale;
  canvas.height = item.height * scale;
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(item.source, 0, 0, canvas.width, canvas.height);
  return canvas;
}

const toBlob = (canvas, kind) => new Promise((resolve) => canvas.toBlob(resolve, kind));
