// What can be read off a face's landmarks.

import type { Face } from "./types.js";

/** Half-axes, longer first, and angle in radians of a landmark's ellipse at a Mahalanobis radius
 * (`description.radii`), in pixels. */
export function ellipse(face: Face, landmark: number, radius: number): { a: number; b: number; angle: number } {
  const [[xx, xy], [, yy]] = face.covariance[landmark];
  const [mean, spread] = [(xx + yy) / 2, Math.hypot((xx - yy) / 2, xy)];
  const [a, b] = [mean + spread, mean - spread].map((variance) => radius * Math.sqrt(Math.max(variance, 0)));
  return { a, b, angle: 0.5 * Math.atan2(2 * xy, xx - yy) };
}

/** Height / width of the right and of the left eye, of 68 points. */
export function eyeOpenness(points: [number, number][]): [number, number] {
  const distance = (i: number, j: number) => Math.hypot(points[i][0] - points[j][0], points[i][1] - points[j][1]);
  const of = (first: number) =>
    (distance(first + 1, first + 5) + distance(first + 2, first + 4)) / (2 * distance(first, first + 3));
  return [of(36), of(42)];
}

/** Degrees. yaw > 0: turned to the person's left; pitch > 0: looking up; roll > 0: clockwise. */
export interface HeadPose {
  yaw: number;
  pitch: number;
  roll: number;
}

/** The pose of a head from 68 landmarks: the mean head (68, 3) in scaled orthography, each landmark by
 * its visibility and its variance. Simpler than `luvli.head_pose`, which also says how sure it is. */
export function headPose(face: Face, head: number[][], frontalPitch: number): HeadPose {
  const variance = face.covariance.map(([[xx], [, yy]]) => xx + yy);
  const typical = [...variance].sort((a, b) => a - b)[variance.length >> 1];
  const weight = variance.map((v, j) => (face.visibility[j] > 0.1 ? face.visibility[j] / (v + typical) : 0));
  const total = weight.reduce((sum, w) => sum + w, 0);
  const mean = (values: number[]) => values.reduce((sum, value, j) => sum + weight[j] * value, 0) / total;
  const column = (i: number) => head.map((point) => point[i]);
  const model = [0, 1, 2].map((i) => column(i).map((value, _, all) => value - mean(all)));
  const image = [0, 1].map((i) => face.points.map((point) => point[i] * (i ? -1 : 1)));
  const centred = image.map((values) => values.map((value) => value - mean(values)));
  const product = (one: number[], other: number[]) => mean(one.map((value, j) => value * other[j]));
  const gram = model.map((one, i) => model.map((other, j) => product(one, other) + (i === j ? 1e-3 : 0)));
  const rows = centred.map((values) => solve(gram, model.map((one) => product(one, values))));
  return angles(nearestRotation(rows), frontalPitch);
}

/** x of A x = b, 3 x 3, by Cramer's rule. */
function solve(a: number[][], b: number[]): number[] {
  const det = (m: number[][]) => dot(m[0], cross(m[1], m[2]));
  return [0, 1, 2].map((i) => det(a.map((row, j) => row.map((value, k) => (k === i ? b[j] : value)))) / det(a));
}

const dot = (a: number[], b: number[]) => a.reduce((sum, value, i) => sum + value * b[i], 0);
const cross = (a: number[], b: number[]) => [
  a[1] * b[2] - a[2] * b[1],
  a[2] * b[0] - a[0] * b[2],
  a[0] * b[1] - a[1] * b[0],
];

/** The rotation nearest to an affine map's two rows: (A A^T)^(-1/2) A, and their cross product. */
function nearestRotation([first, second]: number[][]): number[][] {
  const [p, q, r] = [dot(first, first), dot(first, second), dot(second, second)];
  const root = Math.sqrt(p * r - q * q);
  const trace = Math.sqrt(p + r + 2 * root);
  const scale = 1 / (trace * root); // inverse of the square root (M + root I) / trace
  const rows = [
    first.map((value, i) => scale * ((r + root) * value - q * second[i])),
    second.map((value, i) => scale * ((p + root) * value - q * first[i])),
  ];
  return [...rows, cross(rows[0], rows[1])];
}

function angles(m: number[][], frontalPitch: number): HeadPose {
  const degrees = 180 / Math.PI;
  let yaw = Math.atan2(-m[2][0], Math.hypot(m[2][1], m[2][2]));
  const turned = m[2][2] < 0;
  const sign = turned ? -1 : 1;
  if (turned) yaw = Math.PI * (yaw < 0 ? -1 : 1) - yaw;
  const pitch = Math.atan2(-sign * m[2][1], sign * m[2][2]) * degrees - frontalPitch;
  return { yaw: yaw * degrees, pitch, roll: Math.atan2(-sign * m[1][0], sign * m[0][0]) * degrees };
}
