"""Counting a data set on disk against the paper's tables, and the paper's overview of sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from luvli.data.patches import usable_image
from luvli.data.record import FaceRecord
from luvli.data.sets import SETS, check_folder, get_set, parse_part, read_set
from luvli.data.sets.definition import ONLY_PROTOCOL, FaceSet, Problem, SetInfo
from luvli.files import PathLike
from luvli.progress import Track


class CheckRow(NamedTuple):
    """One line of the table: a split, or a subset of one."""

    protocol: str
    split: str
    subset: str
    """empty for the whole split"""
    labels: int
    """faces with a good label"""
    images: int
    """those of them whose image is there"""
    paper: int | None
    """how many the paper has, where it says"""

    @property
    def title(self) -> str:
        """For instance "split1 test / common"."""
        protocol = "" if self.protocol == ONLY_PROTOCOL else f"{self.protocol} "
        return f"{protocol}{self.split}{f' / {self.subset}' if self.subset else ''}"

    @property
    def verdict(self) -> str:
        """The difference to the paper in words."""
        if self.paper is None:
            return ""
        if self.labels == self.paper > self.images:
            return "images missing"
        more = self.images - self.paper
        return f"{abs(more):,} {'more' if more > 0 else 'fewer'}" if more else "as in the paper"

    def cells(self) -> list[str]:
        """For a table."""
        paper = "-" if self.paper is None else f"{self.paper:,}"
        return [self.title, f"{self.labels:,}", f"{self.images:,}", paper, self.verdict]


@dataclass(frozen=True)
class SetCheck:
    """What `check_set` reports."""

    name: str
    root: str
    rows: tuple[CheckRow, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    confirmed: str
    """which numbers of the reader were seen on real files"""

    @property
    def complete(self) -> bool:
        """Nothing is wrong and nothing is missing."""
        return not self.problems and all(row.paper in (None, row.images) for row in self.rows)

    def kinds(self) -> Counter[str]:
        """How many problems there are of each kind."""
        return Counter(problem.kind for problem in self.problems)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        rows = [row._asdict() for row in self.rows]
        return {**asdict(self), "rows": rows, "complete": self.complete}


def check_set(name: str, root: PathLike, decode: bool = False, track: Track = iter) -> SetCheck:
    """Read every split of a data set, or that of a name like `merl_rav/test`, count, and list what
    is wrong.

    Images are only looked up; with `decode` each is decoded too, and landmarks are
    compared with its size. Raises `InputError` when nothing of the set is there.
    """
    info, part, path = get_set(name), parse_part(name), Path(root)
    protocols = (info.detect(path),) if info.detect and path.is_dir() else info.protocols
    rows: list[CheckRow] = []
    problems: dict[Problem, None] = {}
    notes: dict[str, None] = {}
    records: dict[str, FaceRecord] = {}
    for protocol in (part.protocol,) if part.protocol else protocols:
        for split in (part.split,) if part.split else info.checked or info.splits:
            faces = read_set(info.name, path, split, protocol=protocol)
            problems |= dict.fromkeys(faces.problems)
            notes |= dict.fromkeys(faces.notes)
            records |= {record.face_id: record for record in faces}
            rows += _rows(info, path, protocol, faces)
    check_folder(info.name, root, len(records), problems)
    if decode:
        bad = (usable_image(record)[1] for record in track(records.values()))
        problems |= dict.fromkeys(problem for problem in bad if problem)
    about = info.name, str(path), tuple(rows), tuple(problems), tuple(notes)
    return SetCheck(*about, info.confirmed)


def _rows(info: SetInfo, root: Path, protocol: str, faces: FaceSet) -> Iterator[CheckRow]:
    """The split, and those of its subsets that the paper counts, or, in a set that it does not
    have, that are not empty."""
    labelled = faces
    if any(problem.kind == "missing image" for problem in faces.problems):
        labelled = read_set(info.name, root, faces.split, protocol=protocol, images=False)
    labels, images = labelled.subset_counts(), faces.subset_counts()
    labels[""], images[""] = len(labelled), len(faces)
    for subset in ("", *info.subsets):
        part = f"{faces.split}/{subset}".rstrip("/")
        paper = info.expected.get(f"{protocol}/{part}", info.expected.get(part))
        if not subset or paper is not None or (not info.expected and labels[subset]):
            yield CheckRow(protocol, faces.split, subset, labels[subset], images[subset], paper)


HEADINGS = ("name", "data set", "train", "test", "points", "profile", "self", "ext.")


def overview() -> list[list[str]]:
    """Rows under `HEADINGS`: the sets this project reads, and the others of the paper's Table 1,
    which have no name here."""
    return [
        *([info.name, info.title, *info.table] for info in SETS.values()),
        ["-", "COFW", "1,345", "507", "29", "no", "no", "yes"],
        ["-", "AFLW", "20,000", "4,386", "21", "yes", "yes", "no"],
        ["-", "AFLW-68", "20,000", "4,386", "68", "yes", "no", "no"],
    ]
