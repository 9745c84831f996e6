import { describe, expect, it } from "vitest";
import { compose, invert, resized, round, warp } from "../src/pixels.js";
import type { Affine, Pixels } from "../src/types.js";

function ramp(width: number, height: number): Pixels {
  const data = new Uint8Array(3 * width * height);
  for (let i = 0; i < data.length; i++) data[i] = (Math.floor(i / 3) % width) * 10;
  return { data, width, height };
}

describe("pixels", () => {
  it("rounds halves to even, as numpy does", () => {
    expect([0.5, 1.5, 2.5, -0.5, -1.5, 2.4].map(round)).toEqual([0, 2, 2, 0, -2, 2]);
  });

  it("inverts affines", () => {
    const affine: Affine = [2, 0.5, 3, -0.25, 1.5, -7];
    const both = compose(affine, invert(affine));
    [1, 0, 0, 0, 1, 0].forEach((value, i) => expect(both[i]).toBeCloseTo(value, 12));
  });

  it("moves pixels, with black outside", () => {
    const moved = warp(ramp(8, 8), [1, 0, 2, 0, 1, 0], 8);
    expect([0, 1, 2, 3, 7].map((x) => moved.data[3 * x])).toEqual([0, 0, 0, 10, 50]);
  });

  it("interpolates between pixels", () => {
    const moved = warp(ramp(8, 8), [1, 0, -0.5, 0, 1, 0], 6);
    expect([0, 1, 2].map((x) => moved.data[3 * x])).toEqual([5, 15, 25]);
  });

  it("averages two by two where it halves", () => {
    const half = resized(ramp(8, 8), 4, 4);
    expect([0, 1, 2, 3].map((x) => half.data[3 * x])).toEqual([5, 25, 45, 65]);
  });
});
