// A face's numbers as things to draw. Image pixels, x right, y down, first pixel's centre (0, 0).

const SURE = 0.008;
const UNSURE = 0.06;
const STOPS = [
  [0.0, [74, 163, 255]],
  [0.35, [122, 222, 222]],
  [0.6, [255, 221, 87]],
  [0.8, [255, 157, 66]],
  [1.0, [255, 84, 98]],
];
export const PARTS = {
  jaw: "#8ea6ff",
  brows: "#c792ff",
  nose: "#ffc857",
  eyes: "#53d1c5",
  mouth: "#ff7d9c",
};
export const PLAIN = "#ffdd57";

/** Typical standard deviation of landmark j in pixels: |Sigma|^(1/4). */
export function sigma(face, j) {
  const [[xx, xy], [yx, yy]] = face.covariance[j];
  return Math.sqrt(Math.sqrt(Math.max(xx * yy - xy * yx, 0)));
}

/** Side of a square as large as the face's box, in pixels. */
export function faceSize(face) {
  const [x0, y0, x1, y1] = face.box;
  return Math.sqrt(Math.max((x1 - x0) * (y1 - y0), 1));
}

/** Half-axes (longer first) and angle in radians of landmark j's ellipse at a Mahalanobis radius. */
export function ellipse(face, j, radius) {
  const [[xx, xy], [, yy]] = face.covariance[j];
  const mean = (xx + yy) / 2;
  const spread = Math.hypot((xx - yy) / 2, xy);
  return {
    a: radius * Math.sqrt(Math.max(mean + spread, 0)),
    b: radius * Math.sqrt(Math.max(mean - spread, 0)),
    angle: 0.5 * Math.atan2(2 * xy, xx - yy),
  };
}

/** 0 for a very sure landmark, 1 for a very unsure one; from sigma over the face's size. */
export function doubt(face, j) {
  const share = sigma(face, j) / faceSize(face);
  return Math.min(1, Math.max(0, Math.log(share / SURE) / Math.log(UNSURE / SURE)));
}

/** A colour of the scale from sure (blue) to unsure (red). */
export function doubtColour(t) {
  for (let i = 1; i < STOPS.length; i++) {
    const [end, to] = STOPS[i];
    if (t <= end) {
      const [start, from] = STOPS[i - 1];
      const share = (t - start) / (end - start);
      return `rgb(${from.map((value, c) => Math.round(value + share * (to[c] - value))).join(",")})`;
    }
  }
  return `rgb(${STOPS[STOPS.length - 1][1].join(",")})`;
}

/** Colour of landmark j. */
export function colourOf(face, j, model, colouring) {
  if (colouring === "certainty") return doubtColour(doubt(face, j));
  if (colouring === "part") {
    for (const [part, members] of Object.entries(model.groups || {})) {
      if (members.includes(j)) return PARTS[part] || PLAIN;
    }
  }
  return PLAIN;
}

/** Opacity of landmark j: its visibility, where the model knows it; never quite invisible. */
export function opacity(face, j) {
  return face.visibility_trained === false ? 1 : 0.1 + 0.9 * face.visibility[j];
}

/** Whether landmark j is in front of the camera but behind something. */
export function isOccluded(face, j) {
  if (!face.occlusion || face.occlusion_trained === false) return false;
  return face.occlusion[j] > 0.5 && face.visibility[j] > 0.5;
}

/** Mahalanobis radius of landmark j's ellipse; infinite where nothing can be guaranteed. */
export function radiusOf(face, j, model, settings) {
  if (settings.region === "guaranteed" && face.guaranteed) {
    const { levels, radii } = face.guaranteed;
    const place = levels.findIndex((level) => level >= settings.coverage / 100 - 1e-9);
    return place < 0 ? Infinity : (radii[place][j] ?? Infinity);
  }
  return model.radius[String(settings.coverage)];
}

/** Landmarks from the least sure on; hidden ones last, because their place is a guess anyway. */
export function byDoubt(face) {
  const hidden = (j) => (face.visibility_trained !== false && face.visibility[j] < 0.5 ? 1 : 0);
  return face.points
    .map((_, j) => j)
    .sort((a, b) => hidden(a) - hidden(b) || sigma(face, b) - sigma(face, a));
}

/** Whether to look at this face again before using it. */
export function isDoubtful(face) {
  if (typeof face.confidence === "number") return face.confidence < 0.5;
  const seen = face.points.map((_, j) => j).filter((j) => face.visibility[j] >= 0.5);
  const shares = (seen.length ? seen : face.points.map((_, j) => j)).map((j) => sigma(face, j)).sort((a, b) => a - b);
  return shares[Math.floor(shares.length / 2)] / faceSize(face) > 0.06;
}

/** A face in an image that is `factor` times as large. */
export function scaled(face, factor) {
  const at = (value) => (value + 0.5) * factor - 0.5;
  return {
    ...face,
    points: face.points.map(([x, y]) => [at(x), at(y)]),
    box: face.box.map(at),
    covariance: face.covariance.map((rows) => rows.map((row) => row.map((v) => v * factor * factor))),
  };
}

/** The landmark nearest to a place, within `reach` pixels, of all faces: {face, landmark}. */
export function nearest(faces, x, y, reach) {
  let best = null;
  let least = reach;
  faces.forEach((face, f) =>
    face.points.forEach(([px, py], j) => {
      const distance = Math.hypot(px - x, py - y);
      if (distance < least) {
        least = distance;
        best = { face: f, landmark: j };
      }
    }),
  );
  return best;
}
