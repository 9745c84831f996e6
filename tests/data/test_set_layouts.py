"""Every data set, read from a miniature tree in its exact layout."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from data_trees import face_points, write_hrnet, write_image, write_pair, write_raw_pts
from set_trees import TREES, aflw19, cofw68, london, menpo, merl_rav, scut, w300, wflw_hrnet

from luvli.data.record import Visibility
from luvli.data.sets import DataWarning, load_set, read_set
from luvli.data.sets.london import landmarks_of_template
from luvli.errors import InputError
from luvli.image import read_image
from luvli.markup import get_markup


@pytest.fixture(autouse=True)
def _small_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUVLI_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", TREES)
@pytest.mark.filterwarnings("ignore::luvli.data.sets.DataWarning")
def test_every_part_of_every_set(tmp_path: Path, name: str) -> None:
    """Ids, points where the first pixel's centre is (0, 0), boxes, images; and the labels alone."""
    root = tmp_path / "set"
    root.mkdir()
    tree = TREES[name](root)
    for part, ids in tree.parts.items():
        faces, labels = load_set(part, root), load_set(part, root, images=False)
        assert [face.face_id for face in faces] == ids == [face.face_id for face in labels], part
        for face, label in zip(faces, labels, strict=True):
            assert face.dataset == part.split("/")[0]
            assert face.image is not None and face.image.is_file() and label.image is None
            np.testing.assert_array_equal(face.points, label.points)
            np.testing.assert_array_equal(face.visible, np.isfinite(face.points[:, 0]))
            if face.face_id in tree.points:
                expected = tree.points[face.face_id]
                known = np.isfinite(expected[:, 0])
                np.testing.assert_allclose(face.points[known], expected[known], atol=1e-6)
                assert known.any() or not face.labelled.any()
            if face.face_id in tree.boxes:
                np.testing.assert_allclose(face.box, tree.boxes[face.face_id])
            assert (face.attributes.get("eyes") == "closed") == (name == "closed_eyes")


# --- what single sets do besides ----------------------------------------------------------


def test_labels_that_are_not_as_the_set_says(tmp_path: Path) -> None:
    menpo(tmp_path / "menpo")
    write_pair(tmp_path / "menpo", "aflw__face_3", face_points()[:40])
    assert "40 points" in str(read_set("menpo/frontal", tmp_path / "menpo").problems[0])
    scut(tmp_path / "scut")
    label = tmp_path / "scut/facial landmark/CF12.pts"
    label.write_bytes(label.read_bytes()[:-4])
    (problem,) = read_set("scut", tmp_path / "scut").problems
    assert problem.kind == "bad label" and "CF12.pts" in str(problem)


def test_w300_places_outside_mirror_copies_and_missing_boxes(tmp_path: Path) -> None:
    w300(tmp_path)
    points = face_points()
    points[0] = (-3.0, -2.0)  # two negative numbers: outside the image, not hidden
    write_pair(tmp_path / "afw", "corner", points)
    write_pair(tmp_path / "afw", "1051618982_1_mirror", face_points())
    found = read_set("w300/afw", tmp_path)
    assert [face.face_id for face in found] == ["afw/1051618982_1", "afw/corner"]
    assert found[1].visible.all()
    np.testing.assert_allclose(found[1].points[0], (-3, -2))
    assert "1 mirror" in found.notes[0]
    with pytest.warns(DataWarning, match="2 of 3 faces have no box in Bounding Boxes/"):
        faces = load_set("w300/test", tmp_path)
    assert [face.box_kind for face in faces] == ["tight", "tight", "detector"]
    tight = load_set("w300/test", tmp_path, boxes="tight")
    assert {face.box_kind for face in tight} == {"tight"}
    with pytest.raises(InputError, match="kind of boxes"):
        load_set("w300/test", tmp_path, boxes="detector")  # type: ignore[arg-type]
    # labels alone crop nothing, and the competition's 600 have no boxes at all
    assert not read_set("w300/test", tmp_path, images=False).notes
    assert not read_set("w300/split2/test", tmp_path).notes


def test_cofw68_flags_and_images(tmp_path: Path) -> None:
    cofw68(tmp_path)
    faces = load_set("cofw68", tmp_path)
    assert np.flatnonzero(faces[0].visibility == Visibility.EXTERNALLY_OCCLUDED).tolist() == [0, 5]
    assert faces[0].visible.all()
    rng = np.random.default_rng(0)
    colour, grey = (rng.integers(0, 255, s, dtype=np.uint8) for s in ((90, 70, 3), (60, 80)))
    np.testing.assert_array_equal(read_image(faces[0].image), colour)
    np.testing.assert_array_equal(read_image(faces[1].image)[:, :, 1], grey)
    written = faces[0].image.stat().st_mtime_ns
    assert load_set("cofw68", tmp_path)[0].image.stat().st_mtime_ns == written  # once
    shutil.rmtree(tmp_path / "COFW_color")
    problems = read_set("cofw68", tmp_path).problems
    assert {problem.kind for problem in problems} == {"missing file", "missing image"}


