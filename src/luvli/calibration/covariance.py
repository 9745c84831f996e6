"""Calibrates covariances: on held-out faces, the predicted ellipses hold what they promise.

One factor for each landmark is fitted, so that the ellipses that should hold 50, 80 and 95 % of the
labels do. The error distribution, which says what radius holds how many, is the model's likelihood
or Student's t with the degrees of freedom that fit best. Where the faces come from several sources,
whose images differ in size, the variance of an image pixel is fitted too. Where the model estimates
occlusion, so is the growth of the covariances of covered landmarks. Last, the variance of the label
convention: annotators of different data sets place the points differently, and the ellipses of a
model say where those of a new data set would place them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Bools, Floats
from luvli.errors import require
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.likelihood import STUDENT, family
from luvli.likelihood.covariance import half_log_determinant, to_cholesky
from luvli.network.calibration import Calibration, face_area
from luvli.trust.features import landmark_groups

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


def fit_covariance(faces: LabelledFaces) -> Calibration:
    """Fit the calibration on held-out faces with uncalibrated covariances.

    Only visible landmarks count. Each landmark's factor is shrunk towards that of its group of the
    markup. The pixel variance makes the largest gap of coverage over the sources smallest
    (`groups["source"]`: the data sets).

    >>> rng = np.random.default_rng(0)
    >>> labels, small = rng.normal(size=(500, 4, 2)), np.tile(np.eye(2) / 9, (500, 4, 1, 1))
    >>> faces = LabelledFaces.from_arrays(0 * labels, labels, None, small, likelihood="gauss")
    >>> bool(np.allclose(fit_covariance(faces).scale, 9, rtol=0.1))
    True
    """
    residuals = faces.residuals
    groups = landmark_groups(faces.faces.markup, faces.landmarks)
    masks = source_masks(faces)
    pixels = PIXEL_DEVIATIONS if len(masks) > 1 else PIXEL_DEVIATIONS[:1]
    covered = np.nan_to_num(faces.faces.occlusion)

    def covariance_with(pixel: float, amount: float) -> Floats:
        grown = residuals.covariance * np.exp(amount * covered)[..., None, None]
        return grown + pixel**2 * np.eye(2)

    def radius_with(pixel: float, amount: float) -> Floats:
        return residuals._replace(covariance=covariance_with(pixel, amount)).radii

    def best_pixel(amount: float, name: str) -> float:
        def gap(pixel: float) -> float:
            radius = radius_with(pixel, amount)
            return _largest_gap(
                radius / np.exp(_landmark_factors(radius, groups, name)), masks, name
            )

        return float(min(pixels, key=gap))

    def energy(amount: float) -> float:
        """Mean negative log-likelihood after scaling, up to a constant."""
        radius = radius_with(pixel, amount)
        log_factor = _landmark_factors(radius, groups, name)
        size = half_log_determinant(to_cholesky(covariance_with(pixel, amount))) + 2 * log_factor
        return float(np.nanmean(size + family(name).radius_energy(radius / np.exp(log_factor))))

    name, amount = faces.likelihood, 0.0
    pixel = best_pixel(amount, name)
    name = _best_distribution(radius_with(pixel, amount), groups, name)
    amount = min(OCCLUSION, key=energy) if covered.any() else 0.0
    if amount or name != faces.likelihood:
        pixel = best_pixel(amount, name)
    radius = radius_with(pixel, amount)
    log_factor = _landmark_factors(radius, groups, name)
    scale = np.exp(2 * log_factor)
    return Calibration(
        scale=scale.tolist(),
        pixel_variance=(scale * pixel**2).tolist() if pixel else [],
        occlusion=amount,
        likelihood=name,
        faces=len(faces),
        before=coverage_by_level(residuals.radii, faces.likelihood),
        after=coverage_by_level(radius / np.exp(log_factor), name),
    )


def _largest_gap(radius: Floats, masks: Sequence[Bools], name: str) -> float:
    """Largest difference of coverage from its level, over sources and levels."""
    held = [list(coverage_by_level(radius[mask], name).values()) for mask in masks]
    return float(np.abs(np.array(held) - LEVELS).max())


def _best_distribution(radius: Floats, groups: Groups, likelihood: str) -> str:
    """The distribution that distances (n, k) follow best, each with factors of its own."""
    stats = require("scipy.stats", "calibrate")

    def distance(name: str) -> float:
        scaled = radius / np.exp(_landmark_factors(radius, groups, name))
        inside = family(name).radius_probability(scaled[np.isfinite(scaled)])
        return float(stats.kstest(inside, "uniform").statistic)

    students = {name: distance(name) for name in (f"{STUDENT}{freedom}" for freedom in FREEDOMS)}
    best = min(students, key=lambda name: students[name])
    return best if students[best] < distance(likelihood) - MIN_GAIN else likelihood


def _landmark_factors(radius: Floats, groups: Groups, likelihood: str) -> Floats:
    """(k,) logs of the lengths by which distances (n, k) are divided."""
    limits = np.asarray(family(likelihood).radius_quantile(np.asarray(LEVELS)))

    def shrunk(values: Floats, towards: float) -> float:
        known = values[np.isfinite(values)]
        if not len(known):
            return towards
        own = _log_factor(known, limits)
        return (len(known) * own + PRIOR_FACES * towards) / (len(known) + PRIOR_FACES)

    log_factor = np.empty(radius.shape[1])
    overall = _log_factor(radius[np.isfinite(radius)], limits)
    for members in groups.values():
        of_group = shrunk(radius[:, list(members)], overall)
        for j in members:
            log_factor[j] = shrunk(radius[:, j], of_group)
    scaled = radius / np.exp(log_factor)
    return log_factor + _log_factor(scaled[np.isfinite(scaled)], limits)


def _log_factor(values: Floats, limits: Floats) -> float:
    """Log of the length that distances (m,) are divided by, so that the radii `limits` hold what
    they should: the mean of those that fit one level each."""
    ratios = np.log(np.maximum(np.quantile(values, LEVELS) / limits, 1e-9))
    return float(ratios.mean())


def coverage_by_level(
    radius: ArrayLike, likelihood: str = "laplace", levels: Sequence[float] = LEVELS
) -> dict[str, float]:
    """Share of the labels inside the ellipses that should hold each level.

    `radius` are Mahalanobis distances; NaN does not count.
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


def source_masks(faces: LabelledFaces) -> list[Bools]:
    """Masks (n,) of the sources with enough faces; all faces where there is none."""
    names: NDArray[np.str_] = faces.groups.get("source", np.full(len(faces), ""))
    masks = [np.asarray(names == name) for name in np.unique(names)]
    return [mask for mask in masks if mask.sum() >= MIN_SOURCE] or [np.ones(len(faces), dtype=bool)]


# --- label convention --------------------------------------------------------------------


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
