"""Portraits without labels: folders of images, one face to look at in each.

For self-training: a model labels them (`relabel` in a recipe). Their boxes come from a detector
(`boxes`), and they can lend rendered faces their skins and backgrounds. The eyes of Closed Eyes
in the Wild (Song, Tan, Liu and Chen, Pattern Recognition 2014) are known to be shut: the lids that
a model labels are brought together.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from luvli.data.formats.common import face
from luvli.data.sets.definition import Entry, ReadItem, Request, SetInfo
from luvli.data.sets.source_files import Folder, walk


def read_portraits(request: Request, **attributes: str) -> Iterator[ReadItem]:
    """Every image under the folder, with 68 unlabelled landmarks and these attributes."""
    read = partial(face, np.full((68, 2), np.nan), attributes=attributes)
    for folder, _ in walk(request.root):
        for image in Folder(folder).images:
            face_id = str(image.relative_to(request.root).with_suffix(""))
            yield Entry(image, face_id, read, image, image.name)


PORTRAITS = SetInfo(
    name="portraits",
    title="unlabelled portraits",
    read=read_portraits,
    layout="images, one face in each; no labels",
    licence="yours",
    confirmed="two collections of 1,134 and 100 portraits",
    table=("-", "-", "68/0", "?", "no", "no"),
    splits=("train",),
)
CLOSED_EYES = SetInfo(
    name="closed_eyes",
    title="Closed Eyes in the Wild",
    read=partial(read_portraits, eyes="closed"),
    layout="images, one face with shut eyes in each; no labels",
    licence="research only",
    confirmed="596 faces",
    table=("1,192", "-", "68/0", "no", "no", "no"),
    splits=("train",),
)
