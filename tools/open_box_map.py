"""Fits the map from YuNet's answers to tight landmark boxes on data that anyone may use.

    python tools/open_box_map.py ICT_FACEKIT LONDON_FACES [--faces 500]

Rendered ICT heads of all poses, and the London portraits that recipes/luvli-68-open.yaml does not
hold out. Prints the map for `luvli.image.detect` and what error remains, five-fold.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from detection import Floats, errors, fit, five_fold

from luvli.data.sets import load_set
from luvli.image.box import Box
from luvli.image.detect import MIN_SCORE, YuNet
from luvli.image.read import ImageArray, read_image
from luvli.progress import track
from luvli.synthetic import SyntheticFaces
from luvli.training.sources import hold_out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("head", type=Path, nargs="?")
    parser.add_argument("london", type=Path, nargs="?")
    parser.add_argument("--faces", type=int, default=500)
    options = parser.parse_args()
    if options.london is None:
        print("no head and no portraits given: nothing to fit")
        return
    rows, truth, kinds = [], [], []
    detector = YuNet()

    def add(kind: str, image: ImageArray, points: Floats) -> None:
        box = Box.around(points[np.isfinite(points).all(axis=1)]).array
        found = detector.detect_raw(image)
        middle = found[:, :2] + found[:, 2:4] / 2
        inside = (middle > box[:2]).all(axis=1) & (middle < box[2:]).all(axis=1)
        hits = found[inside & (found[:, 14] >= MIN_SCORE)]
        if len(hits):
            rows.append(hits[0])
            truth.append(box)
            kinds.append(kind)

    portraits, _ = hold_out(
        list(load_set("london", options.london, subset="neutral")), 0.4, "person"
    )
    for record in track(portraits, "portraits"):
        assert record.image is not None
        add("portraits", read_image(record.image), record.points)
    faces = SyntheticFaces(head=str(options.head), count=options.faces, seed=77, size=192)
    for index in track(range(len(faces)), "rendered faces"):
        sample = faces[index]
        add(str(sample.record.attributes["pose"]), sample.image, sample.record.points)
    found, boxes, kind = np.array(rows), np.array(truth), np.array(kinds)
    print(np.array2string(fit(found, boxes), precision=4, separator=", ", suppress_small=True))
    mapped = five_fold(found, boxes)
    for name in np.unique(kind):
        of = kind == name
        figures = " ".join(f"{value:.4f}" for value in errors(mapped[of], boxes[of]))
        print(f"{name} ({of.sum()}): mean IoU, 5 % IoU, centre x, y, log size: {figures}")


if __name__ == "__main__":
    main()
