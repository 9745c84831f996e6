"""The variance of the label convention: annotators of different data sets place the points
differently, and the ellipses of a model say where those of a new data set would place them."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from luvli.arrays import Floats
from luvli.calibration.covariance import MIN_SOURCE, source_masks
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.network.calibration import face_area
from luvli.trust.features import landmark_groups


def fit_convention(faces: LabelledFaces) -> Floats:
    """(k,) variance of the label convention between sources, per axis, in units of the squared box.

    A random effect for each source and landmark: labels of source s lie at its own mean offset from
    the predictions. The variance of the offsets between sources, less what the sampling of faces
    explains (method of moments), is pooled with that of the landmark's group, because sources are
    few. It is that of the offset of one more source: (1 + 1 / sources) times. Zeros for one source.
    """
    masks = source_masks(faces)
    if len(masks) < 2:
        return np.zeros(faces.landmarks)
    parts = [_offset(faces[mask]) for mask in masks]
    offsets, noise = np.stack([part[0] for part in parts]), np.stack([part[1] for part in parts])
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # of one source alone
        between = np.nanvar(offsets, axis=0, ddof=1) - np.nanmean(noise, axis=0)
    own = np.maximum(np.nan_to_num(between).mean(axis=1), 0.0)
    pooled = np.zeros(len(own))
    for members in landmark_groups(faces.faces.markup, faces.landmarks).values():
        pooled[members] = own[members].mean()
    return np.asarray((own + pooled) / 2 * (1 + 1 / len(masks)))


def in_one_convention(faces: LabelledFaces) -> LabelledFaces:
    """The faces with labels moved by the offset of their source: what is left are the errors within
    a source."""
    masks = source_masks(faces)
    labels, size = faces.labels.copy(), _face_size(faces)
    for mask in masks if len(masks) > 1 else []:
        labels[mask] -= size[mask] * np.nan_to_num(_offset(faces[mask])[0])
    return replace(faces, labels=labels)


def _offset(faces: LabelledFaces) -> tuple[Floats, Floats]:
    """(k, 2) the median of labels minus predictions of a source in units of the box, and the
    variance of that median; NaN where few faces label the landmark."""
    relative = (faces.labels - faces.points) / _face_size(faces)
    relative[~faces.visible] = np.nan
    count = np.isfinite(relative).sum(axis=0)
    relative[:, count[:, 0] < MIN_SOURCE] = np.nan
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # landmarks without any
        low, middle, high = np.nanquantile(relative, (0.25, 0.5, 0.75), axis=0)
    return middle, np.pi / 2 * ((high - low) / 1.349) ** 2 / np.maximum(count, 1)


def _face_size(faces: LabelledFaces) -> Floats:
    return np.sqrt(face_area(faces.points))[:, None, None]
