"""Every data set, read from a miniature tree in its exact layout."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from data_trees import face_points, write_hrnet, write_image, write_pair, write_raw_pts

from luvli.data.record import Visibility
from luvli.data.sets import DataWarning, load_set, read_set
from luvli.data.sets.london import landmarks_of_template
from luvli.errors import InputError
from luvli.image import read_image
from luvli.markup import get_markup

io = pytest.importorskip("scipy.io")


@dataclass
class Tree:
    """What a miniature tree holds."""

    parts: dict[str, list[str]]
    """part of the set -> ids of its faces"""
    points: dict[str, np.ndarray] = field(default_factory=dict)
    boxes: dict[str, list[float]] = field(default_factory=dict)


def w300(root: Path) -> Tree:
    places = {
        "lfpw/trainset/image_0001": ".png", "lfpw/testset/image_0002": ".png",
        "helen/trainset/100_1": ".jpg", "helen/testset/200_1": ".jpg", "afw/1051618982_1": ".jpg",
        "ibug/image_092 _01": ".jpg", "300W/01_Indoor/indoor_001": ".png",
        "300W/02_Outdoor/outdoor_001": ".png",
    }  # fmt: skip
    for name, suffix in places.items():
        write_pair((root / name).parent, Path(name).name, face_points(seed=len(name)), suffix)
    boxes = {"image_092_01.jpg": [11.0, 21.0, 81.0, 91.0], "1051618982_1.jpg": [1, 1, 2, 2]}
    cell = np.empty((1, 2), dtype=object)  # iBUG's layout: a cell {1, n} of structs
    for i, (name, box) in enumerate(boxes.items()):
        cell[0, i] = {"imgName": name, "bb_detector": [box], "bb_ground_truth": [[0, 0, 1, 1]]}
    (root / "Bounding Boxes").mkdir()
    io.savemat(root / "Bounding Boxes/bounding_boxes_ibug.mat", {"bounding_boxes": cell})
    lfpw, lfpw_test, helen, helen_test, afw, ibug, *_ = places
    parts = {
        "w300": [lfpw, helen, afw],
        "w300/test": [lfpw_test, helen_test, ibug],
        "w300/test/common": [lfpw_test, helen_test],
        "w300/test/challenge": [ibug],
        "w300/lfpw": [lfpw],
        "w300/split2": [lfpw, helen, afw, lfpw_test, helen_test, ibug],
        "w300/split2/test": ["indoor/indoor_001", "outdoor/outdoor_001"],
        "w300/split2/test/outdoor": ["outdoor/outdoor_001"],
    }
    # the file counts from 1, and the name of this face has a blank on one side only
    return Tree(parts, {ibug: face_points(seed=len(ibug))}, {ibug: [10, 20, 80, 90]})


def w300lp(root: Path) -> Tree:
    ids = [f"{part}_1234_0" for part in ("AFW", "HELEN", "IBUG", "LFPW")]
    for name in ids:
        part = name.split("_")[0]
        write_image(root / part / f"{name}.jpg")
        write_image(root / f"{part}_Flip" / f"{name}.jpg")
        (root / "landmarks" / part).mkdir(parents=True)
        mat = {"pts_2d": face_points() + 1, "pts_3d": np.zeros((68, 2))}
        io.savemat(root / "landmarks" / part / f"{name}_pts.mat", mat)
    return Tree({"w300lp": ids, "w300lp/helen": ids[1:2]}, {ids[2]: face_points()})


def menpo(root: Path) -> Tree:
    points = {"aflw__face_1": face_points(), "aflw__face_2": face_points()[:39]}
    for name, places in points.items():
        write_pair(root / "menpo_train_release", name, places)
    return Tree({"menpo/frontal": ["aflw__face_1"], "menpo/profile": ["aflw__face_2"]}, points)


def cofw68(root: Path) -> Tree:
    """Matlab 7.3: a user block with a text header, cells as references, axes reversed."""
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 255, shape, dtype=np.uint8) for shape in ((90, 70, 3), (60, 80))]
    path = root / "COFW_color/COFW_test_color.mat"
    path.parent.mkdir(parents=True)
    with h5py.File(path, "w", userblock_size=512) as file:
        references = np.empty((1, 2), dtype=h5py.ref_dtype)
        for i, image in enumerate(images):
            file[f"#refs#/{i}"] = image.T
            references[0, i] = file[f"#refs#/{i}"].ref
        file["IsT"] = references
    with path.open("rb+") as stream:
        stream.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")
    data = root / "COFW68_Data"
    (data / "test_annotations").mkdir(parents=True)
    points = face_points()
    points[0] = (-4.0, -7.0)  # an occluded landmark outside the image is not mirrored into it
    for number in (1, 2):
        occluded = np.zeros((68, 1))
        occluded[[0, 5]] = number == 1
        mat = {"Points": points + 1, "Occ": occluded}
        io.savemat(data / f"test_annotations/{number}_points.mat", mat)
    boxes = np.array([[3.0, 5.0, 40.0, 50.0], [1.0, 1.0, 10.0, 10.0]])
    io.savemat(data / "cofw68_test_bboxes.mat", {"bboxes": boxes})
    return Tree({"cofw68": ["0001", "0002"]}, {"0001": points}, {"0001": [2, 4, 42, 54]})


def aflw19_official(root: Path) -> Tree:
    numbers = {"0/image00002": 1, "2/image00004": 2, "3/image00032": 1, "0/image00099": 1}
    names = [f"{name}.jpg" for name, count in numbers.items() for _ in range(count)]
    for name in names:
        write_image(root / "flickr" / name)
    cells = np.empty((5, 1), dtype=object)
    cells[:, 0] = names
    faces = [face_points("aflw19", seed) for seed in range(5)]
    data = np.stack([np.concatenate([(f + 1)[:, 0], (f + 1)[:, 1]]) for f in faces])
    data[4, [0, 19]] = 0  # the first landmark of the last face has no label
    mask = np.ones((5, 19))
    mask[3, 2] = 0
    box = np.tile([11.0, 91.0, 21.0, 81.0], (5, 1))  # left, right, top, bottom
    mat = {"nameList": cells, "data": data, "mask_new": mask, "bbox": box,
           "ra": np.array([[2, 1, 5, 3, 4]])}  # fmt: skip
    io.savemat(root / "AFLWinfo_release.mat", mat)
    ids = [f"{name}#{row}" for row, name in enumerate(names)]
    parts = {"aflw19": [ids[1], ids[0], ids[4]], "aflw19/test": [ids[2], ids[3]],
             "aflw19/test/frontal": [ids[2]]}  # fmt: skip
    return Tree(parts, {ids[0]: faces[0]}, {ids[0]: [10, 20, 90, 80]})


def aflw19_hrnet(root: Path) -> Tree:
    faces = [face_points("aflw19", seed) for seed in range(3)]
    names = [f"0/image0000{i}.jpg" for i in range(3)]
    rows = [
        (n, 0.4, 75.5, np.array([51.0, 61.0]), f + 1) for n, f in zip(names, faces, strict=True)
    ]
    for name in names:
        write_image(root / "images/flickr" / name)
    write_hrnet(root / "face_landmarks_aflw_train.csv", rows[:1])
    write_hrnet(root / "face_landmarks_aflw_test.csv", rows[1:])
    write_hrnet(root / "face_landmarks_aflw_test_frontal.csv", rows[2:])
    first, second, third = f"{names[0]}#0", f"{names[1]}#0", f"{names[2]}#1"
    parts = {"aflw19": [first], "aflw19/test": [second, third], "aflw19/test/frontal": [third]}
    return Tree(parts, {first: faces[0]}, {first: [10, 20, 90, 100]})  # 200 x 0.4 around (50, 60)


def wflw_official(root: Path) -> Tree:
    lists = root / "WFLW_annotations/list_98pt_rect_attr_train_test"
    lists.mkdir(parents=True)
    name = "51--Dresses/51 Dresses_wearingdress_377.jpg"
    write_image(root / "WFLW_images" / name)
    faces = [face_points("wflw98", seed) for seed in range(2)]

    def line(points: np.ndarray, flags: str) -> str:
        return f"{' '.join(f'{v:.6f}' for v in points.ravel())} 10 20 90 95 {flags} {name}\n"

    (lists / "list_98pt_rect_attr_train.txt").write_text(line(faces[0], "0 0 0 0 0 0"))
    test = line(faces[0], "1 0 0 0 0 1") + line(faces[1], "0 0 0 1 0 0")
    (lists / "list_98pt_rect_attr_test.txt").write_text(test)
    ids = [f"{name}#0", f"{name}#1"]
    parts = {"wflw": ids[:1], "wflw/test": ids, "wflw/test/largepose": ids[:1],
             "wflw/test/blur": ids[:1], "wflw/test/makeup": ids[1:]}  # fmt: skip
    return Tree(parts, {ids[1]: faces[1]}, {ids[0]: [10, 20, 90, 95]})


def wflw_hrnet(root: Path) -> Tree:
    faces = [face_points("wflw98", i) for i in range(3)]
    names = [f"0--Parade/{i}.jpg" for i in range(3)]
    centre = np.array([50.0, 60.0])
    rows = [(n, 0.5, None, centre, f) for n, f in zip(names, faces, strict=True)]
    for name in names:
        write_image(root / "images" / name)
    for flag in ("largepose", "expression", "illumination", "makeup", "occlusion", "blur"):
        write_hrnet(root / f"face_landmarks_wflw_test_{flag}.csv", rows[2:])
    write_hrnet(root / "face_landmarks_wflw_train.csv", rows[:1])
    write_hrnet(root / "face_landmarks_wflw_test.csv", rows[1:])
    ids = [f"{names[0]}#0", f"{names[1]}#0", f"{names[2]}#1"]
    parts = {"wflw": ids[:1], "wflw/test": ids[1:], "wflw/test/blur": ids[2:]}
    return Tree(parts, {ids[1]: faces[1]}, {ids[1]: [0, 10, 100, 110]})


MERL_RAV = {
    "frontal/trainset": ["image00002_1", "image00005"],
    "frontal/testset": ["image00002_2", "image00007"],
    "lefthalf/trainset": ["image00009"], "lefthalf/testset": ["image00010"],
    "righthalf/trainset": ["image00011"], "righthalf/testset": ["image00012"],
    "left/trainset": ["image00013"], "left/testset": ["image00014"],
    "right/trainset": ["image00015"], "right/testset": ["image00005_10"],
}  # fmt: skip
MERL_RAV_PARTS = {
    "merl_rav/test": ["image00002_2", "image00007", "image00010", "image00012", "image00014",
                      "image00005_10"],
    "merl_rav/test/profile": ["image00014", "image00005_10"],
    "merl_rav/train/half-profile": ["image00009", "image00011"],
    # faces whose photograph has none on the other side
    "merl_rav/disjoint": ["image00007", "image00010", "image00012", "image00014"],
    "merl_rav/train_disjoint": ["image00009", "image00011", "image00013", "image00015"],
}  # fmt: skip


def signed_rows() -> np.ndarray:
    """As in the file: landmark 3 is externally occluded, landmark 7 self-occluded."""
    rows = face_points() + 1
    rows[3] *= -1
    rows[7] = (-1, -1)
    return rows


def merl_rav(root: Path) -> Tree:
    """Labels and AFLW's photographs, apart."""
    for number, (place, stems) in enumerate(MERL_RAV.items()):
        for stem in stems:
            label = root / "merl_rav_labels" / place / f"labels/{stem}.pts"
            write_raw_pts(label, signed_rows())
            photograph = f"{stem.split('_')[0]}.jpg"
            write_image(root / "aflw/flickr" / "023"[number % 3] / photograph)
    points = face_points()
    points[7] = np.nan
    return Tree(MERL_RAV_PARTS, {"image00002_2": points})


