"""Contact sheets of the faces that a model aligns worst: one for each source of a card."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from luvli.drawing.faces import draw
from luvli.drawing.sheet import captioned, contact_sheet
from luvli.faces import Faces
from luvli.image.box import Box
from luvli.image.crop import Crop
from luvli.image.read import ImageArray, read_image
from luvli.image.write import write_image
from measure_model import HeldOut, evaluated, per_face

SHOWN, COLUMNS, CELL = 24, 6, 220


def write_worst_faces(folder: Path, held: HeldOut, predictions: Faces) -> None:
    """`NAME.jpg` for each source: predictions yellow with their 95 % ellipses, labels green."""
    faces = evaluated(held, predictions)
    for name in dict.fromkeys(held.source.tolist()):
        there = np.flatnonzero((held.source == name) & ~held.chosen_by)
        kind = held.normalizer(held.source == name)
        errors = per_face(faces, kind)[there]
        worst = there[np.argsort(-errors)[:SHOWN]]
        cells = [_cell(held, predictions, i, per_face(faces, kind)[i]) for i in worst.tolist()]
        write_image(folder / f"{name}.jpg", contact_sheet(cells, COLUMNS))


def _cell(held: HeldOut, predictions: Faces, index: int, error: float) -> ImageArray:
    record, face = held.records[index], predictions[index]
    assert record.image is not None
    crop = Crop.from_box(Box(*record.tight_box), CELL, 1.5)
    cell = crop.warp(read_image(record.image))
    if not face.is_empty:
        moved = face.transform(crop.affine)
        cell = draw(cell, [moved], coverage=0.95, truth=crop.to_crop(record.points))
    text = "not found" if face.is_empty else f"{error:.1f} %"
    return captioned(cell, text, height=20)
