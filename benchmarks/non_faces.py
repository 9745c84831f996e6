"""How much a model believes of pictures that show no human face: docs/trust.md.

    python benchmarks/non_faces.py FOLDER luvli-68 luvli-68-open

FOLDER holds images without faces, any depth; its first folders are the rows of the table. In each
image the landmarks of four random windows are asked for, as if somebody had given them as boxes,
and those of everything that the detector takes for a face with a score of 0.3 or more. None of
such pictures has taught the model anything: its own spoilt images have one cat, textures and faces
drawn with a few lines.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from luvli import load
from luvli.cli.output import print_table
from luvli.errors import BoxWarning
from luvli.image.box import Box
from luvli.image.read import ImageArray, read_image
from luvli.prediction.predictor import Predictor

SIDE = 480
"""longer side that images are brought to"""
WINDOWS = 4
FAINT = 0.3
"""detector's score from which something counts as found"""
SUFFIXES = {".png", ".jpg", ".jpeg", ".webp"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="images without faces")
    parser.add_argument("models", nargs="*", help="shipped models, or files")
    options = parser.parse_args()
    if options.folder is None:
        print("no folder given: nothing to measure")
        return
    warnings.simplefilter("ignore", BoxWarning)
    for name in options.models or ["luvli-68"]:
        predictor = load(name, threads=1)
        given: dict[str, list[float]] = {}
        found: dict[str, list[float]] = {}
        highest: list[tuple[float, str]] = []
        for group, path, image in images(options.folder):
            for kind, boxes in (
                (given, windows(image, path)),
                (found, predictor.detect(image, min_score=FAINT)),
            ):
                sure = confidences(predictor, image, boxes)
                kind.setdefault(group, []).extend(sure)
                kind.setdefault("all", []).extend(sure)
                highest += [(value, path.name) for value in sure]
        rows = [[group, *shares(given[group]), *shares(found[group])] for group in sorted(given)]
        heads = [
            "images",
            "windows",
            "above 0.1",
            "above 0.5",
            "detected",
            "above 0.1",
            "above 0.5",
        ]
        print_table(heads, rows, title=f"{name} {predictor.info.version}: no face, but believed")
        print("most believed:", ", ".join(f"{n} {v:.2f}" for v, n in sorted(highest)[:-7:-1]))


def images(folder: Path) -> Iterator[tuple[str, Path, ImageArray]]:
    """Name of the first folder, path and pixels of every image below a folder."""
    for path in sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES):
        image = read_image(path)
        scale = SIDE / max(image.shape[:2])
        resized = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        yield path.relative_to(folder).parts[0], path, np.asarray(resized, np.uint8)


def windows(image: ImageArray, path: Path) -> list[Box]:
    """Square windows anywhere in the image, the same for the same file name."""
    rng = np.random.default_rng(sum(map(ord, path.name)))
    height, width = image.shape[:2]
    boxes = []
    for _ in range(WINDOWS):
        side = rng.uniform(0.3, 0.9) * min(height, width)
        x, y = rng.uniform(0, width - side), rng.uniform(0, height - side)
        boxes.append(Box(x, y, x + side, y + side))
    return boxes


def confidences(predictor: Predictor, image: ImageArray, boxes: list[Box]) -> list[float]:
    if not boxes:
        return []
    confidence = predictor.predict(image, boxes).confidence
    return [float(value) for value in confidence if not np.isnan(value)]


def shares(values: list[float]) -> list[str]:
    """How many there are, and which shares lie above 0.1 and 0.5."""
    if not values:
        return ["0", "", ""]
    sure: NDArray[np.float64] = np.array(values)
    return [f"{len(sure):,}", *(f"{(sure > limit).mean():.1%}" for limit in (0.1, 0.5))]


if __name__ == "__main__":
    main()
