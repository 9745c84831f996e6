"""What the formats share: faces, names of landmarks and images, losses."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Floats
from luvli.data.record import IMAGE_NAME, FaceRecord, Visibility
from luvli.errors import InputError, LossWarning
from luvli.files import PathLike, is_there
from luvli.markup import get_markup, is_markup, markup_by_size, markup_names

# --- faces ---------------------------------------------------------------------------------


def face(
    points: ArrayLike,
    image: str = "",
    classes: ArrayLike | None = None,
    markup: str | None = None,
    **fields: Any,
) -> FaceRecord:
    """A face of the built-in markup with as many points (k, 2), or of a name that says the count.

    Without `classes` a landmark with a location is unoccluded, one without is unlabelled. A box is
    `given` unless `box_kind` says otherwise.
    """
    places = np.asarray(points, dtype=np.float64).reshape(-1, 2)
    if classes is None:
        located = np.isfinite(places).all(axis=1)
        classes = np.where(located, Visibility.UNOCCLUDED, Visibility.UNLABELLED)
    fields = {"box_kind": "given", **fields, "markup": markup or default_markup(len(places))}
    return FaceRecord(places, np.asarray(classes), Path(image) if image else None, **fields)


def face_of_parts(
    parts: Iterable[tuple[str, ArrayLike, Visibility]], image: str, markup: str = "", **fields: Any
) -> FaceRecord:
    """A face of landmarks with a name, a place and a class each; the others of the `markup`, or of
    the one that has them all, are unlabelled."""
    listed = list(parts)
    places = {name: (place, kind) for name, place, kind in listed}
    if len(places) < len(listed):
        raise InputError(
            "two points of one face have the same label: give each face a group (LabelMe) or a "
            "skeleton (CVAT) of its own."
        )
    if is_markup(markup):
        order: Sequence[str] = get_markup(markup).names
    else:
        markup, order = _markup_with(list(places))
    if unknown := sorted(places.keys() - set(order)):
        raise InputError(f"point {unknown[0][:60]!r} is not a landmark of {markup[:60]}.")
    nowhere = (np.nan, np.nan), Visibility.UNLABELLED
    points, classes = zip(*(places.get(name, nowhere) for name in order), strict=True)
    return face(points, image, classes, markup, **fields)


def _markup_with(labels: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The markup that has all these landmarks, and its names; for labels of no known markup the
    default one for their count, and the labels, numbers in their order with gaps filled."""
    for markup in markup_names():
        if set(labels) <= set(get_markup(markup).names):
            return markup, get_markup(markup).names
    order = labels
    if labels and all(label.isdecimal() for label in labels):
        longest = max(labels, key=len)
        if len(longest) > 4:
            raise InputError(f"{longest[:20]} is not a landmark number.")
        first = 0 if "0" in labels else 1
        order = [str(number) for number in range(first, max(map(int, labels)) + 1)]
    return default_markup(len(order)), order


def default_markup(count: int) -> str:
    """The built-in markup with this many points, or a name that says only the count."""
    known = markup_by_size(count)
    return known.name if known else f"points{count}"


def names_or_numbers(markup: str, count: int) -> Sequence[str]:
    """Names of the landmarks, or their numbers where the markup is not known."""
    if is_markup(markup) and get_markup(markup).size == count:
        return get_markup(markup).names
    return [str(j) for j in range(count)]


def edges_of(x: float, y: float, width: float, height: float) -> Floats:
    """(4,) x0, y0, x1, y1 of a box that a file gives by its corner and size."""
    return np.array([x, y, x + width, y + height])


def corner_and_size(record: FaceRecord) -> list[float]:
    """x, y, width and height of the box, or of the landmarks' own where there is none."""
    x0, y0, x1, y1 = (record.tight_box if record.box is None else record.box).tolist()
    return [x0, y0, x1 - x0, y1 - y0]


# --- losses --------------------------------------------------------------------------------


def is_predicted(record: FaceRecord) -> bool:
    """Whether a model made the label."""
    return record.covariance is not None or record.visibility_probability is not None


def warn_lost(path: PathLike, what: str) -> None:
    """Say aloud what the format could not hold."""
    warnings.warn(f"{path}: {what}", LossWarning, stacklevel=3)


def warn_losses(
    path: PathLike, records: Sequence[FaceRecord], title: str, **lost_classes: str
) -> None:
    """Say aloud what a format called `title` cannot hold: a model's covariances and probabilities,
    and landmarks of some classes (`self_occluded="left out"`: what becomes of them)."""
    if any(map(is_predicted, records)):
        warn_lost(path, f"{title} cannot hold covariances or probabilities; they are left out.")
    for name, fate in lost_classes.items():
        count = sum(int((r.visibility == Visibility[name.upper()]).sum()) for r in records)
        if count:
            kind = name.replace("self_", "self-").replace("_", " ")
            warn_lost(path, f"{title} cannot hold {kind} landmarks; {count} are {fate}.")


# --- names of images -----------------------------------------------------------------------


def image_name(record: FaceRecord) -> str:
    """How an image is called in a file: with forward slashes, on every system.

    Labels that were read without their images may know the name all the same (`IMAGE_NAME`).
    """
    return record.image.as_posix() if record.image else str(record.attributes.get(IMAGE_NAME, ""))


def row_name(record: FaceRecord) -> str:
    """What a face goes by in a format that knows only images: its image, or else its id."""
    return image_name(record) or record.face_id


def by_image(records: Iterable[FaceRecord]) -> dict[str, list[FaceRecord]]:
    """Faces by the names of their images, in the order of the names."""
    images: dict[str, list[FaceRecord]] = {}
    for record in sorted(records, key=row_name):
        images.setdefault(row_name(record), []).append(record)
    return images


def with_found_images(path: PathLike, records: Iterable[FaceRecord]) -> list[FaceRecord]:
    """Records of a label file with the paths of those images that are there.

    Looked for from the file's folder, in `images` there, and in the `images` beside it, as mmpose
    keeps them beside `annotations`. An image that is in none of these keeps the file's name.
    """
    folder = Path(path).parent

    @cache
    def find(name: Path) -> Path:
        places = name, Path("images", name), Path("../images", name), Path("..", name), name.name
        return next((folder / place for place in places if is_there(folder / place)), name)

    return [r if r.image is None else r.with_changes(image=find(r.image)) for r in records]


def with_names_from(
    path: PathLike, records: Sequence[FaceRecord], outside: bool = True
) -> list[FaceRecord]:
    """Records whose images are named as a label file at `path` should name them: from its folder,
    where dlib, LabelMe and most trainers look for them.

    Images that are not there keep their names; so do, unless `outside`, those that do not lie
    below the file's folder.
    """
    real = cache(Path.resolve)
    folder = real(Path(path).parent)

    def renamed(image: Path) -> Path:
        if not is_there(image):
            return image
        try:
            name = Path(os.path.relpath(real(image.parent) / image.name, folder))
        except ValueError:  # another drive of Windows
            return image
        return name if outside or ".." not in name.parts else image

    return [r if r.image is None else r.with_changes(image=renamed(r.image)) for r in records]
