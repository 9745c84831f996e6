"""What a run of `luvli predict` is asked for, and what came of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from luvli.errors import InputError
from luvli.faces import FaceLandmarks
from luvli.image.detect import MIN_SCORE
from luvli.prediction.result import Result
from luvli.prediction.stopwatch import Stopwatch
from luvli.prediction.write import check_format


@dataclass(frozen=True)
class JobSettings:
    """What to write, and how to look; checked before anything is written."""

    out: Path
    format: str = "json"
    draw: bool = False
    coverage: float | None = None
    """what share the drawn ellipses hold; None: Mahalanobis distance 1"""
    smooth: bool = False
    min_score: float = MIN_SCORE
    note: str = ""
    """anything else that changes the results (inputs, model, box file): part of a run's identity"""
    min_confidence: float | None = None
    """leave out faces whose alignment is less likely to have succeeded"""
    max_uncertainty: float | None = None
    """leave out faces whose landmarks have a larger mean standard deviation, in % of the box"""
    try_rotations: bool = False
    """also look at images lying on their side or standing on their head"""
    overwrite: bool = False
    """replace the results of another run, and files that are not ours"""

    def __post_init__(self) -> None:
        check_format(self.format)
        if self.coverage is not None and not 0 < self.coverage < 1:
            hint = f": 95 % is {self.coverage / 100:g}" if 1 < self.coverage < 100 else ""
            raise InputError(f"--coverage must lie between 0 and 1, got {self.coverage:g}{hint}.")
        for name in ("min_score", "min_confidence"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise InputError(f"--{name.replace('_', '-')} must lie in 0..1, got {value:g}.")
        if self.max_uncertainty is not None and not self.max_uncertainty > 0:
            raise InputError(f"--max-uncertainty must be above 0, got {self.max_uncertainty:g}.")
        if self.out.exists() and not self.out.is_dir():
            raise InputError(f"{self.out} is a file: give --out the name of a folder.")

    def identity(self) -> dict[str, Any]:
        """Everything that the results depend on."""
        names = ("format", "draw", "coverage", "smooth", "min_score", "note", "min_confidence",
                 "max_uncertainty", "try_rotations")  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def wants(self, face: FaceLandmarks) -> bool:
        """Whether a face is sure enough to be kept."""
        if self.min_confidence is not None and (face.confidence or 0.0) < self.min_confidence:
            return False
        if self.max_uncertainty is None:
            return True
        width, height = face.box[2:] - face.box[:2]
        share = 100 * float(np.mean(face.uncertainty)) / float(np.sqrt(width * height))
        return share <= self.max_uncertainty

    def kept(self, result: Result) -> Result:
        """The result with those faces, and their tracks, that are sure enough."""
        kept = [self.wants(face) for face in result.faces]
        if all(kept):
            return result
        return replace(
            result,
            faces=tuple(face for face, good in zip(result.faces, kept, strict=True) if good),
            tracks=tuple(track for track, good in zip(result.tracks, kept, strict=False) if good),
        )


@dataclass
class JobSummary:
    """What came of a run."""

    images: int = 0
    without_face: int = 0
    faces: int = 0
    accepted: int = 0
    for_review: int = 0
    videos: int = 0
    frames: int = 0
    resumed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    """files in the folders given that are neither images nor videos, by their ending"""
    filtered: int = 0
    """faces left out by `min_confidence` and `max_uncertainty`"""
    left_over: int = 0
    """files that `overwrite` found in the folder and had no new ones for"""
    failed: list[str] = field(default_factory=list)
    """one sentence for each file that failed"""
    failed_images: list[tuple[str, str]] = field(default_factory=list)
    """of these, the images: name and sentence"""
    written: list[Path] = field(default_factory=list)
    """files for the user to look at, without those made for each image"""
    examples: list[Result] = field(default_factory=list)
    """the first few results, for a table"""
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    """where the time went, for images"""
