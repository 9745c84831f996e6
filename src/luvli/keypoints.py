"""Faces to and from `supervision.KeyPoints`, for its annotators."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

import numpy as np

from luvli.errors import InputError, a_type
from luvli.face_fields import FIELDS, SETTINGS
from luvli.faces import FaceLandmarks, Faces
from luvli.image.box import Box
from luvli.markup import markup_by_size


def to_supervision(faces: FaceLandmarks | Faces | Sequence[FaceLandmarks]) -> Any:
    """Faces of one point set as `supervision.KeyPoints`, for its annotators.

    Its `visible` leaves out landmarks that the head hides; covariances, boxes and everything else
    about a face travel in its `data`, with NaN for what the model does not estimate.
    """
    try:
        import supervision
    except ImportError as error:
        raise InputError("supervision is not installed: pip install supervision.") from error
    if not isinstance(faces, Faces):
        faces = Faces.stack([faces] if isinstance(faces, FaceLandmarks) else faces)
    if not len(faces):
        return supervision.KeyPoints.empty()
    data: dict[str, Any] = {
        name: np.array(getattr(faces, name))
        for name in FIELDS
        if name != "points" and getattr(faces, name) is not None
    }
    data |= {name: np.full(len(faces), getattr(faces, name)) for name in SETTINGS}
    fields: dict[str, Any] = {
        "keypoint_confidence": faces.visibility.astype(np.float32),
        "detection_confidence": faces.scores.astype(np.float32),
        "visible": faces.visible() | (not faces.visibility_trained),
    }
    known = signature(supervision.KeyPoints).parameters  # older versions have fewer
    return supervision.KeyPoints(
        xy=np.array(faces.points),
        class_id=np.zeros(len(faces), int),
        data=data,
        **{name: values for name, values in fields.items() if name in known},
    )


def from_supervision(keypoints: Any, markup: str | None = None) -> Faces:
    """The inverse of `to_supervision`. KeyPoints of other programs have no covariances (NaN),
    and their visibility means nothing."""
    if not hasattr(keypoints, "xy"):
        raise InputError(f"from_supervision takes supervision.KeyPoints, not {a_type(keypoints)}.")
    points = np.asarray(keypoints.xy, dtype=np.float64)
    if not len(points):
        return Faces.empty(markup or "ibug68")
    n, k = points.shape[:2]
    known = markup_by_size(k)
    values: dict[str, Any] = {
        "covariance": np.full((n, k, 2, 2), np.nan),
        "visibility": np.ones((n, k)),
        "boxes": [Box.around(each).array for each in points],
        "markup": known.name if known else f"points{k}",
        "visibility_trained": False,
        "covariance_trained": False,
    }
    values |= {name: data for name, data in keypoints.data.items() if name in FIELDS}
    values |= {name: keypoints.data[name][0].item() for name in SETTINGS if name in keypoints.data}
    return Faces(points, **values | ({"markup": markup} if markup else {}))
