"""What `luvli predict` is given: files, folders, patterns and URIs, listed one by one.

One walk serves every engine. It does not go through links to folders, so that none is read twice.
"""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from luvli.errors import InputError
from luvli.files import PathLike
from luvli.image.read import IMAGE_SUFFIXES
from luvli.prediction.places import is_file, is_uri, list_store, local_path
from luvli.prediction.settings import DRAWN, MEASURED

VIDEO_SUFFIXES = (".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ts", ".mts",
                  ".m2ts", ".wmv", ".flv", ".3gp", ".ogv")  # fmt: skip
KINDS = {
    **dict.fromkeys(IMAGE_SUFFIXES, "files"),
    **dict.fromkeys(VIDEO_SUFFIXES, "video"),
    ".parquet": "parquet",
    ".tar": "tar",
}
"""suffix -> kind of part"""
PACKED = (".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar.zst", ".zip")


class Input(NamedTuple):
    """One file."""

    path: str
    name: str
    """what its outputs are called after: its path inside the folder given"""
    stamp: str = ""
    """size and time of the last change; empty for a file that is not there"""

    @property
    def kind(self) -> str:
        """files (an image), video, parquet or tar."""
        return KINDS.get(_suffix(self.path), "files")

    @classmethod
    def of_file(cls, path: str, name: str = "") -> Input:
        """A local file. By default its outputs keep the folders of a relative path, so that they do
        not collide."""
        pure = Path(path)
        outside = pure.is_absolute() or ".." in pure.parts
        try:
            about = os.stat(path)  # noqa: PTH116
            stamp = f"{about.st_size}-{about.st_mtime_ns}"
        except (OSError, ValueError):  # ValueError: a zero byte in the name
            stamp = ""
        return cls(path, name or (pure.name if outside else str(pure)), stamp)


class Inputs:
    """All inputs of one job, in order; iterate over it as often as you like.

    Of a folder, files with known suffixes count; files that are named themselves always count.
    """

    def __init__(self, paths: Iterable[PathLike], out: PathLike | None = None) -> None:
        """`out`: drawings in this folder are left out."""
        self.paths = [local_path(os.fspath(path)) for path in paths]
        self._out = None if out is None else Path(out).absolute()
        self.skipped: Counter[str] = Counter()
        """files in the folders that are no inputs, counted by their ending"""
        self.problems: list[str] = []
        """a sentence for each folder that could not be listed"""

    def absolute(self) -> Inputs:
        """The same with absolute paths, for workers that run in another folder."""
        return Inputs(self.places, self._out)

    @property
    def places(self) -> list[str]:
        """The paths, absolute where they are local."""
        return [path if is_uri(path) else str(Path(path).absolute()) for path in self.paths]

    def is_photograph(self) -> bool:
        """Whether it is one image file."""
        (path, *others) = self.paths
        return not others and Input(path, "").kind == "files" and is_file(path)

    def __iter__(self) -> Iterator[Input]:
        self.skipped.clear()
        self.problems.clear()
        for path in self.paths:
            count = 0
            for item in self._expand(path):
                count += 1
                yield item
            if not count and not self.problems:
                raise InputError(f"{path} holds no image or video: check the path.")

    def _expand(self, text: str) -> Iterator[Input]:
        if text.lower().endswith(PACKED):
            raise InputError(f"{text} is packed: unpack it, or make a plain .tar of it.")
        if is_uri(text):
            if is_file(text):
                yield Input(text, text.rpartition("/")[2])
                return
            listed = (Input(*each) for each in list_store(text))
            yield from (item for item in listed if self._is_input(item.name.rpartition("/")[2]))
        elif Path(text).is_dir():
            yield from self._folder(text)
        elif os.path.lexists(text) or not glob.has_magic(text):
            # a file that is missing is found out, named and counted when it is read
            yield Input.of_file(text)
        else:
            names = sorted(glob.iglob(text, recursive=True))  # noqa: PTH207
            yield from (Input.of_file(name) for name in names if not Path(name).is_dir())

    def _folder(self, top: str) -> Iterator[Input]:
        """Inputs under a folder, files before subfolders; hidden ones are left out."""

        def problem(error: OSError) -> None:
            self.problems.append(
                f"{error.filename} cannot be listed ({error.strerror}): check its permissions."
            )

        for folder, deeper, names in os.walk(top, onerror=problem):
            deeper[:] = sorted(name for name in deeper if name[:1] != ".")
            inside, place = os.path.relpath(folder, top), Path(folder).absolute()
            is_out = self._out is not None and (place == self._out or self._out in place.parents)
            for name in sorted(names):
                drawn = is_out and os.path.splitext(name)[0].endswith((DRAWN, MEASURED))  # noqa: PTH122
                if name[:1] != "." and not drawn and self._is_input(name):
                    inner = name if inside == "." else f"{inside}{os.sep}{name}"
                    yield Input.of_file(os.path.join(folder, name), inner)  # noqa: PTH118

    def _is_input(self, name: str) -> bool:
        """Whether a file of a folder counts; others are counted by their ending."""
        suffix = _suffix(name)
        if suffix in KINDS and not (suffix == ".parquet" and name.startswith("_")):
            return True
        self.skipped[suffix if len(suffix) <= 8 else ""] += 1
        return False


def _suffix(path: str) -> str:
    """As `Path.suffix`, which would keep each name of a million in Python's table of strings."""
    return os.path.splitext(path)[1].lower()  # noqa: PTH122
