"""Results as JSON on standard output: nothing is written to disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from luvli.errors import InputError
from luvli.faces import FaceLandmarks
from luvli.image.detect import MIN_SCORE
from luvli.image.read import ImageSource
from luvli.prediction.predictor import Predictor
from luvli.prediction.result import Result

Wanted = Callable[[FaceLandmarks], bool]


def image_records(
    predictor: Predictor,
    images: Iterable[tuple[str, ImageSource]],
    wanted: Wanted = lambda _: True,
    min_score: float = MIN_SCORE,
    try_rotations: bool = False,
) -> Iterator[dict[str, Any]]:
    """One record for each image: its name and its faces, or the sentence why not."""
    for name, source in images:
        try:
            faces = predictor.predict(source, min_score=min_score, try_rotations=try_rotations)
            rows = Result(name, tuple(face for face in faces if wanted(face))).rows()
            for row in rows:
                row.pop("image")
            yield {"image": name, "faces": rows}
        except InputError as error:
            yield {"image": name, "faces": [], "error": str(error)}


def video_records(
    predictor: Predictor, path: str, wanted: Wanted, min_score: float, smooth: bool
) -> Iterator[dict[str, Any]]:
    """One record for each frame."""
    try:
        for frame, faces in predictor.track(path, smooth, min_score=min_score):
            result = Result(path, tuple(face for face in faces if wanted(face)))
            rows = result.rows()
            for row in rows:
                row.pop("image"), row.pop("time", None)
            yield {"image": path, "frame": frame.number, "time": frame.time, "faces": rows}
    except InputError as error:
        yield {"image": path, "faces": [], "error": str(error)}


def json_array(records: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Pieces of one JSON array, a line for each record."""
    separator = "[\n"
    for record in records:
        yield separator + json.dumps(record, separators=(",", ":"), allow_nan=False)
        separator = ",\n"
    yield "\n]\n" if separator == ",\n" else "[]\n"
