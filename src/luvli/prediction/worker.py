"""What is done to a part, wherever it runs: read, predict, draw, write its result."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from luvli.drawing.faces import draw
from luvli.errors import InputError, OutputError, check_range
from luvli.faces import Faces
from luvli.files import writing
from luvli.image.detect import MIN_SCORE, Detector
from luvli.image.photograph import Photograph
from luvli.image.read import ImageArray, ImageSource
from luvli.image.write import write_image
from luvli.prediction.containers import read_parquet_part, read_tar_part
from luvli.prediction.parts import Part, PartResult, Row, rounded
from luvli.prediction.places import GO_ON, is_uri, join, read_bytes, write_whole
from luvli.prediction.predictor import Predictor, load
from luvli.prediction.rotations import TryRotations
from luvli.prediction.tracking import Tracker, track_frames
from luvli.prediction.video import Frame, Segment, VideoReader
from luvli.prediction.writers import check_format, drawing_name, parquet_bytes
from luvli.prefetch import prefetch

TOGETHER = 16
"""images that go through each step together: code and weights are still in the processor's caches
for the next of them"""
AHEAD = 8
"""files of a store that are asked for together"""
WORK = ".luvli-job"
"""folder in OUT for the plan and for parts that are not yet in their final form"""
ImageOrError = ImageSource | InputError
"""an image, or why there is none"""


@dataclass(frozen=True)
class JobSettings:
    """What a job is asked for; checked before anything is written."""

    out: str
    """folder for the results, or the URI of one"""
    format: str = "json"
    draw: bool = False
    smooth: bool = False
    measures: bool = False
    """also write the faces' measures; of videos a table and a plot of them over time"""
    min_score: float = MIN_SCORE
    min_confidence: float | None = None
    """leave out faces whose alignment is less likely to have succeeded"""
    try_rotations: TryRotations = False
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

    def final_place(self, part: Part) -> str:
        """A part's file of format "parts"."""
        return join(self.out, f"{part.name}.parquet")

    def place(self, part: Part) -> str:
        """Where a worker writes a part's result: videos have to be joined before it is final."""
        if self.format == "parts" and part.kind != "video":
            return self.final_place(part)
        return join(self.out, WORK, f"{part.name}.npz")

    def save(self, part: Part, result: PartResult) -> None:
        """Write the file of a part."""
        final = self.place(part) == self.final_place(part)
        content = parquet_bytes(part, result, self.measures) if final else result.to_bytes()
        write_whole(self.place(part), content)


@dataclass(frozen=True)
class PackedModel:
    """A model as it is sent to another process or machine."""

    file: Path
    """where it is on the machine of the command"""
    content: bytes
    provider: str = "cpu"
    detector: Detector | None = None
    small_faces: bool = False
    accept_threshold: float | None = None

    @classmethod
    def of(cls, file: Path, provider: str, predictor: Predictor) -> PackedModel:
        """The model of a file, with the detector and the threshold of a predictor."""
        return cls(
            file, file.read_bytes(), provider, predictor.detector, predictor.small_faces,
            predictor.accept_threshold,
        )  # fmt: skip

    @property
    def keeps_to_one_core(self) -> bool:
        """Whether each core should have the model; others use many cores, or a graphics card."""
        return self.file.suffix == ".onnx" and self.provider == "cpu"

    def digest(self, boxes: Path | None = None) -> str:
        """What results depend on: contents of the model and of the box file, and the options."""
        about = (self.small_faces, self.accept_threshold)
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
        return Predictor(backend, self.detector, self.small_faces, self.accept_threshold)


class PartWorker:
    """Does parts, in the thread that calls it."""

    def __init__(self, predictor: Predictor, settings: JobSettings) -> None:
        self.predictor, self.settings = predictor, settings

    def __call__(self, part: Part) -> None:
        """Do a part and write its file."""
        self.settings.save(part, self.result(part))

    def result(self, part: Part, start: int = 0, stop: int | None = None) -> PartResult:
        """What comes of a part, or of some of its images."""
        if part.kind == "video":
            return self._video(part)
        together = 1 if self.settings.draw else TOGETHER  # all pixels are held for a drawing
        contents = islice(_contents(part, start), None if stop is None else stop - start)
        rows: list[Row] = []
        while group := list(islice(contents, together)):
            photographs = [
                content if isinstance(content, InputError) else Photograph(content, name=name)
                for name, content in group
            ]
            names = [name for name, _ in group]
            new = [self.settings.select(row) for row in self._predict(names, photographs)]
            if self.settings.draw and len(new[0].faces) and isinstance(photographs[0], Photograph):
                path, stem, _ = part.items[start + len(rows)]
                drawn = draw_result(photographs[0].whole(), new[0].faces, enlarge=True)
                write_image(Path(self.settings.out) / drawing_name(path, stem), drawn)
            rows += new
        return PartResult(rows)

    def _predict(
        self, names: Sequence[str], photographs: Sequence[Photograph | InputError]
    ) -> list[Row]:
        """The rows of some images."""
        settings = self.settings
        try:
            answers = self.predictor.predict_sources(
                photographs, None, settings.min_score, settings.try_rotations
            )
        except Exception as error:  # one bad image among a million must not stop the rest
            if len(names) > 1:
                singly = zip(names, photographs, strict=True)
                return [row for name, one in singly for row in self._predict([name], [one])]
            why = f"{type(error).__name__}: {error}".splitlines()[0]
            answers = [InputError(f"{names[0]} could not be processed ({why}).")]
        rows = []
        for name, photograph, faces in zip(names, photographs, answers, strict=True):
            if isinstance(faces, InputError) or isinstance(photograph, InputError):
                why = str(faces).replace("the image data", name, 1)
                rows.append(Row(name, error=why))
            else:
                faces = rounded(faces, settings.measures)
                rows.append(Row(name, faces, size=photograph.size))
        return rows

    def _video(self, part: Part) -> PartResult:
        """The faces of a segment, tracked; what cannot be decoded is accounted for at its end."""
        result = PartResult([])
        why = str(part.about.get("error", ""))  # it could not be opened when it was planned
        try:
            if not why:
                reader = VideoReader(part.place, Segment(*part.about["segment"]))
                tracker = Tracker(self.predictor, self.settings.min_score)
                measures = self.settings.measures
                for row in tracked_rows(part.place, prefetch(reader), tracker, measures):
                    result.rows.append(row)
                if reader.ended_early:
                    text = f"{part.place} {reader.ended_early}: results are for what could be read."
                    result.notes.append(text)
        except OutputError:
            raise
        except InputError as error:
            why = with_place(part.place, error)
        missing = part.count - len(result.rows)
        why = why or next(iter(result.notes), f"{part.place}: {missing} frames are missing.")
        result.rows += [Row(part.place, error=why)] * missing
        return result


def tracked_rows(
    name: str, frames: Iterable[Frame], tracker: Tracker, measures: bool
) -> Iterator[Row]:
    """The rows of a video or a live stream."""
    for frame, faces in track_frames(frames, tracker):
        height, width = frame.image.shape[:2]
        yield Row(name, rounded(faces, measures), "", (width, height), frame.number, frame.time)


def with_place(place: str, error: InputError) -> str:
    """The sentence of an error, with the file in it: that a package is missing does not name it."""
    return str(error) if place in str(error) else f"{place}: {error}"


def draw_result(image: ImageArray, faces: Faces, enlarge: bool = False) -> ImageArray:
    """The faces on their image, which is enlarged, if asked for, until they can be seen."""
    return draw(image, faces, enlarge="readable" if enlarge else 1.0)


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
