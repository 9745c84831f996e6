"""Miniature trees of every data set, in the exact layout that its reader expects."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from data_trees import face_points, write_hrnet, write_image, write_pair, write_raw_pts

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


def aflw19(root: Path) -> Tree:
    faces = [face_points("aflw19", seed) for seed in range(3)]
    faces[1][0] = -1  # 0, 0 in the file: no label
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
    for write in (w300, w300lp, menpo, cofw68, aflw19, wflw_official,
                  wflw_hrnet, merl_rav, merl_rav_organised, multipie, scut, london, canada)
} | {name: unlabelled(name) for name in ("portraits", "closed_eyes")}  # fmt: skip
