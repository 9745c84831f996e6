"""The quick recipe: the whole thread from a bare machine to a model that knows something."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

import luvli as package
from luvli.network import load_model
from luvli.synthetic import SyntheticFaces

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

    model = package.load(tmp_path / "run/model.safetensors", backend="torch")

    def unseen(**settings: object) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Faces that no part of the recipe draws: error of each as a share of its box (n,), which
        landmarks are visible and which are predicted to be (n, 68)."""
        errors, visible, predicted = [], [], []
        drawn = SyntheticFaces(seed=777, **settings)  # type: ignore[arg-type]
        for rendered in (drawn[i] for i in range(len(drawn))):
            record = rendered.record
            (face,) = model.predict(rendered.image, boxes=[record.tight_box])
            width, height = record.tight_box[2:] - record.tight_box[:2]
            distance = np.linalg.norm(face.points - record.points, axis=1)[record.visible]
            errors.append(distance.mean() / np.sqrt(width * height))
            visible.append(record.visible)
            predicted.append(face.visible())
        return np.array(errors), np.array(visible), np.array(predicted)

    assert unseen(count=1, size=128, pose="frontal")[0] < 0.15
    errors, visible, predicted = unseen(count=40, size=96)
    assert errors.mean() < 0.15
    assert (predicted == visible).mean() > max(visible.mean(), 1 - visible.mean()) + 0.02
