"""The alarm: rare on draws from the calibration's law, certain on shifted ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from luvli.errors import InputError
from luvli.trust.shift import find_shift, fit_shift, ks_distance, ks_p_value


def test_distance_and_p_value_are_scipys() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=300), rng.normal(0.1, 1, size=500)
    theirs = stats.ks_2samp(a, b, method="asymp")
    assert ks_distance(a, b) == pytest.approx(theirs.statistic)
    exact = stats.ks_2samp(a, b, method="exact").pvalue
    assert ks_p_value(theirs.statistic, 300, 500) == pytest.approx(exact, rel=0.15)


def test_alarms_are_rare_without_a_shift_and_certain_with_one() -> None:
    rng = np.random.default_rng(1)
    draws, alarms, found = 150, 0, 0
    for _ in range(draws):
        table = fit_shift({"a": rng.normal(size=700), "b": rng.gamma(2.0, size=700)})
        same = {"a": rng.normal(size=200), "b": rng.gamma(2.0, size=200)}
        alarms += find_shift(table, same, level=0.05).alarm
        moved = same | {"b": rng.gamma(2.0, size=200) * 1.6}
        shift = find_shift(table, moved, level=0.05)
        found += shift.alarm and shift.worst == "b"
    assert alarms <= stats.binom.ppf(0.9999, draws, 0.05)
    assert found >= 0.95 * draws


def test_too_few_faces_are_not_judged() -> None:
    table = fit_shift({"a": np.arange(500.0)})
    shift = find_shift(table, {"a": np.full(5, 1e6)})
    assert not shift.alarm
    assert np.isnan(shift.p_values["a"])
    with pytest.raises(InputError, match="level"):
        find_shift(table, {}, level=2.0)
