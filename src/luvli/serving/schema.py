"""Options of requests and bodies of answers, from which FastAPI makes the OpenAPI description."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from luvli.image.box import Box
from luvli.image.detect import MIN_SCORE
from luvli.serving.errors import Refused
from luvli.serving.settings import Limits, about

BOXES = (
    "JSON, [[x0, y0, x1, y1], ...]: tight landmark boxes in pixels, instead of the detector's. For "
    "several images a list of such lists. Also accepted as a form field."
)


class FaceOptions(BaseModel, extra="forbid"):
    """What is said about each face."""

    model: str | None = about("Name of a served model; the first one by default.", default=None)
    min_score: float = about(
        "Leave out faces that the detector scores below this.", default=MIN_SCORE, ge=0, le=1
    )
    regions: bool = about("Also give `guaranteed`, if the model has it.", default=False)
    measures: bool = about("Also give `measures`; the model must have 68 points.", default=False)


class PredictQuery(FaceOptions):
    """Options of a prediction."""

    boxes: str | None = about(BOXES, default=None)
    coverage: float = about("Of the ellipses of a drawing.", default=0.9, gt=0, lt=1)


class StreamOptions(FaceOptions):
    """Options of a stream, sent as a JSON text message."""

    smooth: bool = about("Smooth the landmarks over time.", default=True)


class MeasureBody(BaseModel):
    """A number measured on a face; its unit stands in `/v1/models`."""

    value: float | None = about("null where too few of its landmarks are visible.")
    std: float | None = about("Standard deviation of its error.")
    visible: float | None = about("Probability that its landmarks are visible.")


class RegionsBody(BaseModel):
    """Ellipses with a guarantee: they hold a visible landmark at least so often."""

    levels: list[float] = about("(L,) coverages.")
    radii: list[list[float | None]] = about("(L, k) Mahalanobis radii; null: none is known.")


class FaceBody(BaseModel):
    """One face. Coordinates are image pixels: x right, y down, the first pixel's centre (0, 0)."""

    markup: str = about("Name of the point set.")
    score: float = about("Score of the face detector, 0 to 1.")
    box: list[float] = about("x0, y0, x1, y1 of the face.")
    points: list[list[float | None]] = about("(k, 2) landmarks.")
    covariance: list[list[list[float | None]]] = about("(k, 2, 2) in pixels squared.")
    visibility: list[float] = about("(k,) probability that the head does not hide a landmark.")
    visibility_trained: bool = about("Whether the model was trained to predict it.")
    covariance_trained: bool = about("Whether the model was trained to predict it.")
    occlusion: list[float | None] | None = about(
        "(k,) probability that something covers a landmark.", default=None
    )
    occlusion_trained: bool = about("Whether the model was trained to predict it.", default=False)
    confidence: float | None = about("Probability of a good alignment.", default=None)
    expected_error: float | None = about("Mean error in percent of the box size.", default=None)
    eyes_closed: float | None = about("Probability that the eyes are closed.", default=None)
    accepted: bool | None = about("Whether the model's triage accepts the face.", default=None)
    likelihood: str = about("Distribution of a landmark.", default="laplace")
    guaranteed: RegionsBody | None = about("With `regions`.", default=None)
    measures: dict[str, MeasureBody] | None = about("With `measures`: by name.", default=None)


class ImageBody(BaseModel):
    """The faces of one image, best score first."""

    faces: list[FaceBody] = about("One entry for each face.")
    width: int = about("Of the image, in pixels.")
    height: int = about("Of the image, in pixels.")
    model: str = about("Name of the model.")
    version: str = about("Version of the software.")
    faces_left_out: int = about("Faces beyond the limit of one image.")
    timings: dict[str, float] = about("`total`: milliseconds.")


class ErrorWords(BaseModel):
    """Why a request was refused."""

    code: str = about("One word for programs.")
    message: str = about("One sentence for people.")


class ErrorBody(BaseModel):
    """The body of every refusal; among several images, the entry of one that was refused."""

    error: ErrorWords = about("Why.")


class ModelBody(BaseModel):
    """One served model. What follows `measures` is left out where it is not known."""

    name: str = about("Name, for the option `model`.")
    version: str = about("Version of the model.")
    licence: str = about("Licence of the model.")
    landmarks: int = about("Number of landmarks.")
    markup: str = about("Name of the point set.")
    likelihood: str = about("Distribution of a landmark.")
    visibility_trained: bool = about("Whether the model was trained to predict it.")
    calibrated: bool = about("Whether the covariances are calibrated.")
    radius: dict[str, float] = about("Percent -> Mahalanobis radius of the ellipse that holds it.")
    measures: dict[str, str] = about("Name of each measure -> its unit.")
    names: list[str] = about("(k,) names of the landmarks.", default=[])
    groups: dict[str, list[int]] = about("Part of the face -> its landmarks.", default={})
    edges: list[list[int]] = about("Pairs of landmarks that a line joins.", default=[])
    schematic: list[list[float]] = about("(k, 2) a face to draw.", default=[])
    summary: str = about("What the model is for.", default="")
    limits: list[str] = about("What it is not for.", default=[])


class ModelsBody(BaseModel):
    """What this server offers."""

    models: list[ModelBody] = about("The first one is the default.")
    limits: Limits = about("What it accepts.")
    version: str = about("Version of the software.")


_Edge = Annotated[float, Field(gt=-1e6, lt=1e6, strict=True)]
_Rows = TypeAdapter(list[list[tuple[_Edge, _Edge, _Edge, _Edge]]])


def parse_boxes(text: str, images: int, limit: int) -> list[list[Box] | None]:
    """The boxes of each of so many images, from JSON; at most `limit` for each.

    >>> parse_boxes("[[0, 0, 10, 20]]", 1, 100)
    [[Box(x0=0.0, y0=0.0, x1=10.0, y1=20.0, score=1.0)]]
    """
    try:
        rows = _Rows.validate_json(text if images > 1 else f"[{text}]")
    except ValidationError:
        rows = []
    if len(rows) != images:
        words = "[[x0, y0, x1, y1], ...]; for several images a list of lists"
        raise Refused("unusable", f"the boxes must be JSON: {words}.")
    if (most := max(map(len, rows))) > limit:
        raise Refused("too_large", f"there are {most} boxes, the limit is {limit}.")
    return [[Box(*row) for row in each] for each in rows]
