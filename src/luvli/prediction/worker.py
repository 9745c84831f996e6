"""What is done to a part, wherever it runs: read, predict, draw, write its result."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from luvli.drawing.faces import draw
from luvli.errors import InputError, OutputError
from luvli.files import writing
from luvli.image.detect import Detector
from luvli.image.photograph import Photograph
from luvli.image.read import ImageSource
from luvli.image.write import write_image
from luvli.network.model_info import ModelInfo
from luvli.prediction.containers import read_parquet_part, read_tar_part
from luvli.prediction.parts import JobSettings, Part, Row, pack_rows, rounded
from luvli.prediction.places import GO_ON, is_uri, read_bytes, write_whole
from luvli.prediction.predictor import Predictor, load
from luvli.prediction.tracking import Tracker, track_frames
from luvli.prediction.video import Frame, Segment, VideoReader, with_place
from luvli.prediction.writers import drawing_name, parquet_bytes
from luvli.prefetch import prefetch

TOGETHER = 16
"""images that go through each step together: code and weights are still in the processor's caches
for the next of them"""
AHEAD = 8
"""files of a store that are asked for together"""
ImageOrError = ImageSource | InputError
"""an image, or why there is none"""


@dataclass(frozen=True)
class PackedModel:
    """A model as it is sent to another process or machine, which opens it."""

    file: Path
    """where it is on the machine of the command"""
    content: bytes
    provider: str = "cpu"
    detector: Detector | None = None
    small_faces: bool = False
    max_failure_rate: float | None = None
    """of triage (`Predictor.with_triage`)"""

    @property
    def keeps_to_one_core(self) -> bool:
        """Whether each core should have the model; others use many cores, or a graphics card."""
        return self.file.suffix == ".onnx" and self.provider == "cpu"

    def digest(self, boxes: Path | None = None) -> str:
        """What results depend on: contents of the model and of the box file, and the options."""
        about = (self.small_faces, self.max_failure_rate)
        content = hashlib.sha256(self.content + repr(about).encode())
        content.update(b"" if boxes is None else boxes.read_bytes())
        return content.hexdigest()[:16]

    def open(self, threads: int | None = 1) -> Predictor:
        with writing(tempfile.gettempdir(), GO_ON), tempfile.TemporaryDirectory() as folder:
            file = self.file
            if not file.is_file() or file.read_bytes() != self.content:  # on another machine
                file = Path(folder) / file.name
                file.write_bytes(self.content)
            backend = load(file, threads=threads, providers=[self.provider]).backend
        predictor = Predictor(backend, self.detector, self.small_faces)
        if self.max_failure_rate is None:
            return predictor
        return predictor.with_triage(self.max_failure_rate)


# -- what a worker is asked: functions of its predictor --------------------------------------


def worker_info(predictor: Predictor) -> ModelInfo:
    return predictor.info


def do_part(predictor: Predictor, settings: JobSettings, part: Part) -> None:
    """Do a part and write its file."""
    save_rows(settings, part, part_rows(predictor, settings, part))


def save_rows(settings: JobSettings, part: Part, rows: Sequence[Row]) -> None:
    """Write the file of a part."""
    place = part.result_place(settings)
    as_table = place.endswith(".parquet")
    write_whole(
        place, parquet_bytes(part, rows, settings.measures) if as_table else pack_rows(rows)
    )


def part_rows(
    predictor: Predictor,
    settings: JobSettings,
    part: Part,
    start: int = 0,
    stop: int | None = None,
) -> list[Row]:
    """What comes of a part, or of some of its images."""
    if part.kind == "video":
        return _video(predictor, settings, part)
    together = 1 if settings.draw else TOGETHER  # all pixels are held for a drawing
    contents = islice(_contents(part, start), None if stop is None else stop - start)
    rows: list[Row] = []
    while group := list(islice(contents, together)):
        photographs = [
            content if isinstance(content, InputError) else Photograph(content, name=name)
            for name, content in group
        ]
        names = [name for name, _ in group]
        new = [settings.select(row) for row in _rows(predictor, settings, names, photographs)]
        if settings.draw and len(new[0].faces) and isinstance(photographs[0], Photograph):
            path, stem, _ = part.items[start + len(rows)]
            # a small face is enlarged until it can be seen
            drawn = draw(photographs[0].whole(), new[0].faces, enlarge="readable")
            write_image(Path(settings.out) / drawing_name(path, stem), drawn)
        rows += new
    return rows


def _rows(
    predictor: Predictor,
    settings: JobSettings,
    names: Sequence[str],
    photographs: Sequence[Photograph | InputError],
) -> list[Row]:
    """The rows of some images."""
    try:
        answers = predictor.predict_sources(
            photographs, None, settings.min_score, settings.try_rotations
        )
    except Exception as error:  # one bad image among a million must not stop the rest
        if len(names) > 1:
            singly = zip(names, photographs, strict=True)
            return [
                row for name, one in singly for row in _rows(predictor, settings, [name], [one])
            ]
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        answers = [InputError(f"{names[0]} could not be processed ({why}).")]
    rows = []
    for name, photograph, faces in zip(names, photographs, answers, strict=True):
        if isinstance(faces, InputError) or isinstance(photograph, InputError):
            rows.append(Row(name, error=str(faces).replace("the image data", name, 1)))
        else:
            rows.append(Row(name, rounded(faces, settings.measures), size=photograph.size))
    return rows


def _video(predictor: Predictor, settings: JobSettings, part: Part) -> list[Row]:
    """The faces of a segment, tracked; what cannot be decoded is accounted for at its end."""
    rows: list[Row] = []
    why = str(part.about.get("error", ""))  # it could not be opened when it was planned
    try:
        if not why:
            reader = VideoReader(part.place, Segment(*part.about["segment"]))
            tracker = Tracker(predictor, settings.min_score)
            for row in tracked_rows(part.place, prefetch(reader), tracker, settings.measures):
                rows.append(row)
            why = f"{part.place} {reader.ended_early}: results are for what could be read."
    except OutputError:
        raise
    except InputError as error:
        why = with_place(part.place, error)
    return rows + [Row(part.place, error=why)] * (part.count - len(rows))


def tracked_rows(
    name: str, frames: Iterable[Frame], tracker: Tracker, measures: bool
) -> Iterator[Row]:
    """The rows of a video or a live stream."""
    for frame, faces in track_frames(frames, tracker):
        height, width = frame.image.shape[:2]
        yield Row(name, rounded(faces, measures), "", (width, height), frame.number, frame.time)


def _contents(part: Part, start: int) -> Iterator[tuple[str, ImageOrError]]:
    """Name and content of each image of a part from number `start` on."""
    if part.kind == "tar":
        return read_tar_part(part, start)
    if part.kind == "parquet":
        return read_parquet_part(part, start)
    paths = [path for path, *_ in part.items[start:]]
    if not any(map(is_uri, paths)):
        return zip(paths, paths, strict=True)  # opened when they are looked at
    return _ahead(paths)


def _ahead(places: Sequence[str]) -> Iterator[tuple[str, ImageOrError]]:
    """Files of a store, which takes its time to answer: several are asked for at a time."""

    def read(place: str) -> tuple[str, ImageOrError]:
        try:
            return place, read_bytes(place)
        except InputError as error:
            return place, error

    with ThreadPoolExecutor(AHEAD) as pool:
        for start in range(0, len(places), AHEAD):
            yield from pool.map(read, places[start : start + AHEAD])
