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
from luvli.errors import InputError
from luvli.network import load_model
from luvli.network.heads import FailureEstimator
from luvli.training import failure_stage
from luvli.training.distributed import RunOptions
from luvli.training.loop import train
from luvli.training.recipe import Recipe

MakeRecipe = Callable[..., Recipe]


def test_the_stage_adds_a_head_and_leaves_the_rest(
    small_recipe: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a fit that takes no time: what it learns is tested in tests/calibration."""
    asked: list[Sequence[FaceRecord]] = []

    def learn(model: ModelFile, records: Sequence[FaceRecord], **options: Any) -> ModelFile:
        asked.append(records)
        inputs = model.info.config.unets * model.info.config.bottleneck_size
        head = FailureEstimator(inputs, 4).state_dict()
        return with_head(model, {f"failure.{name}": w.numpy() for name, w in head.items()})

    monkeypatch.setattr(failure_stage, "fit_failure_head", learn)
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
    held_out = {record.face_id for record in asked[0]}
    model.unlink()
    train(recipe, tmp_path / "run", RunOptions(resume=True))  # begun anew, and the same
    again = load_model(model)[0].state_dict()
    assert again.keys() == after.keys()
    assert {record.face_id for record in asked[1]} == held_out


@pytest.mark.parametrize(
    ("stages", "sentence"),
    [
        ({"heatmaps": None, "luvli": {"loss": "failure"}}, "no network to add to"),
        ({"heatmaps": None, "luvli": {}, "failure": {"loss": "failure"}, "more": {"loss": "luvli"}},
         "must be the last"),
    ],
)  # fmt: skip
def test_only_the_last_of_several_stages_can_be_it(
    small_recipe: MakeRecipe, stages: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        small_recipe(stages=stages)
