"""Photographs that lend rendered faces their skins and backgrounds.

They are named by a string that travels to worker processes: a folder, whose images may have `.pts`
files beside them, or a `.json` file of faces (`write_faces`), which also says where in each image
the face is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from luvli.data.formats import read_pts
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError
from luvli.files import read_text, write_text
from luvli.image.read import IMAGE_SUFFIXES
from luvli.synthetic.arrays import Bools, Doubles

MIN_LANDMARKS = 55
"""located landmarks that a face needs to lend its skin"""


class PhotographedFace(NamedTuple):
    """A photograph, and what is known of the face in it."""

    image: Path
    points: Doubles | None
    """(68, 2) image pixels, NaN where a landmark has no location; None if hardly any has"""
    box: Doubles | None
    """(4,) x0, y0, x1, y1 around the landmarks in image pixels, or None"""
    by_hand: bool = True
    """whether people placed the points; False for a model's own predictions"""
    covered: tuple[int, ...] = ()
    """numbers of the landmarks that something covers, where labels say so"""


@lru_cache(maxsize=4)
def photographed_faces(source: str) -> tuple[PhotographedFace, ...]:
    """The photographs of a folder, in order, or those that a .json file names; never none."""
    if Path(source).suffix == ".json" and Path(source).is_file():
        return tuple(_listed(source))
    if not Path(source).is_dir():
        raise InputError(f"{source} is not a folder: give one with photographs.")
    images = sorted(f for f in Path(source).rglob("*") if f.suffix.lower() in IMAGE_SUFFIXES)
    if not images:
        raise InputError(f"{source} holds no photographs: give a folder with images.")
    return tuple(_with_label_beside(image) for image in images)


def write_faces(records: Iterable[FaceRecord], folder: Path) -> str:
    """A `.json` file that names these faces, in `folder`; equal faces give equal names.

    A face with fewer than `MIN_LANDMARKS` located landmarks has no points, only its box.
    """
    faces = []
    for record in records:
        if record.image is None:
            continue
        box = record.tight_box if record.box is None else record.box
        located: Bools = np.asarray(np.isfinite(record.points).all(axis=1))
        rows = zip(record.points.round(2).tolist(), located, strict=True)
        points = [row if known else [None, None] for row, known in rows]
        face: dict[str, Any] = {
            "image": str(record.image.resolve()),
            "points": points if located.sum() >= MIN_LANDMARKS else None,
            "box": box.round(2).tolist() if np.isfinite(box).all() else None,
            "by_hand": record.covariance is None,
        }
        covered = np.flatnonzero(record.visibility == Visibility.EXTERNALLY_OCCLUDED).tolist()
        faces.append(face | ({"covered": covered} if covered else {}))
    text = json.dumps(sorted(faces, key=lambda face: str(face["image"])))
    path = folder / f"photographs-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    write_text(path, text)
    return str(path.resolve())


def _listed(source: str) -> Iterable[PhotographedFace]:
    try:
        faces: list[dict[str, Any]] = json.loads(read_text(source))
    except json.JSONDecodeError as error:
        raise InputError(f"{source} is not a list of photographed faces ({error}).") from error
    for face in faces:
        image = Path(source).parent / face["image"]
        if not image.is_file():
            raise InputError(f"{source} names {image}, which does not exist: take it out.")
        points, box = (
            None if face[what] is None else np.array(face[what], dtype=np.float64)
            for what in ("points", "box")
        )
        covered = tuple(face.get("covered", ()))
        yield PhotographedFace(image, points, box, face["by_hand"], covered)


def _with_label_beside(image: Path) -> PhotographedFace:
    label = image.with_suffix(".pts")
    if not label.exists():
        return PhotographedFace(image, None, None)
    points = read_pts(label, signed=False).points
    box = np.concatenate([points.min(axis=0), points.max(axis=0)])
    return PhotographedFace(image, points if len(points) == 68 else None, box)
