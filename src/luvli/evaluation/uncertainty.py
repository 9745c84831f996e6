"""Whether predicted covariances fit the errors.

Every function takes `Residuals`: labels minus predictions with the predicted covariances, NaN where
a landmark is invisible, unlabelled or unpredicted, or its covariance not positive-definite. Units
are those of the coordinates, and are divided out where a `scale` (n,) in the same unit is passed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Floats
from luvli.evaluation.accuracy import Curve, NotMeasured, known_mean, measured
from luvli.image import affine
from luvli.likelihood import Elliptical, family
from luvli.likelihood import covariance as algebra
from luvli.markup import markup_for

RINGS, SECTORS = 32, 16
"""of `whitened_kl`: cells of equal probability"""


class Residuals(NamedTuple):
    """Labels minus predictions, and the densities that were predicted for them."""

    gap: Floats
    """(n, k, 2) label minus prediction"""
    covariance: Floats
    """(n, k, 2, 2)"""
    likelihood: str = "laplace"
    """a name that `luvli.likelihood.family` knows"""

    @classmethod
    def of(
        cls,
        predicted: ArrayLike,
        covariance: ArrayLike,
        truth: ArrayLike,
        visible: ArrayLike | None = None,
        likelihood: str = "laplace",
    ) -> Residuals:
        """Of predictions and labels (n, k, 2), covariances (n, k, 2, 2) and visibility (n, k)."""
        gap = np.asarray(truth, dtype=np.float64) - np.asarray(predicted, dtype=np.float64)
        spread = np.asarray(covariance, dtype=np.float64)
        usable = measured(truth, visible) & np.isfinite(gap).all(axis=-1)
        usable &= algebra.is_covariance(spread)
        gap = np.where(usable[..., None], gap, np.nan)
        return cls(gap, np.where(usable[..., None, None], spread, np.nan), likelihood)

    @property
    def density(self) -> type[Elliptical]:
        """The likelihood that the covariances belong to."""
        return family(self.likelihood)

    @property
    def radii(self) -> Floats:
        """(n, k) Mahalanobis distances of the labels from the predictions."""
        return np.asarray(algebra.mahalanobis(self.gap, algebra.to_cholesky(self.covariance)))

    @property
    def levels(self) -> Floats:
        """(m,) probabilities of the ellipses through the usable labels."""
        radii = self.radii
        return np.asarray(self.density.radius_probability(radii[~np.isnan(radii)]))

    @property
    def whitened(self) -> Floats:
        """(m, 2) residuals Sigma^(-1/2) (p - mu) of the usable landmarks (eq. 18)."""
        z = np.asarray(algebra.whiten(self.gap, self.covariance))
        return np.asarray(z[~np.isnan(z[..., 0])])


def negative_log_likelihood(
    residuals: Residuals, scale: ArrayLike | None = None, constant: bool = True
) -> Floats:
    """(n, k) nats of each label under its predicted density (eq. 10, 12); NaN where not usable.

    A density has units: the value is for coordinates measured in `scale` (n,), or in the pixels
    given. `constant=False` leaves out log 2 pi; with heat-map pixels as the scale that is what
    the paper's Table 11 prints.
    """
    gap = residuals.gap
    density = residuals.density.from_covariance(np.zeros_like(gap), residuals.covariance)
    nats = -np.asarray(density.log_prob(gap))
    if scale is not None:
        nats = nats - 2.0 * np.log(np.asarray(scale, dtype=np.float64)[:, None])
    return nats if constant else nats - np.log(2.0 * np.pi)


def spread_root(covariance: ArrayLike) -> Floats:
    """(...) |Sigma|^(1/2), the paper's scalar uncertainty: an area, in pixels squared."""
    return np.asarray(algebra.spread(np.asarray(covariance, dtype=np.float64)) ** 2)


# --- mean squared residual against predicted covariance (Figure 4) -----------------------


def residual_bins(
    residuals: Residuals,
    scale: ArrayLike | None = None,
    per_bin: int = 734,
    published: bool = False,
) -> dict[str, Curve]:
    """Equal-count bins for xx, yy and xy: mean predicted entry of Sigma (x, ascending) and mean
    product of residuals (y); the value is Pearson's correlation of the two over the bins.

    With `scale` (n,) both axes are in units of scale squared. The landmarks that do not fill
    a bin are shared out over all bins. `published` drops them, after the tenth with the largest
    predicted magnitude, as the published figure does (scale: the box). Fewer landmarks than
    `per_bin` give one bin.
    """
    gap, spread, _ = residuals
    area = 1.0 if scale is None else np.asarray(scale, dtype=np.float64)[:, None] ** 2
    known = ~np.isnan(gap[..., 0])
    result = {}
    for name, i, j in (("xx", 0, 0), ("yy", 1, 1), ("xy", 0, 1)):
        expected = (spread[..., i, j] / area)[known]
        actual = (gap[..., i] * gap[..., j] / area)[known]
        result[name] = _binned(expected, actual, per_bin, published)
    return result


