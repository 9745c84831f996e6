"""Portraits without labels: folders of images, one face to look at in each.

For self-training: a model labels them (`relabel` in a recipe). Their boxes come from a detector
(`boxes`), and they can lend rendered faces their skins and backgrounds. The eyes of Closed Eyes
in the Wild (Song, Tan, Liu and Chen, Pattern Recognition 2014) are known to be shut: the lids that
a model labels are brought together.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from luvli.data.formats.common import face
from luvli.data.sets.definition import Reading
from luvli.data.sets.source_files import Folder, walk


def read_portraits(reading: Reading, **attributes: str) -> None:
    """Every image under the folder, with 68 unlabelled landmarks and these attributes."""
    read = partial(face, np.full((68, 2), np.nan), attributes=attributes)
    for folder, _ in walk(reading.root):
        for image in Folder(folder).images:
            face_id = str(image.relative_to(reading.root).with_suffix(""))
            reading.face(image, face_id, read, image)
