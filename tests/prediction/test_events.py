"""Blinks, yawns, nods and PERCLOS with known timing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.faces import Faces
from luvli.markup import get_markup
from luvli.measures.head_fit import mean_head
from luvli.measures.rotation import rotation_matrix
from luvli.prediction.events import face_trace, find_blinks, find_nods, find_yawns, perclos
from luvli.prediction.tracking import TrackedFrame
from luvli.prediction.video import Frame

RATE = 30.0
NO_IMAGE = np.empty((0, 0, 3), np.uint8)


def clip(
    seconds: float, change: Callable[[float, Floats], None], **fields: object
) -> list[TrackedFrame]:
    """A noisy face that `change` alters at each time; points (68, 3) in cm, y up."""
    rng = np.random.default_rng(0)
    items = []
    for i in range(int(seconds * RATE)):
        head = mean_head().mean.copy()
        change(i / RATE, head)
        points = head[:, :2] * (12, -12) + (200, 200) + rng.normal(0, 0.3, (68, 2))
        values: dict[str, object] = {
            "points": points[None], "covariance": np.tile(0.09 * np.eye(2), (1, 68, 1, 1)),
            "visibility": np.full((1, 68), 0.95), "boxes": [[100, 100, 300, 300]],
            "track": [4], "time": [i / RATE], "confidence": [0.9],
        }  # fmt: skip
        faces = Faces(**(values | {name: fn(i / RATE) for name, fn in fields.items()}))  # type: ignore
        items.append(TrackedFrame(Frame(i, i / RATE, NO_IMAGE), faces))
    return items


def close_eyes(head: Floats, share: float) -> None:
    for name in ("right eye", "left eye"):
        eye = list(get_markup("ibug68").find(name))
        middle = head[eye, 1].mean()
        head[eye, 1] = middle + (1 - share) * (head[eye, 1] - middle)


def test_blinks_have_their_times() -> None:
    blinks = [(1.0, 1.2), (2.5, 2.75)]

    def change(time: float, head: Floats) -> None:
        if any(start <= time <= end for start, end in blinks):
            close_eyes(head, 0.95)

    trace = face_trace(clip(4, change))
    events = find_blinks(trace)
    assert [(e.start, e.end) for e in events] == [pytest.approx(b, abs=1.1 / RATE) for b in blinks]
    assert all(e.probability > 0.95 and 0.8 < e.depth <= 1 for e in events)
    shut = sum(end - start for start, end in blinks) / 4
    assert perclos(trace) == pytest.approx(shut, abs=0.03)
    assert perclos(trace, since=1.0) < 0.02 and not find_yawns(trace) and not find_nods(trace)


def test_long_closures_are_no_blinks_but_count() -> None:
    def change(time: float, head: Floats) -> None:
        close_eyes(head, 0.95 if 1 <= time < 2.5 else 0.0)

    trace = face_trace(clip(4, change))
    assert find_blinks(trace) == []
    assert perclos(trace) == pytest.approx(1.5 / 4, abs=0.03)


def test_frames_that_are_not_trusted_are_left_out_and_counted() -> None:
    def change(time: float, head: Floats) -> None:
        close_eyes(head, 0.95 if 1 <= time <= 1.2 else 0.0)

    def doubt(time: float) -> list[float]:
        return [0.1 if 0.9 <= time <= 1.3 else 0.9]

    trace = face_trace(clip(3, change, confidence=doubt))
    assert find_blinks(trace) == [] and trace.untrusted == 13
    assert perclos(trace) < 0.01


def test_yawns_and_nods() -> None:
    mouth_low = [*range(54, 60), *range(64, 68), *range(5, 12)]

    def change(time: float, head: Floats) -> None:
        head[mouth_low, 1] -= 3.0 if 1 <= time < 3 else 0.0
        nod = 20 * np.exp(-(((time - 4.5) / 0.2) ** 2))
        head[:] = head @ rotation_matrix(0.0, -nod, 0.0).T

    trace = face_trace(clip(6, change))
    [yawn] = find_yawns(trace)
    assert (yawn.start, yawn.end) == pytest.approx((1, 3), abs=0.1) and yawn.depth > 0.35
    [nod] = find_nods(trace)
    assert nod.start < 4.5 < nod.end and nod.depth == pytest.approx(20, abs=4)
    assert nod.probability > 0.9


def test_the_longest_track_is_taken_and_missing_ones_are_named() -> None:
    items = clip(1, lambda time, head: None)
    assert len(face_trace(items)) == 30 and len(face_trace(items, track=4)) == 30
    with pytest.raises(InputError, match="no face has the track 9"):
        face_trace(items, track=9)
    with pytest.raises(InputError, match="no face was tracked"):
        face_trace([TrackedFrame(items[0].frame, Faces.empty("ibug68"))])
