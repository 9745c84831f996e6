"""One image, read, searched for faces and cut: what the network is shown of it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from luvli.errors import InputError
from luvli.faces import Faces
from luvli.image.box import Box
from luvli.image.crop import Crop
from luvli.image.detect import Detector
from luvli.image.photograph import Photograph
from luvli.image.read import ImageArray
from luvli.network.model_info import ModelInfo
from luvli.prediction.predictor import Predictor
from luvli.scale.parquet_source import read_parquet_part
from luvli.scale.parts import Part
from luvli.scale.places import is_uri, read_bytes
from luvli.scale.tar_source import read_tar_part

DATA = "the image data"
"""what the readers call an image that came as bytes"""
AHEAD = 8
"""files of a store that are read together"""


@dataclass(frozen=True)
class ReadSettings:
    """What reading and cutting depend on; sent to every reader."""

    info: ModelInfo
    min_score: float
    small_faces: bool = False
    try_rotations: bool = False
    detector: Detector | None = None
    """boxes that are known; None: the usual detector"""


@dataclass
class Ready:
    """An image that is ready for the network, or the reason why not."""

    name: str
    error: str = ""
    boxes: list[Box] = field(default_factory=list)
    crops: list[Crop] = field(default_factory=list)
    pixels: list[ImageArray] = field(default_factory=list)
    """(n, S, S, 3)"""
    seconds: dict[str, float] = field(default_factory=dict)
    """spent in read, decode, detect, crop"""

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        return 500 + sum(crop.nbytes for crop in self.pixels)


class _NoNetwork:
    """Stands where the network would: readers only need to know what it wants to see."""

    threads = 1

    def __init__(self, info: ModelInfo) -> None:
        self.info = info

    def __call__(self, crops: ImageArray) -> Faces:
        raise AssertionError("a reader runs no network")


class PictureReader:
    """Reads the images of parts. Lives in a process of its own (`luvli.scale.isolated`)."""

    def __init__(self, settings: ReadSettings) -> None:
        self.settings = settings
        self._predictor = Predictor(
            _NoNetwork(settings.info), settings.detector, settings.small_faces
        )

    def images(self, part: Part, start: int = 0) -> Iterator[Ready]:
        """The images of a part from the one numbered `start` on."""
        contents = iter(_contents(part, start))
        while True:
            began = time.perf_counter()
            try:
                name, content = next(contents)
            except StopIteration:
                return
            spent = time.perf_counter() - began
            ready = self._prepare(name, content)
            ready.seconds["read"] = spent
            yield ready

    def _prepare(self, name: str, content: bytes | InputError) -> Ready:
        if isinstance(content, InputError):
            return Ready(name, str(content))
        ready = Ready(name)
        try:
            self._fill(ready, Photograph(content))
        except InputError as error:
            return Ready(name, str(error).replace(DATA, name, 1), seconds=ready.seconds)
        except Exception as error:  # one bad image among a million must not stop the rest
            why = f"{type(error).__name__}: {error}".splitlines()[0]
            return Ready(name, f"{name} could not be processed ({why}).", seconds=ready.seconds)
        return ready

    def _fill(self, ready: Ready, photograph: Photograph) -> None:
        predictor, settings = self._predictor, self.settings
        with _timed(ready.seconds, "decode"):
            if settings.try_rotations:
                photograph.whole()
            predictor.detector_view(photograph)
        boxes = None
        with _timed(ready.seconds, "detect"):
            if not settings.try_rotations:
                boxes = predictor.find(photograph, ready.name, settings.min_score)
        with _timed(ready.seconds, "crop"):
            ready.boxes, ready.crops, pixels = predictor.preprocess(
                photograph, boxes, settings.min_score, ready.name, settings.try_rotations
            )
        ready.pixels = pixels


def _contents(part: Part, start: int) -> Iterator[tuple[str, bytes | InputError]]:
    if part.kind == "tar":
        return read_tar_part(part, start)
    if part.kind == "parquet":
        return read_parquet_part(part, start)
    return _files(part, start)


def _files(part: Part, start: int) -> Iterator[tuple[str, bytes | InputError]]:
    """Local files one by one; of a store, which takes its time to answer, several are asked for
    at a time."""
    places = part.items[start:]
    if not is_uri(part.place):
        yield from map(_file, places)
        return
    waiting: deque[Future[tuple[str, bytes | InputError]]] = deque()
    with ThreadPoolExecutor(AHEAD) as pool:
        try:
            for place in places:
                waiting.append(pool.submit(_file, place))
                if len(waiting) == AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _file(place: str) -> tuple[str, bytes | InputError]:
    try:
        return place, read_bytes(place)
    except InputError as error:
        return place, error


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    began = time.perf_counter()
    try:
        yield
    finally:
        seconds[stage] = seconds.get(stage, 0.0) + time.perf_counter() - began
