"""Matlab files that would end the process in SciPy's reader are refused."""

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


@pytest.mark.parametrize(
    ("place", "value"),
    # SciPy 1.17.1: a segmentation fault where a cell says that it holds numbers (class byte 144),
    # and no end where a dimension is 2**27 times what it was (byte 167)
    [(144, 7), (144, 9), (144, 14), (167, 14), (167, 15)],
)
def test_one_byte_does_not_end_the_process(tmp_path: Path, place: int, value: int) -> None:
    content = bytearray(written(tmp_path / "a.mat"))
    content[place] = value
    (tmp_path / "a.mat").write_bytes(content)
    with pytest.raises(InputError, match="is not a readable Matlab file"):
        read_matlab(tmp_path / "a.mat", "z")
