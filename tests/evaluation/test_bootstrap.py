"""Intervals against scipy's bootstrap, the normal limit, and exact enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import wilcoxon

from luvli.errors import InputError
from luvli.evaluation.bootstrap import bootstrap, bootstrap_columns, paired_bootstrap


def test_mean_interval_agrees_with_scipy():
    from scipy.stats import bootstrap as scipy_bootstrap

    values = np.random.default_rng(0).gamma(3, 1, 300)
    ours = bootstrap(values, resamples=5000)
    theirs = scipy_bootstrap(
        (values,), np.mean, n_resamples=5000, method="percentile", rng=np.random.default_rng(9)
    ).confidence_interval
    assert ours.value == pytest.approx(values.mean())
    spread = values.std() / np.sqrt(len(values))
    assert ours.low == pytest.approx(theirs.low, abs=0.1 * spread)
    assert ours.high == pytest.approx(theirs.high, abs=0.1 * spread)


def test_pooled_landmarks_are_drawn_by_face():
    rng = np.random.default_rng(3)
    counts = rng.integers(1, 60, 80).astype(float)
    sums = counts * rng.gamma(3, 1, 80)
    ours = bootstrap(sums, counts, resamples=4000, seed=1)
    drawn = rng.integers(80, size=(4000, 80))
    ratios = sums[drawn].sum(1) / counts[drawn].sum(1)
    assert ours.value == pytest.approx(sums.sum() / counts.sum())
    assert ours.low == pytest.approx(np.quantile(ratios, 0.025), abs=0.05 * ratios.std() * 4)
    assert ours.high == pytest.approx(np.quantile(ratios, 0.975), abs=0.05 * ratios.std() * 4)


def test_columns_share_the_draw_and_skip_their_own_gaps():
    table = np.random.default_rng(5).normal(size=(50, 2))
    table[3, 1] = np.nan
    first, second = bootstrap_columns(table, np.ones((50, 2)), resamples=300, seed=4)
    assert first == pytest.approx(bootstrap(table[:, 0], resamples=300, seed=4))
    assert first != bootstrap(table[:, 0], resamples=300, seed=5)
    assert second.value == pytest.approx(np.nanmean(table[:, 1]))


def test_one_face_has_no_interval_and_none_has_no_value():
    one = bootstrap([2.5])
    assert one.value == 2.5 and np.isnan(one.low) and np.isnan(one.high)
    assert np.isnan(bootstrap([]).value) and np.isnan(bootstrap([np.nan, np.nan]).value)
    assert np.isnan(paired_bootstrap([], []).difference)


def test_paired_sees_a_small_steady_difference_that_unpaired_cannot():
    rng = np.random.default_rng(2)
    a = rng.gamma(3, 1, 200)
    b = a + rng.normal(0.05, 0.1, 200)
    result = paired_bootstrap(a, b)
    assert result.difference == pytest.approx((a - b).mean())
    assert result.high < 0 and result.p_value < 0.01
    assert bootstrap(a).high > bootstrap(b).low  # the two intervals overlap


def test_paired_p_value_is_uniform_without_a_difference():
    rng = np.random.default_rng(11)
    p = [
        paired_bootstrap(*rng.normal(size=(2, 60)), resamples=200, seed=i).p_value
        for i in range(200)
    ]
    assert 0.01 <= np.mean(np.array(p) < 0.05) <= 0.12
    assert 0.38 < np.mean(p) < 0.62


def test_swapping_the_methods_mirrors_the_result():
    a, b = np.random.default_rng(0).normal(size=(2, 30))
    one, other = paired_bootstrap(a, b), paired_bootstrap(b, a)
    assert one.difference == -other.difference
    assert one.low == pytest.approx(-other.high) and one.p_value == other.p_value
    assert one.signed_rank == pytest.approx(wilcoxon(a - b).pvalue)
    assert paired_bootstrap(a, a).signed_rank == 1.0
    with pytest.raises(InputError, match="the same faces"):
        paired_bootstrap([1.0, 2.0], [1.0])
