"""The pixels that the paper's tables and figures are in, whatever network was run.

The paper crops the square around a face's box, enlarges it (1.1 times; 1.25 for AFLW-19 and
WFLW) and shows it as 256 pixels, over which its heat maps have 64. So one of its pixels is a
length on the *face*, not a property of a network: with it a network of 128-pixel crops, or
one that shows more of the surroundings, is compared in the same unit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.data.boxes import ENLARGEMENTS
from luvli.data.record import FaceRecord
from luvli.data.sets import SETS

CROP_PIXELS = 256
"""side of the paper's crop"""
CROP_PER_HEATMAP = 4.0
"""pixels of that crop in one heat-map pixel"""


def paper_pixels(boxes: ArrayLike, dataset: str = "") -> NDArray[np.float64]:
    """(n,) side of one pixel of the paper's crop, in the pixels of `boxes` (n, 4).

    The boxes are those that the paper crops by: the data set's, else tight ones.

    >>> paper_pixels([[0, 0, 100, 256]], "wflw").tolist()
    [1.25]
    """
    edges = np.asarray(boxes, dtype=np.float64)
    enlarge = SETS[dataset].enlarge if dataset in SETS else ENLARGEMENTS["reference"]
    return np.asarray((edges[:, 2:] - edges[:, :2]).max(axis=1) * enlarge / CROP_PIXELS)


def crop_boxes(records: Sequence[FaceRecord]) -> NDArray[np.float64]:
    """(n, 4) the boxes that the paper crops these faces by, without its noise; NaN for none."""
    return np.stack(
        [
            record.tight_box if record.box is None or record.box_kind == "tight" else record.box
            for record in records
        ]
    )
