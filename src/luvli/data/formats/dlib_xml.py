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
from collections.abc import Sequence

import numpy as np

from luvli.data.formats.checked import parse_xml, read_each, write_xml
from luvli.data.formats.common import (
    by_image,
    corner_and_size,
    edges_of,
    face,
    warn_losses,
    warn_lost,
)
from luvli.data.record import FaceRecord
from luvli.errors import InputError
from luvli.files import PathLike


def read_dlib(path: PathLike) -> list[FaceRecord]:
    """Read every box that has parts."""
    root = parse_xml(path, "dataset", "a dlib file: its first element is not <dataset>.")
    boxes = [
        (image.get("file", ""), box)
        for image in root.iter("image")
        for box in image.findall("box")
        if box.get("ignore") not in ("1", "true") and box.find("part") is not None
    ]
    names = dict.fromkeys(part.get("name", "") for _, box in boxes for part in box.findall("part"))
    numbered = all(name.isdecimal() for name in names)
    if numbered and any(len(name) > 4 for name in names):
        raise InputError(f"{path}: the name of a part is not a landmark number: export it again.")
    order = {name: int(name) if numbered else j for j, name in enumerate(names)}

    def read(row: tuple[str, ET.Element]) -> FaceRecord:
        image, box = row
        points = np.full((max(order.values()) + 1, 2), np.nan)
        for part in box.findall("part"):
            points[order[part.get("name", "")]] = [float(part.get(axis, "")) for axis in "xy"]
        sides = [float(box.get(key, "nan")) for key in ("left", "top", "width", "height")]
        return face(points, image, box=edges_of(*sides) if np.isfinite(sides).all() else None)

    return read_each(path, "image", ((repr(row[0]), row) for row in boxes), read)


def write_dlib(path: PathLike, records: Sequence[FaceRecord]) -> None:
    """Write faces, whole or not at all; places are rounded to whole pixels."""
    warn_losses(
        path, records, "dlib", self_occluded="left out", externally_occluded="written as any other"
    )
    if any((np.nan_to_num(r.points) % 1).any() for r in records):
        warn_lost(path, "dlib knows whole pixels only; places are rounded, by up to half a pixel.")
    root = ET.Element("dataset")
    images = ET.SubElement(root, "images")
    for name, faces in by_image(records).items():
        image = ET.SubElement(images, "image", file=name)
        for record in faces:
            edges = zip(("left", "top", "width", "height"), corner_and_size(record), strict=True)
            box = ET.SubElement(image, "box", {key: str(round(edge)) for key, edge in edges})
            for j in np.flatnonzero(record.visible).tolist():
                x, y = (str(round(value)) for value in record.points[j].tolist())
                ET.SubElement(box, "part", name=f"{j:02d}", x=x, y=y)
    write_xml(path, root)
