"""300W-LP with its 2-D points: 300-W faces turned to new poses by a 3-D model.

Read from the folders AFW, HELEN, IBUG and LFPW and `landmarks/<folder>/*_pts.mat`, variable
`pts_2d` (68, 2), counted from 1 as everything that Matlab wrote. The mirrored copies in the
`*_Flip` folders are not part of the paper's 61,225. Points that the head hides are labelled
as if it were transparent, so every landmark counts as visible.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from luvli.data.formats.common import face
from luvli.data.formats.matlab import read_matlab_floats
from luvli.data.record import FaceRecord
from luvli.data.sets.definition import Reading
from luvli.data.sets.source_files import Folder

_SUFFIX = "_pts.mat"


def read_w300lp(reading: Reading) -> None:
    """All 61,225 faces; the subsets are afw, helen, ibug and lfpw."""
    for subset in filter(reading.wants, reading.info.subsets):
        part = subset.upper()
        labels = reading.root / "landmarks" / part
        if not labels.is_dir():
            reading.missing_folder(labels, f"label files *{_SUFFIX}")
            continue
        images = Folder(reading.root / part)
        for label in Folder(labels).ending(_SUFFIX):
            stem = label.name.removesuffix(_SUFFIX)
            read, name = partial(_face, label), f"{part}/{stem}.jpg"
            reading.face(label, stem, read, images.image(stem), name, [subset])


def _face(label: Path) -> FaceRecord:
    return face(read_matlab_floats(label, "pts_2d", (68, 2)) - 1)
