// Images as bytes: reading them, warping and resizing them as OpenCV does, so that a browser and
// Python show the network the same pixels.

import type { Affine, Pixels } from "./types.js";

export type ImageLike =
  | ImageData | HTMLImageElement | HTMLVideoElement | HTMLCanvasElement | OffscreenCanvas | ImageBitmap | Pixels;

/** The pixels of anything that can be drawn. */
export function readPixels(image: ImageLike): Pixels {
  if ("data" in image && image.data.length === 3 * image.width * image.height) return image as Pixels;
  if ("data" in image) return withoutAlpha(image as ImageData);
  const [width, height] = sizeOf(image);
  if (!width || !height) throw new Error("the image has no pixels yet: wait until it is loaded");
  // a canvas that is drawn on gives its own pixels, without a copy of it
  const own = "getContext" in image ? (image.getContext("2d") as CanvasRenderingContext2D | null) : null;
  if (own) return withoutAlpha(own.getImageData(0, 0, width, height));
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d", { willReadFrequently: true })!;
  context.drawImage(image, 0, 0);
  return withoutAlpha(context.getImageData(0, 0, width, height));
}

function sizeOf(image: Exclude<ImageLike, ImageData | Pixels>): [number, number] {
  if ("videoWidth" in image) return [image.videoWidth, image.videoHeight];
  if ("naturalWidth" in image) return [image.naturalWidth, image.naturalHeight];
  return [image.width, image.height];
}

function withoutAlpha({ data, width, height }: ImageData): Pixels {
  const bytes = new Uint8Array(3 * width * height);
  for (let i = 0, j = 0; j < bytes.length; i += 4) {
    bytes[j++] = data[i];
    bytes[j++] = data[i + 1];
    bytes[j++] = data[i + 2];
  }
  return { data: bytes, width, height };
}

export function invert([a, b, c, d, e, f]: Affine): Affine {
  const area = a * e - b * d;
  const [ia, ib, id, ie] = [e / area, -b / area, -d / area, a / area];
  return [ia, ib, -(ia * c + ib * f), id, ie, -(id * c + ie * f)];
}

/** x -> outer(inner(x)) */
export function compose([a, b, c, d, e, f]: Affine, [g, h, i, j, k, l]: Affine): Affine {
  return [a * g + b * j, a * h + b * k, a * i + b * l + c, d * g + e * j, d * h + e * k, d * i + e * l + f];
}

export const apply = ([a, b, c, d, e, f]: Affine, x: number, y: number): [number, number] => [
  a * x + b * y + c,
  d * x + e * y + f,
];

/** numpy's rounding: halves to the even neighbour. */
export function round(x: number): number {
  const low = Math.floor(x);
  if (x - low !== 0.5) return Math.round(x);
  return low % 2 ? low + 1 : low;
}

/** Draw an image through an affine (image -> crop pixels) on a square of `size` pixels, black outside
 * or, with `replicate`, with the edge's own pixels. Shrunk images are halved first. */
export function warp(image: Pixels, affine: Affine, size: number): Pixels {
  const area = Math.abs(affine[0] * affine[4] - affine[1] * affine[3]);
  if (area <= 0.25) [image, affine] = halved(image, affine, size, Math.sqrt(area));
  return warpLinear(image, affine, size, size, false);
}

/** OpenCV's warpAffine with bilinear interpolation, in its fixed-point numbers. */
export function warpLinear(image: Pixels, affine: Affine, wide: number, high: number, replicate: boolean): Pixels {
  const { data, width, height } = image;
  const [a, b, c, d, e, f] = invert(affine);
  const out = new Uint8Array(3 * wide * high);
  for (let v = 0, o = 0; v < high; v++) {
    const x0 = round((b * v + c) * 1024) + 16;
    const y0 = round((e * v + f) * 1024) + 16;
    for (let u = 0; u < wide; u++, o += 3) {
      const x = (x0 + round(a * u * 1024)) >> 5;
      const y = (y0 + round(d * u * 1024)) >> 5;
      const [left, top, fx, fy] = [x >> 5, y >> 5, x & 31, y & 31];
      for (let row = 0; row < 2; row++) {
        for (let column = 0; column < 2; column++) {
          const weight = (column ? fx : 32 - fx) * (row ? fy : 32 - fy);
          let [px, py] = [left + column, top + row];
          if (replicate) {
            px = Math.min(Math.max(px, 0), width - 1);
            py = Math.min(Math.max(py, 0), height - 1);
          } else if (px < 0 || py < 0 || px >= width || py >= height) continue;
          const place = 3 * (py * width + px);
          SUMS[0] += weight * data[place];
          SUMS[1] += weight * data[place + 1];
          SUMS[2] += weight * data[place + 2];
        }
      }
      for (let channel = 0; channel < 3; channel++) {
        out[o + channel] = (SUMS[channel] + 512) >> 10;
        SUMS[channel] = 0;
      }
    }
  }
  return { data: out, width: wide, height: high };
}
const SUMS = new Int32Array(3);

