"""From nothing to a released model, in miniature: `luvli train`, then tools/release_model.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("numba")
sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import release_model
from luvli import load
from luvli.cli.app import app
from luvli.models import ModelCard
from luvli.network import load_model

RECIPE = """
extends: {base}
name: miniature
version: "7.1"
licence: research only
network: {{unets: 1, channels: 24, bn_size: 2, growth: 12, input_size: 64}}
data:
  cache: {cache}
  sources:
    drawn: {{synthetic: {{faces: 900, size: 96, pose: frontal}}, occlusion: labelled,
             boxes: detector, box_noise: none, hold_out: 400}}
stage_defaults:
  epoch_faces: 496
  optimizer: {{kind: adamw, lr: 5.0e-3}}
  augmentation: {{rotation: [-15, 15], turned: {{probability: 0.0}}, rectangle: null, occluder: 0.0,
                  mask: 0.0, blur: 0.0, low_resolution: 0.0}}
stages:
  heatmaps: {{epochs: 12, input_size: 64, optimizer: {{kind: adamw, lr: 5.0e-3}}}}
  luvli: {{epochs: 24}}
  failure: {{loss: failure, epoch_faces: 300}}
"""


@pytest.mark.slow
@pytest.mark.seconds(300)
def test_a_recipe_and_one_tool_make_a_release(tmp_path: Path) -> None:
    base = Path(__file__).parents[2] / "recipes/models/base.yaml"
    recipe = tmp_path / "miniature.yaml"
    recipe.write_text(RECIPE.format(base=base, cache=tmp_path / "cache"))
    run = tmp_path / "run"
    command = ["train", str(recipe), "--data", str(tmp_path), "--out", str(run)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    trained, info = load_model(run / "model.safetensors")
    assert info["stage"] == "failure" and trained.config.failure_head

    release_model.main([str(run)])
    files = {path.name for path in (run / "release").iterdir()}
    assert files == {f"miniature.{end}" for end in ("safetensors", "onnx", "json", "md")}
    card = ModelCard.model_validate_json((run / "release/miniature.json").read_text())
    assert (card.name, card.version) == ("miniature", "7.1")
    assert "trained to its end" in card.recipe
    predictor = load(run / "release/miniature.onnx")
    assert predictor.info.version == "7.1" and predictor.info.trust is not None
    assert predictor.info.calibration is not None
    told = json.dumps(load_model(run / "release/miniature.safetensors")[1]["recipe"])
    assert str(tmp_path) not in told
