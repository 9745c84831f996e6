"""A folder of one's own faces: `.pts` or label files, known and declared point sets, bad data, and
names of images that are seen from the label file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from data_trees import face_points, write_image, write_pair, write_raw_pts
from typer.testing import Result

from luvli.data import FaceRecord
from luvli.data.formats import read_labels, write_labels
from luvli.data.sets import DataWarning, load_set, read_set
from luvli.data.sets.check import check_set
from luvli.errors import InputError, LossWarning
from luvli.markup import get_markup

Luvli = Callable[..., Result]

MARKUP = """
name: corners4
points: [right eye, left eye, nose tip, mouth]
outer_eye_corners: [0, 1]
parts: {nose: [2, 3]}
groups: {eyes: [0, 1], nose: [2], mouth: [3]}
"""


def labelled(image: Path, **fields: object) -> FaceRecord:
    return FaceRecord(points=face_points(), visibility=np.ones(68), image=image, **fields)


# --- what is read ------------------------------------------------------------------------


def test_folder_of_ones_own_points(tmp_path: Path) -> None:
    places = np.array([(30.0, 40), (70, 40), (50, 60), (50, 80)])
    write_pair(tmp_path / "train/day 1", "a", places)
    write_pair(tmp_path / "test", "b", places)
    assert "markup.yaml" in str(read_set("folder", tmp_path).problems[0])  # unknown until declared
    (tmp_path / "markup.yaml").write_text(MARKUP)
    everything = load_set("folder", tmp_path)
    assert [r.face_id for r in everything] == ["test/b", "train/day 1/a"]
    assert everything[0].markup == "corners4"
    assert get_markup("corners4").flip.tolist() == [1, 0, 2, 3]
    assert [r.face_id for r in load_set("folder/train", tmp_path)] == ["train/day 1/a"]
    np.testing.assert_allclose(everything[0].points, places)


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
    problem = str(read_set("folder", tmp_path).problems[0])
    assert "markup.yaml" in problem and complaint in problem


def test_natural_order_and_files_that_are_no_labels(tmp_path: Path) -> None:
    for name in ("1²3", "1²20", "10", "9"):  # raised digits are no number
        write_pair(tmp_path, name, face_points())
    (tmp_path / "synthetic.json").write_text('{"head": "procedural", "seed": 0}')
    noted = tmp_path / "photographs-0123456789abcdef.json"  # of `luvli data profile`
    write_labels(noted, [labelled(tmp_path / "another.jpg")])
    assert [r.face_id for r in load_set("folder", tmp_path)] == ["1²3", "1²20", "9", "10"]
    noted.rename(tmp_path / "photographs-train.json")  # somebody's labels
    assert "another.jpg" in str(read_set("folder", tmp_path).problems[0])


@pytest.mark.parametrize("images", [True, False])
def test_labels_exported_into_their_folder_do_not_double_the_faces(
    tmp_path: Path, images: bool
) -> None:
    for number in range(3):
        write_pair(tmp_path, f"face{number}", face_points(seed=number))
    faces = load_set("folder", tmp_path)
    write_labels(tmp_path / "all.json", faces, "coco")
    with pytest.warns(LossWarning):
        write_labels(tmp_path / "all.xml", faces, "dlib")  # whole pixels: the same faces
    other = faces[0].with_changes(points=faces[0].points + 30)
    write_labels(tmp_path / "others.csv", [other])  # another face of the first image
    with pytest.warns(DataWarning, match="6 faces stand in a second label file"):
        again = load_set("folder", tmp_path, images=images)
    assert len(again) == 4


def test_mmpose_trees_keep_images_beside_annotations(tmp_path: Path) -> None:
    keypoints = np.column_stack([face_points(), np.ones(68)]).ravel().tolist()
    (tmp_path / "annotations").mkdir()
    for split in ("train", "test"):
        write_image(tmp_path / f"images/{split}.jpg")
        images = [{"id": 1, "file_name": f"{split}.jpg"}]
        content = {"images": images, "annotations": [{"image_id": 1, "keypoints": keypoints}]}
        path = tmp_path / f"annotations/face_landmarks_{split}.json"
        path.write_text(json.dumps(content))
    assert len(load_set("folder", tmp_path)) == 2
    (face,) = load_set("folder/test", tmp_path)  # by the word in the file's name
    assert face.image is not None and face.image.name == "test.jpg"


# --- bad data ----------------------------------------------------------------------------


def test_bad_data_is_listed_and_never_skipped_silently(tmp_path: Path) -> None:
    write_pair(tmp_path, "good", face_points())
    write_raw_pts(tmp_path / "no_image.pts", face_points() + 1)
    write_image(tmp_path / "no_label.jpg")
    write_pair(tmp_path, "count", face_points()[:5])
    write_pair(tmp_path, "text", face_points())
    (tmp_path / "text.pts").write_text("version: 1\nn_points: 68\n{\nhello\n}")
    write_pair(tmp_path, "far", face_points() - (500, 0))
    write_pair(tmp_path, "one_place", np.full((68, 2), 20.0))
    write_labels(tmp_path / "labels.json", [labelled(Path("gone.jpg"), face_id="gone")], "coco")
    found = read_set("folder", tmp_path)
    assert [r.face_id for r in found] == ["good"]
    named = {Path(problem.path).name.split(".")[0]: problem.kind for problem in found.problems}
    assert named == {
        "no_image": "missing image", "no_label": "missing label", "count": "bad label",
        "text": "bad label", "far": "far outside", "one_place": "bad label",
        "labels": "missing image",
    }  # fmt: skip
    for problem in found.problems:
        assert Path(problem.path).name.split(",")[0] in problem.sentence
        assert "\n" not in problem.sentence
    with pytest.raises(InputError, match=r"7 problems.*--skip-bad.*And 2 more\.$"):
        load_set("folder", tmp_path)
    with pytest.warns(DataWarning, match="7 problems skipped, 1 faces are left"):
        faces = load_set("folder", tmp_path, skip_bad=True)
    assert (len(faces), len(faces.problems)) == (1, 7)


def test_images_that_do_not_decode(tmp_path: Path) -> None:
    for name, offset in (("good", 0), ("cut", 0), ("outside", 400)):  # of a 100-pixel image
        write_pair(tmp_path, name, face_points() + offset)
    image = tmp_path / "cut.jpg"
    image.write_bytes(image.read_bytes()[:200])
    assert len(read_set("folder", tmp_path)) == 3  # looking up alone cannot tell
    problems = check_set("folder", tmp_path, decode=True).problems
    kinds = {Path(problem.path).stem: problem.kind for problem in problems}
    assert kinds == {"cut": "bad image", "outside": "far outside"}


@pytest.mark.parametrize(
    ("name", "folder", "part", "complaint"),
    [
        ("folder", ".", {}, "holds no labelled faces: it should hold images"),
        ("w300", ".", {}, "no faces of w300: it should hold lfpw/"),
        ("w300", "nowhere", {}, "is not a folder"),
        ("w3000", ".", {}, "did you mean 'w300'"),
        ("w300/tests", ".", {}, "did you mean 'test'"),
        ("w300/hard", ".", {}, "unknown part of w300"),
        *(("w300", ".", {kind: "x"}, f"unknown {kind} of w300 'x'.*one of")
          for kind in ("split", "subset", "protocol")),
    ],
)  # fmt: skip
def test_wrong_folders_and_names(
    tmp_path: Path, name: str, folder: str, part: dict[str, str], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        load_set(name, tmp_path / folder, **part)


def test_check_counts_labels_without_images(tmp_path: Path) -> None:
    for pose in ("frontal", "left", "lefthalf", "right", "righthalf"):
        for number, side in enumerate(("trainset", "testset")):
            name = f"{pose}/{side}/labels/image0000{number}_{len(pose)}.pts"
            write_raw_pts(tmp_path / "merl_rav_labels" / name, face_points() + 1)
    report = check_set("merl_rav", tmp_path)
    whole = report.rows[0]
    assert (whole.labels, whole.images, whole.paper) == (5, 0, 15449)
    assert not report.complete and report.kinds()["missing image"] == 10
    assert len(report.to_dict()["rows"]) == len(report.rows) == 16


# --- names of images ---------------------------------------------------------------------

FILES = {
    "json": "faces.json", "csv": "faces.csv", "coco": "faces.json", "spiga": "faces.json",
    "dlib": "faces.xml", "hrnet": "faces.csv", "labelme": "labels",
}  # fmt: skip


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for number in range(3):
        write_pair(tmp_path / "data/photos", f"face{number}", face_points(seed=number))
    monkeypatch.chdir(tmp_path)
    return Path("data/photos")


@pytest.mark.parametrize("format", FILES)
def test_an_exported_set_is_a_set_again(
    luvli: Luvli, photos: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    out = Path("elsewhere/exported") / FILES[format]
    done = luvli("data", "convert", photos, out, "--set", "folder", "--to", format)
    assert done.exit_code == 0, done.output
    monkeypatch.chdir("elsewhere")  # what is found must not depend on where the command runs
    assert len(load_set("folder", "exported")) == 3


def test_label_files_name_images_as_seen_from_them(photos: Path) -> None:
    """dlib looks from the file's folder; CVAT knows the names of what was uploaded."""
    record = labelled(photos / "face0.jpg")
    whole = record.with_changes(points=record.points.round())
    names = [
        ("a/b/c.xml", "dlib", whole, 'file="../../data/photos/face0.jpg"'),
        ("a/c.xml", "cvat", record, 'name="data/photos/face0.jpg"'),
        ("data/photos/a.xml", "cvat", record, 'name="face0.jpg"'),
        ("a/d.json", "coco", labelled(Path("set/7.jpg")), '"set/7.jpg"'),  # which is not there
    ]
    for path, format, face, name in names:
        write_labels(path, [face], format)
        assert name in Path(path).read_text()
    assert read_labels("a/d.json")[0].image == Path("set/7.jpg")
    assert read_labels("a/b/c.xml")[0].image.samefile(photos / "face0.jpg")
