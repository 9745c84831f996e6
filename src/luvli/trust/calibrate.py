"""The built-in calibration: make the predicted ellipses hold what they promise.

A network's covariances are as good as its training data was like the faces it meets. On
held-out faces one factor for each landmark is fitted, so that the ellipses of the model's
own likelihood that should hold 50, 80 and 95 percent of the labels do. Where the faces come
from several sources, what a pixel of the image is worth is fitted too: it makes the ellipses of
small images larger beside the face, and so holds the sources, whose images differ in size, to
the same promise. Covariances stay covariances: drawing, smoothing and scores all profit, and
nothing else has to know.

Verbs, in the order of time: `fit`, `Calibration.apply`, `coverage`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.evaluation.uncertainty import LikelihoodName, radii
from luvli.likelihood import family
from luvli.network.calibration import Calibration

LEVELS = (0.5, 0.8, 0.95)
"""shares of the labels that the fitted ellipses are made to hold"""

PIXELS = np.linspace(0.0, 2.0, 21)
"""standard deviations, in image pixels of covariances not yet scaled, that are tried"""
FEWEST_OF_SOURCE = 30
"""faces from which on a source has a say in what a pixel is worth"""
PRIOR_FACES = 100.0
"""A landmark's own factor counts as much as its group's when it was seen this many times."""


def fit(
    mean: ArrayLike,
    covariance: ArrayLike,
    truth: ArrayLike,
    visible: ArrayLike | None = None,
    likelihood: LikelihoodName = "laplace",
    groups: Mapping[str, Sequence[int]] | None = None,
    sources: ArrayLike | None = None,
) -> Calibration:
    """Fit the calibration on n held-out faces of k landmarks.

    `mean` and `truth` (n, k, 2) and `covariance` (n, k, 2, 2) in image pixels; landmarks that
    are not `visible` (n, k) or have no location do not count. Each landmark's factor is
    drawn towards that of its group (a markup's `groups`, else all landmarks) the fewer times
    it was seen, and all are then moved together so that the whole fits best.

    With `sources` (n,), the data set of each face, the variance of a pixel is chosen for which
    the largest gap between promised and held, over all sources and levels, is smallest. With
    one source there is nothing to choose by, and it stays 0.

    >>> rng = np.random.default_rng(0)
    >>> truth, sure = rng.normal(size=(500, 4, 2)), np.tile(np.eye(2) / 9, (500, 4, 1, 1))
    >>> fitted = fit(np.zeros((500, 4, 2)), sure, truth, likelihood="gauss")
    >>> bool(np.allclose(fitted.scale, 9, rtol=0.1))
    True
    """
    points, spread = np.asarray(mean, dtype=np.float64), np.asarray(covariance, dtype=np.float64)
    for name, array, shape in (
        ("mean", points, (*points.shape[:2], 2)),
        ("truth", np.asarray(truth), points.shape),
        ("covariance", spread, (*points.shape, 2)),
    ):
        if points.ndim != 3 or array.shape != shape:
            raise InputError(
                f"mean and truth must have shape (n, k, 2) and covariance (n, k, 2, 2): "
                f"{name} has {array.shape}."
            )
    before = radii(points, spread, truth, visible)
    if not np.isfinite(before).any():
        raise InputError("no landmark to calibrate with: none is visible and has a location.")
    k = before.shape[1]
    chosen = {name: list(members) for name, members in (groups or {"all": range(k)}).items()}
    if sorted(j for members in chosen.values() for j in members) != list(range(k)):
        raise InputError(f"the groups must hold each of the {k} landmarks once.")
    parts = _parts(sources, len(points))
    best = _Fit(0.0, np.zeros(k), before, np.inf)
    for pixel in PIXELS if len(parts) > 1 else PIXELS[:1]:
        radius = radii(points, spread + pixel**2 * np.eye(2), truth, visible)
        log_factor = _landmark_factors(radius, chosen, likelihood)
        scaled = radius / np.exp(log_factor)
        gap = max(_largest_gap(scaled[part], likelihood) for part in parts)
        if gap < best.gap:
            best = _Fit(float(pixel), log_factor, scaled, gap)
    scale = np.exp(2 * best.log_factor)
    return Calibration(
        scale=scale.tolist(),
        pixel_variance=(scale * best.pixel**2).tolist() if best.pixel else [],
        faces=len(points),
        before=coverage(before, likelihood),
        after=coverage(best.radius, likelihood),
    )


class _Fit(NamedTuple):
    pixel: float
    log_factor: Floats
    radius: Floats
    gap: float


def _parts(sources: ArrayLike | None, faces: int) -> list[NDArray[np.bool_]]:
    """Masks (n,) of the sources with enough faces; all faces where there is no such."""
    names = np.full(faces, "") if sources is None else np.asarray(sources)
    parts = [names == name for name in np.unique(names)]
    return [p for p in parts if p.sum() >= FEWEST_OF_SOURCE] or [np.ones(faces, dtype=bool)]


def _landmark_factors(
    radius: Floats, groups: Mapping[str, Sequence[int]], likelihood: LikelihoodName
) -> Floats:
    """(k,) logs of the lengths by which distances (n, k) are divided."""
    log_factor = np.zeros(radius.shape[1])
    overall = _best_log_factor(radius, likelihood)
    for members in groups.values():
        shared = _shrunk(radius[:, members], overall, likelihood)
        for j in members:
            log_factor[j] = _shrunk(radius[:, [j]], shared, likelihood)
    return log_factor + _best_log_factor(radius / np.exp(log_factor), likelihood)


def _largest_gap(radius: Floats, likelihood: LikelihoodName) -> float:
    held = coverage(radius, likelihood).values()
    return max(abs(share - level) for share, level in zip(held, LEVELS, strict=True))


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
