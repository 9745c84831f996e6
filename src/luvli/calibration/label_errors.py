"""Label errors made on purpose, to measure how well an audit finds them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from luvli.calibration.audit import ERROR_KINDS, ErrorKind
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import check_range
from luvli.markup import get_markup


def inject_errors(
    records: Sequence[FaceRecord],
    share: float = 0.03,
    seed: int = 0,
    kinds: Sequence[ErrorKind] = ERROR_KINDS,
    shift: tuple[float, float] = (0.05, 0.15),
) -> tuple[list[FaceRecord], dict[int, ErrorKind]]:
    """The records with errors in a `share` of them; and which ones, of which kind.

    Kinds take turns. `shift` is the range of shifts in parts of the box.
    """
    check_range("the share of wrong labels", share, 0, 1, ends=False)
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(records), max(1, round(share * len(records))), replace=False)
    made = list(records)
    wrong: dict[int, ErrorKind] = {}
    for number, index in enumerate(chosen.tolist()):
        kind = kinds[number % len(kinds)]
        other = records[int(rng.integers(len(records)))]
        made[index] = corrupt_label(records[index], kind, rng, other, shift)
        wrong[index] = kind
    return made, wrong


def corrupt_label(
    record: FaceRecord,
    kind: ErrorKind,
    rng: np.random.Generator,
    other: FaceRecord,
    shift: tuple[float, float] = (0.05, 0.15),
) -> FaceRecord:
    """One label with one error."""
    points, classes = record.points.copy(), record.visibility.copy()
    located = points[record.visible]
    low, high = located.min(axis=0), located.max(axis=0)
    size, middle = float(np.sqrt((high - low).prod())), (low + high) / 2
    angle = rng.uniform(0, 2 * np.pi)
    way = np.array([np.cos(angle), np.sin(angle)])
    if kind == "shifted":
        points += rng.uniform(*shift) * size * way
    elif kind == "scaled":
        factor = float(rng.choice([rng.uniform(0.7, 0.87), rng.uniform(1.15, 1.4)]))
        points = middle + factor * (points - middle)
    elif kind == "wrong face":
        theirs = other.points[other.visible]
        start, end = theirs.min(axis=0), theirs.max(axis=0)
        ratio = size / max(float(np.sqrt((end - start).prod())), 1e-9)
        points = middle + (other.points - (start + end) / 2) * ratio
        points = points + rng.uniform(0.5, 1.2) * size * way
        classes = other.visibility.copy()
    elif kind == "swapped":
        flip = get_markup(record.markup).flip
        points, classes = points[flip], classes[flip]
    elif kind == "one landmark":
        j = int(rng.choice(np.flatnonzero(record.visible)))
        points[j] += rng.uniform(0.12, 0.3) * size * way
    else:
        turned = classes == Visibility.SELF_OCCLUDED
        if turned.sum() >= 5:  # all of it called visible, at places that nobody saw
            points[turned] = middle + rng.normal(0, 0.15, (int(turned.sum()), 2)) * size
            classes[turned] = Visibility.UNOCCLUDED
        else:  # half of a visible face called hidden
            side = points[:, 0] < middle[0] if rng.random() < 0.5 else points[:, 0] > middle[0]
            classes[side] = Visibility.SELF_OCCLUDED
    return record.with_changes(points=points, visibility=classes)
