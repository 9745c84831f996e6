"""Laplacian, Gaussian and Student's law against numerical integration, scipy and samples."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st

from luvli.errors import InputError
from luvli.likelihood import Gauss, Laplace, Mixed, density_name, family, student

MEAN = np.array([3.0, -2.0])
SIGMA = np.array([[2.0, 0.7], [0.7, 0.9]])
FAMILIES = [Laplace, Gauss, student(8)]


def integrate(distribution: Any, function: Any) -> Any:
    """Midpoint rule on a fine grid around the mean, far into the tails; independent of our own
    quadrature, which works in radius and angle."""
    half, n = 25.0, 1000
    axis = (np.arange(n) + 0.5) / n * 2 * half - half
    points = np.stack(np.meshgrid(axis + MEAN[0], axis + MEAN[1]), -1)
    density = np.exp(distribution.log_prob(points))
    values = function(points)
    return np.tensordot(density, values, axes=((0, 1), (0, 1))) * (2 * half / n) ** 2


@pytest.mark.parametrize("kind", FAMILIES)
def test_density_integrates_to_one_with_the_stated_moments(kind: Any) -> None:
    distribution = kind.from_covariance(MEAN, SIGMA)
    assert integrate(distribution, lambda z: np.ones(z.shape[:2])) == pytest.approx(1, abs=1e-4)
    np.testing.assert_allclose(integrate(distribution, lambda z: z), MEAN, atol=1e-3)
    second = integrate(distribution, lambda z: (z - MEAN)[..., :, None] * (z - MEAN)[..., None, :])
    np.testing.assert_allclose(second, SIGMA, atol=1e-3)
    np.testing.assert_allclose(distribution.covariance, SIGMA)


def test_entropy_of_the_laplacian() -> None:
    distribution = Laplace.from_covariance(MEAN, SIGMA)
    expected = integrate(distribution, lambda z: -distribution.log_prob(z))
    assert distribution.entropy() == pytest.approx(expected, abs=1e-3)


def textbook_t(freedom: float) -> Any:
    return scipy.stats.multivariate_t(MEAN, SIGMA * (freedom - 2) / freedom, df=freedom)


@pytest.mark.parametrize(
    ("kind", "textbook"),
    [
        (Gauss, scipy.stats.multivariate_normal(MEAN, SIGMA)),
        *((student(freedom), textbook_t(freedom)) for freedom in (2.5, 8, 300)),
    ],
)
def test_density_and_entropy_are_scipys(kind: Any, textbook: Any, rng: np.random.Generator) -> None:
    points = rng.normal(size=(20, 2)) * 3
    ours = kind.from_covariance(MEAN, SIGMA)
    np.testing.assert_allclose(ours.log_prob(points), textbook.logpdf(points))
    assert ours.entropy() == pytest.approx(textbook.entropy())


def test_laplacian_density_is_equation_12(rng: np.random.Generator) -> None:
    points = rng.normal(size=(20, 2)) * 3
    residual = points - MEAN
    square = np.einsum("ni,ij,nj->n", residual, np.linalg.inv(SIGMA), residual)
    density = np.exp(-np.sqrt(3 * square)) / (2 * np.pi / 3 * np.sqrt(np.linalg.det(SIGMA)))
    ours = Laplace.from_covariance(MEAN, SIGMA).log_prob(points)
    np.testing.assert_allclose(ours, np.log(density))


@pytest.mark.parametrize("kind", FAMILIES)
def test_samples_have_the_moments_and_the_quantiles(kind: Any, rng: np.random.Generator) -> None:
    distribution = kind.from_covariance(MEAN, SIGMA)
    samples = distribution.sample(200_000, rng)
    assert samples.shape == (200_000, 2)
    np.testing.assert_allclose(samples.mean(0), MEAN, atol=0.02)
    np.testing.assert_allclose(np.cov(samples.T), SIGMA, atol=0.04)
    radii = distribution.mahalanobis(samples)
    for p in (0.1, 0.5, 0.9, 0.99):
        inside = (radii <= distribution.radius_quantile(p)).mean()
        assert inside == pytest.approx(p, abs=5 * np.sqrt(p * (1 - p) / 200_000))


@pytest.mark.parametrize(
    ("kind", "radius"),
    [(Laplace, scipy.stats.gamma(2, scale=1 / np.sqrt(3))), (Gauss, scipy.stats.rayleigh())],
)
def test_radius_is_scipys(kind: Any, radius: Any) -> None:
    p = np.concatenate([np.logspace(-14, -0.01, 200), 1 - np.logspace(-15, -1, 50)])
    np.testing.assert_allclose(kind.radius_quantile(p), radius.ppf(p), rtol=1e-6)
    r = np.linspace(0, 20, 100)
    np.testing.assert_allclose(kind.radius_probability(r), radius.cdf(r), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("kind", FAMILIES)
def test_quantile_and_probability_are_inverse(kind: Any) -> None:
    @given(st.floats(1e-8, 1 - 1e-8))
    def check(p: float) -> None:
        assert kind.radius_probability(kind.radius_quantile(p)) == pytest.approx(p, rel=1e-7)

    check()
    assert kind.radius_quantile(0) == 0
    assert kind.radius_quantile(1) == np.inf
    for wrong in (-0.1, 1.1, np.nan):
        with pytest.raises(InputError, match=r"0\.\.1"):
            kind.radius_quantile(wrong)


@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("axis", [0, 1])
def test_marginal_is_the_integral_over_the_other_coordinate(kind: Any, axis: int) -> None:
    distribution = kind.from_covariance(MEAN, SIGMA)
    for value in (MEAN[axis], MEAN[axis] + 0.3, MEAN[axis] - 4.0):

        def slice_density(other: float, value: float = value) -> float:
            point = np.array([value, other] if axis == 0 else [other, value])
            return float(np.exp(distribution.log_prob(point)))

        expected, _ = scipy.integrate.quad(
            slice_density, -60, 60, points=[MEAN[1 - axis]], limit=400
        )
        deviation = np.sqrt(SIGMA[axis, axis])
        ours = kind.standard_marginal((value - MEAN[axis]) / deviation) / deviation
        assert ours == pytest.approx(expected, rel=1e-6)


def test_gaussian_kl_is_the_textbook_formula(rng: np.random.Generator) -> None:
    other = np.array([[0.8, -0.2], [-0.2, 1.4]])
    shift = np.array([0.4, 1.0])
    inverse = np.linalg.inv(other)
    expected = 0.5 * (
        np.trace(inverse @ SIGMA)
        + shift @ inverse @ shift
        - 2
        + np.log(np.linalg.det(other) / np.linalg.det(SIGMA))
    )
    p, q = Gauss.from_covariance(MEAN, SIGMA), Gauss.from_covariance(MEAN + shift, other)
    assert p.kl_divergence(q) == pytest.approx(expected, rel=1e-12)


def test_many_landmarks_at_once(rng: np.random.Generator) -> None:
    mean = rng.normal(size=(4, 5, 2))
    cholesky = np.abs(rng.normal(size=(4, 5, 3))) + 0.1
    p, q = Gauss(mean, cholesky), Gauss(mean + 0.1, cholesky * 1.2)
    assert p.sample(7, rng).shape == (7, 4, 5, 2)
    assert p.kl_divergence(q).shape == p.entropy().shape == (4, 5)
    one = Gauss(mean[1, 2], cholesky[1, 2])
    assert p.kl_divergence(q)[1, 2] == pytest.approx(
        one.kl_divergence(Gauss(mean[1, 2] + 0.1, cholesky[1, 2] * 1.2))
    )


@pytest.mark.parametrize("kind", FAMILIES)
def test_log_prob_of_tensors_has_exact_gradients(kind: Any) -> None:
    torch.manual_seed(0)
    mean = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    cholesky = (torch.rand(5, 3, dtype=torch.float64) + 0.5).requires_grad_()
    points = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda m, c, z: kind(m, c).log_prob(z), (mean, cholesky, points)
    )
    numpy = kind(mean.detach().numpy(), cholesky.detach().numpy()).log_prob(points.detach().numpy())
    np.testing.assert_allclose(kind(mean, cholesky).log_prob(points).detach(), numpy)


def test_mixed_variable_sums_to_one() -> None:
    """Not visible, plus visible anywhere, is everything that can happen."""
    for kind in FAMILIES:
        landmark = Mixed.from_probability(kind.from_covariance(MEAN, SIGMA), np.array(0.7))
        hidden = np.exp(landmark.log_prob(np.array(False), np.full(2, np.nan)))
        half, n = 30.0, 1200
        axis = (np.arange(n) + 0.5) / n * 2 * half - half
        points = np.stack(np.meshgrid(axis + MEAN[0], axis + MEAN[1]), -1)
        visible = np.ones(points.shape[:2], dtype=bool)
        seen = np.exp(landmark.log_prob(visible, points)).sum() * (2 * half / n) ** 2
        assert hidden == pytest.approx(0.3)
        assert hidden + seen == pytest.approx(1, abs=1e-3)


def test_mixed_visibility_does_not_saturate() -> None:
    location = Gauss(np.zeros(2), np.array([1.0, 0.0, 1.0]))
    landmark = Mixed(location, np.array([1000.0, -1000.0]))
    np.testing.assert_allclose(landmark.visibility_log_prob(np.array([True, True])), [0, -1000])
    np.testing.assert_allclose(landmark.visibility_log_prob(np.array([False, False])), [-1000, 0])


def test_family_by_name() -> None:
    assert family("laplace") is Laplace
    assert family("student-8") is student(8.0) and family("student-7.5") is student(7.5)
    with pytest.raises(InputError, match="laplace, gauss, student-NU"):
        family("laplacian")
    for wrong in ("student-", "student-nan", "student--3", "student-1e9", "student"):
        with pytest.raises(InputError, match="unknown likelihood"):
            family(wrong)
    for few in ("student-2", "student-0.5", "student-99999"):
        with pytest.raises(InputError, match="degrees of freedom"):
            family(few)
    assert density_name("student-7.5") == "Student's t (7.5)"


def test_shapes_are_checked() -> None:
    with pytest.raises(InputError, match=r"mean \(\.\.\., 2\) and cholesky \(\.\.\., 3\)"):
        Laplace(np.zeros(2), np.zeros((2, 2)))


def test_distributions_need_neither_torch_nor_scipy() -> None:
    code = (
        "import sys; import numpy as np; from luvli.likelihood import Laplace, Gauss, Mixed;"
        "import luvli.network.config, luvli.network.pixels;"
        "Laplace(np.zeros(2), np.ones(3)).radius_quantile(0.9);"
        "from luvli.likelihood import family; family('student-8').radius_quantile(0.9);"
        "sys.exit('torch' in sys.modules or 'scipy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
