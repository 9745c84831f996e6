"""Whether two files count pixels from the same number.

One pixel is little to look at and much in a table: SPIGA's results for 300-W have an inter-ocular
NME of 2.99 against labels that count as they do, and 3.42 against the same labels counted from 1.
"""

from __future__ import annotations

import numpy as np

from luvli.arrays import Floats

MIN_FACES = 10
OFFSETS = (0.6, 2.0)
"""pixels, of both axes: with one pixel between the files and a habit of the method's own"""
MAX_ERROR = 0.1
"""pixels: the largest standard error of such an offset"""


def origin_notes(predicted: Floats, truth: Floats) -> list[str]:
    """Warnings where predictions (n, k, 2) lie a pixel beside the labels (n, k, 2) on average."""
    known = np.isfinite(predicted).all(axis=2) & np.isfinite(truth).all(axis=2)
    gap = (predicted - truth)[np.any(known, axis=1)]
    if len(gap) < MIN_FACES:
        return []
    offsets = np.nanmedian(gap, axis=1)
    mean, error = offsets.mean(axis=0), offsets.std(axis=0) / np.sqrt(len(offsets))
    low, high = OFFSETS
    return [
        f"WARNING: predictions lie {mean[0]:+.1f}, {mean[1]:+.1f} pixels beside the labels on "
        f"average: do the {side} count pixels from 1? Then say --{option}one-based."
        for way, side, option in ((1, "predictions", ""), (-1, "labels", "truth-"))
        if ((low < mean * way) & (mean * way < high) & (error < MAX_ERROR)).all()
    ]
