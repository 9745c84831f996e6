"""What requests may choose, and the bodies of answers, as the OpenAPI page shows them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from luvli.image.detect import MIN_SCORE


class PredictQuery(BaseModel):
    """The options of a prediction, in the query of its address.

    >>> PredictQuery.model_validate({"min_score": "0.8", "regions": "true"}).min_score
    0.8
    """

    model_config = ConfigDict(frozen=True)

    model: str | None = Field(default=None, description="Name of a served model.")
    boxes: str | None = Field(
        default=None,
        description="JSON: [[x0, y0, x1, y1], ...] tight landmark boxes in pixels; for several "
        "images a list of such lists. Then nothing is looked for.",
    )
    min_score: float = Field(
        default=MIN_SCORE, ge=0, le=1, description="Leave out faces below this score."
    )
    coverage: float | None = Field(
        default=None, gt=0, lt=1, description="Share that the ellipses of the drawing hold."
    )
    regions: bool = Field(
        default=False, description="Also give the radii of ellipses that hold a guarantee."
    )


class FaceBody(BaseModel):
    """`FaceLandmarks.to_dict()`: image pixels, x right, y down, first pixel's centre (0, 0)."""

    model_config = ConfigDict(extra="allow")

    markup: str
    score: float
    box: list[float]
    points: list[list[float]]
    covariance: list[list[list[float]]]
    visibility: list[float]
    visibility_trained: bool
    covariance_trained: bool


class ImageBody(BaseModel):
    """The faces of one image, best score first."""

    faces: list[FaceBody]
    width: int
    height: int
    model: str
    version: str
    """of the software"""
    faces_left_out: int
    """beyond the limit of faces in one image"""
    timings: dict[str, float]
    """milliseconds"""


class ModelBody(BaseModel):
    """One served model."""

    model_config = ConfigDict(extra="allow")

    name: str
    version: str
    licence: str
    landmarks: int
    markup: str
    likelihood: str
    visibility_trained: bool
    calibrated: bool
    radius: dict[str, float]
    """percent -> Mahalanobis radius of the ellipse that holds so much"""


class ModelsBody(BaseModel):
    """What this server offers."""

    models: list[ModelBody]
    limits: dict[str, Any]
    version: str


class ErrorWords(BaseModel):
    """A word for programs and a sentence for people."""

    code: str
    message: str


class ErrorBody(BaseModel):
    """What every refusal looks like."""

    error: ErrorWords


def _parameters() -> list[dict[str, Any]]:
    """The fields of `PredictQuery` as OpenAPI parameters."""
    fields = PredictQuery.model_json_schema()["properties"]
    return [
        {
            "name": name,
            "in": "query",
            "required": False,
            "description": about.pop("description"),
            "schema": about,
        }
        for name, about in fields.items()
    ]


_IMAGE = {"schema": {"type": "string", "format": "binary"}}
_FORM = {
    "type": "object",
    "properties": {
        "image": {"type": "array", "items": _IMAGE["schema"]},
        "boxes": {"type": "string"},
    },
}
PREDICT_REQUEST: dict[str, Any] = {
    "parameters": _parameters(),
    "requestBody": {
        "required": True,
        "content": {"image/*": _IMAGE, "multipart/form-data": {"schema": _FORM}},
    },
}
"""what `/v1/predict` takes"""
PREDICT_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": ImageBody | list[ImageBody],
        "content": {"image/png": {}, "text/csv": {}},
        "description": "The faces; a list of such objects for several images.",
    },
    **{
        status: {"model": ErrorBody, "description": words}
        for status, words in (
            (401, "A bearer token is needed."),
            (413, "Too many bytes, pixels, images or boxes."),
            (415, "Not an image."),
            (422, "An image or an option that cannot be used."),
            (429, "Too many requests of one client; see Retry-After."),
            (503, "Busy; see Retry-After."),
        )
    },
}
"""and what it gives"""
