"""Faces whose eyes are shut, without landmarks: Closed Eyes in the Wild.

A model labels them (`relabel` in a recipe), and because the eyes are known to be shut, its lids are
brought together. Song, Tan, Liu and Chen, Pattern Recognition 2014.
"""

from __future__ import annotations

from functools import partial

from luvli.data.sets.definition import SetInfo
from luvli.data.sets.portraits import read_portraits

INFO = SetInfo(
    name="closed_eyes",
    title="Closed Eyes in the Wild",
    points="68/0",
    train=1192,
    read=partial(read_portraits, eyes="closed"),
    splits=("train",),
    licence="research only",
    layout="images, one face with shut eyes in each; no labels",
    confirmed="596 faces",
)
