"""Miniature copies of every data set of the paper, in the layouts that docs/data.md describes."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
from PIL import Image
from scipy.io import savemat

from luvli.markup import get_markup


def face(markup: str, seed: int) -> np.ndarray:
    """(k, 2) a drawn face inside 120 x 120 pixels, first pixel (0, 0)."""
    drawing = get_markup(markup).schematic
    rng = np.random.default_rng(seed)
    return 60 + drawing * rng.uniform(28, 36) + rng.normal(0, 0.5, drawing.shape)


def pixels(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 255, (120, 120, 3), dtype=np.uint8)


def image(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels(seed)).save(path)


def pts(path: Path, points: np.ndarray) -> None:
    """Counted from 1, as all `.pts` files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = "\n".join(f"{x} {y}" for x, y in points + 1)
    path.write_text(f"version: 1\nn_points:  {len(points)}\n{{\n{rows}\n}}")


def mat(path: Path, **arrays: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, arrays)


def csv(path: Path, rows: list[str], points: int, box_size: bool) -> None:
    """HRNet's lists."""
    head = ["image_name", "scale", *(["box_size"] if box_size else []), "center_w", "center_h"]
    head += [f"original_{j}_{axis}" for j in range(points) for axis in "xy"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([",".join(head), *rows]) + "\n")


def write_all(root: Path) -> None:
    """300w, 300w_lp, menpo, cofw, aflw19, wflw, merl_rav_organized and multipie below `root`."""
    parts = ("lfpw/trainset", "lfpw/testset", "helen/trainset", "helen/testset", "afw", "ibug",
             "300W/01_Indoor", "300W/02_Outdoor")  # fmt: skip
    for seed, part in enumerate(parts, 1):
        image(root / f"300w/{part}/image_{seed}.png", seed)
        pts(root / f"300w/{part}/image_{seed}.pts", face("ibug68", seed))
    for seed, part in enumerate(("AFW", "HELEN", "IBUG", "LFPW"), 20):
        image(root / f"300w_lp/{part}/x_{seed}.jpg", seed)
        mat(root / f"300w_lp/landmarks/{part}/x_{seed}_pts.mat", pts_2d=face("ibug68", seed) + 1)
    for seed in (30, 31):
        image(root / f"menpo/release/face_{seed}.jpg", seed)
        pts(root / f"menpo/release/face_{seed}.pts", face("ibug68", seed))
    _cofw(root / "cofw")
    seed = 50
    for pose in ("frontal", "lefthalf", "righthalf", "left", "right"):
        for side in ("trainset", "testset"):
            seed += 1
            points = face("ibug68", seed)
            points[:5] = -2  # (-1, -1) counted from 1: self-occluded
            tree, name = root / "merl_rav_organized", f"image{seed:05d}"
            image(tree / f"aflw/flickr/0/{name}.jpg", seed)
            pts(tree / f"merl_rav_labels/{pose}/{side}/labels/{name}.pts", points)
    for split in ("train", "test"):
        wflw, aflw = [], []
        for i in range(4):
            seed += 1
            image(root / f"wflw/WFLW_images/0--Parade/{split}{i}.jpg", seed)
            numbers = ",".join(f"{v:.3f}" for v in face("wflw98", seed).ravel())
            wflw.append(f"0--Parade/{split}{i}.jpg,0.4,60.0,60.0,{numbers}")
            image(root / f"aflw19/flickr/0/{split}{i}.jpg", seed)
            numbers = ",".join(f"{v:.3f}" for v in (face("aflw19", seed) + 1).ravel())
            aflw.append(f"0/{split}{i}.jpg,0.4,80.0,60.0,60.0,{numbers}")
        csv(root / f"wflw/face_landmarks_wflw_{split}.csv", wflw, 98, box_size=False)
        csv(root / f"aflw19/face_landmarks_aflw_{split}.csv", aflw, 19, box_size=True)
    csv(root / "aflw19/face_landmarks_aflw_test_frontal.csv", aflw[:2], 19, box_size=True)
    for part in ("largepose", "expression", "illumination", "makeup", "occlusion", "blur"):
        csv(root / f"wflw/face_landmarks_wflw_test_{part}.csv", wflw[:2], 98, box_size=False)
    for number in (1, 2):
        stem = f"{number:03d}_01_01_051_05"
        tree = root / "multipie"
        points = face("ibug68", 90 + number)
        mat(tree / f"MPie_Labels/labels/051/{stem}_lm.mat", pts=points + 1)
        place = f"Multi-PIE/data/session01/multiview/{number:03d}/01/05_1/{stem}.png"
        image(tree / place, 90 + number)


def _cofw(root: Path) -> None:
    """Matlab 7.3: a user block with a text header, cells as references, axes reversed."""
    path = root / "COFW_color/COFW_test_color.mat"
    path.parent.mkdir(parents=True)
    with h5py.File(path, "w", userblock_size=512) as file:
        references = np.empty((1, 2), dtype=h5py.ref_dtype)
        for i in range(2):
            file[f"#refs#/{i}"] = pixels(40 + i).T
            references[0, i] = file[f"#refs#/{i}"].ref
        file["IsT"] = references
    with path.open("rb+") as stream:
        stream.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")
    for i in (1, 2):
        occluded = np.zeros((68, 1))
        occluded[i] = 1
        mat(root / f"COFW68_Data/test_annotations/{i}_points.mat",
            Points=face("ibug68", 40 + i) + 1, Occ=occluded)  # fmt: skip
    mat(root / "COFW68_Data/cofw68_test_bboxes.mat", bboxes=np.array([[20.0, 20, 80, 80]] * 2))
