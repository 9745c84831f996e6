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

from luvli.synthetic.arrays import Bytes, Ints, Singles
from luvli.synthetic.heads.hair_roots import HairRoots, scatter_roots
from luvli.synthetic.heads.jaw import JawPaths, find_jaw_paths
from luvli.synthetic.heads.regions import Regions, find_regions, smoothstep
from luvli.synthetic.heads.skull import SkullCells, sort_by_direction
from luvli.synthetic.heads.unrolled import UnrolledSkin, unroll_surface
from luvli.synthetic.raster.materials import Material
from luvli.synthetic.raster.shadow import ambient_openness


@dataclass(frozen=True, eq=False)
class Eyeball:
    """One eye: which vertices turn with the gaze, and the two landmarks of its corners."""

    vertices: slice
    corners: tuple[int, int]


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
    eyeballs: tuple[Eyeball, ...]

    @cached_property
    def closed(self) -> tuple[Ints, Bytes]:
        """Triangles and parts of the head with its mouth shut: no teeth, no gums."""
        shown = ~np.isin(self.part, (Material.TEETH, Material.GUMS))
        return np.ascontiguousarray(self.triangles[shown]), self.part[shown]

    @cached_property
    def regions(self) -> Regions:
        """Texture coordinates and the maps of lips, brows, beard, scalp ..."""
        return find_regions(self.neutral, self.landmarks)

    @cached_property
    def roots(self) -> Mapping[str, HairRoots]:
        """Places on the skin from which hair grows: scalp, brows, beard, lashes."""
        return scatter_roots(self.neutral, self.skin, self.landmarks, self.regions)

    @cached_property
    def openness(self) -> Singles:
        """(n,) how much of the sky each vertex sees, 0 to 1 (ambient occlusion)."""
        closed = ambient_openness(self.neutral, self.triangles)
        inside = np.unique(self.triangles[np.isin(self.part, _INSIDE)])
        if len(inside) and "jawOpen" in self.expression_names:
            weights = np.zeros(len(self.expression_names), np.float32)
            weights[self.expression_names.index("jawOpen")] = 0.5
            opened = ambient_openness(self.deform(expression=weights), self.triangles)
            closed[inside] = opened[inside]
        return closed

    @cached_property
    def skin(self) -> Ints:
        """Triangles of skin."""
        return np.ascontiguousarray(self.triangles[self.part == Material.SKIN])

    @cached_property
    def unrolled(self) -> UnrolledSkin:
        """Place, normal and presence of the skin at each texel."""
        return unroll_surface(self.neutral, self.skin, self.regions.texture)

    @cached_property
    def skull_cells(self) -> SkullCells:
        """Skin vertices sorted by their direction from the middle of the skull."""
        return sort_by_direction(self.neutral, self.skin, self.landmarks)

    @cached_property
    def stiffness(self) -> Singles:
        """(n,) 1 where the skin moves with the skull, 0 where it stays with the shoulders."""
        chin = self.neutral[self.landmarks[8]]
        height = self.neutral[:, 1] + 0.45 * self.neutral[:, 2] - (chin[1] + 0.45 * chin[2])
        return np.asarray(smoothstep(-11.0, -3.5, height), np.float32)

    @cached_property
    def neck(self) -> tuple[Ints, Singles]:
        """Vertices (m,) that do not move with the skull alone, and their stiffness (m, 1)."""
        loose = np.flatnonzero(self.stiffness < 1).astype(np.int32)
        return loose, self.stiffness[loose, None]

    @cached_property
    def jaw_paths(self) -> JawPaths:
        """Vertices from each jaw landmark inwards and back: where its label can slide to."""
        return find_jaw_paths(self.neutral, self.skin, self.landmarks)

    def deform(self, identity: Singles | None = None, expression: Singles | None = None) -> Singles:
        """(n, 3) the head with identity coefficients (i,) and expression weights (e,)."""
        flat = self.neutral.reshape(-1).copy()
        if identity is not None:
            used = min(len(identity), len(self.identity))
            flat += identity[:used].astype(np.float32) @ self.identity[:used]
        if expression is not None:
            active = np.flatnonzero(expression)  # a face wears a few of the 53 at a time
            flat += expression[active].astype(np.float32) @ self.expression[active]
        return flat.reshape(-1, 3)

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
        """Turn the eyeballs of `vertices` (n, 3) by two angles in degrees (both eyes alike).

        Returns the vertices and, for each vertex, its place on the ball (n, 2) seen from the
        front of the ball: |place| is 0 at the pupil, 1 at the equator, beyond 1 behind.
        """
        place = np.full((len(vertices), 2), 9.0, np.float32)
        for ball in self.eyeballs:
            points = vertices[ball.vertices]
            centre = (points.min(axis=0) + points.max(axis=0)) / 2
            offset = points - centre
            radius = np.median(np.linalg.norm(offset, axis=1))
            a, b = np.radians(right_left), np.radians(up)
            yaw = np.array([[np.cos(a), 0, np.sin(a)], [0, 1, 0], [-np.sin(a), 0, np.cos(a)]])
            nod = np.array([[1, 0, 0], [0, np.cos(b), np.sin(b)], [0, -np.sin(b), np.cos(b)]])
            front = offset[:, :2] / radius
            behind = offset[:, 2] < 0
            front[behind] *= 9.0
            place[ball.vertices] = front
            vertices[ball.vertices] = centre + offset @ (yaw @ nod).T.astype(np.float32)
        return vertices, place


_INSIDE = (Material.TEETH, Material.GUMS, Material.MOUTH)
