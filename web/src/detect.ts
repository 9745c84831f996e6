// YuNet: heads and five points of each, at several looks; then tight landmark boxes. The same looks
// with the same numbers as luvli.image.detect, where docs/detection.md explains them.

import type { InferenceSession, Tensor } from "onnxruntime-web";
import { apply, cut, invert, round, warpLinear, withLongestSide } from "./pixels.js";
import type { Affine, Box, Pixels } from "./types.js";

export interface Detection {
  box: Box;
  score: number;
}

type MakeTensor = (type: "float32", data: Float32Array, dims: number[]) => Tensor;

/** x, y, width, height of the head, x, y of five points, score */
type Row = number[];

const [SMALL, LARGE] = [320, 960];
const MIN_REPORTED = 0.3;
const SURE = 0.6;
const [HINT_SCORE, SMALL_HINT_SCORE, SMALL_HEAD] = [0.1, 0.04, 50];
const [CROWD, WINDOW] = [2, 3];
const [BORDERED, BORDER] = [480, 0.3];
const GAMMA = 0.4;
const TURNS = [20, -20];
const TURNED_SCALE = 0.85;
const OVERLAP = 0.3;
const STRIDES = [8, 16, 32];
const MIRRORED_POINTS = [1, 0, 2, 4, 3];

/** Tight landmark boxes, best first. */
export class Detector {
  constructor(
    private readonly session: InferenceSession,
    private readonly tensor: MakeTensor,
    private readonly boxMap: number[][],
  ) {}

  async detect(image: Pixels, minScore: number): Promise<Detection[]> {
    const rows = await this.heads(image, minScore);
    return rows.filter((row) => row[14] >= minScore).map((row) => tightBox(row, this.boxMap));
  }

  private async heads(image: Pixels, minScore: number): Promise<Row[]> {
    const longest = Math.max(image.width, image.height);
    const start = longest <= LARGE ? image : withLongestSide(image, LARGE);
    const first = await this.look(start, SMALL, SMALL_HINT_SCORE);
    let rows = withoutDoubles(first.filter((row) => row[14] >= MIN_REPORTED));
    const side = Math.max(start.width, start.height);
    if (side > 1.5 * SMALL) rows = withoutDoubles([...rows, ...(await this.lookCloser(start, first))]);
    if (!rows.some((row) => row[14] >= SURE)) {
      const last = [await this.lookWithBorder(start), await this.lookBrightened(start)];
      for (const view of otherViews(start)) last.push(await this.lookThrough(start, view));
      rows = withoutDoubles([...rows, ...last.flat()]);
    }
    return rows.map((row) => moved(row, image.width / start.width, image.height / start.height));
  }

  private async look(image: Pixels, side: number, minScore: number): Promise<Row[]> {
    const shown = withLongestSide(image, side);
    const rows = await this.run(shown, minScore);
    return rows.map((row) => moved(row, image.width / shown.width, image.height / shown.height));
  }

  /** At the whole image, or at windows around the few candidates that may be faces. */
  private async lookCloser(image: Pixels, first: Row[]): Promise<Row[]> {
    const side = Math.max(image.width, image.height);
    const sure = first.filter((row) => row[14] >= SURE);
    const hints = withoutDoubles(hintsOf(first, sure, side / SMALL));
    const crowd = hints.length + withoutDoubles(sure).length > CROWD;
    if (!sure.length || crowd) return this.look(image, side, MIN_REPORTED);
    const rows: Row[] = [];
    for (const hint of hints) {
      const [x0, y0, x1, y1] = windowAround(hint, image);
      const part = cut(image, x0, y0, x1, y1);
      const close = await this.look(part, Math.min(SMALL, Math.max(part.width, part.height)), MIN_REPORTED);
      rows.push(...close.map((row) => shifted(row, x0, y0)));
    }
    return rows;
  }

  private async lookWithBorder(image: Pixels): Promise<Row[]> {
    const inner = withLongestSide(image, round(BORDERED / (1 + 2 * BORDER)));
    const edge = round(BORDER * Math.max(inner.width, inner.height));
    const padded = warpLinear(inner, [1, 0, edge, 0, 1, edge], inner.width + 2 * edge, inner.height + 2 * edge, true);
    const rows = await this.run(padded, MIN_REPORTED);
    return rows.map((row) => moved(shifted(row, -edge, -edge), image.width / inner.width, image.height / inner.height));
  }

  private async lookBrightened(image: Pixels): Promise<Row[]> {
    const shown = withLongestSide(image, SMALL);
    const data = shown.data.map((value) => round(255 * (value / 255) ** GAMMA));
    const rows = await this.run({ ...shown, data }, MIN_REPORTED);
    return rows.map((row) => moved(row, image.width / shown.width, image.height / shown.height));
  }

  private async lookThrough(image: Pixels, view: Affine): Promise<Row[]> {
    const rows = await this.look(warpLinear(image, view, image.width, image.height, true), SMALL, MIN_REPORTED);
    const back = invert(view);
    const area = back[0] * back[4] - back[1] * back[3];
    return rows.map((row) => {
      const [width, height] = [row[2], row[3]].map((length) => length * Math.sqrt(Math.abs(area)));
      const [x, y] = apply(back, row[0] + row[2] / 2, row[1] + row[3] / 2);
      let points = [0, 1, 2, 3, 4].map((i) => apply(back, row[4 + 2 * i], row[5 + 2 * i]));
      if (area < 0) points = MIRRORED_POINTS.map((i) => points[i]);
      return [x - width / 2, y - height / 2, width, height, ...points.flat(), row[14]];
    });
  }

