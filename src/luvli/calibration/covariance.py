"""Calibrates covariances: on held-out faces, the predicted ellipses hold what they promise.

One factor for each landmark is fitted, so that the ellipses that should hold 50, 80 and 95 % of the
labels do. The error distribution, which says what radius holds how many, is the model's likelihood
or Student's t with the degrees of freedom that fit best. Where the faces come from several sources,
whose images differ in size, the variance of an image pixel is fitted too. Where the model estimates
occlusion, so is the growth of the covariances of covered landmarks. Between sources the label
conventions differ: `fit_convention` estimates by how much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Bools, Floats
from luvli.errors import InputError, require
from luvli.evaluation.uncertainty import LikelihoodName, radii
from luvli.likelihood import STUDENT, family
from luvli.likelihood.covariance import half_log_determinant, to_cholesky
from luvli.markup import get_markup, is_markup
from luvli.network.calibration import Calibration, face_area
from luvli.network.config import NetworkConfig

Groups = Mapping[str, Sequence[int]]

LEVELS = (0.5, 0.8, 0.95)
"""shares of the labels that the fitted ellipses should hold"""
PIXEL_DEVIATIONS = np.linspace(0.0, 2.0, 21)
"""standard deviations to choose from, in image pixels before scaling"""
MIN_SOURCE = 30
"""faces from which on a source counts"""
PRIOR_FACES = 100.0
"""a landmark's own factor has the weight of its group's with this many faces"""
FREEDOMS = (3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30)
"""degrees of freedom of Student's t to choose from"""
OCCLUSION = tuple(round(0.1 * i, 1) for i in range(21))
"""growth of covered landmarks to choose from: exp(amount) in variance"""
MIN_GAIN = 0.01
"""by how much Student's t must be nearer to the radii (Kolmogorov-Smirnov distance) to be chosen"""


def fit_covariance(
    points: ArrayLike,
    covariance: ArrayLike,
    labels: ArrayLike,
    visible: ArrayLike | None = None,
    likelihood: LikelihoodName = "laplace",
    groups: Groups | None = None,
    sources: ArrayLike | None = None,
    occlusion: ArrayLike | None = None,
) -> Calibration:
    """Fit the calibration on n held-out faces of k landmarks.

    `points` and `labels` (n, k, 2) and `covariance` (n, k, 2, 2) in image pixels; landmarks that
    are not `visible` (n, k) or have no location do not count. Each landmark's factor is shrunk
    towards that of its group (`groups`, else all landmarks). `sources` (n,) are the data sets: the
    pixel variance makes the largest gap of coverage over them smallest. `occlusion` (n, k) are
    probabilities.

    >>> rng = np.random.default_rng(0)
    >>> labels, small = rng.normal(size=(500, 4, 2)), np.tile(np.eye(2) / 9, (500, 4, 1, 1))
    >>> fitted = fit_covariance(np.zeros((500, 4, 2)), small, labels, likelihood="gauss")
    >>> bool(np.allclose(fitted.scale, 9, rtol=0.1))
    True
    """
    mean, spread = np.asarray(points, dtype=np.float64), np.asarray(covariance, dtype=np.float64)
    before = _checked_radii(mean, spread, np.asarray(labels), visible)
    chosen = _checked_groups(groups, before.shape[1])
    masks = _source_masks(sources, len(mean))
    pixels = PIXEL_DEVIATIONS if len(masks) > 1 else PIXEL_DEVIATIONS[:1]
    covered = np.zeros(before.shape) if occlusion is None else np.nan_to_num(np.asarray(occlusion))

    def spread_for(amount: float, pixel: float) -> Floats:
        return spread * np.exp(amount * covered)[..., None, None] + pixel**2 * np.eye(2)

    def best_pixel(amount: float, name: LikelihoodName) -> _Fit:
        fits = (
            _fit(radii(mean, spread_for(amount, p), labels, visible), p, chosen, masks, name)
            for p in pixels
        )
        return min(fits, key=lambda fit: fit.gap)

    def energy(amount: float) -> float:
        scaled = spread_for(amount, best.pixel)
        return _energy(scaled, radii(mean, scaled, labels, visible), chosen, name)

    best = best_pixel(0.0, likelihood)
    name = _best_distribution(best.radius * np.exp(best.log_factor), chosen, likelihood)
    amount = min(OCCLUSION, key=energy) if covered.any() else 0.0
    if amount or name != likelihood:
        best = best_pixel(amount, name)
    scale = np.exp(2 * best.log_factor)
    return Calibration(
        scale=scale.tolist(),
        pixel_variance=(scale * best.pixel**2).tolist() if best.pixel else [],
        occlusion=amount,
        likelihood=name,
        faces=len(mean),
        before=coverage(before, likelihood),
        after=coverage(best.radius, name),
    )


