"""Predicted faces whose errors are known, for the tests of trust."""

from __future__ import annotations

import numpy as np

from luvli.data.record import FaceRecord
from luvli.faces import FaceLandmarks
from luvli.likelihood import Laplace
from luvli.markup import get_markup
from luvli.trust.measure import Measured, compare_with_labels

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


def measured_faces(n: int, seed: int = 0, spoilt: int = 1) -> Measured:
    """n faces, mostly good, each with so many spoilt versions, mostly bad."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        points = labelled_points(rng)
        for version in range(1 + spoilt):
            sigma = float(np.exp(rng.normal(0.7 if version == 0 else 2.6, 0.6)))
            face = predicted_face(points, sigma, rng, rng.uniform(0.7, 0.99))
            truth, error = compare_with_labels(face, [points])
            kind = "plain" if version == 0 else "blur"
            rows.append((face, truth, error, kind, "drawn", f"photo{i}", "frontal"))
    faces, truth, error, *names = zip(*rows, strict=True)
    return Measured(tuple(faces), np.stack(truth), np.array(error), *map(np.array, names))


def record(points: np.ndarray, name: str) -> FaceRecord:
    return FaceRecord(points=points, visibility=np.ones(68, np.int8), face_id=name, dataset="drawn")
