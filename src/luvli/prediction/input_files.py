"""What `luvli predict` is given: files, folders and patterns, listed once.

Names go to a spool that moves from memory to disk when it grows, so a folder of a million
images takes no more memory than one of a hundred, and the total is known from the start.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from luvli.errors import InputError
from luvli.files import PathLike, unreadable
from luvli.image.read import IMAGE_SUFFIXES
from luvli.models import find_model

# fmt: off
VIDEO_SUFFIXES = frozenset((
    ".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ts", ".mts", ".m2ts",
    ".wmv", ".flv", ".3gp", ".ogv",
))
# fmt: on
FOUND_IN_FOLDERS = VIDEO_SUFFIXES.union(IMAGE_SUFFIXES)
SORTED_AT_A_TIME = 10_000
KINDS = 50
"""endings of skipped files that are counted by themselves"""
SPOOL_BYTES = 16 << 20
"""names in memory before they go to disk"""


class Input(NamedTuple):
    """One file, and what its outputs are called after: its path inside the folder given."""

    path: str
    name: str

    @property
    def is_video(self) -> bool:
        return _suffix(self.path) in VIDEO_SUFFIXES


class Inputs:
    """All inputs of one run, in order; iterate over it as often as you like.

    Of a folder, images and videos count, by their suffixes; files that are named
    themselves always count. Small folders and patterns come sorted, large ones in sorted
    portions.
    """

    def __init__(self, paths: Iterable[PathLike]) -> None:
        self._spool = tempfile.SpooledTemporaryFile(  # noqa: SIM115  # lives as long as we do
            max_size=SPOOL_BYTES,
            mode="w+",
            encoding="utf-8",
            errors="surrogateescape",
            newline="\n",
        )
        self.images = 0
        self.skipped: Counter[str] = Counter()
        """files in the folders that are neither images nor videos, counted by their ending"""
        self.problems: list[str] = []
        """a sentence for each folder that could not be listed"""
        self.videos: list[Input] = []
        for path in paths:
            count = self.images + len(self.videos)
            for found in _expand(os.fspath(path), self):
                if found.is_video:
                    self.videos.append(found)
                else:
                    self._spool.write(f"{_escape(found.path)}\0{_escape(found.name)}\n")
                    self.images += 1
            if self.images + len(self.videos) == count and not self.problems:
                raise InputError(f"{path} holds no image or video: check the path.")

    def skip(self, suffix: str) -> None:
        """Count a file of a folder that is left out; rare endings are counted together."""
        known = suffix in self.skipped or len(self.skipped) < KINDS
        self.skipped[suffix if known and len(suffix) <= 8 else ""] += 1

    def __iter__(self) -> Iterator[Input]:
        """The images."""
        self._spool.seek(0)
        for line in self._spool:
            path, name = line.rstrip("\n").split("\0")
            yield Input(_unescape(path), _unescape(name))


def _expand(text: str, report: Inputs) -> Iterator[Input]:
    if os.path.isdir(text):  # noqa: PTH112  # a string may be a pattern, not a path
        yield from _folder(text, "", report)
    elif os.path.exists(text) or not glob.has_magic(text):  # noqa: PTH110
        # a file that is missing is found out, named and counted when it is read
        yield Input(text, _short(text))
    else:
        matches = glob.iglob(text, recursive=True)  # noqa: PTH207
        while names := sorted(islice(matches, SORTED_AT_A_TIME)):
            for found in names:
                if not os.path.isdir(found):  # noqa: PTH112
                    yield Input(found, _short(found))


def _folder(folder: str, inside: str, report: Inputs) -> Iterator[Input]:
    """Images and videos under a folder, files before subfolders; hidden ones are left out."""
    deeper: list[str] = []
    try:
        with os.scandir(folder) as entries:
            while names := sorted(
                (e.name, e.is_dir(follow_symlinks=False)) for e in islice(entries, SORTED_AT_A_TIME)
            ):
                for name, is_folder in names:
                    if name.startswith("."):
                        continue
                    if is_folder:
                        deeper.append(name)
                    elif _suffix(name) in FOUND_IN_FOLDERS:
                        yield Input(os.path.join(folder, name), os.path.join(inside, name))  # noqa: PTH118
                    else:
                        report.skip(_suffix(name))
    except OSError as error:
        report.problems.append(
            f"{folder} cannot be listed ({error.strerror}): check its permissions."
        )
    for name in deeper:
        yield from _folder(os.path.join(folder, name), os.path.join(inside, name), report)  # noqa: PTH118


def _suffix(path: str) -> str:
    """As `Path.suffix`, which would keep each name of a million in Python's table of strings."""
    return os.path.splitext(path)[1].lower()  # noqa: PTH122


def _short(path: str) -> str:
    """A relative path keeps its folders, so that outputs do not collide; others their name."""
    pure = Path(path)
    return pure.name if pure.is_absolute() or ".." in pure.parts else str(pure)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _unescape(text: str) -> str:
    return text.replace("\\\\", "\0").replace("\\n", "\n").replace("\0", "\\")


def run_note(
    inputs: Iterable[str],
    model: str,
    backend: str | None,
    boxes: Path | None,
    small_faces: bool,
    accept_from: float | None,
) -> str:
    """What else the results of a run depend on, for its identity: places of the inputs, contents
    of the model and of the box file."""
    about = {
        "inputs": [os.path.abspath(path) for path in inputs],  # noqa: PTH100  # patterns stay
        "model": _content(find_model(model, backend)),
        "boxes": None if boxes is None else _content(boxes),
        "small_faces": small_faces,
        "accept_from": accept_from,
    }
    return json.dumps(about, sort_keys=True)


def _content(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()[:16]
    except OSError as error:
        raise unreadable(path, error) from error
