"""Heat-map pixels and crop pixels: the one place where they are converted.

Both count from the centre of the first pixel. One heat-map pixel covers `STRIDE` x `STRIDE`
crop pixels, so its centre lies half-way between the two middle ones:

    crop = STRIDE * (heat + 1/2) - 1/2        pixel grid "centres", ours
    crop = STRIDE * heat                      pixel grid "corners", the published code

Functions take numpy arrays and PyTorch tensors alike and need neither library.
"""

from __future__ import annotations

from typing import Literal

from luvli.arrays import Array
from luvli.errors import unknown_choice

PixelGrid = Literal["centres", "corners"]
STRIDE = 4


def heatmap_to_crop(points: Array, grid: PixelGrid) -> Array:
    """Locations (..., 2) in heat-map pixels -> crop pixels.

    >>> import numpy as np
    >>> heatmap_to_crop(np.array([0.0, 10.0]), "centres").tolist()
    [1.5, 41.5]
    """
    return points * STRIDE + _offset(grid)


def crop_to_heatmap(points: Array, grid: PixelGrid) -> Array:
    """The inverse of `heatmap_to_crop`."""
    return (points - _offset(grid)) / STRIDE


def cholesky_to_crop(cholesky: Array) -> Array:
    """Cholesky entries (..., 3) or roots in heat-map pixels -> crop pixels."""
    return cholesky * STRIDE


def covariance_to_heatmap(covariance: Array) -> Array:
    """Covariances (..., 2, 2) in crop pixels squared -> heat-map pixels squared."""
    return covariance / STRIDE**2


def contrast_stretch(images: Array) -> Array:
    """Crops (..., 3, S, S) -> the same with smallest value 0 and largest 1, each by itself.

    The published code did this to every crop, as a side effect of its image library, and
    networks trained that way expect it (`NetworkConfig.contrast_stretch`). Colours share
    one stretch. A flat crop becomes black.

    >>> import numpy as np
    >>> contrast_stretch(np.array([[[[0.2, 0.4, 0.6]]]])).round(6).tolist()
    [[[[0.0, 0.5, 1.0]]]]
    """
    flat = images.reshape(*images.shape[:-3], -1)
    smallest, largest = ("amin", "amax") if hasattr(flat, "amin") else ("min", "max")
    low = getattr(flat, smallest)(-1)[..., None, None, None]
    high = getattr(flat, largest)(-1)[..., None, None, None]
    return (images - low) / (high - low + (high == low))


def _offset(grid: PixelGrid) -> float:
    if grid == "centres":
        return (STRIDE - 1) / 2
    if grid == "corners":
        return 0.0
    raise unknown_choice("pixel grid", grid, ("centres", "corners"))
