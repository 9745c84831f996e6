"""What the server says about its models, and how it writes answers: JSON, CSV or a drawing."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import pydantic_core
from PIL import Image

from luvli import __version__
from luvli.data.formats.csv import csv_text
from luvli.drawing.faces import draw_faces, readable_enlargement
from luvli.errors import InputError
from luvli.faces import FaceLandmarks
from luvli.image.read import ImageArray
from luvli.likelihood import family
from luvli.markup import get_markup, is_markup
from luvli.models import read_card
from luvli.prediction.predictor import Predictor
from luvli.prediction.result import Result
from luvli.prediction.write import record
from luvli.serving.engine import Answer

COVERAGES = tuple(range(50, 100))
"""percent: what an ellipse can be asked to hold on the page"""


def describe_model(predictor: Predictor) -> dict[str, Any]:
    """What a client needs to know of a model, and the page to draw its faces."""
    info = predictor.info
    config = info.config
    about: dict[str, Any] = {
        "name": info.name,
        "version": info.version,
        "licence": info.licence,
        "landmarks": config.landmarks,
        "markup": config.markup,
        "likelihood": info.likelihood,
        "visibility_trained": config.visibility_trained,
        "calibrated": info.calibration is not None,
        "radius": ellipse_radii(info.likelihood),
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


def ellipse_radii(likelihood: str) -> dict[str, float]:
    """percent -> Mahalanobis radius of the ellipse that holds so much, by the model's own law.

    >>> ellipse_radii("laplace")["95"]
    2.738871
    """
    quantile = family(likelihood).radius_quantile
    return {str(percent): round(float(quantile(percent / 100)), 6) for percent in COVERAGES}


def face_fields(face: FaceLandmarks, regions: bool) -> dict[str, Any]:
    """The JSON object of one face; with `regions`, also the radii that hold a guarantee, where
    the model was calibrated for it: `levels` (L,) and `radii` (L, k), null for infinite."""
    fields = face.to_dict()
    if regions and face.regions is not None:
        rows = face.regions.radii.T.tolist()
        fields["guaranteed"] = {
            "levels": face.regions.levels.tolist(),
            "radii": [[round(r, 4) if math.isfinite(r) else None for r in row] for row in rows],
        }
    return fields


def answer_fields(answer: Answer, predictor: Predictor, regions: bool) -> dict[str, Any]:
    """The JSON object of one image."""
    return {
        "faces": [face_fields(face, regions) for face in answer.faces],
        "width": answer.width,
        "height": answer.height,
        "model": predictor.info.name,
        "version": __version__,
        "faces_left_out": answer.left_out,
        "timings": answer.timings,
    }


def to_json(value: Any) -> bytes:
    """Compact, every number to its last digit; NaN, which is no JSON, becomes null.

    >>> to_json({"x": [0.1, float("nan")]})
    b'{"x":[0.1,null]}'
    """
    # twenty times as fast as json.dumps, which took a thirtieth of a request
    return pydantic_core.to_json(value, inf_nan_mode="null")


def to_csv(images: list[tuple[str, list[FaceLandmarks]]]) -> bytes:
    """The project's CSV, one row for each face of the named images."""
    results = [Result(name, tuple(faces)) for name, faces in images]
    records = [record(face, result, None) for result in results for face in result.faces]
    return csv_text(records).encode()


def to_png(
    image: ImageArray, faces: list[FaceLandmarks], predictor: Predictor, coverage: float | None
) -> bytes:
    """The drawing; small faces are enlarged so that they can be looked at."""
    drawn = draw_faces(
        image,
        faces,
        coverage=coverage,
        likelihood=predictor.info.likelihood,
        enlarge=readable_enlargement(image, faces),
    )
    stream = io.BytesIO()
    Image.fromarray(drawn).save(stream, "PNG", compress_level=1)
    return stream.getvalue()


def page_folder() -> Path:
    """The static files of the page."""
    return Path(__file__).parent / "page"
