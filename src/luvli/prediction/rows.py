"""What comes of each image or frame, and how the rows of a part are kept in a file meanwhile."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.faces import Faces

DIGITS = {"points": 3, "boxes": 3, "visibility": 4, "occlusion": 4, "scores": 4,
          "confidence": 4, "expected_error": 4, "eyes_closed": 4}  # fmt: skip
"""decimals that mean something: thousandths of a pixel, ten-thousandths of a probability"""
SIGNIFICANT = 6
"""digits of a covariance, which may be tiny or huge and stays positive-definite"""
NO_FACES = Faces.empty("ibug68")
"""of an image that could not be read"""


class Row(NamedTuple):
    """One image, or one frame of a video: its faces, or the sentence why there is no answer."""

    image: str
    """path, URI, TAR#MEMBER or PARQUET#ROW"""
    faces: Faces = NO_FACES
    error: str = ""
    size: tuple[int, int] = (0, 0)
    """width and height in pixels; 0 where they are not known"""
    frame: int | None = None
    time: float | None = None
    """seconds from the start of the video"""
    filtered: int = 0
    """faces left out because they are not sure enough"""

    def select(self, min_confidence: float | None) -> Row:
        """The row with those faces that are sure enough."""
        if min_confidence is None:
            return self
        sure = np.nan_to_num(self.faces.confidence) >= min_confidence
        return self._replace(faces=self.faces[sure], filtered=int((~sure).sum()))


def count_rows(rows: Iterable[Row]) -> Counter[str]:
    """What came of some rows: images, frames and without_face of those that were read; failed; and
    faces, of these accepted and for_review by the triage; filtered, which were left out."""
    counts: Counter[str] = Counter()
    for row in rows:
        if row.error:
            counts["failed"] += 1
            continue
        counts["images" if row.frame is None else "frames"] += 1
        counts["without_face"] += row.frame is None and not len(row.faces)
        counts["faces"] += len(row.faces)
        counts["filtered"] += row.filtered
        if row.faces.accepted is not None:
            accepted = int(row.faces.accepted.sum())
            counts.update(accepted=accepted, for_review=len(row.faces) - accepted)
    return counts


def pack_rows(rows: Sequence[Row]) -> bytes:
    """The rows of a part as the content of an npz file."""
    faces = Faces.concatenate([row.faces for row in rows])
    values = {each.name: getattr(faces, each.name) for each in fields(Faces)}
    arrays: dict[str, Any] = {n: v for n, v in values.items() if isinstance(v, np.ndarray)}
    about = {
        "rows": [[len(row.faces), row.image, *row[2:]] for row in rows],
        "settings": {name: value for name, value in values.items() if name not in arrays},
    }
    content = io.BytesIO()
    text = np.frombuffer(json.dumps(about, default=dict).encode(), np.uint8)
    np.savez(content, about=text, **arrays)
    return content.getvalue()


def unpack_rows(content: bytes, place: str) -> list[Row]:
    """The inverse; `place` is for the sentence about a damaged file."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            values: dict[str, Any] = {name: arrays[name] for name in arrays.files}
        about = json.loads(values.pop("about").tobytes())
        faces = Faces(**values, **about["settings"])
        rows, end = [], 0
        for count, image, error, size, *rest in about["rows"]:
            rows.append(Row(image, faces[end : end + count], error, tuple(size), *rest))
            end += count
    except Exception as error:  # numpy, zipfile and json have a kind for each damage
        raise damaged(place, error) from error
    return rows


def damaged(place: str, error: Exception) -> InputError:
    """The sentence about a part's file that cannot be read."""
    return InputError(
        f"{place} is damaged ({type(error).__name__}): delete it and give the same command."
    )


def rounded(faces: Faces, measures: bool = False) -> Faces:
    """The faces without the digits that say nothing, and, unless `measures` are wanted, without
    what only these need; a file is less than half as large."""
    changes: dict[str, Any] = {n: np.round(getattr(faces, n), d) for n, d in DIGITS.items()}
    factors = faces.error_factors if measures else None
    covariance = significant(faces.covariance)
    return replace(faces, **changes, covariance=covariance, regions=None, error_factors=factors)


def significant(values: Floats, digits: int = SIGNIFICANT) -> Floats:
    """Numbers with so many digits from the first that is not 0, as f"{value:.6g}" writes them.

    >>> significant(np.array([123.456789, -0.00123456789, 0.0, np.nan])).tolist()
    [123.457, -0.00123457, 0.0, nan]
    """
    size = np.abs(values)
    place = np.floor(np.log10(size, out=np.zeros_like(size), where=size > 0))
    power = 10.0 ** np.clip(digits - 1 - place, -300, 300)
    return np.asarray(np.rint(values * power) / power)
