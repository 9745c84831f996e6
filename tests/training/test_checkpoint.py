"""Checkpoint files and averages."""

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
    save_checkpoint,
)
from luvli.training.optimizer import moving_average


def test_the_last_few_are_kept_and_damaged_later_ones_go(tmp_path: Path) -> None:
    for step in (5, 90, 100, 1000):
        save_checkpoint(tmp_path, step, {"total": step}, keep=2)
    assert [load_checkpoint(path)["total"] for path in list_checkpoints(tmp_path)] == [100, 1000]
    list_checkpoints(tmp_path)[-1].write_bytes(b"damaged")
    save_checkpoint(tmp_path, 250, {"total": 250}, keep=1)
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step-00000250.ckpt"]


def test_the_newest_whole_one_is_used(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save_checkpoint(tmp_path, step, {"total": step, "w": torch.ones(9)}, keep=5)
    one, two, three = list_checkpoints(tmp_path)
    three.write_bytes(b"")
    two.write_bytes(two.read_bytes()[:200])
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
    for place in np.random.default_rng(0).choice(8 * len(content), 100, replace=False).tolist():
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(InputError):
            load_checkpoint(path)


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


def test_the_average_follows_its_closed_form() -> None:
    """Of weights and statistics; counters of batches are copied. It survives its state dict."""
    network = torch.nn.BatchNorm1d(1)

    def set_to(value: int) -> None:
        with torch.no_grad():
            network.weight.fill_(float(value))
            network.running_mean.fill_(10.0 * value)  # type: ignore[union-attr]
            network.num_batches_tracked.fill_(value)  # type: ignore[union-attr]

    average, copy = (moving_average(network, decay=0.5) for _ in range(2))
    expected = 0.0
    for n in range(8):
        set_to(n + 1)
        average.update_parameters(network)
        decay = min(0.5, (1 + n) / (10 + n)) if n else 0.0  # the first step is copied
        expected = decay * expected + (1 - decay) * (n + 1)
    assert average.module.weight.item() == pytest.approx(expected)
    assert average.module.running_mean.item() == pytest.approx(10 * expected)
    assert average.module.num_batches_tracked == 8
    copy.load_state_dict(average.state_dict())
    set_to(20)
    for one in (average, copy):
        one.update_parameters(network)
    assert torch.equal(copy.module.weight, average.module.weight)
