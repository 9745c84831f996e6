// The results beside the image: faces, the least sure landmarks, the whole table.

import { byDoubt, doubt, doubtColour, ellipse, faceSize, isDoubtful, isOccluded, PARTS, sigma } from "./geometry.js";

const LEAST = 6;

export const percent = (value, digits = 0) => `${(100 * value).toFixed(digits)} %`;
/** A probability that is never certain. */
export const confidenceText = (value) => (value > 0.99 ? "> 99 %" : percent(value));
export const nameOf = (model, j) => model.names?.[j] || `landmark ${j}`;

/** An element with attributes, properties and children. */
export function make(tag, about = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(about)) {
    if (name in element && name !== "role") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** One button for each face; nothing for a single one. */
export function renderFaces(root, faces, chosen, choose) {
  root.hidden = faces.length < 2;
  root.replaceChildren(
    ...faces.map((face, number) => {
      const words = isDoubtful(face) ? "check" : typeof face.confidence === "number" ? confidenceText(face.confidence) : percent(face.score);
      const button = make("button", { type: "button", className: "face-chip" }, `Face ${number + 1}`, make("small", {}, words));
      button.setAttribute("aria-pressed", String(number === chosen));
      button.classList.toggle("doubtful", isDoubtful(face));
      button.addEventListener("click", () => choose(number));
      return button;
    }),
  );
}

/** The chosen face in a few figures. */
export function renderSummary(root, face) {
  const known = typeof face.confidence === "number";
  const value = known ? face.confidence : face.score;
  const doubtful = isDoubtful(face);
  const meter = make("div", { className: "meter" });
  const fill = make("span", {});
  fill.style.width = `${100 * value}%`;
  fill.style.backgroundColor = doubtfulColour(value, doubtful);
  meter.append(fill);
  const seen = face.visibility.filter((v) => v >= 0.5).length;
  const shares = face.points.map((_, j) => sigma(face, j) / faceSize(face));
  const mean = shares.reduce((sum, share) => sum + share, 0) / shares.length;
  const facts = [
    ["face", `${Math.round(face.box[2] - face.box[0])} × ${Math.round(face.box[3] - face.box[1])} px`],
    ["visible", face.visibility_trained === false ? "not known" : `${seen} of ${face.points.length}`],
    [typeof face.expected_error === "number" ? "expected error" : "mean sigma",
      typeof face.expected_error === "number" ? `${face.expected_error.toFixed(1)} % of size` : `${percent(mean, 1)} of size`],
    ...(known ? [["detector", percent(face.score)]] : []),
  ];
  root.replaceChildren(
    make("div", { className: "card-head" },
      make("h2", {}, known ? "Confidence" : "Detection"),
      make("span", { className: "big" }, known ? confidenceText(value) : percent(value))),
    meter,
    ...(doubtful ? [make("p", { className: "flag" }, "This alignment probably failed. Look at it before you use it.")] : []),
    make("dl", { className: "facts" },
      ...facts.flatMap(([name, figure]) => [make("div", {}, make("dt", {}, name), make("dd", {}, figure))])),
  );
}

function doubtfulColour(value, doubtful) {
  return doubtful ? doubtColour(1) : doubtColour(Math.max(0, 1 - value));
}

/** The landmarks that are least sure, as bars to choose from. */
export function renderLeast(root, face, model, { choose, hover }) {
  const order = byDoubt(face).slice(0, LEAST);
  const most = Math.max(...order.map((j) => sigma(face, j)), 1e-9);
  const list = make("ol", { className: "least" });
  for (const j of order) {
    const bar = make("span", { className: "bar" });
    const fill = make("span", {});
    fill.style.width = `${(100 * sigma(face, j)) / most}%`;
    fill.style.backgroundColor = doubtColour(doubt(face, j));
    bar.append(fill);
    const button = make("button", { type: "button" },
      make("span", { className: "least-name" }, nameOf(model, j)),
      make("span", { className: "least-value" }, `${sigma(face, j).toFixed(1)} px`), bar);
    button.dataset.landmark = j;
    button.addEventListener("click", () => choose(j, true));
    button.addEventListener("focus", () => hover(j));
    button.addEventListener("mouseenter", () => hover(j));
    button.addEventListener("mouseleave", () => hover(null));
    list.append(make("li", {}, button));
  }
  root.replaceChildren(list);
}

const UNITS = { degrees: "°", px: " px" };

/** What is measured on the chosen face, with its standard deviation; two digits of that. */
export function renderMeasures(root, face, model) {
  const row = (name, figure) => make("div", {}, make("dt", {}, name), make("dd", {}, figure));
  const rows = Object.entries(face.measures).map(([name, { value, std, visible }]) => {
    const words = name.replaceAll("_", " ");
    if (value === null || visible < 0.5) return row(words, "not visible");
    const unit = UNITS[model.measures?.[name]] || "";
    if (std === null) return row(words, `${value.toFixed(unit ? 0 : 2)}${unit}`);
    const digits = Math.min(3, Math.max(0, 1 - Math.floor(Math.log10(std || 0.01))));
    return row(words, `${value.toFixed(digits)} ± ${std.toFixed(digits)}${unit}`);
  });
  const closed = typeof face.eyes_closed === "number" ? [row("eyes closed", percent(face.eyes_closed))] : [];
  root.replaceChildren(make("dl", { className: "facts measures" }, ...closed, ...rows));
}

/** Every landmark of the chosen face. */
export function renderAll(root, face, model, { choose, hover }) {
  const head = ["", "landmark", "x", "y", "sigma", "visible"];
  const rows = face.points.map(([x, y], j) => {
    const row = make("tr", {},
      make("td", { className: "number" }, String(j)),
      make("th", { scope: "row" }, nameOf(model, j)),
      ...[x.toFixed(1), y.toFixed(1), sigma(face, j).toFixed(2), visibleWords(face, j)].map((cell) =>
        make("td", { className: "figure" }, cell)));
    row.dataset.landmark = j;
    row.addEventListener("click", () => choose(j, true));
    row.addEventListener("mouseenter", () => hover(j));
    row.addEventListener("mouseleave", () => hover(null));
    return row;
  });
  root.replaceChildren(
    make("table", {},
      make("caption", { className: "visually-hidden" }, "Landmarks of the chosen face; x, y and sigma in pixels"),
      make("thead", {}, make("tr", {}, ...head.map((word, i) =>
        i ? make("th", { scope: "col", className: i > 1 ? "figure" : "" }, word) : make("td", {})))),
      make("tbody", {}, ...rows)),
  );
}

function visibleWords(face, j) {
  if (face.visibility_trained === false) return "–";
  return percent(face.visibility[j]);
}

/** A landmark in one sentence, for screen readers. */
export function spoken(face, model, j) {
  const [x, y] = face.points[j];
  const parts = [
    nameOf(model, j),
    `x ${x.toFixed(0)}, y ${y.toFixed(0)}`,
    `sigma ${sigma(face, j).toFixed(1)} pixels`,
  ];
  if (face.visibility_trained !== false) parts.push(`visible ${percent(face.visibility[j])}`);
  if (isOccluded(face, j)) parts.push("behind something");
  return parts.join(", ");
}

/** A landmark as a card beside the pointer. */
export function renderTip(root, face, model, j, radius) {
  const { a, b } = ellipse(face, j, radius);
  const [x, y] = face.points[j];
  const facts = [
    ["place", `${x.toFixed(1)}, ${y.toFixed(1)} px`],
    ["sigma", `${sigma(face, j).toFixed(2)} px`],
    ["ellipse", Number.isFinite(a) ? `${(2 * a).toFixed(1)} × ${(2 * b).toFixed(1)} px` : "no guarantee"],
  ];
  if (face.visibility_trained !== false) facts.push(["visible", percent(face.visibility[j])]);
  if (face.occlusion && face.occlusion_trained !== false) facts.push(["occluded", percent(face.occlusion[j])]);
  const dot = make("span", { className: "dot" });
  dot.style.backgroundColor = doubtColour(doubt(face, j));
  root.replaceChildren(
    make("strong", {}, dot, nameOf(model, j), make("small", {}, `${j}`)),
    make("dl", {}, ...facts.flatMap(([name, figure]) => [make("dt", {}, name), make("dd", {}, figure)])),
  );
}

/** What the colours mean. */
export function renderLegend(root, colouring) {
  if (colouring === "certainty") {
    const bar = make("span", { className: "scale" });
    const stops = [0, 0.2, 0.4, 0.6, 0.8, 1].map((t) => doubtColour(t));
    bar.style.backgroundImage = `linear-gradient(90deg, ${stops.join(",")})`;
    root.replaceChildren(make("span", {}, "sure"), bar, make("span", {}, "unsure"));
  } else if (colouring === "part") {
    root.replaceChildren(
      ...Object.entries(PARTS).map(([part, colour]) => {
        const dot = make("span", { className: "dot" });
        dot.style.backgroundColor = colour;
        return make("span", { className: "key" }, dot, part);
      }),
    );
  } else {
    root.replaceChildren();
  }
  root.hidden = !root.childElementCount;
}
