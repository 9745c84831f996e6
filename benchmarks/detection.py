"""How well YuNet's rectangles become tight landmark boxes, and how fast.

    python benchmarks/detection.py 300W/lfpw/trainset          measure, five-fold
    python benchmarks/detection.py 300W/lfpw/trainset --fit --hold-out 120
                                              print the map for detect.py, measure on the 120

The folder holds images with `.pts` files of 68 points beside them. The figures are those
of a map fitted on the other four fifths, so no face is measured with a map that saw it. The
shipped map is fitted without 120 photographs that are held out by their names.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from luvli.data.formats import read_pts
from luvli.data.record import FaceRecord
from luvli.image.box import Box
from luvli.image.detect import MIN_SCORE, YuNet, box_features
from luvli.image.read import read_image
from luvli.progress import track
from luvli.training.sources import hold_out

Floats = NDArray[np.float64]

RIDGE = 1e-3
MIRRORED_POINTS = [1, 0, 2, 4, 3]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--fit", action="store_true", help="print the map fitted on all faces")
    parser.add_argument("--hold-out", type=int, default=0, help="fit without so many photographs")
    options = parser.parse_args()
    if options.folder is None:
        print("no folder of labelled images given: nothing to measure")
        return
    faces, kept_away = hold_out(labelled_faces(options.folder), options.hold_out, "photo")
    rows, truth, missed, seconds = detections(faces)
    edges = fit(rows, truth)
    if options.fit:
        print(np.array2string(edges, precision=4, separator=", ", suppress_small=True))
    if kept_away:
        rows, truth, missed, seconds = detections(kept_away)
        report(rows, truth, predict(rows, edges), missed, seconds)
    else:
        report(rows, truth, five_fold(rows, truth), missed, seconds)


def labelled_faces(folder: Path) -> list[FaceRecord]:
    """The images of a folder with the 68 points of the `.pts` files beside them."""
    return [
        FaceRecord(
            *read_pts(label, signed=False),
            image=next(path for path in label.parent.glob(f"{label.stem}.*") if path != label),
            face_id=label.stem,
        )
        for label in sorted(folder.glob("*.pts"))
    ]


def detections(faces: list[FaceRecord]) -> tuple[Floats, Floats, int, float]:
    """YuNet's answer (n, 15) and the tight box (n, 4) of each face found, misses, seconds each."""
    detector = YuNet()
    rows, boxes, spent = [], [], 0.0
    for face in track(faces, "detecting"):
        assert face.image is not None
        truth = Box.around(face.points)
        image = read_image(face.image)
        start = time.perf_counter()
        found = detector.detect_raw(image)
        spent += time.perf_counter() - start
        middles = found[:, :2] + found[:, 2:4] / 2
        inside = (middles > truth.array[:2]).all(axis=1) & (middles < truth.array[2:]).all(axis=1)
        hits = found[inside & (found[:, 14] >= MIN_SCORE)]
        if len(hits):
            rows.append(hits[0])
            boxes.append(truth.array)
    return np.array(rows), np.array(boxes), len(faces) - len(rows), spent / len(faces)


def fit(rows: Floats, truth: Floats) -> Floats:
    """(4, 13) ridge regression of the edges on YuNet's five points, on faces and mirror images."""
    features = np.stack([box_features(row)[0] for row in rows])
    centre, size = _frames(rows)
    edges = (truth - np.tile(centre, 2)) / size[:, None]
    both = np.concatenate([features, mirror_features(features)])
    wanted = np.concatenate([edges, edges[:, [2, 1, 0, 3]] * (-1, 1, -1, 1)])
    penalty = RIDGE * np.eye(both.shape[1])
    return np.linalg.solve(both.T @ both + penalty, both.T @ wanted).T


def mirror_features(features: Floats) -> Floats:
    points = features[:, 3:].reshape(-1, 5, 2)[:, MIRRORED_POINTS] * (-1, 1)
    return np.concatenate([features[:, :3], points.reshape(-1, 10)], axis=1)


def predict(rows: Floats, edges: Floats) -> Floats:
    features = np.stack([box_features(row)[0] for row in rows])
    centre, size = _frames(rows)
    return np.tile(centre, 2) + size[:, None] * (features @ edges.T)


def _frames(rows: Floats) -> tuple[Floats, Floats]:
    return rows[:, :2] + rows[:, 2:4] / 2, np.sqrt(rows[:, 2] * rows[:, 3])


def five_fold(rows: Floats, truth: Floats) -> Floats:
    """(n, 4) boxes, each by a map that was fitted on the other four fifths."""
    fold = np.random.default_rng(0).integers(0, 5, len(rows))
    mapped = np.empty_like(truth)
    for part in range(5):
        mapped[fold == part] = predict(
            rows[fold == part], fit(rows[fold != part], truth[fold != part])
        )
    return mapped


def report(rows: Floats, truth: Floats, mapped: Floats, missed: int, seconds: float) -> None:
    raw = np.concatenate([rows[:, :2], rows[:, :2] + rows[:, 2:4]], axis=1)
    table = Table(
        title=f"{len(rows)} faces found, {missed} missed, {1000 * seconds:.1f} ms an image"
    )
    for heading in ("box", "mean IoU", "5 % IoU", "centre x sd", "centre y sd", "log size sd"):
        table.add_column(heading, justify="left" if heading == "box" else "right")
    for name, boxes in (("YuNet's own", raw), ("mapped to tight", mapped)):
        table.add_row(name, *(f"{value:.4f}" for value in errors(boxes, truth)))
    Console().print(table)


def errors(boxes: Floats, truth: Floats) -> tuple[float, ...]:
    """Mean and 5 % quantile of IoU; spread of centre (in box sizes) and of log size."""
    pairs = [(Box(*a), Box(*b)) for a, b in zip(boxes.tolist(), truth.tolist(), strict=True)]
    iou = np.array([a.iou(b) for a, b in pairs])
    shift = np.array([np.subtract(a.centre, b.centre) / b.size for a, b in pairs])
    growth = np.array([np.log(a.size / b.size) for a, b in pairs])
    return iou.mean(), np.quantile(iou, 0.05), *shift.std(axis=0), growth.std()


if __name__ == "__main__":
    main()