def _binned(expected: Floats, actual: Floats, per_bin: int, published: bool) -> Curve:
    kept = np.argsort(np.abs(expected), kind="stable")
    if published:
        kept = kept[: len(kept) - int(len(kept) * 0.1)]
    order = kept[np.argsort(expected[kept], kind="stable")]
    bins = max(1, len(order) // per_bin)
    if published and len(order) >= per_bin:
        order = order[: bins * per_bin]
    groups = np.array_split(order, bins)
    x, y = (np.array([known_mean(values[g]) for g in groups]) for values in (expected, actual))
    varied = len(x) > 1 and x.std() and y.std()
    pearson = float(np.corrcoef(x, y)[0, 1]) if varied else float("nan")
    return Curve(x, y, pearson, np.array([len(g) for g in groups]))


# --- the whole distribution (Figure 7) ---------------------------------------------------


def whitened_kl(residuals: Residuals) -> float:
    """D(observed || predicted) of the m whitened labels and the standard density, in nats per
    landmark, over rings x sectors that are equally likely if the predictions are right.

    The mean value that chance alone gives ((cells - 1) / 2m) is taken off, so that perfect
    predictions score 0 on average. It is what believing the predicted shape costs, at that
    resolution.
    """
    z = residuals.whitened
    if not len(z):
        return float("nan")
    inside = np.asarray(residuals.density.radius_probability(np.hypot(*z.T)))
    turn = np.arctan2(z[:, 1], z[:, 0]) / (2.0 * np.pi) + 0.5
    ring, sector = (
        np.minimum((share * count).astype(int), count - 1)
        for share, count in ((inside, RINGS), (turn, SECTORS))
    )
    cells = RINGS * SECTORS
    share = np.bincount(ring * SECTORS + sector, minlength=cells) / len(z)
    filled = share[share > 0]
    return float((filled * np.log(filled * cells)).sum() - (cells - 1) / (2.0 * len(z)))


def published_kl(residuals: Residuals) -> float:
    """The sum printed above the paper's figure, of the whitened labels: a log(a / b) over a grid
    of steps of 0.1, where a and b are densities (1e-7 added) of 10,000 random standard samples
    and of the labels, not multiplied by the bin area 0.01."""
    z = residuals.whitened
    if not len(z):
        return float("nan")
    edges = np.linspace(-20.0, 20.0, 401)
    standard = residuals.density.from_covariance(np.zeros(2), np.eye(2))
    a, b = (
        np.histogram2d(points[:, 0], points[:, 1], bins=[edges, edges], density=True)[0] + 1e-7
        for points in (standard.sample(10_000, np.random.default_rng(0)), z)
    )
    return float((a * np.log(a / b)).sum())


def coverage_curve(residuals: Residuals, levels: int = 200) -> Curve:
    """Share of the labels (y) inside the ellipse that should hold a share p (x). The value is the
    calibration error, mean |y - p| over all p: 0 is calibrated, 1/2 the worst."""
    inside = np.sort(residuals.levels)
    wanted = np.linspace(0.0, 1.0, levels + 1)
    if not len(inside):
        return Curve(wanted, np.full(levels + 1, np.nan))
    observed = np.searchsorted(inside, wanted, side="right") / len(inside)
    gap = observed - wanted
    return Curve(wanted, observed, float(np.abs((gap[1:] + gap[:-1]) / 2.0).mean()))


def coverage_bias(residuals: Residuals) -> float:
    """Mean of y - p of the coverage curve: below 0 the ellipses are too small (overconfident)."""
    return 0.5 - float(known_mean(residuals.levels))


# --- ellipses of many faces (Figures 5, 8, 9) --------------------------------------------


def smallest_deviation(covariance: Floats, scale: ArrayLike = 1.0) -> Floats:
    """Square roots of the smallest eigenvalues, flat: the ellipses' short half-axes (Figure 5).

    `scale`, a number or (n,), is the unit: in the figure one heat-map pixel. Landmarks without a
    covariance are left out. The squares are the eigenvalues themselves.
    """
    known = algebra.is_covariance(covariance)
    lengths = np.broadcast_to(np.asarray(scale, np.float64).reshape(-1, 1), known.shape)
    smallest = np.asarray(algebra.eigenvalues(covariance[known]))[:, 1]
    return np.asarray(np.sqrt(smallest) / lengths[known])


def face_affines(eye_corners: Floats, upright: bool = False) -> Floats:
    """(..., 2, 3) to units of the inter-ocular distance, from the outer eye corners (..., 2, 2),
    with the middle between these as origin; `upright` turns the line between them level."""
    right, left = eye_corners[..., 0, :], eye_corners[..., 1, :]
    x, y = np.moveaxis(left - right, -1, 0) / np.sum((left - right) ** 2, axis=-1)
    if not upright:
        x, y = np.hypot(x, y), np.zeros_like(y)
    linear = np.stack([np.stack([x, y], axis=-1), np.stack([-y, x], axis=-1)], axis=-2)
    middle = ((right + left) / 2)[..., None]
    return np.concatenate([linear, -linear @ middle], axis=-1)


def normalized_faces(
    points: Floats, covariance: Floats, markup: str | None = None, upright: bool = False
) -> tuple[Floats, Floats]:
    """Faces (m, k, 2) and covariances (m, k, 2, 2) moved by their `face_affines`. Faces with a gap
    are left out, and those whose eye corners were found in one place."""
    corners = list(markup_for(points.shape[1], markup).outer_eye_corners)
    whole = np.isfinite(points).all(axis=(1, 2)) & algebra.is_covariance(covariance).all(axis=1)
    whole &= (points[:, corners[0]] != points[:, corners[1]]).any(axis=1)
    moves = face_affines(points[whole][:, corners], upright)
    moved = affine.apply(moves, points[whole])
    return moved, affine.push_covariance(moves, covariance[whole])


def mean_ellipses(
    points: Floats, covariance: Floats, markup: str | None = None, upright: bool = False
) -> tuple[Floats, Floats, int]:
    """Mean locations (k, 2), log-Euclidean mean covariances (k, 2, 2) and number of many frontal
    faces, in units of the inter-ocular distance (`normalized_faces`, Figure 8)."""
    moved, spread = normalized_faces(points, covariance, markup, upright)
    if not len(moved):
        raise NotMeasured(
            "no face has all its landmarks, covariances and two eyes: nothing to average."
        )
    mean = algebra.log_euclidean_mean(spread, axis=0)
    return moved.mean(axis=0), np.asarray(mean), len(moved)
