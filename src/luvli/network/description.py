"""What an ONNX file says about itself to programs in any language: JSON, the metadata entry
`description`. docs/reference/model-file.md explains it, docs/reference/model-file.schema.json is
its schema.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from luvli.image.crop import Convention
from luvli.image.detect import box_map
from luvli.likelihood import family
from luvli.network.backend import input_types, output_shapes
from luvli.network.model_info import ModelInfo

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
"""coverages of the ellipses whose radii a file lists"""
MEANING = {
    "crops": "face crops, RGB, rows from top to bottom, channels interleaved",
    "affine": "from image to crop pixels: what the crop was cut with",
    "box": "tight landmark boxes x0, y0, x1, y1, image pixels",
    "score": "of the face detector, 0..1; 1 for boxes that do not come from one",
    "landmarks": "x, y in crop pixels; the centre of the first pixel is (0, 0)",
    "covariance": "of the landmarks, crop pixels squared, calibrated",
    "visibility": "probability that the landmark is not hidden by the head itself",
    "occlusion": "probability that something else covers the landmark",
    "failure_logit": "the network's own log-odds that the alignment failed, not calibrated",
    "confidence": "calibrated probability that the alignment succeeded",
    "expected_error": "expected mean error of the landmarks, percent of the box",
}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Tensor(_Part):
    """An input or an output of the graph."""

    type: Literal["uint8", "float32"]
    shape: list[int | Literal["faces"]]
    meaning: str


class CropRule(_Part):
    """How a box becomes a crop."""

    size: int
    """S, the crop's side in pixels"""
    enlarge: float
    """side of the square in the image / longer side of the box"""
    convention: Convention
    """`pixel-centre`: x' = (x - cx) S / side + (S - 1) / 2, and so for y"""


class DetectorUsed(_Part):
    """Whose boxes the model was trained with."""

    name: str
    box_map: list[list[float]]
    """(4, 13) from the features of a detection to the edges of the tight landmark box"""


class Coverage(_Part):
    """Share of landmarks inside their ellipses, by level, on the calibration faces."""

    faces: int
    before: dict[str, float]
    after: dict[str, float]


class Description(_Part):
    """The entry `description` in the metadata of a model file."""

    name: str
    version: str
    licence: str
    markup: str
    """name of the point set, which says which landmark is which"""
    landmarks: int
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    crop: CropRule
    detector: DetectorUsed
    likelihood: str
    """distribution of a landmark around its point"""
    radii: dict[str, float]
    """coverage -> Mahalanobis radius of the ellipse that holds this share of the distribution"""
    covariance_trained: bool
    visibility_trained: bool
    occlusion_trained: bool
    calibration: Coverage | None = Field(default=None)
    """None for a model whose covariances were not calibrated"""


def describe(info: ModelInfo) -> Description:
    """The description of a model."""
    config, fitted = info.config, info.calibration
    inputs = {
        name: _tensor(name, "float32" if kind == "float" else kind, shape)
        for name, (kind, shape) in input_types(config).items()
    }
    shapes = output_shapes(info).items()
    quantile = family(info.likelihood).radius_quantile
    return Description(
        name=info.name,
        version=info.version,
        licence=info.licence,
        markup=config.markup,
        landmarks=config.landmarks,
        inputs=inputs,
        outputs={name: _tensor(name, "float32", shape) for name, shape in shapes},
        crop=CropRule(size=config.input_size, enlarge=info.enlarge, convention=config.crop),
        detector=DetectorUsed(name=info.detector, box_map=box_map(info.detector).tolist()),
        likelihood=info.likelihood,
        radii={str(level): round(float(quantile(level)), 6) for level in LEVELS},
        covariance_trained=config.covariance_trained,
        visibility_trained=config.visibility_trained,
        occlusion_trained=info.occlusion_trained,
        calibration=None
        if fitted is None
        else Coverage(faces=fitted.faces, before=fitted.before, after=fitted.after),
    )


def _tensor(name: str, kind: Any, shape: tuple[int, ...]) -> Tensor:
    return Tensor(type=kind, shape=["faces", *shape], meaning=MEANING[name])


def metadata(info: ModelInfo) -> dict[str, str]:
    """Strings for ONNX `metadata_props`: the description for every program, and what luvli reads
    back (`ModelInfo.from_metadata`)."""
    return info.to_metadata() | {"description": describe(info).model_dump_json()}
