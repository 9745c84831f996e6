"""`Trust`: everything that a model file knows about when to trust its predictions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike
from pydantic import BaseModel, ConfigDict

from luvli.errors import InputError
from luvli.faces import Faces
from luvli.trust.conformal import ConformalRadii
from luvli.trust.failure_model import FailureModel
from luvli.trust.features import predicted_poses
from luvli.trust.triage import Threshold, TriageTable, accepted_needed, choose_threshold


class ReferenceFeatures(BaseModel):
    """Features of the calibration faces, to detect a shift of the input (`luvli triage`)."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    quantiles: dict[str, list[float]]
    """by feature, ascending"""
    faces: int


class Trust(BaseModel):
    """What `luvli calibrate` adds to a model, beside the calibration of its covariances."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    failure_model: FailureModel | None = None
    conformal: ConformalRadii | None = None
    triage: TriageTable | None = None
    reference: ReferenceFeatures | None = None
    training_photographs: str = ""
    """hashed names of the photographs that the model was trained on
    (`luvli.calibration.photographs`); "" where unknown"""
    data: list[str] = []
    """the calibration faces, in words"""

    def assess(self, faces: Faces, accept_threshold: float | None = None) -> Faces:
        """The faces with confidence, expected error, conformal radii and, with a threshold of
        confidence, whether they are accepted."""
        if not len(faces):
            return faces
        if self.failure_model is not None:
            confidence, expected_error = self.failure_model(faces)
            faces = replace(faces, confidence=confidence, expected_error=expected_error)
        return replace(faces, **self.decisions(faces, predicted_poses(faces), accept_threshold))

    def decisions(
        self, faces: Faces, poses: ArrayLike, accept_threshold: float | None = None
    ) -> dict[str, Any]:
        """Fields of faces that have their confidence, from the model file: conformal radii by
        their classes of pose (n,), and whether they are accepted."""
        fields: dict[str, Any] = {}
        if self.failure_model is not None and accept_threshold is not None:
            fields["accepted"] = faces.confidence >= accept_threshold
        if self.conformal is not None:
            fields["regions"] = self.conformal.of_poses(poses)
        return fields

    def threshold(self, max_failure_rate: float, model: str) -> Threshold:
        """The confidence from which faces are accepted, so that at most this share of them failed;
        or a sentence why there is none."""
        if self.triage is None:
            raise InputError(
                f"the model {model} was not calibrated for triage: use luvli calibrate, or leave "
                "--max-failure-rate out."
            )
        chosen = choose_threshold(self.triage, max_failure_rate)
        if math.isinf(chosen.threshold):
            raise InputError(
                f"the model {model} cannot promise a failure rate of {max_failure_rate:g}: its "
                f"{self.triage.faces:,} calibration faces do not show it; allow more, or calibrate "
                f"it on more faces (at least {accepted_needed(max_failure_rate):,} accepted ones)."
            )
        return chosen
