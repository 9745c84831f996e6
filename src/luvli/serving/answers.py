"""From an upload to the bytes of the answer: JSON, CSV or a drawing."""

from __future__ import annotations

import asyncio
import io
import math
from typing import Any

import pydantic_core
from PIL import Image

from luvli import __version__
from luvli.data.formats.csv import csv_text
from luvli.drawing.faces import draw_faces, readable_enlargement
from luvli.errors import InputError
from luvli.faces import Faces
from luvli.likelihood import family
from luvli.markup import get_markup, is_markup
from luvli.models import read_card
from luvli.prediction.parts import Row
from luvli.prediction.predictor import Predictor
from luvli.prediction.writers import record
from luvli.serving.engine import Answer, Engine
from luvli.serving.errors import Refused, unusable
from luvli.serving.schema import PredictQuery, parse_boxes
from luvli.serving.upload import Upload, decode

JSON, PNG, CSV = KINDS = ("application/json", "image/png", "text/csv")
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
    several = len(upload.images) > 1
    if kind == PNG and several:
        raise unusable("a drawing is made of one image: send one, or ask for JSON.")
    text = query.boxes or upload.boxes
    boxes = parse_boxes(text, len(upload.images)) if text else [None] * len(upload.images)
    jobs = [
        model.predict(name, data, rows, query.min_score)
        for (name, data), rows in zip(upload.images, boxes, strict=True)
    ]
    answers = await asyncio.gather(*jobs, return_exceptions=True)
    fields: list[dict[str, Any]] = []
    tables: list[Row] = []
    for number, one in enumerate(answers, 1):
        if isinstance(one, Refused) and several and kind == JSON:
            fields.append(one.body)  # the other images have their answers
        elif isinstance(one, BaseException):
            raise one
        elif kind == JSON:
            faces = face_fields(one.faces, query.regions)
            fields.append({"faces": faces, "version": __version__, **one.about})
        elif kind == CSV:
            tables.append(Row(f"image-{number}", one.faces))
        else:
            arguments = (engine, model.predictor, upload.images[0], one, query.coverage)
            return await engine.in_thread(_draw, *arguments)
    if kind == JSON:
        return to_json(fields if several else fields[0])
    return csv_text([record(face, table) for table in tables for face in table.faces]).encode()


def _draw(
    engine: Engine,
    predictor: Predictor,
    file: tuple[str, bytes],
    answer: Answer,
    coverage: float,
) -> bytes:
    # decoded a second time, so that no decoded image waits in memory for the network
    image = decode(file[1], engine.settings.limits, file[0])
    likelihood = predictor.info.likelihood
    faces = list(answer.faces)
    enlarge = readable_enlargement(image, faces)
    drawn = draw_faces(image, faces, coverage=coverage, likelihood=likelihood, enlarge=enlarge)
    stream = io.BytesIO()
    Image.fromarray(drawn).save(stream, "PNG", compress_level=1)
    return stream.getvalue()


def face_fields(faces: Faces, regions: bool) -> list[dict[str, Any]]:
    """The JSON objects of faces; with `regions` also `guaranteed`, where it is known."""
    fields = faces.to_dicts()
    if regions and faces.regions is not None:
        for face, one in zip(faces, fields, strict=True):
            assert face.regions is not None
            rows = face.regions.radii.T.tolist()
            radii = [[round(r, 4) if math.isfinite(r) else None for r in row] for row in rows]
            one["guaranteed"] = {"levels": face.regions.levels.tolist(), "radii": radii}
    return fields


def describe_model(predictor: Predictor) -> dict[str, Any]:
    """What a client needs to know of a model, and the page to draw its faces."""
    info, config = predictor.info, predictor.info.config
    quantile = family(info.likelihood).radius_quantile
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
