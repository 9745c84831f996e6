"""Small things to train on: a folder of drawn faces, and a recipe for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import pytest
import torch
from drawn_faces import draw_face

from luvli.data.dataset import CropDataset
from luvli.data.formats import write_pts
from luvli.network import build, save_model
from luvli.training.recipe import Recipe
from luvli.training.recipe_files import make_recipe, merge
from luvli.training.sources import load_source

COUNT = 20


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def faces_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of images with `.pts` files, as a user would have it."""
    folder = tmp_path_factory.mktemp("faces")
    for seed in range(COUNT):
        image, points, classes = draw_face(seed)
        cv2.imwrite(str(folder / f"face{seed:02d}.png"), image[..., ::-1])
        write_pts(folder / f"face{seed:02d}.pts", points, classes)
    return folder


@pytest.fixture(scope="session")
def small_recipe(
    faces_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Recipe]:
    """A recipe that takes a second or two; keyword arguments are merged into it."""
    cache = str(tmp_path_factory.mktemp("cache"))

    def make(**changes: Any) -> Recipe:
        stage = {
            "epochs": 2,
            "batch_size": 4,
            "optimizer": {"kind": "adamw", "lr": 2e-3},
            "schedule": {"kind": "cosine", "warmup": 0.5},
            "augmentation": {"recipe": "A", "flip": 0.5},
            "clip_grad_norm": 1.0,
            "ema": 0.9,
        }
        content = {
            "name": "small",
            "network": {"unets": 2, "channels": 8, "bn_size": 1, "growth": 4, "input_size": 64},
            "data": {
                "root": str(faces_folder),
                "cache": cache,
                "enlarge": 1.3,
                "sources": {"mine": {"set": "folder", "hold_out": 4}},
            },
            "stages": {
                "heatmaps": {"loss": "heatmap", **stage},
                "luvli": {"loss": "luvli", **stage},
            },
        }
        return make_recipe(merge(content, changes), "the small recipe")

    return make


@pytest.fixture
def crops(small_recipe: Callable[..., Recipe]) -> CropDataset:
    """The training faces, augmented, half of them mirrored; some landmarks are hidden."""
    recipe = small_recipe()
    part = load_source("mine", recipe.data.sources["mine"], recipe.data)
    augmentation = recipe.stages["luvli"].augmentation
    return CropDataset(part.train, 64, enlarge=1.3, augmentation=augmentation)


@pytest.fixture
def untrained(small_recipe: Callable[..., Recipe], tmp_path: Path) -> Path:
    """A model file with fresh weights, of a network that knows no visibility."""
    torch.manual_seed(0)
    config = small_recipe().network.model_copy(update={"visibility_trained": False})
    save_model(tmp_path / "untrained.safetensors", build(config), {"enlarge": 1.3})
    return tmp_path / "untrained.safetensors"
