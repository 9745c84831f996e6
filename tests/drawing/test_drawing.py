"""Drawings: colours at the right places, transparency by visibility, any size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from luvli.drawing.faces import BLUE, GREEN, YELLOW, draw
from luvli.errors import InputError
from luvli.faces import FaceLandmarks
from luvli.likelihood import Laplace


def one(visibility: float = 1.0, spread: float = 400.0, trained: bool = True) -> FaceLandmarks:
    return FaceLandmarks(
        points=[[100.0, 80.0], [100.0, 220.0], [180.0, 150.0]],
        covariance=[np.diag([spread, spread / 4])] + [np.eye(2) * 4] * 2,
        visibility=[visibility, 1.0, 1.0],
        box=[100, 80, 180, 220],
        markup="mine3",
        visibility_trained=trained,
    )


def blank(size: int = 300) -> np.ndarray:
    return np.full((size, size, 3), 255, np.uint8)


def blueness(image: np.ndarray) -> np.ndarray:
    return (image[:, :, 2].astype(int) - image[:, :, 0]) / (BLUE[2] - BLUE[0])


def test_points_are_yellow_and_the_picture_is_not_touched() -> None:
    image = blank()
    drawn = draw(image, [one()])
    assert tuple(drawn[80, 100]) == YELLOW
    assert (image == 255).all()


def test_ellipse_goes_through_its_half_axes() -> None:
    drawn = draw(blank(), [one()], mahalanobis=1)
    blue = blueness(drawn)
    for x, y in ((120, 80), (80, 80), (100, 90), (100, 70)):  # half-axes 20 and 10
        assert blue[y, x] > 0.5
    assert blue[80, 110] < 0.1 and blue[80, 126] < 0.1


def test_a_covered_landmark_is_hollow() -> None:
    covered = replace(one(), occlusion=[0.9, 0.2, np.nan], occlusion_trained=True)
    plain, drawn = draw(blank(), [one()]), draw(blank(), [covered])
    assert tuple(drawn[80, 100]) != YELLOW and tuple(plain[80, 100]) == YELLOW
    ring = drawn[76:85, 96:105].reshape(-1, 3).astype(int)
    assert (np.abs(ring - YELLOW).max(axis=1) < 60).any()  # and its rim is yellow
    far = np.ones((300, 300), bool)
    far[70:91, 90:111] = False
    assert np.array_equal(drawn[far], plain[far])


def test_coverage_uses_the_likelihood() -> None:
    radius = float(Laplace.radius_quantile(0.95)) * 20
    blue = blueness(draw(blank(), [one()], coverage=0.95))
    x = round(100 - radius)
    assert blue[80, x - 1 : x + 2].max() > 0.5
    usual = draw(blank(), [one()])
    assert np.array_equal(usual, draw(blank(), [one()], coverage=0.9))
    with pytest.raises(InputError, match="coverage must lie between 0 and 1"):
        draw(blank(), [one()], coverage=95)


def test_transparency_is_visibility() -> None:
    shades = [255 - int(draw(blank(), [one(v)])[80, 100, 2]) for v in (1.0, 0.75, 0.5, 0.25, 0.01)]
    assert shades[0] == 255 - YELLOW[2]
    np.testing.assert_allclose(shades, np.array([1, 0.75, 0.5, 0.25, 0]) * shades[0], atol=70)
    assert shades == sorted(shades, reverse=True) and shades[-1] == 0
    drawn = draw(blank(), [one(0.01, trained=False)])  # a model that cannot tell
    assert tuple(drawn[80, 100]) == YELLOW


def test_truth_is_green_and_may_be_missing() -> None:
    truth = np.array([[250.0, 250.0], [np.nan, np.nan], [40.0, 40.0]])
    drawn = draw(blank(), [one()], truth=truth)
    assert tuple(drawn[250, 250]) == GREEN and tuple(drawn[40, 40]) == GREEN
    with pytest.raises(InputError, match="truth must have shape"):
        draw(blank(), [one()], truth=truth[:2])


def test_lines_grow_with_the_face() -> None:
    """The drawing of a face ten times as large covers the same share of the face."""
    shares = []
    for zoom in (1, 10):
        face = one().transform([[zoom, 0, 0], [0, zoom, 0]])
        drawn = draw(blank(300 * zoom), [face])
        shares.append((255.0 - drawn).mean())  # ink
    assert shares[1] == pytest.approx(shares[0], rel=0.25)


def test_far_outside_and_empty_faces_draw_nothing() -> None:
    outside = one().transform([[1, 0, 5000], [0, 1, 5000]])
    assert (draw(blank(), [outside]) == 255).all()
    assert (draw(blank(), [FaceLandmarks.empty("ibug68")]) == 255).all()


def test_small_pictures_are_enlarged_in_place() -> None:
    image = blank(60)
    face = one().transform([[0.2, 0, 0], [0, 0.2, 0]])
    drawn = draw(image, [face], enlarge="readable")
    zoom = len(drawn) // 60
    assert 2 <= zoom <= 6 and drawn.shape == (60 * zoom, 60 * zoom, 3)
    x, y = np.rint((face.points[0] + 0.5) * zoom - 0.5).astype(int)
    np.testing.assert_allclose(drawn[y, x], YELLOW, atol=8)  # a small dot has soft edges
    assert draw(blank(2000), [face], enlarge="readable").shape == (2000, 2000, 3)
    assert draw(image, [], enlarge="readable").shape == image.shape


def test_confidence_and_boxes_are_drawn_where_they_belong() -> None:
    face = FaceLandmarks(
        points=[[60.0, 60.0]], covariance=[4 * np.eye(2)], visibility=[1.0],
        box=[40, 40, 80, 80], markup="mine1", confidence=0.5,
    )  # fmt: skip
    image = np.zeros((121, 121, 3), np.uint8)
    plain = draw(image, face)
    changed = (draw(image, face, boxes=True) != plain).any(axis=2)
    rows, _ = np.nonzero(changed)
    assert {rows.min(), rows.max()} <= {39, 40, 41, 79, 80, 81}
    assert changed[40, 60] and changed[60, 40] and not changed[55, 55]
    written = (draw(image, face, confidence=True) != plain).any(axis=2)
    assert written[:40].any() and not written[41:].any()
