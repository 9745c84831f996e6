"""A part: as much of a job as is read, predicted and written in one go; and what came of it.

A part's result is one file, written whole. What a part holds never changes once it was planned, so
that doing it twice, on any machine, gives the same file.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.faces import Faces

PartKind = Literal["files", "parquet", "tar", "video"]

DIGITS = {"points": 3, "boxes": 3, "visibility": 4, "occlusion": 4, "scores": 4,
          "confidence": 4, "expected_error": 4, "eyes_closed": 4}  # fmt: skip
"""decimals that mean something: thousandths of a pixel, ten-thousandths of a probability"""
SIGNIFICANT = 6
"""digits of a covariance, which may be tiny or huge and stays positive-definite"""
_TEN = np.array([float(f"1e{power}") for power in range(301)])
_ARRAYS = ("points", "covariance", "visibility", "boxes", "scores", "occlusion", "confidence",
           "expected_error", "eyes_closed", "accepted", "track", "time",
           "error_factors")  # fmt: skip
_SETTINGS = ("markup", "likelihood", "visibility_trained", "covariance_trained",
             "occlusion_trained", "measure_scale")  # fmt: skip


@dataclass(frozen=True)
class Part:
    """What one worker takes at a time."""

    number: int
    """place in the plan, from 0"""
    kind: PartKind
    place: str
    """the Parquet file, tar or video; of single files, the first one"""
    count: int
    """images or frames in it: rows that must come out"""
    items: list[Any] = field(default_factory=list)
    """files: [path, stem of its outputs, stamp]; tar: [name, offset, size, error] of each image;
    else empty"""
    about: dict[str, Any] = field(default_factory=dict)
    """stamp of the file; parquet: row_group, first_row, image, name; video: stem, and segment or
    error"""

    @property
    def name(self) -> str:
        """What its files are called.

        >>> Part(17, "tar", "s3://b/train-17.tar", 9).name
        'part-0000017'
        """
        return f"part-{self.number:07d}"

    def name_of(self, index: int) -> str:
        """An image's name."""
        if self.kind == "files":
            return str(self.items[index][0])
        if self.kind == "video":
            return self.place
        inside = self.items[index][0] if self.kind == "tar" else self.about["first_row"] + index
        return f"{self.place}#{inside}"

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Part:
        return cls(**json.loads(text))


class Row(NamedTuple):
    """One image, or one frame of a video: its faces, or the sentence why there is no answer."""

    image: str
    """path, URI, TAR#MEMBER or PARQUET#ROW"""
    faces: Faces
    error: str = ""
    size: tuple[int, int] = (0, 0)
    """width and height in pixels; 0 where they are not known"""
    frame: int | None = None
    time: float | None = None
    """seconds from the start of the video"""
    filtered: int = 0
    """faces left out because they are not sure enough"""


@dataclass
class Counts:
    """What came of some images and frames."""

    images: int = 0
    """images that were read, with or without a face"""
    frames: int = 0
    without_face: int = 0
    faces: int = 0
    accepted: int = 0
    for_review: int = 0
    filtered: int = 0
    failed: int = 0
    """images and frames"""

    def add(self, other: Counts) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def add_row(self, row: Row) -> None:
        if row.error:
            self.failed += 1
            return
        if row.frame is None:
            self.images += 1
            self.without_face += not len(row.faces)
        else:
            self.frames += 1
        self.faces += len(row.faces)
        self.filtered += row.filtered
        if row.faces.accepted is not None:
            accepted = int(row.faces.accepted.sum())
            self.accepted += accepted
            self.for_review += len(row.faces) - accepted

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Counts:
        counts = cls()
        for row in rows:
            counts.add_row(row)
        return counts


@dataclass
class PartResult:
    """What came of one part, as it travels in files."""

    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    """sentences about the part as a whole: where a video broke off"""
    seconds: dict[str, float] = field(default_factory=dict)
    """by stage"""

    def to_bytes(self) -> bytes:
        """As the content of an npz file."""
        faces = Faces.concatenate([row.faces for row in self.rows])
        arrays = {name: getattr(faces, name) for name in _ARRAYS}
        about = {
            "rows": [(len(row.faces), *row._replace(faces=None)) for row in self.rows],  # type: ignore[arg-type]
            "notes": self.notes,
            "settings": {name: getattr(faces, name) for name in _SETTINGS},
        }
        content = io.BytesIO()
        text = np.frombuffer(json.dumps(about, default=dict).encode(), np.uint8)
        np.savez(content, about=text, **{n: a for n, a in arrays.items() if a is not None})
        return content.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes, place: str) -> PartResult:
        """The inverse; `place` is for the sentence about a damaged file."""
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                values: dict[str, Any] = {name: arrays[name] for name in arrays.files}
            about = json.loads(values.pop("about").tobytes())
            faces = Faces(**values, **about["settings"])
            ends = np.cumsum([row[0] for row in about["rows"]]).tolist()
            rows = [
                Row(name, faces[end - count : end], error, tuple(size), *rest)
                for (count, name, _, error, size, *rest), end in zip(
                    about["rows"], ends, strict=True
                )
            ]
            return cls(rows, about["notes"])
        except Exception as error:  # numpy, zipfile and json have a kind for each damage
            raise damaged(place, error) from error


def damaged(place: str, error: Exception) -> InputError:
    """The sentence about a part's file that cannot be read."""
    return InputError(
        f"{place} is damaged ({type(error).__name__}): delete it and give the same command."
    )


def rounded(faces: Faces, measures: bool = False) -> Faces:
    """The faces without the digits that say nothing, and, unless `measures` are wanted, without
    what only these need; a file is less than half as large."""
    changes: Mapping[str, Any] = {
        name: np.round(getattr(faces, name), digits) for name, digits in DIGITS.items()
    }
    factors = faces.error_factors if measures else None
    covariance = significant(faces.covariance)
    return replace(faces, **changes, covariance=covariance, regions=None, error_factors=factors)


def significant(values: Floats, digits: int = SIGNIFICANT) -> Floats:
    """Numbers with so many digits from the first that is not 0, as f"{value:.6g}" writes them.

    >>> significant(np.array([123.456789, -0.00123456789, 0.0, np.nan])).tolist()
    [123.457, -0.00123457, 0.0, nan]
    """
    size = np.abs(values)
    usual = (size > 1e-280) & (size < 1e280)  # of others the powers below overflow
    place = np.floor(np.log10(size, out=np.zeros_like(size), where=usual)).astype(np.int64)
    power = digits - 1 - place
    # an integer divided by, or times, an exact power of ten is the double next to the decimal
    grow, shrink = _TEN[np.clip(power, 0, 300)], _TEN[np.clip(-power, 0, 300)]
    return np.where(usual, np.rint(values * grow / shrink) / grow * shrink, values)
