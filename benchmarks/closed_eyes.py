"""Closed eyes on large and on small faces: how well `face.eyes_closed` tells shut from open ones.

    python benchmarks/closed_eyes.py DATA [--model luvli-68] [--faces 300]

DATA has closed_eyes/, open_portraits/congress/ and london_faces/, whose eyes are open. Images are
shrunk until the face has the size that is wanted, and searched again. Shut faces that the model was
trained on are left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cv2
import numpy as np

from luvli import Faces, load
from luvli.calibration.measure import evenly
from luvli.calibration.photographs import are_packed, training_photographs
from luvli.cli.output import print_table
from luvli.evaluation.selective import auroc
from luvli.image import read_image
from luvli.image.read import ImageArray
from luvli.prediction.predictor import Predictor

OPEN = ("open_portraits/congress", "london_faces")
SIZES: dict[str, tuple[float, float] | None] = {
    "as they are": None,
    "40 to 60 px": (40.0, 60.0),
    "25 to 40 px": (25.0, 40.0),
}
"""geometric mean of the sides of the landmarks' box"""


def shrunk(image: ImageArray, factor: float) -> ImageArray:
    if factor >= 1:
        return image
    small = cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.uint8)


def probabilities(model: Predictor, paths: list[Path]) -> dict[str, list[float]]:
    """By size, the probability of closed eyes of the best face of each image."""
    rng = np.random.default_rng(0)
    found: dict[str, list[float]] = {name: [] for name in SIZES}

    def best(image: ImageArray) -> Faces:
        return model.predict(image, try_rotations=False)[:1]

    for path in paths:
        image = read_image(path)
        image = shrunk(image, 800 / max(image.shape[:2]))
        for face in (large := best(image)):
            found["as they are"].append(float(face.eyes_closed or 0.0))
        for name, limits in SIZES.items():
            if limits is None or not len(large):
                continue
            size = float(np.sqrt((large.boxes[0, 2:] - large.boxes[0, :2]).prod()))
            wanted = rng.uniform(*limits)
            if size > wanted:
                small = best(shrunk(image, wanted / size))
                found[name] += [float(face.eyes_closed or 0.0) for face in small]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--model", default="luvli-68")
    parser.add_argument("--faces", type=int, default=300, help="of each set, at most")
    options = parser.parse_args()
    if options.data is None:
        print("no data given: nothing to measure")
        return
    model = load(options.model, threads=1)
    shut = sorted((options.data / "closed_eyes").glob("*.jp*g"))
    seen = are_packed([f"closed_eyes/{p.name}" for p in shut], training_photographs(model.info))
    shut = [path for path, trained in zip(shut, seen, strict=True) if not trained]
    opened = [evenly(sorted((options.data / name).glob("*.jpg")), options.faces) for name in OPEN]
    closed = probabilities(model, evenly(shut, options.faces))
    others = probabilities(model, [path for paths in opened for path in paths])
    rows = []
    for name in SIZES:
        yes, no = np.array(closed[name]), np.array(others[name])
        area = auroc(np.concatenate([yes, no]), np.arange(len(yes) + len(no)) < len(yes))
        rates = [f"{(values > 0.5).mean():.1%}" for values in (yes, no)]
        rows.append([name, f"{len(yes)}", f"{len(no)}", f"{area:.4f}", *rates])
    headings = ["faces", "shut", "open", "AUROC", "shut called closed", "open called closed"]
    print_table(headings, rows, title=options.model)


if __name__ == "__main__":
    main()
