"""What a job is asked for, and the names of the files that it writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from luvli.errors import InputError, check_range, require, unknown_choice
from luvli.image.detect import MIN_SCORE
from luvli.prediction.places import is_uri
from luvli.prediction.rotations import TryRotations

Format = Literal["json", "csv", "parquet", "pts", "coco", "parts"]
FORMATS: tuple[str, ...] = get_args(Format)
SUFFIXES = {"json": ".json", "csv": ".csv", "parquet": ".parquet", "coco": ".json"}
"""of the formats that are one file"""
WORK = ".luvli-job"
"""folder in OUT for the state of the job, and for parts that are not yet in their final form"""
FAILED = "failed.txt"
"""one line for each file that could not be done"""
DRAWN, MEASURED = "-landmarks", "-measures"
"""what the names of drawings and plots end with; in the output folder they are no inputs"""
_WRITABLE = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff")
_MP4_FAMILY = ("", ".mp4", ".m4v", ".mov")


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

    @property
    def names_outputs(self) -> bool:
        """Whether each image has files of its own."""
        return self.draw or self.format == "pts"


def check_format(name: str) -> None:
    """Refuse an unknown format, or one whose package is missing, before the work begins."""
    if name not in FORMATS:
        raise unknown_choice("format", name, FORMATS)
    if name in ("parquet", "parts"):
        require("pyarrow", "scale")


def drawing_name(path: str, stem: str) -> str:
    """What the drawing of an image is called, inside OUT."""
    suffix = Path(path).suffix.lower()
    return f"{stem}{DRAWN}{suffix if suffix in _WRITABLE else '.png'}"


def drawn_suffix(source: str) -> str:
    """The kind of a drawn video: MP4 for MP4s and for a camera, which is no file; Matroska, which
    holds any sound, for others."""
    return ".mp4" if Path(source).suffix.lower() in _MP4_FAMILY else ".mkv"


def video_outputs(settings: JobSettings, stem: str, source: str) -> dict[str, str]:
    """What the files of one video are called, inside OUT."""
    names = {}
    if settings.format in (*SUFFIXES, "pts"):
        names["faces"] = f"{stem}{SUFFIXES.get(settings.format, '-frames')}"
    if settings.draw:
        names["drawing"] = f"{stem}{DRAWN}{drawn_suffix(source)}"
    if settings.measures and not is_uri(settings.out):  # a store has them in the parts
        names |= {"table": f"{stem}{MEASURED}.csv", "plot": f"{stem}{MEASURED}.png"}
    return names
