"""Small things to train on: drawn faces whose parts are lines, and a recipe for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from luvli.data.formats import write_pts
from luvli.data.record import Visibility
from luvli.markup import get_markup
from luvli.training.files import make_recipe, merge
from luvli.training.recipe import Recipe

COUNT = 20
SIZE = 80


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def draw_face(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A line drawing (SIZE, SIZE, 3), its 68 points and classes; some landmarks are hidden."""
    rng = np.random.default_rng(seed)
    markup = get_markup("ibug68")
    turn, stretch = rng.normal(0, 0.1), rng.normal(1, 0.08, 2)
    linear = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]) * stretch
    points = SIZE / 2 + markup.schematic @ linear.T * SIZE * 0.3 + rng.normal(0, 2, 2)
    image = np.full((SIZE, SIZE, 3), rng.integers(40, 120, 3), np.uint8)
    for a, b in markup.edges:
        ends = [tuple(np.rint(points[j] * 16).astype(int).tolist()) for j in (a, b)]
        cv2.line(image, *ends, (230, 220, 200), 1, cv2.LINE_AA, 4)
    classes = np.full(68, Visibility.UNOCCLUDED, np.int8)
    if seed % 3 == 0:
        classes[:5] = Visibility.SELF_OCCLUDED
        image[:, : SIZE // 3] = 0
    return image, points, classes


@pytest.fixture(scope="session")
def faces_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of pictures with `.pts` files, as a user would have it."""
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
            "batch": 4,
            "optimizer": {"kind": "adamw", "rate": 2e-3},
            "schedule": {"kind": "cosine", "warmup": 0.5},
            "augmentation": {"recipe": "A", "flip": 0.5},
            "clip": 1.0,
            "ema": 0.9,
        }
        content = {
            "name": "small",
            "network": {"unets": 2, "channels": 8, "neck": 1, "growth": 4, "input_size": 64},
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
