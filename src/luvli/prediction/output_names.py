"""Names of outputs, unique by construction; files of others are never replaced."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from luvli.prediction.inputs import Input

NUMBERED = re.compile(r"~\d+$")
"""how the files of a second and third face end: no input's stem may end so"""
LONGEST = 220
"""bytes of a file's name; file systems allow 255, and outputs are called NAME.jpg (12)-landmarks"""
RESERVED = frozenset(("faces", "failed", "images"))
"""results of all images, and reports"""


class OutputNames:
    """Gives each input of a run a stem of its own, from which all its outputs are named.

    >>> names = OutputNames(Path("out"))
    >>> [names.stem(Input(f"/{folder}/x.jpg", "x.jpg")).as_posix() for folder in "abc"]
    ['out/x', 'out/x.jpg', 'out/x.jpg (2)']
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self._taken: set[int] = set()
        self._folders: set[int] = set()

    def stem(self, item: Input) -> Path:
        """Where outputs of one input go, without a suffix; no two inputs share it."""
        name = Path(*map(_shortened, Path(item.name).parts))
        for candidate in self._candidates(name):
            key = hash(str(candidate))
            reserved = str(candidate) in RESERVED or NUMBERED.search(candidate.name)
            # the frames of a video get a folder of the stem's name
            inside = item.kind == "video" and key in self._folders
            within = any(hash(str(parent)) in self._taken for parent in candidate.parents)
            if key in self._taken or reserved or inside or within:
                continue
            self._taken.add(key)
            self._folders.update(hash(str(parent)) for parent in candidate.parents)
            return self.out / candidate
        raise AssertionError("there is always a next number")

    @staticmethod
    def _candidates(name: Path) -> Iterator[Path]:
        yield name.with_suffix("")
        yield name  # a.png beside a.jpg
        number = 2
        while True:
            yield name.with_name(f"{name.name} ({number})")
            number += 1


def _shortened(part: str) -> str:
    """A name that leaves room for what outputs add to it; two long ones stay different."""
    raw = os.fsencode(part)
    if len(raw) <= LONGEST:
        return part
    stem, suffix = os.path.splitext(part)  # noqa: PTH122
    digest = hashlib.blake2b(raw, digest_size=6).hexdigest()
    kept = os.fsencode(stem)[: LONGEST - 40].decode("utf-8", "ignore")
    return f"{kept}-{digest}{suffix[:16]}"
