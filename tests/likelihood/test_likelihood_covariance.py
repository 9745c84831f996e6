"""2x2 algebra against scipy's and numpy's general routines."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st

from luvli.likelihood import covariance as cov

# scipy speaks of errors of 1e-13, which is what the comparison allows for
pytestmark = pytest.mark.filterwarnings("ignore:logm result may be inaccurate")

positive = st.floats(1e-3, 1e3)
entries = st.tuples(positive, st.floats(-30, 30), positive)


@given(entries)
def test_cholesky_there_and_back(entry: tuple[float, float, float]) -> None:
    cholesky = np.array(entry)
    sigma = cov.from_cholesky(cholesky)
    lower = np.array([[cholesky[0], 0], [cholesky[1], cholesky[2]]])
    np.testing.assert_allclose(sigma, lower @ lower.T)
    np.testing.assert_allclose(cov.from_cholesky(cov.to_cholesky(sigma)), sigma, rtol=1e-6)


def random_covariances(rng: np.random.Generator, n: int = 50) -> np.ndarray:
    roots = rng.normal(size=(n, 2, 2)) * np.exp(rng.normal(size=(n, 1, 1)))
    return roots @ roots.transpose(0, 2, 1) + 1e-3 * np.eye(2)


def test_against_general_routines(rng: np.random.Generator) -> None:
    sigma = random_covariances(rng)
    np.testing.assert_allclose(cov.determinant(sigma), np.linalg.det(sigma), rtol=1e-7)
    np.testing.assert_allclose(cov.inverse(sigma), np.linalg.inv(sigma), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        cov.eigenvalues(sigma), np.linalg.eigvalsh(sigma)[:, ::-1], rtol=1e-7
    )
    for ours, scipys in (
        (cov.square_root, scipy.linalg.sqrtm),
        (cov.logarithm, scipy.linalg.logm),
        (cov.exponential, scipy.linalg.expm),
    ):
        small = sigma / 10  # exponentials stay comparable
        expected = np.stack([np.real(scipys(s)) for s in small])
        np.testing.assert_allclose(ours(small), expected, rtol=1e-7, atol=1e-9)


def test_equal_eigenvalues(rng: np.random.Generator) -> None:
    scales = np.exp(rng.normal(size=20))
    spheres = scales[:, None, None] * np.eye(2)
    np.testing.assert_allclose(cov.exponential(cov.logarithm(spheres)), spheres, rtol=1e-12)
    nearly = spheres + np.array([[1e-9, 3e-10], [3e-10, 0]])
    np.testing.assert_allclose(cov.exponential(cov.logarithm(nearly)), nearly, rtol=1e-12)


def test_whitened_residuals_have_unit_covariance(rng: np.random.Generator) -> None:
    sigma = np.array([[3.0, -1.2], [-1.2, 0.9]])
    residuals = rng.normal(size=(100_000, 2)) @ np.linalg.cholesky(sigma).T
    np.testing.assert_allclose(np.cov(cov.whiten(residuals, sigma).T), np.eye(2), atol=0.02)


def test_log_euclidean_mean(rng: np.random.Generator) -> None:
    sigma = random_covariances(rng, 6).reshape(3, 2, 2, 2)
    logs = np.stack([scipy.linalg.logm(s) for s in sigma.reshape(-1, 2, 2)]).reshape(sigma.shape)
    for axis in (0, 1, -1):
        plain = np.stack(
            [scipy.linalg.expm(m) for m in logs.mean(axis % 2).reshape(-1, 2, 2)]
        ).reshape(-1, 2, 2)
        np.testing.assert_allclose(cov.log_euclidean_mean(sigma, axis=axis), plain, rtol=1e-7)
    # a weight of 2 is the same as being there twice
    twice = sigma[[0, 0, 1, 2]]
    np.testing.assert_allclose(
        cov.log_euclidean_mean(sigma, np.array([2.0, 1.0, 1.0])), cov.log_euclidean_mean(twice)
    )


def test_tensors_give_the_same_and_have_gradients(rng: np.random.Generator) -> None:
    sigma = random_covariances(rng, 4)
    tensor = torch.from_numpy(sigma).requires_grad_()
    for function in (
        cov.to_cholesky,
        cov.determinant,
        cov.inverse,
        cov.square_root,
        cov.eigenvalues,
        cov.logarithm,
        cov.exponential,
    ):
        np.testing.assert_allclose(function(tensor).detach(), function(sigma))
        assert torch.autograd.gradcheck(function, tensor), function


def test_mahalanobis_against_the_inverse(rng: np.random.Generator) -> None:
    sigma = random_covariances(rng)
    residuals = rng.normal(size=(50, 2))
    expected = np.sqrt(np.einsum("ni,nij,nj->n", residuals, np.linalg.inv(sigma), residuals))
    np.testing.assert_allclose(
        cov.mahalanobis(residuals, cov.to_cholesky(sigma)), expected, rtol=1e-6
    )


@pytest.mark.parametrize("at", [[0.0, 0.0], [1e-30, 0.0], [1e20, -1e20]])
def test_mahalanobis_gradient_is_finite(at: list[float]) -> None:
    residual = torch.tensor(at, requires_grad=True)
    cov.mahalanobis(residual, torch.tensor([1.0, 0.5, 2.0])).backward()
    assert torch.isfinite(residual.grad).all()
