"""A recipe and one tool make a release, in miniature: `luvli train`, `tools/release_model.py`."""

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
from luvli.models import ModelCard, read_card
from luvli.network import load_model

# From the weights of a shipped model, so that three steps are enough to have something to release.
# A calibration takes 300 held-out faces at least.
RECIPE = """
extends: {base}
name: miniature
version: "7.1"
licence: research only
init: luvli-68-fast@{version}
network: {{unets: {unets}, channels: {channels}, growth: {growth}, bn_size: {bn_size},
           input_size: {input_size}}}
data:
  cache: {cache}
  sources:
    drawn: {{synthetic: {{faces: 420, size: 96, pose: frontal}}, occlusion: labelled,
             boxes: detector, box_noise: none, hold_out: 320}}
stage_defaults: {{epoch_faces: 16, batch_size: 8, optimizer: {{kind: adamw, lr: 1.0e-6}}}}
stages:
  heatmaps: {{epochs: 1, input_size: 64, optimizer: {{kind: adamw, lr: 1.0e-6}}}}
  luvli: {{epochs: 1}}
  failure: {{loss: failure, epoch_faces: 100}}
"""


@pytest.mark.slow
@pytest.mark.seconds(60)
def test_a_recipe_and_one_tool_make_a_release(tmp_path: Path) -> None:
    base = Path(__file__).parents[2] / "recipes/models/base.yaml"
    card = read_card("luvli-68-fast")
    config = load("luvli-68-fast").info.config
    network = {key: getattr(config, key) for key in ("unets", "channels", "growth", "bn_size")}
    recipe = tmp_path / "miniature.yaml"
    recipe.write_text(
        RECIPE.format(
            base=base,
            cache=tmp_path / "cache",
            version=card.version,
            input_size=config.input_size,
            **network,
        )
    )
    run = tmp_path / "run"
    command = ["train", str(recipe), "--data", str(tmp_path), "--out", str(run)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert load_model(run / "model.safetensors")[1]["stage"] == "failure"

    release_model.main([str(run)])
    files = {path.name for path in (run / "release").iterdir()}
    assert files == {f"miniature.{end}" for end in ("safetensors", "onnx", "json", "md")}
    card = ModelCard.model_validate_json((run / "release/miniature.json").read_text())
    assert (card.name, card.version) == ("miniature", "7.1")
    assert "trained to its end" in card.recipe
    predictor = load(run / "release/miniature.onnx")
    assert predictor.info.version == "7.1" and predictor.info.trust is not None
    assert predictor.info.calibration is not None
    written = json.dumps(load_model(run / "release/miniature.safetensors")[1]["recipe"])
    assert str(tmp_path) not in written
