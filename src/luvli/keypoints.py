"""Faces to and from `supervision.KeyPoints`, for its annotators."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np

from luvli.errors import InputError, a_type
from luvli.face_landmarks import ARRAY_FIELDS, FILE_FIELDS, FaceLandmarks
from luvli.faces import Faces
from luvli.image.box import Box
from luvli.markup import markup_by_size

_PLAIN_FIELDS = [name for name in FILE_FIELDS if name not in ARRAY_FIELDS]


def to_supervision(faces: FaceLandmarks | Faces | Sequence[FaceLandmarks]) -> Any:
    """Faces of one point set as `supervision.KeyPoints`, for its annotators.

    Its `visible` leaves out landmarks that the head hides; covariances, boxes and everything else
    about a face travel in its `data`, with NaN for what the model does not estimate.
    """
    try:
        supervision = import_module("supervision")
    except ImportError as error:
        raise InputError("supervision is not installed: pip install supervision.") from error
    several = [faces] if isinstance(faces, FaceLandmarks) else list(faces)
    if len({face.markup for face in several}) > 1:
        raise InputError("faces of several point sets do not fit into one KeyPoints.")
    if not several:
        return supervision.KeyPoints.empty()
    data = {name: np.stack([getattr(face, name) for face in several]) for name in ARRAY_FIELDS}
    for name in _PLAIN_FIELDS:
        values = [getattr(face, name) for face in several]
        data[name] = np.array([np.nan if value is None else value for value in values])
    visible = [
        face.visible() if face.visibility_trained else len(face) * [True] for face in several
    ]
    fields = {
        "keypoint_confidence": data["visibility"].astype(np.float32),
        "detection_confidence": data["score"].astype(np.float32),
        "visible": np.array(visible),
    }
    known = signature(supervision.KeyPoints).parameters  # older versions have fewer
    return supervision.KeyPoints(
        xy=data.pop("points"),
        class_id=np.zeros(len(several), int),
        data=data,
        **{name: values for name, values in fields.items() if name in known},
    )


def from_supervision(keypoints: Any, markup: str | None = None) -> list[FaceLandmarks]:
    """The inverse of `to_supervision`. KeyPoints of other programs have no covariances (NaN),
    and their visibility means nothing."""
    if not hasattr(keypoints, "xy"):
        raise InputError(f"from_supervision takes supervision.KeyPoints, not {a_type(keypoints)}.")
    faces = []
    for number, points in enumerate(np.asarray(keypoints.xy, dtype=np.float64)):
        k = len(points)
        known = markup_by_size(k)
        fields: dict[str, Any] = {
            "points": points,
            "covariance": np.full((k, 2, 2), np.nan),
            "visibility": np.ones(k),
            "markup": known.name if known else f"points{k}",
            "visibility_trained": False,
            "covariance_trained": False,
        }
        for name, values in keypoints.data.items():
            value = values[number]
            if name in ARRAY_FIELDS:
                fields[name] = value
            elif name in _PLAIN_FIELDS:
                value = value.item() if isinstance(value, np.generic) else value
                fields[name] = None if isinstance(value, float) and np.isnan(value) else value
        if markup:
            fields["markup"] = markup
        if "box" not in fields:
            fields["box"] = Box.around(points).array
        if fields.get("track") is not None:
            fields["track"] = int(fields["track"])
        faces.append(FaceLandmarks(**fields))
    return faces
