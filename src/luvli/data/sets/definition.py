"""What every data set shares: what is asked of its reader, what it gives, how bad data is reported.

A reader is a function of a `Reading`: that says which part of a data set is wanted, and takes each
face, whatever is wrong with the folder, and notes. A reader never stops at a bad file and never
skips one silently; `load_set` decides what happens then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

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


@dataclass(frozen=True)
class SetInfo:
    """A data set: how to read it, and what `sets.toml` says about it."""

    name: str
    read: Callable[[Reading], None]
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

    def __init__(self, records: Iterable[FaceRecord] = (), name: str = "", split: str = "") -> None:
        super().__init__(records)
        self.name, self.split = name, split
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        """sentences worth knowing that are not errors"""

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


@dataclass
class Reading:
    """The part of a data set that is wanted, and what its reader has found of it so far."""

    root: Path
    info: SetInfo
    split: str
    protocol: str = ONLY_PROTOCOL
    subset: str | None = None
    images: bool = True
    """False reads the labels alone: no image is looked for, and records have none"""
    found: FaceSet = field(init=False)

    def __post_init__(self) -> None:
        self.found = FaceSet((), self.info.name, self.split)

    def wants(self, *subsets: str) -> bool:
        """Whether faces that belong to these subsets are asked for."""
        return self.subset is None or self.subset in subsets

    def face(
        self,
        label: Path | str,
        face_id: str,
        read: Callable[[], FaceRecord | None],
        image: Path | None,
        image_name: str = "",
        subsets: Sequence[str] = (),
        names_image: bool = False,
    ) -> None:
        """Take a face, which is read only if it is wanted.

        `label`: its file, or what else it goes by in messages. `read` gives points, classes, box
        and attributes, `InputError` where they are bad, None where the face turns out to belong to
        another part. `image` is None where it is not there; `image_name` is what messages call
        it, and what the label itself calls it if it `names_image`.
        """
        if not self.wants(*subsets):
            return
        if self.images and image is None:
            wanted = image_name or f"{Path(label).stem}.jpg or .png"
            why = f"{label} has no image: {wanted} is not there; put it back."
            self.problem(label, "missing image", why)
            return
        record = None
        with self.reporting(label):
            record = read()
        if record is None:
            return
        attributes = {"subsets": list(subsets), **record.attributes}
        if names_image and not self.images:
            attributes[IMAGE_NAME] = image_name
        identity = {"dataset": self.info.name, "face_id": face_id, "attributes": attributes}
        self.add(record.with_changes(image=image if self.images else None, **identity))

    def add(self, record: FaceRecord) -> None:
        """Take a whole record, or what is implausible about it."""
        if problem := implausible(record):
            self.found.problems.append(problem)
        else:
            self.found.append(record)

    def problem(self, path: Path | str, kind: ProblemKind, sentence: str) -> None:
        self.found.problems.append(Problem(str(path), kind, sentence))

    @contextmanager
    def reporting(self, path: Path | str) -> Iterator[None]:
        """What is wrong inside is a problem of the label file `path`."""
        try:
            yield
        except InputError as error:
            named = Path(path).name in str(error)
            self.problem(path, "bad label", str(error) if named else f"{path}: {error}")

    def missing_folder(self, folder: Path, holds: str) -> None:
        why = f"{folder} is missing: it should hold {holds}; unpack it."
        self.problem(folder, "missing folder", why)

    def missing_file(self, path: Path, remedy: str = "download it") -> None:
        self.problem(path, "missing file", f"{path} is missing: {remedy}.")

    def count_boxes(self, boxes: Sequence[object], file: str) -> None:
        """Note that some of the `boxes`, None each, are not in the `file` that should hold them."""
        missing = sum(box is None for box in boxes)
        if missing and self.images:
            self.found.notes.append(
                f"{missing:,} of {len(boxes):,} faces have no box in {file}: they are cropped by "
                "the tight box of their landmarks, with noise of 5 %."
            )


def subsets_of(record: FaceRecord) -> tuple[str, ...]:
    """The subsets that a face belongs to, as its reader wrote them down."""
    return tuple(record.attributes.get("subsets", ()))


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
