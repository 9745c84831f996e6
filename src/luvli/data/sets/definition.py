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

    def face(
        self, record: FaceRecord | Problem, label: Path | str, image: Path | None, name: str
    ) -> FaceRecord | Problem:
        """The face of a label with its image, or what is wrong with either.

        `image` is where it was found, `name` how it is called in the message.
        """
        if self.images and image is None:
            return missing_image(label, name)
        if isinstance(record, Problem) or not self.images:
            return record
        return record.with_changes(image=image)

    def image_name(self, name: str) -> dict[str, str]:
        """The attribute that keeps an image's name in records that are wanted without images."""
        return {} if self.images else {IMAGE_NAME: name}


Made = TypeVar("Made")

ReadItem = FaceRecord | Problem | Note
Reader = Callable[[Request], Iterator[ReadItem]]


@dataclass(frozen=True)
class SetInfo:
    """A data set: what the paper says about it, and how to read it."""

    name: str
    title: str
    read: Reader
    markup: str = "ibug68"
    points: str = "68"
    """as in the paper's Table 1, for instance 68/39"""
    train: int | None = None
    test: int | None = None
    """sizes as in the paper's Table 1; None where the paper gives none"""
    profile: str = "no"
    self_occlusion: str = "no"
    external_occlusion: str = "no"
    """yes, no, F/P (frontal and profile set apart) or T (labelled as if transparent)"""
    splits: tuple[str, ...] = ("train", "test")
    protocols: tuple[str, ...] = (ONLY_PROTOCOL,)
    expected: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """protocol -> "split" or "split/subset" -> number of faces in the paper"""
    subsets: tuple[str, ...] = ()
    enlarge: float = 1.1
    """how much the published code enlarges this set's boxes before it crops"""
    first_pixel: int = 1
    """what the set's files call the centre of the first pixel"""
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
            return self.with_records(self.records[index])
        return self.records[index]

    def with_records(self, records: Iterable[FaceRecord]) -> FaceSet:
        """The same part of the data set with other records."""
        return FaceSet(records, self.name, self.split, self.problems, self.notes)

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


def attempt(path: Path | str, make: Callable[[], Made]) -> Made | Problem:
    """What `make` gives, or the problem that the label file has."""
    try:
        return make()
    except InputError as error:
        sentence = str(error)
        named = Path(path).name in sentence
        return Problem(str(path), "bad label", sentence if named else f"{path}: {sentence}")


def missing_image(label: Path | str, wanted: str) -> Problem:
    return Problem(
        str(label), "missing image", f"{label} has no image: {wanted} is not there; put it back."
    )


def missing_folder(folder: Path, holds: str) -> Problem:
    return Problem(
        str(folder), "missing folder", f"{folder} is missing: it should hold {holds}; unpack it."
    )


def missing_file(path: Path, remedy: str = "download it") -> Problem:
    return Problem(str(path), "missing file", f"{path} is missing: {remedy}.")


def all_visible(points: NDArray[np.floating]) -> NDArray[np.int8]:
    """Visibility for a set without visibility labels: every located landmark counts as v = 1."""
    located = np.isfinite(points).all(axis=1)
    return np.where(located, Visibility.UNOCCLUDED, Visibility.UNLABELLED).astype(np.int8)


def implausible(record: FaceRecord, size: tuple[int, int] | None = None) -> Problem | None:
    """The problem of a face whose labels give no location, or one further outside its image
    (`size`: width and height) than the face is large."""
    if not record.labelled.any():  # a portrait that nobody has labelled: nothing to be wrong
        return None
    located = record.points[record.visible]
    extent = float(np.ptp(located, axis=0).max()) if len(located) else 0.0
    place = str(record.image or record.name)
    kind: ProblemKind = "bad label"
    if not len(located):
        why = "has no located landmark: leave it out"
    elif extent <= 0:
        why = "has all landmarks in one place: label it again"
    elif (located < -extent).any() or (located > np.array(size or (20_000, 20_000)) + extent).any():
        kind = "far outside"
        why = "has a landmark far outside its image: check that label and image belong together"
    else:
        return None
    return Problem(place, kind, f"{record.name} ({place}) {why}.")
