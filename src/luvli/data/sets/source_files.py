"""Files that several data sets share: folders listed once, labels beside images, Matlab files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from luvli.data.record import FaceRecord
from luvli.data.sets.definition import Note, Problem, ReadItem, Request, attempt, missing_image
from luvli.errors import InputError
from luvli.files import is_there
from luvli.image.read import IMAGE_SUFFIXES


def first_existing(root: Path, names: Iterable[str]) -> Path | None:
    """The first of several places, relative to `root`, that exists."""
    return next((root / name for name in names if is_there(root / name)), None)


def natural_key(name: str) -> tuple[tuple[int, int | str], ...]:
    """Sorts image_2 before image_10."""
    parts = re.split(r"(\d+)", name)
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in parts)


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
            for name in names
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
        return sorted(self._images.values(), key=lambda path: natural_key(path.name))


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
    mirrors = 0
    seen: set[str] = set()
    for label in files.ending(".pts"):
        seen.add(label.stem)
        if label.stem.endswith("_mirror"):
            mirrors += 1
            continue
        image = files.image(label.stem) if request.images else None
        if request.images and image is None:
            yield missing_image(label, f"{label.stem}.jpg or .png")
            continue
        made = attempt(label, partial(make, label, image))
        if made is not None:
            yield made
    if request.images:
        for image in files.images:
            if image.stem not in seen and not image.stem.endswith("_mirror"):
                yield Problem(
                    str(image),
                    "missing label",
                    f"{image} has no label: {image.stem}.pts is not there; "
                    "put it back or remove the image.",
                )
    if mirrors:
        yield Note(f"{folder}: {mirrors} mirror copies (*_mirror.pts) are left out.")


def mat_field(
    path: Path, content: Mapping[str, NDArray[np.generic]], name: str
) -> NDArray[np.generic]:
    """One variable of a Matlab file, or one sentence that names it."""
    if name not in content:
        held = ", ".join(key for key in content if not key.startswith("__")) or "nothing"
        raise InputError(
            f"{path} has no variable {name!r} (it holds {held}): is it the right file?"
        )
    return content[name]
