"""Counts and bounds of failures among accepted calibration faces, for the triage."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Bools, Floats
from luvli.errors import require
from luvli.trust.triage import CONFIDENCE, TriageTable

GRID = (*(round(float(1 / (1 + math.exp(-x))), 6) for x in np.linspace(7.0, -4.0, 56)), 0.0)
"""thresholds from 0.999 down to 0.018, evenly spaced in their logits, and 0: all faces"""


def fit_triage(
    confidence: Floats, failed: Bools, corrupted_share: float, others: Floats
) -> TriageTable:
    """Count accepted and failed calibration faces at each threshold of the grid.

    `confidence` (n,) must come from a failure model that was not fitted on these faces; `others`
    (m,) are confidences of the faces that it was fitted on, with the same share of corrupted ones.
    """
    grid = np.array(GRID)[:, None]
    accepted = confidence >= grid
    counts, failures = accepted.sum(axis=1), (accepted & failed).sum(axis=1)
    return TriageTable(
        thresholds=list(GRID),
        accepted=counts.tolist(),
        failed=failures.tolist(),
        upper_bound=np.round(upper_bound(failures, counts), 6).tolist(),
        expected=np.round((others >= grid).mean(axis=1), 4).tolist(),
        faces=len(confidence),
        corrupted_share=round(float(corrupted_share), 4),
    )


def upper_bound(failures: ArrayLike, faces: ArrayLike) -> Floats:
    """Clopper-Pearson: the failure rates that are not exceeded, with 95 % confidence.

    >>> upper_bound([0, 3], [100, 3]).round(4).tolist()
    [0.0295, 1.0]
    """
    stats = require("scipy.stats", "calibrate")
    failures, faces = np.asarray(failures), np.asarray(faces)
    some = failures < faces
    bound = stats.beta.ppf(CONFIDENCE, failures + 1, np.where(some, faces - failures, 1))
    return np.where(some, bound, 1.0)
