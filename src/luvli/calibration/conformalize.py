"""Split conformal prediction on Mahalanobis radii: ellipses with a coverage guarantee.

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
from luvli.trust.conformal import ALL_POSES, JOINT, ConformalRadii

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
