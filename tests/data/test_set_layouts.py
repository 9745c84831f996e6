"""Every reader, on a miniature tree in the exact layout of its data set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from data_trees import (
    face_points,
    write_hrnet,
    write_image,
    write_pair,
)

from luvli.data.record import Visibility
from luvli.data.sets import DataWarning, load_set, read_set
from luvli.errors import InputError
from luvli.markup import get_markup

io = pytest.importorskip("scipy.io")


# --- 300-W -----------------------------------------------------------------------------


def ibug_boxes(path: Path, boxes: dict[str, list[float]]) -> None:
    """The iBUG layout: a cell {1, n} of structs."""
    cell = np.empty((1, len(boxes)), dtype=object)
    for i, (name, box) in enumerate(boxes.items()):
        cell[0, i] = {"imgName": name, "bb_detector": [box], "bb_ground_truth": [[0, 0, 1, 1]]}
    path.parent.mkdir(parents=True, exist_ok=True)
    io.savemat(path, {"bounding_boxes": cell})


@pytest.fixture
def w300(tmp_path: Path) -> Path:
    for part, stem, suffix in (
        ("lfpw/trainset", "image_0001", ".png"),
        ("lfpw/testset", "image_0002", ".png"),
        ("helen/trainset", "100_1", ".jpg"),
        ("helen/testset", "200_1", ".jpg"),
        ("afw", "1051618982_1", ".jpg"),
        ("ibug", "image_092 _01", ".jpg"),
        ("300W/01_Indoor", "indoor_001", ".png"),
        ("300W/02_Outdoor", "outdoor_001", ".png"),
    ):
        write_pair(tmp_path / part, stem, face_points(seed=len(stem)), suffix)
    ibug_boxes(
        tmp_path / "Bounding Boxes/bounding_boxes_ibug.mat",
        {"image_092_01.jpg": [11.0, 21.0, 81.0, 91.0], "1051618982_1.jpg": [1, 1, 2, 2]},
    )
    return tmp_path


def test_w300_splits(w300: Path) -> None:
    ids = {
        (protocol, split): [r.face_id for r in load_set("w300", w300, split, protocol=protocol)]
        for protocol in ("split1", "split2")
        for split in ("train", "test")
    }
    assert ids["split1", "train"] == ["lfpw/trainset/image_0001", "helen/trainset/100_1",
                                      "afw/1051618982_1"]  # fmt: skip
    assert ids["split1", "test"] == ["lfpw/testset/image_0002", "helen/testset/200_1",
                                     "ibug/image_092 _01"]  # fmt: skip
    assert sorted(ids["split2", "train"]) == sorted(ids["split1", "train"] + ids["split1", "test"])
    assert ids["split2", "test"] == ["indoor/indoor_001", "outdoor/outdoor_001"]


def test_w300_points_boxes_and_subsets(w300: Path) -> None:
    challenge = load_set("w300", w300, "test", subset="challenge")
    assert len(challenge) == 1
    face = challenge[0]
    assert face.box_kind == "detector"  # matched although one name has a blank
    np.testing.assert_allclose(face.box, [10, 20, 80, 90])  # the file counts from 1
    np.testing.assert_allclose(face.points, face_points(seed=len("image_092 _01")))
    assert (face.visibility == Visibility.UNOCCLUDED).all()
    common = load_set("w300", w300, "test", subset="common")
    assert len(common) == 2
    assert common[0].box is None
    assert common[0].box_kind == "tight"


def test_w300_negative_places_are_outside_not_hidden(w300: Path) -> None:
    points = face_points()
    points[0] = (-3.0, -2.0)
    write_pair(w300 / "afw", "corner", points)
    face = next(r for r in load_set("w300", w300, subset="afw") if r.face_id == "afw/corner")
    assert face.visibility[0] == Visibility.UNOCCLUDED
    np.testing.assert_allclose(face.points[0], (-3, -2))


def test_w300_mirror_copies_are_left_out_with_a_note(w300: Path) -> None:
    write_pair(w300 / "afw", "1051618982_1_mirror", face_points())
    found = read_set("w300", w300, subset="afw")
    assert len(found) == 1
    assert "1 mirror" in found.notes[0]


# --- 300W-LP and Menpo -----------------------------------------------------------------


def test_w300lp(tmp_path: Path) -> None:
    for part in ("AFW", "HELEN", "IBUG", "LFPW"):
        name = f"{part}_1234_0"
        write_image(tmp_path / part / f"{name}.jpg")
        write_image(tmp_path / f"{part}_Flip" / f"{name}.jpg")
        labels = tmp_path / "landmarks" / part
        labels.mkdir(parents=True)
        mat = {"pts_2d": face_points() + 1, "pts_3d": np.zeros((68, 2))}
        io.savemat(labels / f"{name}_pts.mat", mat)
    faces = load_set("w300lp", tmp_path)
    assert [r.face_id for r in faces] == [f"{p}_1234_0" for p in ("AFW", "HELEN", "IBUG", "LFPW")]
    np.testing.assert_allclose(faces[2].points, face_points())
    assert len(load_set("w300lp", tmp_path, subset="helen")) == 1


def test_menpo_sets_profiles_apart(tmp_path: Path) -> None:
    write_pair(tmp_path / "menpo_train_release", "aflw__face_1", face_points())
    write_pair(tmp_path / "menpo_train_release", "aflw__face_2", face_points()[:39])
    write_pair(tmp_path / "menpo_train_release", "aflw__face_3", face_points()[:40])
    frontal = read_set("menpo", tmp_path, "frontal")
    profile = read_set("menpo", tmp_path, "profile")
    assert [r.face_id for r in frontal] == ["aflw__face_1"]
    assert [(r.face_id, r.markup, len(r.points)) for r in profile] == [
        ("aflw__face_2", "menpo39", 39)
    ]
    assert "40 points" in str(frontal.problems[0])


# --- COFW-68 ---------------------------------------------------------------------------


def cofw_hdf5(path: Path, images: list[np.ndarray]) -> None:
    """Matlab 7.3: a user block with a text header, cells as references, axes reversed."""
    h5py = pytest.importorskip("h5py")
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w", userblock_size=512) as file:
        references = np.empty((1, len(images)), dtype=h5py.ref_dtype)
        for i, image in enumerate(images):
            file[f"#refs#/{i}"] = image.T
            references[0, i] = file[f"#refs#/{i}"].ref
        file["IsT"] = references
    with path.open("rb+") as stream:
        stream.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


def test_cofw68(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUVLI_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    colour = rng.integers(0, 255, (90, 70, 3), dtype=np.uint8)
    grey = rng.integers(0, 255, (60, 80), dtype=np.uint8)
    root = tmp_path / "cofw"
    cofw_hdf5(root / "COFW_color/COFW_test_color.mat", [colour, grey])
    labels = root / "COFW68_Data/test_annotations"
    labels.mkdir(parents=True)
    points = face_points()
    points[0] = (-4.0, -7.0)  # an occluded landmark outside the image
    occluded = np.zeros((68, 1))
    occluded[[0, 5]] = 1
    io.savemat(labels / "1_points.mat", {"Points": points + 1, "Occ": occluded})
    io.savemat(labels / "2_points.mat", {"Points": points + 1, "Occ": np.zeros((68, 1))})
    io.savemat(
        root / "COFW68_Data/cofw68_test_bboxes.mat",
        {"bboxes": np.array([[3.0, 5.0, 40.0, 50.0], [1.0, 1.0, 10.0, 10.0]])},
    )
    faces = load_set("cofw68", root, "test")
    assert [r.face_id for r in faces] == ["0001", "0002"]
    assert np.flatnonzero(faces[0].visibility == Visibility.EXTERNALLY_OCCLUDED).tolist() == [0, 5]
    np.testing.assert_allclose(faces[0].points[0], (-4, -7))  # not mirrored
    assert faces[0].visible.all()
    np.testing.assert_allclose(faces[0].box, [2, 4, 42, 54])
    from luvli.image import read_image

    np.testing.assert_array_equal(read_image(faces[0].image), colour)
    np.testing.assert_array_equal(read_image(faces[1].image)[:, :, 1], grey)
    made = faces[0].image.stat().st_mtime_ns
    assert load_set("cofw68", root)[0].image.stat().st_mtime_ns == made  # written once
    labels_only = load_set("cofw68", root, images=False)
    assert labels_only[0].image is None


def test_cofw68_without_pictures_says_so(tmp_path: Path) -> None:
    labels = tmp_path / "test_annotations"
    labels.mkdir()
    io.savemat(labels / "1_points.mat", {"Points": face_points() + 1, "Occ": np.zeros(68)})
    found = read_set("cofw68", tmp_path)
    assert {problem.kind for problem in found.problems} == {"missing file", "missing image"}


# --- AFLW-19 ---------------------------------------------------------------------------


def test_aflw19_official(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("luvli.data.sets.aflw19.TRAIN", 3)
    names = ["0/image00002.jpg", "2/image00004.jpg", "2/image00004.jpg", "3/image00032.jpg"]
    names += ["0/image00099.jpg"]
    for name in set(names):
        write_image(tmp_path / "flickr" / name)
    cells = np.empty((5, 1), dtype=object)
    cells[:, 0] = names
    faces = [face_points("aflw19", seed) for seed in range(5)]
    data = np.stack([np.concatenate([(f + 1)[:, 0], (f + 1)[:, 1]]) for f in faces])
    data[4, [0, 19]] = 0  # the first landmark of the last face has no label
    mask = np.ones((5, 19))
    mask[3, 2] = 0
    io.savemat(
        tmp_path / "AFLWinfo_release.mat",
        {
            "nameList": cells,
            "data": data,
            "mask_new": mask,
            "bbox": np.tile([11.0, 91.0, 21.0, 81.0], (5, 1)),
            "ra": np.array([[2, 1, 5, 3, 4]]),
        },
    )
    train, test = load_set("aflw19", tmp_path, "train"), load_set("aflw19", tmp_path, "test")
    assert [r.face_id for r in train] == [
        "2/image00004.jpg#1",
        "0/image00002.jpg#0",
        "0/image00099.jpg#4",
    ]
    assert [r.face_id for r in test] == ["2/image00004.jpg#2", "3/image00032.jpg#3"]
    np.testing.assert_allclose(train[1].points, faces[0])
    np.testing.assert_allclose(train[1].box, [10, 20, 90, 80])  # left, right, top, bottom
    assert train[2].visibility[0] == Visibility.UNLABELLED
    assert (train[2].visibility[1:] == Visibility.UNOCCLUDED).all()
    frontal = load_set("aflw19", tmp_path, "test", subset="frontal")
    assert [r.face_id for r in frontal] == ["2/image00004.jpg#2"]
    assert test[1].attributes["mask"][2] == 0
    assert (
        test[1].attributes["box_size"] == 80.0
    )  # the longer side: NME_diag is not the tight box's
    assert test[1].visible.all()  # located, so visible, as in the paper


def test_aflw19_hrnet(tmp_path: Path) -> None:
    faces = [face_points("aflw19", seed) for seed in range(3)]
    rows = [
        (f"0/image0000{i}.jpg", 0.4, 75.5, np.array([51.0, 61.0]), faces[i] + 1) for i in range(3)
    ]
    for name, *_ in rows:
        write_image(tmp_path / "images/flickr" / name)
    write_hrnet(tmp_path / "face_landmarks_aflw_train.csv", rows[:1])
    write_hrnet(tmp_path / "face_landmarks_aflw_test.csv", rows[1:])
    write_hrnet(tmp_path / "face_landmarks_aflw_test_frontal.csv", rows[2:])
    train, test = load_set("aflw19", tmp_path), load_set("aflw19", tmp_path, "test")
    np.testing.assert_allclose(train[0].points, faces[0])
    np.testing.assert_allclose(train[0].box, [10, 20, 90, 100])  # 200 x 0.4 around (50, 60)
    assert train[0].attributes["box_size"] == 75.5
    assert len(test) == 2
    assert [r.image.name for r in load_set("aflw19", tmp_path, "test", subset="frontal")] == [
        "image00002.jpg"
    ]


# --- WFLW ------------------------------------------------------------------------------


def test_wflw_official(tmp_path: Path) -> None:
    lists = tmp_path / "WFLW_annotations/list_98pt_rect_attr_train_test"
    lists.mkdir(parents=True)
    name = "51--Dresses/51 Dresses_wearingdress_377.jpg"
    write_image(tmp_path / "WFLW_images" / name)
    faces = [face_points("wflw98", seed) for seed in range(2)]

    def line(points: np.ndarray, flags: str) -> str:
        return f"{' '.join(f'{v:.6f}' for v in points.ravel())} 10 20 90 95 {flags} {name}"

    (lists / "list_98pt_rect_attr_train.txt").write_text(line(faces[0], "0 0 0 0 0 0") + "\n")
    (lists / "list_98pt_rect_attr_test.txt").write_text(
        line(faces[0], "1 0 0 0 0 1") + "\n" + line(faces[1], "0 0 0 1 0 0") + "\n"
    )
    test = load_set("wflw", tmp_path, "test")
    assert [r.attributes["subsets"] for r in test] == [["largepose", "blur"], ["makeup"]]
    np.testing.assert_allclose(test[1].points, faces[1], atol=1e-6)
    np.testing.assert_allclose(test[0].box, [10, 20, 90, 95])
    assert len({r.face_id for r in test}) == 2  # two faces of one image
    assert len(load_set("wflw", tmp_path, "test", subset="blur")) == 1
    assert len(load_set("wflw", tmp_path)) == 1


def test_off_image_landmarks_are_labelled_or_as_the_published_code_has_them(tmp_path: Path) -> None:
    points = face_points("wflw98", 0)
    points[3] = (-2.0, 30.0)
    name = "a.jpg"
    write_image(tmp_path / "WFLW_images" / name)
    numbers = " ".join(f"{v:.6f}" for v in points.ravel())
    (tmp_path / "list_98pt_rect_attr_test.txt").write_text(
        f"{numbers} 10 20 90 95 0 0 0 0 0 0 {name}\n"
    )
    (ours,) = load_set("wflw", tmp_path, "test")
    (theirs,) = load_set("wflw", tmp_path, "test", off_image="invisible")
    assert ours.visible.all() and ours.points[3].tolist() == [-2.0, 30.0]
    assert np.flatnonzero(~theirs.visible).tolist() == [3]


def test_wflw_hrnet(tmp_path: Path) -> None:
    rows = [
        (f"0--Parade/{i}.jpg", 0.5, None, np.array([50.0, 60.0]), face_points("wflw98", i))
        for i in range(3)
    ]
    for name, *_ in rows:
        write_image(tmp_path / "images" / name)
    write_hrnet(tmp_path / "face_landmarks_wflw_train.csv", rows[:1])
    write_hrnet(tmp_path / "face_landmarks_wflw_test.csv", rows[1:])
    write_hrnet(tmp_path / "face_landmarks_wflw_test_blur.csv", rows[2:])
    found = read_set("wflw", tmp_path, "test")
    assert found.subset_counts() == {"blur": 1}
    assert len([p for p in found.problems if p.kind == "missing file"]) == 5  # other subset files
    np.testing.assert_allclose(found[0].points, face_points("wflw98", 1))
    np.testing.assert_allclose(found[0].box, [0, 10, 100, 110])


# --- Multi-PIE, CFP, SCUT ---------------------------------------------------------------


def test_multipie(tmp_path: Path) -> None:
    labels = tmp_path / "MPie_Labels/labels/051"
    labels.mkdir(parents=True)
    for subject, session, recording in ((1, 1, 1), (2, 4, 1), (3, 1, 2)):
        stem = f"{subject:03d}_{session:02d}_{recording:02d}_051_05"
        io.savemat(labels / f"{stem}_lm.mat", {"pts": face_points() + 1})
        tree = f"session{session:02d}/multiview/{subject:03d}/{recording:02d}/05_1/{stem}.png"
        write_image(tmp_path / "Multi-PIE/data" / tree)
    with pytest.warns(DataWarning, match="1 labels of other recordings"):
        faces = load_set("multipie", tmp_path)
    assert [r.face_id for r in faces] == ["001_01_01_051_05", "002_04_01_051_05"]
    np.testing.assert_allclose(faces[1].points, face_points())


CFP_RIGHT = [0, 1, 2, 3, 4, 5, 6, 7, 8, 17, 19, 21, 36, 37, 38, 39, 41, 40]
CFP_RIGHT += [27, 28, 29, 30, 33, 32, 31, 48, 51, 62, 57, 66]


def write_cfp(root: Path, person: str, number: str, points: np.ndarray) -> None:
    write_image(root / f"Data/Images/{person}/profile/{number}.jpg")
    label = root / f"Data/Fiducials/{person}/profile/{number}.txt"
    label.parent.mkdir(parents=True, exist_ok=True)
    label.write_text("\n".join(f"{x},{y}" for x, y in points + 1))


def test_cfp_mirrors_and_moves_labels_to_the_other_convention(tmp_path: Path) -> None:
    looks_right = face_points()[CFP_RIGHT]
    looks_right[18:22, 0] += 20  # the bridge of the nose is farther right than the eye
    mirrored = looks_right * (-1, 1) + (99, 0)
    write_cfp(tmp_path, "001", "01", looks_right)
    write_cfp(tmp_path, "007", "02", mirrored)
    right, left = load_set("cfp", tmp_path)
    assert (right.face_id, left.face_id) == ("cfp-001_01", "cfp-007_02")
    assert np.flatnonzero(right.labelled).tolist() == sorted(CFP_RIGHT)
    unit = np.linalg.norm(looks_right[18] - looks_right[8]) / 100
    np.testing.assert_allclose(right.points[36], looks_right[12])
    np.testing.assert_allclose(right.points[0], looks_right[0] - np.array([1.9, 9.5]) * unit)
    flip = get_markup("ibug68").flip
    np.testing.assert_allclose(left.points, right.points[flip] * (-1, 1) + (99, 0))


def test_cfp_leaves_out_lids_that_are_out_of_order(tmp_path: Path) -> None:
    points = face_points()[CFP_RIGHT]
    points[[13, 16]] = points[[16, 13]]
    write_cfp(tmp_path, "001", "01", points)
    face = load_set("cfp", tmp_path)[0]
    assert (face.visibility[[37, 38, 40, 41, 43, 44, 46, 47]] == Visibility.UNLABELLED).all()
    assert face.labelled.sum() == 26


def test_scut_reads_binary_points_and_slides_along_the_lids(tmp_path: Path) -> None:
    points = np.stack([np.arange(86.0), np.arange(86.0) * 0.5], axis=1).astype("<f4")
    label = tmp_path / "facial landmark/CF12.pts"
    label.parent.mkdir()
    label.write_bytes(np.int32(86).tobytes() + points.tobytes())
    write_image(tmp_path / "Images/CF12.jpg")
    face = load_set("scut", tmp_path, subset="caucasian_female")[0]
    assert face.labelled.sum() == 24
    same = {8: 11, 36: 46, 39: 42, 42: 54, 45: 50, 48: 79, 51: 76, 54: 73, 33: 66, 19: 24, 24: 34}
    np.testing.assert_allclose(face.points[list(same)], points[list(same.values())])
    np.testing.assert_allclose(face.points[57], (82.5, 41.25))
    np.testing.assert_allclose(face.points[37], (46 - 4 / 3, 23 - 2 / 3))  # a third of the lid
    label.write_bytes(label.read_bytes()[:-4])
    problem = read_set("scut", tmp_path).problems[0]
    assert problem.kind == "bad label" and "CF12.pts" in str(problem)


def test_boxes_that_are_missing_are_counted_and_may_be_left_aside(w300: Path) -> None:
    with pytest.warns(DataWarning, match="2 of 3 faces have no box in Bounding Boxes/"):
        faces = load_set("w300", w300, "test")
    assert [face.box_kind for face in faces] == ["tight", "tight", "detector"]
    tight = read_set("w300", w300, "test").notes, load_set("w300", w300, "test", boxes="tight")
    assert "2 of 3" in tight[0][0] and {face.box_kind for face in tight[1]} == {"tight"}
    with pytest.raises(InputError, match="kind of boxes"):
        load_set("w300", w300, "test", boxes="detector")  # type: ignore[arg-type]
    # labels alone crop nothing, and the competition's 600 have no boxes at all
    assert not read_set("w300", w300, "test", images=False).notes
    assert not read_set("w300", w300, "test", protocol="split2").notes


def test_off_image_counts_as_the_file_does(tmp_path: Path) -> None:
    """The published code calls x <= 0 of the file invisible: x <= -1 where files count from 1."""
    points = face_points("aflw19")
    points[3], points[4] = (-0.5, 30.0), (-1.5, 30.0)
    write_image(tmp_path / "flickr/0/a.jpg")
    row = ("0/a.jpg", 0.4, 75.5, np.array([51.0, 61.0]), points + 1)
    write_hrnet(tmp_path / "face_landmarks_aflw_train.csv", [row])
    (theirs,) = load_set("aflw19", tmp_path, off_image="invisible")
    assert np.flatnonzero(~theirs.visible).tolist() == [4]
