"""Photographs that lend rendered faces their skins and backgrounds.

They are named by a string that travels to worker processes: a folder, a `.txt` file with one
image on each line, or a `.json` file of faces (`write_faces`), which also says where in each image
the face is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from luvli.data.formats import read_pts
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError
from luvli.files import read_text, write_text
from luvli.image.read import IMAGE_SUFFIXES
from luvli.synthetic.arrays import Bools, Doubles

LEAST = 55
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
    covered: Bools | None = None
    """(68,) which landmarks something covers, where labels say so"""


def photographs(source: str) -> tuple[Path, ...]:
    """The images in a folder, in order, or those that a .txt or .json file names.

    A sentence when there are none.
    """
    if Path(source).suffix == ".json" and Path(source).is_file():
        return _existing(source, [face["image"] for face in _faces_in(source)])
    if Path(source).suffix == ".txt" and Path(source).is_file():
        return _existing(source, [line for line in read_text(source).split("\n") if line])
    if not Path(source).is_dir():
        raise InputError(f"{source} is not a folder: give one with photographs.")
    found = sorted(f for f in Path(source).rglob("*") if f.suffix.lower() in IMAGE_SUFFIXES)
    if not found:
        raise InputError(f"{source} holds no photographs: give a folder with images.")
    return tuple(found)


@lru_cache(maxsize=4)
def photographed_faces(source: str) -> tuple[PhotographedFace, ...]:
    """The photographs with the faces in them; from `.pts` files beside those of a folder."""
    images = photographs(source)
    if Path(source).suffix == ".json":
        return tuple(
            PhotographedFace(
                image,
                _array(face["points"]),
                _array(face["box"]),
                bool(face["by_hand"]),
                _covered(face.get("covered")),
            )
            for image, face in zip(images, _faces_in(source), strict=True)
        )
    return tuple(_with_label_beside(image) for image in images)


def write_faces(records: Iterable[FaceRecord], folder: Path) -> str:
    """A `.json` file that names these faces, in `folder`; equal faces give equal names.

    A face with fewer than `LEAST` located landmarks has no points, only its box.
    """
    faces = []
    for record in records:
        if record.image is not None:
            box = record.tight_box if record.box is None else record.box
            located: Bools = np.asarray(np.isfinite(record.points).all(axis=1))
            face = {
                "image": str(record.image.resolve()),
                "points": _plain(record.points, located) if located.sum() >= LEAST else None,
                "box": box.round(2).tolist() if np.isfinite(box).all() else None,
                "by_hand": record.covariance is None,
            }
            covered = np.flatnonzero(record.visibility == Visibility.EXTERNALLY_OCCLUDED)
            faces.append(face | ({"covered": covered.tolist()} if len(covered) else {}))
    text = json.dumps(sorted(faces, key=lambda face: str(face["image"])))
    path = folder / f"photographs-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    write_text(path, text)
    return str(path.resolve())


def _plain(points: Doubles, located: Bools) -> list[list[float | None]]:
    """Points as JSON holds them: null for what has no location."""
    rounded = points.round(2).tolist()
    return [row if known else [None, None] for row, known in zip(rounded, located, strict=True)]


def _with_label_beside(image: Path) -> PhotographedFace:
    label = image.with_suffix(".pts")
    if not label.exists():
        return PhotographedFace(image, None, None)
    points = read_pts(label, signed=False).points
    box = np.concatenate([points.min(axis=0), points.max(axis=0)])
    return PhotographedFace(image, points if len(points) == 68 else None, box)


def _faces_in(source: str) -> list[dict[str, object]]:
    try:
        faces: list[dict[str, object]] = json.loads(read_text(source))
    except json.JSONDecodeError as error:
        raise InputError(f"{source} is not a list of photographed faces ({error}).") from error
    return faces


def _existing(source: str, names: Iterable[object]) -> tuple[Path, ...]:
    files = tuple(Path(source).parent / str(name) for name in names)
    for file in files:
        if not file.is_file():
            raise InputError(f"{source} names {file}, which does not exist: take it out.")
    return files


def _covered(numbers: object) -> Bools | None:
    if numbers is None:
        return None
    return np.isin(np.arange(68), np.array(numbers, dtype=np.int64))


def _array(values: object) -> Doubles | None:
    return None if values is None else np.array(values, dtype=np.float64)
