"""Parquet and numpy files of other programs: other types are cast or refused, bombs are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from luvli.data.formats.checked import load_arrays
from luvli.data.formats.label_parquet import label_groups
from luvli.data.formats.parquet import read_face_table
from luvli.errors import InputError

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

POINTS = [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]


def test_other_number_types_are_cast(tmp_path: Path) -> None:
    floats = arrow.array(POINTS, arrow.list_(arrow.float32()))
    table = arrow.table({"points": floats, "score": arrow.array([1, 0], arrow.int32())})
    parquet.write_table(table, tmp_path / "a.parquet")
    read = read_face_table(tmp_path / "a.parquet")
    assert read["points"].to_pylist() == POINTS and read["score"].to_pylist() == [1.0, 0.0]
    assert read.schema.field("points").type == arrow.list_(arrow.float64())


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("points", ["1 2", "3 4"]),
        ("points", [{"x": 1.0}, {"x": 2.0}]),
        ("points", [[[1.0, 2.0]], [[3.0, 4.0]]]),
        ("frame", ["first", "second"]),
        ("accepted", [[True], [False]]),
        ("image", [[1], [2]]),
        ("source_points", [{"x": 1.0}, None]),
    ],
)
def test_other_kinds_of_columns_are_refused(tmp_path: Path, column: str, values: Any) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.table({"points": POINTS, column: values}), path)
    with pytest.raises(InputError, match=rf"a\.parquet: the column '{column}' holds"):
        read_face_table(path)


def test_files_that_unpack_to_far_more_are_refused(tmp_path: Path) -> None:
    row = arrow.array([np.zeros(136)] * 1000, arrow.list_(arrow.float64()))
    table = arrow.concat_tables([arrow.table({"points": row})] * 300)
    parquet.write_table(table, tmp_path / "a.parquet", compression="zstd")
    with pytest.raises(InputError, match=r"a\.parquet would unpack to 311 MB"):
        read_face_table(tmp_path / "a.parquet")
    labels = table.append_column("image", arrow.nulls(len(table), arrow.binary()))
    parquet.write_table(labels, tmp_path / "b.parquet", compression="zstd")
    with pytest.raises(InputError, match=r"b\.parquet would unpack"):
        next(label_groups(tmp_path / "b.parquet", ["points"]))
    np.savez_compressed(tmp_path / "a.npz", points=np.zeros((300_000, 120)))
    with pytest.raises(InputError, match=r"a\.npz would unpack to 274 MB"):
        load_arrays(tmp_path / "a.npz")
