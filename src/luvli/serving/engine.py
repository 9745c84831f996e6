"""The work of the server: decoding and detection in threads, shared calls of the network."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from luvli.errors import InputError
from luvli.faces import FaceLandmarks
from luvli.image.box import Box
from luvli.image.crop import Crop
from luvli.image.detect import MIN_SCORE
from luvli.image.photograph import Photograph
from luvli.image.read import ImageArray
from luvli.prediction.predictor import CroppedFaces, Predictor, load
from luvli.serving.admission import Admission
from luvli.serving.batching import Batcher
from luvli.serving.errors import Refused, too_large, unusable
from luvli.serving.metrics import Metrics
from luvli.serving.settings import ServerSettings, core_count
from luvli.serving.threads import Threads
from luvli.serving.upload import checked_opener, refused_input


class Face(NamedTuple):
    """One face on its way into the network."""

    pixels: ImageArray
    crop: Crop
    box: Box


@dataclass(frozen=True)
class Options:
    """What a request may choose."""

    model: str | None = None
    boxes: Sequence[Sequence[float]] | None = None
    """tight landmark boxes of this image; None: look for faces"""
    min_score: float = MIN_SCORE


@dataclass
class Answer:
    """The faces of one image."""

    faces: list[FaceLandmarks]
    width: int
    height: int
    left_out: int
    """faces beyond `max_faces`"""
    timings: dict[str, float] = field(default_factory=dict)
    """milliseconds: decode, detect, network (with waiting), total"""


@dataclass
class _Prepared:
    width: int
    height: int
    faces: list[Face]
    left_out: int
    timings: dict[str, float]


class Served:
    """A loaded model with its queue."""

    def __init__(
        self, predictor: Predictor, settings: ServerSettings, metrics: Metrics, name: str
    ) -> None:
        self.predictor = predictor
        self.name = name
        """what requests call it"""
        self.alone = False
        """whether a request is in work that found nobody else"""
        self._metrics = metrics
        self._thread = Threads(1, f"network-{name}")
        limits = settings.limits
        self.batcher: Batcher[Face, FaceLandmarks] = Batcher(
            self.run, self._thread, limits.max_batch, limits.patience_ms / 1e3
        )

    def run(self, faces: list[Face]) -> list[FaceLandmarks]:
        """The faces through the network, in their order."""
        if not faces:
            return []
        start = time.monotonic()
        pixels, crops, boxes = (list(column) for column in zip(*faces, strict=True))
        answers = list(self.predictor.predict_cropped([CroppedFaces(boxes, crops, pixels)])[0])
        self._metrics.observe("luvli_batch_faces", len(faces))
        self._metrics.observe("luvli_network_seconds", time.monotonic() - start)
        return answers

    def close(self) -> None:
        self._thread.close()


class Engine:
    """Everything of a server process that outlives a request."""

    def __init__(self, settings: ServerSettings, metrics: Metrics | None = None) -> None:
        self.settings = settings
        self.metrics = metrics or Metrics()
        self.ready = False
        threads = settings.threads or core_count()
        self.in_thread = Threads(threads, "prepare")
        self.models: dict[str, Served] = {}
        for name in settings.models:
            predictor = load(name, threads=threads)
            label = predictor.info.name
            if label in self.models:
                raise InputError(f"two of the models are called {label}: serve one of them.")
            self.models[label] = Served(predictor, settings, self.metrics, label)
        self.admission = Admission(settings.limits, self.metrics)
        self.streams = 0
        """open streams"""

    def warm_up(self) -> None:
        """One call of the detector and of each network, so that the first request is not slow."""
        import numpy as np

        for served in self.models.values():
            image = np.full((160, 160, 3), 127, np.uint8)
            served.predictor.detect(image)
            served.predictor.predict(image, boxes=[Box(40, 40, 120, 120)])
        self.ready = True

    def model(self, name: str | None) -> Served:
        """A model by the name a request gave; the first one by default."""
        if not name:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise Refused(
                404,
                "unknown_model",
                f"there is no such model here; choose one of {', '.join(self.models)}.",
            )
        return self.models[name]

    async def predict(self, name: str, data: bytes, options: Options) -> Answer:
        """The faces of one image. Cancelling it frees its place in every queue."""
        with self.admission.paced():
            return await self._predict(name, data, options)

    async def _predict(self, name: str, data: bytes, options: Options) -> Answer:
        start = time.monotonic()
        served = self.model(options.model)
        if served.batcher.idle and not served.alone:
            # nobody to share a call with: one thread does it all, without handing over
            served.alone = True
            try:
                prepared, faces, before = await self.in_thread(
                    self._prepare_and_run, served, name, data, options
                )
            finally:
                served.alone = False
        else:
            prepared, faces, before = await self._in_company(served, name, data, options)
        now = time.monotonic()
        self.metrics.add("luvli_images_total")
        self.metrics.add("luvli_faces_total", len(faces))
        timings = prepared.timings | {
            "network": round((now - before) * 1e3, 3),
            "total": round((now - start) * 1e3, 3),
        }
        return Answer(faces, prepared.width, prepared.height, prepared.left_out, timings)

    async def _in_company(
        self, served: Served, name: str, data: bytes, options: Options
    ) -> tuple[_Prepared, list[FaceLandmarks], float]:
        served.batcher.announce()
        try:
            prepared = await self.in_thread(self._prepare, served.predictor, name, data, options)
        except BaseException:
            served.batcher.withdraw()
            raise
        before = time.monotonic()
        return prepared, await served.batcher(prepared.faces, announced=True), before

    def _prepare_and_run(
        self, served: Served, name: str, data: bytes, options: Options
    ) -> tuple[_Prepared, list[FaceLandmarks], float]:
        prepared = self._prepare(served.predictor, name, data, options)
        before = time.monotonic()
        return prepared, served.run(prepared.faces), before

    def _prepare(self, predictor: Predictor, name: str, data: bytes, options: Options) -> _Prepared:
        limits = self.settings.limits
        start = time.monotonic()
        photograph = Photograph(data, checked_opener(data, limits, name))
        with refused_input(name):
            if options.boxes is None:
                predictor.detector_view(photograph)  # decodes what the detector needs
                decoded = time.monotonic()
                boxes = predictor.find(photograph, min_score=options.min_score)
            else:
                decoded = time.monotonic()
                boxes = _given_boxes(options.boxes, limits.max_faces)
            left_out = max(0, len(boxes) - limits.max_faces)
            detected = time.monotonic()
            prepared = predictor.preprocess(photograph, boxes[: limits.max_faces])
            width, height = predictor.detector_view(photograph).size
        faces = [
            Face(pixels, crop, box)
            for pixels, crop, box in zip(
                prepared.pixels, prepared.crops, prepared.boxes, strict=True
            )
        ]
        timings = {
            "decode": round((decoded - start) * 1e3, 3),
            "detect": round((detected - decoded) * 1e3, 3),
        }
        return _Prepared(width, height, faces, left_out, timings)

    def close(self) -> None:
        """Let the threads go."""
        self.ready = False
        self.in_thread.close()
        for served in self.models.values():
            served.close()


def _given_boxes(rows: Sequence[Sequence[float]], most: int) -> list[Box]:
    if len(rows) > most:
        raise too_large(f"there are {len(rows)} boxes, the limit is {most}.")
    try:
        return [Box(*row) for row in rows]
    except (InputError, TypeError) as error:
        raise unusable(f"the boxes cannot be used: {error}") from error
