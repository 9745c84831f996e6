"""From an upload to the bytes of the answer: JSON, CSV or a drawing."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import cv2
import numpy as np
import pydantic_core

from luvli import __version__
from luvli.data.formats.csv import csv_text
from luvli.drawing.faces import draw
from luvli.errors import InputError
from luvli.faces import Faces
from luvli.likelihood import family
from luvli.markup import get_markup, is_markup
from luvli.measures.measure import definitions
from luvli.models import read_card
from luvli.prediction.predictor import Predictor
from luvli.prediction.rows import Row
from luvli.prediction.writers import face_dicts, record
from luvli.serving.engine import Engine, Job, Predicted
from luvli.serving.errors import Refused, refusal
from luvli.serving.schema import FaceOptions, PredictQuery, parse_boxes
from luvli.serving.upload import Upload

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
    raise Refused("not_acceptable", f"the answer can be one of {', '.join(KINDS)}.")


async def answer(engine: Engine, upload: Upload, query: PredictQuery, kind: str) -> bytes:
    """Predict the faces of all images and write them."""
    start = time.monotonic()
    model, images, limits = engine.model(query.model), upload.images, engine.settings.limits
    if kind == PNG and len(images) > 1:
        raise Refused("unusable", "a drawing is made of one image: send one, or ask for JSON.")
    text = query.boxes or upload.boxes
    boxes = parse_boxes(text, len(images), limits.max_faces) if text else [None] * len(images)
    pairs = zip(images, boxes, strict=True)
    jobs = [model.predict(Job(image.source, rows, query.min_score)) for image, rows in pairs]
    results: list[Predicted] = await asyncio.gather(*jobs)
    faces = [each for each, _ in results if isinstance(each, Faces)]
    if len(faces) < len(results) and (kind != JSON or len(images) == 1):
        raise next(each for each, _ in results if isinstance(each, InputError))
    if kind == CSV:
        return await engine.in_thread(csv_answer, faces)
    if kind == PNG:
        return await engine.in_thread(write_drawing, images[0].source, faces[0], query.coverage)
    timings = {"total": round((time.monotonic() - start) * 1e3, 3)}
    about = {"model": model.name, "version": __version__, "timings": timings}
    return await engine.in_thread(json_answer, results, upload, about, query)


def json_answer(
    results: list[Predicted], upload: Upload, about: dict[str, Any], options: FaceOptions
) -> bytes:
    """An object for each image; the object alone if there is one image."""
    bodies: list[dict[str, Any]] = []
    for (result, left_out), image in zip(results, upload.images, strict=True):
        if isinstance(result, InputError):
            bodies.append(refusal(result).body)
            continue
        size = {"width": image.size[0], "height": image.size[1]}
        faces = face_fields(result, options)
        bodies.append({"faces": faces, **size, **about, "faces_left_out": left_out})
    return to_json(bodies if len(bodies) > 1 else bodies[0])


def csv_answer(faces: list[Faces]) -> bytes:
    """One table of the faces of all images."""
    rows = [Row(f"image-{number}", each) for number, each in enumerate(faces, 1)]
    return csv_text([record(face, row) for row in rows for face in row.faces]).encode()


def write_drawing(data: bytes, faces: Faces, coverage: float) -> bytes:
    """A PNG. The image is decoded again, so that none waits in memory for its faces."""
    drawn = draw(data, faces, coverage=coverage, enlarge="readable")
    return cv2.imencode(".png", drawn[:, :, ::-1])[1].tobytes()


def face_fields(faces: Faces, options: FaceOptions) -> list[dict[str, Any]]:
    """The JSON objects of faces, with what the options add."""
    fields = face_dicts(faces, options.measures)
    if options.regions and faces.regions is not None:
        levels = faces.regions.levels.tolist()
        for radii, one in zip(faces.regions.radii, fields, strict=True):
            finite = np.where(np.isfinite(radii), radii, np.nan)  # JSON has no infinity
            one["guaranteed"] = {"levels": levels, "radii": finite.T.round(4).tolist()}
    return fields


def describe_model(predictor: Predictor) -> dict[str, Any]:
    """What a client needs to know of a model, and the page to draw its faces."""
    info, config = predictor.info, predictor.info.config
    quantile = family(info.likelihood).radius_quantile
    units = {each.name: each.unit for each in definitions(config.markup)}
    about: dict[str, Any] = {
        **{name: getattr(info, name) for name in ("name", "version", "licence", "likelihood")},
        **{name: getattr(config, name) for name in ("landmarks", "markup", "visibility_trained")},
        "calibrated": info.calibration is not None,
        "radius": {str(p): round(float(quantile(p / 100)), 6) for p in COVERAGES},
        "measures": units | dict.fromkeys(ANGLES, "degrees") if units else {},
    }
    if is_markup(config.markup):
        markup = get_markup(config.markup)
        about |= {name: getattr(markup, name) for name in ("names", "groups", "edges")}
        about["schematic"] = markup.schematic.round(4).tolist()
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
