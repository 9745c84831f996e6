"""What counts pixels from 1, and names that copies of a data set spell differently.

HRNet's published lists of 300-W differ from SPIGA's labels of the same 1,289 faces by exactly one
pixel in x and y: they are the numbers of the `.pts` files. mmpose copied them.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scored_files import error, expected

from luvli.data.formats import read_labels, write_labels
from luvli.data.record import FaceRecord
from luvli.evaluation.match import read_faces


@pytest.fixture
def sides(make_faces):
    """Predictions and labels of twenty faces, all visible."""
    faces = make_faces(20)
    return faces.points, np.where(np.isnan(faces.labels), faces.points, faces.labels)


def listed(path: Path, points, names=None) -> Path:
    names = names or [f"{i}.jpg" for i in range(len(points))]
    faces = [{"image": n, "points": p.tolist()} for n, p in zip(names, points, strict=True)]
    path.write_text(json.dumps(faces))
    return path


def coco(path: Path, points, **about) -> Path:
    """Annotations as mmpose writes them for faces; `about`: its copies of HRNet's columns."""
    images = [{"id": i, "file_name": f"{i}.jpg"} for i in range(len(points))]
    count = points.shape[1]
    annotations = [
        {"id": i, "image_id": i, "category_id": 1, "bbox": [1.0, 1.0, 9.0, 9.0], **about,
         "keypoints": np.column_stack([p, np.ones(count)]).ravel().tolist()}
        for i, p in enumerate(points)
    ]  # fmt: skip
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": []}))
    return path


@pytest.mark.parametrize(("count", "first"), [(68, 1), (19, 1), (98, 0)])
def test_hrnet_lists_count_as_what_they_were_made_from(tmp_path, count, first):
    points = np.random.default_rng(0).uniform(10, 200, (count, 2)).round(3)
    head = [f"original_{j}_{axis}" for j in range(count) for axis in "xy"]
    row = ["afw/a.jpg", "0.5", "51.0", "61.0", *map(repr, points.ravel().tolist())]
    path = tmp_path / "face_landmarks.csv"
    path.write_text(
        ",".join(["image_name", "scale", "center_w", "center_h", *head]) + "\n" + ",".join(row)
    )
    (face,) = read_labels(path)
    np.testing.assert_allclose(face.points, points - first)
    np.testing.assert_allclose(face.box, np.array([1.0, 11.0, 101.0, 111.0]) - first)
    write_labels(tmp_path / "again.csv", [face], "hrnet")
    written = (tmp_path / "again.csv").read_text().splitlines()[1].split(",")
    np.testing.assert_allclose([float(word) for word in written[1:]], [float(w) for w in row[1:]])


def test_mmpose_copies_of_hrnet_lists_count_from_one_and_so_do_their_results(tmp_path, sides):
    predicted, truth = sides
    about = {"center": [50.0, 60.0], "scale": 1.2}
    labels = coco(tmp_path / "test_300w.json", truth + 1, **about)
    mine = listed(tmp_path / "mine.json", predicted)
    assert error(read_faces(mine, labels)) == pytest.approx(expected(sides))
    results = [
        {"image_id": i, "category_id": 1, "score": 1.0,
         "keypoints": np.column_stack([p + 1, np.ones(68)]).ravel().tolist()}
        for i, p in enumerate(predicted)
    ]  # fmt: skip
    (tmp_path / "results.json").write_text(json.dumps(results))
    theirs = read_faces(tmp_path / "results.json", labels)
    assert error(theirs) == pytest.approx(expected(sides))
    as_predictions = coco(tmp_path / "predicted.json", predicted + 1, **about)
    np.testing.assert_allclose(read_faces(as_predictions, labels).points, predicted)
    np.testing.assert_allclose(read_labels(labels)[0].box, [0.0, 0.0, 9.0, 9.0])
    faces = read_labels(labels)
    write_labels(tmp_path / "ours.json", faces, "json")  # holds image_id, and is no COCO for that
    for source in (faces, read_labels(tmp_path / "ours.json")):
        with pytest.warns(UserWarning, match="no names of images"):
            write_labels(tmp_path / "again.json", source, "coco-results")
        assert error(read_faces(tmp_path / "again.json", labels)) == pytest.approx(0, abs=1e-9)
    plain = coco(tmp_path / "plain.json", truth)
    np.testing.assert_allclose(read_labels(plain)[0].points, truth[0])


