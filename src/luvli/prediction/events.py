"""What happens to a face over time: blinks, yawns, nods, and how long the eyes were closed.

    trace = face_trace(model.track("clip.mp4"))
    find_blinks(trace), perclos(trace)

Frames whose alignment is not trusted are left out and counted. Everything follows from the measures
and their standard deviations (`luvli.measures`): an event has the probability that it took place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import erf
from typing import Literal

import numpy as np

from luvli.arrays import Bools, Floats
from luvli.errors import InputError
from luvli.face_measures import eyes_openness
from luvli.faces import Faces
from luvli.prediction.tracking import TrackedFrame

MIN_CONFIDENCE = 0.5
"""frames below it are not trusted"""
CLOSED_SHARE = 0.5
"""share of a person's usual openness below which an eye counts as closed, for models without a
calibrated probability of closed eyes"""
OPEN_MOUTH = 0.35
"""openness of the mouth from which it counts as wide open"""
MIN_YAWN = 1.0
"""seconds that a mouth is wide open in a yawn"""
MIN_NOD = 8.0
"""degrees that a head goes down and comes back by in a nod"""
MAX_NOD = 1.5
"""seconds that a nod takes at most"""

EventKind = Literal["blink", "yawn", "nod"]


@dataclass(frozen=True)
class Event:
    """Something that took place between two times."""

    kind: EventKind
    start: float
    """seconds"""
    end: float
    depth: float
    """of a blink: 1 - smallest / usual openness; of a yawn: largest openness of the mouth; of a
    nod: degrees"""
    probability: float
    """that it took place, at its deepest frame"""


@dataclass(frozen=True, eq=False)
class Trace:
    """The measures of one face over time, frame by frame."""

    time: Floats
    """(t,) seconds"""
    faces: Faces
    """the face in each of t frames"""
    trusted: Bools
    """(t,) frames whose alignment is trusted and whose eyes can be seen"""

    def __len__(self) -> int:
        return len(self.time)

    @property
    def untrusted(self) -> int:
        """Frames that are left out."""
        return int((~self.trusted).sum())

    def measure(self, name: str) -> tuple[Floats, Floats]:
        """(t,) values and standard deviations of a measure."""
        measure = self.faces.measures[name]
        return np.asarray(measure.value), np.asarray(measure.std)

    def openness(self) -> tuple[Floats, Floats]:
        """(t,) openness of the eyes and its standard deviation."""
        return eyes_openness(self.faces, self.faces.error_factors, self.faces.measure_scale)

    def closed(self) -> Floats:
        """(t,) probability that the eyes are closed."""
        if np.isfinite(self.faces.eyes_closed).all() and len(self):
            return self.faces.eyes_closed
        value, std = self.openness()
        return _below(value, std, CLOSED_SHARE * self.usual_openness())

    def usual_openness(self) -> float:
        """Openness of this person's eyes when they are open: the upper quartile."""
        value, _ = self.openness()
        return float(np.quantile(value[self.trusted], 0.75)) if self.trusted.any() else np.nan


def face_trace(
    frames: Iterable[TrackedFrame], track: int | None = None, min_confidence: float = MIN_CONFIDENCE
) -> Trace:
    """The face that was tracked longest, or that with the number `track`, frame by frame."""
    tracked = [item.faces for item in frames if len(item.faces) and item.faces.track is not None]
    if not tracked:
        raise InputError("no face was tracked: there is nothing to measure over time.")
    faces = Faces.concatenate(tracked)
    tracks = np.asarray(faces.track)
    numbers, counts = np.unique(tracks, return_counts=True)
    chosen = int(numbers[counts.argmax()]) if track is None else track
    if chosen not in numbers:
        raise InputError(f"no face has the track {chosen}: there are {numbers.tolist()}.")
    faces = faces[tracks == chosen]
    sure = ~(faces.confidence < min_confidence)  # NaN (a model without confidence) counts as sure
    if faces.visibility_trained:
        eyes = faces["eyes"].visibility.reshape(len(faces), 2, -1).mean(axis=2)
        sure &= eyes.max(axis=1) > 0.5
    return Trace(np.asarray(faces.time), faces, np.asarray(sure))


