"""From images that are ready for the network to their results; some at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from luvli.errors import InputError
from luvli.faces import FaceLandmarks
from luvli.prediction.job_settings import JobSettings
from luvli.prediction.predictor import CroppedFaces, Predictor
from luvli.prediction.result import Result
from luvli.scale.parts import Part
from luvli.scale.prepare import PictureReader, Ready
from luvli.scale.settings import WorkerSettings

AT_A_TIME = 8 << 20
"""bytes of crops that go through the network together"""
TOGETHER = 16
"""images that do: code and weights are still in the processor's caches for the next of them"""


@dataclass
class Predicted:
    """What came of one image."""

    name: str
    result: Result | str
    """a sentence where it failed"""
    filtered: int = 0
    """faces that were found and not wanted"""
    seconds: dict[str, float] = field(default_factory=dict)
    """by stage"""


class Landmarks:
    """The network, and what is wanted of its faces."""

    def __init__(self, predictor: Predictor, job: JobSettings) -> None:
        self.predictor, self.job = predictor, job

    def __call__(self, ready: Sequence[Ready]) -> list[Predicted]:
        """Results of images, in their order."""
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
        done = [self._predicted(one, faces) for one in ready]
        spent = (time.perf_counter() - began) / max(len(done), 1)
        for image in done:
            image.seconds["network"] = spent
        return done

    def _run(self, ready: Sequence[Ready]) -> list[FaceLandmarks]:
        parts = [CroppedFaces(one.boxes, one.crops, one.pixels) for one in ready]
        return [face for faces in self.predictor.predict_cropped(parts) for face in faces]

    def _predicted(self, one: Ready, faces: Iterator[FaceLandmarks]) -> Predicted:
        if one.error:
            return Predicted(one.name, one.error, seconds=one.seconds)
        found = [next(faces) for _ in one.boxes]
        kept = tuple(face for face in found if self.job.wants(face))
        result = Result(one.name, kept)
        return Predicted(one.name, result, len(found) - len(kept), one.seconds)


class PartWorker(PictureReader):
    """Does parts from the files to the results. Lives in a process of its own, like its base."""

    def __init__(self, settings: WorkerSettings) -> None:
        super().__init__(settings.read)
        self._worker = settings

    @cached_property
    def landmarks(self) -> Landmarks:
        """Loaded when the first image asks for it: frames of videos do not."""
        return Landmarks(self._worker.predictor(), self._worker.job)

    def results(self, part: Part, start: int, together: int) -> Iterator[list[Predicted] | None]:
        """Those of a part from the image numbered `start` on, at most `together` at a time; None
        after each image that was read, as a sign of life."""
        waiting: list[Ready] = []
        for one in self.images(part, start):
            waiting.append(one)
            yield None
            if len(waiting) >= together or sum(r.size for r in waiting) > AT_A_TIME:
                yield self.landmarks(waiting)
                waiting = []
        if waiting:
            yield self.landmarks(waiting)
