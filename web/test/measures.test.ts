import { describe, expect, it } from "vitest";
import { ellipse, eyeOpenness, headPose } from "../src/measures.js";
import { readDescription } from "../src/metadata.js";
import type { Face } from "../src/types.js";

const radians = (degrees: number) => (degrees * Math.PI) / 180;

/** A head of random points, turned by yaw and rolled, seen in orthography. */
function turned(yaw: number, roll: number): [Face, number[][]] {
  const noise = (i: number) => Math.sin(12.9898 * i) * 43758.5453 % 1;
  const head = Array.from({ length: 68 }, (_, i) => [8 * noise(i), 9 * noise(i + 100), 5 * noise(i + 200)]);
  const [c, s] = [Math.cos(radians(yaw)), Math.sin(radians(yaw))];
  const [cr, sr] = [Math.cos(radians(roll)), Math.sin(radians(roll))];
  const points = head.map(([x, y, z]): [number, number] => {
    const [across, up] = [c * x + s * z, y];
    return [100 + 10 * (cr * across + sr * up), 80 - 10 * (cr * up - sr * across)];
  });
  const covariance = points.map((): [[number, number], [number, number]] => [[4, 0], [0, 1]]);
  const visibility = points.map(() => 1);
  return [{ points, covariance, visibility, occlusion: null, confidence: 1, expectedError: 1, box: [0, 0, 1, 1], score: 1 }, head];
}

describe("measures", () => {
  it("finds the pose that a head was turned by", () => {
    for (const [yaw, roll] of [[0, 0], [25, 0], [-40, 15], [10, -30]]) {
      const pose = headPose(...turned(yaw, roll), 0);
      expect(pose.yaw).toBeCloseTo(yaw, 1);
      expect(pose.roll).toBeCloseTo(roll, 1);
      expect(pose.pitch).toBeCloseTo(0, 1);
    }
  });

  it("draws ellipses along the longer axis", () => {
    const shape = ellipse(turned(0, 0)[0], 0, 3);
    expect([shape.a, shape.b, shape.angle]).toEqual([6, 3, 0]);
  });

  it("measures eyes by height and width", () => {
    const eye = [[0, 0], [1, -1], [2, -1], [4, 0], [2, 1], [1, 1]] as [number, number][];
    const points = Array.from({ length: 68 }, (_, i): [number, number] => eye[i >= 36 && i < 48 ? (i - 36) % 6 : 0]);
    expect(eyeOpenness(points)).toEqual([0.5, 0.5]);
  });

  it("refuses a file that is no model", () => {
    expect(() => readDescription(new Uint8Array([10, 1, 65]))).toThrow("luvli export");
  });
});
