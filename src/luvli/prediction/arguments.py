"""What users hand to `Predictor.predict`, checked: images of any kind, boxes, options."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from luvli.errors import InputError, unknown_choice
from luvli.image.box import Box
from luvli.image.box_format import Boxes, BoxFormat, BoxSource, as_boxes
from luvli.image.detect import MIN_SCORE
from luvli.image.read import ImageSource
from luvli.image.source import AnyImage, Color, image_size, name_of, plain_source
from luvli.network.model_info import ModelInfo
from luvli.prediction.rotations import TryRotations


@dataclass(frozen=True)
class Options:
    """Keyword arguments of `Predictor.predict`, which describes them."""

    min_score: float = MIN_SCORE
    color: Color = "rgb"
    box_format: BoxFormat = "xyxy"
    box_source: BoxSource = "tight"
    relative_boxes: bool = False
    try_rotations: TryRotations = "auto"
    white_level: int | None = None
    min_confidence: float = 0.0

    def __post_init__(self) -> None:
        check_share("min_score", self.min_score)
        check_share("min_confidence", self.min_confidence)

    def check_model(self, info: ModelInfo) -> None:
        """Refuse what the model cannot give."""
        if self.min_confidence and info.trust is None:
            raise InputError(f"{info.name} gives no confidence: leave min_confidence out.")


def as_sources(
    images: Sequence[AnyImage], boxes: Sequence[Boxes] | None, options: Options, errors: str
) -> tuple[list[ImageSource | InputError], list[list[Box]] | None]:
    """Each image as a path, bytes or an RGB array, and its boxes as `Box`, which must lie inside
    it; with `errors` "return" the error of an image that cannot be used takes its place."""
    if isinstance(images, str | bytes | os.PathLike):
        raise InputError("predict_batch takes a list of images: use predict for one.")
    if errors not in ("raise", "return"):
        raise unknown_choice("errors", errors, ("raise", "return"))
    if boxes is not None and len(boxes) != len(images):
        raise InputError(f"{len(images)} images need {len(images)} lists of boxes.")
    sources: list[ImageSource | InputError] = []
    tight: list[list[Box]] = []
    for i, image in enumerate(images):
        rows: list[Box] = []
        try:
            source = plain_source(image, options.color, options.white_level)
            if boxes is not None:
                rows = as_boxes(
                    boxes[i], options.box_format, options.relative_boxes, image_size(source),
                    name_of(image), options.box_source,
                )  # fmt: skip
            sources.append(source)
        except InputError as error:
            if errors == "raise":
                raise
            sources.append(error)
        tight.append(rows)
    return sources, None if boxes is None else tight


def check_share(name: str, value: object) -> None:
    """Refuse what is no number in 0..1."""
    if not isinstance(value, int | float | np.number) or not 0 <= value <= 1:
        raise InputError(f"{name} must lie in 0..1, got {value!r}.")
