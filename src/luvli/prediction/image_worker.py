"""What one thread of a run does with some images: from files to lines of the journal.

Threads share nothing but the network's weights, and each takes its images the whole way, so that
no core waits for another between reading, the network and writing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from luvli.errors import InputError
from luvli.faces import FaceLandmarks
from luvli.image.photograph import Photograph
from luvli.image.read import ImageArray
from luvli.prediction.input_files import Input
from luvli.prediction.job_output import drawn
from luvli.prediction.job_settings import JobSettings
from luvli.prediction.journal import file_stamp
from luvli.prediction.predictor import CroppedFaces, Predictor
from luvli.prediction.result import Result
from luvli.prediction.stopwatch import Stopwatch


@dataclass
class Done:
    """One image of a run: what was found in it, or the reason why nothing could be."""

    input: Input
    stem: Path
    stamp: bytes
    """of the file, before it was read"""
    line: str = ""
    """what was found, as the journal notes it"""
    result: Result | None = None
    """the same with all digits, for formats with a file for each image"""
    faces: int = 0
    accepted: int = 0
    for_review: int = 0
    """what the triage decided, where it was asked"""
    filtered: int = 0
    """faces that were found and not wanted"""
    drawn: ImageArray | None = None
    error: str = ""


@dataclass(frozen=True)
class ImageWorker:
    """Does some images at a time; several threads may call it at once."""

    predictor: Predictor
    settings: JobSettings
    stopwatch: Stopwatch
    network: AbstractContextManager[object]
    """entered for every call of the network"""

    def __call__(self, items: Sequence[tuple[Input, Path]]) -> list[Done]:
        """Images with the stems of their outputs; in the same order."""
        images = [Done(item, stem, file_stamp(item.path)) for item, stem in items]
        seen = [self._see(image) for image in images]
        faces = self._landmarks(images, [found for found, _ in seen])
        for image, (_, pixels), found in zip(images, seen, faces, strict=True):
            if not image.error:
                self._finish(image, pixels, found)
        return images

    def _see(self, image: Done) -> tuple[CroppedFaces, ImageArray | None]:
        """The faces of an image, ready for the network, and its pixels if they are needed."""
        nothing = CroppedFaces([], [], [])
        path = image.input.path
        try:
            photograph = Photograph(path)
            with self.stopwatch("read"):
                self.predictor.detector_view(photograph)
            found = self._find(photograph, path)
            keep = self.settings.draw and bool(found.boxes)
            return found, photograph.whole() if keep else None
        except InputError as error:
            image.error = str(error)
        except Exception as error:  # one bad image among a million must not stop the rest
            why = f"{type(error).__name__}: {error}".splitlines()[0]
            image.error = f"{path} could not be processed ({why})."
        return nothing, None

    def _find(self, photograph: Photograph, path: str) -> CroppedFaces:
        predictor, min_score = self.predictor, self.settings.min_score
        if self.settings.try_rotations:
            with self.stopwatch("detect"):
                return predictor.preprocess(photograph, None, min_score, path, True)
        with self.stopwatch("detect"):
            boxes = predictor.find(photograph, path, min_score)
        with self.stopwatch("crop"):
            return predictor.preprocess(photograph, boxes)

    def _landmarks(
        self, images: Sequence[Done], prepared: Sequence[CroppedFaces]
    ) -> list[list[FaceLandmarks]]:
        """The faces of each image; where the network fails, the images' errors say so."""
        with self.stopwatch("network"), self.network:
            try:
                return self._run(prepared)
            except InputError:  # because of one of them: which?
                faces: list[list[FaceLandmarks]] = []
                for image, found in zip(images, prepared, strict=True):
                    try:
                        faces += self._run([found])
                    except InputError as error:
                        image.error = f"{image.input.path}: {error}"
                        faces.append([])
                return faces

    def _run(self, prepared: Sequence[CroppedFaces]) -> list[list[FaceLandmarks]]:
        return [list(faces) for faces in self.predictor.predict_cropped(prepared)]

    def _finish(self, image: Done, pixels: ImageArray | None, faces: list[FaceLandmarks]) -> None:
        with self.stopwatch("write"):
            result = self.settings.kept(Result(image.input.path, tuple(faces)))
            image.line = result.to_line()
            image.result = result if self.settings.format == "pts" else None
            image.faces, image.filtered = len(result.faces), len(faces) - len(result.faces)
            verdicts = [face.accepted for face in result.faces]
            image.accepted, image.for_review = verdicts.count(True), verdicts.count(False)
        if pixels is not None and result.faces:
            with self.stopwatch("draw"):
                image.drawn = drawn(self.predictor, self.settings, pixels, result.faces, True)