def test_aflw19_missing_labels_and_normaliser(tmp_path: Path) -> None:
    aflw19(tmp_path)
    missing, whole = load_set("aflw19/test", tmp_path)
    assert missing.visibility.tolist() == [Visibility.UNLABELLED] + [Visibility.UNOCCLUDED] * 18
    assert whole.visible.all() and whole.attributes["box_size"] == 75.5


def test_wflw_without_its_subset_files(tmp_path: Path) -> None:
    wflw_hrnet(tmp_path)
    (tmp_path / "face_landmarks_wflw_test_blur.csv").unlink()
    found = read_set("wflw/test", tmp_path)
    assert [problem.kind for problem in found.problems] == ["missing file"]
    assert found.subset_counts()["makeup"] == 1 and found.subset_counts()["blur"] == 0


def test_off_image_landmarks_are_labelled_or_as_the_published_code_has_them(tmp_path: Path) -> None:
    """The published code calls x <= 0 of the file invisible: x <= -1 where files count from 1."""
    for name, first, hidden in (("wflw", 0, [3, 4]), ("aflw19", 1, [4])):
        points = face_points({"wflw": "wflw98"}.get(name, name))
        points[3], points[4] = (-0.5, 30.0), (-1.5, 30.0)
        write_image(tmp_path / name / "images/a.jpg")
        row = ("a.jpg", 0.4, None, np.array([50.0, 60.0]), points + first)
        write_hrnet(tmp_path / name / f"face_landmarks_{name[:4]}_train.csv", [row])
        (ours,) = load_set(name, tmp_path / name)
        (theirs,) = load_set(name, tmp_path / name, off_image="invisible")
        assert ours.visible.all() and ours.points[3].tolist() == [-0.5, 30.0]
        assert np.flatnonzero(~theirs.visible).tolist() == hidden


def test_merl_rav_classes_warning_and_missing_images(tmp_path: Path) -> None:
    merl_rav(tmp_path)
    with pytest.warns(DataWarning, match="2 photographs have faces in both"):
        test = load_set("merl_rav/test", tmp_path)
    assert test[0].image.name == "image00002.jpg"
    assert test[0].visibility[[3, 7]].tolist() == [2, 0] and test[0].visible.sum() == 67
    assert (test[5].attributes["pose"], test[5].attributes["photograph"]) == ("right", "image00005")
    shutil.rmtree(tmp_path / "aflw")
    found = read_set("merl_rav/test", tmp_path)
    assert len(found) == 0
    assert [problem.kind for problem in found.problems] == ["missing image"] * 6


def test_merl_rav_organised_images_keep_their_own_labels(tmp_path: Path) -> None:
    """The project's folder holds its labels and, beside organised images that may be cut from
    the photographs, labels in their pixels: those belong to them."""
    merl_rav(tmp_path)
    shutil.rmtree(tmp_path / "aflw")
    for label in sorted((tmp_path / "merl_rav_labels").rglob("testset/labels/*.pts")):
        side = label.parent.parent
        organised = tmp_path / "merl_rav_organized" / side.parent.name / side.name
        write_image(organised / f"{label.stem}.jpg")
        if label.stem != "image00007":
            write_raw_pts(organised / label.name, face_points() + 11)
    for images in (True, False):  # the same ones to score against
        faces = {face.face_id: face for face in read_set("merl_rav/test", tmp_path, images=images)}
        assert len(faces) == 6
        np.testing.assert_allclose(faces["image00010"].points, face_points() + 10)
        np.testing.assert_allclose(faces["image00007"].points[3], face_points()[3])


CFP_RIGHT = [0, 1, 2, 3, 4, 5, 6, 7, 8, 17, 19, 21, 36, 37, 38, 39, 41, 40]
CFP_RIGHT += [27, 28, 29, 30, 33, 32, 31, 48, 51, 62, 57, 66]


