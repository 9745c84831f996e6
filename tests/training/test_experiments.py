"""The paper's recipes from end to end, on miniature trees in the data sets' own formats.

Only the size is changed: a small network, one epoch, small batches.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from drawn_faces import draw_face
from typer.testing import Result

from luvli.data.formats import write_pts
from luvli.network import load_model

RECIPES = Path(__file__).resolve().parents[2] / "recipes/paper"
SMALL = [
    "network.unets=2",
    "network.channels=8",
    "network.bn_size=1",
    "network.growth=4",
    "network.input_size=64",
]
Command = Callable[..., Result]


def write_face(image: Path, label: Path, seed: int, hidden: bool = False) -> None:
    picture, points, classes = draw_face(seed)
    for path in (image, label):
        path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(image), picture[..., ::-1])
    write_pts(label, points, classes if hidden else np.ones_like(classes))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """300-W with all its parts, and MERL-RAV with its five poses and AFLW's images."""
    root = tmp_path / "data"
    seed = 0
    for part in ("lfpw/trainset", "lfpw/testset", "helen/trainset", "helen/testset", "afw", "ibug"):
        for _ in range(2):
            seed += 1
            stem = root / "300w" / part / f"image_{seed:04d}"
            write_face(stem.with_suffix(".png"), stem.with_suffix(".pts"), seed)
    for pose in ("frontal", "lefthalf", "righthalf", "left", "right"):
        for side in ("trainset", "testset"):
            seed += 1
            name = f"image{seed:05d}"
            write_face(
                root / f"merl_rav/aflw/flickr/0/{name}.jpg",
                root / f"merl_rav/merl_rav_labels/{pose}/{side}/labels/{name}.pts",
                seed,
                hidden=True,
            )
    return root


def run(luvli: Command, recipe: str, data: Path, out: Path, *changes: str) -> None:
    path = RECIPES / f"{recipe}.yaml"
    cache = f"data.cache={data.parent / 'cache'}"
    settings = [*SMALL, f"data.root={data}", cache, *changes]
    flags = [word for setting in settings for word in ("--set", setting)]
    result = luvli("train", path, "--out", out, *flags)
    assert result.exit_code == 0, result.output


def stages(*names: str, batch: int = 2) -> list[str]:
    return [
        change
        for name in names
        for change in (f"stages.{name}.epochs=1", f"stages.{name}.batch_size={batch}")
    ]


@pytest.mark.slow
def test_pre_training_is_taken_up_by_init(luvli: Command, data: Path, tmp_path: Path) -> None:
    """With a learning rate of nearly nothing the trunk ends where `init` left it."""
    run(luvli, "300w-split1", data, tmp_path / "first", *stages("heatmap", "luvli"))
    start = tmp_path / "first/heatmap.safetensors"
    trunk = dict(load_model(start)[0].trunk.named_parameters())
    still = "stages.luvli.optimizer.lr=1e-12"
    for name in ("300w-split2-lp", "ablation/direct", "ablation/mse", "ablation/gauss"):
        run(luvli, name, data, tmp_path / name, *stages("luvli"), still, f"init={start}")
        ended = load_model(tmp_path / name / "model.safetensors")[0].trunk
        for key, weight in ended.named_parameters():
            assert torch.allclose(weight, trunk[key], atol=1e-8, rtol=0), (name, key)


@pytest.mark.slow
def test_stages_may_differ_in_crop_size(luvli: Command, data: Path, tmp_path: Path) -> None:
    sizes = ["network.input_size=128", "stages.heatmap.input_size=64"]
    run(luvli, "300w-split1", data, tmp_path / "run", *stages("heatmap", "luvli"), *sizes)
    small, _ = load_model(tmp_path / "run/heatmap.safetensors")
    large, _ = load_model(tmp_path / "run/model.safetensors")
    assert (small.config.input_size, large.config.input_size) == (64, 128)
