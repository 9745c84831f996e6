// What the page asks of a server, computed in the browser: the static demo's server.js.

import { type Box, eyeOpenness, type Face, headPose, load, type Model } from "../src/index.js";

export class ServerError extends Error {}

interface About {
  name: string;
  version: string;
  radius: Record<string, number>;
  visibility_trained: boolean;
  /** of the mean head (68, 3), and the pitch of people who look into the camera */
  head: number[][];
  frontal_pitch: number;
}

const MAX_BYTES = 50e6;
const MAX_FACES = 20;
const DETECT_EVERY = 15; // frames of a camera; between them each face is looked for where it was
let model: Promise<Model> | undefined;
let about: About;

/** There is nobody to ask for a token. */
export function onTokenWanted(): void {}

/** The one model; it is fetched while the page says so. */
export async function fetchModels() {
  const offer = await (await fetch(new URL("models/models.json", document.baseURI))).json();
  about = offer.models[0];
  model = load(about.name);
  model.catch(() => {}); // said where it is used
  return { ...offer, limits: { max_bytes: MAX_BYTES } };
}

/** An image that this browser cannot show cannot be read here either. */
export async function asPng(): Promise<Blob> {
  throw new ServerError("This browser cannot read that kind of image. Save it as JPEG or PNG.");
}

export async function predict(blob: Blob, _name: string, kind: string, words: (text: string) => void = () => {}) {
  words("Looking for faces …");
  const answer = await answerFor(blob);
  return kind === "text/csv" ? table(answer.faces) : answer;
}

async function answerFor(source: Blob | HTMLCanvasElement, frame?: number, boxes?: Box[]) {
  const start = performance.now();
  let image: ImageBitmap | HTMLCanvasElement;
  try {
    image = source instanceof Blob ? await createImageBitmap(source) : source;
  } catch {
    throw new ServerError("This is not an image that the browser can read.");
  }
  let ready: Model;
  try {
    ready = await model!;
  } catch {
    throw new ServerError("The model could not be fetched. Reload the page.");
  }
  const faces = await ready.predict(image, { boxes });
  return {
    ...(frame === undefined ? {} : { frame }),
    model: about.name,
    version: about.version,
    width: image.width,
    height: image.height,
    faces: faces.slice(0, MAX_FACES).map(fields),
    faces_left_out: Math.max(0, faces.length - MAX_FACES),
    timings: { total: performance.now() - start },
  };
}

type Fields = ReturnType<typeof fields>;

function fields(face: Face) {
  const pose = headPose(face, about.head, about.frontal_pitch);
  const [right, left] = eyeOpenness(face.points);
  const seen = face.visibility.reduce((sum, value) => sum + value, 0) / face.visibility.length;
  const eye = (first: number) => Math.min(...face.visibility.slice(first, first + 6));
  const measure = (value: number, visible: number) => ({ value, std: null, visible });
  return {
    points: face.points,
    covariance: face.covariance,
    visibility: face.visibility,
    visibility_trained: about.visibility_trained,
    occlusion: face.occlusion,
    box: face.box,
    score: face.score,
    confidence: face.confidence,
    expected_error: face.expectedError,
    measures: {
      yaw: measure(pose.yaw, seen),
      pitch: measure(pose.pitch, seen),
      roll: measure(pose.roll, seen),
      right_eye_openness: measure(right, eye(36)),
      left_eye_openness: measure(left, eye(42)),
    },
  };
}

function table(faces: Fields[]): string {
  const head = "face,landmark,x,y,xx,xy,yy,visibility,confidence";
  const rows = faces.flatMap((face, i) =>
    face.points.map(([x, y], j) => {
      const [[xx, xy], [, yy]] = face.covariance[j];
      const numbers = [x, y, xx, xy, yy, face.visibility[j], face.confidence ?? NaN];
      return [i, j, ...numbers.map((value) => value.toFixed(4))].join(",");
    }),
  );
  return [head, ...rows, ""].join("\n");
}

function around(points: [number, number][]): Box {
  const [xs, ys] = [points.map((point) => point[0]), points.map((point) => point[1])];
  return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
}

/** Frames in, faces out, one at a time. */
export class Stream {
  readonly takesCanvas = true;
  open = true;
  private sent = 0;
  private busy = false;
  private boxes: Box[] | undefined;

  constructor(
    _name: string,
    private readonly answered: (answer: unknown) => void,
    private readonly ended: (words: string) => void,
  ) {}

  get hungry(): boolean {
    return this.open && !this.busy;
  }

  send(canvas: HTMLCanvasElement): number {
    const number = this.sent++;
    this.busy = true;
    answerFor(canvas, number, number % DETECT_EVERY ? this.boxes : undefined)
      .then((answer) => {
        const sure = answer.faces.length > 0 && answer.faces.every((face) => (face.confidence ?? 0) > 0.5);
        this.boxes = sure ? answer.faces.map((face) => around(face.points)) : undefined;
        if (this.open) this.answered(answer);
      })
      .catch((error: Error) => this.open && this.ended(error.message))
      .finally(() => (this.busy = false));
    return number;
  }

  close(): void {
    this.open = false;
  }
}
