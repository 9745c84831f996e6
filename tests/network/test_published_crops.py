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
from luvli.data import CropDataset, FaceRecord, load_set
from luvli.data.formats import write_json, write_pts
from luvli.evaluation import evaluate_model
from luvli.evaluation.evaluate_model import evaluate_set
from luvli.evaluation.match import read_faces
from luvli.faces import Faces
from luvli.image import Box, read_image
from luvli.markup import get_markup
from luvli.network.backend import faces_in_crops
from luvli.network.config import NetworkConfig
from luvli.network.model import build
from luvli.network.model_info import ModelInfo
from luvli.network.official import load_official, to_official
from luvli.prediction.predictor import Predictor

SMALL: dict[str, Any] = {"unets": 1, "order": 0, "channels": 4, "bn_size": 1, "growth": 2}
SMALL["input_size"] = 64
SPAN = 100.0
"""pixels: sides of the tight boxes"""


def imported(path: Path, markup: str, landmarks: int) -> ModelInfo:
    config = NetworkConfig(**SMALL, markup=markup, landmarks=landmarks, reference=True)
    torch.save({"state_dict": to_official(build(config))}, path)
    network, info = load_official(path)
    return ModelInfo.from_training("imported", network.config, info)


def dot(path: Path, place: tuple[float, float]) -> None:
    y, x = np.mgrid[:300, :400]
    bright = 255 * np.exp(-((x - place[0]) ** 2 + (y - place[1]) ** 2) / (2 * 7.0**2))
    Image.fromarray(np.repeat(bright[:, :, None], 3, 2).astype(np.uint8)).save(path)


def content(pixels: np.ndarray) -> Floats:
    weight = pixels[:, :, 0].astype(float)
    y, x = np.mgrid[: len(weight), : len(weight)]
    return np.array([(weight * x).sum(), (weight * y).sum()]) / weight.sum()


class Oracle:
    """A perfect published network: it knows where the dot of a crop is and how the shape lies
    around it, and answers where its training labels would have been."""

    def __init__(self, info: ModelInfo, shape: Floats, first: int) -> None:
        self.info, self.shape, self.first, self.threads = info, shape, first, 1

    def __call__(self, crops: np.ndarray, windows: object = None) -> Faces:
        size = self.info.config.input_size
        side = SPAN * self.info.enlarge
        scale = size / side
        centre = np.array([200.25, 150.25])  # of any training face: only its fractions count
        corner = np.floor(centre + self.first - side / 2)
        label = (centre + self.first - (centre + self.first)) * scale + size / 2
        shown = (centre + 0.5 - corner) * scale - 0.5
        points = np.stack([content(crop) + self.shape * scale + label - shown for crop in crops])
        outputs = {
            "landmarks": points,
            "covariance": np.tile(np.eye(2), (*points.shape[:2], 1, 1)),
            "visibility": np.ones(points.shape[:2]),
        }
        return faces_in_crops(outputs, self.info)


@pytest.mark.parametrize(("markup", "landmarks", "first"), [("ibug68", 68, 1), ("wflw98", 98, 0)])
def test_a_perfect_published_network_has_no_bias(
    tmp_path: Path, markup: str, landmarks: int, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a checkpoint through import, evaluation and score: no pixel is lost on the way."""
    info = imported(tmp_path / "official.pth.tar", markup, landmarks)
    assert info.config.crop == ("published" if first else "published-0")
    assert ModelInfo.from_metadata(info.to_metadata(), "again") == info
    drawing = get_markup(markup).schematic
    shape = (drawing - drawing.min(axis=0)) / np.ptp(drawing, axis=0) * SPAN - SPAN / 2 + 0.25
    data = tmp_path / "data"
    data.mkdir()
    places = [(150.0, 120.0), (163.0, 131.0), (209.0, 176.0)]
    for number, place in enumerate(places):
        dot(data / f"{number}.png", place)
        write_pts(data / f"{number}.pts", shape + place)
    predictor = Predictor(Oracle(info, shape, first))
    monkeypatch.setattr(evaluate_model, "load", lambda model: predictor)
    evaluated = evaluate_set("imported", "folder", data, crop_by="tight")
    bias = (evaluated.faces.points - evaluated.labels).mean(axis=(0, 1))
    np.testing.assert_allclose(bias, 0, atol=0.1)
    predictions = [
        FaceRecord.from_landmarks(face, Path(image))
        for face, image in zip(evaluated.faces, evaluated.images, strict=True)
    ]
    write_json(tmp_path / "predictions.json", predictions)
    scored = read_faces(tmp_path / "predictions.json", data)
    bias = (scored.faces.points - scored.labels).mean(axis=(0, 1))
    np.testing.assert_allclose(bias, 0, atol=0.1)


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
