"""The box that a face is cropped by: supplement A1 of the paper.

Where the data set has a detector's box, or one of its own, that is it. Otherwise the tight
box of the landmarks, each edge moved by uniform noise of 5 percent, so that a network never
learns to read the landmarks off the crop's border. The noise of a face depends on its id
and a seed alone: it is the same in every epoch, run and machine.
"""

from __future__ import annotations

import hashlib
from typing import Literal, get_args

import numpy as np

from luvli.data.record import FaceRecord
from luvli.errors import check_choice, check_range
from luvli.image.box import Box

BoxNoise = Literal["paper", "reference", "none"]
"""`paper`: U(-5 %, 5 %) of the width for the vertical edges, of the height for the others.
`reference` (published code): of the square root of width times height, for all."""

_AMOUNT = 0.05

ENLARGEMENTS = {"none": 1.0, "reference": 1.1, "hrnet": 1.25}
"""How much of the surroundings a crop shows: side of the crop / longer side of the box. The
paper is silent; the published code uses `hrnet` for AFLW-19 and WFLW, `reference` elsewhere
(`SetInfo.enlarge`)."""


def get_enlargement(choice: str | float) -> float:
    """The factor of a named enlargement, or the number itself.

    >>> get_enlargement("hrnet")
    1.25
    """
    if isinstance(choice, str):
        check_choice("enlargement", choice, ENLARGEMENTS)
        return ENLARGEMENTS[choice]
    check_range("enlargement", choice, 0, ends=False)
    return float(choice)


def crop_box(record: FaceRecord, noise: BoxNoise = "paper", seed: int = 0) -> Box:
    """The box of one face, in image pixels."""
    check_choice("box noise", noise, get_args(BoxNoise))
    if record.box is not None and record.box_kind != "tight":
        x0, y0, x1, y1 = record.box
        score = 1.0 if record.score is None else record.score
        return Box(x0, y0, x1, y1, score, detected=record.box_kind == "detector")
    tight = Box(*record.tight_box)
    if noise == "none":
        return tight
    name = hashlib.sha256(f"{record.dataset}/{record.face_id}".encode()).digest()
    rng = np.random.default_rng([seed, int.from_bytes(name[:8], "little")])
    extent = np.array([tight.width, tight.height] * 2)
    if noise == "reference":
        extent[:] = tight.size
    return Box(*(tight.array + rng.uniform(-_AMOUNT, _AMOUNT, size=4) * extent))
