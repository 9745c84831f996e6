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
from pathlib import Path

import numpy as np

from luvli.data.formats.common import (
    default_markup,
    row_name,
    warn_if_predictions,
    warn_lost,
)
from luvli.data.formats.cvat import parse_xml
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError
from luvli.files import PathLike, write_text


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
    try:
        order = _order(part.get("name", "") for _, box in boxes for part in box.findall("part"))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    records = []
    for name, box in boxes:
        try:
            records.append(_record(box, Path(name) if name else None, order))
        except (ValueError, TypeError) as error:  # InputError is a ValueError
            raise InputError(f"{path}, image {name!r}: {error}") from error
    return records


def _order(names: Iterable[str]) -> dict[str, int]:
    """Part name -> landmark, for all boxes of a file alike."""
    listed = list(dict.fromkeys(names))
    if not all(name.isdecimal() for name in listed):
        return {name: j for j, name in enumerate(listed)}
    highest = max(map(int, listed), default=0)
    if highest >= 10_000:
        raise InputError(f"part {highest} is not a landmark number.")
    return {name: int(name) for name in listed}


def write_dlib(path: PathLike, records: Sequence[FaceRecord]) -> None:
    """Write faces, whole or not at all; places are rounded to whole pixels."""
    warn_if_predictions(path, records, "dlib")
    hidden = sum(int((record.visibility == Visibility.SELF_OCCLUDED).sum()) for record in records)
    covered = sum(int((record.visibility == 2).sum()) for record in records)
    if hidden or covered:
        warn_lost(
            path,
            f"dlib knows no visibility; {hidden} self-occluded landmarks are left out, {covered} "
            "externally occluded ones are written as any other.",
        )
    if any(_decimals(record) for record in records):
        warn_lost(path, "dlib knows whole pixels only; places are rounded, by up to half a pixel.")
    root = ET.Element("dataset")
    images = ET.SubElement(root, "images")
    for name, faces in groupby(sorted(records, key=row_name), key=row_name):
        image = ET.SubElement(images, "image", file=name)
        for record in faces:
            _box(image, record)
    ET.indent(root)
    write_text(path, ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n")


def _decimals(record: FaceRecord) -> bool:
    places = record.points[record.visible]
    return bool((places != np.round(places)).any())


def _box(image: ET.Element, record: FaceRecord) -> None:
    x0, y0, x1, y1 = record.tight_box if record.box is None else record.box
    box = ET.SubElement(
        image,
        "box",
        left=str(round(float(x0))),
        top=str(round(float(y0))),
        width=str(round(float(x1 - x0))),
        height=str(round(float(y1 - y0))),
    )
    for number, (x, y) in enumerate(record.points.tolist()):
        if np.isfinite([x, y]).all():
            ET.SubElement(box, "part", name=f"{number:02d}", x=str(round(x)), y=str(round(y)))


def _record(box: ET.Element, image: Path | None, order: Mapping[str, int]) -> FaceRecord:
    count = max(order.values()) + 1
    points = np.full((count, 2), np.nan)
    for part in box.findall("part"):
        points[order[part.get("name", "")]] = float(part.get("x", "")), float(part.get("y", ""))
    located = np.isfinite(points).all(axis=1)
    left, top, width, height = (
        float(box.get(key, "nan")) for key in ("left", "top", "width", "height")
    )
    edges = np.array([left, top, left + width, top + height])
    return FaceRecord(
        points=points,
        visibility=np.where(located, Visibility.UNOCCLUDED, Visibility.UNLABELLED),
        image=image,
        box=edges if np.isfinite(edges).all() else None,
        box_kind="given",
        markup=default_markup(count),
    )
