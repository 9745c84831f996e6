"""Energy score, CRPS, widths and conditional coverage against simulation and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats
from scored_files import changed

from luvli.errors import InputError
from luvli.evaluation.distribution_scores import (
    crps,
    energy_score,
    standard_crps,
    width_at_coverage,
)
from luvli.evaluation.metrics import compute_metrics
from luvli.evaluation.uncertainty import Residuals
from luvli.likelihood import LIKELIHOODS, Elliptical, Gauss, family

SIGMA = np.array([[4.0, 1.5], [1.5, 1.0]])


@pytest.mark.parametrize("kind", ["laplace", "gauss", "student-8"])
def test_crps_is_the_integral_of_its_definition(kind):
    """CRPS(F, z) = integral of (F(t) - 1[t >= z])^2."""
    t = np.linspace(-14, 14, 28001)
    cdf = integrate.cumulative_simpson(family(kind).standard_marginal(t), x=t, initial=0)
    for z in (0.0, 0.3, -1.7, 4.0):
        wanted = integrate.simpson((cdf - (t >= z)) ** 2, x=t)
        assert standard_crps(z, kind) == pytest.approx(wanted, abs=2e-3)
        found = crps(Residuals(np.full((1, 1, 2), 2 * z), 4 * np.eye(2)[None, None], kind))
        assert found[0, 0] == pytest.approx(2 * standard_crps(z, kind), abs=1e-4)
    assert standard_crps(1e4, kind) == pytest.approx(1e4, abs=1)  # a far label costs its distance


class Bare(Elliptical):
    """A Gaussian that says nothing but its density."""

    log_constant = Gauss.log_constant
    radius_energy = Gauss.radius_energy


def test_a_likelihood_of_ones_own_is_asked_for_everything(monkeypatch, make_faces):
    """CRPS follows from its own marginal; what it has no method for is named, not invented."""
    monkeypatch.setitem(LIKELIHOODS, "bare", Bare)
    monkeypatch.setitem(LIKELIHOODS, "full", type("Full", (Gauss,), {}))
    assert standard_crps(0.7, "full") == pytest.approx(standard_crps(0.7, "gauss"))
    faces = make_faces(8)
    found = compute_metrics(changed(faces, likelihood="bare"), resamples=2)
    gauss = compute_metrics(changed(faces, likelihood="gauss"), resamples=2)
    assert found.value("nll") == gauss.value("nll")
    assert found.value("crps") is None and found.value("coverage_90") is None
    notes = " ".join(found.notes)
    assert "CRPS, mean of x and y: the likelihood Bare has no standard_marginal" in notes
    for call, method in (
        (lambda: family("bare").radius_quantile(0.9), "radius_quantile"),
        (
            lambda: family("bare").laguerre_rule(6),
            "laguerre_rule, which is needed for distillation",
        ),
    ):
        with pytest.raises(InputError, match=f"the likelihood Bare has no {method}"):
            call()


@pytest.mark.parametrize("kind", ["laplace", "gauss", "student-8"])
def test_energy_score_by_simulation(kind):
    rng = np.random.default_rng(0)
    density = family(kind).from_covariance(np.zeros(2), SIGMA)
    x, other = density.sample(400_000, rng), density.sample(400_000, rng)
    pairs = np.linalg.norm(x - other, axis=1).mean() / 2
    for label in ([0.0, 0.0], [1.0, -2.0], [9.0, 3.0]):
        wanted = np.linalg.norm(x - label, axis=1).mean() - pairs
        found = energy_score(Residuals(np.array([[label]]), SIGMA[None, None], kind))
        assert found[0, 0] == pytest.approx(wanted, rel=5e-3)


def test_width_at_equal_coverage_does_not_reward_overconfidence():
    rng = np.random.default_rng(2)
    radius = stats.gamma(2, scale=1 / np.sqrt(3)).rvs((500, 4), random_state=rng)
    length = np.full((500, 4), 3.0)
    honest = width_at_coverage(radius, length, 0.9)
    bold = width_at_coverage(radius * 2, length / 2, 0.9)  # half the size, twice the distances
    assert bold == pytest.approx(honest)
    assert honest == pytest.approx(3.0 * family("laplace").radius_quantile(0.9), rel=0.05)


def test_conditional_coverage_finds_the_part_that_lies(make_faces):
    faces = make_faces(120)
    covariance = faces.covariance.copy()
    covariance[:, :17] /= 9  # the jaw is three times too sure
    found = compute_metrics(changed(faces, covariance=covariance), resamples=50).metrics
    jaw, eyes = found["coverage_by_part.jaw"], found["coverage_by_part.eyes"]
    assert jaw.value < 60 and jaw.high < 70
    assert abs(eyes.value - 90) < 2 and eyes.low > 85
    radius = changed(faces, covariance=covariance).residuals.radii[:, :17]
    inside = radius[~np.isnan(radius)] <= family("laplace").radius_quantile(0.9)
    assert jaw.value == pytest.approx(inside.mean() * 100)
    assert sum(name.startswith("coverage_by_face.") for name in found) == 3
