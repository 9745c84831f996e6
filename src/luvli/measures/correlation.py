"""Landmarks of a face err together: a low-rank correlation between them.

Standardised errors z_j = Sigma_j^(-1/2) (truth_j - mu_j), turned upright with the face, have unit
covariance within a landmark. Between landmarks they are correlated: a whole jaw is off, not one of
its points. With factors F (2k, r), the errors of a face are

    z = F u + e,   u ~ N(0, I),   e_j ~ N(0, I - F_j F_j^T) independent,

so that every landmark keeps exactly its own covariance. Without factors landmarks are independent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.likelihood.covariance import square_root


@dataclass(frozen=True, eq=False)
class ErrorModel:
    """The errors of n faces: roots (n, k, 2, 2) and factors (n, k, 2, r), both in image axes.

    An error is roots_j (F_j u + (I - F_j F_j^T)^(1/2) v_j).
    """

    roots: Floats
    factors: Floats

    @classmethod
    def of(
        cls, covariance: Floats, factors: Floats | None = None, roll: Floats | None = None
    ) -> ErrorModel:
        """From covariances (n, k, 2, 2), factors (k, 2, r) or (n, k, 2, r) for upright faces, and
        the angles (n,) in radians by which the faces are turned clockwise in the image."""
        n, k = covariance.shape[:2]
        roots = np.asarray(square_root(covariance))
        if factors is None:
            return cls(roots, np.zeros((n, k, 2, 0)))
        if factors.shape[-3:-1] != (k, 2):
            raise InputError(f"factors must have shape ({k}, 2, r), got {factors.shape}.")
        if roll is None:
            roll = np.zeros(n)
        cos, sin = np.cos(roll), np.sin(roll)
        turn = np.stack([cos, -sin, sin, cos], axis=-1).reshape(n, 1, 2, 2)
        return cls(roots, turn @ factors)

    def variance(self, gradient: Floats) -> Floats:
        """(n, m) variances of m functions of the landmarks with gradients (n, m, k, 2)."""
        pulled = np.einsum("nmki,nkij->nmkj", gradient, self.roots)
        shared = np.einsum("nmki,nkir->nmr", pulled, self.factors)
        own = np.einsum("nmki,nkir->nmkr", pulled, self.factors)
        alone = (pulled**2).sum(axis=(2, 3)) - (own**2).sum(axis=(2, 3))
        return np.asarray(np.maximum(alone, 0.0) + (shared**2).sum(axis=2))

    def sample(self, count: int, rng: np.random.Generator) -> Floats:
        """(count, n, k, 2) errors in pixels, Gaussian with the covariances of the landmarks."""
        n, k, _, rank = self.factors.shape
        left = np.eye(2) - self.factors @ self.factors.swapaxes(-1, -2)
        values, vectors = np.linalg.eigh(left)
        rest = (vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]) @ vectors.swapaxes(-1, -2)
        shared = np.einsum("nkir,cnr->cnki", self.factors, rng.normal(size=(count, n, rank)))
        own = np.einsum("nkij,cnkj->cnki", rest, rng.normal(size=(count, n, k, 2)))
        return np.asarray(np.einsum("nkij,cnkj->cnki", self.roots, shared + own))


def fit_factors(errors: Floats, rank: int = 6) -> Floats:
    """(k, 2, r) factors from standardised upright errors (n, k, 2); NaN where there is no label.

    Pairwise correlations over the faces that label both landmarks; their leading eigenvectors; then
    shrunk until no landmark is explained by more than 90 %.
    """
    n, k = errors.shape[:2]
    flat = errors.reshape(n, 2 * k)
    known = np.isfinite(flat)
    filled = np.where(known, flat, 0.0)
    pairs = known.T.astype(np.float64) @ known.astype(np.float64)
    products = filled.T @ filled / np.maximum(pairs, 1.0)
    scale = np.sqrt(np.maximum(np.diag(products), 1e-12))
    correlation = products / np.outer(scale, scale)
    correlation[pairs < 20] = 0.0
    within = np.arange(2 * k).reshape(k, 2)
    factors = np.zeros((2 * k, rank))
    for _ in range(30):  # principal factor analysis: the blocks are what the factors leave
        blocks = correlation.copy()
        explained = factors @ factors.T
        for rows in within:
            blocks[np.ix_(rows, rows)] = explained[np.ix_(rows, rows)]
        values, vectors = np.linalg.eigh(blocks)
        factors = vectors[:, -rank:] * np.sqrt(np.maximum(values[-rank:], 0.0))
    shaped = factors.reshape(k, 2, rank)
    largest = np.linalg.norm(shaped, ord=2, axis=(1, 2))
    return np.asarray(
        shaped * np.minimum(1.0, np.sqrt(0.9) / np.maximum(largest, 1e-9))[:, None, None]
    )
