"""Points of other labellers as the 68 landmarks; `points.toml` says which are which."""

from __future__ import annotations

import numpy as np

from luvli.arrays import Floats
from luvli.files import packaged_toml
from luvli.image.polyline import points_along

POINTS = packaged_toml(__package__, "points.toml")


def as_ibug68(points: Floats, data_set: str) -> Floats:
    """Points (k, 2) of a data set as (68, 2); NaN where it has none."""
    facts = POINTS[data_set]
    places: list[list[Floats]] = [[] for _ in range(68)]
    for line in facts["lines"]:
        along = points_along(points[line["line"]], line["parts"])
        for landmark, place in zip(line["landmarks"], along, strict=True):
            places[landmark].append(place)
    for landmark, of in facts["means"].items():
        places[int(landmark)].append(points[of].mean(axis=0))
    nowhere = np.full(2, np.nan)
    return np.array([np.mean(place, axis=0) if place else nowhere for place in places])