def _energy(covariance: Floats, radius: Floats, groups: Groups, name: LikelihoodName) -> float:
    """Mean negative log-likelihood of distances (n, k) after scaling, up to a constant."""
    log_factor = _landmark_factors(radius, groups, name)
    size = half_log_determinant(to_cholesky(covariance)) + 2 * log_factor
    return float(np.nanmean(size + family(name).radius_energy(radius / np.exp(log_factor))))


class _Fit(NamedTuple):
    pixel: float
    log_factor: Floats
    """(k,)"""
    radius: Floats
    """(n, k) after scaling"""
    gap: float
    """largest difference of coverage from its level, over sources and levels"""


def _fit(
    radius: Floats,
    pixel: float,
    groups: Groups,
    masks: Sequence[Bools],
    likelihood: LikelihoodName,
) -> _Fit:
    log_factor = _landmark_factors(radius, groups, likelihood)
    scaled = radius / np.exp(log_factor)
    gap = max(
        abs(share - level)
        for mask in masks
        for share, level in zip(coverage(scaled[mask], likelihood).values(), LEVELS, strict=True)
    )
    return _Fit(float(pixel), log_factor, scaled, gap)


def _best_distribution(radius: Floats, groups: Groups, likelihood: LikelihoodName) -> str:
    """The distribution that distances (n, k) follow best, each with factors of its own."""
    stats = require("scipy.stats", "calibrate")

    def distance(name: LikelihoodName) -> float:
        scaled = radius / np.exp(_landmark_factors(radius, groups, name))
        inside = family(name).radius_probability(scaled[np.isfinite(scaled)])
        return float(stats.kstest(inside, "uniform").statistic)

    students = {f"{STUDENT}{freedom}": distance(f"{STUDENT}{freedom}") for freedom in FREEDOMS}
    best = min(students, key=lambda name: students[name])
    return best if students[best] < distance(likelihood) - MIN_GAIN else likelihood


def _landmark_factors(radius: Floats, groups: Groups, likelihood: LikelihoodName) -> Floats:
    """(k,) logs of the lengths by which distances (n, k) are divided."""
    log_factor = np.zeros(radius.shape[1])
    overall = _log_factor(radius, likelihood)
    for members in groups.values():
        shared = _shrunk(radius[:, list(members)], overall, likelihood)
        for j in members:
            log_factor[j] = _shrunk(radius[:, [j]], shared, likelihood)
    return log_factor + _log_factor(radius / np.exp(log_factor), likelihood)


def _shrunk(radius: Floats, towards: float, likelihood: LikelihoodName) -> float:
    count = int(np.isfinite(radius).sum())
    own = _log_factor(radius, likelihood)
    return (count * own + PRIOR_FACES * towards) / (count + PRIOR_FACES)


def _log_factor(radius: Floats, likelihood: LikelihoodName) -> float:
    """Log of the length that distances are divided by for the smallest largest gap of coverage;
    of ties, the smallest sum of squares. Gaps are step functions of the length, so all lengths
    between those that fit one level each are tried."""
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
    return float(candidates[cost <= cost.min() + 1e-12].mean())


