"""The bodies of answers, as the OpenAPI page shows them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


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
