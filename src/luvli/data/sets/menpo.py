"""Menpo 2D, the training release: `.pts` beside the images, 68 points or 39 for profiles.

The paper tests on the 6,679 faces with 68 points (split `frontal`). The 39 points of the
profile faces mean other places of the face, so they are a split of their own (`profile`,
markup `menpo39`) and never mix with the 68.

Counts differ by release: the challenge names 5,658 + 1,906 training faces (the 7,564 of the
paper's Table 1), the MenpoBenchmark project 6,653 + 2,290, and the paper tested on 6,679.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from luvli.data.formats import read_pts
from luvli.data.formats.common import face
from luvli.data.record import FaceRecord
from luvli.data.sets.definition import Entry, ReadItem, Request, SetInfo
from luvli.data.sets.source_files import read_pairs, walk
from luvli.errors import InputError

_POINTS = {"frontal": (68, "ibug68"), "profile": (39, "menpo39")}


def read_menpo(request: Request) -> Iterator[ReadItem]:
    """One split; the archive's folders may be nested in any way."""

    def entry(label: Path, image: Path | None) -> Entry:
        read = partial(_face, label, request.split)
        return Entry(label, label.stem, read, image, f"{label.stem}.jpg or .png", [request.split])

    for folder, names in walk(request.root):
        if any(name.endswith(".pts") for name in names):
            yield from read_pairs(folder, request, entry)


def _face(label: Path, split: str) -> FaceRecord | None:
    points, visibility = read_pts(label, signed=False)
    if len(points) not in (68, 39):
        raise InputError(f"{label} has {len(points)} points: Menpo has 68, or 39 for profiles.")
    count, markup = _POINTS[split]
    return face(points, "", visibility, markup=markup) if len(points) == count else None


INFO = SetInfo(
    name="menpo",
    title="Menpo 2D",
    read=read_menpo,
    points="68/39",
    train=7564,
    test=7281,
    profile="yes",
    self_occlusion="F/P",
    splits=("frontal", "profile"),
    expected={"published": {"frontal": 6679}},
    subsets=("frontal", "profile"),
    licence="research only, no redistribution",
    layout="the training release: images with .pts files beside them",
    confirmed="nothing: counts are from papers, and they differ by release. The challenge names "
    "5,658 faces of 68 points and 1,906 of 39 (together the 7,564 of Table 1), the "
    "MenpoBenchmark project 6,653 and 2,290, the paper 6,679; yours is whole if it has "
    "the numbers of its release.",
)
