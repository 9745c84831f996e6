"""Boxes as people hold them, as `Box`; implausible ones are refused or warned about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Floats
from luvli.errors import BoxWarning, InputError, check_choice, warn_caller
from luvli.image.box import Box

BoxFormat = Literal["xyxy", "xywh", "cxcywh"]
"""x0, y0, x1, y1; or x0, y0, width, height; or centre x, centre y, width, height"""

BoxSource = Literal["tight", "yunet", "insightface", "retinaface", "dlib", "haar", "mediapipe"]
"""whose boxes: tight landmark boxes, or rectangles of a detector"""

_MAPS: dict[str, tuple[float, float, float, float]] = {
    "yunet": (-0.016, 0.255, 1.016, 1.006),
    "insightface": (-0.016, 0.255, 1.016, 1.006),
    "retinaface": (-0.016, 0.255, 1.016, 1.006),
    "dlib": (0.008, 0.099, 0.992, 1.041),
    "haar": (0.064, 0.217, 0.936, 1.066),
    "mediapipe": (0.037, 0.112, 0.963, 1.003),
}
"""the tight box in the rectangle of a detector: left, top, right and bottom as shares of its width
and height. Medians over 41 LFPW and HELEN training faces (docs/detection.md). InsightFace's and
RetinaFace's detectors learnt from the same rectangles as YuNet (WIDER FACE) and share its map.
MediaPipe's is of BlazeFace for short range."""

Boxes = Sequence[Box | Sequence[float]] | NDArray[np.float64]

_HINTS: dict[BoxFormat, str] = {
    "xyxy": 'rows of x, y, width, height need box_format="xywh"',
    "xywh": 'rows of corners x0, y0, x1, y1 need box_format="xyxy"',
    "cxcywh": 'rows of x, y, width, height need box_format="xywh", rows of corners "xyxy"',
}
"""what else rows may mean that do not fit as the format that was said"""
_SLIM = 2.2
"""a face's tight box is never so many times as long as wide"""
_MISFIT = 0.25
"""intersection over union of a given box and the landmarks' own below which they disagree"""
_DOUBTFUL = 0.2
"""confidence below which a face in a given box is doubted. Of 120 faces of 300-W none has so
little in its right box, and 101 of 101 have whose x, y, width, height were taken for corners
and that pass every other check here."""


def as_boxes(
    boxes: Boxes,
    box_format: BoxFormat = "xyxy",
    relative: bool = False,
    size: tuple[int, int] | None = None,
    name: str = "",
    source: BoxSource = "tight",
) -> list[Box]:
    """Boxes given as `Box`, or as rows of four numbers.

    `relative` rows are shares of the image's width and height, 0..1, and need its `size`
    (width, height). With a size, boxes that lie outside the image are refused. `name` is the
    image's, for warnings; `source` is the detector that drew them.

    >>> as_boxes([[10, 20, 30, 40]], "xywh")
    [Box(x0=10.0, y0=20.0, x1=40.0, y1=60.0, score=1.0)]
    """
    for what, given, kind in (("format", box_format, BoxFormat), ("source", source, BoxSource)):
        check_choice(f"box {what}", given, get_args(kind))
    if any(hasattr(box, "box") for box in boxes):
        raise InputError("boxes holds faces: give their boxes, [face.box for face in faces].")
    if len(boxes) and not isinstance(boxes[0], Box) and np.ndim(boxes[0]) == 0:
        raise InputError("boxes is a list of boxes, one row each: give [[x0, y0, x1, y1]].")
    if relative and size is None:
        raise InputError("relative boxes need the size of their image.")
    shares = size if relative else None
    checked = [
        box if isinstance(box, Box) else _from_row(box, number, box_format, shares)
        for number, box in enumerate(boxes)
    ]
    if source != "tight":
        checked = [tight_in(box, source) for box in checked]
    if size is not None and min(size) > 0:
        for number, box in enumerate(checked):
            if not relative and max(box) <= 1.5 and min(size) > 8:
                raise InputError(
                    f"{_described(box, number, name)} is smaller than two pixels: shares of the "
                    "image's sides need relative_boxes=True."
                )
            hint = "relative_boxes=True is for shares, 0..1" if relative else _HINTS[box_format]
            _check_place(box, size, _described(box, number, name), hint)
    return checked


