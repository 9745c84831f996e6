"""Calibrated visibilities: the true map is found, and lives in the network's own layer."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from luvli.calibration.visibility import LogitMap, fit_logit_map


def drawn(rng: np.random.Generator, slope: float, offset: float, n: int = 40_000):
    """Probabilities that are wrong by a known map, and what was visible."""
    said = rng.normal(1.0, 3.0, n)
    return expit(said), rng.random(n) < expit(slope * said + offset)


def test_the_true_map_is_found(rng) -> None:
    probability, visible = drawn(rng, 0.7, -0.4)
    fitted = fit_logit_map(probability, visible)
    assert tuple(fitted) == pytest.approx((0.7, -0.4), abs=0.06)
    after = fitted(probability)
    for low in np.arange(0.1, 0.9, 0.1):  # what is predicted holds, at every level
        there = (after > low) & (after < low + 0.1)
        assert visible[there].mean() == pytest.approx(after[there].mean(), abs=0.04)


def test_too_little_of_one_kind_changes_nothing(rng) -> None:
    probability, _ = drawn(rng, 1.0, 0.0, 2000)
    few = np.ones(2000, dtype=bool)
    few[:100] = False
    assert fit_logit_map(probability, few) == LogitMap(1.0, 0.0)
    nonsense = probability < 0.5  # the wrong way round: no map with a positive slope
    assert fit_logit_map(probability, nonsense) == LogitMap(1.0, 0.0)


def test_the_map_goes_into_the_layer(rng) -> None:
    weights = {
        "visibility.linear.weight": rng.normal(size=(5, 7)),
        "visibility.linear.bias": rng.normal(size=5),
        "trunk.stem.0.weight": rng.normal(size=3),
    }
    mapped = LogitMap(0.5, 0.25).apply_to_weights(weights)
    x = rng.normal(size=7)
    before, after = (
        w["visibility.linear.weight"] @ x + w["visibility.linear.bias"] for w in (weights, mapped)
    )
    np.testing.assert_allclose(after, 0.5 * before + 0.25)
    assert mapped["trunk.stem.0.weight"] is weights["trunk.stem.0.weight"]
