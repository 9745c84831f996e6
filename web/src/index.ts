// luvli-web: face landmarks with their uncertainty and visibility, computed in the browser.
//
//   const model = await load("luvli-68-open");
//   const faces = await model.predict(imageOrVideoOrCanvas);

import * as ort from "onnxruntime-web/wasm";
import { Detector, type Detection } from "./detect.js";
import { readDescription } from "./metadata.js";
import { apply, compose, cut, type ImageLike, invert, readPixels, warp } from "./pixels.js";
import type { Affine, Box, Description, Face, Pixels } from "./types.js";

export type { Affine, Box, Description, Face, ImageLike, Pixels };
export { ellipse, eyeOpenness, headPose, type HeadPose } from "./measures.js";

export interface LoadOptions {
  /** folder of the model files, the detector among them; "models/" beside the page by default */
  models?: string | URL;
  /** folder of onnxruntime-web's .wasm file; "wasm/" beside the page by default */
  wasm?: string | URL;
  /** threads of WebAssembly; more than one needs a cross-origin isolated page */
  threads?: number;
}

export interface PredictOptions {
  /** tight landmark boxes, if you have them; the detector is then not used */
  boxes?: Box[];
  /** leave out detections below this score */
  minScore?: number;
}

const MARGIN = 1 / 8; // cut out around a detected face on each side, as a share of the crop
const [MIN_IOU, MAX_CHANGE] = [0.76, 2]; // box refinement, as luvli.prediction.refine
export const DETECTOR = "yunet.onnx";

/** Load a model by name, from the folder of models, or by the URL of its .onnx file. */
export async function load(model = "luvli-68-open", options: LoadOptions = {}): Promise<Model> {
  const folder = new URL(options.models ?? "models/", document.baseURI);
  ort.env.wasm.wasmPaths = new URL(options.wasm ?? "wasm/", document.baseURI).href;
  ort.env.wasm.numThreads = options.threads ?? 1;
  const place = model.endsWith(".onnx") ? new URL(model, document.baseURI) : new URL(`${model}.onnx`, folder);
  const [network, detector] = await Promise.all([download(place), download(new URL(DETECTOR, folder))]);
  const description = readDescription(network);
  const session = await ort.InferenceSession.create(network, { executionProviders: ["wasm"] });
  const heads = await ort.InferenceSession.create(detector, { executionProviders: ["wasm"] });
  const tensor = (type: "float32", data: Float32Array, dims: number[]) => new ort.Tensor(type, data, dims);
  return new Model(description, session, new Detector(heads, tensor, description.detector.box_map));
}

async function download(url: URL): Promise<Uint8Array> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} cannot be fetched (status ${response.status})`);
  return new Uint8Array(await response.arrayBuffer());
}

interface Window {
  box: Box;
  score: number;
  affine: Affine;
}

/** A model, ready to predict. */
export class Model {
  constructor(
    readonly description: Description,
    private readonly session: ort.InferenceSession,
    private readonly detector: Detector,
  ) {}

  /** The faces in an image, best detection first. */
  async predict(image: ImageLike, { boxes, minScore = 0.6 }: PredictOptions = {}): Promise<Face[]> {
    const pixels = readPixels(image);
    const detections = boxes?.map((box): Detection => ({ box, score: 1 })) ?? (await this.detect(pixels, minScore));
    const faces: Face[] = [];
    for (const { box, score } of detections) faces.push(await this.face(pixels, box, score, !boxes));
    return faces;
  }

  /** Tight landmark boxes of the faces in an image, best first. */
  detect(image: ImageLike, minScore = 0.6): Promise<Detection[]> {
    return this.detector.detect(readPixels(image), minScore);
  }

  /** The square around a box: longer side times `enlarge`. */
  private crop(box: Box): Affine {
    const { size, enlarge } = this.description.crop;
    const scale = size / (Math.max(box[2] - box[0], box[3] - box[1]) * enlarge);
    const middle = (size - 1) / 2;
    return [scale, 0, middle - (scale * (box[0] + box[2])) / 2, 0, scale, middle - (scale * (box[1] + box[3])) / 2];
  }

  private async face(image: Pixels, box: Box, score: number, detected: boolean): Promise<Face> {
    const { size } = this.description.crop;
    const affine = this.crop(box);
    const refines = detected && this.description.visibility_trained;
    const edge = refines ? Math.round(MARGIN * size) : 0;
    const wide: Affine = [affine[0], affine[1], affine[2] + edge, affine[3], affine[4], affine[5] + edge];
    const around = warp(image, wide, size + 2 * edge);
    const face = await this.run(cut(around, edge, edge, edge + size, edge + size), { box, score, affine });
    const better = refines ? refinedBox(box, face) : null;
    if (!better) return face;
    const again = this.crop(better);
    return this.run(warp(around, compose(again, invert(wide)), size), { box, score, affine: again });
  }

  private async run(crop: Pixels, { box, score, affine }: Window): Promise<Face> {
    const { size } = this.description.crop;
    const outputs = await this.session.run({
      crops: new ort.Tensor("uint8", crop.data, [1, size, size, 3]),
      affine: new ort.Tensor("float32", Float32Array.from(affine), [1, 2, 3]),
      box: new ort.Tensor("float32", Float32Array.from(box), [1, 4]),
      score: new ort.Tensor("float32", [score], [1]),
    });
    const numbers = (name: string) => (outputs[name] ? Array.from(outputs[name].data as Float32Array) : null);
    const back = invert(affine);
    const area = affine[0] ** 2; // the crop is upright
    const [points, covariance] = [numbers("landmarks")!, numbers("covariance")!];
    return {
      points: every(points, 2).map(([x, y]) => apply(back, x, y)),
      covariance: every(covariance, 4).map(([xx, xy, yx, yy]) => [[xx / area, xy / area], [yx / area, yy / area]]),
      visibility: numbers("visibility")!,
      occlusion: this.description.occlusion_trained ? numbers("occlusion") : null,
      confidence: numbers("confidence")?.[0] ?? null,
      expectedError: numbers("expected_error")?.[0] ?? null,
      box,
      score,
    };
  }
}

function every(values: number[], count: number): number[][] {
  return Array.from({ length: values.length / count }, (_, i) => values.slice(i * count, (i + 1) * count));
}

/** The box of the visible landmarks, where cropping again is worth its time. */
function refinedBox(box: Box, { points, visibility }: Face): Box | null {
  const visible = points.filter((_, j) => visibility[j] > 0.5);
  const [xs, ys] = [0, 1].map((axis) => visible.map((point) => point[axis]));
  const refined: Box = [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
  const [width, height] = [refined[2] - refined[0], refined[3] - refined[1]];
  if (!(width > 1e-9 && height > 1e-9)) return null;
  const [own, area] = [width * height, (box[2] - box[0]) * (box[3] - box[1])];
  const across = Math.min(box[2], refined[2]) - Math.max(box[0], refined[0]);
  const down = Math.min(box[3], refined[3]) - Math.max(box[1], refined[1]);
  const overlap = Math.max(across, 0) * Math.max(down, 0);
  const alike = own / area > MAX_CHANGE ** -2 && own / area < MAX_CHANGE ** 2;
  return alike && overlap < MIN_IOU * (area + own - overlap) ? refined : null;
}
