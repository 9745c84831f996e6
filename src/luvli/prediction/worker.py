"""What is done to a part, wherever it runs: read, predict, draw, write its result."""

from __future__ import annotations

import hashlib
import pickle
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from luvli.drawing.faces import draw_faces, readable_enlargement
from luvli.errors import InputError, OutputError, check_range
from luvli.faces import Faces
from luvli.image.detect import MIN_SCORE, Detector
from luvli.image.photograph import Photograph
from luvli.image.read import ImageArray, ImageSource
from luvli.image.write import write_image
from luvli.prediction.containers import Content, read_parquet_part, read_tar_part
from luvli.prediction.inputs import DRAWN
from luvli.prediction.parts import Part, PartResult, Row, rounded
from luvli.prediction.places import is_uri, join, read_bytes, write_whole
from luvli.prediction.predictor import CroppedFaces, Predictor, load
from luvli.prediction.tracking import Tracker, track_frames
from luvli.prediction.video import Segment, VideoReader
from luvli.prediction.writers import check_format, parquet_bytes
from luvli.prefetch import prefetch

TOGETHER = 16
"""images that go through each stage together: code and weights are still in the processor's caches
for the next of them"""
AHEAD = 8
"""files of a store that are asked for together"""
WRITABLE = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff")
WORK = ".luvli-job"
"""folder in OUT for the plan and for parts that are not yet in their final form"""


@dataclass(frozen=True)
class JobSettings:
    """What a job is asked for; checked before anything is written."""

    out: str
    """folder for the results, or the URI of one"""
    format: str = "json"
    draw: bool = False
    smooth: bool = False
    min_score: float = MIN_SCORE
    min_confidence: float | None = None
    """leave out faces whose alignment is less likely to have succeeded"""
    try_rotations: bool = False
    image_column: str | None = None
    """Parquet: the column with images, as bytes or as paths"""
    name_column: str | None = None
    """Parquet: the column with the images' names"""
    part_size: int | None = None
    """images in a part of single files or of a tar; frames, at least, in a segment of a video"""
    note: str = ""
    """anything else that changes the results: model, box file"""

    def __post_init__(self) -> None:
        check_format(self.format)
        check_range("--min-score", self.min_score, 0, 1)
        check_range("--min-confidence", self.min_confidence or 0, 0, 1)
        check_range("--part-size", self.part_size or 1, 1)
        if is_uri(self.out):
            if self.format != "parts" or self.draw:
                raise InputError(
                    f"{self.out} is a store, which takes --format parts and no drawings: give "
                    "--out a folder for anything else."
                )
        elif Path(self.out).exists() and not Path(self.out).is_dir():
            raise InputError(f"{self.out} is a file: give --out the name of a folder.")

    def select(self, row: Row) -> Row:
        """The row with those faces that are sure enough."""
        if self.min_confidence is None:
            return row
        sure = np.nan_to_num(row.faces.confidence) >= self.min_confidence
        return row._replace(faces=row.faces[sure], filtered=int((~sure).sum()))


