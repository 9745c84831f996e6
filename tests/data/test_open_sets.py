"""London portraits and unlabelled portraits: what is read, and what stays unknown."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from luvli.data.record import Visibility
from luvli.data.sets import load_set
from luvli.data.sets.london import landmarks_of_template
from luvli.errors import InputError

UNKNOWN = [30, 32, 34, 60, 64]


@pytest.fixture
def london(tmp_path: Path) -> Path:
    """Two people, each neutral and smiling, and a template whose point i lies at (i, 2 i)."""
    templates = {}
    for person in ("001", "002"):
        for mood in ("neutral", "smiling"):
            name = f"{mood}_{person}_03.jpg"
            cv2.imwrite(str(tmp_path / name), np.zeros((400, 400, 3), np.uint8))
            if mood == "neutral":
                templates[name] = [[float(i), 2.0 * i] for i in range(189)]
    (tmp_path / "points189.json").write_text(json.dumps(templates))
    return tmp_path


def test_neutral_faces_have_the_points_of_the_template(london: Path) -> None:
    faces = load_set("london", london, subset="neutral")
    assert [face.face_id for face in faces] == ["london-001_1", "london-002_1"]
    face = faces[0]
    assert np.flatnonzero(~face.labelled).tolist() == UNKNOWN
    points = face.points + 0.5  # the template counts from the corner of the image
    assert points[36].tolist() == [18, 36]
    assert points[45].tolist() == [27, 54]
    assert points[21].tolist() == [75, 150]  # the end of the brow's upper edge
    assert np.allclose(points[37], (18 + 4 / 3, 36 + 8 / 3))  # a third of the way along a lid
    assert points[8].tolist() == [129, 258]
    middle = (53 - 0.08 * 3 + 59 - 0.08 * 3) / 2  # between the lines on both sides of the nose
    assert np.allclose(points[29], (middle, 2 * middle))


def test_the_jaw_is_shared_out_evenly_from_the_ears_to_the_chin() -> None:
    template = np.zeros((189, 2))
    angle = np.linspace(np.pi, np.pi / 2, 10)  # a quarter of a circle on each side
    template[[109, 185, 110, 186, 111, 125, 126, 127, 128, 129]] = np.c_[
        np.cos(angle), np.sin(angle)
    ]
    template[[112, 187, 113, 188, 114, 133, 132, 131, 130]] = np.c_[
        -np.cos(angle[:9]), np.sin(angle[:9])
    ]
    template[[18, 27]] = (-0.5, -0.052), (0.5, -0.052)  # corners of the eyes
    jaw = landmarks_of_template(template)[:17] + 0.5
    assert np.allclose(jaw[[0, 8, 16]], [(-1, 0), (0, 1), (1, 0)], atol=1e-9)
    turn = np.degrees(np.arctan2(jaw[:, 1], jaw[:, 0]))
    assert np.allclose(turn, np.linspace(180, 0, 17), atol=0.5)


def test_the_jaw_begins_a_little_below_the_eyes() -> None:
    """Straight up or down the temple from where the template begins it."""
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])  # a tilted head
    template = np.zeros((189, 2))
    template[[18, 27, 109, 112]] = np.array([(-1.0, 0), (1, 0), (-2, 0.5), (2, -0.3)]) @ turn.T
    points = landmarks_of_template(template) + 0.5
    assert np.allclose(points[[0, 16]] @ turn, [(-2, 0.104), (2, 0.104)])


def test_lips_stand_in_the_columns_of_the_upper_ones_peaks() -> None:
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])  # a tilted head
    template = np.zeros((189, 2))
    template[[18, 27]] = np.array([(-5.0, 0), (5, 0)]) @ turn.T
    template[[89, 90, 91]] = np.array([(-1, 7.0), (0.2, 7.2), (1, 7)]) @ turn.T
    across = np.array([-3.0, -2, -1.5, 0, 1.5, 2, 3])
    edges = {61: (87, 94, 95, 96, 97, 98, 93), 67: (87, 99, 100, 101, 102, 103, 93)}
    for first, line in edges.items():  # straight edges, each falling in its own way
        template[list(line)] = np.c_[across, 8 + 0.01 * first * across] @ turn.T
    points = (landmarks_of_template(template) + 0.5) @ turn
    for left, middle, right in ((61, 62, 63), (67, 66, 65)):
        line = points[[left, middle, right]]
        assert np.allclose(line[:, 0], (-1, 0.2, 1))
    assert np.allclose(points[67, 1], 8 - 0.67)


def test_smiling_faces_and_portraits_are_unlabelled(london: Path) -> None:
    smiling = load_set("london", london, subset="smiling")
    portraits = load_set("portraits", london)
    assert (len(smiling), len(portraits)) == (2, 4)
    for face in (*smiling, *portraits):
        assert (face.visibility == Visibility.UNLABELLED).all()
        assert np.isnan(face.points).all()
        assert face.image is not None and face.image.exists()


def test_canada_has_the_template_of_london(london: Path) -> None:
    faces = load_set("canada", london)
    assert [face.face_id for face in faces] == ["canada-neutral_001_03", "canada-neutral_002_03"]
    expected = load_set("london", london, subset="neutral")[0]
    np.testing.assert_array_equal(faces[0].points, expected.points)


def test_closed_eyes_are_unlabelled_faces_whose_eyes_are_known(london: Path) -> None:
    faces = load_set("closed_eyes", london)
    assert len(faces) == 4
    assert all(face.attributes["eyes"] == "closed" and not face.labelled.any() for face in faces)


def test_what_is_missing_gets_a_sentence(london: Path, tmp_path: Path) -> None:
    (london / "neutral_002_03.jpg").unlink()
    with pytest.raises(InputError, match=r"neutral_002_03\.jpg"):
        load_set("london", london, subset="neutral")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="points189"):
        load_set("london", empty)
