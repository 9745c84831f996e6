"""Names of images in label files: seen from the file, wherever the command was run.

A label file is moved together with its images, and dlib, LabelMe and most trainers look for an
image from the folder of the file that names it. So do we: what is written is named from there,
and what is read is looked for there first.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from luvli.data.record import FaceRecord
from luvli.files import PathLike, is_there


def with_found_images(path: PathLike, records: Iterable[FaceRecord]) -> list[FaceRecord]:
    """Records of a label file with the paths of those images that are there.

    Looked for from the file's folder, in `images` there, and in the `images` beside it, as mmpose
    keeps them beside `annotations`. An image that is in none of these keeps the file's name.
    """
    folder = Path(path).parent
    found = []
    for record in records:
        image = None if record.image is None else _beside(folder, record.image)
        found.append(record if image is None else record.with_changes(image=image))
    return found


def with_names_from(
    path: PathLike, records: Sequence[FaceRecord], outside: bool = True
) -> list[FaceRecord]:
    """Records whose images are named as a label file at `path` should name them.

    Images that are not there keep their names; so do, unless `outside`, those that do not lie
    below the file's folder.
    """
    real = cache(Path.resolve)
    folder = real(Path(path).parent)
    named = []
    for record in records:
        image = record.image
        if image is not None and is_there(image):
            seen = _seen_from(folder, real(image.parent) / image.name)
            if seen is not None and (outside or ".." not in seen.parts):
                record = record.with_changes(image=seen)
        named.append(record)
    return named


def _beside(folder: Path, name: Path) -> Path | None:
    places = (name, Path("images") / name, Path("../images") / name, Path("..") / name, name.name)
    return next((folder / place for place in places if is_there(folder / place)), None)


def _seen_from(folder: Path, image: Path) -> Path | None:
    try:
        return Path(os.path.relpath(image, folder))
    except ValueError:  # another drive of Windows
        return None
