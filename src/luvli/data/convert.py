"""A record in another markup."""

from __future__ import annotations

import numpy as np

from luvli.data.record import FaceRecord, Visibility
from luvli.markup import convert, sources


def change_markup(record: FaceRecord, target: str) -> FaceRecord:
    """The record's points as another point set, with the visibility of what they are made of.

    A landmark that is a mean of several takes the worst of their classes (unlabelled, then
    self-occluded, then externally occluded). Covariances are left out: the covariance of a
    mean needs correlations that nobody predicted.
    """
    if record.markup == target:
        return record
    points = convert(record.points, record.markup, target)
    rank = {
        Visibility.UNLABELLED: 0,
        Visibility.SELF_OCCLUDED: 1,
        Visibility.EXTERNALLY_OCCLUDED: 2,
        Visibility.UNOCCLUDED: 3,
    }
    classes = [
        min((Visibility(record.visibility[j]) for j in members), key=rank.__getitem__)
        for members in sources(record.markup, target)
    ]
    return record.with_changes(
        points=points,
        visibility=np.array(classes, dtype=np.int8),
        markup=target,
        covariance=None,
        visibility_probability=None,
    )
