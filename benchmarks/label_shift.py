"""Whether a data set's labels agree with those of its mirrored images.

    python benchmarks/label_shift.py 300W/lfpw/trainset

The folder holds images with `.pts` files of 68 points beside them. Eye centres, nose tip and
mouth corners of the labels are compared with the detector's five points, in the image and in
its mirror image. What the detector itself is off goes the same way in both; a shift of the
labels turns round with the image. So half the difference is the labels' own shift in x. (In
y nothing can be told: a shift there is a convention.) Such a shift matters, because training
with mirrored images cannot follow it: the model learns the middle, and every label is wrong
by it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from detection import labelled_faces
from numpy.typing import NDArray

from luvli.data.record import FaceRecord
from luvli.image.detect import YuNet
from luvli.image.read import ImageArray, read_image
from luvli.progress import track

Floats = NDArray[np.float64]
FAR = 0.3
"""detections whose points lie further from the labels, in eye distances, are of another face"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    options = parser.parse_args()
    if options.folder is None:
        print("no folder of labelled images given: nothing to measure")
        return
    detector = YuNet()
    faces = labelled_faces(options.folder)
    found = [measure(detector, face) for face in track(faces, "measuring")]
    shifts = np.array([pair for pair in found if pair is not None])
    labels, own = shifts.mean(axis=0)
    spread = shifts[:, 0].std() / np.sqrt(len(shifts))
    print(f"{len(shifts)} faces: labels lie {labels:+.2f} ± {spread:.2f} px in x beside their")
    print(f"mirror images' (the detector's own points: {own:+.2f})")


def measure(detector: YuNet, face: FaceRecord) -> tuple[float, float] | None:
    """Mean shift in x, in pixels, of the labels and of the detector; None where it sees no face."""
    assert face.image is not None
    image = read_image(face.image)
    labelled = five_points(face.points)
    turned = (labelled * (-1, 1) + (image.shape[1] - 1, 0))[[1, 0, 2, 4, 3]]
    plain = shift(detector, image, labelled)
    mirrored = shift(detector, np.ascontiguousarray(image[:, ::-1]), turned)
    if plain is None or mirrored is None:
        return None
    return (plain - mirrored) / 2, (plain + mirrored) / 2


def five_points(points: Floats) -> Floats:
    """(5, 2) eye centres, nose tip and mouth corners of 68 points."""
    eyes = points[36:42].mean(axis=0), points[42:48].mean(axis=0)
    return np.stack([*eyes, points[30], points[48], points[54]])


def shift(detector: YuNet, image: ImageArray, labelled: Floats) -> float | None:
    """Labels minus detector in x, pixels, mean of the five points."""
    rows = detector.detect_raw(image)
    if not len(rows):
        return None
    away = labelled - rows[:, 4:14].reshape(-1, 5, 2)
    nearest = away[np.abs(away).mean(axis=(1, 2)).argmin()]
    reach = FAR * np.linalg.norm(labelled[1] - labelled[0])
    return float(nearest[:, 0].mean()) if np.abs(nearest).mean() < reach else None


if __name__ == "__main__":
    main()
