"""Augmentation: points stay on their pixels, draws have the promised distributions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from data_trees import face_points
from PIL import Image
from pydantic import ValidationError

from luvli.data import Augmentation, CropDataset, FaceRecord, Visibility
from luvli.data.augment import Rectangle, stream
from luvli.data.augment.geometry import Geometry, draw_geometry, place_crop, turned_box_error
from luvli.data.augment.occluders import add_mask, add_rectangle
from luvli.data.augment.photometric import scale_channels, stretch_contrast
from luvli.errors import InputError
from luvli.image import Box
from luvli.image import affine as affines
from luvli.image.crop import warp_affine
from luvli.markup import get_markup

STILL = Augmentation.recipe("none")
FLIP = get_markup("ibug68").flip
LANDMARK = 36  # the right eye's outer corner: not on the axis, so that a mirror moves it


def changed(**fields: object) -> Augmentation:
    return Augmentation.model_validate({**STILL.model_dump(), **fields})


def dotted_face(folder: Path, landmark: int = LANDMARK, **fields: object) -> FaceRecord:
    """A face on a dark image with a bright blob centred exactly on one landmark."""
    points = face_points(size=200)
    y, x = np.mgrid[:200, :200]
    blob = np.exp(-((x - points[landmark, 0]) ** 2 + (y - points[landmark, 1]) ** 2) / 18)
    pixels = np.rint(230 * blob).astype(np.uint8)
    path = folder / "dot.png"
    Image.fromarray(np.repeat(pixels[:, :, None], 3, axis=2)).save(path)
    return FaceRecord(**{"points": points, "visibility": np.ones(68), "image": path, **fields})


def centroid(image: np.ndarray) -> np.ndarray:
    weight = image.astype(np.float64).sum(axis=2)
    weight[weight < 0.08 * weight.max()] = 0
    y, x = np.mgrid[: image.shape[0], : image.shape[1]]
    return np.array([(weight * x).sum(), (weight * y).sum()]) / weight.sum()


GEOMETRIC = {
    "nothing": STILL,
    "turned": changed(turned={"probability": 1.0, "rotation": (-150, 150)}, turned_boxes=True),
    "keep inside": changed(scale=(0.6, 0.7), keep_inside=True),
    "all together": changed(
        scale=(0.8, 1.2), rotation=(-50, 50), flip=0.5, box_jitter={"centre": 0.05, "size": 0.05}
    ),
    "colours": changed(colour=(0.6, 1.4), grey=0.5, stretch=True),
    "degradations": changed(blur=1.0, jpeg=1.0, low_resolution=1.0),
}


@pytest.mark.parametrize("name", GEOMETRIC)
@pytest.mark.parametrize("cached", [False, True])
def test_a_painted_dot_stays_under_its_landmark(tmp_path: Path, name: str, cached: bool) -> None:
    config, cache = GEOMETRIC[name], tmp_path / "cache" if cached else False
    record = dotted_face(tmp_path, face_id=name)
    dataset = CropDataset([record], 128, augmentation=config, cache=cache)
    mirrored = inside = 0
    for epoch in range(20):
        sample = dataset[epoch, 0]
        flipped = np.linalg.det(sample["affine"][:, :2]) < 0
        mirrored += flipped
        place = sample["points"][FLIP[LANDMARK] if flipped else LANDMARK]
        if place.min() < 15 or place.max() > 112:
            continue  # the border cuts the blob, so its centroid says nothing
        inside += 1
        error = centroid(sample["image"]) - place
        assert np.abs(error).max() < 0.35, (epoch, error)
    assert inside >= 8
    assert (mirrored > 0) == (config.flip > 0)


def test_flip_renames_points_and_visibility(tmp_path: Path) -> None:
    visibility = np.ones(68, np.int8)
    visibility[:5] = Visibility.SELF_OCCLUDED
    visibility[40] = Visibility.EXTERNALLY_OCCLUDED
    record = dotted_face(tmp_path, visibility=visibility)
    plain = CropDataset([record], 64, augmentation=STILL)[0]
    mirror = CropDataset([record], 64, augmentation=changed(flip=1.0))[0]
    np.testing.assert_array_equal(mirror["visibility"][FLIP], visibility)
    expected = plain["points"] * (-1, 1) + (63, 0)
    np.testing.assert_allclose(mirror["points"][FLIP], expected, atol=1e-4)
    np.testing.assert_array_equal(mirror["image"][:, ::-1], plain["image"])


# --- what is drawn ---------------------------------------------------------------------


def draws(config: Augmentation, count: int = 4000) -> list[Geometry]:
    return [draw_geometry(config, stream(0, 0, i)) for i in range(count)]


@pytest.mark.parametrize(("recipe", "scale", "angle"), [("A", 0.25, 30), ("B", 0.2, 50)])
def test_the_paper_draws_uniformly(recipe: str, scale: float, angle: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    drawn = draws(Augmentation.recipe(recipe))
    for values, low, width in (
        ([g.scale for g in drawn], 1 - scale, 2 * scale),
        ([g.rotation for g in drawn], -angle, 2 * angle),
    ):
        assert stats.kstest(values, "uniform", (low, width)).pvalue > 1e-3
    assert not any(g.mirrored for g in drawn)
    assert all(g.shift == (0, 0) and g.growth == 1 for g in drawn)


def test_the_published_code_draws_clipped_gaussians() -> None:
    angles = np.array([g.rotation for g in draws(Augmentation.recipe("B", reference=True))])
    assert np.abs(angles).max() == 50
    at_the_end = (np.abs(angles) == 50).mean()
    assert abs(at_the_end - 0.0455) < 0.012  # P(|z| > 2)
    assert abs(angles[np.abs(angles) < 50].std() / 25 - 0.8796) < 0.03  # truncated at 2 sd


def test_box_jitter_has_the_asked_spread() -> None:
    drawn = draws(changed(box_jitter={"centre": 0.04, "size": 0.1}))
    shifts = np.array([g.shift for g in drawn])
    np.testing.assert_allclose(shifts.std(axis=0), 0.04, rtol=0.05)
    assert abs(np.corrcoef(shifts.T)[0, 1]) < 0.06
    assert abs(np.log([g.growth for g in drawn]).std() - 0.1) < 0.006
    assert np.abs(shifts).max() <= 0.12 + 1e-12


def test_recipes() -> None:
    assert Augmentation.recipe("A").rectangle is None
    assert Augmentation.recipe("B") == Augmentation()
    reference = Augmentation.recipe("B", reference=True)
    assert reference.keep_inside and reference.stretch
    assert reference.rectangle == Rectangle(probability=1.0, where="image")
    with pytest.raises(InputError, match="one of A, B, none"):
        Augmentation.recipe("C")
    for bad in ({"scale": (1.2, 0.8)}, {"scale": (0, 1)}, {"flip": 1.5}, {"flipp": 0.5}):
        with pytest.raises(ValidationError):
            Augmentation(**bad)


@pytest.mark.parametrize(
    "config",
    [
        Augmentation.recipe("A"),
        Augmentation.recipe("B"),
        changed(rotation=(-20, 10), box_jitter={"centre": 0.05, "size": 0.1}),
        changed(rotation=(100, 170)),
    ],
)
def test_no_crop_reaches_beyond_the_cached_square(config: Augmentation) -> None:
    corners = np.array([(-0.5, -0.5), (63.5, -0.5), (63.5, 63.5), (-0.5, 63.5)])
    half = config.reach(1.25) / 2
    furthest = 0.0
    for geometry in draws(config, 1500):
        back = affines.invert(place_crop(Box(0, 0, 1, 1), 64, 1.25, geometry))
        furthest = max(furthest, np.abs(affines.apply(back, corners) - 0.5).max())
    assert furthest <= half + 1e-9
    assert furthest > 0.8 * half  # and it is not wastefully large


@pytest.mark.parametrize("degrees", [30, 90, 150])
def test_boxes_of_turned_faces_move_as_the_detectors_do(degrees: float) -> None:
    """The detector puts the box lower in the image than the landmarks of a face that lies."""
    (x, y), growth = turned_box_error(degrees, np.zeros(3))
    assert growth == 1
    turn = np.radians(degrees)
    in_image = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]) @ (x, y)
    np.testing.assert_allclose(in_image[0], -0.16 * np.sin(turn))
    assert in_image[1] > 0
    np.testing.assert_allclose(turned_box_error(-degrees, np.zeros(3))[0], (-x, y))
    assert turned_box_error(0, np.ones(3)) == ((0, 0), 1)


# --- colours ---------------------------------------------------------------------------


def test_colour_factors_and_stretch(rng: np.random.Generator) -> None:
    image = rng.integers(40, 200, (9, 7, 3), dtype=np.uint8)
    factors = np.array([0.6, 1.0, 1.4])
    expected = np.minimum(255, np.rint(image * factors))
    np.testing.assert_array_equal(scale_channels(image, factors), expected)
    stretched, low, high = stretch_contrast(image), float(image.min()), float(image.max())
    assert (stretched.min(), stretched.max()) == (0, 255)
    np.testing.assert_allclose(stretched, (image - low) * 255 / (high - low), atol=0.5)
    flat = np.full((3, 3, 3), 7, np.uint8)
    np.testing.assert_array_equal(stretch_contrast(flat), flat)


# --- occlusion -------------------------------------------------------------------------


def test_rectangle_of_the_published_code_belongs_to_the_whole_picture(
    rng: np.random.Generator,
) -> None:
    """The same as blackening the image first and cropping afterwards."""
    picture = rng.integers(120, 256, (150, 200, 3), dtype=np.uint8)
    affine = place_crop(Box(60, 30, 150, 120), 96, 1.1, Geometry(rotation=25, scale=1.1))
    crop = warp_affine(picture, affine, 96)
    points = rng.uniform(0, 95, (300, 2))
    config = Rectangle(probability=1.0, where="image")
    for seed in range(10):
        result, classes = add_rectangle(
            crop, points, np.ones(300, np.int8), config, affine, (200, 150), stream(seed, 0, 0)
        )
        same = stream(seed, 0, 0)
        extent = np.array([200, 150])
        centre = same.integers(1, extent + 1) - 1
        half = same.integers(1, extent // 2 + 1)
        low, high = np.maximum(centre - half, 0), centre + half
        blackened = picture.copy()
        blackened[low[1] : high[1] + 1, low[0] : high[0] + 1] = 0
        expected = warp_affine(blackened, affine, 96)
        assert (np.abs(result.astype(int) - expected).max(axis=2) > 60).mean() < 0.03  # edges only
        back = affines.apply(affines.invert(affine), points)
        margin = np.minimum(back - low, high - back).min(axis=1)
        clear = (np.abs(margin) > 2) & (back >= 2).all(axis=1) & (back <= extent - 3).all(axis=1)
        np.testing.assert_array_equal(classes[clear] == 2, margin[clear] > 0)


def test_rectangle_on_the_crop_covers_what_it_says() -> None:
    image, ones = np.zeros((64, 64, 3), np.uint8), np.ones(4096, np.int8)
    y, x = np.mgrid[:64, :64]
    grid = np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float64)
    outside = np.array([[-3.0, 4], [np.nan, np.nan]])  # of the image, and without a location
    for seed in range(200):
        places, before = np.concatenate([grid, outside]), np.append(ones, [1, 0]).astype(np.int8)
        result, classes = add_rectangle(
            image, places, before, Rectangle(), np.eye(2, 3), (64, 64), stream(seed, 0, 0)
        )
        painted = (result != 0).any(axis=2)
        np.testing.assert_array_equal(painted.ravel(), classes[:-2] == 2)
        assert classes[-2:].tolist() == [1, 0]
        assert 0 < painted.any(axis=0).sum() <= 0.5 * 64 + 2


def test_mask_covers_mouth_and_chin_and_leaves_the_eyes() -> None:
    points = face_points(size=128)
    visibility = np.full(68, Visibility.UNOCCLUDED, np.int8)
    image = np.full((128, 128, 3), 90, np.uint8)
    for seed in range(20):
        masked, classes = add_mask(image, points, visibility, np.random.default_rng(seed))
        assert (classes[[33, 48, 51, 54, 57, 62, 66]] == Visibility.EXTERNALLY_OCCLUDED).all()
        assert (classes[[*range(17, 27), *range(36, 48)]] == Visibility.UNOCCLUDED).all()
        assert (masked[5] == image[5]).all()
    visibility[:9], visibility[51] = Visibility.UNLABELLED, Visibility.SELF_OCCLUDED
    untouched, classes = add_mask(image, points, visibility, np.random.default_rng(0))
    assert (untouched == image).all() and (classes == visibility).all()
    record = FaceRecord(points=face_points("wflw98"), visibility=np.ones(98), markup="wflw98")
    with pytest.raises(InputError, match="68 points"):
        CropDataset([record], 64, augmentation=changed(mask=0.5))


def test_occluder_marks_landmarks(tmp_path: Path) -> None:
    record = dotted_face(tmp_path)
    dataset = CropDataset([record], 96, augmentation=changed(occluder=1.0))
    classes = np.stack([dataset[epoch, 0]["visibility"] for epoch in range(60)])
    assert 0.02 < (classes == 2).mean() < 0.4 and (classes == 2).mean(axis=1).max() < 0.8
    assert (classes > 0).all()  # v = 1 throughout
    assert (record.visibility == 1).all()  # the record itself is untouched
