"""Who stands where: the shot, what is worn, the head in its pose."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from luvli.synthetic.arrays import Bytes, Ints, Singles
from luvli.synthetic.heads.head import Head
from luvli.synthetic.people.person import Person
from luvli.synthetic.raster.lights import Lights
from luvli.synthetic.raster.zbuffer import vertex_normals
from luvli.synthetic.scene.pose import Camera, Pose
from luvli.synthetic.scene.shapes import Mesh

LIPS_APART = 0.15
"""centimetres between the lips from which the inside of the mouth is drawn"""


@dataclass(frozen=True, eq=False)
class Shot:
    """How the image is taken."""

    pose: Pose
    body: Pose
    distance: float
    """centimetres from the camera to the middle of the head"""
    fill: float
    """longer side of the box around all landmarks, in parts of the image"""
    shift: tuple[float, float]
    """pixels"""
    lights: Lights


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
    own_normals: Singles
    camera: Singles
    triangles: Ints
    part: Bytes
    eye_place: Singles
    neck: Singles
    """(3,) where the clothes begin, body coordinates"""


@dataclass(frozen=True, eq=False)
class Scene:
    """Everything that stands before the camera."""

    head: Head
    person: Person
    posed: Posed
    shot: Shot
    worn: Worn
    camera: Camera


def pose_head(head: Head, person: Person, shot: Shot) -> Posed:
    """Deform the head, turn its eyes, and bend its neck."""
    own = head.deform(person.identity, person.expression)
    own, eye_place = head.turn_eyes(own, *person.gaze)
    # teeth show only between open lips
    upper, lower = own[head.landmarks[61:64]], own[head.landmarks[[67, 66, 65]]]
    gap = np.linalg.norm(upper - lower, axis=1).max()
    triangles, part = (head.triangles, head.part) if gap > LIPS_APART else head.closed
    normals = np.zeros_like(own)
    vertex_normals(own, triangles, normals)
    pivot = neck_pivot(head)
    camera = (own - pivot) @ shot.pose.matrix.T.astype(np.float32)
    # the neck follows head and shoulders in shares
    loose, share = head.neck
    still = (own[loose] - pivot) @ shot.body.matrix.T.astype(np.float32)
    camera[loose] = share * camera[loose] + (1 - share) * still
    camera += pivot
    neck = pivot + np.array([0, -4.2, 0.6], np.float32)
    return Posed(own, normals, camera, triangles, part, eye_place, neck)


def neck_pivot(head: Head) -> Singles:
    """(3,) the point about which a head turns: where the skull sits on the spine."""
    chin = head.neutral[head.landmarks[8]]
    return np.array([0.0, chin[1] - 1.0, chin[2] - 10.0], np.float32)


class Turn:
    """Head (or body) coordinates to camera coordinates."""

    def __init__(self, pose: Pose, pivot: Singles) -> None:
        self.matrix = pose.matrix.T.astype(np.float32)
        self.pivot = pivot

    def __call__(self, points: Singles) -> Singles:
        moved = (points - self.pivot) @ self.matrix + self.pivot
        return np.asarray(moved, np.float32)
