"""Ways along the skin from the jaw landmarks inwards: where the visible outline can slide to."""

from __future__ import annotations

import numpy as np

from luvli.synthetic.arrays import Floats, Ints
from luvli.synthetic.raster.zbuffer import vertex_normals

# How far towards the middle of the face the outline may slide, for the jaw points 0 to 8.
_REACH = (0.36, 0.46, 0.56, 0.62, 0.64, 0.66, 0.66, 0.60, 0.0)


def find_jaw_paths(neutral: Floats, triangles: Ints, landmarks: Ints, steps: int = 24) -> Ints:
    """Vertices of the skin nearest to a line from each jaw landmark to the middle of the face.

    In a front view the way is level, or nearly so below the mouth. The last vertex is where an
    annotator would no longer call it jaw.
    """
    normals = np.zeros_like(neutral)
    vertex_normals(neutral, triangles, normals)
    outer = np.unique(triangles)
    outer = outer[
        (normals[outer, 2] > -0.3) & (neutral[outer, 2] > neutral[landmarks[:17], 2].min() - 2)
    ]
    jaw = neutral[landmarks[:17]]
    mouth = neutral[landmarks[48:68]].mean(axis=0)
    paths = np.zeros((17, steps), np.int32)
    for j in range(17):
        height = jaw[j, 1]
        # the chin's underside is no outline: points below the mouth rise a little on their way
        target = np.array([0.0, height + 0.25 * max(mouth[1] - height, 0.0)])
        line = jaw[j, :2] + np.linspace(0, _REACH[min(j, 16 - j)], steps)[:, None] * (
            target - jaw[j, :2]
        )
        line = line.astype(np.float32)
        distance = np.linalg.norm(neutral[outer, None, :2] - line[None], axis=2)
        nearest = outer[distance.argmin(axis=0)]
        nearest[0] = landmarks[j]
        paths[j] = nearest
    return paths
