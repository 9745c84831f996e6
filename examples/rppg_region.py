"""Remote vital signs (rPPG): the mean colour of the cheeks, only where they can be seen.

    python examples/rppg_region.py clip.mp4 signal.csv

A cheek that the head hides would add background to the signal; its visibility says so.
"""

from __future__ import annotations

import csv
import sys

import cv2
import numpy as np

import luvli
from luvli import FaceLandmarks, InputError
from luvli.image.read import ImageArray

CHEEKS = {"right": (1, 2, 3, 4, 48, 31, 36), "left": (15, 14, 13, 12, 54, 35, 45)}
"""corners of each cheek, in the numbering of ibug68: jaw, mouth corner, nostril, eye corner"""


def cheek_colour(image: ImageArray, face: FaceLandmarks) -> list[float] | None:
    """Mean R, G, B over the visible cheeks, weighted by area; None where neither is seen."""
    mask = np.zeros(image.shape[:2], np.uint8)
    for corners in CHEEKS.values():
        cheek = face[list(corners)]
        if cheek.visible().all():
            cv2.fillConvexPoly(mask, cv2.convexHull(cheek.points.astype(np.int32)), 255)
    return cv2.mean(image, mask)[:3] if mask.any() else None


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    model = luvli.load("luvli-68")
    with open(sys.argv[2], "w", newline="") as stream:  # noqa: PTH123
        writer = csv.writer(stream)
        writer.writerow(["time", "red", "green", "blue"])
        for frame, faces in model.track(sys.argv[1], smooth=True):
            colour = cheek_colour(frame.image, faces[0]) if faces else None
            writer.writerow([f"{frame.time:.4f}", *(colour or ("", "", ""))])


if __name__ == "__main__":
    try:
        main()
    except InputError as error:  # one sentence that names the file and what to do
        sys.exit(str(error))
