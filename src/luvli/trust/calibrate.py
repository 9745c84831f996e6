"""The built-in calibration: make the predicted ellipses hold what they promise.

A network's covariances are as good as its training data was like the faces it meets. On
held-out faces one factor for each landmark is fitted, so that the ellipses that should hold 50,
80 and 95 percent of the labels do. Which radius holds how many is a law of its own: the model's
likelihood, or Student's with as many degrees of freedom as fit best. Where the faces come
from several sources, what a pixel of the image is worth is fitted too: it makes the ellipses of
small images larger beside the face, and so holds the sources, whose images differ in size, to
the same promise. Where the
model tells which landmarks something covers, it is fitted how much their ellipses must grow.
Covariances stay covariances: drawing, smoothing and scores all profit, and
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
from luvli.likelihood import STUDENT, family
from luvli.likelihood.covariance import half_log_determinant, to_cholesky
from luvli.network.calibration import Calibration

LEVELS = (0.5, 0.8, 0.95)
"""shares of the labels that the fitted ellipses are made to hold"""

PIXELS = np.linspace(0.0, 2.0, 21)
"""standard deviations, in image pixels of covariances not yet scaled, that are tried"""
FEWEST_OF_SOURCE = 30
"""faces from which on a source has a say in what a pixel is worth"""
PRIOR_FACES = 100.0
"""A landmark's own factor counts as much as its group's when it was seen this many times."""
FREEDOMS = (3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30)
"""degrees of freedom of Student's law that are tried"""
OCCLUSION = tuple(round(0.1 * i, 1) for i in range(21))
"""by how much covered landmarks may be less sure than the network says: exp(amount) in variance"""
BETTER = 0.01
"""by how much Student's law must be nearer to the radii, as a share of them, to be taken"""


def fit(
    mean: ArrayLike,
    covariance: ArrayLike,
    truth: ArrayLike,
    visible: ArrayLike | None = None,
    likelihood: LikelihoodName = "laplace",
    groups: Mapping[str, Sequence[int]] | None = None,
    sources: ArrayLike | None = None,
    occlusion: ArrayLike | None = None,
) -> Calibration:
    """Fit the calibration on n held-out faces of k landmarks.

    `mean` and `truth` (n, k, 2) and `covariance` (n, k, 2, 2) in image pixels; landmarks that
    are not `visible` (n, k) or have no location do not count. Each landmark's factor is
    drawn towards that of its group (a markup's `groups`, else all landmarks) the fewer times
    it was seen, and all are then moved together so that the whole fits best.

    The density is the model's own `likelihood`, unless Student's law describes the radii better:
    the largest difference between the share of labels inside an ellipse and what the law says,
    over all ellipses, must be smaller by `BETTER`.

    With `sources` (n,), the data set of each face, the variance of a pixel is chosen for which
    the largest gap between promised and held, over all sources and levels, is smallest. With
    one source there is nothing to choose by, and it stays 0. With `occlusion` (n, k), the
    probabilities that landmarks are covered, their covariances grow as makes the labels likeliest.

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
    pixels = PIXELS if len(parts) > 1 else PIXELS[:1]
    covered = np.zeros(before.shape) if occlusion is None else np.nan_to_num(occlusion)

    def spread_for(amount: float, pixel: float) -> Floats:
        return spread * np.exp(amount * covered)[..., None, None] + pixel**2 * np.eye(2)

    def distances(amount: float, pixel: float) -> Floats:
        return radii(points, spread_for(amount, pixel), truth, visible)

    def nats(amount: float) -> float:
        """Mean negative log-likelihood, but for a constant."""
        radius = distances(amount, pixel)
        log_factor = _landmark_factors(radius, chosen, law)
        size = half_log_determinant(to_cholesky(spread_for(amount, pixel))) + 2 * log_factor
        return float(np.nanmean(size + family(law).radius_energy(radius / np.exp(log_factor))))

    best = _best_pixel([distances(0.0, p) for p in pixels], chosen, parts, likelihood)
    pixel = float(pixels[best.place])
    law = _best_law(distances(0.0, pixel), chosen, likelihood)
    amount = min(OCCLUSION, key=nats) if covered.any() else 0.0
    if amount or law != likelihood:
        best = _best_pixel([distances(amount, p) for p in pixels], chosen, parts, law)
    scale, pixel = np.exp(2 * best.log_factor), float(pixels[best.place])
    return Calibration(
        scale=scale.tolist(),
        pixel_variance=(scale * pixel**2).tolist() if pixel else [],
        occlusion=amount,
        likelihood=law,
        faces=len(points),
        before=coverage(before, likelihood),
        after=coverage(best.radius, law),
    )


class _Fit(NamedTuple):
    place: int
    """of the pixel's deviation among those tried"""
    log_factor: Floats
    radius: Floats
    gap: float


def _best_pixel(
    by_pixel: Sequence[Floats],
    groups: Mapping[str, Sequence[int]],
    parts: Sequence[NDArray[np.bool_]],
    likelihood: LikelihoodName,
) -> _Fit:
    """Of distances (n, k) for each deviation of a pixel, those that hold all parts best."""
    best: _Fit | None = None
    for place, radius in enumerate(by_pixel):
        log_factor = _landmark_factors(radius, groups, likelihood)
        scaled = radius / np.exp(log_factor)
        gap = max(_largest_gap(scaled[part], likelihood) for part in parts)
        if best is None or gap < best.gap:
            best = _Fit(place, log_factor, scaled, gap)
    assert best is not None
    return best


def _best_law(
    radius: Floats, groups: Mapping[str, Sequence[int]], likelihood: LikelihoodName
) -> LikelihoodName:
    """The law that distances (n, k) follow best, each with factors of its own."""

    def distance(law: LikelihoodName) -> float:
        scaled = radius / np.exp(_landmark_factors(radius, groups, law))
        inside = np.sort(family(law).radius_probability(scaled[np.isfinite(scaled)]))
        return float(np.abs(inside - (np.arange(len(inside)) + 0.5) / len(inside)).max())

    found = {f"{STUDENT}{freedom}": distance(f"{STUDENT}{freedom}") for freedom in FREEDOMS}
    best = min(found, key=lambda name: found[name])
    return best if found[best] < distance(likelihood) - BETTER else likelihood


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
