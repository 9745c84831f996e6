"""Options of requests and bodies of answers, from which FastAPI makes the OpenAPI description."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from luvli.image.detect import MIN_SCORE
from luvli.serving.errors import unusable
from luvli.serving.settings import Limits

Score = Annotated[float, Field(ge=0, le=1, description="Leave out detections below this score.")]
ModelName = Annotated[str | None, Field(description="A served model; the first one by default.")]
_Regions = Annotated[bool, Field(description="Also give `guaranteed`, if the model has it.")]
BOXES = (
    "JSON, [[x0, y0, x1, y1], ...]: tight landmark boxes in pixels, instead of the detector's. For "
    "several images a list of such lists. Also accepted as a form field."
)
GUARANTEED = (
    "With `regions`: coverage `levels` (L,) and Mahalanobis `radii` (L, k) of ellipses that hold "
    "them; null where no finite radius does."
)


class PredictQuery(BaseModel, extra="forbid"):
    """Options of a prediction."""

    model: ModelName = None
    boxes: str | None = Field(default=None, description=BOXES)
    min_score: Score = MIN_SCORE
    coverage: float = Field(default=0.9, gt=0, lt=1, description="Of a drawing's ellipses.")
    regions: _Regions = False


class StreamOptions(BaseModel, extra="forbid"):
    """Options of a stream, sent as a JSON text message."""

    model: ModelName = None
    smooth: bool = True
    regions: _Regions = False
    min_score: Score = MIN_SCORE


class FaceBody(BaseModel, extra="allow"):
    """One face. Coordinates are image pixels: x right, y down, the first pixel's centre (0, 0)."""

    markup: str = Field(description="Name of the point set.")
    score: float = Field(description="Score of the face detector, 0 to 1.")
    box: list[float] = Field(description="x0, y0, x1, y1 of the face.")
    points: list[list[float]] = Field(description="(k, 2) landmarks.")
    covariance: list[list[list[float]]] = Field(description="(k, 2, 2) in pixels squared.")
    visibility: list[float] = Field(description="(k,) probability that a landmark is visible.")
    visibility_trained: bool = Field(description="Whether the model predicts visibility.")
    covariance_trained: bool = Field(description="Whether the model predicts covariances.")
    confidence: float | None = Field(default=None, description="Probability of a good alignment.")
    expected_error: float | None = Field(default=None, description="In percent of the box size.")
    guaranteed: dict[str, list[Any]] | None = Field(default=None, description=GUARANTEED)


class ImageBody(BaseModel):
    """The faces of one image, best score first."""

    faces: list[FaceBody]
    width: int = Field(description="Pixels.")
    height: int = Field(description="Pixels.")
    model: str = Field(description="Name of the model.")
    version: str = Field(description="Version of the software.")
    faces_left_out: int = Field(description="Faces beyond the limit of one image.")
    timings: dict[str, float] = Field(description="Milliseconds: decode, detect, network, total.")


class ErrorWords(BaseModel):
    """Why a request was refused."""

    code: str = Field(description="One word for programs.")
    message: str = Field(description="One sentence for people.")


class ErrorBody(BaseModel):
    """The body of every refusal; among several images, the entry of one that was refused."""

    error: ErrorWords


class ModelBody(BaseModel, extra="allow"):
    """One served model."""

    name: str
    version: str
    licence: str
    landmarks: int = Field(description="Number of landmarks.")
    markup: str = Field(description="Name of the point set.")
    likelihood: str = Field(description="Distribution of a landmark.")
    visibility_trained: bool
    calibrated: bool
    radius: dict[str, float] = Field(description="Percent -> Mahalanobis radius of the ellipse.")


class ModelsBody(BaseModel):
    """What this server offers."""

    models: list[ModelBody]
    limits: Limits
    version: str = Field(description="Version of the software.")


_Edge = Annotated[float, Field(gt=-1e6, lt=1e6, strict=True)]
_Boxes = list[tuple[_Edge, _Edge, _Edge, _Edge]]
_SEVERAL_IMAGES = TypeAdapter(list[_Boxes])


def parse_boxes(text: str, images: int) -> list[_Boxes]:
    """The boxes of each of so many images, from JSON.

    >>> parse_boxes("[[0, 0, 10, 20]]", 1)
    [[(0.0, 0.0, 10.0, 20.0)]]
    """
    try:
        boxes = _SEVERAL_IMAGES.validate_json(text if images > 1 else f"[{text}]")
    except ValidationError:
        boxes = []
    if len(boxes) != images:
        raise unusable(
            "the boxes must be JSON: [[x0, y0, x1, y1], ...]; for several images a list of lists."
        )
    return boxes


def first_problem(errors: Sequence[Any], options: type[BaseModel]) -> str:
    """The first of pydantic's errors about `options` as a sentence."""
    name = str(errors[0]["loc"][-1])[:50] if errors[0]["loc"] else "the message"
    if errors[0]["type"] == "extra_forbidden":
        return f"there is no option {name!r}: choose from {', '.join(options.model_fields)}."
    return f"{name} cannot be used: {errors[0]['msg']}."
