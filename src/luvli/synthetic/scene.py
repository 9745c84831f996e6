"""Puts a person, clothes, hair and objects before the camera and draws them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.synthetic import shade
from luvli.synthetic.head import Head, Part
from luvli.synthetic.labels import JawConvention, Labels, covered, place_landmarks
from luvli.synthetic.light import Lights, lit_fraction, shadow_map
from luvli.synthetic.person import Person
from luvli.synthetic.pose import Camera
from luvli.synthetic.raster import (
    HAIR,
    NOTHING,
    SAMPLES,
    STRAND,
    draw_strands,
    draw_triangles,
    vertex_normals,
)
from luvli.synthetic.shapes import Mesh
from luvli.synthetic.stage import Posed, Shot, Turn, Worn, neck_pivot
from luvli.synthetic.strands import all_hair

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Drawn:
    """What the camera saw."""

    light: Floats
    """(size, size, 3) linear RGB"""
    face: NDArray[np.bool_]
    """whether skin shows, at every fourth pixel of every fourth row"""
    labels: Labels
    externally: NDArray[np.bool_]
    """(68,) covered by an object, hair or dark glass"""


def draw(
    head: Head,
    person: Person,
    posed: Posed,
    shot: Shot,
    worn: Worn,
    camera: Camera,
    background: Any,
    jaw: JawConvention,
    rng: np.random.Generator,
) -> Drawn:
    """Draw everything; `background` (size, size, 3) linear RGB is drawn over in place."""
    size = background.shape[0]
    grid = size * SAMPLES
    nearness = np.zeros((grid, grid), np.float32)
    owner = np.full((grid, grid), NOTHING, np.int32)
    painted = np.empty((grid, grid, 3), np.float32)  # read only where a strand was drawn
    to_camera = Turn(shot.pose, neck_pivot(head))
    body_to_camera = Turn(shot.body, neck_pivot(head))
    screen = camera.project(posed.camera, SAMPLES)
    draw_triangles(screen, posed.triangles, 0, False, nearness, owner)
    labels = place_landmarks(head, posed.camera, screen, posed.triangles, camera, jaw)
    seen = owner[:: 4 * SAMPLES, :: 4 * SAMPLES]
    face = (seen >= 0) & (posed.part[np.maximum(seen, 0)] == Part.SKIN)
    own_hair, scalp_hair = all_hair(head, person, posed, shot, worn, to_camera, rng)
    for points, colour, width in own_hair:
        flat = camera.project(points, SAMPLES)
        wide = (width * camera.focal / camera.distance * SAMPLES).astype(np.float32)
        draw_strands(flat, colour, wide, STRAND, nearness, owner, painted)

    meshes = [_moved(mesh, to_camera) for mesh in worn.on_head]
    meshes += [_moved(mesh, body_to_camera) for mesh in worn.on_body]
    vertices, triangles, part, attributes = _assemble(head, posed, meshes, shot.lights)
    around = camera.project(vertices[len(screen) :], SAMPLES)
    full_screen = np.concatenate([screen, around])
    first = len(posed.triangles)
    draw_triangles(full_screen, triangles[first:], first, True, nearness, owner)
    for points, colour, width in scalp_hair:
        flat = camera.project(points, SAMPLES)
        wide = (width * camera.focal / camera.distance * SAMPLES).astype(np.float32)
        draw_strands(flat, colour, wide, HAIR, nearness, owner, painted)
    depth = camera.distance - labels.points_3d[:, 2]
    radius = max(1.5, 0.008 * size)
    externally = covered(labels.points, depth, nearness, owner, first, radius)
    skin = person.skin
    shade.shade(
        owner,
        nearness,
        painted,
        full_screen,
        triangles,
        part,
        attributes,
        head.regions.maps,
        skin.photo,
        shade.noise_tile(),
        skin.numbers,
        skin.palette,
        skin.shift,
        shot.lights.direction,
        shot.lights.colour,
        shot.lights.ambient,
        np.array(
            [
                camera.centre_x * SAMPLES + (SAMPLES - 1) / 2,
                camera.centre_y * SAMPLES + (SAMPLES - 1) / 2,
                camera.focal * SAMPLES,
            ],
            np.float32,
        ),
        background,
    )
    if worn.lenses is not None:
        glass = _glass(worn, to_camera, camera, nearness)
        tint = np.array(worn.lens_colour, np.float32)
        opacity = (glass.reshape(size, SAMPLES, size, SAMPLES).mean((1, 3)) * worn.lens_opacity)[
            ..., None
        ].astype(np.float32)
        background += opacity * (tint - background)
        if worn.lens_opacity > 0.6:
            glass_owner = glass.astype(np.int32)
            near = np.where(glass, np.float32(1e3), np.float32(0))
            externally |= covered(labels.points, depth, near, glass_owner, 1, radius)
    return Drawn(background, face, labels, externally)


def _moved(mesh: Mesh, turn: Turn) -> Mesh:
    return replace(mesh, vertices=turn(mesh.vertices).astype(np.float32))


def _glass(worn: Worn, turn: Turn, camera: Camera, nearness: Any) -> Any:
    """(h, w) samples that are seen through a lens."""
    assert worn.lenses is not None
    near = np.zeros_like(nearness)
    owner = np.empty(nearness.shape, np.int32)
    screen = camera.project(turn(worn.lenses.vertices).astype(np.float32), SAMPLES)
    draw_triangles(screen, worn.lenses.triangles, 0, True, near, owner)
    return near > nearness


def _assemble(
    head: Head, posed: Posed, meshes: list[Mesh], lights: Lights
) -> tuple[Any, Any, Any, Any]:
    """One mesh of everything: vertices, triangles, parts, attributes for shading."""
    start = np.cumsum([len(posed.camera)] + [len(mesh.vertices) for mesh in meshes])
    vertices = np.concatenate([posed.camera, *(mesh.vertices for mesh in meshes)])
    triangles = np.concatenate(
        [posed.triangles, *(m.triangles + s for m, s in zip(meshes, start[:-1], strict=True))]
    ).astype(np.int32)
    part = np.concatenate(
        [posed.part, *(np.full(len(m.triangles), m.part, np.uint8) for m in meshes)]
    )
    normals = np.zeros_like(vertices)
    vertex_normals(vertices, triangles, normals)
    count = len(posed.camera)
    attributes = np.zeros((len(vertices), shade.ATTRIBUTES), np.float32)
    attributes[:, :3] = normals
    attributes[:count, 3:5] = head.regions.texture
    for ball in head.eyeballs:
        attributes[ball.vertices, 3:5] = posed.eye_place[ball.vertices]
    attributes[:count, shade.OPEN] = head.openness
    attributes[count:, shade.OPEN] = 0.85
    lit = np.empty(len(vertices), np.float32)
    casting = np.concatenate([head.shadowing, triangles[len(posed.triangles) :]])
    depth, transform = shadow_map(vertices, casting, lights.direction[0])
    lit_fraction(vertices, normals, depth, transform, 0.3, lit)
    attributes[:, shade.LIT] = lit
    for mesh, begin in zip(meshes, start[:-1], strict=True):
        span = slice(begin, begin + len(mesh.vertices))
        attributes[span, shade.COLOUR :] = mesh.colour
        attributes[span, 3] = mesh.gloss
        if mesh.texture is not None:
            attributes[span, 3:5] = mesh.texture
    # objects are drawn from both sides: their normals must look at the camera
    back = attributes[count:, 2] < -0.05
    attributes[count:, :3][back] *= -1
    return vertices, triangles, part, attributes
