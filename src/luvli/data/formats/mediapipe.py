"""MediaPipe's face mesh as 68 points.

The mesh has 468 points, 478 with the irises. Most of the 68 have a vertex where people
click; the jaw has not: the mesh's outline is where the mesh ends, on the cheek of a 3-D head,
while 300-W's labellers click the visible outline. Errors of the jaw, and means that
include it, say more about this difference than about the method; score the other 51.

The vertices were checked with MediaPipe 1.2 on 150 photographs of LFPW with 300-W's labels:
the 51 are off by 4.0 % of the distance between the outer eye corners on average, where the
vertex nearest to each label would give 3.7 %; the jaw is off by 8.4 %, where 7.9 % is the best.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.errors import InputError

MESH_SIZES = (468, 478)
CAVEAT = (
    "MediaPipe's mesh was read as 68 points: its jaw is the edge of a 3-D mesh and not the "
    "visible outline that people label, so score the other 51 points."
)

_JAW = (127, 234, 132, 58, 172, 136, 149, 148, 152, 377, 378, 365, 397, 288, 361, 454, 356)
_BROWS = (70, 63, 105, 66, 107, 336, 296, 334, 293, 300)
_NOSE = (168, 197, 5, 4, 75, 97, 2, 326, 305)
_EYES = (33, 160, 158, 133, 153, 144, 362, 385, 387, 263, 373, 380)
_OUTER_LIPS = (61, 39, 37, 0, 267, 269, 291, 405, 314, 17, 84, 181)
_INNER_LIPS = (78, 82, 13, 312, 308, 317, 14, 87)
MESH_TO_IBUG68 = (*_JAW, *_BROWS, *_NOSE, *_EYES, *_OUTER_LIPS, *_INNER_LIPS)
"""for each of the 68 points the vertex that stands for it"""


def mesh_to_ibug68(mesh: ArrayLike) -> NDArray[np.float64]:
    """Mesh points (..., 468 or 478, 2 or 3) -> (..., 68, 2), in the same pixels.

    >>> mesh_to_ibug68(np.zeros((2, 478, 3))).shape
    (2, 68, 2)
    """
    points = np.asarray(mesh, dtype=np.float64)
    if points.ndim < 2 or points.shape[-2] not in MESH_SIZES:
        raise InputError(
            f"MediaPipe's mesh has 468 or 478 points, got an array of shape {points.shape}."
        )
    return points[..., list(MESH_TO_IBUG68), :2]
