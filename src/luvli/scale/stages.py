"""What is done to a part on a Ray cluster. A part is one row.

Where the network runs on the processor, a worker for each core takes a part the whole way: crops
go nowhere. A graphics card is faster than a core can read: there the parts are read and cut by
tasks on the processor (`Read`), and the network's process does the rest.

What ends a job (a target that is full, a source that is gone) goes through the pipeline as an
`InputError` in place of a result: of an exception Ray keeps no more than its text.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from luvli.errors import InputError
from luvli.prediction.result import Result
from luvli.prediction.tracking import Tracker, smooth_tracks, track_frames
from luvli.scale.isolated import IsolatedReader, ReaderDied
from luvli.scale.landmarks import AT_A_TIME, Landmarks, Predicted
from luvli.scale.output import PartCounts, PredictedPart, write_part
from luvli.scale.parts import Part
from luvli.scale.plan import undone
from luvli.scale.prepare import Ready
from luvli.scale.settings import WorkerSettings

BUDGET = 96 << 20
"""bytes of crops that one row carries to the network; what a crowd has beyond, the network's
process reads itself, a little at a time"""
VIDEO_ATTEMPTS = 3

_Row = dict[str, Any]


_readers: dict[str, IsolatedReader] = {}


def _reader(settings: Any) -> IsolatedReader:
    """One reader for each worker process and job, kept from part to part."""
    import ray

    key = settings.hex()
    if key not in _readers:
        for old in list(_readers):
            _readers.pop(old).close()
        _readers[key] = IsolatedReader(ray.get(settings))
    return _readers[key]


def find_undone(row: _Row, target: str) -> list[_Row]:
    """A chunk of the plan -> its parts that have no result yet."""
    return [{"part": part.to_json()} for part in undone(target, int(row["item"]))]


class Read:
    """For networks on a graphics card: images of a part, read, searched, cut. Videos pass: their
    faces are followed."""

    def __init__(self, settings: Any) -> None:
        """`settings`: reference to `ReadSettings` in the object store."""
        self.settings = settings

    @property
    def reader(self) -> IsolatedReader:
        """Of the process in which the task runs."""
        return _reader(self.settings)

    def __call__(self, row: _Row) -> _Row:
        part = Part.from_json(row["part"])
        ready: list[Ready] = []
        if part.kind != "video":
            size = 0
            try:
                for one in self.reader.images(part):
                    ready.append(one)
                    size += one.size
                    if size > BUDGET:
                        break
            except InputError as error:
                return {"part": row["part"], "ready": _packed(error)}
        return {"part": row["part"], "ready": pickle.dumps(ready, protocol=5)}


class Network:
    """An actor that does parts, with a child that cannot crash it. It writes, too: a further step
    would cost another process, and writing is a tenth of the work."""

    def __init__(self, settings: Any) -> None:
        import ray

        self.settings: WorkerSettings = ray.get(settings)
        apart = self.settings.provider != "cpu"
        self.reader = IsolatedReader(self.settings.read if apart else self.settings)
        if not apart:
            self.reader.start()

    @cached_property
    def landmarks(self) -> Landmarks:
        """The network in this process: for videos, and for parts that others have read."""
        return Landmarks(self.settings.predictor(), self.settings.job)

    def __call__(self, row: _Row) -> _Row:
        part = Part.from_json(row["part"])
        done = PredictedPart(part, [], [])
        try:
            if part.kind == "video":
                self._video(done)
            elif "ready" in row:
                ready: list[Ready] | InputError = pickle.loads(row["ready"])
                if isinstance(ready, InputError):
                    return {"counts": row["ready"]}
                _add(done, self.landmarks(ready))
                self._rest(done, len(ready))
            else:
                _add(done, self.reader.results(part))
            return {"counts": pickle.dumps(self._written(done))}
        except InputError as error:
            return {"counts": _packed(error)}

    def _written(self, done: PredictedPart) -> PartCounts:
        """Write the part's file."""
        began = time.perf_counter()
        counts = write_part(self.settings.target, done)
        counts.seconds["write"] = time.perf_counter() - began
        counts.errors.clear()  # they are in the file
        return counts

    def _rest(self, done: PredictedPart, start: int) -> None:
        """What is too much for one row: read here, a little at a time."""
        if start == done.part.count:
            return
        rest: list[Ready] = []
        for one in self.reader.images(done.part, start):
            rest.append(one)
            if sum(r.size for r in rest) > AT_A_TIME:
                _add(done, self.landmarks(rest))
                rest = []
        _add(done, self.landmarks(rest))

    def _video(self, done: PredictedPart) -> None:
        """Follow the faces of a segment; what cannot be decoded is accounted for at its end."""
        part, began = done.part, time.perf_counter()
        error = str(part.about.get("error", ""))  # it could not be opened when it was planned
        for attempt in range(1, VIDEO_ATTEMPTS + 1) if not error else ():
            done.results.clear()
            done.filtered = 0
            try:
                for result in self._followed(part):
                    kept = self.settings.job.kept(result)
                    done.filtered += len(result.faces) - len(kept.faces)
                    done.results.append(kept)
                break
            except InputError as damage:
                error = str(damage)
                break
            except ReaderDied as death:
                error = f"{part.place} {death} in frames {part.about['first_frame']} and after."
                if attempt < VIDEO_ATTEMPTS:
                    error = ""
        missing = part.count - len(done.results)
        sentence = error or f"{part.place}: {missing} frames could not be decoded."
        done.results += [sentence] * max(missing, 0)
        done.names += [part.place] * len(done.results)
        done.seconds["video"] = time.perf_counter() - began

    def _followed(self, part: Part) -> Iterator[Result]:
        tracker = Tracker(self.landmarks.predictor, self.settings.job.min_score)
        tracked = track_frames(self.reader.frames(part), tracker)
        if self.settings.job.smooth:
            tracked = smooth_tracks(tracked)
        return (Result.of_frame(part.place, item) for item in tracked)


def _add(done: PredictedPart, images: Iterable[Predicted]) -> None:
    """Further images of a part."""
    for one in images:
        done.names.append(one.name)
        done.results.append(one.result)
        done.filtered += one.filtered
        for stage, spent in one.seconds.items():
            done.seconds[stage] = done.seconds.get(stage, 0.0) + spent


def written(row: _Row) -> PartCounts:
    """What came of a part, after all steps; the error that ends the job."""
    found: PartCounts | InputError = pickle.loads(row["counts"])
    if isinstance(found, InputError):
        raise found
    return found


def _packed(error: InputError) -> bytes:
    return pickle.dumps(type(error)(str(error)))
