"""The csv files that came with HRNet for AFLW-19 and WFLW, which the paper's crops use.

Columns: image, scale, [box_size,] center_w, center_h, then x and y of each landmark. The
box is the square of side 200 x scale around the centre.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luvli.data.sets.definition import Problem
from luvli.errors import InputError
from luvli.files import unreadable


class HrnetRow(NamedTuple):
    """One face, with coordinates as they stand in the file."""

    line: int
    image: str
    points: NDArray[np.float64]
    """(k, 2)"""
    box: NDArray[np.float64]
    """(4,) x0, y0, x1, y1"""
    box_size: float | None
    """AFLW-19's normaliser; None where the file has no such column"""

    @property
    def key(self) -> tuple[str, bytes]:
        """Tells the faces of one image apart, across files."""
        return self.image, self.points.tobytes()


def read_hrnet_rows(path: Path, landmarks: int) -> Iterator[HrnetRow | Problem]:
    """The faces of one file; a bad row is a problem that names its line."""
    try:
        stream = path.open(newline="", encoding="utf-8")
    except OSError as error:
        raise unreadable(path, error) from error
    with stream:
        rows = csv.reader(stream)
        header = next(rows, [])
        extra = 1 if "box_size" in header else 0
        columns = 4 + extra + 2 * landmarks
        if len(header) != columns:
            raise InputError(
                f"{path} has {len(header)} columns instead of {columns}: "
                f"it is not an HRNet file of {landmarks} landmarks."
            )
        for row in rows:
            if row:
                yield _parse(path, rows.line_num, row, columns, extra)


def _parse(path: Path, line: int, row: list[str], columns: int, extra: int) -> HrnetRow | Problem:
    place = f"{path} line {line}"
    if len(row) != columns:
        return Problem(
            place, "bad label", f"{place} has {len(row)} values instead of {columns}: mend it."
        )
    try:
        numbers = np.array([float(word) for word in row[1:]])
    except ValueError:
        return Problem(place, "bad label", f"{place} has a value that is no number: mend it.")
    half = 100 * numbers[0]
    centre = numbers[1 + extra : 3 + extra]
    return HrnetRow(
        line=line,
        image=row[0],
        points=numbers[3 + extra :].reshape(-1, 2),
        box=np.concatenate([centre - half, centre + half]),
        box_size=float(numbers[1]) if extra else None,
    )