/** The part of the image that the crop shows, halved until it is less than twice as fine. */
function halved(image: Pixels, affine: Affine, size: number, scale: number): [Pixels, Affine] {
  const back = invert(affine);
  const corners = [[-1, -1], [size, -1], [size, size], [-1, size]].map(([x, y]) => apply(back, x, y));
  const margin = 2 / scale;
  const ends = [image.width, image.height].map((end, axis) => {
    const values = corners.map((corner) => corner[axis]);
    const low = Math.min(Math.max(Math.floor(Math.min(...values) - margin), 0), end - 1);
    return [low, Math.min(Math.max(Math.ceil(Math.max(...values) + margin), low + 1), end)];
  });
  const [[x0, x1], [y0, y1]] = ends;
  const times = 2 ** Math.floor(Math.log2(1 / scale));
  const [wide, high] = [Math.ceil((x1 - x0) / times), Math.ceil((y1 - y0) / times)];
  const small = resized(cut(image, x0, y0, x1, y1), wide, high);
  const [rx, ry] = [(x1 - x0) / wide, (y1 - y0) / high];
  return [small, compose(affine, [rx, 0, x0 - 0.5 + 0.5 * rx, 0, ry, y0 - 0.5 + 0.5 * ry])];
}

export function cut({ data, width }: Pixels, x0: number, y0: number, x1: number, y1: number): Pixels {
  const out = new Uint8Array(3 * (x1 - x0) * (y1 - y0));
  for (let y = y0; y < y1; y++) {
    out.set(data.subarray(3 * (y * width + x0), 3 * (y * width + x1)), 3 * (y - y0) * (x1 - x0));
  }
  return { data: out, width: x1 - x0, height: y1 - y0 };
}

/** Halved until less than a halving remains, then linear: `luvli.image.resize.resized`. */
export function resized(image: Pixels, width: number, height: number): Pixels {
  let [across, down] = [image.width, image.height];
  while (across > 2 * width || down > 2 * height) {
    across = across > 2 * width ? Math.max(width, (across + 1) >> 1) : across;
    down = down > 2 * height ? Math.max(height, (down + 1) >> 1) : down;
    image = resizeLinear(image, across, down);
  }
  return across === width && down === height ? image : resizeLinear(image, width, height);
}

/** OpenCV's resize with bilinear interpolation, in its fixed-point numbers. */
function resizeLinear(image: Pixels, width: number, height: number): Pixels {
  const [columns, rows] = [places(image.width, width, true), places(image.height, height, false)];
  const out = new Uint8Array(3 * width * height);
  const across = (row: number) => {
    const start = 3 * row * image.width;
    const sums = new Int32Array(3 * width);
    for (let x = 0, o = 0; x < width; x++) {
      const [left, right, low, high] = columns[x];
      for (let channel = 0; channel < 3; channel++, o++) {
        const [one, other] = [image.data[start + 3 * left + channel], image.data[start + 3 * right + channel]];
        sums[o] = (one * low + other * high) >> 4;
      }
    }
    return sums;
  };
  let kept = new Map<number, Int32Array>();
  for (let y = 0; y < height; y++) {
    const [top, bottom, low, high] = rows[y];
    const upper = kept.get(top) ?? across(top);
    const lower = bottom === top ? upper : (kept.get(bottom) ?? across(bottom));
    kept = new Map([[top, upper], [bottom, lower]]);
    for (let i = 0, o = 3 * y * width; i < 3 * width; i++, o++) {
      out[o] = (((low * upper[i]) >> 16) + ((high * lower[i]) >> 16) + 2) >> 2;
    }
  }
  return { data: out, width, height };
}

/** For each new pixel the two old ones beside it and their shares of 2048. At the edge OpenCV sets
 * the share of columns to 0 and repeats rows, which rounds differently. */
function places(old: number, size: number, isColumn: boolean): [number, number, number, number][] {
  return Array.from({ length: size }, (_, i) => {
    const at = Math.fround((i + 0.5) * (old / size) - 0.5);
    const low = Math.floor(at);
    const share = isColumn && (low < 0 || low >= old - 1) ? 0 : Math.fround(at - low);
    const [first, second] = [low, low + 1].map((place) => Math.min(Math.max(place, 0), old - 1));
    return [first, second, round(Math.fround(1 - share) * 2048), round(share * 2048)];
  });
}

/** The image with a longest side of `side` pixels. */
export function withLongestSide(image: Pixels, side: number): Pixels {
  const scale = side / Math.max(image.width, image.height);
  return resized(image, Math.max(1, round(image.width * scale)), Math.max(1, round(image.height * scale)));
}
