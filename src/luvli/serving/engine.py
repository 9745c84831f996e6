"""What outlives a request: the models with their queues, the threads, the limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import cv2
import numpy as np
from prometheus_client import Gauge

from luvli.errors import InputError
from luvli.faces import Faces
from luvli.image.box import Box
from luvli.prediction.predictor import Predictor, load
from luvli.serving.batching import Batcher
from luvli.serving.errors import Refused
from luvli.serving.metrics import Metrics
from luvli.serving.settings import ServerSettings

T = TypeVar("T")
Take = Callable[[int], None]
"""takes so much more of a budget, or refuses the request"""


class Budget:
    """Something that all requests of a process share; whoever asks for more than is left is
    refused."""

    def __init__(self, total: int, used: Gauge) -> None:
        self._left, self._used = total, used

    @contextmanager
    def share(self) -> Iterator[Take]:
        """What one request takes, given back at the end of the block."""
        taken = 0

        def take(count: int) -> None:
            nonlocal taken
            if count > self._left:
                raise Refused("busy", "the server is busy: try again in a moment.")
            self._left -= count
            taken += count
            self._used.inc(count)

        try:
            yield take
        finally:
            self._left += taken
            self._used.dec(taken)


class Job(NamedTuple):
    """One image (or why it is refused), boxes if there are any, and the detector's threshold."""

    source: bytes | InputError
    boxes: list[Box] | None
    min_score: float


Predicted = tuple[Faces | InputError, int]
"""the best faces of an image, or why there are none, and how many were left out"""


class ServedModel:
    """A loaded model with its queue."""

    def __init__(self, predictor: Predictor, settings: ServerSettings, metrics: Metrics) -> None:
        self.predictor = predictor
        self.name = predictor.info.name
        self.thread = ThreadPoolExecutor(1, f"model-{self.name}")
        self._metrics = metrics
        self._limits = limits = settings.limits
        self.predict: Batcher[Job, Predicted] = Batcher(
            self._predict, self.thread, limits.max_batch, limits.patience_ms / 1e3
        )

    def _predict(self, jobs: list[Job]) -> list[Predicted]:
        """The faces of several images, as the library predicts them; in the model's thread."""
        alike: dict[tuple[bool, float], list[int]] = {}
        for i, job in enumerate(jobs):
            alike.setdefault((job.boxes is None, job.min_score), []).append(i)
        results: dict[int, Predicted] = {}
        limit = self._limits.max_faces
        with self._metrics.batch_seconds.time():
            for (detects, min_score), which in alike.items():
                boxes = None if detects else [jobs[i].boxes or [] for i in which]
                sources = [jobs[i].source for i in which]
                best = self.predictor.predict_best(sources, boxes, min_score, max_faces=limit)
                results |= zip(which, best, strict=True)
        count = sum(len(faces) for faces, _ in results.values() if isinstance(faces, Faces))
        self._metrics.images.inc(sum(isinstance(job.source, bytes) for job in jobs))
        self._metrics.faces.inc(count)
        self._metrics.batch_faces.observe(count)
        return [results[i] for i in range(len(jobs))]


class Engine:
    """Everything in a server process that outlives a request."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.places = Budget(settings.limits.max_requests, self.metrics.in_flight)
        self.memory = Budget(settings.limits.max_buffered_bytes, self.metrics.buffered)
        self.streams = Budget(settings.limits.max_streams, self.metrics.streams)
        self.threads = ThreadPoolExecutor(settings.threads, "images")
        loaded = [load(model, threads=settings.threads) for model in settings.models]
        self.models = {one.info.name: ServedModel(one, settings, self.metrics) for one in loaded}
        if len(self.models) < len(loaded):
            names = ", ".join(one.info.name for one in loaded)
            raise InputError(f"two of the models have one name ({names}): serve one of them.")

    def model(self, name: str | None) -> ServedModel:
        """A model by its name; the first one by default."""
        if name and name not in self.models:
            known = ", ".join(self.models)
            raise Refused("unknown_model", f"there is no such model: choose one of {known}.")
        return self.models[name] if name else next(iter(self.models.values()))

    async def in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in one of the threads for images."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, function, *arguments)

    def warm_up(self) -> None:
        """One call of the detector and of each network, so that the first request is not slow."""
        cv2.setNumThreads(1)  # requests run side by side; OpenCV's own threads slow them down
        image = np.full((160, 160, 3), 127, np.uint8)
        for model in self.models.values():
            model.predictor.detect(image)
            model.predictor.predict(image, boxes=[Box(40, 40, 120, 120)])

    def close(self) -> None:
        """Wait for the threads: one that runs while the interpreter ends aborts the process."""
        for executor in (self.threads, *(model.thread for model in self.models.values())):
            executor.shutdown(cancel_futures=True)
