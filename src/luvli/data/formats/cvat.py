"""CVAT for images 1.1 (XML): one skeleton for each face, one point in it for each landmark.

A point's `occluded` flag is our externally occluded, its `outside` flag (no place in this
image) our self-occluded, and a point that is not in the file is unlabelled. A plain
`<points>` shape with all landmarks in one list is read too. CVAT measures from the corner
of the first pixel, whose centre is therefore (0.5, 0.5). What a model made is marked so
(`source="auto"`).
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Floats
from luvli.data.formats.checked import naming, parse_xml, write_xml
from luvli.data.formats.common import (
    by_image,
    face,
    face_of_parts,
    is_predicted,
    names_or_numbers,
    warn_losses,
)
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError
from luvli.files import PathLike
from luvli.markup import get_markup, is_markup

_FIRST_PIXEL = 0.5
"""what the file calls the centre of the first pixel"""


def read_cvat(path: PathLike) -> list[FaceRecord]:
    """Read every skeleton and every list of points."""
    root = parse_xml(path, "annotations", "a CVAT file: export as 'CVAT for images 1.1'.")
    records = []
    for image in root.iter("image"):
        name = image.get("name", "")
        with naming(path, f"image {name!r}"):
            records += [_read_skeleton(skeleton, name) for skeleton in image.findall("skeleton")]
            records += [_read_points(shape, name) for shape in image.findall("points")]
    return records


def _read_points(shape: ET.Element, image: str) -> FaceRecord:
    places, label = _places(shape.get("points", "")), shape.get("label", "")
    fits = is_markup(label) and get_markup(label).size == len(places)
    return face(places, image, [_class(shape)] * len(places), label if fits else None)


def _read_skeleton(skeleton: ET.Element, image: str) -> FaceRecord:
    ids = [a.text or "" for a in skeleton.findall("attribute") if a.get("name") == "face_id"]
    parts = map(_part, skeleton.findall("points"))
    return face_of_parts(parts, image, skeleton.get("label", ""), face_id="".join(ids[:1]))


def _part(point: ET.Element) -> tuple[str, ArrayLike, Visibility]:
    """Name, place and class of a landmark."""
    name = point.get("label", "")
    if point.get("outside") == "1":
        return name, (np.nan, np.nan), Visibility.SELF_OCCLUDED
    place = _places(point.get("points", ""))
    if len(place) != 1:
        raise InputError(f"{name!r} is not one point.")
    return name, place[0], _class(point)


def _class(shape: ET.Element) -> Visibility:
    occluded = shape.get("occluded") == "1"
    return Visibility.EXTERNALLY_OCCLUDED if occluded else Visibility.UNOCCLUDED


def _places(text: str) -> Floats:
    pairs = [[float(number) for number in pair.split(",")] for pair in text.split(";") if pair]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise InputError(f"{text[:40]!r} is not a list of x,y pairs.")
    if not np.isfinite(pairs).all():
        raise InputError("a coordinate is NaN or infinite.")
    return np.array(pairs, dtype=np.float64) - _FIRST_PIXEL


def write_cvat(path: PathLike, records: Sequence[FaceRecord]) -> None:
    """Write faces, whole or not at all; the three visibility classes are kept."""
    warn_losses(path, records, "CVAT")
    root = ET.Element("annotations")
    ET.SubElement(root, "version").text = "1.1"
    for number, (name, faces) in enumerate(by_image(records).items()):
        image = ET.SubElement(root, "image", id=str(number), name=name)
        for record in faces:
            source = "auto" if is_predicted(record) else "manual"
            about = {"label": record.markup, "source": source, "z_order": "0"}
            skeleton = ET.SubElement(image, "skeleton", about)
            for point in _points(record):
                ET.SubElement(skeleton, "points", point)
            if record.face_id:
                ET.SubElement(skeleton, "attribute", name="face_id").text = record.face_id
    write_xml(path, root)


def _points(record: FaceRecord) -> Iterator[dict[str, str]]:
    names = names_or_numbers(record.markup, len(record.points))
    places = np.nan_to_num(record.points + _FIRST_PIXEL).tolist()
    for name, (x, y), kind in zip(names, places, record.visibility, strict=True):
        if kind != Visibility.UNLABELLED:
            yield {
                "label": name,
                "occluded": str(int(kind == Visibility.EXTERNALLY_OCCLUDED)),
                "outside": str(int(kind == Visibility.SELF_OCCLUDED)),
                "points": f"{x!r},{y!r}",
            }
