"""CVAT for images 1.1 (XML): one skeleton for each face, one point in it for each landmark.

A point's `occluded` flag is our externally occluded, its `outside` flag (no place in this
image) our self-occluded, and a point that is not in the file is unlabelled. A plain
`<points>` shape with all landmarks in one list is read too. CVAT measures from the corner
of the first pixel, whose centre is therefore (0.5, 0.5).
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from luvli.data.formats.common import (
    default_markup,
    landmark_names,
    markup_of_names,
    row_name,
    warn_if_predictions,
)
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError
from luvli.files import PathLike, read_text, write_text
from luvli.markup import get_markup, is_markup, markup_names

FIRST_PIXEL = 0.5
"""What the file calls the centre of the first pixel."""


def read_cvat(path: PathLike) -> list[FaceRecord]:
    """Read every skeleton and every list of points."""
    root = parse_xml(path)
    if root.tag != "annotations":
        raise InputError(f"{path} is not a CVAT file: export as 'CVAT for images 1.1'.")
    records = []
    for image in root.iter("image"):
        name = image.get("name", "")
        try:
            records += list(_faces(image, Path(name) if name else None))
        except ValueError as error:  # InputError is a ValueError
            raise InputError(f"{path}, image {name!r}: {error}") from error
    return records


def parse_xml(path: PathLike) -> ET.Element:
    """The first element of an XML file without document type, which could name other files."""
    text = read_text(path)
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InputError(f"{path} has a document type, which is not read: export it again.")
    try:
        return ET.fromstring(text)
    except (ET.ParseError, ValueError) as error:
        raise InputError(f"{path} is not valid XML ({error}): export it again.") from error


def write_cvat(path: PathLike, records: Sequence[FaceRecord]) -> None:
    """Write faces, whole or not at all; the three visibility classes are kept."""
    warn_if_predictions(path, records, "CVAT")
    root = ET.Element("annotations")
    ET.SubElement(root, "version").text = "1.1"
    ordered = sorted(records, key=row_name)
    for number, (name, faces) in enumerate(groupby(ordered, key=row_name)):
        image = ET.SubElement(root, "image", id=str(number), name=name)
        for record in faces:
            _skeleton(image, record)
    ET.indent(root)
    write_text(path, ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n")


def _skeleton(image: ET.Element, record: FaceRecord) -> None:
    face = ET.SubElement(image, "skeleton", label=record.markup, source="manual", z_order="0")
    names = landmark_names(record.markup, len(record.points))
    for name, (x, y), kind in zip(names, record.points, record.visibility, strict=True):
        if kind == Visibility.UNLABELLED:
            continue
        hidden = kind == Visibility.SELF_OCCLUDED
        place = "0.0,0.0" if hidden else f"{float(x + FIRST_PIXEL)!r},{float(y + FIRST_PIXEL)!r}"
        ET.SubElement(
            face,
            "points",
            label=name,
            occluded=str(int(kind == Visibility.EXTERNALLY_OCCLUDED)),
            outside=str(int(hidden)),
            points=place,
        )
    if record.face_id:
        ET.SubElement(face, "attribute", name="face_id").text = record.face_id


def _faces(element: ET.Element, image: Path | None) -> Iterator[FaceRecord]:
    for skeleton in element.findall("skeleton"):
        yield _from_skeleton(skeleton, image)
    for shape in element.findall("points"):
        places = _places(shape.get("points", ""))
        occluded = shape.get("occluded") == "1"
        kind = Visibility.EXTERNALLY_OCCLUDED if occluded else Visibility.UNOCCLUDED
        label = shape.get("label", "")
        yield FaceRecord(
            points=places,
            visibility=np.full(len(places), kind),
            image=image,
            markup=_markup(label, len(places)),
        )


def _from_skeleton(skeleton: ET.Element, image: Path | None) -> FaceRecord:
    parts = skeleton.findall("points")
    given = [part.get("label", "") for part in parts]
    if len(set(given)) != len(given):
        raise InputError("two points of one skeleton have the same label.")
    label = skeleton.get("label", "")
    markup = label if is_markup(label) else _markup_holding(given)
    order = list(get_markup(markup).names) if is_markup(markup) else _numeric_order(given)
    strange = set(given) - set(order)
    if strange:
        raise InputError(f"point {sorted(strange)[0][:60]!r} is not a landmark of {markup[:60]}.")
    points = np.full((len(order), 2), np.nan)
    classes = np.full(len(order), Visibility.UNLABELLED, np.int8)
    for name, part in zip(given, parts, strict=True):
        j = order.index(name)
        if part.get("outside") == "1":
            classes[j] = Visibility.SELF_OCCLUDED
            continue
        occluded = part.get("occluded") == "1"
        classes[j] = Visibility.EXTERNALLY_OCCLUDED if occluded else Visibility.UNOCCLUDED
        points[j] = _places(part.get("points", ""), only=1)[0]
    face_id = next(
        (a.text or "" for a in skeleton.findall("attribute") if a.get("name") == "face_id"), ""
    )
    return FaceRecord(
        points=points, visibility=classes, image=image, markup=markup, face_id=face_id
    )


def _places(
    text: str, only: int | None = None
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    pairs = [[float(number) for number in pair.split(",")] for pair in text.split(";") if pair]
    if not pairs or any(len(pair) != 2 for pair in pairs) or (only and len(pairs) != only):
        raise InputError(f"{text[:40]!r} is not a list of x,y pairs.")
    if not all(math.isfinite(number) for pair in pairs for number in pair):
        raise InputError("a coordinate is NaN or infinite.")
    return np.array(pairs, dtype=np.float64) - FIRST_PIXEL


def _markup(label: str, count: int) -> str:
    if is_markup(label) and get_markup(label).size == count:
        return label
    return default_markup(count)


def _markup_holding(names: Sequence[str]) -> str:
    for markup in markup_names():
        if set(names) <= set(get_markup(markup).names):
            return markup
    return markup_of_names(names)


def _numeric_order(names: Sequence[str]) -> list[str]:
    """Numbers in their order, gaps filled; other labels as the file lists them."""
    if names and all(name.isdecimal() for name in names):
        first = 1 if "0" not in names else 0
        last = max(map(int, names))
        if last > 10_000:
            raise InputError(f"label {last} is not a landmark number.")
        return [str(number) for number in range(first, last + 1)]
    return list(names)
