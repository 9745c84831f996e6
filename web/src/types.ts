/** x0, y0, x1, y1 in image pixels; the centre of the first pixel is (0, 0). */
export type Box = [number, number, number, number];

/** One face, in image pixels. */
export interface Face {
  /** (k, 2) x, y */
  points: [number, number][];
  /** (k, 2, 2) pixels squared, calibrated */
  covariance: [[number, number], [number, number]][];
  /** (k) probability that the landmark is not hidden by the head itself */
  visibility: number[];
  /** (k) probability that something covers the landmark; null where it is not estimated */
  occlusion: number[] | null;
  /** calibrated probability that the alignment succeeded; null for models without a failure model */
  confidence: number | null;
  /** expected mean error of the landmarks, percent of the box */
  expectedError: number | null;
  /** tight box: brows to chin, cheek to cheek */
  box: Box;
  /** of the detector, 0..1; 1 for boxes that were given */
  score: number;
}

/** The entry `description` in a model file's metadata (docs/reference/model-file.md). */
export interface Description {
  name: string;
  version: string;
  licence: string;
  markup: string;
  landmarks: number;
  outputs: Record<string, { type: string; shape: (number | string)[]; meaning: string }>;
  crop: { size: number; enlarge: number; convention: string };
  detector: { name: string; box_map: number[][] };
  likelihood: string;
  /** coverage -> Mahalanobis radius of the ellipse */
  radii: Record<string, number>;
  covariance_trained: boolean;
  visibility_trained: boolean;
  occlusion_trained: boolean;
}

/** Pixels without alpha, three bytes each, rows from top to bottom. */
export interface Pixels {
  data: Uint8Array;
  width: number;
  height: number;
}

/** (2, 3) x' = a x + b y + c, y' = d x + e y + f */
export type Affine = [number, number, number, number, number, number];
