"""Whether two files count pixels from the same number, and in pixels at all.

One pixel is little to look at and much in a table: SPIGA's results for 300-W have an inter-ocular
NME of 2.99 against labels that count as they do, and 3.42 against the same labels counted from 1.
"""

from __future__ import annotations

import numpy as np

from luvli.arrays import Bools, Floats

_FACES = 10
"""fewer say nothing"""
_OFFSETS = (0.6, 2.0)
"""pixels, of both axes: with one pixel between the files and a habit of the method's own"""
_SURE = 0.1
"""pixels: the largest standard error of such an offset"""
_SHARES = (-0.5, 1.5)
"""nine in ten coordinates between these are no pixels; faces may reach beyond their image"""
_PIXELS = 10.0
"""a median label above this is no share"""


def origin_notes(predicted: Floats, truth: Floats) -> list[str]:
    """Warnings where predictions (n, k, 2) lie a pixel beside the labels (n, k, 2) on average, or
    are shares of the image's size, as MediaPipe's are."""
    notes = []
    known: Bools = np.all(np.isfinite(predicted - truth), axis=2)
    measured = np.flatnonzero(np.any(known, axis=1))
    if len(measured) >= _FACES:
        gap = np.where(known[..., None], predicted - truth, np.nan)[measured]
        offsets = np.nanmedian(gap, axis=1)
        mean = offsets.mean(axis=0)
        sure = (offsets.std(axis=0) / np.sqrt(len(offsets)) < _SURE).all()
        for way, side, option in ((1, "predictions", ""), (-1, "labels", "truth-")):
            apart = (_OFFSETS[0] < mean * way) & (mean * way < _OFFSETS[1])
            if sure and apart.all():
                notes.append(
                    f"WARNING: predictions lie {mean[0]:+.1f}, {mean[1]:+.1f} pixels beside the "
                    f"labels on average: do the {side} count pixels from 1? Then say "
                    f"--{option}one-based."
                )
    places, labels = (side[np.isfinite(side)] for side in (predicted, truth))
    if places.size and labels.size and np.median(labels) >= _PIXELS:
        low, high = np.quantile(places, (0.05, 0.95))
        if _SHARES[0] < low < high < _SHARES[1]:
            notes.append(
                "WARNING: the predictions lie between 0 and 1: they look like shares of the "
                "image's width and height, as MediaPipe gives them; multiply them by it."
            )
    return notes
