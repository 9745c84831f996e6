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
from luvli.data.record import FaceRecord
from luvli.data.sets.definition import ReadItem, Request, SetInfo
from luvli.data.sets.source_files import read_pairs, walk
from luvli.errors import InputError

_SPLITS = {68: "frontal", 39: "profile"}
_MARKUPS = {68: "ibug68", 39: "menpo39"}


def read_menpo(request: Request) -> Iterator[ReadItem]:
    """One split; the archive's folders may be nested in any way."""
    for folder, names in walk(request.root):
        if any(name.endswith(".pts") for name in names):
            yield from read_pairs(folder, request, partial(_record, split=request.split))


def _record(label: Path, image: Path | None, split: str) -> FaceRecord | None:
    points, visibility = read_pts(label, signed=False)
    count = len(points)
    if count not in _SPLITS:
        raise InputError(f"{label} has {count} points: Menpo has 68, or 39 for profiles.")
    if _SPLITS[count] != split:
        return None
    return FaceRecord(
        points=points,
        visibility=visibility,
        image=image,
        markup=_MARKUPS[count],
        dataset="menpo",
        face_id=label.stem,
        attributes={"subsets": [_SPLITS[count]]},
    )


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
