"""Faces drawn with lines: cheap, and their landmarks can be learnt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np

from luvli.data.record import FaceRecord, Visibility
from luvli.markup import get_markup

SIZE = 80


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


def face_record(name: str, **fields: Any) -> FaceRecord:
    """A visible frontal face without an image file."""
    values: dict[str, Any] = {
        "points": 50 + 30 * get_markup("ibug68").schematic,
        "visibility": np.ones(68, np.int8),
        "image": Path(f"{name}.jpg"),
        "face_id": name,
    }
    return FaceRecord(**{**values, **fields})
