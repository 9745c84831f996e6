"""MERL-RAV read from small trees laid out as its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from data_trees import (
    face_points,
    write_image,
    write_raw_pts,
)

from luvli.data.record import Visibility
from luvli.data.sets import DataWarning, load_set, read_set

io = pytest.importorskip("scipy.io")


def signed_rows() -> np.ndarray:
    rows = face_points() + 1
    rows[3] = -rows[3]
    rows[7] = (-1, -1)
    return rows


@pytest.fixture
def merl_rav(tmp_path: Path) -> Path:
    plan = {
        "frontal/trainset": ["image00002_1", "image00005"],
        "frontal/testset": ["image00002_2", "image00007"],
        "lefthalf/trainset": ["image00009"],
        "lefthalf/testset": ["image00010"],
        "righthalf/trainset": ["image00011"],
        "righthalf/testset": ["image00012"],
        "left/trainset": ["image00013"],
        "left/testset": ["image00014"],
        "right/trainset": ["image00015"],
        "right/testset": ["image00005_10"],
    }
    for number, (place, stems) in enumerate(plan.items()):
        for stem in stems:
            write_raw_pts(
                tmp_path / "merl_rav_labels" / place / f"labels/{stem}.pts", signed_rows()
            )
            photograph = f"{stem.split('_')[0]}.jpg"
            write_image(tmp_path / "aflw/flickr" / "023"[number % 3] / photograph)
    return tmp_path


def test_merl_rav(merl_rav: Path) -> None:
    with pytest.warns(DataWarning, match="2 photographs have faces in both"):
        test = load_set("merl_rav", merl_rav, "test")
    assert [r.face_id for r in test] == ["image00002_2", "image00007", "image00010",
                                         "image00012", "image00014", "image00005_10"]  # fmt: skip
    face = test[0]
    assert face.image.name == "image00002.jpg"
    assert face.visibility[3] == Visibility.EXTERNALLY_OCCLUDED
    assert face.visibility[7] == Visibility.SELF_OCCLUDED
    assert face.visible.sum() == 67
    np.testing.assert_allclose(face.points[3], face_points()[3])
    assert np.isnan(face.points[7]).all()
    assert test[5].attributes["pose"] == "right"
    profile = read_set("merl_rav", merl_rav, "test", subset="profile")
    assert [r.attributes["pose"] for r in profile] == ["left", "right"]


def test_merl_rav_disjoint_splits_share_no_photograph(merl_rav: Path) -> None:
    def photographs(split: str) -> set[str]:
        found = read_set("merl_rav", merl_rav, split)
        return {r.attributes["photograph"] for r in found}

    assert photographs("train") & photographs("test") == {"image00002", "image00005"}
    assert photographs("disjoint") == photographs("test") - photographs("train")
    assert photographs("train_disjoint") == photographs("train") - photographs("test")


def test_merl_rav_tree_put_together(tmp_path: Path) -> None:
    number = 0
    for side in ("trainset", "testset"):
        for pose in ("frontal", "left", "lefthalf", "right", "righthalf"):
            number += 1
            label = tmp_path / "merl_rav_organized" / pose / side / f"image{number:05d}.pts"
            write_raw_pts(label, signed_rows())
            write_image(label.with_suffix(".jpg"))
    assert len(read_set("merl_rav", tmp_path, "train").problems) == 0
    assert len(read_set("merl_rav", tmp_path, "train")) == 5


def test_merl_rav_labels_without_images(merl_rav: Path) -> None:
    import shutil

    shutil.rmtree(merl_rav / "aflw")
    found = read_set("merl_rav", merl_rav, "test")
    assert len(found) == 0
    assert [problem.kind for problem in found.problems] == ["missing image"] * 6
    with pytest.warns(DataWarning):
        labels = load_set("merl_rav", merl_rav, "test", images=False)
    assert len(labels) == 6
    assert all(r.image is None for r in labels)


def test_merl_rav_organised_images_keep_their_own_labels(merl_rav: Path) -> None:
    """The project's folder holds its labels and, beside organised images that may be cut from
    the photographs, labels in their pixels: those belong to them."""
    import shutil

    shutil.rmtree(merl_rav / "aflw")
    for label in sorted((merl_rav / "merl_rav_labels").rglob("testset/labels/*.pts")):
        side = label.parent.parent
        organised = merl_rav / "merl_rav_organized" / side.parent.name / side.name
        write_image(organised / f"{label.stem}.jpg")
        if label.stem != "image00007":
            write_raw_pts(organised / label.name, face_points() + 11)
    with pytest.warns(DataWarning):
        faces = {face.face_id: face for face in load_set("merl_rav", merl_rav, "test")}
    assert len(faces) == 6
    np.testing.assert_allclose(faces["image00010"].points, face_points() + 10)
    np.testing.assert_allclose(faces["image00007"].points[3], face_points()[3])
    with pytest.warns(DataWarning):  # the same ones to score against
        labels = load_set("merl_rav", merl_rav, "test", images=False)
    for label in labels:
        assert label.image is None
        np.testing.assert_array_equal(label.points, faces[label.face_id].points)
