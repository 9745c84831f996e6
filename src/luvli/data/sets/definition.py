"""What every reader shares: what is asked of it, what it gives, how it reports bad data.

A reader is a generator. It is asked for one part of a data set (`Request`) and yields a
`FaceRecord` for each good face, a `Problem` for each bad one, and `Note`s worth knowing. It
never stops at a bad file and never skips one silently; `load_set` decides what happens then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from luvli.data.record import IMAGE_NAME, FaceRecord, Visibility
from luvli.errors import InputError
from luvli.files import PathLike

FAR_OUTSIDE = 1.0
"""A landmark further outside the image than this times the face's size is a mistake."""
ONLY_PROTOCOL = "published"
"""name of the only protocol of a data set that has just one"""

ProblemKind = Literal[
    "missing folder",
    "missing file",
    "missing image",
    "missing label",
    "bad label",
    "bad image",
    "far outside",
]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a data set on disk."""

    path: str
    kind: ProblemKind
    sentence: str
    """what is wrong, and what to do about it"""

    def __str__(self) -> str:
        return self.sentence


class DataWarning(UserWarning):
    """Something about a data set that the user should know before trusting a figure."""


class Note(NamedTuple):
    """Something true and worth knowing that is not an error."""

    sentence: str


@dataclass(frozen=True)
class Request:
    """The part of a data set that is wanted."""

    root: Path
    split: str
    protocol: str = ONLY_PROTOCOL
    subset: str | None = None
    images: bool = True
    """False reads the labels alone: no image is looked for, and records have none"""

    def wants(self, *subsets: str) -> bool:
        """Whether faces that belong to these subsets are asked for."""
        return self.subset is None or self.subset in subsets


Made = TypeVar("Made")

ReadItem = FaceRecord | Problem | Note
Reader = Callable[[Request], Iterator[ReadItem]]


@dataclass(frozen=True)
class SetInfo:
    """A data set: what the paper says about it, and how to read it."""

    name: str
    title: str
    markup: str
    points: str
    """as in the paper's Table 1, for instance 68/39"""
    train: int | None
    test: int | None
    """sizes as in the paper's Table 1; None where the paper gives none"""
    profile: str
    self_occlusion: str
    external_occlusion: str
    """yes, no, F/P (frontal and profile set apart) or T (labelled as if transparent)"""
    read: Reader
    splits: tuple[str, ...] = ("train", "test")
    protocols: tuple[str, ...] = (ONLY_PROTOCOL,)
    expected: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """protocol -> "split" or "split/subset" -> number of faces in the paper"""
    subsets: tuple[str, ...] = ()
    enlarge: float = 1.1
    """how much the published code enlarges this set's boxes before it crops"""
    licence: str = ""
    layout: str = ""
    """one line: what the folder must hold"""
    confirmed: str = ""
    """which of this reader's numbers and layouts were seen on real files, and which are from
    papers and descriptions alone"""
    checked: tuple[str, ...] | None = None
    """the splits that `check_set` counts; None for all"""
    detect: Callable[[Path], str] | None = None
    """tells the protocol from what is on disk, where two kinds of files hold the same set"""

    @property
    def test_split(self) -> str:
        """What to measure on where nobody says: all of a folder of one's own, else the test set."""
        return next((s for s in ("all", "test") if s in self.splits), self.splits[0])


def off_image_invisible(record: FaceRecord) -> FaceRecord:
    """Landmarks left of or above the image as self-occluded, as the published code reads
    AFLW-19 and WFLW, where a missing label is written as a coordinate of at most zero."""
    off = record.visible & (np.nan_to_num(record.points, nan=1.0) <= 0).any(axis=1)
    classes = np.where(off, Visibility.SELF_OCCLUDED, record.visibility)
    return record.with_changes(visibility=classes)


class FaceSet(Sequence[FaceRecord]):
    """The faces of one part of a data set, with what was wrong on the way."""

    def __init__(
        self,
        records: Iterable[FaceRecord],
        name: str = "",
        split: str = "",
        problems: Iterable[Problem] = (),
        notes: Iterable[str] = (),
    ) -> None:
        self.records = tuple(records)
        self.name = name
        self.split = split
        self.problems = tuple(problems)
        self.notes = tuple(notes)

    def __len__(self) -> int:
        return len(self.records)

    @overload
    def __getitem__(self, index: int) -> FaceRecord: ...
    @overload
    def __getitem__(self, index: slice) -> FaceSet: ...
    def __getitem__(self, index: int | slice) -> FaceRecord | FaceSet:
        if isinstance(index, slice):
            return FaceSet(self.records[index], self.name, self.split, self.problems, self.notes)
        return self.records[index]

    def __repr__(self) -> str:
        return (
            f"FaceSet({self.name} {self.split}: {len(self)} faces, {len(self.problems)} problems)"
        )

    def subset_counts(self) -> Counter[str]:
        """How many faces belong to each subset; a face may belong to several."""
        return Counter(name for record in self for name in subsets_of(record))


def subsets_of(record: FaceRecord) -> tuple[str, ...]:
    """The subsets that a face belongs to, as its reader wrote them down."""
    return tuple(record.attributes.get("subsets", ()))


def attempt(path: Path, make: Callable[[], Made]) -> Made | Problem:
    """What `make` gives, or the problem that the label file has."""
    try:
        return make()
    except InputError as error:
        sentence = str(error)
        named = sentence if path.name in sentence else f"{path}: {sentence}"
        return Problem(str(path), "bad label", named)


def named(image: Path | None, name: PathLike | None) -> dict[str, str]:
    """The attribute that keeps an image's name where the image itself was not looked for."""
    return {IMAGE_NAME: Path(name).as_posix()} if image is None and name else {}


def missing_image(label: Path | str, wanted: str) -> Problem:
    return Problem(
        str(label), "missing image", f"{label} has no image: {wanted} is not there; put it back."
    )


def missing_folder(folder: Path, holds: str) -> Problem:
    return Problem(
        str(folder), "missing folder", f"{folder} is missing: it should hold {holds}; unpack it."
    )


def all_visible(points: NDArray[np.floating]) -> NDArray[np.int8]:
    """Visibility for a set without visibility labels: every located landmark counts as v = 1."""
    return np.where(np.isfinite(points).all(axis=1), 1, -1).astype(np.int8)


def implausible(record: FaceRecord, size: tuple[int, int] | None = None) -> Problem | None:
    """The problem of a face whose labels give no location, or one far outside its image."""
    if not record.labelled.any():  # a portrait that nobody has labelled: nothing to be wrong
        return None
    located = record.points[record.visible]
    place = str(record.image or record.name)
    if not len(located):
        return Problem(
            place, "bad label", f"{record.name} ({place}) has no located landmark: leave it out."
        )
    face = float(np.ptp(located, axis=0).max())
    if face <= 0:
        return Problem(
            place, "bad label", f"{record.name} ({place}) has all landmarks in one place."
        )
    low = -FAR_OUTSIDE * face
    high = np.array(size if size is not None else (20_000, 20_000)) + FAR_OUTSIDE * face
    if (located < low).any() or (located > high).any():
        return Problem(
            place,
            "far outside",
            f"{record.name} ({place}) has a landmark far outside its image: "
            "check that label and image belong together.",
        )
    return None
