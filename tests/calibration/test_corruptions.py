"""Corrupted scenes: labels follow the face, and what is corrupted is what was asked for."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from luvli.calibration import measure
from luvli.calibration.corruptions import (
    CORRUPTIONS,
    SIDE,
    FaceScene,
    corrupt,
    cut_scene,
)
from luvli.calibration.measure import face_errors, measure_faces
from luvli.data.record import FaceRecord
from luvli.image.box import Box
from luvli.image.write import write_image
from luvli.markup import get_markup
from luvli.prediction.predictor import Predictor

NON_FACES = ("animal", "no face")
SHAPE = get_markup("ibug68").schematic


def scene(seed: int = 0) -> FaceScene:
    """A smooth image with a face's labels in its middle."""
    rng = np.random.default_rng(seed)
    image = cv2.resize(rng.integers(40, 216, (9, 9, 3), dtype=np.uint8), (300, 300))
    points = 150 + 40 * SHAPE
    return cut_scene(image, Box.around(points), points)


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_every_kind_is_a_scene_of_its_own(kind: str) -> None:
    plain, others = scene(), [scene(1), scene(2)]
    made = corrupt(plain, kind, np.random.default_rng(3), others)
    assert made.corruption == kind and made.image.shape == (SIDE, SIDE, 3)
    assert made.image.dtype == np.uint8
    again = corrupt(plain, kind, np.random.default_rng(3), others)
    np.testing.assert_array_equal(made.image, again.image)
    assert tuple(made.box) == tuple(again.box)
    changed = (made.image != plain.image).any() or tuple(made.box) != tuple(plain.box)
    assert changed
    assert len(made.faces) == (0 if kind in NON_FACES else 2 if kind == "neighbour" else 1)
    if kind in ("wrong box", "drawing", "mask", "hand", "blur", "noise", "neighbour"):
        np.testing.assert_array_equal(made.faces[0], plain.faces[0])


@pytest.mark.parametrize(
    ("kind", "least", "most"), [("upside down", 140, 180), ("turned", 50, 130)]
)
def test_turned_labels_lie_on_the_turned_face(kind: str, least: float, most: float) -> None:
    """Marks painted at two landmarks are found again where the labels say."""
    plain = scene()
    image = np.zeros_like(plain.image)
    marks = plain.faces[0][[36, 8]]
    for (x, y), colour in zip(marks, ((255, 0, 0), (0, 255, 0)), strict=True):
        cv2.circle(image, (round(x), round(y)), 3, colour, -1)
    marked = FaceScene(image, plain.box, plain.faces)
    for seed in range(5):
        made = corrupt(marked, kind, np.random.default_rng(seed))
        for channel, label in enumerate(made.faces[0][[36, 8]]):
            weight = made.image[:, :, channel].astype(float)
            y, x = np.mgrid[:SIDE, :SIDE]
            found = np.array([(weight * x).sum(), (weight * y).sum()]) / weight.sum()
            assert np.linalg.norm(found - label) < 1.0
        before, after = (np.diff(p[[36, 8]], axis=0)[0] for p in (plain.faces[0], made.faces[0]))
        turn = np.degrees(np.arctan2(*after[::-1]) - np.arctan2(*before[::-1]))
        assert least - 1e-6 <= abs((turn + 180) % 360 - 180) <= most + 1e-6


def test_neighbours_stand_beside_the_face_and_the_box_between_them() -> None:
    plain = scene()
    for seed in range(6):
        made = corrupt(plain, "neighbour", np.random.default_rng(seed), [scene(1)])
        own, other = (points.mean(axis=0)[0] for points in made.faces)
        assert abs(own - other) > 0.6 * plain.box.width
        assert min(own, other) < made.box.centre[0] < max(own, other)
        assert made.box.score == 1.0


def test_faces_are_measured_as_they_are_and_corrupted(tmp_path, monkeypatch) -> None:
    """The disc world's detector finds nothing here: boxes of corrupted images count as given."""
    from tests.prediction.conftest import DiscBackend, DiscDetector, disc_image

    image = disc_image([(160, 120, 50)])
    write_image(tmp_path / "a.png", image)
    points = np.array([160.0, 120.0]) + 50 * DiscBackend().shape
    record = FaceRecord(points=points, visibility=np.ones(68, np.int8), face_id="a")
    box = np.array([*points.min(axis=0), *points.max(axis=0)])
    record = record.with_changes(
        image=tmp_path / "a.png", dataset="discs", box=box, box_kind="given"
    )
    predictor = Predictor(DiscBackend(), DiscDetector())
    measured = measure_faces(predictor, [record], corrupted_per_face=len(CORRUPTIONS))
    kinds, errors = measured.groups["corruption"], face_errors(measured)
    assert kinds[0] == "none" and sorted(kinds[1:]) == sorted(CORRUPTIONS)
    assert errors[0] < 1.0 and np.isinf(errors[np.isin(kinds, NON_FACES)]).all()
    assert errors[kinds == "upside down"][0] > 15  # a disc looks the same; its landmarks do not
    # half of the boxes between neighbours are given, half are those that a detector finds
    monkeypatch.setattr(measure, "CORRUPTIONS", ("neighbour",))
    several = [record.with_changes(face_id=str(number)) for number in range(40)]
    scores = measure_faces(predictor, several, corrupted_per_face=1).faces.scores
    assert 8 < (scores[1::2] == 1.0).sum() < 32
