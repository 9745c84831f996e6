"""Faces whose eyes are shut, without landmarks: Closed Eyes in the Wild.

A model labels them (`relabel` in a recipe), and because the eyes are known to be shut, its lids are
brought together. Song, Tan, Liu and Chen, Pattern Recognition 2014.
"""

from __future__ import annotations

from collections.abc import Iterator

from luvli.data.sets.definition import ReadItem, Request, SetInfo
from luvli.data.sets.portraits import unlabelled_faces


def read_closed_eyes(request: Request) -> Iterator[ReadItem]:
    """Every image under the folder, with 68 unlabelled landmarks and `eyes: closed`."""
    yield from unlabelled_faces(request, "closed_eyes", eyes="closed")


INFO = SetInfo(
    name="closed_eyes",
    title="Closed Eyes in the Wild",
    points="68/0",
    train=1192,
    read=read_closed_eyes,
    splits=("train",),
    licence="research only",
    layout="images, one face with shut eyes in each; no labels",
    confirmed="596 faces",
)
