"""What an audit leaves behind: a table, and a page with label and prediction side by side."""

from __future__ import annotations

import base64
import csv
import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from luvli.data.formats.common import image_cell, word_cell
from luvli.data.record import FaceRecord
from luvli.drawing.faces import draw_face
from luvli.errors import InputError
from luvli.evaluation.labelled_faces import predict_records
from luvli.faces import FaceLandmarks
from luvli.files import NOT_UTF8, PathLike, whole_file, write_text
from luvli.image.box import Box
from luvli.image.crop import Crop
from luvli.image.read import ImageArray, ImageSource, read_image
from luvli.prediction.predictor import Predictor
from luvli.trust.audit import Suspect
from luvli.trust.seen import Seen, photograph_name

CELL = 260

_STYLE = """body{font:15px/1.4 system-ui,sans-serif;margin:2em auto;padding:0 1em}
body{max-width:1100px;color:#222}
figure{display:inline-block;margin:.6em;width:260px;vertical-align:top}img{width:260px}
figcaption{font-size:13px}b{color:#b00}"""


def predict_unseen(
    predictors: Sequence[Predictor], records: Iterable[FaceRecord]
) -> Iterator[tuple[FaceLandmarks, bool]]:
    """A prediction for each record by a model that was not trained on its photograph.

    With several models, each trained without another part of the set, every face has one
    (cross-fitting). Yields the face and whether its model is known to have seen it.
    """
    filters = [
        Seen.from_text(p.info.trust.trained_on) if p.info.trust is not None else None
        for p in predictors
    ]
    for record in records:
        name = photograph_name(record)
        seen = [known is not None and name in known for known in filters]
        chosen = seen.index(False) if False in seen else 0
        # not found where the label says may be the label's fault: then look there too
        (face,) = predict_records(
            predictors[chosen], [record], "detector-or-tight", refine_boxes=True
        ).faces
        yield face, seen[chosen]


def write_suspects(
    path: PathLike,
    suspects: Sequence[Suspect],
    records: Sequence[FaceRecord] | Mapping[int, FaceRecord],
) -> None:
    """Every face with its suspicion, the most suspicious first; `records` by their places."""
    with (
        whole_file(path) as temporary,
        temporary.open("w", encoding="utf-8", errors=NOT_UTF8, newline="") as stream,
    ):
        lines = csv.writer(stream)
        kinds = list(suspects[0].scores) if suspects else []
        lines.writerow(["face", "image", "suspicion", "kind", "what", *kinds])
        for suspect in suspects:
            image = records[suspect.index].image
            lines.writerow(
                [word_cell(suspect.name), image_cell(image.name if image else ""),
                 f"{suspect.suspicion:.2f}", suspect.kind, word_cell(suspect.sentence),
                 *(f"{suspect.scores[k]:.2f}" for k in kinds)]
            )  # fmt: skip


def write_page(
    path: PathLike,
    title: str,
    suspects: Sequence[Suspect],
    records: Sequence[FaceRecord] | Mapping[int, FaceRecord],
    faces: Sequence[FaceLandmarks] | Mapping[int, FaceLandmarks],
    images: Mapping[int, ImageSource | None] | None = None,
) -> None:
    """One HTML file with the images inside; labels are green, predictions yellow.

    Records, faces and `images` by their places in the set; images that are not given are those
    that the records name.
    """
    parts = [
        f"<!doctype html><meta charset='utf-8'><title>{html.escape(title)}</title>",
        f"<style>{_STYLE}</style><h1>{html.escape(title)}</h1>",
        "<p>Labels are green, predictions yellow with their ellipses. Suspicion is -log of the "
        "share of faces that look as wrong: 7 is one in a thousand.</p>",
    ]
    for suspect in suspects:
        record = records[suspect.index]
        source = record.image if images is None else images[suspect.index]
        image = label_and_prediction(record, faces[suspect.index], source)
        shown = "" if image is None else f"<img alt='' src='{_data_url(image)}'>"
        parts.append(
            f"<figure>{shown}<figcaption><b>{html.escape(suspect.kind)}</b> "
            f"{suspect.suspicion:.1f}<br>{html.escape(suspect.sentence)}<br>"
            f"{html.escape(suspect.name)}</figcaption></figure>"
        )
    write_text(path, "\n".join(parts) + "\n")


def label_and_prediction(
    record: FaceRecord, face: FaceLandmarks, source: ImageSource | None
) -> ImageArray | None:
    """The face cut out with both; None where its image cannot be read."""
    if source is None:
        return None
    try:
        image = read_image(source)
    except InputError:
        return None
    points = [record.points[record.visible]]
    if not face.is_empty:
        points.append(face.points)
    crop = Crop.from_box(Box.around(np.concatenate(points)), CELL, 1.35)
    shown = replace(face.transform(crop.affine), confidence=None, accepted=None)
    return draw_face(crop.warp(image), shown, crop.to_crop(record.points))


def _data_url(image: ImageArray) -> str:
    import cv2

    coded = cv2.imencode(".jpg", image[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 85])[1]
    return "data:image/jpeg;base64," + base64.b64encode(coded.tobytes()).decode()


def report_files(out: Path) -> tuple[Path, Path]:
    """Where table and page go."""
    return out / "audit.csv", out / "audit.html"
