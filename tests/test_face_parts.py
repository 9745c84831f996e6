"""Parts of a face, crops, alignment, tables: against closed forms."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

import luvli
from luvli.errors import InputError
from luvli.faces import FaceLandmarks, Faces, RegionRadii
from luvli.image.align import ARCFACE, align_affine, similarity
from luvli.keypoints import from_supervision, to_supervision
from luvli.markup import get_markup


@pytest.fixture
def face(rng: np.random.Generator) -> FaceLandmarks:
    """A schematic face in the middle of 200 x 200 pixels."""
    points = 100 + 50 * get_markup("ibug68").schematic
    return FaceLandmarks(
        points=points,
        covariance=np.tile(np.diag([4.0, 1.0]), (68, 1, 1)),
        visibility=np.linspace(0.1, 1, 68),
        box=[*points.min(axis=0), *points.max(axis=0)],
        score=0.9,
        regions=RegionRadii(np.array([0.9]), np.arange(68.0)[:, None], np.array([3.0])),
    )


def test_parts_by_number_name_slice_and_mask(face: FaceLandmarks) -> None:
    left_eye = list(range(42, 48))
    for part in (face["left_eye"], face["left eye"], face[42:48], face[left_eye]):
        assert np.array_equal(part.points, face.points[left_eye])
        assert np.array_equal(part.visibility, face.visibility[left_eye])
        assert part.regions is not None and part.regions.radii[:, 0].tolist() == left_eye
    assert len(face["eyes"]) == 12 and len(face["chin"]) == 1 and len(face[-1]) == 1
    assert len(face[face.visible()]) == int(face.visible().sum())
    assert face["mouth"].ellipses(coverage=0.9).half_axes.shape == (20, 2)
    with pytest.raises(InputError, match="did you mean 'left eye'"):
        face["left_eey"]
    with pytest.raises(IndexError):
        face[68]


def test_similarity_undoes_a_known_one(rng: np.random.Generator) -> None:
    points = rng.normal(size=(5, 2))
    turned = 3 * points @ np.array([[0.6, 0.8], [-0.8, 0.6]]) + [5, 7]
    affine = similarity(points, turned)
    np.testing.assert_allclose(points @ affine[:, :2].T + affine[:, 2], turned)


def test_aligned_points_lie_on_the_template(face: FaceLandmarks) -> None:
    # a face that is the template, turned by 30 degrees and twice as large, comes back to it
    angle = np.radians(30)
    turn = 2 * np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    five = np.asarray(ARCFACE) @ turn + [40, 90]
    affine = align_affine(five, 112, "arcface")
    np.testing.assert_allclose(five @ affine[:, :2].T + affine[:, 2], ARCFACE, atol=1e-9)
    eyes = face.transform(face.align_affine(100, "eyes")).five_points()[:2]
    np.testing.assert_allclose(eyes, [[34.5, 39.5], [64.5, 39.5]], atol=1e-6)
    for size in (1, (112, 112), 112.5):
        with pytest.raises(InputError, match="one number of pixels"):
            face.align_affine(size)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="arcface, ffhq, eyes"):
        face.align_affine(100, "arcfaces")  # type: ignore[arg-type]


def test_ffhq_square_is_the_one_of_its_paper(face: FaceLandmarks) -> None:
    """The corners by the formula of appendix C, written out for an upright face."""
    five = np.array([[80.0, 90], [120, 90], [100, 110], [85, 130], [115, 130]])
    half = max(40 * 2.0, 40 * 1.8)  # eye to eye 40, eye to mouth 40
    affine = align_affine(five, 256, "ffhq")
    corners = np.array([[100 - half, 94 - half], [100 + half, 94 + half]])
    np.testing.assert_allclose(
        corners @ affine[:, :2].T + affine[:, 2], [[-0.5, -0.5], [255.5, 255.5]], atol=1e-9
    )


def test_crops_show_the_face(face: FaceLandmarks) -> None:
    image = np.zeros((200, 200, 3), np.uint8)
    x, y = np.rint(face["nose tip"].points[0]).astype(int)
    image[y - 3 : y + 4, x - 3 : x + 4] = (255, 0, 0)
    crop = face.crop(image, size=64, margin=0.25)
    width, height = face.box[2:] - face.box[:2]
    middle = (face.box[:2] + face.box[2:]) / 2
    place = (np.array([x, y]) - middle) * 64 / (1.5 * max(width, height)) + 31.5
    red = np.argwhere(crop[:, :, 0] > 128)
    np.testing.assert_allclose(red.mean(axis=0)[::-1], place, atol=0.6)
    aligned = face.align(image[:, :, ::-1], size=112, color="bgr")
    assert aligned.shape == (112, 112, 3) and aligned[:, :, 0].max() > 200
    assert aligned[:, :, 2].max() == 0
    drawn = face.draw(image, coverage=0.9)
    assert drawn.shape == image.shape and (drawn != image).any()
    again = luvli.draw(image[:, :, ::-1], face, coverage=0.9, color="bgr")
    assert np.array_equal(again[:, :, ::-1], drawn)
    with pytest.raises(InputError, match="no face to cut out"):
        FaceLandmarks.empty("ibug68").crop(image)


def test_parts_keep_their_names_and_say_what_they_cannot(face: FaceLandmarks) -> None:
    markup = get_markup("ibug68")
    part = face[["left_eye", "chin"]]
    assert part.names == (*(markup.names[j] for j in range(42, 48)), "chin")
    assert np.array_equal(part.points, face.points[[*range(42, 48), 8]])
    assert np.array_equal(face["left_eye", "chin"].points, part.points)
    assert repr(face[8]).startswith("FaceLandmarks(1 point of ibug68")
    assert face["left_eye"][:2].names == tuple(markup.names[42:44])
    assert face[36:42].names == tuple(markup.names[36:42])
    some = face[[8, 30, 31, 32]]
    assert some.markup == "ibug68: 8, 30-32" and some[1:].markup == "ibug68: 30-32"
    assert FaceLandmarks.from_dict(some.to_dict()).names == some.names
    assert face[np.zeros(68, bool)].names == () and len(face[[]]) == 0
    for ask in (lambda: part["chin"], lambda: part.align(np.zeros((9, 9, 3), np.uint8))):
        with pytest.raises(InputError, match=r"part of a face.*ask the whole face"):
            ask()


def test_relative_places_and_tables(face: FaceLandmarks) -> None:
    share = face.relative(200, 100)
    np.testing.assert_allclose(share * (200, 100) - 0.5, face.points)
    pandas = pytest.importorskip("pandas")
    table = face.to_pandas()
    assert isinstance(table, pandas.DataFrame) and len(table) == 68
    assert table.loc[8, "name"] == "chin" and table.loc[8, "var_x"] == 4.0
    assert face["left_eye"].to_pandas()["landmark"].tolist() == list(range(42, 48))


def test_supervision_there_and_back(face: FaceLandmarks) -> None:
    """Everything about a face comes back, and what nobody told stays untold."""
    pytest.importorskip("supervision")
    followed = dataclasses.replace(
        face, occlusion=np.linspace(0, 1, 68), occlusion_trained=True, confidence=0.8,
        expected_error=2.5, accepted=True, track=3, time=0.5, likelihood="gauss",
    )  # fmt: skip
    faces = Faces.stack([followed, dataclasses.replace(followed, track=4, points=face.points + 9)])
    keypoints = to_supervision(faces)
    assert keypoints.xy.shape == (2, 68, 2)
    assert from_supervision(keypoints) == faces
    assert from_supervision(keypoints[1])[0] == faces[1]
    assert from_supervision(to_supervision(face))[0] == face
    assert len(from_supervision(to_supervision([]))) == 0
    (part,) = from_supervision(to_supervision(face["left_eye"]))
    assert part.names == face["left_eye"].names


def test_supervision_draws_what_can_be_seen(face: FaceLandmarks) -> None:
    supervision = pytest.importorskip("supervision")
    image = np.zeros((200, 200, 3), np.uint8)
    drawn = supervision.VertexAnnotator(radius=1).annotate(image.copy(), to_supervision(face))
    seen = np.array([drawn[int(y), int(x)].any() for x, y in face.points])
    assert seen[face.visible()].all()
    hidden = face.points[~face.visible()]
    near = np.linalg.norm(hidden[:, None] - face.points[face.visible()], axis=-1).min(axis=1)
    assert not any(drawn[int(y), int(x)].any() for x, y in hidden[near > 4])
    unknown = dataclasses.replace(face, visibility_trained=False)
    assert to_supervision(unknown).visible.all()
    foreign = supervision.KeyPoints(xy=np.arange(20.0).reshape(2, 5, 2))  # of another program
    faces = from_supervision(foreign)
    assert faces.markup == "points5" and from_supervision(foreign, "mine5").markup == "mine5"
    assert not (faces.covariance_trained or faces.visibility_trained)


def test_what_the_package_shows(face: FaceLandmarks) -> None:
    assert {"load", "predict", "draw", "FaceLandmarks", "Predictor"} <= set(dir(luvli))
    assert len(repr(face)) < 140 and "68 points of ibug68" in repr(face)
    assert "no face" in repr(FaceLandmarks.empty("ibug68"))


@pytest.mark.slow
def test_the_module_runs_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "luvli", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("luvli ")
