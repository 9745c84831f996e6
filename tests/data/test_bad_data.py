"""Bad data is listed, never skipped silently."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from data_trees import face_points, write_image, write_pair, write_raw_pts

from luvli.data.sets import DataWarning, check_images, load_set, read_set
from luvli.data.sets.check import check_set
from luvli.errors import InputError


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """One good face, and one of everything that goes wrong."""
    write_pair(tmp_path, "good", face_points())
    write_raw_pts(tmp_path / "no_image.pts", face_points() + 1)
    write_image(tmp_path / "no_label.jpg")
    write_pair(tmp_path, "count", face_points()[:5])
    write_pair(tmp_path, "text", face_points())
    (tmp_path / "text.pts").write_text("version: 1\nn_points: 68\n{\nhello\n}")
    write_pair(tmp_path, "far", face_points() - (500, 0))
    write_pair(tmp_path, "one_place", np.full((68, 2), 20.0))
    return tmp_path


def test_everything_wrong_is_listed(broken: Path) -> None:
    found = read_set("folder", broken)
    assert [r.face_id for r in found] == ["good"]
    named = {Path(problem.path).stem: problem.kind for problem in found.problems}
    assert named == {
        "no_image": "missing image",
        "no_label": "missing label",
        "count": "bad label",
        "text": "bad label",
        "far": "far outside",
        "one_place": "bad label",
    }
    for problem in found.problems:
        assert Path(problem.path).name in problem.sentence
        assert "\n" not in problem.sentence


def test_loading_refuses_unless_told_to_skip(broken: Path) -> None:
    with pytest.raises(InputError, match="6 problems") as caught:
        load_set("folder", broken)
    assert "--skip-bad" in str(caught.value)
    assert "And 1 more." in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.warns(DataWarning, match="6 problems skipped, 1 faces are left"):
        found = load_set("folder", broken, skip_bad=True)
    assert len(found) == 1
    assert len(found.problems) == 6


def test_pictures_that_do_not_decode(tmp_path: Path) -> None:
    write_pair(tmp_path, "good", face_points())
    write_pair(tmp_path, "cut", face_points())
    image = tmp_path / "cut.jpg"
    image.write_bytes(image.read_bytes()[:200])
    write_pair(tmp_path, "outside", face_points() + 400)  # far right of a 100-pixel image
    found = read_set("folder", tmp_path)
    assert len(found) == 3  # looking up alone cannot tell
    problems = list(check_images(found))
    assert {Path(p.path).stem: p.kind for p in problems} == {
        "cut": "bad image",
        "outside": "far outside",
    }


def test_empty_and_wrong_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no labelled faces: it should hold images"):
        load_set("folder", tmp_path)
    with pytest.raises(InputError, match="no faces of w300: it should hold lfpw/"):
        load_set("w300", tmp_path)
    with pytest.raises(InputError, match="is not a folder"):
        load_set("w300", tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"name": "w3000"}, "did you mean 'w300'"),
        ({"name": "w300", "split": "tests"}, "did you mean 'test'"),
        ({"name": "w300", "subset": "hard"}, "unknown subset of w300"),
        ({"name": "w300", "protocol": "split3"}, "unknown protocol of w300"),
    ],
)
def test_unknown_names_list_the_choices(
    tmp_path: Path, arguments: dict[str, str], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        load_set(**arguments, root=tmp_path)


def test_a_damaged_mat_file_is_one_problem(tmp_path: Path) -> None:
    (tmp_path / "AFLWinfo_release.mat").write_bytes(b"not a Matlab file")
    found = read_set("aflw19", tmp_path)
    assert len(found.problems) == 1
    assert "AFLWinfo_release.mat" in str(found.problems[0])


def test_check_counts_labels_without_images(tmp_path: Path) -> None:
    for pose in ("frontal", "left", "lefthalf", "right", "righthalf"):
        for number, side in enumerate(("trainset", "testset")):
            label = (
                tmp_path / f"merl_rav_labels/{pose}/{side}/labels/image0000{number}_{len(pose)}.pts"
            )
            write_raw_pts(label, face_points() + 1)
    report = check_set("merl_rav", tmp_path)
    whole = report.rows[0]
    assert (whole.labels, whole.images, whole.paper) == (5, 0, 15449)
    assert not report.complete
    assert report.kinds()["missing image"] == 10
    assert len(report.to_dict()["rows"]) == len(report.rows) == 16
