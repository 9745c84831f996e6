"""Published networks see their labels where they were in training, whatever their files count from.

The oracle below is a perfect network: it answers with the place of the content of a crop, moved by
what a network of the published code learns to add. That is worked out here from the published
formulas alone: label x (as the file gives it) at (x - c) size / side + size / 2, content cut
between the corners c - side / 2 and c + side / 2, cut to whole pixels, and resized.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from luvli.arrays import Floats
from luvli.data import CropDataset, load_set
from luvli.data.formats import write_pts
from luvli.image import Box, affine, read_image
from luvli.network.config import NetworkConfig
from luvli.network.model import build
from luvli.network.model_info import ModelInfo
from luvli.network.official import load_official, to_official

SMALL: dict[str, Any] = {"unets": 1, "order": 0, "channels": 4, "bn_size": 1, "growth": 2}
SMALL["input_size"] = 64


def imported(path: Path, markup: str, landmarks: int) -> ModelInfo:
    config = NetworkConfig(**SMALL, markup=markup, landmarks=landmarks, reference=True)
    torch.save({"state_dict": to_official(build(config))}, path)
    network, info = load_official(path)
    return ModelInfo.from_training("imported", network.config, info)


def dot(path: Path, place: tuple[float, float]) -> None:
    y, x = np.mgrid[:300, :400]
    bright = 255 * np.exp(-((x - place[0]) ** 2 + (y - place[1]) ** 2) / (2 * 9.0**2))
    Image.fromarray(np.repeat(bright[:, :, None], 3, 2).astype(np.uint8)).save(path)


def content(pixels: np.ndarray) -> Floats:
    weight = pixels[:, :, 0].astype(float)
    y, x = np.mgrid[: len(weight), : len(weight)]
    return np.array([(weight * x).sum(), (weight * y).sum()]) / weight.sum()


@pytest.mark.parametrize(("markup", "landmarks", "first"), [("ibug68", 68, 1), ("wflw98", 98, 0)])
def test_a_perfect_published_network_has_no_bias(
    tmp_path: Path, markup: str, landmarks: int, first: int
) -> None:
    info = imported(tmp_path / "official.pth.tar", markup, landmarks)
    assert info.config.crop == ("published" if first else "published-0")
    assert ModelInfo.from_metadata(info.to_metadata(), "again") == info
    size = info.config.input_size
    for place in [(150.0, 120.0), (163.0, 131.0), (139.0, 126.0)]:
        dot(tmp_path / "a.png", place)
        side, centre = 120, np.array([150.25, 130.25])
        half = side / info.enlarge / 2
        box = Box(*(centre - half), *(centre + half))
        crop = info.crop_for(box)
        seen = content(crop.warp(read_image(tmp_path / "a.png")))
        scale = size / side
        in_file = np.array(place) + first
        label = (in_file - (centre + first)) * scale + size / 2
        corner = np.floor(centre + first - side / 2)
        shown = (np.array(place) + 0.5 - corner) * scale - 0.5
        answer = seen + (label - shown)
        found = affine.apply(affine.invert(crop.affine), answer)
        np.testing.assert_allclose(found, place, atol=0.1)  # 8-bit pixels, 0.5 px of the crop


def test_training_cuts_as_prediction_does(tmp_path: Path) -> None:
    """One convention, the model information's, in training, validation and prediction."""
    rng = np.random.default_rng(0)
    points = rng.uniform(60, 220, (68, 2))
    Image.fromarray(rng.integers(0, 256, (300, 300, 3), np.uint8)).save(tmp_path / "a.png")
    write_pts(tmp_path / "a.pts", points)
    records = load_set("folder", tmp_path).records
    for config in (NetworkConfig(**SMALL), NetworkConfig(**SMALL, reference=True)):
        info = ModelInfo(name="m", config=config)
        crops = CropDataset(
            records, 64, enlarge=1.1, box_noise="none", convention=config.crop, cache=tmp_path / "c"
        )
        crop = info.crop_for(Box(*records[0].tight_box))
        np.testing.assert_allclose(crops[0]["affine"], crop.affine)
        if config.reference:  # a cached patch is resampled twice
            pixels = crop.warp(read_image(tmp_path / "a.png"))
            np.testing.assert_array_equal(crops[0]["image"], pixels)
