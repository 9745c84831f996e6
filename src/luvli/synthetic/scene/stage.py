"""Who stands where: the head in its pose, what is worn, light and camera."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from luvli.synthetic.arrays import Bytes, Doubles, Ints, Singles
from luvli.synthetic.heads.head import Head
from luvli.synthetic.people.person import Person
from luvli.synthetic.raster.materials import Lights
from luvli.synthetic.raster.triangles import vertex_normals
from luvli.synthetic.scene.pose import Camera, Pose
from luvli.synthetic.scene.shapes import Mesh


@dataclass(frozen=True, eq=False)
class Worn:
    """Objects in head coordinates, in body coordinates, and what glasses are filled with."""

    on_head: list[Mesh]
    on_body: list[Mesh]
    lenses: Mesh | None = None
    lens_opacity: float = 0.0
    lens_colour: tuple[float, float, float] = (0.0, 0.0, 0.0)
    hat: bool = False


@dataclass(frozen=True, eq=False)
class Posed:
    """A person's head in head coordinates (to dress it) and in camera coordinates (to see it)."""

    own: Singles
    """(n, 3)"""
    own_normals: Singles
    camera: Singles
    """(n, 3)"""
    triangles: Ints
    part: Bytes
    eye_place: Singles
    """(n, 2) see `Head.turn_eyes`"""
    neck: Singles
    """(3,) where the clothes begin, body coordinates"""


@dataclass(frozen=True, eq=False)
class Scene:
    """Everything that stands before the camera."""

    head: Head
    person: Person
    pose: Pose
    body: Pose
    posed: Posed
    lights: Lights
    camera: Camera
    worn: Worn

    def to_camera(self, points: Singles) -> Singles:
        """Head to camera coordinates (..., 3)."""
        return turn(self.head, self.pose, points)

    def body_to_camera(self, points: Singles) -> Singles:
        """Body to camera coordinates (..., 3)."""
        return turn(self.head, self.body, points)


def turn(head: Head, pose: Pose, points: Singles) -> Singles:
    """(..., 3) points after a turn about the pivot of the head."""
    moved = (points - head.pivot) @ pose.matrix.T.astype(np.float32) + head.pivot
    return np.asarray(moved, np.float32)


def pose_head(head: Head, person: Person, pose: Pose, body: Pose) -> Posed:
    """Deform the head, turn its eyes, and bend its neck."""
    own = head.deform(person.identity, person.expression)
    own, eye_place = head.turn_eyes(own, *person.gaze)
    triangles, part = head.shown(own)
    normals = vertex_normals(own, triangles)
    camera = turn(head, pose, own)
    # the neck follows head and shoulders in shares
    loose = np.flatnonzero(head.stiffness < 1)
    share = head.stiffness[loose, None]
    camera[loose] = share * camera[loose] + (1 - share) * turn(head, body, own[loose])
    neck = head.pivot + np.array([0, -4.2, 0.6], np.float32)
    return Posed(own, normals, camera, triangles, part, eye_place, neck)


def random_lights(rng: np.random.Generator) -> Lights:
    """A sky with a slope, a key lamp above the horizon, a weaker second lamp."""

    def warm(kelvin_like: float) -> Doubles:
        tint = np.array([1 + 0.11 * kelvin_like, 1.0, 1 - 0.14 * kelvin_like])
        return np.asarray(tint / tint.mean(), np.float64)

    ambient_level = rng.uniform(0.15, 0.65)
    hue = rng.normal(0, 0.5)
    ambient = np.zeros((4, 3))
    ambient[0] = ambient_level * warm(hue)
    ambient[1] = ambient_level * rng.normal(0, 0.18) * warm(rng.normal(0, 0.6))
    ambient[2] = ambient_level * rng.normal(0.18, 0.15) * warm(rng.normal(0, 0.6))
    ambient[3] = ambient_level * rng.normal(0.10, 0.15) * warm(rng.normal(0, 0.6))
    around = np.radians(np.clip(rng.normal(0, 42), -110, 110))
    above = np.radians(np.clip(rng.normal(30, 18), -25, 80))
    side = np.radians(rng.uniform(70, 150) * rng.choice([-1, 1]))
    lift = np.radians(rng.uniform(-10, 50))
    direction = np.array(
        [
            [np.sin(around) * np.cos(above), np.sin(above), np.cos(around) * np.cos(above)],
            [np.sin(side) * np.cos(lift), np.sin(lift), np.cos(side) * np.cos(lift)],
        ]
    )
    key = rng.uniform(0.3, 1.5) * (1.1 - 0.7 * ambient_level)
    fill = rng.uniform(0, 0.5) * (rng.random() < 0.6)
    colour = np.array([key * warm(rng.normal(0.1, 0.5)), fill * warm(rng.normal(0, 0.8))])
    return Lights(
        direction.astype(np.float32), colour.astype(np.float32), ambient.astype(np.float32)
    )