@pytest.mark.parametrize(("side", "option"), [("predictions", "one"), ("labels", "truth-one")])
def test_a_pixel_between_the_two_sides_is_said_aloud(tmp_path, sides, luvli, side, option):
    predicted, truth = sides
    own = np.array([0.5, -0.2])  # a method's own habit does not hide it
    extra = {"predictions": (1, 0), "labels": (0, 1)}[side]
    mine = listed(tmp_path / "p.json", predicted + extra[0] + own * (1 if extra[0] else -1))
    labels = listed(tmp_path / "t.json", truth + extra[1])
    said = luvli("score", mine, "--truth", labels)
    assert said.exit_code == 0
    assert f"do the {side} count pixels from 1? Then say --{option}-based." in said.output
    mended = luvli("score", mine, "--truth", labels, f"--{option}-based")
    assert mended.exit_code == 0 and "count pixels" not in mended.output
    flag = {"one_based": True} if side == "predictions" else {"truth_one_based": True}
    assert error(read_faces(mine, labels, **flag)) < error(read_faces(mine, labels))


def test_no_pixel_between_the_sides_is_no_note(tmp_path, sides):
    predicted, truth = sides
    for shift in ([0.0, 0.0], [1.2, 0.0], [0.4, 0.4], [6.0, 6.0], [1.0, -1.0]):
        mine = listed(tmp_path / "p.json", predicted + np.array(shift))
        assert read_faces(mine, listed(tmp_path / "t.json", truth)).notes == ()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        # ibug has an "image_092 _01.jpg", which most lists write without the space
        ("ibug/image_{:03d} _01.jpg", "ibug/image_{:03d}_01.png"),
        ("{:04d}.png", "testset/{}.png"),
    ],
)
def test_names_match_without_their_spaces_and_padding(tmp_path, sides, ours, theirs):
    predicted, truth = sides
    result = read_faces(
        listed(tmp_path / "p.json", predicted[::-1], [ours.format(i) for i in range(20, 0, -1)]),
        listed(tmp_path / "t.json", truth, [theirs.format(i) for i in range(1, 21)]),
    )
    np.testing.assert_allclose(result.points, predicted)


def test_labels_of_several_sets_have_no_name_of_one(tmp_path, sides):
    predicted, truth = sides
    faces = [{"image": f"{i}.jpg", "points": p.tolist(), "dataset": f"set {i % 2}"}
             for i, p in enumerate(truth)]  # fmt: skip
    (tmp_path / "t.json").write_text(json.dumps(faces))
    assert read_faces(listed(tmp_path / "p.json", predicted), tmp_path / "t.json").dataset == ""


@pytest.mark.parametrize("name", ["hrnet", "star", "wflw", "spiga", "dlib", "cvat"])
@pytest.mark.filterwarnings("ignore::luvli.errors.LossWarning")
def test_faces_without_images_keep_their_ids_where_a_format_knows_only_images(tmp_path, name):
    rng = np.random.default_rng(1)
    faces = [FaceRecord(points=rng.uniform(10, 90, (68, 2)), visibility=np.ones(68, np.int8),
                        face_id=f"image{i:05d}") for i in range(3)]  # fmt: skip
    suffix = {"hrnet": ".csv", "star": ".tsv", "wflw": ".txt", "spiga": ".json"}.get(name, ".xml")
    write_labels(tmp_path / f"a{suffix}", faces, name)
    back = read_labels(tmp_path / f"a{suffix}", name)
    assert [face.image.name for face in back] == ["image00000", "image00001", "image00002"]


def test_a_wflw_list_with_a_name_in_two_words_can_be_read_again(tmp_path):
    face = FaceRecord(points=np.ones((68, 2)), visibility=np.ones(68, np.int8),
                      image=Path("ibug/image_092 _01.jpg"))  # fmt: skip
    with pytest.warns(UserWarning, match="cannot hold names with spaces"):
        write_labels(tmp_path / "a.txt", [face], "wflw")
    (again,) = read_labels(tmp_path / "a.txt", "wflw")
    assert again.image == Path("ibug/image_092_01.jpg")
