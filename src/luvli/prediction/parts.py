"""What a job consists of: settings, parts, and what comes of each image of a part.

A part is as much of a job as is read, predicted and written in one go. Its result is one file,
written whole. What a part holds never changes once it was planned, so that doing it twice, on any
machine, gives the same file.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from luvli.arrays import Floats
from luvli.errors import InputError, check_range, require, unknown_choice
from luvli.faces import Faces
from luvli.image.detect import MIN_SCORE
from luvli.prediction.places import is_uri, join
from luvli.prediction.rotations import TryRotations

Format = Literal["json", "csv", "parquet", "pts", "coco", "parts"]
FORMATS: tuple[str, ...] = get_args(Format)
WORK = ".luvli-job"
"""folder in OUT for the plan and for parts that are not yet in their final form"""
DIGITS = {"points": 3, "boxes": 3, "visibility": 4, "occlusion": 4, "scores": 4,
          "confidence": 4, "expected_error": 4, "eyes_closed": 4}  # fmt: skip
"""decimals that mean something: thousandths of a pixel, ten-thousandths of a probability"""
SIGNIFICANT = 6
"""digits of a covariance, which may be tiny or huge and stays positive-definite"""
NO_FACES = Faces.empty("ibug68")
"""of an image that could not be read"""


def check_format(name: str) -> None:
    """Refuse an unknown format, or one whose package is missing, before the work begins."""
    if name not in FORMATS:
        raise unknown_choice("format", name, FORMATS)
    if name in ("parquet", "parts"):
        require("pyarrow", "scale")


@dataclass(frozen=True)
class JobSettings:
    """What a job is asked for; checked before anything is written."""

    out: str
    """folder for the results, or the URI of one"""
    format: str = "json"
    draw: bool = False
    smooth: bool = False
    measures: bool = False
    """also write the faces' measures; of videos a table and a plot of them over time"""
    min_score: float = MIN_SCORE
    min_confidence: float | None = None
    """leave out faces whose alignment is less likely to have succeeded"""
    try_rotations: TryRotations = False
    image_column: str | None = None
    """Parquet: the column with images, as bytes or as paths"""
    name_column: str | None = None
    """Parquet: the column with the images' names"""
    part_size: int | None = None
    """images in a part of single files or of a tar; frames, at least, in a segment of a video"""
    note: str = ""
    """anything else that changes the results: model, box file"""

    def __post_init__(self) -> None:
        check_format(self.format)
        check_range("--min-score", self.min_score, 0, 1)
        check_range("--min-confidence", self.min_confidence or 0, 0, 1)
        check_range("--part-size", self.part_size or 1, 1)
        if is_uri(self.out):
            if self.format != "parts" or self.draw:
                raise InputError(
                    f"{self.out} is a store, which takes --format parts and no drawings: give "
                    "--out a folder for anything else."
                )
        elif Path(self.out).exists() and not Path(self.out).is_dir():
            raise InputError(f"{self.out} is a file: give --out the name of a folder.")

    def select(self, row: Row) -> Row:
        """The row with those faces that are sure enough."""
        if self.min_confidence is None:
            return row
        sure = np.nan_to_num(row.faces.confidence) >= self.min_confidence
        return row._replace(faces=row.faces[sure], filtered=int((~sure).sum()))


@dataclass(frozen=True)
class Part:
    """What one worker takes at a time."""

    number: int
    """place in the plan, from 0"""
    kind: Literal["files", "parquet", "tar", "video"]
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

    def result_place(self, settings: JobSettings, joined: bool = False) -> str:
        """Where its result is: a Parquet file in OUT where these are what is asked for. Videos have
        to be `joined` before that."""
        if settings.format == "parts" and (joined or self.kind != "video"):
            return join(settings.out, f"{self.name}.parquet")
        return join(settings.out, WORK, f"{self.name}.npz")

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Part:
        return cls(**json.loads(text))


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
    arrays: dict[str, Any] = {
        n: value for n, value in values.items() if isinstance(value, np.ndarray)
    }
    settings = {name: value for name, value in values.items() if name not in arrays}
    about = {
        "rows": [[len(row.faces), row.image, *row[2:]] for row in rows],
        "settings": settings,
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
