"""Portraits without labels: a folder of images, one face to look at in each.

For self-training: a model labels them (`relabel` in a recipe). Their boxes come from a detector
(`boxes`), and they can lend rendered faces their skins and backgrounds.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from luvli.data.record import FaceRecord, Visibility
from luvli.data.sets.definition import ReadItem, Request, SetInfo, missing_folder
from luvli.data.sets.source_files import Folder, walk


def read_portraits(request: Request) -> Iterator[ReadItem]:
    """Every image under the folder, with 68 unlabelled landmarks."""
    yield from unlabelled_faces(request, "portraits")


def unlabelled_faces(request: Request, dataset: str, **attributes: str) -> Iterator[ReadItem]:
    """A record of 68 unlabelled landmarks, with these attributes, for every image."""
    if not request.root.is_dir():
        yield missing_folder(request.root, "the portraits")
        return
    for folder, _ in walk(request.root):
        for image in Folder(folder).images:
            yield FaceRecord(
                points=np.full((68, 2), np.nan),
                visibility=np.full(68, Visibility.UNLABELLED),
                image=image if request.images else None,
                dataset=dataset,
                face_id=str(image.relative_to(request.root).with_suffix("")),
                attributes={"subsets": [], **attributes},
            )


INFO = SetInfo(
    name="portraits",
    title="unlabelled portraits",
    read=read_portraits,
    points="68/0",
    profile="?",
    splits=("train",),
    licence="yours",
    layout="images, one face in each; no labels",
    confirmed="two collections of 1,134 and 100 portraits",
)