def merl_rav_organised(root: Path) -> Tree:
    """As the set's own script puts them together."""
    for place, stems in MERL_RAV.items():
        for stem in stems:
            label = root / "merl_rav_organized" / place / f"{stem}.pts"
            write_raw_pts(label, signed_rows())
            write_image(label.with_suffix(".jpg"))
    return Tree(MERL_RAV_PARTS)


def multipie(root: Path) -> Tree:
    (root / "MPie_Labels/labels/051").mkdir(parents=True)
    for subject, session, recording in ((1, 1, 1), (2, 4, 1), (3, 1, 2)):
        stem = f"{subject:03d}_{session:02d}_{recording:02d}_051_05"
        label = root / f"MPie_Labels/labels/051/{stem}_lm.mat"
        io.savemat(label, {"pts": face_points() + 1})
        tree = f"session{session:02d}/multiview/{subject:03d}/{recording:02d}/05_1/{stem}.png"
        write_image(root / "Multi-PIE/data" / tree)
    ids = ["001_01_01_051_05", "002_04_01_051_05"]  # not the second recording
    return Tree({"multipie": ids, "multipie/session04": ids[1:]}, {ids[1]: face_points()})


def scut(root: Path) -> Tree:
    points = np.stack([np.arange(86.0), np.arange(86.0) * 0.5], axis=1).astype("<f4")
    (root / "facial landmark").mkdir(parents=True)
    for name in ("AM3", "CF12"):
        label = root / f"facial landmark/{name}.pts"
        label.write_bytes(np.int32(86).tobytes() + points.tobytes())
        write_image(root / f"Images/{name}.jpg")
    expected = np.full((68, 2), np.nan)
    same = {8: 11, 36: 46, 39: 42, 42: 54, 45: 50, 48: 79, 49: 78, 50: 77, 51: 76, 52: 75, 53: 74,
            54: 73, 33: 66, 19: 24, 24: 34}  # fmt: skip
    expected[list(same)] = points[list(same.values())]
    expected[57] = (82.5, 41.25)
    for landmark in (37, 38, 43, 44):  # at thirds of the upper lids
        x = {37: 46 - 4 / 3, 38: 46 - 8 / 3, 43: 54 - 4 / 3, 44: 54 - 8 / 3}[landmark]
        expected[landmark] = x, x / 2
    return Tree({"scut": ["AM3", "CF12"], "scut/caucasian_female": ["CF12"]}, {"CF12": expected})


