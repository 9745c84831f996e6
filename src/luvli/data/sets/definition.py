"""What every data set shares: what is asked of its reader, what it gives, how bad data is reported.

A reader is a generator. It is asked for one part of a data set (`Request`) and yields an `Entry`
for each face, a `Problem` for whatever is wrong with the folder, and notes as plain sentences. It
never stops at a bad file and never skips one silently; `load_set` decides what happens then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from luvli.data.record import IMAGE_NAME, FaceRecord
from luvli.errors import InputError, LuvliWarning

ONLY_PROTOCOL = "published"
"""name of the only protocol of a data set that has just one"""

ProblemKind = Literal[
    "missing folder", "missing file", "missing image", "missing label", "bad label", "bad image",
    "far outside",
]  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a data set on disk."""

    path: str
    kind: ProblemKind
    sentence: str
    """what is wrong, and what to do about it"""

    def __str__(self) -> str:
        return self.sentence


class DataWarning(LuvliWarning):
    """Something about a data set that the user should know before trusting a figure."""


class Request(NamedTuple):
    """The part of a data set that is wanted."""

    root: Path
    split: str
    info: SetInfo
    protocol: str = ONLY_PROTOCOL
    subset: str | None = None
    images: bool = True
    """False reads the labels alone: no image is looked for, and records have none"""

    def wants(self, *subsets: str) -> bool:
        """Whether faces that belong to these subsets are asked for."""
        return self.subset is None or self.subset in subsets


class Entry(NamedTuple):
    """A face that a data set names. It is read when it is known to be wanted."""

    label: Path | str
    """its file, or what else it goes by in messages"""
    face_id: str
    read: Callable[[], FaceRecord | None]
    """points, classes, box and attributes; `InputError` where they are bad, None where the face
    turns out to belong to another part"""
    image: Path | None
    """None where it is not there"""
    image_name: str
    """what the image is called in messages"""
    subsets: Sequence[str] = ()
    names_image: bool = False
    """whether the label itself calls its image `image_name`"""

    def load(self, request: Request) -> FaceRecord | Problem | None:
        """The face, what is wrong with it, or None where it is not wanted."""
        if not request.wants(*self.subsets):
            return None
        if request.images and self.image is None:
            why = f"has no image: {self.image_name} is not there; put it back"
            return Problem(str(self.label), "missing image", f"{self.label} {why}.")
        try:
            record = self.read()
        except InputError as error:
            return bad_label(self.label, error)
        if record is None:
            return None
        attributes = {"subsets": list(self.subsets), **record.attributes}
        if self.names_image and not request.images:
            attributes[IMAGE_NAME] = self.image_name
        return record.with_changes(
            image=self.image if request.images else None,
            dataset=request.info.name,
            face_id=self.face_id,
            attributes=attributes,
        )


ReadItem = Entry | FaceRecord | Problem | str
"""a face, what is wrong, or a note: something worth knowing that is not an error"""


@dataclass(frozen=True)
class SetInfo:
    """A data set: how to read it, and what `sets.toml` says about it."""

    name: str
    read: Callable[[Request], Iterator[ReadItem]]
    title: str
    layout: str
    """one line: what the folder must hold"""
    licence: str
    confirmed: str
    """which of this reader's numbers and layouts were seen on real files, and which are from
    papers and descriptions alone"""
    table: Sequence[str]
    """its row of the paper's Table 1: faces to train and to test, points (68/39: 68 or 39),
    profiles, self-occlusion, external occlusion: yes, no, F/P (frontal and profile set apart) or
    T (labelled as if transparent)"""
    markup: str = "ibug68"
    splits: Sequence[str] = ("train", "test")
    protocols: Sequence[str] = (ONLY_PROTOCOL,)
    subsets: Sequence[str] = ()
    expected: Mapping[str, int] = field(default_factory=dict)
    """"split", "split/subset" or "protocol/split/subset" -> number of faces in the paper"""
    enlarge: float = 1.1
    """how much the published code enlarges this set's boxes before it crops"""
    first_pixel: int = 1
    """what the set's files call the centre of the first pixel"""
    checked: Sequence[str] = ()
    """the splits that `check_set` counts; () for all"""
    detect: Callable[[Path], str] | None = None
    """the protocol of what is on disk, where two kinds of files hold the same set"""

    @property
    def test_split(self) -> str:
        """What to measure on where nobody says: all of a folder of one's own, else the test set."""
        return next((s for s in ("all", "test") if s in self.splits), self.splits[0])


class FaceSet(list[FaceRecord]):
    """The faces of one part of a data set, with what was wrong on the way."""

    def __init__(
        self,
        records: Iterable[FaceRecord] = (),
        name: str = "",
        split: str = "",
        problems: Iterable[Problem] = (),
        notes: Iterable[str] = (),
    ) -> None:
        super().__init__(records)
        self.name, self.split = name, split
        self.problems, self.notes = tuple(problems), tuple(notes)

    @property
    def records(self) -> tuple[FaceRecord, ...]:
        """The faces alone."""
        return tuple(self)

    def __repr__(self) -> str:
        """How many faces of what.

        >>> FaceSet([], "w300", "train")
        FaceSet(w300 train: 0 faces, 0 problems)
        """
        counts = f"{len(self)} faces, {len(self.problems)} problems"
        return f"FaceSet({self.name} {self.split}: {counts})"

    def subset_counts(self) -> Counter[str]:
        """How many faces belong to each subset; a face may belong to several."""
        return Counter(name for record in self for name in subsets_of(record))


def subsets_of(record: FaceRecord) -> tuple[str, ...]:
    """The subsets that a face belongs to, as its reader wrote them down."""
    return tuple(record.attributes.get("subsets", ()))


def bad_label(path: Path | str, error: InputError) -> Problem:
    sentence = str(error)
    named = Path(path).name in sentence
    return Problem(str(path), "bad label", sentence if named else f"{path}: {sentence}")


def missing_folder(folder: Path, holds: str) -> Problem:
    sentence = f"{folder} is missing: it should hold {holds}; unpack it."
    return Problem(str(folder), "missing folder", sentence)


def missing_file(path: Path, remedy: str = "download it") -> Problem:
    return Problem(str(path), "missing file", f"{path} is missing: {remedy}.")


def without_boxes(boxes: Sequence[object], file: str) -> Iterator[str]:
    """A note that some of the `boxes`, None each, are not in the `file` that should hold them."""
    if missing := sum(box is None for box in boxes):
        yield (
            f"{missing:,} of {len(boxes):,} faces have no box in {file}: they are cropped by the "
            "tight box of their landmarks, with noise of 5 %."
        )


def implausible(record: FaceRecord, size: tuple[int, int] | None = None) -> Problem | None:
    """The problem of a face whose labels give no location, or one further outside its image
    (`size`: width and height) than the face is large."""
    if not record.labelled.any():  # a portrait that nobody has labelled: nothing to be wrong
        return None
    located = record.points[record.visible]
    extent = float(np.ptp(located, axis=0).max()) if len(located) else 0.0
    limit = np.array(size or (20_000, 20_000)) + extent
    kind: ProblemKind = "bad label"
    if not len(located):
        why = "has no located landmark: leave it out"
    elif extent <= 0:
        why = "has all landmarks in one place: label it again"
    elif (located < -extent).any() or (located > limit).any():
        kind = "far outside"
        why = "has a landmark far outside its image: check that label and image belong together"
    else:
        return None
    place = str(record.image or record.name)
    return Problem(place, kind, f"{record.name} ({place}) {why}.")
