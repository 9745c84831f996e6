"""Misses, boxes and accuracy of the whole way from photographs to faces, to compare two versions.

    python benchmarks/accuracy.py 300W/lfpw/trainset 300W/afw --every 5
    PYTHONPATH=older/src python benchmarks/accuracy.py 300W/lfpw/trainset 300W/afw --every 5

Folders hold photographs with `.pts` labels of 68 points beside them. A face is missed when no
detection overlaps the tight box of its labels by 0.3 (intersection over union). NME is the mean
distance to the labels in percent of the box's size, with the detector's box and with the labelled
one. Only what earlier versions have too is used, so that one script serves both.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from luvli.image import read_image
from luvli.image.box import Box
from luvli.prediction.predictor import Predictor, load

LEAST_OVERLAP = 0.3


def labels(path: Path) -> NDArray[np.float64]:
    """(68, 2) points of a `.pts` file, which counts from 1."""
    inside = path.read_text().partition("{")[2].partition("}")[0]
    return np.array([line.split() for line in inside.split("\n") if line.strip()], float) - 1


def photograph(path: Path) -> Path:
    """The image beside a file of labels."""
    return next(path.with_suffix(s) for s in (".jpg", ".png") if path.with_suffix(s).is_file())


def measure(predictor: Predictor, paths: list[Path]) -> dict[str, Any]:
    """Misses, mean overlap, mean NME with both boxes, processor milliseconds of the detector."""
    errors, overlaps, spent, missed = [], [], 0.0, 0
    for path in paths:
        image, points = read_image(photograph(path)), labels(path)
        box = Box.around(points)
        start = time.process_time()
        found = predictor.detect(image)
        spent += time.process_time() - start
        best = max(found, key=lambda each: each.iou(box), default=None)
        if best is None or best.iou(box) < LEAST_OVERLAP:
            missed += 1
            continue
        both = [predictor.predict(image, boxes=[each])[0].points for each in (best, box)]
        errors.append([np.linalg.norm(each - points, axis=1).mean() / box.size for each in both])
        overlaps.append(best.iou(box))
    detected, labelled = 100 * np.mean(errors, axis=0)
    return {
        "faces": len(paths),
        "missed": missed,
        "overlap": float(np.mean(overlaps)),
        "detected": detected,
        "labelled": labelled,
        "milliseconds": 1e3 * spent / len(paths),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--every", type=int, default=1, help="take one of so many files")
    parser.add_argument("--model", default="luvli-68")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    cv2.setNumThreads(1)
    predictor = load(options.model, threads=1)
    for folder in options.folders:
        found = measure(predictor, sorted(folder.glob("*.pts"))[:: options.every])
        print(
            f"{folder}: {found['faces']} faces, {found['missed']} missed, "
            f"overlap {found['overlap']:.4f}, NME_box {found['detected']:.3f} % by the detector's "
            f"boxes, {found['labelled']:.3f} % by labelled ones, detector "
            f"{found['milliseconds']:.1f} ms",
            flush=True,
        )


if __name__ == "__main__":
    main()
