"""`Faces`: n faces as arrays, which behave like a list of single faces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from luvli import FaceLandmarks, Faces, InputError
from luvli.faces import RegionRadii
from luvli.image import affine


def some_faces(rng: np.random.Generator, n: int = 3, **changes: object) -> Faces:
    root = rng.normal(size=(n, 68, 2, 2))
    values: dict[str, object] = {
        "points": rng.normal(100, 30, (n, 68, 2)),
        "covariance": root @ root.swapaxes(-1, -2) + 0.1 * np.eye(2),
        "visibility": rng.random((n, 68)),
        "boxes": np.tile([10.0, 20.0, 110.0, 140.0], (n, 1)) + np.arange(n)[:, None],
        "scores": rng.random(n),
        "confidence": np.linspace(0.1, 0.95, n),
        "expected_error": rng.random(n),
        "regions": RegionRadii(
            np.array([0.5, 0.9]), rng.random((n, 68, 2)) + 1, rng.random((n, 2)) + 3
        ),
    }
    return Faces(**(values | changes))  # type: ignore[arg-type]


def test_a_sequence_of_single_faces(rng: np.random.Generator) -> None:
    faces = some_faces(rng)
    assert len(faces) == 3 and bool(faces) and len(list(faces)) == 3
    for i, face in enumerate(faces):
        assert isinstance(face, FaceLandmarks)
        np.testing.assert_array_equal(face.points, faces.points[i])
        assert face.confidence == faces.confidence[i] and face.track is None
        assert face.region(0.9).half_axes.shape == (68, 2)
    assert faces[-1] == faces[2] and Faces.stack(list(faces)) == faces
    with pytest.raises(IndexError):
        faces[3]


@pytest.mark.parametrize(
    "which", [slice(1, 3), [2, 0], np.array([True, False, True]), [], np.zeros(3, bool)]
)
def test_slices_masks_and_numbers_choose_faces(rng: np.random.Generator, which: object) -> None:
    faces = some_faces(rng, track=[4, 5, 6], time=[0.1, 0.1, 0.1], accepted=[True, False, True])
    chosen = faces[which]  # type: ignore[index]
    empty = isinstance(which, list) and not which
    index = np.arange(3)[np.array([], dtype=int) if empty else which]  # type: ignore[index]
    assert isinstance(chosen, Faces) and chosen.track is not None and chosen.regions is not None
    np.testing.assert_array_equal(chosen.track, np.array([4, 5, 6])[index])
    np.testing.assert_array_equal(chosen.covariance, faces.covariance[index])
    assert chosen.regions.radii.shape == (len(index), 68, 2)


def test_parts_by_name_are_those_of_single_faces(rng: np.random.Generator) -> None:
    faces = some_faces(rng)
    eyes = faces["left_eye"]
    assert eyes.points.shape == (3, 6, 2) and eyes.names[0] == faces[0]["left_eye"].names[0]
    assert eyes[1] == faces[1]["left_eye"]
    assert faces[["left_eye", "chin"]].points.shape == (3, 7, 2)


def test_landmarks_outside_the_image(rng: np.random.Generator) -> None:
    faces = some_faces(rng, 2)
    assert faces.in_image is None and faces[0].in_image is None
    points = faces.points.copy()
    points[:, :3] = [[-0.5, 0.0], [-0.6, 5.0], [49.5, 5.0]]
    points[:, 3:] = 20.0
    sized = replace(faces, points=points, image_size=[[50, 40], [60, 40]])
    assert sized.in_image is not None
    assert sized.in_image[:, :4].tolist() == [[True, False, False, True], [True, False, True, True]]
    assert sized[1].in_image.tolist() == sized.in_image[1].tolist()
    assert sized.transform(affine.mirror(9)).in_image is None  # another image


def test_nothing_has_the_right_shapes() -> None:
    none = Faces.empty("wflw98")
    assert not none and none.points.shape == (0, 98, 2) and none.covariance.shape == (0, 98, 2, 2)
    assert list(none) == [] and none.to_dicts() == [] and none[none.confidence > 0.5] == none
    assert Faces.from_dicts([], "wflw98") == none


def test_concatenation_skips_empty_parts_and_refuses_mixtures(rng: np.random.Generator) -> None:
    one, two = some_faces(rng), some_faces(rng, 2)
    both = Faces.concatenate([one, Faces.empty("ibug68"), two])
    assert len(both) == 5 and both[3] == two[0] and both[:3] == one
    assert both.regions is not None and both.regions.radii.shape == (5, 68, 2)
    assert Faces.concatenate([Faces.empty("ibug68")]) == Faces.empty("ibug68")
    with pytest.raises(InputError, match="some of the faces have track"):
        Faces.concatenate([replace(one, track=[1, 2, 3]), two])
    with pytest.raises(InputError, match="likelihood 'laplace' and 'gauss'"):
        Faces.concatenate([one, replace(two, likelihood="gauss")])
    with pytest.raises(InputError, match="nothing to concatenate"):
        Faces.concatenate([])


def test_each_face_moves_by_its_own_affine(rng: np.random.Generator) -> None:
    faces = some_faces(rng)
    ways = rng.normal(size=(3, 2, 3)) + np.eye(2, 3) * 3
    moved = faces.transform(ways)
    for face, way, result in zip(faces, ways, moved, strict=True):
        alone = face.transform(way)
        np.testing.assert_allclose(result.points, alone.points)
        np.testing.assert_allclose(result.covariance, alone.covariance)
        np.testing.assert_allclose(result.box, alone.box)
    np.testing.assert_allclose(faces.transform(affine.mirror(9)).points[:, :, 0],
                               8 - faces.points[:, :, 0])  # fmt: skip
    with pytest.raises(InputError, match=r"shape \(3, 2, 3\)"):
        faces.transform(ways[:2])


def test_dictionaries_and_tables_hold_everything(rng: np.random.Generator) -> None:
    pandas = pytest.importorskip("pandas")
    faces = some_faces(rng, accepted=[True, False, True], track=[1, 2, 3], time=[0.5] * 3)
    assert Faces.from_dicts(faces.to_dicts()) == replace(faces, regions=None)
    table = faces.to_pandas()
    assert isinstance(table, pandas.DataFrame) and len(table) == 3 * 68
    assert table[table.face == 1].x.tolist() == faces.points[1, :, 0].tolist()
    assert len(Faces.empty("ibug68").to_pandas()) == 0


def test_text_and_html(rng: np.random.Generator) -> None:
    faces = some_faces(rng)
    assert repr(faces) == "Faces(3 faces, ibug68, confidence 0.10, 0.53, 0.95)"
    assert faces._repr_html_().count("<tr>") == 4


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"points": np.zeros((3, 67, 2))}, "has 68 points, got 67"),
        ({"points": np.zeros((68, 2))}, r"shape \(n, k, 2\)"),
        ({"visibility": np.full((3, 68), 1.5)}, "visibility must lie in 0..1, got 1.5"),
        ({"scores": np.ones(2)}, r"scores must have shape \(3,\)"),
        ({"boxes": np.full((3, 4), np.inf)}, "boxes must be finite"),
        ({"likelihood": "cauchy"}, "likelihood"),
    ],
)
def test_wrong_numbers_are_refused(
    rng: np.random.Generator, changes: dict[str, object], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        some_faces(rng, **changes).check()


def test_faces_are_not_one_array(rng: np.random.Generator) -> None:
    for faces in (some_faces(rng), some_faces(rng)[0]):
        with pytest.raises(InputError, match=r"not one array: use \.points"):
            np.array(faces)


def test_arrays_cannot_be_written_to(rng: np.random.Generator) -> None:
    points = rng.random((1, 68, 2))
    faces = some_faces(rng, 1, points=points)
    with pytest.raises(ValueError, match="read-only"):
        faces.points[0] = 0.0
    points[0] = 7.0  # the caller's own array stays writable, and is not copied
    assert (faces.points == 7.0).all()
