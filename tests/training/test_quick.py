"""The quick recipe: the whole thread from a bare machine to a model that knows something."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from luvli.network import load_model

RECIPE = Path(__file__).resolve().parents[2] / "recipes/quick.yaml"
SHORTER = [
    "data.sources.drawn.synthetic.faces=500",
    "stages.heatmap.epochs=4",
    "stages.heatmap.batch_size=8",
    "stages.luvli.epochs=8",
    "stages.luvli.batch_size=8",
    "validate_epochs=4",
]


@pytest.mark.soak
def test_the_quick_recipe_even_shortened_learns_all_three(
    luvli: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUVLI_CACHE", str(tmp_path / "cache"))
    flags = [word for change in SHORTER for word in ("--set", change)]
    result = luvli("train", RECIPE, "--out", tmp_path / "run", *flags)
    assert result.exit_code == 0, result.output
    network, info = load_model(tmp_path / "run/model.safetensors")
    numbers = info["validation"]["drawn"]
    assert numbers["nme_vis_box"] < 0.5 * numbers["mean_shape_nme_vis_box"]
    assert numbers["error_correlation"] > 0.2
    assert numbers["visibility_auroc"] > 0.7
    assert network.config.visibility_trained
