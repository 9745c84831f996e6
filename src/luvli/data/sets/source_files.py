"""Files that several data sets share: folders listed once, labels beside images, lists."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from luvli.data.formats import read_pts
from luvli.data.formats.common import face
from luvli.data.formats.lists import ListItem, iterate_hrnet
from luvli.data.record import FaceRecord
from luvli.data.sets.definition import Reading, subsets_of
from luvli.errors import InputError
from luvli.files import is_there
from luvli.image.read import IMAGE_SUFFIXES
from luvli.markup import get_markup


def first_existing(root: Path, names: Iterable[str]) -> Path | None:
    """The first of several places, relative to `root`, that exists."""
    return next((root / name for name in names if is_there(root / name)), None)


def natural_key(name: str) -> tuple[tuple[int, int | str], ...]:
    """Sorts image_2 before image_10."""
    parts = re.split(r"(\d+)", name)
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in parts)


def walk(root: Path) -> list[tuple[Path, list[str]]]:
    """Every folder under `root`, itself included, and the names of its files, in natural order."""
    steps = sorted(os.walk(root), key=lambda step: natural_key(step[0]))
    return [(Path(folder), names) for folder, _, names in steps]


class Folder:
    """The files of one folder, listed once: looking up thousands of names costs no more."""

    def __init__(self, path: Path) -> None:
        try:
            names = [p.name for p in path.iterdir() if not p.name.startswith(".")]
        except OSError:
            names = []
        self.names = sorted(names, key=natural_key)
        self._paths = [path / name for name in self.names]
        self._images = {p.stem: p for p in self._paths if p.suffix.lower() in IMAGE_SUFFIXES}

    def ending(self, suffix: str) -> list[Path]:
        """The files whose name ends so, in natural order."""
        return [path for path in self._paths if path.name.lower().endswith(suffix)]

    def image(self, stem: str) -> Path | None:
        """The image of this name, whatever its suffix."""
        return self._images.get(stem)

    @property
    def images(self) -> list[Path]:
        """Every image, in natural order."""
        return list(self._images.values())


def image_finder(root: Path, places: Iterable[str]) -> Callable[[str], Path | None]:
    """Finds images by relative name, for instance "0/image00002.jpg", in the first of several
    places under `root`; each folder is listed once."""
    folders = [root / place for place in places if (root / place).is_dir()]
    listed = cache(lambda folder: frozenset(Folder(folder).names))

    def find(name: str) -> Path | None:
        paths = (folder / name for folder in folders)
        return next((path for path in paths if path.name in listed(path.parent)), None)

    return find


def label_pairs(folder: Path, reading: Reading) -> Iterator[tuple[Path, Path | None]]:
    """The `.pts` files of a folder, each with the image of the same name beside it.

    Mirror copies (`*_mirror`), which some archives of 300-W contain, are left out with a note.
    """
    files = Folder(folder)
    labels = files.ending(".pts")
    originals = [label for label in labels if not label.stem.endswith("_mirror")]
    for label in originals:
        yield label, files.image(label.stem)
    labelled = {label.stem for label in labels}
    for image in files.images if reading.images else ():
        if image.stem not in labelled and not image.stem.endswith("_mirror"):
            why = f"{image.stem}.pts is not there; put it back or remove the image"
            reading.problem(image, "missing label", f"{image} has no label: {why}.")
    if mirrors := len(labels) - len(originals):
        reading.found.notes.append(
            f"{folder}: {mirrors} mirror copies (*_mirror.pts) are left out."
        )


def read_labelled(label: Path, **options: Any) -> FaceRecord:
    """The face of a `.pts` file, with the `options` of `read_pts`."""
    points, visibility = read_pts(label, **options)
    return face(points, "", visibility)


def read_hrnet_lists(
    reading: Reading,
    csv: str,
    folders: Iterable[str],
    change: Callable[[FaceRecord], FaceRecord] = lambda record: record,
) -> None:
    """HRNet's list of a split; its test faces belong to the subsets in whose lists they are.

    `csv` is the name of a list with {} for the split, or for test_SUBSET; `change` is what the
    data set makes of a face.
    """
    members: dict[str, set[tuple[str, bytes]]] = {}
    for subset in reading.info.subsets if reading.split == "test" else ():
        path = reading.root / csv.format(f"test_{subset}")
        if path.is_file():
            listed = (item for _, item in iterate_hrnet(path))
            members[subset] = {_key(item) for item in listed if isinstance(item, FaceRecord)}
        else:
            reading.missing_file(path, f"without it no face belongs to the subset {subset}")

    def completed(item: FaceRecord | InputError) -> FaceRecord | InputError:
        if isinstance(item, InputError):
            return item
        inside = [subset for subset, keys in members.items() if _key(item) in keys]
        return change(item.with_changes(attributes={**item.attributes, "subsets": inside}))

    path = reading.root / csv.format(reading.split)
    if path.is_file():
        lines = ((line - 1, completed(item)) for line, item in iterate_hrnet(path))
        read_listed(reading, lines, path, folders)
    else:
        reading.missing_file(path)


def read_listed(
    reading: Reading, lines: Iterable[ListItem], path: Path, folders: Iterable[str]
) -> None:
    """Faces of a list whose images lie in one of several `folders`. Ids are the image and the row,
    counted from 0."""
    find = image_finder(reading.root, folders)
    count = get_markup(reading.info.markup).size
    for line, item in lines:
        if isinstance(item, FaceRecord) and len(item.points) != count:
            name = f"{path}, face {line} ({item.image})"
            item = InputError(f"{name} has {len(item.points)} points, not {count}: mend it.")
        if isinstance(item, InputError):
            reading.problem(path, "bad label", str(item))
            continue
        name, image = f"{item.image}#{line - 1}", str(item.image)
        reading.face(
            f"{reading.info.title} face {name}",
            name,
            item.with_changes,
            find(image) if reading.images else None,
            image,
            subsets_of(item),
            names_image=True,
        )


def _key(face: FaceRecord) -> tuple[str, bytes]:
    """What distinguishes the faces of HRNet's lists, across files."""
    return str(face.image), face.points.tobytes()
