"""The two steps of a part on a Ray cluster: read; network and write. A part is one row.

What ends a job (a target that is full, a source that is gone) goes through the pipeline as an
`InputError` in place of a result: of an exception Ray keeps no more than its text.
"""

from __future__ import annotations

import hashlib
import pickle
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from luvli.errors import InputError
from luvli.faces import FaceLandmarks
from luvli.prediction.job_settings import JobSettings
from luvli.prediction.predictor import Predictor, load
from luvli.prediction.result import Result
from luvli.prediction.track import Follower, follow, smoothed
from luvli.scale.isolated import IsolatedReader, ReaderDied
from luvli.scale.output import PartCounts, PredictedPart, write_part
from luvli.scale.parts import Part
from luvli.scale.plan import undone
from luvli.scale.prepare import ReadSettings, Ready

BUDGET = 96 << 20
"""bytes of crops that one row carries to the network; what a crowd has beyond, the network's
process reads itself, a little at a time"""
AT_A_TIME = 8 << 20
"""bytes of crops that go through the network together"""
VIDEO_ATTEMPTS = 3

_Row = dict[str, Any]


@dataclass(frozen=True)
class WorkerSettings:
    """Everything that a worker needs; put into the object store once."""

    target: str
    model: bytes
    """the model file, so that no node needs it"""
    suffix: str
    """its kind: .onnx or .safetensors"""
    read: ReadSettings
    job: JobSettings
    provider: str = "cpu"
    accept_from: float | None = None

    def predictor(self) -> Predictor:
        """The model, on one thread."""
        digest = hashlib.sha256(self.model).hexdigest()[:16]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{digest}{self.suffix}"
            path.write_bytes(self.model)
            predictor = load(path, threads=1, providers=[self.provider])
        predictor.detector = self.read.detector
        predictor.small_faces = self.read.small_faces
        predictor.accept_from = self.accept_from
        return predictor


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
    """Step 1: images of a part, read, searched, cut. Videos pass: their faces are followed."""

    def __init__(self, settings: Any) -> None:
        """`settings`: reference to `ReadSettings` in the object store."""
        self.settings = settings

    def __call__(self, row: _Row) -> _Row:
        part = Part.from_json(row["part"])
        ready: list[Ready] = []
        if part.kind != "video":
            size = 0
            try:
                for one in _reader(self.settings).images(part):
                    ready.append(one)
                    size += one.size
                    if size > BUDGET:
                        break
            except InputError as error:
                return {"part": row["part"], "ready": _packed(error)}
        return {"part": row["part"], "ready": pickle.dumps(ready, protocol=5)}


class Network:
    """Step 2: an actor that holds the network. It writes, too: a third step would cost another
    process and another copy of everything, and writing is a tenth of the network's time."""

    def __init__(self, settings: Any) -> None:
        import ray

        self.settings: WorkerSettings = ray.get(settings)
        self.predictor = self.settings.predictor()
        self._reader: IsolatedReader | None = None

    def __call__(self, row: _Row) -> _Row:
        part = Part.from_json(row["part"])
        ready: list[Ready] | InputError = pickle.loads(row["ready"])
        if isinstance(ready, InputError):
            return {"counts": row["ready"]}
        done = PredictedPart(part, [], [])
        try:
            if part.kind == "video":
                self._video(done)
            else:
                self._images(done, ready)
                self._rest(done, len(ready))
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
                self._images(done, rest)
                rest = []
        self._images(done, rest)

    @property
    def reader(self) -> IsolatedReader:
        if self._reader is None:
            self._reader = IsolatedReader(self.settings.read)
        return self._reader

    def _images(self, done: PredictedPart, ready: list[Ready]) -> None:
        began = time.perf_counter()
        good = [one for one in ready if not one.error]
        try:
            faces = iter(self._run(good))
        except InputError:  # because of one of them: which?
            for one in good:
                try:
                    self._run([one])
                except InputError as error:
                    one.error = f"{one.name}: {error}"
            faces = iter(self._run([one for one in good if not one.error]))
        for one in ready:
            for stage, spent in one.seconds.items():
                done.seconds[stage] = done.seconds.get(stage, 0.0) + spent
            done.names.append(one.name)
            if one.error:
                done.results.append(one.error)
            else:
                found = [next(faces) for _ in one.boxes]
                done.results.append(Result(one.name, self._wanted(done, found)))
        spent = time.perf_counter() - began
        done.seconds["network"] = done.seconds.get("network", 0.0) + spent

    def _run(self, ready: list[Ready]) -> list[FaceLandmarks]:
        faces: list[FaceLandmarks] = self.predictor.run(
            [pixels for one in ready if one.pixels is not None for pixels in one.pixels],
            [crop for one in ready for crop in one.crops],
            [box for one in ready for box in one.boxes],
        )
        return faces

    def _wanted(self, done: PredictedPart, faces: list[FaceLandmarks]) -> tuple[FaceLandmarks, ...]:
        kept = tuple(face for face in faces if self.settings.job.wants(face))
        done.filtered += len(faces) - len(kept)
        return kept

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
        follower = Follower(self.predictor, self.settings.job.min_score)
        results = (r for r, _ in follow(self.reader.frames(part), part.place, follower))
        return smoothed(results) if self.settings.job.smooth else results


def written(row: _Row) -> PartCounts:
    """What came of a part, after all steps; the error that ends the job."""
    found: PartCounts | InputError = pickle.loads(row["counts"])
    if isinstance(found, InputError):
        raise found
    return found


def _packed(error: InputError) -> bytes:
    return pickle.dumps(type(error)(str(error)))
