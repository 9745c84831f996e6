"""Points along a line that others have drawn through given points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from luvli.arrays import Floats


def points_along(line: Floats, parts: Sequence[float], values: Floats | None = None) -> Floats:
    """Points (k, 2) at these `parts` (0 to 1) of the length of a line (m, 2).

    With `values` (m, d), what they are there, (k, d), instead.

    >>> points_along(np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 4.0]]), (0.25, 0.75)).tolist()
    [[2.0, 0.0], [4.0, 2.0]]
    """
    steps = np.linalg.norm(np.diff(line, axis=0), axis=1)
    at = np.concatenate([[0.0], np.cumsum(steps)])
    wanted = np.asarray(parts) * at[-1]
    columns = (line if values is None else values).T
    return np.stack([np.interp(wanted, at, column) for column in columns], axis=1)
