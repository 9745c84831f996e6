"""A made-up test set whose labels are drawn from its own predictions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.markup import get_markup


def _faces(count: int = 40, seed: int = 0, **changes) -> LabelledFaces:
    """Frontal faces; labels drawn from the predicted Laplacians; one landmark in ten hidden."""
    rng = np.random.default_rng(seed)
    size = rng.uniform(40, 120, (count, 1, 1))
    predicted = get_markup("ibug68").schematic * size + rng.uniform(100, 300, (count, 1, 2))
    spread = np.exp(rng.normal(-4.0, 0.5, (count, 68))) * size[..., 0]
    factor = np.zeros((count, 68, 2, 2))
    factor[..., 0, 0], factor[..., 1, 0], factor[..., 1, 1] = spread, 0.3 * spread, 0.7 * spread
    radius = rng.gamma(2, 1 / np.sqrt(3), (count, 68))
    angle = rng.uniform(0, 2 * np.pi, (count, 68))
    noise = radius[..., None] * np.stack([np.cos(angle), np.sin(angle)], -1)
    classes = rng.choice([0, 1, 2], p=[0.1, 0.8, 0.1], size=(count, 68)).astype(np.int8)
    classes[:, 36:48] = 1  # eyes, so that every normaliser exists
    truth = predicted + (factor @ noise[..., None])[..., 0]
    truth[classes == 0] = np.nan
    fields = {
        "points": predicted,
        "labels": truth,
        "label_visibility": classes,
        "covariance": factor @ factor.transpose(0, 1, 3, 2),
        "visibility": np.clip(rng.normal(np.where(classes > 0, 0.85, 0.2), 0.2), 0, 1),
        "paper_pixel": size[:, 0, 0] * 2.6 / 256,
        "names": tuple(f"face_{i:03d}" for i in range(count)),
        "subsets": {"odd": np.arange(count) % 2 == 1},
        "markup": "ibug68",
        "method": "made up",
    }
    return LabelledFaces.from_arrays(**(fields | changes))


@pytest.fixture(scope="session")
def make_faces() -> Callable[..., LabelledFaces]:
    """`make_faces(count, seed, **fields)`"""
    return _faces


@pytest.fixture(scope="session")
def faces() -> LabelledFaces:
    """Forty of them."""
    return _faces()


@pytest.fixture
def quick(monkeypatch):
    """Reports with empty images: drawing them is tested elsewhere."""
    monkeypatch.setattr("luvli.evaluation.report.png", lambda figure: b"")


@pytest.fixture
def few(make_faces):
    """Twelve faces, all visible; predictions are off by about two percent of the face."""
    faces = make_faces(12)
    truth = np.where(np.isnan(faces.labels), faces.points, faces.labels)
    return faces.points, truth
