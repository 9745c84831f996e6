"""What is promised of faces like the calibration faces: radii with a coverage guarantee, and counts
of failures for the triage.

Radii are split conformal prediction on Mahalanobis distances.

If the calibration faces and the next face are exchangeable, the ellipse whose radius is the right
order statistic of the calibration radii holds the label with at least the promised probability,
for any model and any number of faces (Vovk et al. 2005; Lei et al. 2018). Landmarks of one face
depend on each other, so a face, not a landmark, counts once: the radii of a group of landmarks are
pooled with equal weight for each face (Lee, Barber and Willett 2023), which keeps the guarantee
exact for a landmark drawn at random from the group. Groups of landmarks and classes of pose have
radii of their own (Mondrian), so that the guarantee holds within each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Bools, Floats
from luvli.errors import require
from luvli.trust.conformal import ALL_POSES, JOINT, ConformalRadii
from luvli.trust.triage import CONFIDENCE, TriageTable

LEVELS = tuple(round(0.5 + 0.01 * i, 2) for i in range(50))
"""coverages: 0.50 to 0.99"""
MIN_FACES = 60
"""A pose class with fewer calibration faces takes the radii of all poses."""


def face_quantiles(radii: ArrayLike, coverages: Sequence[float]) -> Floats:
    """(L,) the radii that a landmark drawn at random from the next face does not exceed with at
    least these probabilities; infinite where the faces are too few.

    `radii` (n, m) of n faces with up to m landmarks each, NaN where there is none. Every face has
    weight 1 / (n + 1), shared by its landmarks; the rest is that of the next face. With m = 1 this
    is the ceil((n + 1) coverage)-th smallest value.

    >>> face_quantiles([[1.0], [2.0], [3.0], [4.0]], [0.8, 0.9]).tolist()
    [4.0, inf]
    >>> face_quantiles([[1.0, 3.0], [2.0, np.nan], [5.0, 5.0]], [0.5]).tolist()
    [3.0]
    """
    values = np.atleast_2d(np.asarray(radii, dtype=np.float64))
    values = values[np.isfinite(values).any(axis=1)]
    known = np.isfinite(values)
    weight = np.where(known, 1.0 / known.sum(axis=1, keepdims=True) / (len(values) + 1), 0.0)
    order = np.argsort(values[known])
    share = np.cumsum(weight[known][order])
    place = np.searchsorted(share, np.asarray(coverages) - 1e-9)
    return np.append(values[known][order], np.inf)[place]


def faces_needed(coverage: float) -> int:
    """How many calibration faces a finite radius for this coverage takes.

    >>> faces_needed(0.9), faces_needed(0.99)
    (9, 99)
    """
    return math.ceil(coverage / (1.0 - coverage) - 1e-9)


def conformalize(
    radii: Floats, groups: Mapping[str, Sequence[int]], poses: ArrayLike
) -> ConformalRadii:
    """Radii for every group of landmarks, class of pose and level of coverage.

    `radii` (n, k) are Mahalanobis distances of the labels, NaN where a landmark is not visible;
    `poses` (n,) the class of each face by its prediction (`luvli.trust.features.predicted_poses`);
    each landmark is in one of the `groups`.
    """
    classes = np.asarray(poses, dtype=str)
    usable: Bools = np.asarray(np.isfinite(radii).any(axis=1))
    counts = {str(name): int((classes[usable] == name).sum()) for name in np.unique(classes)}
    worst = np.where(np.isnan(radii), -np.inf, radii).max(axis=1)[:, None]  # of joint regions
    scores = {name: radii[:, list(group)] for name, group in groups.items()}
    scores[JOINT] = np.where(usable[:, None], worst, np.nan)

    def table(rows: Bools) -> dict[str, list[float | None]]:
        quantiles = {name: face_quantiles(each[rows], LEVELS) for name, each in scores.items()}
        return {
            name: [round(r, 4) if math.isfinite(r) else None for r in values.tolist()]
            for name, values in quantiles.items()
        }

    large = [name for name, count in counts.items() if count >= MIN_FACES]
    return ConformalRadii(
        levels=list(LEVELS),
        groups={name: list(group) for name, group in groups.items()},
        radii={ALL_POSES: table(usable)} | {name: table(classes == name) for name in large},
        faces={ALL_POSES: int(usable.sum()), **counts},
    )


# --- triage ------------------------------------------------------------------------------

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
