"""Sets of faces on disk: written, read back, continued, refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("numba")

from luvli.cli.data import data as data_command
from luvli.data.formats import read_pts
from luvli.data.record import Visibility
from luvli.errors import InputError
from luvli.image.read import read_image
from luvli.synthetic import SyntheticFaces, synthesize


def test_labels_are_read_back(tmp_path: Path) -> None:
    faces = SyntheticFaces(count=4, size=48, seed=1, pose="profile")
    assert synthesize(tmp_path, faces, workers=1) == 4
    for i in range(4):
        sample = faces[i]
        points, visibility = read_pts(tmp_path / f"{i:06d}.pts", 68)
        assert (visibility == sample.record.visibility).all()
        assert np.allclose(points, sample.record.points, atol=1e-5, equal_nan=True)
        assert (visibility == Visibility.SELF_OCCLUDED).any()
        difference = read_image(tmp_path / f"{i:06d}.jpg").astype(int) - sample.image
        assert np.abs(difference).mean() < 4  # what JPEG costs


def test_a_run_is_continued_and_extended(tmp_path: Path) -> None:
    synthesize(tmp_path, SyntheticFaces(count=3, size=32), workers=1)
    kept = (tmp_path / "000000.jpg").stat().st_mtime_ns
    lost = (tmp_path / "000001.jpg").read_bytes()
    (tmp_path / "000001.jpg").unlink()
    (tmp_path / "000001.pts").unlink()  # as after an interruption
    assert synthesize(tmp_path, SyntheticFaces(count=5, size=32), workers=1) == 3
    assert (tmp_path / "000000.jpg").stat().st_mtime_ns == kept
    assert (tmp_path / "000001.jpg").read_bytes() == lost
    assert len(list(tmp_path.glob("*.pts"))) == 5
    assert synthesize(tmp_path, SyntheticFaces(count=5, size=32), workers=1) == 0
    with pytest.raises(InputError, match="another seed"):
        synthesize(tmp_path, SyntheticFaces(count=1, size=32, seed=5), workers=1)


@pytest.mark.slow
def test_processes_write_the_same_faces(tmp_path: Path) -> None:
    faces = SyntheticFaces(count=6, size=32)
    synthesize(tmp_path / "one", faces, workers=1)
    synthesize(tmp_path / "two", faces, workers=2)
    for file in sorted((tmp_path / "one").iterdir()):
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()


def test_command_line(tmp_path: Path) -> None:
    out = tmp_path / "faces"
    options = ["--faces", "2", "--size", "32", "--workers", "1", "--pose", "half-profile"]
    result = CliRunner().invoke(data_command, ["synthesize", *options, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "2 faces written" in result.output
    assert sorted(file.suffix for file in out.glob("00*")) == [".jpg", ".jpg", ".pts", ".pts"]
