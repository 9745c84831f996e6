"""The built-in calibration: make the predicted ellipses hold what they promise.

A network's covariances are as good as its training data was like the faces it meets. On
held-out faces one factor for each landmark is fitted, so that the ellipses of the model's
own likelihood that should hold 50, 80 and 95 percent of the labels do. Covariances times
that factor stay covariances: drawing, smoothing and scores all profit, and nothing else has
to know. Units cancel, so image, crop and heat-map pixels all do.

Verbs, in the order of time: `fit`, `Calibration.apply`, `coverage`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.errors import InputError
from luvli.evaluation.uncertainty import radii
from luvli.likelihood import family
from luvli.network.calibration import Calibration

Floats = NDArray[np.float64]
LikelihoodName = Literal["laplace", "gauss"]

LEVELS = (0.5, 0.8, 0.95)
"""shares of the labels that the fitted ellipses are made to hold"""

PRIOR_FACES = 100.0
"""A landmark's own factor counts as much as its group's when it was seen this many times."""


def fit(
    mean: ArrayLike,
    covariance: ArrayLike,
    truth: ArrayLike,
    visible: ArrayLike | None = None,
    likelihood: LikelihoodName = "laplace",
    groups: Mapping[str, Sequence[int]] | None = None,
) -> Calibration:
    """Fit the factors on n held-out faces of k landmarks.

    `mean` and `truth` (n, k, 2) and `covariance` (n, k, 2, 2) in the same pixels; landmarks
    that are not `visible` (n, k) or have no location do not count. Each landmark's factor is
    drawn towards that of its group (a markup's `groups`, else all landmarks) the fewer times
    it was seen, and all are then moved together so that the whole fits best.

    >>> rng = np.random.default_rng(0)
    >>> truth, sure = rng.normal(size=(500, 4, 2)), np.tile(np.eye(2) / 9, (500, 4, 1, 1))
    >>> fitted = fit(np.zeros((500, 4, 2)), sure, truth, likelihood="gauss")
    >>> bool(np.allclose(fitted.scale, 9, rtol=0.1))
    True
    """
    points = np.asarray(mean, dtype=np.float64)
    for name, array, shape in (
        ("mean", points, (*points.shape[:2], 2)),
        ("truth", np.asarray(truth), points.shape),
        ("covariance", np.asarray(covariance), (*points.shape, 2)),
    ):
        if points.ndim != 3 or array.shape != shape:
            raise InputError(
                f"mean and truth must have shape (n, k, 2) and covariance (n, k, 2, 2): "
                f"{name} has {array.shape}."
            )
    radius = radii(mean, covariance, truth, visible)
    if not np.isfinite(radius).any():
        raise InputError("no landmark to calibrate with: none is visible and has a location.")
    k = radius.shape[1]
    log_factor = np.zeros(k)
    chosen = {name: list(members) for name, members in (groups or {"all": range(k)}).items()}
    if sorted(j for members in chosen.values() for j in members) != list(range(k)):
        raise InputError(f"the groups must hold each of the {k} landmarks once.")
    overall = _best_log_factor(radius, likelihood)
    for members in chosen.values():
        shared = _shrunk(radius[:, members], overall, likelihood)
        for j in members:
            log_factor[j] = _shrunk(radius[:, [j]], shared, likelihood)
    log_factor += _best_log_factor(radius / np.exp(log_factor), likelihood)
    scaled = radius / np.exp(log_factor)
    return Calibration(
        scale=np.exp(2 * log_factor).tolist(),
        faces=len(radius),
        before=coverage(radius, likelihood),
        after=coverage(scaled, likelihood),
    )


def coverage(
    radius: ArrayLike,
    likelihood: LikelihoodName = "laplace",
    levels: Sequence[float] = LEVELS,
) -> dict[str, float]:
    """Share of the labels inside the ellipses that should hold each level.

    `radius` are Mahalanobis distances, as `luvli.evaluation.uncertainty.radii` gives them;
    NaN does not count.
    """
    values = np.asarray(radius, dtype=np.float64)
    values = values[np.isfinite(values)]
    limits = family(likelihood).radius_quantile(np.asarray(levels))
    if not len(values):
        return {f"{level:g}": float("nan") for level in levels}
    return {
        f"{level:g}": float((values <= limit).mean())
        for level, limit in zip(levels, limits, strict=True)
    }


def _best_log_factor(radius: Floats, likelihood: LikelihoodName) -> float:
    """Log of the length that distances are divided by so that coverages fit best.

    Best is where the largest gap is smallest; where they tie, where their squares are. Gaps
    are step functions of the length, so it is searched, not followed: over all lengths
    between those that fit one level each.
    """
    values = np.sort(radius[np.isfinite(radius)])
    if not len(values):
        return 0.0
    limits = np.asarray(family(likelihood).radius_quantile(np.asarray(LEVELS)))
    ratios = np.quantile(values, LEVELS) / limits
    low, high = np.log(np.maximum((ratios.min(), ratios.max()), 1e-9))
    candidates = np.linspace(low, high, 201)
    inside = np.searchsorted(values, np.exp(candidates)[:, None] * limits, side="right")
    gaps = np.abs(inside / len(values) - np.asarray(LEVELS))
    cost = gaps.max(axis=1) + 1e-3 * (gaps**2).sum(axis=1)
    best = cost <= cost.min() + 1e-12
    return float(candidates[best].mean())


def _shrunk(radius: Floats, towards: float, likelihood: LikelihoodName) -> float:
    seen = int(np.isfinite(radius).sum())
    own = _best_log_factor(radius, likelihood)
    return (seen * own + PRIOR_FACES * towards) / (seen + PRIOR_FACES)