def test_cfp_mirrors_and_moves_labels_to_the_other_convention(tmp_path: Path) -> None:
    looks_right = face_points()[CFP_RIGHT]
    looks_right[18:22, 0] += 20  # the bridge of the nose is farther right than the eye
    lids = looks_right.copy()
    lids[[13, 16]] = lids[[16, 13]]  # out of order, as behind sunglasses
    for person, points in (("001", looks_right), ("007", looks_right * (-1, 1) + (99, 0)),
                           ("009", lids)):  # fmt: skip
        write_image(tmp_path / f"Data/Images/{person}/profile/01.jpg")
        label = tmp_path / f"Data/Fiducials/{person}/profile/01.txt"
        label.parent.mkdir(parents=True)
        label.write_text("\n".join(f"{x},{y}" for x, y in points + 1))
    right, left, sunglasses = load_set("cfp", tmp_path)
    assert (right.face_id, left.face_id) == ("cfp-001_01", "cfp-007_01")
    assert np.flatnonzero(right.labelled).tolist() == sorted(CFP_RIGHT)
    unit = np.linalg.norm(looks_right[18] - looks_right[8]) / 100
    np.testing.assert_allclose(right.points[36], looks_right[12])
    np.testing.assert_allclose(right.points[0], looks_right[0] - np.array([1.9, 9.5]) * unit)
    flip = get_markup("ibug68").flip
    np.testing.assert_allclose(left.points, right.points[flip] * (-1, 1) + (99, 0))
    assert not sunglasses.labelled[[37, 38, 40, 41]].any() and sunglasses.labelled.sum() == 26


def test_london_without_a_portrait_or_its_template(tmp_path: Path) -> None:
    london(tmp_path)
    unlabelled = ~load_set("london", tmp_path)[0].labelled
    assert np.flatnonzero(unlabelled).tolist() == [30, 32, 34, 60, 64]
    (tmp_path / "neutral_002_03.jpg").unlink()
    with pytest.raises(InputError, match=r"neutral_002_03\.jpg"):
        load_set("london/neutral", tmp_path)
    (tmp_path / "points189.json").unlink()
    with pytest.raises(InputError, match="points189"):
        load_set("london", tmp_path)


TILTED = np.array([[0.8, -0.6], [0.6, 0.8]])


def test_the_jaw_of_the_template_is_shared_out_evenly_from_the_ears_to_the_chin() -> None:
    template = np.zeros((189, 2))
    angle = np.linspace(np.pi, np.pi / 2, 10)  # a quarter of a circle on each side
    quarter = np.c_[np.cos(angle), np.sin(angle)]
    template[[109, 185, 110, 186, 111, 125, 126, 127, 128, 129]] = quarter
    template[[112, 187, 113, 188, 114, 133, 132, 131, 130]] = quarter[:9] * (-1, 1)
    template[[18, 27]] = (-0.5, -0.052), (0.5, -0.052)  # corners of the eyes
    jaw = landmarks_of_template(template)[:17] + 0.5
    np.testing.assert_allclose(jaw[[0, 8, 16]], [(-1, 0), (0, 1), (1, 0)], atol=1e-9)
    turn = np.degrees(np.arctan2(jaw[:, 1], jaw[:, 0]))
    np.testing.assert_allclose(turn, np.linspace(180, 0, 17), atol=0.5)
    # and it begins a little below the eyes: straight up or down the temple of a tilted head
    template = np.zeros((189, 2))
    template[[18, 27, 109, 112]] = np.array([(-1.0, 0), (1, 0), (-2, 0.5), (2, -0.3)]) @ TILTED.T
    ears = (landmarks_of_template(template) + 0.5)[[0, 16]] @ TILTED
    np.testing.assert_allclose(ears, [(-2, 0.104), (2, 0.104)])


def test_lips_of_the_template_stand_in_the_columns_of_the_upper_ones_peaks() -> None:
    template = np.zeros((189, 2))
    template[[18, 27]] = np.array([(-5.0, 0), (5, 0)]) @ TILTED.T
    template[[89, 90, 91]] = np.array([(-1, 7.0), (0.2, 7.2), (1, 7)]) @ TILTED.T
    across = np.array([-3.0, -2, -1.5, 0, 1.5, 2, 3])
    edges = {61: (87, 94, 95, 96, 97, 98, 93), 67: (87, 99, 100, 101, 102, 103, 93)}
    for first, line in edges.items():  # straight edges, each falling in its own way
        template[list(line)] = np.c_[across, 8 + 0.01 * first * across] @ TILTED.T
    points = (landmarks_of_template(template) + 0.5) @ TILTED
    np.testing.assert_allclose(points[[[61, 62, 63], [67, 66, 65]], 0], [(-1, 0.2, 1)] * 2)
    np.testing.assert_allclose(points[67, 1], 8 - 0.67)
