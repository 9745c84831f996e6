"""Energy score, CRPS, widths and conditional coverage against simulation and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats
from scored_files import changed

from luvli.errors import InputError
from luvli.evaluation.bootstrap import paired_bootstrap
from luvli.evaluation.distribution_scores import (
    crps,
    energy_score,
    sharpness,
    standard_crps,
    width_at_coverage,
)
from luvli.evaluation.metrics import compute_metrics
from luvli.evaluation.uncertainty import radii
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


@pytest.mark.parametrize("kind", ["laplace", "gauss", "student-8"])
def test_whole_sets_are_scored_as_single_labels_are(kind):
    z = np.concatenate([np.linspace(-8, 8, 41), [25.0, 31.0, 500.0]])
    labels = np.stack([2.0 * z, np.zeros_like(z)], axis=1)[:, None]
    spread = np.broadcast_to(np.diag([4.0, 1e-12]), (len(z), 1, 2, 2))
    found = crps(np.zeros_like(labels), spread, labels, kind)[:, 0]
    assert found * 2 == pytest.approx(2.0 * standard_crps(z, kind), abs=1e-4)


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


def test_a_far_label_costs_its_distance():
    assert standard_crps(1e4, "laplace") == pytest.approx(1e4, abs=1)
    assert standard_crps(1e4, "gauss") == pytest.approx(1e4, abs=1)
    assert standard_crps(1e4, "student-5") == pytest.approx(1e4, abs=1)


@pytest.mark.parametrize("kind", ["laplace", "gauss", "student-8"])
def test_energy_score_by_simulation(kind):
    rng = np.random.default_rng(0)
    density = family(kind).from_covariance(np.zeros(2), SIGMA)
    x, other = density.sample(400_000, rng), density.sample(400_000, rng)
    pairs = np.linalg.norm(x - other, axis=1).mean() / 2
    for label in ([0.0, 0.0], [1.0, -2.0], [9.0, 3.0]):
        wanted = np.linalg.norm(x - label, axis=1).mean() - pairs
        found = energy_score(np.zeros((1, 1, 2)), SIGMA[None, None], [[label]], kind)
        assert found[0, 0] == pytest.approx(wanted, rel=5e-3)


def test_the_true_spread_scores_best():
    """Proper: neither a surer nor a more careful prediction scores better in the mean."""
    rng = np.random.default_rng(1)
    truth = family("laplace").from_covariance(np.zeros(2), SIGMA).sample(40_000, rng)[:, None]
    zero = np.zeros_like(truth)

    def score(factor, measure):
        spread = np.broadcast_to(SIGMA * factor, (len(truth), 1, 2, 2))
        return measure(zero, spread, truth).mean()

    for measure in (energy_score, crps):
        best = score(1.0, measure)
        assert best < score(0.6, measure) and best < score(1.6, measure)


def test_scores_turn_with_the_picture():
    turn = np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
    label = np.array([1.5, -0.4])
    plain = energy_score(np.zeros((1, 1, 2)), SIGMA[None, None], [[label]])
    turned = energy_score(
        np.zeros((1, 1, 2)), (turn @ SIGMA @ turn.T)[None, None], [[turn @ label]]
    )
    assert turned == pytest.approx(plain, rel=1e-3)


def test_sharpness_is_the_radius_of_the_equal_circle():
    value = sharpness(SIGMA[None, None], [2.0])
    area = np.pi * np.sqrt(np.linalg.det(SIGMA))
    assert np.pi * (value[0, 0] * 2) ** 2 == pytest.approx(area)


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
    radius = radii(faces.points, covariance, faces.labels, faces.visible)[:, :17]
    inside = radius[~np.isnan(radius)] <= family("laplace").radius_quantile(0.9)
    assert jaw.value == pytest.approx(inside.mean() * 100)
    assert sum(name.startswith("coverage_by_face.") for name in found) == 3


def test_paired_difference_has_wilcoxons_test_too():
    rng = np.random.default_rng(3)
    a, b = rng.normal(1.0, 1, 80), rng.normal(0.4, 1, 80)
    found = paired_bootstrap(a, b, resamples=200)
    assert found.signed_rank == pytest.approx(stats.wilcoxon(a - b).pvalue)
    assert paired_bootstrap(a, a).signed_rank == 1.0
