"""Files that several data sets share: folders listed once, labels beside images."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from luvli.data.formats.lists import ListItem, iterate_hrnet
from luvli.data.record import FaceRecord
from luvli.data.sets.definition import (
    Note,
    Problem,
    ReadItem,
    Request,
    SetInfo,
    attempt,
    missing_image,
)
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
        self.path = path
        try:
            with os.scandir(path) as entries:
                names = [entry.name for entry in entries if not entry.name.startswith(".")]
        except OSError:
            names = []
        self.names = sorted(names, key=natural_key)
        self._images = {
            Path(name).stem: path / name
            for name in self.names
            if Path(name).suffix.lower() in IMAGE_SUFFIXES
        }

    def ending(self, suffix: str) -> list[Path]:
        """The files whose name ends so, in natural order."""
        return [self.path / name for name in self.names if name.lower().endswith(suffix)]

    def image(self, stem: str) -> Path | None:
        """The image of this name, whatever its suffix."""
        return self._images.get(stem)

    @property
    def images(self) -> list[Path]:
        """Every image, in natural order."""
        return list(self._images.values())


class ImageFolders:
    """Finds images by relative name under several roots; each folder is listed once."""

    def __init__(self, roots: Iterable[Path]) -> None:
        self.roots = [root for root in roots if root.is_dir()]
        self._folders: dict[Path, frozenset[str]] = {}

    def find(self, name: str) -> Path | None:
        """The first root that holds `name`, for instance "0/image00002.jpg"."""
        for root in self.roots:
            path = root / name
            if path.parent not in self._folders:
                self._folders[path.parent] = frozenset(Folder(path.parent).names)
            if path.name in self._folders[path.parent]:
                return path
        return None


def read_pairs(
    folder: Path,
    request: Request,
    make: Callable[[Path, Path | None], FaceRecord | None],
) -> Iterator[ReadItem]:
    """A folder of `.pts` files with an image of the same name beside each.

    `make` turns (label, image) into a record, or into None for one that is not wanted.
    Mirror copies (`*_mirror`), which some archives of 300-W contain, are left out with a note.
    """
    files = Folder(folder)
    labels = files.ending(".pts")
    originals = [label for label in labels if not label.stem.endswith("_mirror")]
    for label in originals:
        image = files.image(label.stem) if request.images else None
        if request.images and image is None:
            yield missing_image(label, f"{label.stem}.jpg or .png")
            continue
        record = attempt(label, partial(make, label, image))
        if record is not None:
            yield record
    labelled = {label.stem for label in labels}
    for image in files.images if request.images else ():
        if image.stem not in labelled and not image.stem.endswith("_mirror"):
            yield Problem(
                str(image),
                "missing label",
                f"{image} has no label: {image.stem}.pts is not there; put it back or remove the "
                "image.",
            )
    if mirrors := len(labels) - len(originals):
        yield Note(f"{folder}: {mirrors} mirror copies (*_mirror.pts) are left out.")


def keys_of(path: Path) -> set[tuple[str, bytes]]:
    """What tells the good faces of an HRNet list apart, across files."""
    return {_key(face) for face in iterate_hrnet(path) if isinstance(face, FaceRecord)}


def _key(face: FaceRecord) -> tuple[str, bytes]:
    return str(face.image), face.points.tobytes()


def listed_faces(
    request: Request,
    faces: Iterable[ListItem],
    path: Path,
    first_line: int,
    info: SetInfo,
    folders: Iterable[str],
    members: Mapping[str, set[tuple[str, bytes]]] | None = None,
) -> Iterator[FaceRecord | Problem]:
    """Faces of a list whose images lie in one of several `folders`, with the subsets in whose own
    lists they are (`members`). Ids are the image and the row, counted from 0 at `first_line`."""
    images = ImageFolders(request.root / folder for folder in folders)
    count = get_markup(info.markup).size
    for face in faces:
        if isinstance(face, InputError):
            yield Problem(str(path), "bad label", str(face))
            continue
        attributes = {**face.attributes, **request.image_name(str(face.image))}
        name, line = str(face.image), attributes.pop("line")
        if len(face.points) != count:
            sentence = f"{path}, line {line} has {len(face.points)} points, not {count}: mend it."
            yield Problem(str(path), "bad label", sentence)
            continue
        if members is not None:
            attributes["subsets"] = [flag for flag, keys in members.items() if _key(face) in keys]
        if request.wants(*attributes["subsets"]):
            face_id = f"{name}#{line - first_line}"
            record = face.with_changes(
                image=None, dataset=info.name, face_id=face_id, attributes=attributes
            )
            image = images.find(name) if request.images else None
            yield request.face(record, f"{info.title} face {face_id}", image, name)


def note_missing_boxes(
    request: Request, items: Iterable[ReadItem], box_files: str
) -> Iterator[ReadItem]:
    """The same items, and a note that counts the faces that should have a box and have none."""
    faces = missing = 0
    for item in items:
        if isinstance(item, FaceRecord):
            faces, missing = faces + 1, missing + (item.box is None)
        yield item
    if missing and request.images:  # without images nothing is cropped
        yield Note(
            f"{missing:,} of {faces:,} faces have no box in {box_files}: they are cropped by the "
            "tight box of their landmarks, with noise of 5 %."
        )
