"""Regions with a guarantee: split conformal prediction on Mahalanobis radii.

The model says how the truth lies around a landmark: at Mahalanobis radius r with some law.
Laws are approximate; ranks are not. If the calibration faces and the next face are
exchangeable, the ellipse whose radius is the right order statistic of the calibration radii
holds the truth with at least the promised probability, for any model and any number of faces
(Vovk et al. 2005; Lei et al. 2018). Landmarks of one face depend on each other, so a face, not
a landmark, is what counts once: the radii of a group of landmarks are pooled with equal weight
for each face (Lee, Barber and Willett 2023), which keeps the guarantee exact for a landmark
drawn at random from the group. Groups of landmarks and classes of pose have radii of their
own (Mondrian), so that the promise holds within each, not only on average.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Floats
from luvli.errors import InputError, check_range
from luvli.network.trust_tables import ALL_POSES, JOINT, RegionTable

LEVELS = tuple(round(0.5 + 0.01 * i, 2) for i in range(50))
"""coverages that radii are kept for: 0.50 to 0.99"""

LEAST_FACES = 60
"""A pose class with fewer calibration faces falls back on the radii of all poses together."""


def split_quantile(scores: ArrayLike, coverage: float) -> float:
    """The score that the next one, exchangeable with these n, does not pass with at least
    probability `coverage`: the ceil((n + 1) coverage)-th smallest; infinite if n is too small.

    >>> split_quantile([1.0, 2.0, 3.0, 4.0], 0.8)
    4.0
    >>> split_quantile([1.0, 2.0, 3.0, 4.0], 0.9)
    inf
    """
    _check(coverage)
    values = np.sort(_finite(scores))
    rank = math.ceil((len(values) + 1) * coverage - 1e-9)
    return float(values[rank - 1]) if rank <= len(values) else math.inf


def face_quantile(radii: ArrayLike, coverage: float) -> float:
    """The same for a landmark drawn at random from the next face.

    `radii` (n, m) of n faces with up to m landmarks each, NaN where there is none. Every
    face has weight 1 / (n + 1), shared by its landmarks; the rest is kept for the next face.

    >>> face_quantile([[1.0, 3.0], [2.0, np.nan], [5.0, 5.0]], 0.5)
    3.0
    """
    return float(face_quantiles(radii, [coverage])[0])


def face_quantiles(radii: ArrayLike, coverages: Sequence[float]) -> Floats:
    """`face_quantile` for several coverages: (L,)."""
    for coverage in coverages:
        _check(coverage)
    values = np.atleast_2d(np.asarray(radii, dtype=np.float64))
    known = np.isfinite(values)
    values, known = values[known.any(axis=1)], known[known.any(axis=1)]
    n = len(values)
    weight = np.where(known, 1.0 / known.sum(axis=1, keepdims=True) / (n + 1), 0.0)
    order = np.argsort(values[known])
    ordered = values[known][order]
    share = np.cumsum(weight[known][order])
    place = np.searchsorted(share, np.asarray(coverages) - 1e-9)
    return np.append(ordered, np.inf)[place]


def faces_needed(coverage: float) -> int:
    """How many calibration faces a finite radius for this coverage takes.

    >>> faces_needed(0.9), faces_needed(0.99)
    (9, 99)
    """
    _check(coverage)
    return math.ceil(coverage / (1.0 - coverage) - 1e-9)


def largest_radius(radii: ArrayLike) -> Floats:
    """(n,) the largest radius of each face's visible landmarks: the score of joint regions."""
    values = np.asarray(radii, dtype=np.float64)
    worst = np.where(np.isfinite(values), values, -np.inf).max(axis=1)
    return np.where(np.isfinite(worst), worst, np.nan)


def fit_regions(
    radii: ArrayLike,
    groups: Mapping[str, Sequence[int]],
    poses: Sequence[str],
    levels: Sequence[float] = LEVELS,
    least: int = LEAST_FACES,
) -> RegionTable:
    """Radii for every group of landmarks, class of pose and level of coverage.

    `radii` (n, k) are Mahalanobis distances of the labels, NaN where a landmark is not
    visible; `poses` (n) the class of each face as it is told from the prediction alone.
    """
    values = np.asarray(radii, dtype=np.float64)
    if values.ndim != 2 or len(values) != len(poses):
        raise InputError(
            f"radii must have shape (n, k) for {len(poses)} faces, got {values.shape}."
        )
    members = sorted(j for group in groups.values() for j in group)
    if members != list(range(values.shape[1])):
        raise InputError(f"the groups must hold each of the {values.shape[1]} landmarks once.")
    classes = np.asarray(poses, dtype=str)
    usable = np.isfinite(values).any(axis=1)
    counts = {str(name): int((classes[usable] == name).sum()) for name in np.unique(classes)}
    table: dict[str, dict[str, list[float | None]]] = {}
    for pose in (ALL_POSES, *(name for name, count in counts.items() if count >= least)):
        chosen = values if pose == ALL_POSES else values[classes == pose]
        rows = {name: face_quantiles(chosen[:, list(group)], levels)
                for name, group in groups.items()}  # fmt: skip
        worst = largest_radius(chosen)
        rows[JOINT] = np.array([split_quantile(worst, level) for level in levels])
        table[pose] = {name: _listed(row) for name, row in rows.items()}
    return RegionTable(
        levels=list(levels),
        groups={name: list(group) for name, group in groups.items()},
        radii=table,
        faces={ALL_POSES: int(usable.sum()), **counts},
    )


def coverage_by(
    radii: ArrayLike, limits: ArrayLike, weights_per_face: bool = True
) -> tuple[float, int]:
    """Share of radii (n, m) within `limits` (broadcast), each face counting once; and n."""
    values = np.asarray(radii, dtype=np.float64)
    known = np.isfinite(values)
    inside = np.where(known, values <= np.asarray(limits), False)
    usable = known.any(axis=1)
    if not usable.any():
        return float("nan"), 0
    if not weights_per_face:
        return float(inside.sum() / known.sum()), int(usable.sum())
    share = inside[usable].sum(axis=1) / known[usable].sum(axis=1)
    return float(share.mean()), int(usable.sum())


def _listed(row: Floats) -> list[float | None]:
    return [round(float(value), 4) if math.isfinite(value) else None for value in row]


def _finite(scores: ArrayLike) -> Floats:
    values = np.asarray(scores, dtype=np.float64).ravel()
    return values[~np.isnan(values)]


def _check(coverage: float) -> None:
    check_range("coverage", coverage, 0, 1, ends=False)