def tight_in(box: Box, source: BoxSource) -> Box:
    """The tight landmark box in a rectangle of a detector; rough, so prediction may refine it."""
    left, top, right, bottom = _MAPS[source]
    x0, x1 = (box.x0 + share * box.width for share in (left, right))
    y0, y1 = (box.y0 + share * box.height for share in (top, bottom))
    return Box(x0, y0, x1, y1, box.score, detected=True)


def _from_row(
    row: ArrayLike, number: int, box_format: BoxFormat, shares: tuple[int, int] | None
) -> Box:
    """A box of four numbers; `shares`: they are shares of a width and a height in pixels."""
    numbers = np.asarray(row, dtype=np.float64).ravel()
    if len(numbers) != 4:
        raise InputError(
            f"a box has four numbers ({box_format}), got {len(numbers)} in row {number}."
        )
    first, last = numbers[:2], numbers[2:]
    if box_format == "xywh":
        last = first + last
    elif box_format == "cxcywh":
        first, last = first - last / 2, first + last / 2
    if shares is not None:
        # shares count from the outer edge of the first pixel, whose centre is (0, 0)
        first, last = first * shares - 0.5, last * shares - 0.5
    if np.isfinite(numbers).all() and not (last > first).all():
        hint = _HINTS[box_format]
        if box_format == "xyxy":
            hint += ', rows with the centre first "cxcywh"'
        raise InputError(f"box {number} {numbers.round(2).tolist()} has no area: {hint}.")
    return Box(*first.tolist(), *last.tolist())


def _check_place(box: Box, size: tuple[int, int], what: str, hint: str) -> None:
    """Refuse a box that lies outside the image; warn of one that no face fills."""
    width, height = size
    wide = max(0.0, min(box.x1, width - 0.5) - max(box.x0, -0.5))
    high = max(0.0, min(box.y1, height - 0.5) - max(box.y0, -0.5))
    inside = wide * high / (box.width * box.height)
    if inside == 0:
        raise InputError(
            f"{what} lies outside the image of {width} x {height} pixels: check "
            f"its order and scale; {hint}."
        )
    if inside < 0.25:
        _warn(f"{what} lies mostly outside the image of {width} x {height} pixels", hint)
    elif not 1 / _SLIM < box.width / box.height < _SLIM:
        _warn(f"{what} is too long for a face", hint)


def warn_of_misfits(
    boxes: Sequence[Box],
    points: Floats,
    confidence: Floats,
    box_format: BoxFormat = "xyxy",
    name: str = "",
) -> None:
    """Warn where the landmarks (n, k, 2) fill another box than the one that was given, or where
    the confidence (n,), NaN where unknown, says that there is hardly a face."""
    hint = _HINTS[box_format]
    for number, (box, landmarks, sure) in enumerate(zip(boxes, points, confidence, strict=True)):
        low, high = landmarks.min(axis=0), landmarks.max(axis=0)
        if not (high > low).all():
            continue
        fit = box.iou(Box(low[0], low[1], high[0], high[1]))
        what = _described(box, number, name)
        if fit < _MISFIT:
            _warn(f"{what} does not fit the landmarks found in it (IoU {fit:.2f})", hint)
        elif sure < _DOUBTFUL:
            _warn(f"{what} hardly holds a face (confidence {sure:.2f})", hint)


def _described(box: Box, number: int, name: str) -> str:
    where = f" of {name}" if name else ""
    return f"box {number}{where} {[round(edge, 2) for edge in box]}"


def _warn(what: str, hint: str) -> None:
    tight = "boxes are tight, from the brows to the chin"
    warn_caller(f"{what}: {tight}; {hint}.", BoxWarning)
