// A model's ONNX file in Node without luvli (docs/howto/deploy.md):
//   npm install onnxruntime-node jpeg-js
//   node deploy.mjs mine.onnx photo.jpg X0 Y0 X1 Y1
import { readFileSync } from "node:fs";
import jpeg from "jpeg-js";
import ort from "onnxruntime-node";

// The entry `description` of the metadata, which is field 14 of the file's protocol buffer.
function describe(file) {
  const start = file.lastIndexOf("\n\x0bdescription\x12");
  let place = start + 14;
  let length = 0;
  for (let shift = 0, byte = 128; byte & 128; shift += 7) {
    byte = file[place++];
    length |= (byte & 127) << shift;
  }
  return JSON.parse(file.toString("utf8", place, place + length));
}

// Bilinear interpolation, black outside.
function crop({ data, width, height }, size, scale, shift) {
  const out = new Uint8Array(3 * size * size);
  const at = (x, y, c) => (x < 0 || y < 0 || x >= width || y >= height ? 0 : data[3 * (y * width + x) + c]);
  for (let v = 0, i = 0; v < size; v++) {
    for (let u = 0; u < size; u++) {
      const [x, y] = [(u - shift[0]) / scale, (v - shift[1]) / scale];
      const [x0, y0] = [Math.floor(x), Math.floor(y)];
      const [fx, fy] = [x - x0, y - y0];
      for (let c = 0; c < 3; c++, i++) {
        const upper = at(x0, y0, c) * (1 - fx) + at(x0 + 1, y0, c) * fx;
        const lower = at(x0, y0 + 1, c) * (1 - fx) + at(x0 + 1, y0 + 1, c) * fx;
        out[i] = Math.round(upper * (1 - fy) + lower * fy);
      }
    }
  }
  return out;
}

const [, , path, photo, ...edges] = process.argv;
const model = readFileSync(path);
const about = describe(model);
const { size, enlarge } = about.crop;
const [x0, y0, x1, y1] = edges.map(Number);
const scale = size / (Math.max(x1 - x0, y1 - y0) * enlarge);
const shift = [(x0 + x1) / 2, (y0 + y1) / 2].map((centre) => (size - 1) / 2 - scale * centre);
const image = jpeg.decode(readFileSync(photo), { useTArray: true, formatAsRGBA: false });

const session = await ort.InferenceSession.create(model);
const tensor = (values, ...shape) => new ort.Tensor("float32", Float32Array.from(values), shape);
const face = await session.run({
  crops: new ort.Tensor("uint8", crop(image, size, scale, shift), [1, size, size, 3]),
  affine: tensor([scale, 0, shift[0], 0, scale, shift[1]], 1, 2, 3),
  box: tensor([x0, y0, x1, y1], 1, 4),
  score: tensor([1], 1),
});
const [nose, points, covariance] = [30, face.landmarks.data, face.covariance.data];
const [x, y] = [0, 1].map((i) => (points[2 * nose + i] - shift[i]) / scale);
const [xx, yy] = [covariance[4 * nose], covariance[4 * nose + 3]].map((v) => v / scale ** 2);
console.log(`nose ${x.toFixed(2)}, ${y.toFixed(2)} standard deviations ${Math.sqrt(xx).toFixed(2)}, ${Math.sqrt(yy).toFixed(2)}`);
console.log(`confidence ${face.confidence.data[0].toFixed(4)}`);