@dataclass(frozen=True)
class PackedModel:
    """A model as it is sent to another process or machine."""

    content: bytes
    """the model file"""
    suffix: str
    """its kind: .onnx or .safetensors"""
    provider: str = "cpu"
    detector: Detector | None = None
    small_faces: bool = False
    accept_threshold: float | None = None

    @classmethod
    def of(cls, file: Path, provider: str, predictor: Predictor) -> PackedModel:
        """The model of a file, with the detector and the threshold of a predictor."""
        return cls(
            file.read_bytes(), file.suffix, provider, predictor.detector, predictor.small_faces,
            predictor.accept_threshold,
        )  # fmt: skip

    def digest(self, boxes: Path | None = None) -> str:
        """What results depend on: contents of the model and of the box file, and the options."""
        about = (self.small_faces, self.accept_threshold)
        content = hashlib.sha256(self.content + repr(about).encode())
        content.update(b"" if boxes is None else boxes.read_bytes())
        return content.hexdigest()[:16]

    def open(self) -> Predictor:
        """The model, on one thread."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"model{self.suffix}"
            path.write_bytes(self.content)
            backend = load(path, threads=1, providers=[self.provider]).backend
        return Predictor(backend, self.detector, self.small_faces, self.accept_threshold)

    def can_travel(self) -> bool:
        """Whether a process of this machine can have it: one that a core runs by itself."""
        try:
            pickle.dumps(self.detector)
        except (pickle.PicklingError, AttributeError, TypeError):
            return False
        return self.suffix == ".onnx" and self.provider == "cpu"


@dataclass(frozen=True)
class WorkOrder:
    """Everything that a worker in another process needs."""

    model: PackedModel
    settings: JobSettings
    untouched: frozenset[str] = field(default_factory=frozenset)
    """files in OUT that were there before and are not ours"""

    def worker(self) -> PartWorker:
        return PartWorker(self.model.open(), self.settings, self.untouched)


class PartWorker:
    """Does parts, in the thread that calls it; several threads may call it at once."""

    def __init__(
        self, predictor: Predictor, settings: JobSettings, untouched: frozenset[str] = frozenset()
    ) -> None:
        self.predictor, self.settings, self.untouched = predictor, settings, untouched
        self._no_face = predictor.forward([])

    def __call__(self, part: Part) -> dict[str, float]:
        """Do a part and write its file -> seconds by stage."""
        result = self.result(part)
        return self.save(part, result)

    def save(self, part: Part, result: PartResult) -> dict[str, float]:
        """Write the file of a part -> seconds by stage."""
        with _timed(result.seconds, "write"):
            final = self.settings.format == "parts" and part.kind != "video"
            content = parquet_bytes(part, result) if final else result.to_bytes()
            write_whole(part_place(self.settings, part), content)
        return result.seconds

    def result(self, part: Part, start: int = 0, stop: int | None = None) -> PartResult:
        """What comes of a part, or of some of its images."""
        if part.kind == "video":
            return self._video(part)
        result = PartResult([])
        together = 1 if self.settings.draw else TOGETHER  # all pixels are held for a drawing
        group: list[tuple[int, str, ImageSource | InputError]] = []
        for index, (name, content) in enumerate(_contents(part, start), start):
            if index == stop:
                break
            group.append((index, name, content))
            if len(group) == together:
                self._images(part, group, result)
                group = []
        self._images(part, group, result)
        return result

    def image(self, name: str, content: bytes) -> Row:
        """What comes of one image that is no file."""
        result = PartResult([])
        self._images(Part(0, "files", name, 1), [(0, name, content)], result)
        return result.rows[0]

    def failed(self, name: str, why: str) -> Row:
        """The row of an image that could not be done."""
        return Row(name, self._no_face, why)

    def _images(
        self,
        part: Part,
        group: Sequence[tuple[int, str, ImageSource | InputError]],
        result: PartResult,
    ) -> None:
        photographs: list[Photograph | None] = []
        cropped: list[CroppedFaces] = []
        rows: list[Row] = []
        for _, name, content in group:
            photograph, crops, row = self._preprocess(name, content, result.seconds)
            photographs.append(photograph)
            cropped.append(crops)
            rows.append(row)
        with _timed(result.seconds, "network"):
            predictions = self._predict(cropped, rows)
        for (index, *_), photograph, row, faces in zip(
            group, photographs, rows, predictions, strict=True
        ):
            selected = self.settings.select(row._replace(faces=rounded(faces)))
            result.rows.append(selected)
            if self.settings.draw and len(selected.faces) and photograph is not None:
                with _timed(result.seconds, "draw"):
                    self._draw(part.items[index], photograph, selected.faces, result.notes)

    def _preprocess(
        self, name: str, content: ImageSource | InputError, seconds: dict[str, float]
    ) -> tuple[Photograph | None, CroppedFaces, Row]:
        predictor, settings = self.predictor, self.settings
        try:
            if isinstance(content, InputError):
                raise content
            photograph = Photograph(content)
            with _timed(seconds, "read"):
                size = predictor.detector_view(photograph).size
            boxes = None
            with _timed(seconds, "detect"):
                if not settings.try_rotations:
                    boxes = predictor.find(photograph, name, settings.min_score)
            with _timed(seconds, "crop"):
                crops = predictor.preprocess(
                    photograph, boxes, settings.min_score, name, settings.try_rotations
                )
            return photograph, crops, Row(name, self._no_face, size=size)
        except InputError as error:
            why = str(error).replace("the image data", name, 1)
        except Exception as error:  # one bad image among a million must not stop the rest
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            why = f"{name} could not be processed ({text})."
        return None, CroppedFaces([], [], [], []), self.failed(name, why)

    def _predict(self, cropped: Sequence[CroppedFaces], rows: list[Row]) -> list[Faces]:
        """The faces of each image; where the network fails, the row says so."""
        try:
            return self.predictor.predict_cropped(cropped)
        except InputError:  # because of one of them: which?
            predictions = []
            for i, crops in enumerate(cropped):
                try:
                    predictions += self.predictor.predict_cropped([crops])
                except InputError as error:
                    rows[i] = self.failed(rows[i].image, f"{rows[i].image}: {error}")
                    predictions.append(self._no_face)
            return predictions

    def _draw(self, item: Any, photograph: Photograph, faces: Faces, notes: list[str]) -> None:
        name = drawing_name(item)
        if name in self.untouched:
            notes.append(left_as_it_is(self.settings, name))
            return
        image = draw_result(photograph.whole(), faces, enlarge=True)
        write_image(Path(self.settings.out) / name, image)

    def _video(self, part: Part) -> PartResult:
        """The faces of a segment, tracked; what cannot be decoded is accounted for at its end."""
        result = PartResult([])
        why = str(part.about.get("error", ""))  # it could not be opened when it was planned
        with _timed(result.seconds, "video"):
            try:
                if not why:
                    reader = VideoReader(part.place, Segment(*part.about["segment"]))
                    tracker = Tracker(self.predictor, self.settings.min_score)
                    for frame, faces in track_frames(prefetch(reader), tracker):
                        height, width = frame.image.shape[:2]
                        result.rows.append(
                            Row(part.place, rounded(faces), "", (width, height), frame.number,
                                frame.time)
                        )  # fmt: skip
                    if reader.ended_early:
                        text = f"{part.place} {reader.ended_early}: results are for what could be"
                        result.notes.append(f"{text} read.")
            except OutputError:
                raise
            except InputError as error:
                sentence = str(error)  # that a package is missing does not name the file
                why = sentence if part.place in sentence else f"{part.place}: {sentence}"
        missing = part.count - len(result.rows)
        why = why or next(iter(result.notes), f"{part.place}: {missing} frames are missing.")
        result.rows += [self.failed(part.place, why)] * missing
        return result


def part_place(settings: JobSettings, part: Part) -> str:
    """Where the worker writes a part's result."""
    if settings.format == "parts" and part.kind != "video":
        return final_place(settings, part)
    return join(settings.out, WORK, f"{part.name}.npz")


