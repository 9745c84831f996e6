"""The work of the server: images are prepared in threads, faces share calls of the network."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import cv2
import numpy as np

from luvli.errors import InputError
from luvli.faces import Faces
from luvli.image.box import Box
from luvli.image.photograph import Photograph
from luvli.prediction.cropped import CroppedFaces
from luvli.prediction.predictor import Predictor, load
from luvli.serving.batching import Batcher
from luvli.serving.errors import Refused, too_large, unusable
from luvli.serving.metrics import Metrics
from luvli.serving.settings import ServerSettings
from luvli.serving.upload import checked_opener, refused_input

T = TypeVar("T")
_Rows = Sequence[Sequence[float]]
"""boxes as x0, y0, x1, y1"""
_Prepared = tuple[CroppedFaces, dict[str, Any]]
"""of one image: its crops, and what `Answer.about` has"""


class Answer(NamedTuple):
    """The faces of one image."""

    faces: Faces
    about: dict[str, Any]
    """width, height, model, faces_left_out, timings: as they are sent"""


class Engine:
    """Everything in a server process that outlives a request."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.ready = False
        self.streams = 0
        """open streams"""
        self.threads = ThreadPoolExecutor(settings.threads, "prepare")
        models = [ServedModel(load(m, threads=settings.threads), self) for m in settings.models]
        self.models = {model.name: model for model in models}
        if len(self.models) < len(models):
            names = ", ".join(model.name for model in models)
            raise InputError(f"two of the models have one name ({names}): serve one of them.")

    def model(self, name: str | None) -> ServedModel:
        """A model by its name; the first one by default."""
        if name and name not in self.models:
            known = ", ".join(self.models)
            raise Refused(404, "unknown_model", f"there is no such model: choose one of {known}.")
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
        self.ready = True

    def close(self) -> None:
        """Wait for the threads: one that runs while the interpreter ends aborts the process."""
        self.ready = False
        for executor in (self.threads, *(model.thread for model in self.models.values())):
            executor.shutdown(cancel_futures=True)


class ServedModel:
    """A loaded model with its queue."""

    def __init__(self, predictor: Predictor, engine: Engine) -> None:
        self.predictor = predictor
        self.name = predictor.info.name
        self.thread = ThreadPoolExecutor(1, f"network-{self.name}")
        self._engine = engine
        self._limits = limits = engine.settings.limits
        self._batcher: Batcher[_Prepared, Answer] = Batcher(
            self._forward, self.thread, limits.max_batch, limits.patience_ms / 1e3
        )

    async def predict(self, *image: Any) -> Answer:
        """The faces of one image; takes what `_prepare` takes."""
        start = time.monotonic()
        answer = await self._batcher(self._engine.in_thread(self._prepare, *image))
        total, timings = (time.monotonic() - start) * 1e3, answer.about["timings"]
        timings["network"] = round(total - sum(timings.values()), 3)
        timings["total"] = round(total, 3)
        self._engine.metrics.images.inc()
        self._engine.metrics.faces.inc(len(answer.faces))
        return answer

    def _prepare(self, name: str, data: bytes, rows: _Rows | None, min_score: float) -> _Prepared:
        """Decode, detect and crop; runs in a thread."""
        limit, predictor = self._limits.max_faces, self.predictor
        photograph = Photograph(data, checked_opener(data, self._limits, name))
        start = time.monotonic()
        with refused_input(name):
            if rows is None:
                predictor.detector_view(photograph)  # decodes as much as the detector needs
            decoded = time.monotonic()
            if rows is None:
                boxes = predictor.find(photograph, min_score=min_score)
            else:
                boxes = _boxes(rows, limit)
            timings = {
                "decode": round((decoded - start) * 1e3, 3),
                "detect": round((time.monotonic() - decoded) * 1e3, 3),
            }
            cropped = predictor.preprocess(photograph, boxes[:limit])
            width, height = photograph.size
        about = {"width": width, "height": height, "model": self.name, "timings": timings}
        return cropped, {**about, "faces_left_out": max(0, len(boxes) - limit)}

    def _forward(self, images: list[_Prepared]) -> list[Answer]:
        """The faces of several images through the network; runs in the model's thread."""
        with self._engine.metrics.network_seconds.time():
            faces = self.predictor.predict_cropped([cropped for cropped, _ in images])
        self._engine.metrics.batch_faces.observe(sum(map(len, faces)))
        return [Answer(each, about) for each, (_, about) in zip(faces, images, strict=True)]


def _boxes(rows: _Rows, limit: int) -> list[Box]:
    if len(rows) > limit:
        raise too_large(f"there are {len(rows)} boxes, the limit is {limit}.")
    try:
        return [Box(*row) for row in rows]
    except InputError as error:
        raise unusable(f"the boxes cannot be used: {error}") from error
