"""From an upload to the bytes of the answer: JSON, CSV or a drawing."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import numpy as np
import pydantic_core
from PIL import Image

from luvli import __version__
from luvli.data.formats.csv import csv_text
from luvli.drawing.faces import draw_faces
from luvli.errors import InputError
from luvli.faces import Faces
from luvli.image.read import ImageArray
from luvli.likelihood import family
from luvli.markup import get_markup, is_markup
from luvli.measures.measure import Measures, definitions
from luvli.models import read_card
from luvli.prediction.parts import Row
from luvli.prediction.predictor import Predictor
from luvli.prediction.writers import record
from luvli.serving.engine import Answer, Engine
from luvli.serving.errors import Refused, unusable
from luvli.serving.schema import FaceOptions, PredictQuery, parse_boxes
from luvli.serving.upload import Upload, decode

JSON, PNG, CSV = KINDS = ("application/json", "image/png", "text/csv")
ANGLES = ("yaw", "pitch", "roll")
COVERAGES = range(50, 100)
"""percent: what the page's slider can ask for"""


def answer_kind(accept: str) -> str:
    """The media type of the answer: the first of `KINDS` in the Accept header.

    >>> answer_kind("text/html, text/csv;q=0.9")
    'text/csv'
    """
    for word in accept.split(","):
        media = word.partition(";")[0].strip().lower()
        if media in KINDS:
            return media
        if media in ("*/*", "application/*", ""):
            return JSON
    raise Refused(406, "not_acceptable", f"the answer can be one of {', '.join(KINDS)}.")


async def answer(engine: Engine, upload: Upload, query: PredictQuery, kind: str) -> bytes:
    """Predict the faces of all images and write them."""
    model = engine.model(query.model)
    images = upload.images
    if kind == PNG and len(images) > 1:
        raise unusable("a drawing is made of one image: send one, or ask for JSON.")
    text = query.boxes or upload.boxes
    boxes = parse_boxes(text, len(images)) if text else [None] * len(images)
    jobs = [
        model.predict(name, data, rows, query.min_score)
        for (name, data), rows in zip(images, boxes, strict=True)
    ]
    answers = await asyncio.gather(*jobs, return_exceptions=True)
    own_errors = kind == JSON and len(images) > 1
    for one in answers:
        if isinstance(one, BaseException) and not (own_errors and isinstance(one, Refused)):
            raise one
    if kind == JSON:
        return await engine.in_thread(_write_json, answers, query)
    if kind == CSV:
        return await engine.in_thread(_write_csv, answers)
    # decoded a second time, so that no decoded image waits in memory for the network
    image = await engine.in_thread(decode, images[0][1], engine.settings.limits, images[0][0])
    return await engine.in_thread(_draw, image, answers[0], query.coverage)


def _write_json(answers: list[Answer | Refused], query: PredictQuery) -> bytes:
    bodies = [
        one.body
        if isinstance(one, Refused)
        else {"faces": face_fields(one.faces, query), "version": __version__, **one.about}
        for one in answers
    ]
    return to_json(bodies if len(bodies) > 1 else bodies[0])


def _write_csv(answers: list[Answer]) -> bytes:
    rows = [Row(f"image-{number}", one.faces) for number, one in enumerate(answers, 1)]
    return csv_text([record(face, row) for row in rows for face in row.faces]).encode()


def _draw(image: ImageArray, answer: Answer, coverage: float) -> bytes:
    drawn = draw_faces(image, answer.faces, coverage=coverage, enlarge="readable")
    stream = io.BytesIO()
    Image.fromarray(drawn).save(stream, "PNG", compress_level=1)
    return stream.getvalue()


def face_fields(faces: Faces, options: FaceOptions) -> list[dict[str, Any]]:
    """The JSON objects of faces, with what the options add."""
    fields = faces.to_dicts()
    if options.regions and faces.regions is not None:
        levels = faces.regions.levels.tolist()
        for radii, one in zip(faces.regions.radii, fields, strict=True):
            finite = np.where(np.isfinite(radii), radii, np.nan)  # JSON has no infinity
            one["guaranteed"] = {"levels": levels, "radii": finite.T.round(4).tolist()}
    if options.measures:
        measures = faces.measures
        for i, one in enumerate(fields):
            one["measures"] = Measures({name: m[i] for name, m in measures.items()}).to_dict()
    return fields


def describe_model(predictor: Predictor) -> dict[str, Any]:
    """What a client needs to know of a model, and the page to draw its faces."""
    info, config = predictor.info, predictor.info.config
    quantile = family(info.likelihood).radius_quantile
    units = {each.name: each.unit for each in definitions(config.markup)}
    about: dict[str, Any] = {
        "name": info.name,
        "version": info.version,
        "licence": info.licence,
        "landmarks": config.landmarks,
        "markup": config.markup,
        "likelihood": info.likelihood,
        "visibility_trained": config.visibility_trained,
        "calibrated": info.calibration is not None,
        "radius": {str(p): round(float(quantile(p / 100)), 6) for p in COVERAGES},
        "measures": units | dict.fromkeys(ANGLES, "degrees") if units else {},
    }
    if is_markup(config.markup):
        markup = get_markup(config.markup)
        about |= {
            "names": list(markup.names),
            "groups": {name: list(members) for name, members in markup.groups.items()},
            "edges": [list(edge) for edge in markup.edges],
            "schematic": markup.schematic.round(4).tolist(),
        }
    try:
        card = read_card(info.name)
    except InputError:
        return about
    return about | {"summary": card.summary, "limits": card.limits}


def to_json(value: Any) -> bytes:
    """Compact JSON; NaN, which JSON lacks, becomes null.

    >>> to_json({"x": [0.1, float("nan")]})
    b'{"x":[0.1,null]}'
    """
    return pydantic_core.to_json(value, inf_nan_mode="null")
