"""Learning rates against closed forms."""

from __future__ import annotations

from math import cos, pi

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from luvli.training.optimizer import lr_factor
from luvli.training.recipe import Cosine, Steps


def test_steps_multiply_from_their_epoch_on() -> None:
    steps = Steps(factors={2: 0.1, 4: 0.5})
    factors = [lr_factor(steps, epoch, 6) for epoch in (0, 1.99, 2, 3, 4, 5)]
    assert factors == pytest.approx([1, 1, 0.1, 0.1, 0.05, 0.05])


def test_cosine_is_a_cosine_after_a_straight_rise() -> None:
    schedule = Cosine(warmup=2, final=0.1)
    assert [lr_factor(schedule, e, 12) for e in (0, 0.5, 1)] == pytest.approx([0, 0.25, 0.5])
    for epoch in np.linspace(2, 12, 7):
        expected = 0.1 + 0.9 * (1 + cos(pi * (epoch - 2) / 10)) / 2
        assert lr_factor(schedule, epoch, 12) == pytest.approx(expected)


@given(st.floats(0, 50), st.integers(1, 50))
def test_factors_stay_between_zero_and_one(epoch: float, epochs: int) -> None:
    for schedule in (Cosine(warmup=0.5), Steps(factors={3: 0.2})):
        assert 0 <= lr_factor(schedule, min(epoch, epochs), epochs) <= 1