def london(root: Path) -> Tree:
    """Two people, each neutral and smiling, and a template whose point i lies at (i, 2 i)."""
    templates = {}
    for person in ("001", "002"):
        for mood in ("neutral", "smiling"):
            write_image(root / f"{mood}_{person}_03.jpg")
        templates[f"neutral_{person}_03.jpg"] = [[float(i), 2.0 * i] for i in range(189)]
    (root / "points189.json").write_text(json.dumps(templates))
    neutral, smiling = (["london-001_1", "london-002_1"], ["london-001_2", "london-002_2"])
    points = np.full((68, 2), np.nan)  # the template counts from the corner of the image
    places = {36: 18, 45: 27, 21: 75, 37: 18 + 4 / 3, 8: 129, 29: (53 + 59 - 0.08 * 6) / 2}
    points[list(places)] = np.array([(x, 2 * x) for x in places.values()]) - 0.5
    parts = {"london": neutral + smiling, "london/neutral": neutral, "london/smiling": smiling}
    return Tree(parts, {neutral[0]: points, smiling[0]: np.full((68, 2), np.nan)})


def canada(root: Path) -> Tree:
    points = london(root).points["london-001_1"]
    ids = ["canada-neutral_001_03", "canada-neutral_002_03"]
    return Tree({"canada": ids}, {ids[0]: points})