def final_place(settings: JobSettings, part: Part) -> str:
    """A part's file of format "parts"."""
    return join(settings.out, f"{part.name}.parquet")


def drawing_name(item: Sequence[str]) -> str:
    """What the drawing of an image is called, inside OUT; `item` is one of `Part.items`."""
    path, stem, _ = item
    suffix = Path(path).suffix.lower()
    return f"{stem}{DRAWN}{suffix if suffix in WRITABLE else '.png'}"


def draw_result(image: ImageArray, faces: Faces, enlarge: bool = False) -> ImageArray:
    """The faces on their image, which is enlarged, if asked for, until they can be seen."""
    several = list(faces)
    factor = readable_enlargement(image, several) if enlarge else 1.0
    return draw_faces(image, several, likelihood=faces.likelihood, enlarge=factor)


def left_as_it_is(settings: JobSettings, name: str) -> str:
    """The sentence about a file of somebody else that stands where an output would go."""
    return (
        f"{Path(settings.out) / name} was there before and was left as it is: choose another "
        "--out, or give --overwrite."
    )


def _contents(part: Part, start: int) -> Iterator[tuple[str, ImageSource | InputError]]:
    if part.kind == "tar":
        return read_tar_part(part, start)
    if part.kind == "parquet":
        return read_parquet_part(part, start)
    paths = [path for path, *_ in part.items[start:]]
    if not any(map(is_uri, paths)):
        return zip(paths, paths, strict=True)  # opened when they are looked at
    return _ahead(paths)


def _ahead(places: Iterable[str]) -> Iterator[tuple[str, Content]]:
    """Files of a store, which takes its time to answer: several are asked for at a time."""

    def read(place: str) -> tuple[str, Content]:
        try:
            return place, read_bytes(place)
        except InputError as error:
            return place, error

    waiting: deque[Future[tuple[str, Content]]] = deque()
    with ThreadPoolExecutor(AHEAD) as pool:
        try:
            for place in places:
                waiting.append(pool.submit(read, place))
                if len(waiting) == AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    began = time.perf_counter()
    try:
        yield
    finally:
        seconds[stage] = seconds.get(stage, 0.0) + time.perf_counter() - began
