"""Crops: exact maps both ways, no aliasing, and the published crop reproduced."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from luvli.errors import InputError
from luvli.image import Box, Crop
from luvli.image.box import best_match

boxes = st.tuples(
    st.floats(-500, 3000), st.floats(-500, 3000), st.floats(4, 2000), st.floats(4, 2000)
).map(lambda b: Box(b[0], b[1], b[0] + b[2], b[1] + b[3]))
crops = st.builds(
    Crop.from_box,
    boxes,
    size=st.sampled_from([64, 128, 256]),
    enlarge=st.floats(0.8, 2.5),
    rotation=st.floats(-180, 180),
    convention=st.sampled_from(["pixel-centre", "published", "published-0"]),
)


@given(crop=crops, seed=st.integers(0, 1000))
def test_points_there_and_back(crop: Crop, seed: int) -> None:
    points = np.random.default_rng(seed).uniform(-100, 4000, (20, 2))
    assert np.abs(crop.to_image(crop.to_crop(points)) - points).max() < 1e-4
    assert np.abs(crop.to_crop(crop.to_image(points)) - points).max() < 1e-4


def test_the_square_fills_the_crop_to_its_outer_edges() -> None:
    """The square's edges are the outer edges of the first and last pixel: -0.5 and S - 0.5."""
    crop = Crop.from_box(Box(10, 20, 50, 40), size=64, enlarge=1.0)
    np.testing.assert_allclose(crop.to_crop([[10, 10], [50, 50]]), [[-0.5, -0.5], [63.5, 63.5]])
    assert crop.scale == pytest.approx(64 / 40)


def test_rotation_turns_counter_clockwise_as_seen() -> None:
    crop = Crop.from_box(Box(0, 0, 10, 10), size=101, enlarge=1.0, rotation=90)
    right_of_centre = crop.to_crop([[8.0, 5.0]])[0]
    assert right_of_centre[0] == pytest.approx(50) and right_of_centre[1] < 50  # up


def disc(size: int, centre: tuple[float, float], radius: float) -> np.ndarray:
    """An antialiased white disc, at the centre to a sixteenth of a pixel."""
    fine = 8
    canvas = np.zeros((size * fine, size * fine), np.uint8)
    at = tuple(round((c + 0.5) * fine - 0.5) for c in centre)
    cv2.circle(canvas, at, round(radius * fine), 255, -1)
    small = cv2.resize(canvas, (size, size), interpolation=cv2.INTER_AREA)
    return np.dstack([small] * 3)


def centre_of_mass(image: np.ndarray) -> np.ndarray:
    """(2,) pixels"""
    weight = image[:, :, 0].astype(float)
    grid = np.indices(weight.shape)[::-1].reshape(2, -1)
    return grid @ weight.ravel() / weight.sum()


@settings(max_examples=40, deadline=None)
@given(
    x=st.floats(120, 280),
    y=st.floats(120, 280),
    side=st.floats(60, 1500),
    rotation=st.floats(-180, 180),
)
def test_pixels_move_with_the_points(x: float, y: float, side: float, rotation: float) -> None:
    """A painted disc's centre of mass in the crop is where `to_crop` says, magnified or shrunk."""
    radius = 14.0
    image = disc(400, (x, y), radius)
    crop = Crop.from_square((200.0, 200.0), side, 128, rotation)
    place = crop.to_crop(centre_of_mass(image))
    reach = radius * crop.scale + 2
    if not ((place > reach) & (place < 127 - reach)).all():
        return
    assert np.abs(centre_of_mass(crop.warp(image)) - place).max() < 0.12


def test_shrinking_does_not_alias() -> None:
    """A one-pixel checkerboard shrunk seven times must be flat grey, not a moire."""
    board = ((np.indices((700, 700)).sum(axis=0) % 2) * 255).astype(np.uint8)
    crop = Crop.from_square((349.5, 349.5), 690, 97, rotation=11.0)
    inner = crop.warp(np.dstack([board] * 3))[20:-20, 20:-20].astype(float)
    assert abs(inner.mean() - 127.5) < 2 and inner.std() < 6


def test_outside_the_image_is_black() -> None:
    image = np.full((50, 50, 3), 200, np.uint8)
    warped = Crop.from_box(Box(-40, -40, 20, 20), size=64, enlarge=1.0).warp(image)
    assert (warped[:30, :30] == 0).all() and (warped[-10:, -10:] == 200).all()
    far = Crop.from_box(Box(5000, 5000, 5100, 5100), size=32, enlarge=1.0).warp(image)
    assert (far == 0).all()
    shrunk = Crop.from_box(Box(-4000, -4000, 4000, 4000), size=32, enlarge=1.0).warp(image)
    assert shrunk.shape == (32, 32, 3)


def test_the_published_crop_is_reproduced(shared: Path) -> None:
    golden = np.load(shared / "golden/preprocess.npz")
    for case in ("small", "edge", "large", "rot", "rotlarge"):
        centre, scale, rotation = (golden[f"{case}_{what}"] for what in ("center", "scale", "rot"))
        crop = Crop.from_square(
            tuple(centre), 200 * float(scale), 256, float(rotation), "published-0"
        )
        points = crop.to_crop(golden[f"{case}_pts"])
        np.testing.assert_allclose(points, golden[f"{case}_pts256"], atol=2e-5, err_msg=case)
        difference = crop.warp(golden[f"{case}_image"]).astype(int) - golden[f"{case}_crop"]
        assert np.abs(difference).max() <= 1, case


def test_bad_arguments() -> None:
    with pytest.raises(InputError, match="pixel-centre"):
        Crop.from_box(Box(0, 0, 1, 1), 64, 1.0, convention="other")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="enlarge"):
        Crop.from_box(Box(0, 0, 1, 1), 64, 0.0)
    with pytest.raises(InputError, match="x0 < x1"):
        Box(3, 0, 3, 1)
    with pytest.raises(InputError, match="finite"):
        Box(0, 0, float("nan"), 1)


@given(
    st.tuples(*[st.integers(0, 12)] * 4, *[st.integers(1, 9)] * 4).map(
        lambda n: (
            Box(n[0], n[1], n[0] + n[4], n[1] + n[5]),
            Box(n[2], n[3], n[2] + n[6], n[3] + n[7]),
        )
    )
)
def test_intersection_over_union_is_counted_squares(pair: tuple[Box, Box]) -> None:
    drawn = np.zeros((2, 24, 24), dtype=bool)
    for canvas, box in zip(drawn, pair, strict=True):
        x0, y0, x1, y1 = map(int, box)
        canvas[y0:y1, x0:x1] = True
        assert box.size == pytest.approx(np.sqrt(canvas.sum()))
    both, either = (drawn[0] & drawn[1]).sum(), (drawn[0] | drawn[1]).sum()
    assert pair[0].iou(pair[1]) == both / either == pair[1].iou(pair[0])


def test_a_wider_window_has_the_same_pixels_in_its_middle() -> None:
    cut = Crop.from_box(Box(10, 20, 50, 44), 128, 1.3)
    wider = cut.wider(16)
    assert wider.size == 160
    np.testing.assert_allclose(wider.to_crop([[7.0, 9.0]]), cut.to_crop([[7.0, 9.0]]) + 16)


def test_the_detection_of_a_face_is_the_box_that_overlaps_it_most() -> None:
    face = Box(20, 20, 80, 80)
    own, other, wide = Box(15, 15, 85, 85), Box(200, 0, 300, 90), Box(0, 0, 300, 300)
    assert best_match(face, [other, wide, own]) is own
    assert best_match(face, [other, wide]) is None and best_match(face, []) is None
