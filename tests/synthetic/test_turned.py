"""Photographs turned out of plane, on rendered faces whose truth is known at every pose."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("numba")

from luvli.cli.data import data as data_command
from luvli.data.formats import read_pts, write_pts
from luvli.data.record import Visibility
from luvli.data.sets import load_set
from luvli.errors import InputError
from luvli.synthetic import Sample, TurnedFaces, label_face, load_head, render_face
from luvli.synthetic.fit import FittedHead, fit_photograph
from luvli.synthetic.heads.head import Head
from luvli.synthetic.turned.drape import turn_face

NOTHING = np.zeros(68, bool)


@pytest.fixture(scope="module")
def head() -> Head:
    return load_head("procedural")


@pytest.fixture(scope="module")
def photograph(head: Head) -> Sample:
    return render_face(11, head, 160, pose=(8.0, 3.0, -4.0), occluders=False, effects=False)


@pytest.fixture(scope="module")
def fit(head: Head, photograph: Sample) -> FittedHead:
    fitted = fit_photograph(head, photograph.all_points)
    assert fitted is not None
    return fitted


@pytest.mark.parametrize(("seed", "pose"), [(3, (0, 0, 0)), (4, (20, -8, 12)), (3, (-35, 5, -20))])
def test_the_fit_finds_the_pose_and_the_labels(
    head: Head, seed: int, pose: tuple[float, float, float]
) -> None:
    fit = fit_photograph(head, label_face(seed, head, 200, pose=pose).points)
    assert fit is not None and fit.error < 0.015
    assert abs(fit.yaw - pose[0]) < 6
    roll = np.degrees(np.arctan2(fit.rotation[0, 1], fit.rotation[1, 1]))
    assert abs(roll - pose[2]) < 4


def test_what_is_no_face_is_not_fitted(head: Head) -> None:
    points = np.full((68, 2), np.nan)
    assert fit_photograph(head, points) is None
    points[:31] = 5.0
    assert fit_photograph(head, points) is None
    mirrored = label_face(3, head, 200, pose=(0, 0, 0)).points * (-1, 1)
    fit = fit_photograph(head, mirrored)
    assert fit is None or fit.error > 0.035


def test_turning_by_nothing_gives_the_photograph_back(
    head: Head, photograph: Sample, fit: FittedHead
) -> None:
    same = turn_face(head, fit, photograph.image, photograph.all_points, NOTHING, 0.0)
    assert np.linalg.norm(same.points - photograph.all_points, axis=1).mean() < 1.5
    x0, y0, x1, y1 = photograph.record.tight_box.astype(int)
    inside = np.s_[y0 + 10 : y1 - 10, x0 + 15 : x1 - 15]
    difference = np.abs(same.image[inside].astype(int) - photograph.image[inside])
    assert np.median(difference) < 8


@pytest.mark.parametrize("yaw", [-60.0, 55.0])
def test_labels_are_those_of_a_face_rendered_at_that_pose(
    head: Head, photograph: Sample, fit: FittedHead, yaw: float
) -> None:
    """The same person at the other pose, rendered: the truth that no photograph has."""
    turned = turn_face(head, fit, photograph.image, photograph.all_points, NOTHING, yaw - fit.yaw)
    truth = render_face(11, head, 160, pose=(yaw, 3.0, -4.0), occluders=False, effects=False)
    visible = truth.record.visible & (turned.visibility > Visibility.SELF_OCCLUDED)
    agree = truth.record.visible == (turned.visibility > Visibility.SELF_OCCLUDED)
    assert agree.mean() > 0.85
    ours, theirs = (p[visible] - p[visible].mean(axis=0) for p in (turned.points, truth.all_points))
    scale = np.linalg.norm(theirs) / np.linalg.norm(ours)
    error = np.linalg.norm(scale * ours - theirs, axis=1) / np.ptp(theirs, axis=0).max()
    assert error.mean() < 0.035


def test_covered_landmarks_stay_covered_where_they_are_visible(
    head: Head, photograph: Sample, fit: FittedHead
) -> None:
    covered = NOTHING.copy()
    covered[[36, 45, 57]] = True
    turned = turn_face(head, fit, photograph.image, photograph.all_points, covered, 70.0)
    assert turned.visibility[57] == Visibility.EXTERNALLY_OCCLUDED
    assert set(turned.visibility[[36, 45]]) == {
        Visibility.EXTERNALLY_OCCLUDED,
        Visibility.SELF_OCCLUDED,
    }


def test_the_procedural_head_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ICT FaceKit"):
        TurnedFaces("procedural", str(tmp_path), 1)


def test_the_command_turns_a_folder(shared: Path, tmp_path: Path) -> None:
    model = shared / "data/ict_facekit.npz"
    if not model.is_file():
        pytest.skip("needs ICT FaceKit in research data: LUVLI_SHARED=FOLDER make test")
    folder = tmp_path / "faces"
    folder.mkdir()
    for seed in range(2):
        sample = render_face(seed, model, 128, pose=(5, 0, 0), occluders=False)
        cv2.imwrite(str(folder / f"{seed}.png"), sample.image[..., ::-1])
        write_pts(folder / f"{seed}.pts", sample.all_points)
    out = tmp_path / "out"
    command = ["profile", "folder", str(folder), "--head", str(model), "--out", str(out)]
    result = CliRunner().invoke(data_command, [*command, "--faces", "3", "--workers", "1"])
    assert result.exit_code == 0 and "3 faces written" in result.output
    hidden = [(read_pts(label).visibility == 0).sum() for label in sorted(out.glob("*.pts"))]
    assert len(hidden) == 3 and max(hidden) > 5
    assert len(list(out.glob("*.jpg"))) == len(load_set("folder", out)) == 3
