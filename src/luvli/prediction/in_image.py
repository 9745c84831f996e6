"""What a model says about crops, moved to the pixels of their images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from luvli.arrays import Floats
from luvli.image import affine
from luvli.image.crop import Crop
from luvli.network.backend import CropPrediction
from luvli.network.model_info import ModelInfo


class FacesInImage(NamedTuple):
    """n predicted faces in image pixels, as arrays that their owner may change."""

    points: Floats
    """(n, k, 2)"""
    covariance: Floats
    """(n, k, 2, 2), calibrated to the end"""
    visibility: Floats
    """(n, k)"""
    occlusion: Floats | None
    """(n, k), None where the model does not tell"""
    astray: Floats | None
    """(n,) log-odds of having gone astray, None where the model does not tell"""

    @classmethod
    def of(cls, found: CropPrediction, crops: Sequence[Crop], info: ModelInfo) -> FacesInImage:
        """From predictions about n crops in crop pixels."""
        ways = [affine.invert(crop.affine) for crop in crops]
        to_image = ways[0] if len(ways) == 1 else np.array(ways)
        occlusion = None if found.occlusion is None else found.occlusion.astype(np.float64)
        points, covariance = info.to_image(to_image, found.points, found.covariance, occlusion)
        visibility = np.minimum(np.maximum(found.visibility, 0.0), 1.0).astype(np.float64)
        astray = None if found.astray is None else found.astray.astype(np.float64)
        return cls(points, covariance, visibility, occlusion, astray)

    def put(self, rows: Sequence[int], others: FacesInImage) -> None:
        """Other faces of the same model in the place of some of these."""
        for mine, theirs in zip(self, others, strict=True):
            if mine is not None and theirs is not None:
                mine[rows] = theirs
