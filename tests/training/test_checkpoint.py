"""Checkpoint files, random states, averages."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from luvli.errors import InputError
from luvli.training.average import WeightAverage
from luvli.training.checkpoint import (
    CheckpointWarning,
    latest_checkpoint,
    list_checkpoints,
    load_checkpoint,
    random_states,
    restore_random_states,
    save_checkpoint,
)


def test_only_the_last_few_are_kept_in_order_of_steps(tmp_path: Path) -> None:
    for step in (5, 90, 100, 1000):
        save_checkpoint(tmp_path, step, {"total": step}, keep=2)
    assert [load_checkpoint(path)["total"] for path in list_checkpoints(tmp_path)] == [100, 1000]
    assert latest_checkpoint(tmp_path)["total"] == 1000  # type: ignore[index]


def test_the_newest_whole_one_is_used(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save_checkpoint(tmp_path, step, {"total": step, "w": torch.ones(9)}, keep=5)
    one, two, three = list_checkpoints(tmp_path)
    three.write_bytes(b"")
    data = bytearray(two.read_bytes())
    two.write_bytes(data[: len(data) // 2])
    with pytest.warns(CheckpointWarning) as warned:
        assert latest_checkpoint(tmp_path)["total"] == 1  # type: ignore[index]
    assert len(warned) == 2
    one.unlink()
    with pytest.warns(CheckpointWarning):
        assert latest_checkpoint(tmp_path) is None
    assert latest_checkpoint(tmp_path / "nowhere") is None


class _Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path("owned"),)  # type: ignore[return-value]


def test_code_inside_a_checkpoint_is_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"format": "luvli-checkpoint-1", "x": _Evil()}, tmp_path / "step-00000001.ckpt")
    (tmp_path / "step-00000002.ckpt").write_bytes(pickle.dumps(_Evil()))
    for path in list_checkpoints(tmp_path):
        with pytest.raises(InputError):
            load_checkpoint(path)
    assert not (tmp_path / "owned").exists()


def test_random_states_survive_a_file(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, 0, {"random": random_states()}, keep=1)
    expected = torch.rand(3).tolist(), np.random.rand(3).tolist()  # noqa: NPY002
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    restore_random_states(load_checkpoint(path)["random"])
    assert (torch.rand(3).tolist(), np.random.rand(3).tolist()) == expected  # noqa: NPY002


def test_the_average_follows_its_closed_form() -> None:
    state = {"w": torch.zeros(2), "count": torch.tensor(0)}
    average = WeightAverage(state, decay=0.5)
    expected = 0.0
    for t in range(8):
        state = {"w": torch.full((2,), float(t + 1)), "count": torch.tensor(t)}
        average.update(state)
        decay = min(0.5, (1 + t) / (10 + t))
        expected = decay * expected + (1 - decay) * (t + 1)
    assert average.state["w"].tolist() == pytest.approx([expected] * 2)
    assert average.state["count"] == 7
    copy = WeightAverage({"w": torch.zeros(2), "count": torch.tensor(0)}, decay=0.5)
    copy.load(average.state, average.updates)
    for one in (average, copy):
        one.update({"w": torch.ones(2), "count": torch.tensor(9)})
    assert torch.equal(copy.state["w"], average.state["w"])
