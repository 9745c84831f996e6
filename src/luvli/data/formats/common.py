"""What the formats share: checked files, faces, names of landmarks and images, losses."""

from __future__ import annotations

import json
import os
import warnings
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import TypeAdapter, ValidationError

from luvli.arrays import Floats
from luvli.data.record import IMAGE_NAME, FaceRecord, Visibility
from luvli.errors import InputError, LossWarning, brief, require
from luvli.files import PathLike, check_plain, is_there, read_text, unreadable, write_text
from luvli.markup import get_markup, is_markup, markup_by_size, markup_names

Parsed = TypeVar("Parsed")
_Row = TypeVar("_Row")

# --- checked files -------------------------------------------------------------------------


@contextmanager
def expecting(path: PathLike, what: str, advice: str = "export it again") -> Iterator[None]:
    """Whatever goes wrong inside is one sentence: that the file is not `what`, why, and the
    `advice`."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # each parser has a kind for each damage
        if isinstance(error, OSError) and error.errno:
            raise unreadable(path, error) from error
        raise InputError(f"{path} is not {what} ({_reason(error)}): {advice}.") from error


@contextmanager
def naming(path: PathLike, place: str) -> Iterator[None]:
    """What is wrong inside with a face is one sentence that names its file and its place there."""
    try:
        yield
    except (ValueError, TypeError) as error:  # InputError is a ValueError, so is pydantic's
        why = str(error) if isinstance(error, InputError) else f"{_reason(error)}."
        raise InputError(f"{path}, {place}: {why}") from error


def _reason(error: Exception) -> str:
    """What an error says; of pydantic's the first complaint, and where."""
    if not isinstance(error, ValidationError):
        return brief(error)
    first = error.errors()[0]
    return f"at {'.'.join(map(str, first['loc'])) or 'the top level'}, {first['msg'].lower()}"


def read_each(
    path: PathLike,
    what: str,
    rows: Iterable[tuple[object, _Row]],
    read: Callable[[_Row], FaceRecord],
) -> list[FaceRecord]:
    """The face of each row of a file; `what` a row is called, with its name, where it is bad."""
    records = []
    for name, row in rows:
        with naming(path, f"{what} {name}"):
            records.append(read(row))
    return records


def load_json(path: PathLike) -> Any:
    """The content of a JSON file."""
    text = read_text(path)
    with expecting(path, "valid JSON"):
        return json.loads(text)


def parse_json(path: PathLike, content: type[Parsed], what: str) -> Parsed:
    """Read a JSON file into a type with pydantic, or say which field is wrong."""
    loaded = load_json(path)
    with expecting(path, what):
        return TypeAdapter(content).validate_python(loaded)


def parse_yaml(text: str, where: str, what: str) -> Any:
    """The content of a YAML text of at most a megabyte and 20,000 values, aliases counted each
    time; `where` it stands and `what` it should be are for messages.

    >>> parse_yaml("a: [1, 2]", "x.yaml", "recipe")
    {'a': [1, 2]}
    """
    yaml = require("yaml", "evaluate")
    max_bytes, max_values = 1_000_000, 20_000
    if len(text) > max_bytes:
        raise InputError(f"{where} is larger than {max_bytes:,} bytes: that is no {what}.")
    try:
        content = yaml.safe_load(text)
        size = _count(content, max_values)
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # impossible dates among them
        why = " ".join(str(error).split())[:300]
        raise InputError(f"{where} is not valid YAML: {why}.") from error
    if size > max_values:
        raise InputError(f"{where} holds more than {max_values:,} values: that is no {what}.")
    return content


def _count(value: Any, limit: int) -> int:
    """Values inside nested lists and mappings; stops soon after `limit`."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    total = 1
    for item in inner:
        if total <= limit:
            total += _count(item, limit - total)
    return total


def load_arrays(path: PathLike) -> dict[str, NDArray[Any]]:
    """The arrays of an npz by their names, or the one of an npy as `points`; nothing is run."""
    source = Path(path)
    check_plain(source)
    with expecting(source, "a readable numpy file", "save plain number arrays"):
        if zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as members:
                check_unpacked(source, sum(member.file_size for member in members.infolist()))
        content = np.load(source, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return {"points": content}
        with content:
            return {name: np.asarray(content[name]) for name in content.files}


def check_unpacked(path: Path, size: int) -> None:
    """Refuse a file that says that it unpacks to a hundred times its own size, and to much."""
    if size > max(256 << 20, 100 * path.stat().st_size):
        raise InputError(
            f"{path} would unpack to {size >> 20:,} MB, more than 100 times its size: write it "
            "again without repeated rows."
        )


def parse_xml(path: PathLike, tag: str, otherwise: str) -> ET.Element:
    """The first element of an XML file, which must be a `tag`, without document type, which could
    name other files."""
    text = read_text(path)
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InputError(f"{path} has a document type, which is not read: export it again.")
    with expecting(path, "valid XML"):
        root = ET.fromstring(text)
    if root.tag != tag:
        raise InputError(f"{path} is not {otherwise}")
    return root


def write_xml(path: PathLike, root: ET.Element) -> None:
    """Write an XML file, whole or not at all."""
    ET.indent(root)
    write_text(path, ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n")


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
