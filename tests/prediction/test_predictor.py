"""The three lines a user writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import luvli
from luvli.errors import InputError
from luvli.faces import Faces
from luvli.image import affine
from luvli.image.box import Box
from luvli.image.write import write_image
from luvli.prediction.predictor import Predictor
from luvli.prediction.rotations import turn_affine

from .conftest import SHAPE, disc_image


def test_points_come_back_in_image_pixels(discs: Predictor) -> None:
    image = disc_image([(100, 80, 30), (230, 150, 42)])
    faces = discs.predict(image)
    assert len(faces) == 2
    for face, (x, y, radius) in zip(faces, [(100, 80, 30), (230, 150, 42)], strict=True):
        np.testing.assert_allclose(face.points, [x, y] + radius * SHAPE, atol=0.8)
        deviation = np.sqrt(face.covariance[0, 0, 0])
        assert deviation == pytest.approx(0.3 * 2 * radius * 1.5 / 64, rel=0.1)
        assert face.score == 0.9 and face.visibility_trained
        np.testing.assert_allclose(
            face.box, [x - radius, y - radius, x + radius, y + radius], atol=1
        )


def test_no_face_gives_an_empty_list(discs: Predictor) -> None:
    assert len(discs.predict(disc_image([]))) == 0
    assert discs.predict_batch([]) == []
    assert not discs.predict_crops([])
    assert discs.predict(disc_image([(100, 80, 30)]), boxes=[]) == Faces.empty("ibug68")


def test_known_boxes_replace_the_detector(discs: Predictor) -> None:
    image = disc_image([(100, 80, 30), (230, 150, 42)])
    given = [Box(188, 108, 272, 192, 0.4), (70, 50, 130, 110)]
    faces = discs.predict(image, boxes=given)
    assert [round(f.points[:, 0].mean() / 10) for f in faces] == [23, 10]
    assert [f.score for f in faces] == [0.4, 1.0]
    assert discs.detector.calls == 0
    with pytest.raises(InputError, match="four numbers"):
        discs.predict(image, boxes=[[1, 2, 3]])
    with pytest.raises(InputError, match="no area"):
        discs.predict(image, boxes=[[10, 2, 3, 8]])


def test_no_more_than_the_best_faces_are_cropped_and_predicted(discs: Predictor) -> None:
    crowd = disc_image([(40.0 + 60 * i, 40.0 + 60 * j, 20.0) for j in range(3) for i in range(5)])
    ((faces, left_out),) = discs.predict_best([crowd], max_faces=4)
    assert (len(faces), left_out, discs.backend.calls) == (4, 11, [4])
    ((every, nobody),) = discs.predict_best([crowd])
    assert (len(every), nobody) == (15, 0) and every[:4] == faces


def test_batches_are_the_same_faster(discs: Predictor) -> None:
    images = [disc_image([(60 + 9 * i, 80, 30)] * (i % 3 > 0)) for i in range(9)]
    together = discs.predict_batch(images)
    assert discs.backend.calls == [6]  # all faces at once
    assert together == [discs.predict(image) for image in images]
    with pytest.raises(InputError, match="lists of boxes"):
        discs.predict_batch(images, boxes=[[]])


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_images_on_their_side_are_turned_where_no_face_is_trusted(
    astronaut: NDArray[np.uint8], turn: int
) -> None:
    model = luvli.load("luvli-68-open", threads=1)  # which learnt no face on its side
    upright = model.predict(astronaut)[0]
    turned = np.ascontiguousarray(np.rot90(astronaut, turn))
    height, width = astronaut.shape[:2]
    (face,) = model.predict(turned)
    wanted = affine.apply(turn_affine(turn, width, height), upright.points)
    assert np.abs(face.points - wanted).max() < 0.1 * upright.box[3] - 0.1 * upright.box[1]
    assert face.confidence is not None and face.confidence > 0.5
    without = model.predict(turned, try_rotations=False)
    assert not without or without.confidence.max() < 0.5
    assert model.predict(turned, try_rotations=True)[0] == face


@pytest.mark.parametrize("size", [64, 128, 301])
def test_crops_of_any_size(discs: Predictor, size: int) -> None:
    middle, radius = (size - 1) / 2, size / 3
    crop = disc_image([(middle, middle, radius)], (size, size))
    (face,) = discs.predict_crops([crop])
    np.testing.assert_allclose(face.points, middle + radius * SHAPE, atol=size / 60)
    np.testing.assert_allclose(face.box, [middle - radius] * 2 + [middle + radius] * 2, atol=1)
    with pytest.raises(InputError, match="must be square"):
        discs.predict_crops([crop[:-1]])


def test_path_bytes_and_array_agree(tiny: dict[str, Path], tmp_path: Path) -> None:
    image = np.random.default_rng(0).integers(0, 256, (90, 120, 3), dtype=np.uint8)
    write_image(tmp_path / "a.png", image)
    model = luvli.load(tiny["onnx"])
    sources = (
        image,
        tmp_path / "a.png",
        str(tmp_path / "a.png"),
        (tmp_path / "a.png").read_bytes(),
    )
    faces = [model.predict(source, [[20, 20, 80, 80]])[0] for source in sources]
    assert all(face == faces[0] for face in faces)
    once = luvli.predict(image, model=str(tiny["onnx"]), boxes=[[20, 20, 80, 80]])
    assert list(once) == [faces[0]]


def test_shipped_model_on_a_photograph(shipped: Predictor, astronaut: NDArray[np.uint8]) -> None:
    (face,) = shipped.predict(astronaut)
    assert face.markup == "ibug68" and face.score > 0.8
    # Read off the enlarged photograph: the middle between the eyes, and that of the mouth.
    np.testing.assert_allclose(face.points[36:48].mean(axis=0), (224.5, 101.5), atol=3)
    np.testing.assert_allclose(face.points[48:68].mean(axis=0), (223, 145), atol=3)
    assert (face.points[36:42, 0].mean() < face.points[42:48, 0].mean()) and face.visible().all()


def test_shipped_model_sees_no_face_in_a_cat(shipped: Predictor) -> None:
    data = pytest.importorskip("skimage.data")
    assert not shipped.predict(data.chelsea())