def coverage(
    radius: ArrayLike,
    likelihood: LikelihoodName = "laplace",
    levels: Sequence[float] = LEVELS,
) -> dict[str, float]:
    """Share of the labels inside the ellipses that should hold each level.

    `radius` are Mahalanobis distances (`luvli.evaluation.uncertainty.radii`); NaN does not count.
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


def fit_convention(
    points: Floats, labels: Floats, sources: ArrayLike, groups: Groups | None = None
) -> Floats:
    """(k,) variance of the label convention between sources, per axis, in units of the squared box.

    A random effect for each source and landmark: labels of source s lie at its own mean offset from
    the predictions. The variance of the offsets between sources, less what the sampling of faces
    explains (method of moments), is pooled with that of the landmark's group, because sources are
    few. It is that of the offset of one more source: (1 + 1 / sources) times. Zeros for one source.
    """
    k = points.shape[1]
    relative = (labels - points) / np.sqrt(face_area(points))[:, None, None]
    offsets, noise = [], []
    for mask in _source_masks(sources, len(points)):
        known: Bools = np.asarray(np.isfinite(relative[mask]).all(axis=2))
        count = known.sum(axis=0)
        few: Bools = np.array(count < MIN_SOURCE, dtype=bool)
        values = np.where(known[..., None], relative[mask], np.nan)
        values[:, few] = np.nan
        middle = np.full((k, 2), np.nan)
        middle[~few] = np.nanmedian(values[:, ~few], axis=0)
        spread = np.nanquantile(values[:, ~few], (0.25, 0.75), axis=0)
        error = np.full((k, 2), np.nan)
        error[~few] = (np.pi / 2) * ((spread[1] - spread[0]) / 1.349) ** 2 / count[~few, None]
        offsets.append(middle)
        noise.append(error)
    if len(offsets) < 2:
        return np.zeros(k)
    several: Bools = np.asarray(np.isfinite(offsets).sum(axis=0) >= 2)
    between = np.zeros((k, 2))
    stacked, errors = np.stack(offsets)[:, several], np.stack(noise)[:, several]
    between[several] = np.nanvar(stacked, axis=0, ddof=1) - np.nanmean(errors, axis=0)
    own = np.maximum(between.mean(axis=1), 0.0)
    pooled = np.zeros(k)
    for members in _checked_groups(groups, k).values():
        pooled[list(members)] = own[list(members)].mean()
    return np.asarray((own + pooled) / 2 * (1 + 1 / len(offsets)))


def landmark_groups(config: NetworkConfig) -> dict[str, list[int]]:
    """The markup's groups of landmarks where they hold every one, else one group of all."""
    if is_markup(config.markup):
        groups = get_markup(config.markup).groups
        if sum(len(group) for group in groups.values()) == config.landmarks:
            return {name: list(group) for name, group in groups.items()}
    return {"all": list(range(config.landmarks))}


def _source_masks(sources: ArrayLike | None, faces: int) -> list[Bools]:
    """Masks (n,) of the sources with enough faces; all faces where there is none."""
    names = np.full(faces, "") if sources is None else np.asarray(sources)
    masks = [np.asarray(names == name) for name in np.unique(names)]
    return [mask for mask in masks if mask.sum() >= MIN_SOURCE] or [np.ones(faces, dtype=bool)]


def _checked_groups(groups: Groups | None, k: int) -> dict[str, list[int]]:
    chosen = {name: list(members) for name, members in (groups or {"all": range(k)}).items()}
    if sorted(j for members in chosen.values() for j in members) != list(range(k)):
        raise InputError(f"the groups must hold each of the {k} landmarks once.")
    return chosen


def _checked_radii(
    points: Floats, covariance: Floats, labels: Floats, visible: ArrayLike | None
) -> Floats:
    """(n, k) Mahalanobis distances of the labels; refuses arrays that do not fit together."""
    for name, array, shape in (
        ("points", points, (*points.shape[:2], 2)),
        ("labels", labels, points.shape),
        ("covariance", covariance, (*points.shape, 2)),
    ):
        if points.ndim != 3 or array.shape != shape:
            raise InputError(
                f"points and labels must have shape (n, k, 2) and covariance (n, k, 2, 2): "
                f"{name} has {array.shape}."
            )
    distances = radii(points, covariance, labels, visible)
    if not np.isfinite(distances).any():
        raise InputError("no landmark to calibrate with: none is visible and has a location.")
    return distances