def unlabelled(name: str) -> Callable[[Path], Tree]:
    def write(root: Path) -> Tree:
        write_image(root / "a.jpg")
        write_image(root / "more/b.png")
        ids = ["a", "more/b"]
        return Tree({name: ids}, dict.fromkeys(ids, np.full((68, 2), np.nan)))

    return write


TREES: dict[str, Callable[[Path], Tree]] = {
    write.__name__: write
    for write in (w300, w300lp, menpo, cofw68, aflw19_official, aflw19_hrnet, wflw_official,
                  wflw_hrnet, merl_rav, merl_rav_organised, multipie, scut, london, canada)
} | {name: unlabelled(name) for name in ("portraits", "closed_eyes")}  # fmt: skip


@pytest.fixture(autouse=True)
def _small_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUVLI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("luvli.data.sets.aflw19.TRAIN", 3)


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


def test_aflw19_masks_missing_labels_and_normaliser(tmp_path: Path) -> None:
    aflw19_official(tmp_path)
    train, test = load_set("aflw19", tmp_path), load_set("aflw19/test", tmp_path)
    assert train[2].visibility.tolist() == [Visibility.UNLABELLED] + [Visibility.UNOCCLUDED] * 18
    assert test[1].attributes["mask"][2] == 0 and test[1].visible.all()  # located, so visible
    assert test[1].attributes["box_size"] == 80.0  # the longer side
    other = tmp_path / "hrnet"
    aflw19_hrnet(other)
    assert load_set("aflw19", other)[0].attributes["box_size"] == 75.5
    (tmp_path / "AFLWinfo_release.mat").write_bytes(b"not a Matlab file")
    (problem,) = read_set("aflw19", tmp_path).problems
    assert "AFLWinfo_release.mat" in str(problem)


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
