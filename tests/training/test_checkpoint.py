"""Checkpoint files, random states, averages."""

from __future__ import annotations

import hashlib
import io
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from luvli.errors import InputError
from luvli.training.checkpoint import (
    CheckpointWarning,
    latest_checkpoint,
    list_checkpoints,
    load_checkpoint,
    random_states,
    restore_random_states,
    save_checkpoint,
)
from luvli.training.optimizer import moving_average


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
    with (
        pytest.warns(CheckpointWarning) as warned,
        pytest.raises(InputError, match="none of the 2 checkpoints"),
    ):
        latest_checkpoint(tmp_path)  # never a silent new beginning
    before = ["The one before it is tried" in str(warning.message) for warning in warned]
    assert before == [True, False]  # nothing is before the first
    assert latest_checkpoint(tmp_path / "nowhere") is None


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, 1, {"w": torch.ones(50)}, keep=1)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.choice(8 * len(content), 200, replace=False).tolist():
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(InputError):
            load_checkpoint(path)


def test_new_checkpoints_are_kept_before_damaged_later_ones(tmp_path: Path) -> None:
    for step in (100, 200, 300):
        save_checkpoint(tmp_path, step, {"total": step}, keep=3)
    list_checkpoints(tmp_path)[-1].write_bytes(b"damaged")
    save_checkpoint(tmp_path, 250, {"total": 250}, keep=1)
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step-00000250.ckpt"]


class _Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path("owned"),)  # type: ignore[return-value]


def test_code_inside_a_checkpoint_is_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stream = io.BytesIO()
    torch.save({"x": _Evil()}, stream)
    content = stream.getvalue()
    digest = hashlib.sha256(content).hexdigest()
    path = tmp_path / "step-00000001.ckpt"
    path.write_bytes(f"luvli-checkpoint-3 {digest}\n".encode() + content)
    (tmp_path / "step-00000002.ckpt").write_bytes(pickle.dumps(_Evil()))
    for path in list_checkpoints(tmp_path):
        with pytest.raises(InputError):
            load_checkpoint(path)
    assert not (tmp_path / "owned").exists()


def test_random_states_survive_a_file(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, 0, {"random": random_states()}, keep=1)
    expected = torch.rand(3).tolist()
    torch.manual_seed(1)
    restore_random_states(load_checkpoint(path)["random"])
    assert torch.rand(3).tolist() == expected


class _Counted(torch.nn.Module):
    """A weight, a statistic and a counter of batches, as a batch norm has them."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(2))
        self.register_buffer("statistic", torch.zeros(2))
        self.register_buffer("count", torch.tensor(0))

    def set(self, value: int) -> None:
        with torch.no_grad():
            self.weight.fill_(float(value))
            self.statistic.fill_(10.0 * value)  # type: ignore[operator, union-attr]
            self.count.fill_(value)  # type: ignore[operator, union-attr]


def test_the_average_follows_its_closed_form() -> None:
    network = _Counted()
    average, copy = (moving_average(network, decay=0.5) for _ in range(2))
    expected = 0.0
    for n in range(8):
        network.set(n + 1)
        average.update_parameters(network)
        decay = min(0.5, (1 + n) / (10 + n)) if n else 0.0  # the first step is copied
        expected = decay * expected + (1 - decay) * (n + 1)
    assert average.module.weight.tolist() == pytest.approx([expected] * 2)
    assert average.module.statistic.tolist() == pytest.approx([10 * expected] * 2)
    assert average.module.count == 8
    copy.load_state_dict(average.state_dict())
    network.set(20)
    for one in (average, copy):
        one.update_parameters(network)
    assert torch.equal(copy.module.weight, average.module.weight)
    assert torch.equal(copy.module.statistic, average.module.statistic)
