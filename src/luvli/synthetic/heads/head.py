"""A 3-D head: a mesh with spaces of identity and expression, and where its landmarks are.

Every head, built in or read from files, is described by the same few arrays, in centimetres,
x to the right of the image, y up, z to the viewer. What can be derived from shape and
landmarks alone (skin regions, hair roots, ambient occlusion, ways along the jaw) is derived
here once and the same way for all, so that a new head needs nothing but geometry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from luvli.measures.rotation import rotation_matrix
from luvli.synthetic.arrays import Bytes, Ints, Singles
from luvli.synthetic.heads.jaw import JawPaths, find_jaw_paths
from luvli.synthetic.heads.regions import (
    Regions,
    UnrolledSkin,
    find_regions,
    smoothstep,
    unroll_surface,
)
from luvli.synthetic.heads.scalp import HairRoots, Skull, find_skull, scatter_roots
from luvli.synthetic.raster.materials import Material
from luvli.synthetic.raster.triangles import ambient_openness

LIPS_APART = 0.15
"""centimetres between the lips from which the inside of the mouth is drawn"""


@dataclass(frozen=True, eq=False)
class Head:
    """A morphable head. n vertices, t triangles (counter-clockwise from outside)."""

    name: str
    neutral: Singles
    """(n, 3) centimetres"""
    triangles: Ints
    """(t, 3)"""
    part: Bytes
    """(t,) `Material`"""
    identity: Singles
    """(i, n * 3) offsets for one standard deviation of each identity mode"""
    expression: Singles
    """(e, n * 3) offsets for full strength"""
    expression_names: tuple[str, ...]
    """names of Apple's ARKit convention with _L and _R, as in ICT FaceKit"""
    landmarks: Ints
    """(68,) vertex of each ibug68 landmark"""
    eyeballs: tuple[slice, ...]
    """the vertices of each eye, which turn with the gaze"""

    @cached_property
    def pivot(self) -> Singles:
        """(3,) the point about which a head turns: where the skull sits on the spine."""
        chin = self.neutral[self.landmarks[8]]
        return np.array([0.0, chin[1] - 1.0, chin[2] - 10.0], np.float32)

    @cached_property
    def regions(self) -> Regions:
        """Texture coordinates and the maps of lips, brows, beard, scalp ..."""
        return find_regions(self.neutral, self.landmarks)

    @cached_property
    def roots(self) -> Mapping[str, HairRoots]:
        """Places on the skin from which hair grows: scalp, brows, beard."""
        return scatter_roots(self.neutral, self.skin, self.landmarks, self.regions)

    @cached_property
    def openness(self) -> Singles:
        """(n,) how much of the sky each vertex sees, 0 to 1; inside the mouth with the jaw open."""
        closed = ambient_openness(self.neutral, self.triangles)
        mouth = np.isin(self.part, (Material.TEETH, Material.GUMS, Material.MOUTH))
        inside = np.unique(self.triangles[mouth])
        opened = self.deform(expression=self.weights(jawOpen=0.5))
        closed[inside] = ambient_openness(opened, self.triangles)[inside]
        return closed

    @cached_property
    def skin(self) -> Ints:
        """Triangles of skin."""
        return np.ascontiguousarray(self.triangles[self.part == Material.SKIN])

    @cached_property
    def skin_vertices(self) -> Ints:
        """(m,) vertices of skin, ascending."""
        return np.unique(self.skin)

    @cached_property
    def unrolled(self) -> UnrolledSkin:
        """Place, normal and presence of the skin at each texel."""
        return unroll_surface(self.neutral, self.skin, self.regions.texture)

    @cached_property
    def stiffness(self) -> Singles:
        """(n,) 1 where the skin moves with the skull, 0 where it stays with the shoulders."""
        chin = self.neutral[self.landmarks[8]]
        height = self.neutral[:, 1] + 0.45 * self.neutral[:, 2] - (chin[1] + 0.45 * chin[2])
        return np.asarray(smoothstep(-11.0, -3.5, height), np.float32)

    @cached_property
    def jaw_paths(self) -> JawPaths:
        """Vertices from each jaw landmark inwards and back: where its label can slide to."""
        return find_jaw_paths(self.neutral, self.skin, self.landmarks)

    def deform(self, identity: Singles | None = None, expression: Singles | None = None) -> Singles:
        """(n, 3) the head with identity coefficients (i,) and expression weights (e,)."""
        flat = self.neutral.reshape(-1).copy()
        if identity is not None:
            flat += identity.astype(np.float32) @ self.identity
        if expression is not None:
            active = np.flatnonzero(expression)  # a face wears a few of the 53 at a time
            flat += expression[active].astype(np.float32) @ self.expression[active]
        return flat.reshape(-1, 3)

    def skull(self, vertices: Singles) -> Skull:
        """The skull inside of a deformed head (n, 3)."""
        return find_skull(self.neutral, self.skin_vertices, self.landmarks, vertices)

    def shown(self, vertices: Singles) -> tuple[Ints, Bytes]:
        """Triangles and parts to draw of a deformed head (n, 3): teeth only between open lips."""
        upper, lower = vertices[self.landmarks[61:64]], vertices[self.landmarks[[67, 66, 65]]]
        if np.linalg.norm(upper - lower, axis=1).max() > LIPS_APART:
            return self.triangles, self.part
        closed = ~np.isin(self.part, (Material.TEETH, Material.GUMS))
        return self.triangles[closed], self.part[closed]

    def weights(self, **strength: float) -> Singles:
        """Expression weights by name; a name without _L or _R sets both sides.

        Names that this head lacks are passed over, so that one table of moods serves all.
        """
        values = np.zeros(len(self.expression_names), np.float32)
        for name, value in strength.items():
            for full in (name, f"{name}_L", f"{name}_R"):
                if full in self.expression_names:
                    values[self.expression_names.index(full)] = value
        return values

    def turn_eyes(self, vertices: Singles, right_left: float, up: float) -> tuple[Singles, Singles]:
        """Turn the eyeballs of `vertices` (n, 3) in place by two angles in degrees (both alike).

        Returns the vertices and, for each vertex, its place on the ball (n, 2) seen from the
        front of the ball: |place| is 0 at the pupil, 1 at the equator, beyond 1 behind.
        """
        turn = rotation_matrix(right_left, up, 0.0).T.astype(np.float32)
        place = np.full((len(vertices), 2), 9.0, np.float32)
        for ball in self.eyeballs:
            points = vertices[ball]
            centre = (points.min(axis=0) + points.max(axis=0)) / 2
            offset = points - centre
            front = offset[:, :2] / np.median(np.linalg.norm(offset, axis=1))
            front[offset[:, 2] < 0] *= 9.0
            place[ball] = front
            vertices[ball] = centre + offset @ turn
        return vertices, place
