"""The .pts format and MERL-RAV's signs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from luvli.data import Visibility
from luvli.data.formats import read_pts, write_pts
from luvli.errors import LossWarning


def test_counts_from_one_and_reads_signs(tmp_path: Path) -> None:
    path = tmp_path / "a.pts"
    path.write_text("version: 1\nn_points:  4\n{\n10.5 20.25\n-30.0 -40.5\n-1 -1\n7 1\n}")
    points, visibility = read_pts(path)
    np.testing.assert_array_equal(points, [[9.5, 19.25], [29, 39.5], [np.nan, np.nan], [6, 0]])
    assert visibility.tolist() == [1, 2, 0, 1]


def test_unsigned_reading_keeps_places_outside_the_image(tmp_path: Path) -> None:
    path = tmp_path / "a.pts"
    path.write_text("version: 1\nn_points: 2\n{\n-3 -4\n-3 4\n}\n")
    points, visibility = read_pts(path, signed=False)
    np.testing.assert_array_equal(points, [[-4, -5], [-4, 3]])
    assert (visibility == Visibility.UNOCCLUDED).all()
    assert read_pts(path).visibility.tolist() == [2, 1]  # one negative alone is a place


@given(
    rows=st.lists(
        st.tuples(st.floats(0, 5000), st.floats(0, 5000), st.sampled_from([0, 1, 2])), min_size=1
    ).filter(lambda rows: any(row[2] for row in rows))
)
def test_round_trip(
    rows: list[tuple[float, float, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("pts") / "a.pts"
    classes = np.array([row[2] for row in rows])
    points = np.array([row[:2] for row in rows])
    points[classes == 0] = np.nan
    write_pts(path, points, classes)
    again = read_pts(path)
    np.testing.assert_array_equal(again.visibility, classes)
    np.testing.assert_allclose(again.points, points, atol=2e-6)


def test_losses_are_named(tmp_path: Path) -> None:
    with pytest.warns(LossWarning, match="unlabelled"):
        write_pts(tmp_path / "a.pts", [[1, 2], [np.nan, np.nan]], [1, -1])
    with pytest.warns(LossWarning, match="outside the image"):
        write_pts(tmp_path / "b.pts", [[1, 2], [-5, 3]], [1, 2])
