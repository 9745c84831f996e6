"""300W-LP with its 2-D points: 300-W faces turned to new poses by a 3-D model.

Read from the folders AFW, HELEN, IBUG and LFPW and `landmarks/<folder>/*_pts.mat`, variable
`pts_2d` (68, 2), counted from 1 as everything that Matlab wrote. The mirrored copies in the
`*_Flip` folders are not part of the paper's 61,225. Points that the head hides are labelled
as if it were transparent, so every landmark counts as visible.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from luvli.data.formats.common import face
from luvli.data.formats.matlab import mat_field, read_matlab
from luvli.data.record import FaceRecord
from luvli.data.sets.definition import Entry, ReadItem, Request, SetInfo, missing_folder
from luvli.data.sets.source_files import Folder
from luvli.errors import InputError

_SIZES = {"AFW": 5207, "HELEN": 37676, "IBUG": 1786, "LFPW": 16556}
_SUFFIX = "_pts.mat"


def read_w300lp(request: Request) -> Iterator[ReadItem]:
    """All 61,225 faces; the subsets are afw, helen, ibug and lfpw."""
    for part, size in _SIZES.items():
        if not request.wants(part.lower()):
            continue
        labels = request.root / "landmarks" / part
        if not labels.is_dir():
            yield missing_folder(labels, f"{size:,} label files *{_SUFFIX}")
            continue
        images = Folder(request.root / part)
        for label in Folder(labels).ending(_SUFFIX):
            stem = label.name.removesuffix(_SUFFIX)
            name = f"{part}/{stem}.jpg"
            read = partial(_face, label)
            yield Entry(label, stem, read, images.image(stem), name, [part.lower()])


def _face(label: Path) -> FaceRecord:
    raw = np.asarray(mat_field(label, read_matlab(label), "pts_2d"), dtype=np.float64)
    if raw.shape != (68, 2):
        raise InputError(f"{label} has pts_2d of shape {raw.shape} instead of (68, 2).")
    return face(raw - 1)


INFO = SetInfo(
    name="w300lp",
    title="300W-LP-2D",
    read=read_w300lp,
    train=61225,
    profile="yes",
    self_occlusion="T",
    splits=("train",),
    expected={
        "published": {
            "train": sum(_SIZES.values()),
            **{f"train/{part.lower()}": size for part, size in _SIZES.items()},
        }
    },
    subsets=tuple(part.lower() for part in _SIZES),
    licence="research only, no redistribution",
    layout="AFW/, HELEN/, IBUG/, LFPW/ with images and landmarks/<the same>/*_pts.mat",
    confirmed="nothing: layout and counts are from its description and the paper.",
)