def find_blinks(trace: Trace, max_seconds: float = 0.6) -> list[Event]:
    """Closings of the eyes that open again within `max_seconds`."""
    closed = trace.closed()
    value, _ = trace.openness()
    usual = trace.usual_openness()
    events = []
    for span, start, end in _spans(trace, closed > 0.5):
        whole = span.start > 0 and span.stop < len(trace)  # it began and ended here
        if whole and end - start <= max_seconds:
            depth = 1 - float(value[span].min()) / usual
            events.append(Event("blink", start, end, depth, float(closed[span].max())))
    return events


def find_yawns(trace: Trace) -> list[Event]:
    """Times in which the mouth stays wide open for a second or longer."""
    value, std = trace.measure("mouth_openness")
    wide = 1 - _below(value, std, OPEN_MOUTH)
    return [
        Event("yawn", start, end, float(value[span].max()), float(np.median(wide[span])))
        for span, start, end in _spans(trace, wide > 0.5)
        if end - start >= MIN_YAWN
    ]


def find_nods(trace: Trace) -> list[Event]:
    """Times in which the head goes down and comes up again within `MAX_NOD` seconds."""
    pitch, _ = trace.measure("pitch")
    # errors of pitch are nearly the same in neighbouring frames: what counts is how it changes
    change = np.diff(pitch[trace.trusted])
    noise = 1.4826 * np.median(np.abs(change - np.median(change))) if len(change) > 2 else 1.0
    frames = np.flatnonzero(trace.trusted)
    events: list[Event] = []
    end = -np.inf
    for middle in frames:
        time = trace.time[middle]
        if time <= end:
            continue
        near = frames[np.abs(trace.time[frames] - time) <= MAX_NOD / 2]
        before, after = near[near < middle], near[near > middle]
        if not len(before) or not len(after) or pitch[middle] > pitch[near].min():
            continue
        top, bottom = before[np.argmax(pitch[before])], after[np.argmax(pitch[after])]
        depth = float(min(pitch[top], pitch[bottom]) - pitch[middle])
        probability = 1 - float(_below(np.array([depth]), np.array([2 * noise]), MIN_NOD)[0])
        if probability > 0.5:
            end = float(trace.time[bottom])
            events.append(Event("nod", float(trace.time[top]), end, depth, probability))
    return events


def perclos(trace: Trace, since: float | None = None) -> float:
    """Share of the time, in trusted frames, in which the eyes are closed (PERCLOS); of the last
    `since` seconds, or of all. NaN where no frame is trusted."""
    chosen = trace.trusted.copy()
    if since is not None and len(trace):
        chosen &= trace.time >= trace.time[-1] - since
    return float(trace.closed()[chosen].mean()) if chosen.any() else float("nan")


def _below(value: Floats, std: Floats, threshold: float) -> Floats:
    """(t,) probability that the true value lies below the threshold."""
    z = (threshold - value) / np.maximum(std, 1e-9) / np.sqrt(2)
    return np.array([(1 + erf(each)) / 2 for each in z.tolist()])


def _spans(trace: Trace, mask: Bools) -> Iterator[tuple[slice, float, float]]:
    """Each run of trusted frames of the mask, and its start and end: half-way to the frames beside
    it."""
    edges = np.flatnonzero(np.diff((mask & trace.trusted).astype(int), prepend=0, append=0))
    times = np.pad(trace.time, 1, mode="edge")
    middles = (times[1:] + times[:-1]) / 2
    for first, stop in edges.reshape(-1, 2).tolist():
        yield slice(first, stop), float(middles[first]), float(middles[stop])
