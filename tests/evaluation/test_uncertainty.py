"""Draw labels from the predicted density and the metrics must say "right"; from others, "wrong"."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, linalg, stats

from luvli.errors import InputError
from luvli.evaluation.uncertainty import (
    Residuals,
    coverage_bias,
    coverage_curve,
    mean_ellipses,
    negative_log_likelihood,
    published_kl,
    residual_bins,
    smallest_deviation,
    spread_root,
    whitened_kl,
)

N, K = 300, 68


@pytest.fixture(scope="module")
def scene() -> dict[str, np.ndarray]:
    """Predictions with covariances over two decades, and standard Laplacian and Gaussian noise."""
    rng = np.random.default_rng(0)
    predicted = rng.uniform(0, 200, (N, K, 2))
    factor = rng.normal(size=(N, K, 2, 2)) * np.exp(rng.normal(0, 0.7, (N, K, 1, 1)))
    covariance = factor @ factor.transpose(0, 1, 3, 2) + 0.05 * np.eye(2)
    # sqrt(3) times the radius of the standard Laplacian is Gamma(2): its density is
    # 3 / (2 pi) exp(-sqrt(3) r), so that of the radius is 3 r exp(-sqrt(3) r).
    radius = rng.gamma(2, 1 / np.sqrt(3), (N, K))
    angle = rng.uniform(0, 2 * np.pi, (N, K))
    return {
        "predicted": predicted,
        "covariance": covariance,
        "root": np.linalg.cholesky(covariance),
        "laplace": radius[..., None] * np.stack([np.cos(angle), np.sin(angle)], -1),
        "gauss": rng.normal(size=(N, K, 2)),
    }


def labels(scene, kind="laplace", widen=1.0):
    noise = (scene["root"] @ scene[kind][..., None])[..., 0]
    return scene["predicted"] + widen * noise


def usable(scene, kind="laplace", widen=1.0) -> Residuals:
    """Residuals and covariances, all of them usable."""
    return Residuals.of(
        scene["predicted"], scene["covariance"], labels(scene, kind, widen), None, kind
    )


def test_log_likelihoods_are_those_of_scipy_and_of_the_formula(scene):
    truth = labels(scene)
    mu, sigma = scene["predicted"], scene["covariance"]
    gauss = negative_log_likelihood(Residuals(truth - mu, sigma, "gauss"))
    laplace = negative_log_likelihood(Residuals(truth - mu, sigma))
    for i, j in [(0, 0), (5, 7), (299, 67)]:
        d = truth[i, j] - mu[i, j]
        q = d @ np.linalg.inv(sigma[i, j]) @ d
        assert gauss[i, j] == pytest.approx(
            -stats.multivariate_normal(mu[i, j], sigma[i, j]).logpdf(truth[i, j])
        )
        area = 2 * np.pi / 3 * np.sqrt(np.linalg.det(sigma[i, j]))
        assert laplace[i, j] == pytest.approx(np.log(area) + np.sqrt(3 * q))


def test_units_of_the_likelihood(scene):
    """Scaling pixels by s adds log s^2; the paper counts heat-map pixels and no log 2 pi."""
    mu, sigma, truth = scene["predicted"], scene["covariance"], labels(scene)
    given = Residuals(truth - mu, sigma)
    base = negative_log_likelihood(given)
    scale = np.linspace(1, 5, N)
    scaled = (truth - mu) / scale[:, None, None], sigma / scale[:, None, None, None] ** 2
    by_hand = negative_log_likelihood(Residuals(*scaled))
    assert negative_log_likelihood(given, scale=scale) == pytest.approx(by_hand)
    shorter = negative_log_likelihood(given, constant=False)
    assert shorter == pytest.approx(base - np.log(2 * np.pi))
    # 1/2 log det + sqrt(3 q) - log 3 is what the published evaluation sums up
    d = truth - mu
    q = np.einsum("nki,nkij,nkj->nk", d, np.linalg.inv(sigma), d)
    assert shorter == pytest.approx(0.5 * np.log(np.linalg.det(sigma)) + np.sqrt(3 * q) - np.log(3))


def test_whitening_is_the_symmetric_root(scene):
    mu, sigma, truth = (x[:4] for x in (scene["predicted"], scene["covariance"], labels(scene)))
    given = Residuals(truth - mu, sigma)
    z = given.whitened
    expected = [
        np.linalg.inv(linalg.sqrtm(sigma[i, j])) @ (truth[i, j] - mu[i, j])
        for i in range(4)
        for j in range(K)
    ]
    assert z == pytest.approx(np.array(expected))
    assert given.radii.ravel() == pytest.approx(np.hypot(*z.T))


@pytest.mark.parametrize("kind", ["laplace", "gauss"])
def test_coverage_is_right_for_the_density_the_labels_come_from(scene, kind):
    given = usable(scene, kind)
    result, bias = coverage_curve(given), coverage_bias(given)
    # 20,400 labels: the largest gap of a uniform sample stays below 1.95 / sqrt(m) (p = 0.001)
    assert np.abs(result.y - result.x).max() < 1.95 / np.sqrt(N * K)
    assert result.value < 0.01 and abs(bias) < 0.01
    assert (result.y[0], result.y[-1]) == (0.0, 1.0)


@pytest.mark.parametrize(("widen", "sign"), [(np.sqrt(2), -1), (np.sqrt(0.5), 1)])
def test_coverage_sees_wrong_sizes(scene, widen, sign):
    given = usable(scene, widen=widen)
    result, bias = coverage_curve(given), coverage_bias(given)
    law = stats.gamma(2)
    expected = law.cdf(law.ppf(result.x) / widen)
    assert np.abs(result.y - expected).max() < 1.95 / np.sqrt(N * K)
    assert np.sign(bias) == sign and result.value > 0.05
    area = integrate.quad(lambda p: law.cdf(law.ppf(p) / widen) - p, 0, 1)[0]
    assert bias == pytest.approx(area, abs=0.01)


def cell_kl(likelihood_of_radius, rings=32):
    """KL over the rings alone when directions are uniform: the exact value of "cells"."""
    edges = stats.gamma(2).ppf(np.linspace(0, 1, rings + 1)) / np.sqrt(3)
    share = np.diff(likelihood_of_radius(edges))
    return float((share * np.log(share * rings)).sum())


def test_divergence_is_zero_for_the_truth_and_exact_for_others(scene):
    m = N * K
    assert abs(whitened_kl(usable(scene))) < 3 * np.sqrt(511 / 2) / m
    gauss = whitened_kl(usable(scene, "gauss")._replace(likelihood="laplace"))
    expected = cell_kl(lambda r: 1 - np.exp(-(r**2) / 2))
    assert gauss == pytest.approx(expected, abs=0.01) and expected > 0.05
    double = whitened_kl(usable(scene, widen=np.sqrt(2)))
    law = stats.gamma(2)
    assert double == pytest.approx(cell_kl(lambda r: law.cdf(np.sqrt(1.5) * r)), abs=0.01)
    assert double > 0.05


def test_divergence_sees_a_direction():
    rng = np.random.default_rng(1)
    radius = rng.gamma(2, 1 / np.sqrt(3), 20_000)
    angle = rng.uniform(0, np.pi, 20_000)  # only downwards
    z = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    given = Residuals(z[None], np.broadcast_to(np.eye(2), (1, len(z), 2, 2)))
    assert whitened_kl(given) == pytest.approx(np.log(2), abs=0.01)


def test_the_published_sum_is_about_a_hundred_times_a_divergence(scene):
    z = usable(scene).whitened
    rng = np.random.default_rng(0)
    value = published_kl(usable(scene))
    edges = np.arange(-20, 20.05, 0.1)
    radius, angle = rng.gamma(2, 1 / np.sqrt(3), 10_000), rng.uniform(0, 2 * np.pi, 10_000)
    sample = np.stack([radius * np.cos(angle), radius * np.sin(angle)])
    a = np.histogram2d(*sample, bins=edges, density=True)[0] + 1e-7
    b = np.histogram2d(*z.T, bins=edges, density=True)[0] + 1e-7
    assert value == pytest.approx((a * np.log(a / b)).sum(), rel=0.1)  # another random sample
    assert value > 20


def test_residual_bins_by_hand(scene):
    mu, sigma, truth = scene["predicted"], scene["covariance"], labels(scene)
    scale = np.linspace(50, 150, N)
    result = residual_bins(Residuals(truth - mu, sigma), scale=scale, per_bin=700)
    x = (sigma[..., 0, 1] / scale[:, None] ** 2).ravel()
    d = truth - mu
    y = (d[..., 0] * d[..., 1] / scale[:, None] ** 2).ravel()
    order = np.argsort(x)
    parts = np.array_split(order, N * K // 700)
    assert result["xy"].x == pytest.approx([x[p].mean() for p in parts])
    assert result["xy"].y == pytest.approx([y[p].mean() for p in parts])
    assert result["xy"].counts.sum() == N * K
    assert result["xy"].value == pytest.approx(
        stats.pearsonr(result["xy"].x, result["xy"].y).statistic
    )


def test_the_published_bins_drop_the_largest_tenth_and_the_remainder():
    rng = np.random.default_rng(0)
    mu = np.zeros((600, 68, 2))
    sigma = np.einsum("nk,ij->nkij", rng.gamma(2, 1, (600, 68)), np.eye(2))
    sigma[..., 0, 1] = sigma[..., 1, 0] = 0.5 * sigma[..., 0, 0] * rng.choice([-1, 1], (600, 68))
    bins = residual_bins(Residuals(mu + 1, sigma), published=True)
    for entry in ("xx", "xy"):
        assert bins[entry].counts.tolist() == [734] * 50  # 300-W Test: 40,800 landmarks
    kept = np.sort(np.abs(sigma[..., 0, 1]).ravel())[: 40_800 - 4_080]
    assert np.abs(bins["xy"].x).max() <= kept.max()


def test_gaps_do_not_enter(scene):
    mu, sigma, truth = scene["predicted"].copy(), scene["covariance"].copy(), labels(scene)
    visible = np.ones((N, K), bool)
    mu[0, 0], sigma[1, 1], truth[2, 2], visible[3, 3] = np.nan, np.nan, np.nan, False
    sigma[4, 4] = [[1.0, 1.0], [1.0, 1.0]]  # singular: no density
    given = Residuals.of(mu, sigma, truth, visible)
    nll = negative_log_likelihood(given)
    gaps = [(j, j) for j in range(5)]
    assert np.argwhere(np.isnan(nll)).tolist() == [list(gap) for gap in gaps]
    assert np.array_equal(np.isnan(given.radii), np.isnan(nll))
    assert len(given.whitened) == N * K - 5
    nothing = np.full((2, 68, 2), np.nan)
    sigma = np.tile(np.eye(2), (2, 68, 1, 1))
    nobody = Residuals.of(nothing, sigma, nothing)
    assert np.isnan(negative_log_likelihood(nobody)).all()
    assert np.isnan(whitened_kl(nobody))
    assert np.isnan(coverage_curve(nobody).value)
    assert np.isnan(residual_bins(nobody)["xx"].value)


def test_spread_and_smallest_deviation(scene):
    sigma = scene["covariance"][:3]
    assert spread_root(sigma) == pytest.approx(np.sqrt(np.linalg.det(sigma)))
    smallest = np.sqrt(np.linalg.eigvalsh(sigma)[..., 0])
    assert smallest_deviation(sigma) == pytest.approx(smallest.ravel())
    assert smallest_deviation(sigma, np.array([1.0, 2.0, 4.0])) == pytest.approx(
        (smallest / np.array([1, 2, 4])[:, None]).ravel()
    )


def test_mean_ellipses_by_scipy(scene):
    rng = np.random.default_rng(4)
    shape = rng.uniform(0, 100, (68, 2))
    faces = shape + rng.normal(0, 2, (6, 68, 2))
    sigma = scene["covariance"][:6]
    points, covariance, count = mean_ellipses(faces * 3 + 40, sigma * 9)  # elsewhere, larger
    distance = np.linalg.norm(faces[:, 36] - faces[:, 45], axis=1)
    logs = [linalg.logm(sigma[i, 20] / distance[i] ** 2) for i in range(6)]
    assert covariance[20] == pytest.approx(linalg.expm(np.mean(logs, axis=0)))
    middle = (faces[:, 36] + faces[:, 45]) / 2
    expected = ((faces[:, 20] - middle) / distance[:, None]).mean(0)
    assert points[20] == pytest.approx(expected) and count == 6


def test_faces_with_gaps_are_not_averaged(scene):
    faces, sigma = scene["predicted"][:3].copy(), scene["covariance"][:3]
    faces[1, 5] = np.nan
    assert mean_ellipses(faces, sigma)[2] == 2
    faces[2, 45] = faces[2, 36]  # a bad network: both eyes at the highest pixel of one heat map
    assert mean_ellipses(faces, sigma)[2] == 1
    with pytest.raises(InputError, match="nothing to average"):
        mean_ellipses(faces[1:2], sigma[1:2])
