"""The quick recipe: the whole thread from a bare machine to a model that knows something."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
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
    assert numbers["visibility_accuracy"] > numbers["visibility_base_rate"] + 0.02
    assert network.config.visibility_trained

    import luvli as package
    from luvli.synthetic import SyntheticFaces

    unseen = SyntheticFaces(seed=777, count=1, size=128, pose="frontal")[0]
    (face,) = package.load(tmp_path / "run/model.safetensors", backend="torch").predict(
        unseen.image, boxes=[unseen.record.tight_box]
    )
    seen = unseen.record.visible
    error = np.linalg.norm(face.points - unseen.record.points, axis=1)[seen].mean()
    width, height = unseen.record.tight_box[2:] - unseen.record.tight_box[:2]
    assert error < 0.15 * np.sqrt(width * height)
