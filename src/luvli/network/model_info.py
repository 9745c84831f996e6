"""What a model file says about itself; the same for ONNX and safetensors. Needs no PyTorch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from luvli.errors import InputError
from luvli.image.box import Box
from luvli.image.crop import Convention, Crop
from luvli.image.detect import DetectorName
from luvli.measures.calibration import MeasureCalibration
from luvli.network.calibration import Calibration
from luvli.network.config import NetworkConfig
from luvli.trust.trust import Trust

FORMAT = "luvli-onnx-2"
"""changes when old readers could no longer read a file"""

DEFAULT_ENLARGE = 1.1
"""how much of its surroundings a crop shows where the file does not tell: what the paper's
published code used"""


class ModelInfo(BaseModel):
    """Everything needed to use a model, beside its weights."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    name: str
    version: str = "0"
    licence: str = "unknown"
    config: NetworkConfig
    """architecture and conventions"""
    enlarge: float = Field(default=DEFAULT_ENLARGE, ge=0.1, le=100)
    """side of the square crop / longer side of the tight landmark box"""
    calibration: Calibration | None = None
    trust: Trust | None = None
    """when to trust the model: failure model, conformal radii, triage (`luvli calibrate`)"""
    measures: MeasureCalibration | None = None
    """how landmarks err together, error bars of measures, closed eyes (`luvli calibrate`)"""
    detector: DetectorName = "yunet"
    """whose boxes the model was trained with, and is asked with unless others are given"""
    precision: Literal["float32", "int8"] = "float32"

    @property
    def crop_convention(self) -> Convention:
        """How boxes become crops, in training, evaluation and prediction alike."""
        return self.config.crop

    @property
    def likelihood(self) -> str:
        """The density that the covariances belong to: the calibration's, or the training's."""
        fitted = None if self.calibration is None else self.calibration.likelihood
        return fitted or self.config.likelihood

    @property
    def occlusion_trained(self) -> bool:
        """Whether the model tells which landmarks something covers, and learnt it."""
        return self.config.occlusion and self.config.occlusion_trained

    def crop_for(self, box: Box) -> Crop:
        """The window on an image that the model wants to see for a face in `box`."""
        size = self.config.input_size
        return Crop.from_box(box, size, self.enlarge, convention=self.crop_convention)

    @model_validator(mode="after")
    def _same_landmarks(self) -> ModelInfo:
        if self.calibration and len(self.calibration.scale) != self.config.landmarks:
            raise ValueError(
                f"the calibration of {self.name} is for {len(self.calibration.scale)} landmarks, "
                f"the network has {self.config.landmarks}"
            )
        return self

    @classmethod
    def from_training(cls, name: str, config: NetworkConfig, info: Mapping[str, Any]) -> ModelInfo:
        """From a safetensors file's configuration and free-form info."""
        known = ("licence", "enlarge", "detector", "calibration", "trust", "measures")
        try:
            return cls(
                name=str(info.get("name") or name),
                version=str(info.get("version", "0")),
                config=config,
                **{key: info[key] for key in known if key in info},
            )
        except (ValidationError, TypeError, ValueError) as error:
            raise InputError(
                f"the model {name} has info that cannot be used ({_first(error)}): save it again."
            ) from error

    def to_metadata(self) -> dict[str, str]:
        """Strings for ONNX `metadata_props` that `from_metadata` reads."""
        return {"format": FORMAT, "luvli": self.model_dump_json()}

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str], where: str) -> ModelInfo:
        """The inverse of `to_metadata`."""
        if metadata.get("format") != FORMAT:
            raise InputError(
                f"{where} is not a luvli model of format {FORMAT}: make one with luvli export."
            )
        try:
            return cls.model_validate(json.loads(metadata["luvli"]))
        except (KeyError, ValueError, RecursionError) as error:
            raise InputError(
                f"{where} has a description that this version cannot read "
                f"({_first(error)}): update luvli, or export the model again."
            ) from error


def _first(error: Exception) -> str:
    """What is wrong first, and where."""
    if isinstance(error, ValidationError):
        found = error.errors()[0]
        return f"{'.'.join(map(str, found['loc']))}: {found['msg']}"
    return str(error).splitlines()[0] if str(error) else type(error).__name__
