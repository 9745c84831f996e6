"""Files of an audit: a table, and a page with label and prediction side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np

from luvli.calibration.audit import Suspect
from luvli.data.formats.label_parquet import image_at
from luvli.data.formats.tables import image_cell, word_cell, write_rows
from luvli.drawing.faces import draw
from luvli.errors import InputError
from luvli.evaluation.page import PagePart, Picture, html_page
from luvli.files import PathLike, write_text
from luvli.image.box import Box
from luvli.image.crop import Crop
from luvli.image.read import ImageArray, read_image
from luvli.prediction.writers import text_file

CELL = 260


def write_suspects(path: PathLike, listed: Sequence[Suspect]) -> None:
    """CSV with a row for each suspect, the most suspicious first."""
    kinds = list(listed[0].scores) if listed else []
    rows = [
        [
            word_cell(suspect.name),
            image_cell(Path(suspect.image).name),
            f"{suspect.suspicion:.2f}",
            suspect.kind,
            word_cell(suspect.sentence),
            *(f"{suspect.scores[kind]:.2f}" for kind in kinds),
        ]
        for suspect in listed
    ]
    with text_file(Path(path)) as stream:
        write_rows(stream, [["face", "image", "suspicion", "kind", "what", *kinds], *rows])


def write_audit_page(
    path: PathLike, title: str, listed: Sequence[Suspect], fail_above: float
) -> None:
    """One HTML file with the images inside; labels are green, predictions yellow. What is wrong
    with a label is said of those whose suspicion is at least `fail_above`."""
    wrong = sum(suspect.suspicion >= fail_above for suspect in listed)
    parts: list[PagePart] = [
        "Labels are green, predictions yellow with their ellipses. Suspicion is -log of the share "
        f"of faces that look as wrong: 7 is one in a thousand. {wrong or 'None'} of the labels "
        f"below {'is' if wrong == 1 else 'are'} probably wrong: their suspicion is at least "
        f"{fail_above:g}."
    ]
    for suspect in listed:
        words = f"{suspect.name}: no error found ({suspect.suspicion:.1f})"
        if suspect.suspicion >= fail_above:
            words = f"{suspect.name}: {suspect.kind} ({suspect.suspicion:.1f}): {suspect.sentence}"
        image = label_and_prediction(suspect)
        parts.append(words if image is None else Picture(words, _jpeg(image)))
    write_text(path, html_page(title, parts))


def label_and_prediction(suspect: Suspect) -> ImageArray | None:
    """The face cut out with both; None where its image cannot be read."""
    source = image_at(suspect.image) or suspect.image  # in Parquet the image is beside the label
    if not source:
        return None
    try:
        image = read_image(source)
    except InputError:
        return None
    face, labelled = suspect.face, np.isfinite(suspect.label).all(axis=1)
    around = Box.around(np.concatenate([suspect.label[labelled], face.points]))
    crop = Crop.from_box(around, CELL, 1.35)
    shown = replace(face.transform(crop.affine), confidence=None, accepted=None)
    return draw(crop.warp(image), [shown], truth=crop.to_crop(suspect.label))


def _jpeg(image: ImageArray) -> bytes:
    return cv2.imencode(".jpg", image[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 85])[1].tobytes()
