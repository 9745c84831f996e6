"""Triage: exact binomial bounds that hold in simulated splits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from luvli.calibration.guarantees import GRID, fit_triage, upper_bound
from luvli.errors import InputError
from luvli.trust.triage import TriageTable, accepted_needed, choose_threshold
from luvli.trust.trust import Trust


@pytest.mark.parametrize(("k", "n"), [(0, 20), (1, 100), (17, 400)])
def test_the_bound_is_where_the_binomial_test_has_5_percent(k: int, n: int) -> None:
    assert stats.binom.cdf(k, n, upper_bound(k, n)) == pytest.approx(0.05, rel=1e-9)
    assert upper_bound([5, 0], [5, 0]).tolist() == [1.0, 1.0]


def test_the_bound_is_broken_in_at_most_5_percent_of_draws() -> None:
    """Confidence is only loosely related to success; the true failure rate is known. Where tests
    begin comes from other faces, as few as a small fit has."""
    rng = np.random.default_rng(0)
    target, draws, n = 0.05, 400, 1500
    dense = rng.normal(1.5, 2.0, 200_000)
    odds_of_success = 1.2 * dense + 0.5
    sure_dense = 1 / (1 + np.exp(-dense))
    true_rate = 1 / (1 + np.exp(odds_of_success))
    order = np.argsort(-sure_dense)
    running = np.cumsum(true_rate[order]) / np.arange(1, len(order) + 1)
    broken, accepted = 0, []
    for _ in range(draws):
        logits = rng.normal(1.5, 2.0, n)
        failed = rng.random(n) < 1 / (1 + np.exp(1.2 * logits + 0.5))
        sure = 1 / (1 + np.exp(-logits))
        others = 1 / (1 + np.exp(-rng.normal(1.5, 2.0, 200)))
        table = fit_triage(sure, failed, 0.2, others)
        chosen = choose_threshold(table, target)
        if math.isinf(chosen.threshold):
            continue
        count = int((sure_dense >= chosen.threshold).sum())
        broken += running[count - 1] > target
        accepted.append((sure >= chosen.threshold).mean())
    assert broken <= stats.binom.ppf(0.9999, draws, 0.05)
    oracle = np.searchsorted(running > target, True) / len(running)
    assert len(accepted) > 0.95 * draws
    assert np.mean(accepted) > 0.75 * oracle  # and it accepts most of what could be


def test_useless_confidence_accepts_nothing() -> None:
    rng = np.random.default_rng(1)
    table = fit_triage(rng.random(2000), rng.random(2000) < 0.3, 0.0, rng.random(500))
    chosen = choose_threshold(table, 0.02)
    assert math.isinf(chosen.threshold)
    assert chosen.accepted == 0


def test_a_threshold_below_one_that_failed_its_test_is_never_used() -> None:
    table = TriageTable(
        thresholds=[0.9, 0.8, 0.7], accepted=[500, 600, 700], failed=[1, 90, 7],
        upper_bound=[0.01, 0.2, 0.02], expected=[0.5, 0.6, 0.7], faces=1000, corrupted_share=0.0,
    )  # fmt: skip
    assert choose_threshold(table, 0.05).threshold == 0.9


def test_where_tests_begin_does_not_depend_on_what_failed() -> None:
    """Failures above the start do not count, below it the first one may end the tests."""
    rng = np.random.default_rng(2)
    sure = rng.random(3000)
    others = rng.random(500)
    good = fit_triage(sure, sure < 0.3, 0.2, others)
    start = min(i for i, share in enumerate(good.expected) if share >= 0.35)
    assert choose_threshold(good, 0.05).threshold == pytest.approx(0.29, abs=0.03)
    bad = fit_triage(sure, (sure < 0.3) | (sure > GRID[start - 1]), 0.2, others)
    assert bad.expected == good.expected
    assert math.isinf(choose_threshold(bad, 0.05).threshold)


def test_accepted_needed_is_the_smallest_number_that_can_pass() -> None:
    for rate in (0.02, 0.1):
        n = accepted_needed(rate)
        for count, can in ((n, True), (n - 1, False)):
            table = fit_triage(np.ones(count), np.zeros(count, bool), 0.0, np.ones(5))
            assert math.isfinite(choose_threshold(table, rate).threshold) == can


def test_grid_descends_and_bad_input_is_refused() -> None:
    assert (np.diff(GRID) < 0).all()
    table = fit_triage(np.ones(10), np.zeros(10, bool), 0.0, np.ones(5))
    with pytest.raises(InputError, match="between 0 and 1"):
        choose_threshold(table, 0.0)


def test_bounds_that_cannot_be_kept_are_refused_in_words() -> None:
    table = fit_triage(np.ones(100), np.zeros(100, bool), 0.0, np.ones(5))
    with pytest.raises(InputError, match="cannot promise"):
        Trust(triage=table).threshold(0.0001, "mine")
    with pytest.raises(InputError, match="luvli calibrate"):
        Trust().threshold(0.05, "mine")
