"""What is done to a part, wherever it runs: read, predict, draw, write its result."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from luvli.drawing.faces import draw
from luvli.errors import InputError, OutputError
from luvli.files import writing
from luvli.image.detect import Detector
from luvli.image.photograph import Photograph
from luvli.image.write import write_image
from luvli.network.model_info import ModelInfo
from luvli.prediction.parts import ImagesPart, Part, VideoPart
from luvli.prediction.places import GO_ON, write_whole
from luvli.prediction.predictor import Predictor, load
from luvli.prediction.rows import Row, pack_rows, rounded
from luvli.prediction.settings import JobSettings, drawing_name
from luvli.prediction.tracking import Tracker, track_frames
from luvli.prediction.video import Frame, VideoReader, with_place
from luvli.prediction.writers import parquet_bytes, write_pts_files
from luvli.prefetch import prefetch

TOGETHER = 16
"""images that go through each step together: code and weights are still in the processor's caches
for the next of them"""


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
    content = parquet_bytes(part, rows, settings.measures) if as_table else pack_rows(rows)
    write_whole(place, content)


def part_rows(
    predictor: Predictor,
    settings: JobSettings,
    part: Part,
    start: int = 0,
    stop: int | None = None,
) -> list[Row]:
    """What comes of a part, or of some of its images, whose own files are written."""
    if isinstance(part, VideoPart):
        return _video_rows(predictor, settings, part)
    together = 1 if settings.draw else TOGETHER  # all pixels are held for a drawing
    contents = islice(part.contents(start), None if stop is None else stop - start)
    rows: list[Row] = []
    while group := list(islice(contents, together)):
        names = [name for name, _ in group]
        photographs = [
            content if isinstance(content, InputError) else Photograph(content, name=name)
            for name, content in group
        ]
        for row, photograph in zip(
            _predicted(predictor, settings, names, photographs), photographs, strict=True
        ):
            selected = row.select(settings.min_confidence)
            if isinstance(part, ImagesPart) and len(selected.faces):
                _write_own_files(settings, part, start + len(rows), selected, photograph)
            rows.append(selected)
    return rows


def _predicted(
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
            singly = (([n], [p]) for n, p in zip(names, photographs, strict=True))
            return [row for one in singly for row in _predicted(predictor, settings, *one)]
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        answers = [InputError(f"{names[0]} could not be processed ({why}).")]
    rows = []
    for name, photograph, faces in zip(names, photographs, answers, strict=True):
        if isinstance(faces, InputError) or isinstance(photograph, InputError):
            rows.append(Row(name, error=str(faces).replace("the image data", name, 1)))
        else:
            rows.append(Row(name, rounded(faces, settings.measures), size=photograph.size))
    return rows


def _write_own_files(
    settings: JobSettings, part: ImagesPart, index: int, row: Row, photograph: Any
) -> None:
    """The .pts files and the drawing of an image."""
    if settings.format == "pts":
        write_pts_files(Path(settings.out) / part.stems[index], row.faces)
    if settings.draw:  # a small face is enlarged until it can be seen
        drawn = draw(photograph.whole(), row.faces, enlarge="readable")
        name = drawing_name(part.paths[index], part.stems[index])
        write_image(Path(settings.out) / name, drawn)


def _video_rows(predictor: Predictor, settings: JobSettings, part: VideoPart) -> list[Row]:
    """The faces of a segment, tracked; what cannot be decoded is accounted for at its end."""
    rows: list[Row] = []
    why = part.error
    try:
        if not why:
            reader = VideoReader(part.place, part.segment)
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
