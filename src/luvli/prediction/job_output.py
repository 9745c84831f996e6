"""What every part of a run of `luvli predict` writes to: names, journal, summary, drawings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from luvli.drawing.faces import draw_faces, readable_enlargement
from luvli.faces import FaceLandmarks
from luvli.image.read import ImageArray
from luvli.prediction.input_files import Input
from luvli.prediction.job_settings import JobSettings, JobSummary
from luvli.prediction.journal import Finished, Journal
from luvli.prediction.output_names import OutputNames
from luvli.prediction.predictor import Predictor
from luvli.prediction.result import Result
from luvli.prediction.write import SUFFIXES


class JobOutput:
    """The output folder of a run: which files of it are the run's own, and what was done."""

    def __init__(self, predictor: Predictor, settings: JobSettings) -> None:
        self.predictor = predictor
        self.settings = settings
        self.summary = JobSummary()
        identity = job_identity(predictor, settings)
        self.finished = Finished(settings.out, identity)
        self.results_file = settings.out / f"faces{SUFFIXES.get(settings.format, '')}"
        if not settings.overwrite:
            self.finished.check(self.results_file if self.results_file.suffix else None)
        self.journal = Journal(settings.out, identity, fresh=settings.overwrite)
        self._names = OutputNames(settings.out)
        self._told: set[str] = set()
        for name in sorted(self.journal.left):
            self._tell_left(name)

    def only_wanted(self, result: Result) -> Result:
        kept = self.settings.kept(result)
        self.summary.filtered += len(result.faces) - len(kept.faces)
        return kept

    def may_write(self, target: Path) -> bool:
        """False, and named, where a file stands that is not of this command: what an earlier run
        of it wrote may be replaced, files of others never."""
        name = str(target.relative_to(self.settings.out))
        if self.journal.has_begun(name):
            return True
        if self.is_ours(name) or not target.exists():
            self.journal.begins(name)
            self.finished.left.discard(name)
            return True
        if name not in self._told:
            self.journal.leaves(name)
            self._tell_left(name)
        return False

    def _tell_left(self, name: str) -> None:
        self._told.add(name)
        self.finished.left.add(name)
        self.summary.failed.append(
            f"{self.settings.out / name} was there before and was left as it is: choose another "
            "--out, or give --overwrite."
        )

    def is_ours(self, name: str) -> bool:
        """Whether a file of this name, if there is one, may be replaced."""
        same = self.finished.same and name not in self.finished.left
        return same or self.settings.overwrite or self.journal.has_begun(name)

    def count(self, result: Result) -> None:
        """What the triage decided, where it was asked."""
        verdicts = [face.accepted for face in result.faces]
        self.summary.accepted += verdicts.count(True)
        self.summary.for_review += verdicts.count(False)

    def stem(self, item: Input) -> Path:
        """Where outputs of one input go, without a suffix; no two inputs share it."""
        if self.settings.draw or self.settings.format == "pts" or item.is_video:
            return self._names.stem(item)
        return self.settings.out / Path(item.name).with_suffix("")

    def drawn(self, image: ImageArray, faces: tuple[FaceLandmarks, ...]) -> ImageArray:
        return drawn(self.predictor, self.settings, image, faces)


def drawn(
    predictor: Predictor,
    settings: JobSettings,
    image: ImageArray,
    faces: tuple[FaceLandmarks, ...],
    enlarge: bool = False,
) -> ImageArray:
    """The faces on their image, which is enlarged, if asked for, until they can be seen."""
    return draw_faces(
        image,
        faces,
        coverage=settings.coverage,
        likelihood=predictor.info.likelihood,
        enlarge=readable_enlargement(image, faces) if enlarge else 1.0,
    )


def job_identity(predictor: Predictor, settings: JobSettings) -> dict[str, Any]:
    """What makes two runs the same."""
    about = {"model": predictor.info.name, "version": predictor.info.version}
    return about | settings.identity()
