"""All nineteen recipes of the paper, in miniature: what reproduce.md says was run.

Trees in the data sets' own layouts with a face or two for each part; a small network, one
epoch, one or two steps. Only the size is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat
from typer.testing import Result

from luvli.markup import get_markup
from luvli.network import load_model
from luvli.training.recipe_files import read_recipe

RECIPES = Path(__file__).resolve().parents[2] / "recipes/paper"
NAMES = sorted(
    path.relative_to(RECIPES).with_suffix("").as_posix()
    for path in RECIPES.rglob("*.yaml")
    if path.stem != "base"
)
SMALL = ["network.unets=2", "network.channels=8", "network.bn_size=1", "network.growth=4",
         "network.input_size=64"]  # fmt: skip


def face(markup: str, seed: int) -> np.ndarray:
    drawing = get_markup(markup).schematic
    rng = np.random.default_rng(seed)
    return 60 + drawing * rng.uniform(28, 36) + rng.normal(0, 0.5, drawing.shape)


def image(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (120, 120, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def pts(path: Path, points: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = "\n".join(f"{x} {y}" for x, y in points)
    path.write_text(f"version: 1\nn_points:  {len(points)}\n{{\n{rows}\n}}")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300-W, 300W-LP, AFLW-19, WFLW and MERL-RAV with AFLW's images."""
    root = tmp_path_factory.mktemp("sets")
    seed = 0
    for part in ("lfpw/trainset", "lfpw/testset", "helen/trainset", "helen/testset", "afw", "ibug"):
        seed += 1
        image(root / f"300w/{part}/image_{seed}.png", seed)
        pts(root / f"300w/{part}/image_{seed}.pts", face("ibug68", seed) + 1)
    for part in ("AFW", "HELEN", "IBUG", "LFPW"):
        seed += 1
        image(root / f"300w_lp/{part}/x_{seed}.jpg", seed)
        (root / f"300w_lp/landmarks/{part}").mkdir(parents=True)
        savemat(root / f"300w_lp/landmarks/{part}/x_{seed}_pts.mat",
                {"pts_2d": face("ibug68", seed) + 1})  # fmt: skip
    for pose in ("frontal", "lefthalf", "righthalf", "left", "right"):
        for side in ("trainset", "testset"):
            seed += 1
            points = face("ibug68", seed) + 1
            points[:5] = -1
            image(root / f"merl_rav/aflw/flickr/0/image{seed:05d}.jpg", seed)
            pts(root / f"merl_rav/merl_rav_labels/{pose}/{side}/labels/image{seed:05d}.pts", points)
    lists = root / "wflw/WFLW_annotations/list_98pt_rect_attr_train_test"
    lists.mkdir(parents=True)
    for split in ("train", "test"):
        lines, rows = [], []
        for i in range(4):
            seed += 1
            image(root / f"wflw/WFLW_images/0--Parade/{split}{i}.jpg", seed)
            numbers = " ".join(f"{v:.3f}" for v in face("wflw98", seed).ravel())
            lines.append(f"{numbers} 20 20 100 100 0 0 0 0 0 0 0--Parade/{split}{i}.jpg")
            image(root / f"aflw19/flickr/0/{split}{i}.jpg", seed)
            numbers = ",".join(f"{v:.3f}" for v in (face("aflw19", seed) + 1).ravel())
            rows.append(f"0/{split}{i}.jpg,0.4,80.0,60.0,60.0,{numbers}")
        (lists / f"list_98pt_rect_attr_{split}.txt").write_text("\n".join(lines) + "\n")
        head = ["image_name", "scale", "box_size", "center_w", "center_h"]
        head += [f"original_{j}_{axis}" for j in range(19) for axis in "xy"]
        text = "\n".join([",".join(head), *rows]) + "\n"
        (root / f"aflw19/face_landmarks_aflw_{split}.csv").write_text(text)
    return root


def test_there_are_nineteen() -> None:
    assert len(NAMES) == 19


@pytest.mark.slow
@pytest.mark.seconds(6)
def test_all_of_them_from_end_to_end(
    data: Path, tmp_path: Path, luvli: Callable[..., Result]
) -> None:
    """In order, because some start from the model of another."""
    order = sorted(NAMES, key=lambda name: ("lp" in name and name != "300w-lp", "/" in name, name))
    for name in order:
        recipe = read_recipe(RECIPES / f"{name}.yaml")
        settings = [*SMALL, f"data.root={data}", f"data.cache={tmp_path / 'cache'}"]
        for stage in recipe.stages:
            settings += [f"stages.{stage}.epochs=1", f"stages.{stage}.batch_size=3"]
        for key, source in recipe.data.sources.items():
            if source.protocol == "hrnet":  # the small tree has the authors' own lists alone
                settings.append(f"data.sources.{key}.protocol=official")
        if recipe.init is not None:
            start = "300w-split1/heatmap" if "300w-lp" not in str(recipe.init) else "300w-lp/model"
            settings.append(f"init={tmp_path / start}.safetensors")
        flags = [word for setting in settings for word in ("--set", setting)]
        done = luvli("train", RECIPES / f"{name}.yaml", "--out", tmp_path / name, *flags)
        assert done.exit_code == 0, f"{name}: {done.output}"
        network, info = load_model(tmp_path / name / "model.safetensors")
        assert info["steps"] > 0
        last = list(recipe.stages.values())[-1]
        assert network.config.covariance_trained == (last.loss == "luvli"), name
        assert network.config.visibility_trained == (name == "merl-rav"), name
