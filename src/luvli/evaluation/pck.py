"""PCK: how many landmarks are right, within a share of the face's size."""

from __future__ import annotations

import numpy as np

from luvli.arrays import Floats
from luvli.evaluation.labelled_faces import LabelledFaces


def pck(faces: LabelledFaces, threshold: float = 5.0) -> Floats:
    """(n,) percent of a face's visible landmarks with an error of at most `threshold` percent of
    the box; unpredicted ones are wrong, NaN where nothing is visible.

    >>> labels = np.array([[[0.0, 0.0], [100.0, 100.0], [50.0, 50.0]]])
    >>> pck(LabelledFaces.from_arrays(labels + [[[4.0, 0.0], [6.0, 0.0], [0.0, 5.0]]], labels))
    array([66.66666667])
    """
    errors = faces.landmark_errors("box")
    known = ~np.isnan(errors)
    correct = (known & (errors <= threshold)).sum(axis=1)
    share = correct / np.maximum(known.sum(axis=1), 1) * 100.0
    return np.where(known.any(axis=1), share, np.nan)
