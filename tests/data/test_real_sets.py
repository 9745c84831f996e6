"""The readers on real files: LFPW as part of 300-W, all MERL-RAV labels."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

from luvli.data import CropDataset, Visibility
from luvli.data.sets import load_set, read_set
from luvli.data.sets.check import check_set


def test_lfpw_as_part_of_300w(shared: Path, lfpw: Path) -> None:
    root = shared / "data/300w"
    images = {p.stem for p in lfpw.iterdir() if p.suffix.lower() in (".jpg", ".png")}
    stems = {p.stem for p in lfpw.glob("*.pts") if p.stem in images}
    faces = load_set("w300", root, subset="lfpw")
    assert {Path(r.face_id).name for r in faces} == stems
    assert all(len(r.points) == 68 and r.visible.all() for r in faces)
    for face in faces[::40]:  # the numbers of the file less one
        body = (lfpw / f"{Path(face.face_id).name}.pts").read_text().split("{")[1].split("}")[0]
        np.testing.assert_array_equal(face.points.ravel(), np.array(body.split(), float) - 1)
    for sample in CropDataset(faces[:20], 64):
        assert ((sample["points"] > -4) & (sample["points"] < 68)).all()
        assert sample["image"].std() > 5
    rows = {row.title: row for row in check_set("w300/train", root).rows}
    row = rows["split1 train / lfpw"]
    assert (row.images, row.paper) == (len(stems), 811)
    assert row.verdict == ("as in the paper" if len(stems) == 811 else f"{811 - len(stems)} fewer")


@pytest.mark.slow
@pytest.mark.seconds(10)
def test_all_merl_rav_labels(shared: Path, tmp_path: Path) -> None:
    archive = shared / "data/merl_rav_labels.tar.gz"
    if not archive.is_file():
        pytest.skip("needs MERL-RAV in research data: LUVLI_SHARED=FOLDER make test")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    train, test, disjoint = (
        read_set("merl_rav", tmp_path, split, images=False)
        for split in ("train", "test", "disjoint")
    )
    assert (len(train), len(test)) == (15449, 3865) and not train.problems + test.problems
    counts = test.subset_counts()
    assert (counts["frontal"], counts["half-profile"], counts["profile"]) == (2195, 601, 1069)
    classes = np.concatenate([r.visibility for r in [*train, *test]])
    assert [int((classes == kind).sum()) for kind in Visibility] == [0, 166_080, 1_008_247, 139_025]
    hidden = {
        pose: np.mean([~r.visible for r in [*train, *test] if r.attributes["pose"] == pose])
        for pose in ("frontal", "lefthalf", "righthalf", "left", "right")
    }
    paper = [0.0100, 0.1011, 0.0937, 0.3894, 0.3754]
    np.testing.assert_allclose(list(hidden.values()), paper, atol=1e-4)
    one, other, apart = (
        {r.attributes["photograph"] for r in part} for part in (train, test, disjoint)
    )
    assert (len(one | other), len(one & other)) == (14_916, 1089) and apart == other - one
    assert "1,089 photographs" in test.notes[0]
    without = read_set("merl_rav", tmp_path, "test")
    assert {problem.kind for problem in without.problems} == {"missing image"}
    assert (len(without), len(without.problems)) == (0, 3865)
