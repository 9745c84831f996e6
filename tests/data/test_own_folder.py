"""A folder of one's own faces: `.pts` or COCO, known and declared point sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from data_trees import (
    face_points,
    write_image,
    write_pair,
)

from luvli.data.formats import write_labels
from luvli.data.sets import DataWarning, load_set, read_set
from luvli.errors import LossWarning
from luvli.markup import get_markup

io = pytest.importorskip("scipy.io")


MARKUP = """
name: corners4
points: [right eye, left eye, nose tip, mouth]
outer_eye_corners: [0, 1]
parts: {nose: [2, 3]}
groups: {eyes: [0, 1], nose: [2], mouth: [3]}
"""


def test_folder_of_ones_own_points(tmp_path: Path) -> None:
    places = np.array([(30.0, 40), (70, 40), (50, 60), (50, 80)])
    write_pair(tmp_path / "train/day 1", "a", places)
    write_pair(tmp_path / "test", "b", places)
    (tmp_path / "markup.yaml").write_text(MARKUP)
    everything = load_set("folder", tmp_path)
    assert [r.face_id for r in everything] == ["test/b", "train/day 1/a"]
    assert everything[0].markup == "corners4"
    assert get_markup("corners4").flip.tolist() == [1, 0, 2, 3]
    assert [r.face_id for r in load_set("folder", tmp_path, "train")] == ["train/day 1/a"]
    np.testing.assert_allclose(everything[0].points, places)


def test_raised_digits_in_a_name_are_no_number(tmp_path: Path) -> None:
    for name in ("1²3", "1²20", "10"):
        write_pair(tmp_path, name, face_points())
    assert [r.face_id for r in load_set("folder", tmp_path)] == ["1²3", "1²20", "10"]


def test_folder_needs_a_markup_for_unusual_counts(tmp_path: Path) -> None:
    write_pair(tmp_path, "a", face_points()[:7])
    assert "markup.yaml" in str(read_set("folder", tmp_path).problems[0])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name: x\npoints: [a, b]", "outer_eye_corners"),
        ("name: x\npoints: [right eye, nose]\nouter_eye_corners: [0, 1]", "left eye"),
        ("name: x\npoints: [a, b]\nouter_eye_corners: [0, 5]", "no point 5"),
        ("[", "yaml"),
    ],
)
def test_bad_markup_files_are_explained(tmp_path: Path, text: str, complaint: str) -> None:
    write_pair(tmp_path, "a", face_points()[:2])
    (tmp_path / "markup.yaml").write_text(text)
    problem = read_set("folder", tmp_path).problems[0]
    assert "markup.yaml" in str(problem)
    assert complaint in str(problem)


def test_folder_with_coco(tmp_path: Path) -> None:
    from luvli.data import FaceRecord
    from luvli.data.formats import write_coco

    write_image(tmp_path / "images/one.jpg")
    record = FaceRecord(
        points=face_points(), visibility=np.ones(68), image=Path("one.jpg"), face_id="one"
    )
    gone = record.with_changes(image=Path("gone.jpg"), face_id="gone")
    write_coco(tmp_path / "labels.json", [record, gone])
    found = read_set("folder", tmp_path)
    assert [r.face_id for r in found] == ["one"]
    assert found[0].image == tmp_path / "images/one.jpg"
    np.testing.assert_allclose(found[0].points, face_points())
    assert [p.kind for p in found.problems] == ["missing image"]


@pytest.mark.parametrize("images", [True, False])
def test_labels_exported_into_their_folder_do_not_double_the_faces(
    tmp_path: Path, images: bool
) -> None:
    for number in range(3):
        write_pair(tmp_path, f"face{number}", face_points(seed=number))
    faces = load_set("folder", tmp_path)
    write_labels(tmp_path / "all.json", faces.records, "coco")
    with pytest.warns(LossWarning):
        write_labels(tmp_path / "all.xml", faces.records, "dlib")  # whole pixels: the same faces
    other = faces.records[0].with_changes(points=faces.records[0].points + 30)
    write_labels(tmp_path / "others.csv", [other])  # another face of the first image
    with pytest.warns(DataWarning, match="6 faces stand in a second label file"):
        again = load_set("folder", tmp_path, images=images)
    assert len(again) == 4
