"""The order of faces: fair, reproducible, the same from any step on and for any world; and the
learning rate of each step."""

from __future__ import annotations

from collections import Counter
from math import cos, pi

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from luvli.training.optimizer import lr_factor
from luvli.training.order import StageOrder, epoch_draws, faces_per_epoch
from luvli.training.recipe import Cosine, Steps

sources = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 15)), min_size=1, max_size=3)


@given(st.integers(0, 5), st.integers(1, 4), sources)
@settings(max_examples=50)
def test_no_face_comes_again_before_all_have_come(
    seed: int, epochs: int, parts: list[tuple[int, int]]
) -> None:
    sizes, counts = zip(*parts, strict=True)
    draws = np.concatenate([epoch_draws(seed, e, sizes, counts) for e in range(epochs)])
    assert len({tuple(row) for row in draws.tolist()}) == len(draws)  # no random stream twice
    for source, (size, count) in enumerate(parts):
        seen = Counter(index for s, _, index in draws.tolist() if s == source)
        assert sum(seen.values()) == epochs * count
        often = [seen[i] for i in range(size)]
        assert max(often) - min(often) <= 1


def test_epochs_and_seeds_differ_and_repeat() -> None:
    first = epoch_draws(0, 0, [50], [50])
    assert np.array_equal(first, epoch_draws(0, 0, [50], [50]))
    assert not np.array_equal(first[:, 2], epoch_draws(0, 1, [50], [50])[:, 2])
    assert not np.array_equal(first[:, 2], epoch_draws(1, 0, [50], [50])[:, 2])
    mixed = [epoch_draws(0, epoch, [50, 50], [50, 50])[:, 0] for epoch in range(2)]
    assert not np.array_equal(*mixed)  # sources take turns in another order, too


@given(st.integers(0, 11))
def test_a_stage_can_be_entered_at_any_step(start: int) -> None:
    whole, late = (StageOrder(3, [9, 4], [8, 5], 4, epochs=4, start=s) for s in (0, start))
    assert len(whole) == 12
    assert len(late) == 12 - start
    everything = [np.array(batch).tolist() for batch in whole]
    assert [np.array(batch).tolist() for batch in late] == everything[start:]


def test_processes_share_each_batch() -> None:
    orders = [StageOrder(0, [10], [10], 4, 2, rank, 2) for rank in range(2)]
    single = StageOrder(0, [10], [10], 4, 2)
    for together, *apart in zip(single, *orders, strict=True):
        mixed = [row.tolist() for part in apart for row in part]
        assert sorted(mixed) == sorted(row.tolist() for row in together)
        assert [len(part) for part in apart] == [2, 2]


def test_small_sets_make_one_batch_of_what_there_is() -> None:
    assert [len(batch) for batch in StageOrder(0, [3], [3], 8, 2)] == [3, 3]


def test_mixtures_share_out_an_epoch() -> None:
    sizes = {"a": 100, "b": 300}
    assert faces_per_epoch(sizes, None, None) == sizes
    assert faces_per_epoch(sizes, None, 40) == {"a": 10, "b": 30}
    assert faces_per_epoch(sizes, {"b": 2}, None) == {"b": 300}
    assert faces_per_epoch(sizes, {"a": 1, "b": 1e-6}, 10) == {"a": 10, "b": 1}


def test_learning_rates_follow_their_closed_forms() -> None:
    steps = Steps(factors={2: 0.1, 4: 0.5})
    factors = [lr_factor(steps, epoch, 6) for epoch in (0, 1.99, 2, 3, 4, 5)]
    assert factors == pytest.approx([1, 1, 0.1, 0.1, 0.05, 0.05])
    schedule = Cosine(warmup=2, final=0.1)
    assert [lr_factor(schedule, e, 12) for e in (0, 0.5, 1)] == pytest.approx([0, 0.25, 0.5])
    for epoch in np.linspace(2, 12, 7):
        expected = 0.1 + 0.9 * (1 + cos(pi * (epoch - 2) / 10)) / 2
        assert lr_factor(schedule, epoch, 12) == pytest.approx(expected)
