"""Predicted faces whose errors are known, for the tests of calibration."""

from __future__ import annotations

import numpy as np

from luvli.data.record import FaceRecord
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.faces import FaceLandmarks, Faces
from luvli.likelihood import Laplace
from luvli.markup import get_markup

SHAPE = get_markup("ibug68").schematic


def labelled_points(rng: np.random.Generator, size: float = 100.0) -> np.ndarray:
    """A drawn face of about this size, somewhat deformed, tilted and moved."""
    turn = rng.normal(0, 0.1)
    matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    stretch = np.exp(rng.normal(0, 0.05, 2))
    return (SHAPE * stretch) @ matrix.T * size / 2 + rng.uniform(200, 300, 2)


def predicted_face(
    points: np.ndarray, sigma: float, rng: np.random.Generator, score: float = 0.9
) -> FaceLandmarks:
    """A prediction that is off by a Laplacian of `sigma` pixels, and says so."""
    covariance = np.tile(sigma**2 * np.eye(2), (68, 1, 1)) * np.exp(rng.normal(0, 0.3, (68, 1, 1)))
    moved = Laplace.from_covariance(points, covariance).sample(1, rng)[0]
    low, high = points.min(axis=0), points.max(axis=0)
    return FaceLandmarks(
        points=moved,
        covariance=covariance,
        visibility=np.full(68, 0.99),
        box=np.concatenate([low, high]) + rng.normal(0, 2, 4),
        score=score,
    )


def measured_faces(n: int, seed: int = 0, corrupted: int = 1) -> LabelledFaces:
    """n faces, mostly good, each with so many corrupted versions, mostly bad."""
    rng = np.random.default_rng(seed)
    faces, labels, kinds, names = [], [], [], []
    for i in range(n):
        points = labelled_points(rng)
        for version in range(1 + corrupted):
            sigma = float(np.exp(rng.normal(0.7 if version == 0 else 2.6, 0.6)))
            faces.append(predicted_face(points, sigma, rng, rng.uniform(0.7, 0.99)))
            labels.append(points)
            kinds.append("none" if version == 0 else ("blur", "noise")[i % 2])
            names.append(f"photo{i}")
    words = {"corruption": kinds, "photograph": names, "source": ["drawn"] * len(kinds)}
    return LabelledFaces(
        Faces.stack(faces),
        np.stack(labels),
        np.ones((len(faces), 68), np.int8),
        groups={name: np.array(column) for name, column in words.items()},
    )


def record(points: np.ndarray, name: str) -> FaceRecord:
    return FaceRecord(points=points, visibility=np.ones(68, np.int8), face_id=name, dataset="drawn")
