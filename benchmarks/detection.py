"""How well YuNet's rectangles become tight landmark boxes, and the fit of the map between them.

    python benchmarks/detection.py 300W/lfpw/trainset                       measure, five-fold
    python benchmarks/detection.py 300W/lfpw/trainset --fit --hold-out 120  print the map `yunet`
    python benchmarks/detection.py --open ICT_FACEKIT LONDON_FACES          and `yunet-open`

The folder holds images with `.pts` files of 68 points beside them. The figures are those
of a map fitted on the other four fifths, so no face is measured with a map that saw it. The
shipped map is fitted without 120 photographs that are held out by their names. The open one is
fitted to data that anyone may use: rendered ICT heads of all poses, and the London portraits that
recipes/luvli-68-open.yaml does not hold out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from luvli.cli.output import print_table
from luvli.data.formats import read_pts
from luvli.data.record import FaceRecord
from luvli.data.sets import load_set
from luvli.image import affine
from luvli.image.box import Box
from luvli.image.detect import MIN_SCORE, YuNet, box_features, moved_rows
from luvli.image.read import ImageArray, read_image
from luvli.progress import track
from luvli.synthetic import SyntheticFaces
from luvli.training.sources import hold_out

Floats = NDArray[np.float64]
Labelled = tuple[ImageArray, Floats]
"""an image and the 68 points of a face in it"""

RIDGE = 1e-3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--open", nargs=2, help="an ICT FaceKit model and the London portraits")
    parser.add_argument("--fit", action="store_true", help="print the map fitted on all faces")
    parser.add_argument("--hold-out", type=int, default=0, help="fit without so many photographs")
    options = parser.parse_args()
    if options.open:
        rows, truth, missed = detections(open_faces(*options.open))
        apart = None
    elif options.folder is not None:
        faces, others = hold_out(labelled_faces(options.folder), options.hold_out, "photo")
        rows, truth, missed = detections(photographs(faces))
        apart = detections(photographs(others)) if others else None
    else:
        print("no folder of labelled images given: nothing to measure")
        return
    edges = fit(rows, truth)
    if options.fit or options.open:
        print(np.array2string(edges, precision=4, separator=", ", suppress_small=True))
    if apart is None:
        report(rows, truth, five_fold(rows, truth), missed)
    else:
        rows, truth, missed = apart
        report(rows, truth, predict(rows, edges), missed)


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


def photographs(records: Iterable[FaceRecord]) -> Iterator[Labelled]:
    for record in records:
        assert record.image is not None
        yield read_image(record.image), record.points


def open_faces(head: str, london: str, count: int = 500) -> Iterator[Labelled]:
    """Portraits and rendered faces whose labels are free."""
    portraits, _ = hold_out(list(load_set("london", london, subset="neutral")), 0.4, "person")
    yield from photographs(portraits)
    faces = SyntheticFaces(head=head, count=count, seed=77, size=192)
    for sample in (faces[i] for i in range(count)):
        yield sample.image, sample.record.points


def detections(faces: Iterable[Labelled]) -> tuple[Floats, Floats, int]:
    """YuNet's answer (n, 15) and the tight box (n, 4) of each face found; how many it missed."""
    detector = YuNet()
    rows, boxes, missed = [], [], 0
    for image, points in track(faces, "detecting"):
        box = Box.around(points).array
        found = detector.detect_raw(image)
        middles = found[:, :2] + found[:, 2:4] / 2
        inside = (middles > box[:2]).all(axis=1) & (middles < box[2:]).all(axis=1)
        hits = found[inside & (found[:, 14] >= MIN_SCORE)]
        if len(hits):
            rows.append(hits[0])
            boxes.append(box)
        else:
            missed += 1
    return np.array(rows), np.array(boxes), missed


def fit(rows: Floats, truth: Floats) -> Floats:
    """(4, 13) ridge regression of the edges on YuNet's five points, on faces and mirror images."""
    mirrored = moved_rows(rows, affine.mirror(1))
    features, wanted = _regression(
        np.concatenate([rows, mirrored]),
        np.concatenate([truth, truth[:, [2, 1, 0, 3]] * (-1, 1, -1, 1)]),
    )
    penalty = RIDGE * np.eye(features.shape[1])
    return np.asarray(np.linalg.solve(features.T @ features + penalty, features.T @ wanted).T)


def _regression(rows: Floats, truth: Floats) -> tuple[Floats, Floats]:
    """(n, 13) features, and (n, 4) edges from the centre of the head in units of its size."""
    features, centre, size = (np.stack(part) for part in zip(*map(box_features, rows), strict=True))
    return features, (truth - np.tile(centre, 2)) / size[:, None]


def predict(rows: Floats, edges: Floats) -> Floats:
    features, centre, size = (np.stack(part) for part in zip(*map(box_features, rows), strict=True))
    return np.tile(centre, 2) + size[:, None] * (features @ edges.T)


def five_fold(rows: Floats, truth: Floats) -> Floats:
    """(n, 4) boxes, each by a map that was fitted on the other four fifths."""
    fold = np.random.default_rng(0).integers(0, 5, len(rows))
    mapped = np.empty_like(truth)
    for part in range(5):
        there = fold == part
        mapped[there] = predict(rows[there], fit(rows[~there], truth[~there]))
    return mapped


def report(rows: Floats, truth: Floats, mapped: Floats, missed: int) -> None:
    raw = np.concatenate([rows[:, :2], rows[:, :2] + rows[:, 2:4]], axis=1)
    print_table(
        ["box", "mean IoU", "5 % IoU", "centre x sd", "centre y sd", "log size sd"],
        [
            [name, *(f"{value:.4f}" for value in errors(boxes, truth))]
            for name, boxes in (("YuNet's own", raw), ("mapped to tight", mapped))
        ],
        title=f"{len(rows)} faces found, {missed} missed",
    )


def errors(boxes: Floats, truth: Floats) -> tuple[float, ...]:
    """Mean and 5 % quantile of IoU; spread of centre (in box sizes) and of log size."""
    pairs = [(Box(*a), Box(*b)) for a, b in zip(boxes.tolist(), truth.tolist(), strict=True)]
    iou = np.array([a.iou(b) for a, b in pairs])
    shift = np.array([np.subtract(a.centre, b.centre) / b.size for a, b in pairs])
    growth = np.array([np.log(a.size / b.size) for a, b in pairs])
    return iou.mean(), np.quantile(iou, 0.05), *shift.std(axis=0), growth.std()


if __name__ == "__main__":
    main()