  /** The candidates in an image as it is, filled up with black to a multiple of 32 pixels. */
  private async run({ data, width, height }: Pixels, minScore: number): Promise<Row[]> {
    const [wide, high] = [32 * Math.ceil(width / 32), 32 * Math.ceil(height / 32)];
    const planes = new Float32Array(3 * wide * high);
    for (let y = 0, i = 0; y < height; y++) {
      for (let x = 0; x < width; x++, i += 3) {
        for (let channel = 0; channel < 3; channel++) {
          planes[(channel * high + y) * wide + x] = data[i + 2 - channel]; // the network learnt BGR
        }
      }
    }
    const outputs = await this.session.run({ input: this.tensor("float32", planes, [1, 3, high, wide]) });
    const rows: Row[] = [];
    for (const stride of STRIDES) {
      const [cls, obj, bbox, kps] = ["cls", "obj", "bbox", "kps"].map((name) => outputs[`${name}_${stride}`].data as Float32Array);
      for (let i = 0; i < cls.length; i++) {
        const score = Math.sqrt(clip(cls[i], 0, 1) * clip(obj[i], 0, 1));
        if (!(score >= minScore)) continue;
        const [column, row] = [i % (wide / stride), Math.floor(i / (wide / stride))];
        const [w, h] = [Math.exp(bbox[4 * i + 2]), Math.exp(bbox[4 * i + 3])];
        const head = [bbox[4 * i] + column - w / 2, bbox[4 * i + 1] + row - h / 2, w, h];
        const points = Array.from(kps.subarray(10 * i, 10 * i + 10), (value, j) => value + (j % 2 ? row : column));
        rows.push([...[...head, ...points].map((value) => value * stride), score]);
      }
    }
    return rows.filter((row) => row.every(Number.isFinite) && row[2] > 0 && row[3] > 0);
  }
}

const clip = (value: number, low: number, high: number) => Math.min(Math.max(value, low), high);

/** Greedy non-maximum suppression. */
function withoutDoubles(rows: Row[]): Row[] {
  const faces: Row[] = [];
  for (const row of [...rows].sort((one, other) => other[14] - one[14])) {
    if (faces.every((face) => { const both = shared(face, row); return both <= OVERLAP * (face[2] * face[3] + row[2] * row[3] - both); })) faces.push(row);
  }
  return faces;
}

function shared(one: Row, other: Row): number {
  const across = Math.min(one[0] + one[2], other[0] + other[2]) - Math.max(one[0], other[0]);
  const down = Math.min(one[1] + one[3], other[1] + other[3]) - Math.max(one[1], other[1]);
  return Math.max(across, 0) * Math.max(down, 0);
}

/** A row after the image is stretched by x and y. */
function moved(row: Row, x: number, y: number): Row {
  return row.map((value, i) => {
    if (i === 14) return value;
    if (i === 2 || i === 3) return value * (i === 2 ? x : y);
    return (value + 0.5) * (i % 2 ? y : x) - 0.5;
  });
}

/** A row in an image that has so many pixels more on the left and above. */
function shifted(row: Row, x: number, y: number): Row {
  return row.map((value, i) => (i === 2 || i === 3 || i === 14 ? value : value + (i % 2 ? y : x)));
}

/** The candidates that lie beside the sure faces and may be faces. */
function hintsOf(rows: Row[], sure: Row[], pixel: number): Row[] {
  return rows
    .filter((row) => row[14] < SURE && (row[2] * row[3] <= (SMALL_HEAD * pixel) ** 2 || row[14] >= HINT_SCORE))
    .filter((hint) => sure.every((face) => shared(hint, face) < 0.5 * Math.min(hint[2] * hint[3], face[2] * face[3])));
}

/** The window of the image around a candidate, moved inside as far as it can. */
function windowAround(row: Row, image: Pixels): [number, number, number, number] {
  const side = round(Math.max(SMALL, WINDOW * Math.max(row[2], row[3])));
  const span = (centre: number, length: number) => {
    const start = Math.min(Math.max(0, round(centre - side / 2)), Math.max(0, length - side));
    return [start, Math.min(length, start + side)];
  };
  const [[x0, x1], [y0, y1]] = [span(row[0] + row[2] / 2, image.width), span(row[1] + row[3] / 2, image.height)];
  return [x0, y0, x1, y1];
}

/** To the mirror image, and to the image turned about its middle. */
function otherViews({ width, height }: Pixels): Affine[] {
  const [x, y] = [(width - 1) / 2, (height - 1) / 2];
  const turned = TURNS.map((degrees): Affine => {
    const cosine = TURNED_SCALE * Math.cos((degrees * Math.PI) / 180);
    const sine = TURNED_SCALE * Math.sin((degrees * Math.PI) / 180);
    return [cosine, -sine, x - cosine * x + sine * y, sine, cosine, y - sine * x - cosine * y];
  });
  return [[-1, 0, width - 1, 0, 1, 0], ...turned];
}

/** A detection as a tight landmark box: each edge is linear in what `detector.box_map` multiplies. */
function tightBox(row: Row, boxMap: number[][]): Detection {
  const size = Math.sqrt(row[2] * row[3]);
  const centre = [row[0] + row[2] / 2, row[1] + row[3] / 2];
  const points = row.slice(4, 14).map((value, i) => (value - centre[i % 2]) / size);
  const features = [1, row[2] / size, row[3] / size, ...points];
  const edges = boxMap.map((weights, i) => centre[i % 2] + size * weights.reduce((sum, w, j) => sum + w * features[j], 0));
  const least = 0.05 * size; // never an empty box
  return { box: [edges[0], edges[1], Math.max(edges[2], edges[0] + least), Math.max(edges[3], edges[1] + least)], score: row[14] };
}
