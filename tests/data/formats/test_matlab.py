"""Matlab files: what SciPy reads, and one sentence for what it cannot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from luvli.data.formats.matlab import read_matlab
from luvli.errors import InputError

io = pytest.importorskip("scipy.io")


def written(path: Path, packed: bool = False) -> bytes:
    cells = np.empty((2, 1), object)
    for i in range(2):
        cells[i, 0] = np.zeros((1, 1), [("name", object), ("gt", object)])
        cells[i, 0][0, 0] = (f"face-{i}", np.full((68, 2), i + 0.5))
    io.savemat(path, {"faces": cells, "z": np.ones(3) + 2j, "é": "wörter"}, do_compression=packed)
    return path.read_bytes()


@pytest.mark.parametrize("packed", [False, True])
def test_good_files_are_what_scipy_reads(tmp_path: Path, packed: bool) -> None:
    written(tmp_path / "a.mat", packed)
    faces, z, word = read_matlab(tmp_path / "a.mat", "faces", "z", "é")
    assert faces[1, 0]["name"][0, 0][0] == "face-1" and word == ["wörter"]
    np.testing.assert_array_equal(z, io.loadmat(tmp_path / "a.mat")["z"])
    with pytest.raises(InputError, match=r"no variable 'y' \(it holds faces, z, é\)"):
        read_matlab(tmp_path / "a.mat", "y")


@pytest.mark.parametrize("packed", [False, True])
def test_files_that_were_cut_off_are_refused(tmp_path: Path, packed: bool) -> None:
    content = written(tmp_path / "a.mat", packed)
    for size in range(0, len(content), 29):
        (tmp_path / "a.mat").write_bytes(content[:size])
        with pytest.raises(InputError, match=r"a\.mat (is not a readable Matlab file|has no var)"):
            read_matlab(tmp_path / "a.mat", "é")
