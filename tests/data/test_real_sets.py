"""The readers on real files: LFPW as part of 300-W, all MERL-RAV labels, YouTube Faces."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

from luvli.data import Augmentation, CropDataset, Visibility
from luvli.data.sets import load_set, read_set
from luvli.data.sets.check import check_set


@pytest.fixture(scope="module")
def w300(shared: Path) -> Path:
    folder = shared / "data/300w"
    if not folder.is_dir():
        pytest.skip("needs the LFPW faces, which are not here")
    return folder


def labelled_stems(folder: Path) -> set[str]:
    """What is there: labels with an image of their name, counted without the project."""
    images = {p.stem for p in folder.iterdir() if p.suffix.lower() in (".jpg", ".png")}
    return {p.stem for p in folder.glob("*.pts") if p.stem in images}


def test_lfpw_as_part_of_300w(w300: Path, lfpw: Path) -> None:
    faces = load_set("w300", w300, subset="lfpw")
    assert {Path(r.face_id).name for r in faces} == labelled_stems(lfpw)
    assert all(len(r.points) == 68 and r.visible.all() for r in faces)
    train = read_set("w300", w300, "train")
    wanted = ("lfpw/trainset", "helen/trainset", "afw")
    absent = {part for part in wanted if not (w300 / part).is_dir()}
    assert {problem.kind for problem in train.problems} <= {"missing folder"}
    assert len(train.problems) == len(absent)
    there = {part: labelled_stems(w300 / part) for part in wanted if part not in absent}
    assert len(train) == sum(map(len, there.values()))


def test_check_counts_what_is_there_against_the_paper(w300: Path, lfpw: Path) -> None:
    report = check_set("w300", w300)
    rows = {row.title: row for row in report.rows}
    here = len(labelled_stems(lfpw))
    row = rows["split1 train / lfpw"]
    assert (row.images, row.paper) == (here, 811)
    assert row.verdict == ("as in the paper" if here == 811 else f"{811 - here} fewer")
    for part in ("lfpw/testset", "helen/testset", "ibug"):
        if not (w300 / part).is_dir():
            assert not report.complete


def test_lfpw_crops_hold_their_faces(w300: Path) -> None:
    faces = load_set("w300", w300, subset="lfpw")
    dataset = CropDataset(faces[:40], 64)
    for sample in dataset:
        inside = ((sample["points"] > -4) & (sample["points"] < 68)).all(axis=1)
        assert inside.all()
        assert sample["image"].std() > 5
    augmented = CropDataset(faces[:8], 64, augmentation=Augmentation.recipe("A"))
    assert augmented[3, 5]["image"].shape == (64, 64, 3)


@pytest.mark.slow
@pytest.mark.seconds(10)
def test_all_merl_rav_labels(shared: Path, tmp_path: Path) -> None:
    archive = shared / "data/merl_rav_labels.tar.gz"
    if not archive.is_file():
        pytest.skip("needs MERL-RAV in research data: LUVLI_SHARED=FOLDER make test")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    parts = {
        split: read_set("merl_rav", tmp_path, split, images=False) for split in ("train", "test")
    }
    assert {split: len(part) for split, part in parts.items()} == {"train": 15449, "test": 3865}
    assert not any(part.problems for part in parts.values())
    counts = parts["test"].subset_counts()
    assert (counts["frontal"], counts["half-profile"], counts["profile"]) == (2195, 601, 1069)
    classes = np.concatenate([r.visibility for part in parts.values() for r in part])
    assert [int((classes == kind).sum()) for kind in Visibility] == [0, 166_080, 1_008_247, 139_025]
    self_occluded = {
        pose: np.mean(
            [
                (r.visibility == Visibility.SELF_OCCLUDED).mean()
                for part in parts.values()
                for r in part
                if r.attributes["pose"] == pose
            ]
        )
        for pose in ("frontal", "lefthalf", "righthalf", "left", "right")
    }
    expected = {
        "frontal": 0.0100,
        "lefthalf": 0.1011,
        "righthalf": 0.0937,
        "left": 0.3894,
        "right": 0.3754,
    }
    assert self_occluded == pytest.approx(expected, abs=1e-4)

    def photographs(split: str) -> set[str]:
        part = parts.get(split) or read_set("merl_rav", tmp_path, split, images=False)
        return {r.attributes["photograph"] for r in part}

    train, test = photographs("train"), photographs("test")
    assert len(train | test) == 14_916
    assert len(train & test) == 1089
    assert "1,089 photographs" in parts["test"].notes[0]
    assert photographs("disjoint") == test - train
    without = read_set("merl_rav", tmp_path, "test")
    assert len(without) == 0
    assert {problem.kind for problem in without.problems} == {"missing image"}
    assert len(without.problems) == 3865
