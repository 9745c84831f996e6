"""dlib's XML (imglab): one box for each face, one part in it for each landmark.

    <dataset><images><image file='a.jpg'>
      <box top='10' left='20' width='90' height='95'><part name='00' x='31' y='44'/> ...

Parts are in the order of their names (numbers), and a part that a box has not, but another box of
the file has, is unlabelled.
dlib counts pixels from 0. Boxes that are to be ignored, and boxes without parts, are passed
over. What is written has whole pixels, as dlib's own: its reader refuses decimals ("string cast
error", dlib 20.0). Decimals of another program are read.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import numpy as np

from luvli.data.formats.common import (
    box_or_tight,
    count_classes,
    face,
    parse_xml,
    row_name,
    warn_if_predictions,
    warn_lost,
    write_xml,
)
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError
from luvli.files import PathLike


def read_dlib(path: PathLike) -> list[FaceRecord]:
    """Read every box that has parts."""
    root = parse_xml(path)
    if root.tag != "dataset":
        raise InputError(f"{path} is not a dlib file: its first element is not <dataset>.")
    boxes = [
        (image.get("file", ""), box)
        for image in root.iter("image")
        for box in image.findall("box")
        if box.get("ignore") not in ("1", "true") and box.find("part") is not None
    ]
    order = _order(path, (part.get("name", "") for _, box in boxes for part in box.findall("part")))
    records = []
    for name, box in boxes:
        try:
            records.append(_record(box, name, order))
        except (ValueError, TypeError) as error:  # InputError is a ValueError
            raise InputError(f"{path}, image {name!r}: {error}") from error
    return records


def _order(path: PathLike, names: Iterable[str]) -> dict[str, int]:
    """Part name -> landmark, for all boxes of a file alike."""
    unique = list(dict.fromkeys(names))
    if not all(name.isdecimal() for name in unique):
        return {name: j for j, name in enumerate(unique)}
    for name in unique:
        if len(name) > 4:
            raise InputError(f"{path}: part {name[:20]} is not a landmark number.")
    return {name: int(name) for name in unique}


def _record(box: ET.Element, image: str, order: Mapping[str, int]) -> FaceRecord:
    points = np.full((max(order.values()) + 1, 2), np.nan)
    for part in box.findall("part"):
        points[order[part.get("name", "")]] = float(part.get("x", "")), float(part.get("y", ""))
    left, top, width, height = (
        float(box.get(key, "nan")) for key in ("left", "top", "width", "height")
    )
    edges = np.array([left, top, left + width, top + height])
    return face(points, image, box=edges if np.isfinite(edges).all() else None, box_kind="given")


def write_dlib(path: PathLike, records: Sequence[FaceRecord]) -> None:
    """Write faces, whole or not at all; places are rounded to whole pixels."""
    warn_if_predictions(path, records, "dlib")
    hidden = count_classes(records, Visibility.SELF_OCCLUDED)
    covered = count_classes(records, Visibility.EXTERNALLY_OCCLUDED)
    if hidden or covered:
        warn_lost(
            path,
            f"dlib knows no visibility; {hidden} self-occluded landmarks are left out, {covered} "
            "externally occluded ones are written as any other.",
        )
    if any((np.nan_to_num(r.points) % 1).any() for r in records):
        warn_lost(path, "dlib knows whole pixels only; places are rounded, by up to half a pixel.")
    root = ET.Element("dataset")
    images = ET.SubElement(root, "images")
    for name, faces in groupby(sorted(records, key=row_name), key=row_name):
        image = ET.SubElement(images, "image", file=name)
        for record in faces:
            _write_box(image, record)
    write_xml(path, root)


def _write_box(image: ET.Element, record: FaceRecord) -> None:
    x0, y0, x1, y1 = box_or_tight(record).tolist()
    edges = {"left": x0, "top": y0, "width": x1 - x0, "height": y1 - y0}
    box = ET.SubElement(image, "box", {name: str(round(edge)) for name, edge in edges.items()})
    for number in np.flatnonzero(record.visible).tolist():
        x, y = record.points[number].tolist()
        ET.SubElement(box, "part", name=f"{number:02d}", x=str(round(x)), y=str(round(y)))
