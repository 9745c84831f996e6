"""The last stage of a recipe: a head that predicts failures, on a network that stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from luvli.calibration.failure_head import with_head
from luvli.calibration.model_file import ModelFile
from luvli.data.record import FaceRecord
from luvli.network import load_model
from luvli.network.heads import FailureEstimator
from luvli.training import stages
from luvli.training.loop import train
from luvli.training.recipe import Recipe
from luvli.training.run import RunOptions


def test_the_stage_adds_a_head_and_leaves_the_rest(
    small_recipe: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a fit that takes no time: what it learns is tested in tests/calibration."""
    asked: list[set[str]] = []

    def learn(model: ModelFile, records: Sequence[FaceRecord], **options: Any) -> ModelFile:
        asked.append({record.face_id for record in records})
        inputs = model.info.config.unets * model.info.config.bottleneck_size
        head = FailureEstimator(inputs, 4).state_dict()
        return with_head(model, {f"failure.{name}": w.numpy() for name, w in head.items()})

    monkeypatch.setattr(stages, "fit_failure_head", learn)
    stage = {"loss": "failure", "epoch_faces": 10}
    recipe = small_recipe(stages={"heatmaps": None, "luvli": {"epochs": 1}, "failure": stage})
    model = train(recipe, tmp_path / "run")
    before = load_model(tmp_path / "run/luvli.safetensors")[0].state_dict()
    network, info = load_model(model)
    after = network.state_dict()
    assert network.config.failure_head == 4 and info["stage"] == "failure"
    assert after.keys() - before.keys() == {n for n in after if n.startswith("failure.")}
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    assert len(asked[0]) == 10  # of the 16 training faces, none of the held-out ones
    model.unlink()
    train(recipe, tmp_path / "run", RunOptions(resume=True))  # begun anew, and the same
    assert load_model(model)[0].state_dict().keys() == after.keys()
    assert asked[1] == asked[0]
