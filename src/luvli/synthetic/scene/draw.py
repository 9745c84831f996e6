"""Puts a person, clothes, hair and objects before the camera and draws them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from luvli.synthetic.arrays import Bools, Bytes, Ints, Singles
from luvli.synthetic.heads.head import Head
from luvli.synthetic.raster import materials as m
from luvli.synthetic.raster.lights import Lights
from luvli.synthetic.raster.noise import noise_tile
from luvli.synthetic.raster.shade import Lens, Samples, Surface, shade
from luvli.synthetic.raster.shadow import lit_fraction, shadow_map
from luvli.synthetic.raster.skin_colour import Paint
from luvli.synthetic.raster.zbuffer import (
    FACE_HAIR,
    NOTHING,
    SAMPLES,
    SCALP_HAIR,
    draw_strands,
    draw_triangles,
    vertex_normals,
)
from luvli.synthetic.scene.hair_strands import Strands, all_hair
from luvli.synthetic.scene.labels import JawConvention, Labels, covered, place_landmarks
from luvli.synthetic.scene.pose import Camera
from luvli.synthetic.scene.shapes import Mesh
from luvli.synthetic.scene.stage import Posed, Scene, Turn, Worn, neck_pivot


@dataclass(frozen=True, eq=False)
class Drawn:
    """What the camera saw."""

    light: Singles
    """(size, size, 3) linear RGB"""
    face: Bools
    """whether skin shows, at every fourth pixel of every fourth row"""
    labels: Labels
    externally: Bools
    """(68,) covered by an object, hair or dark glass"""


def draw_scene(
    scene: Scene, background: Singles, jaw: JawConvention, hair_rng: np.random.Generator
) -> Drawn:
    """Draw everything; `background` (size, size, 3) linear RGB is drawn over in place."""
    head, posed, shot, camera = scene.head, scene.posed, scene.shot, scene.camera
    grid = background.shape[0] * SAMPLES
    samples = Samples(
        owner=np.full((grid, grid), NOTHING, np.int32),
        nearness=np.zeros((grid, grid), np.float32),
        painted=np.empty((grid, grid, 3), np.float32),  # read only where a strand was drawn
    )
    to_camera = Turn(shot.pose, neck_pivot(head))
    screen = camera.project(posed.camera, SAMPLES)
    draw_triangles(screen, posed.triangles, 0, False, samples.nearness, samples.owner)
    labels = place_landmarks(head, posed.camera, screen, posed.triangles, camera, jaw)
    seen = samples.owner[:: 4 * SAMPLES, :: 4 * SAMPLES]
    face = (seen >= 0) & (posed.part[np.maximum(seen, 0)] == m.Material.SKIN)
    own_hair, scalp_hair = all_hair(scene, to_camera, hair_rng)
    _draw_hair(own_hair, camera, FACE_HAIR, samples)
    surface = _assemble(scene, screen, to_camera)
    first = len(posed.triangles)
    around = surface.triangles[first:]
    draw_triangles(surface.screen, around, first, True, samples.nearness, samples.owner)
    _draw_hair(scalp_hair, camera, SCALP_HAIR, samples)
    depth = camera.distance - labels.points_3d[:, 2]
    radius = max(1.5, 0.008 * background.shape[0])
    covering = covered(labels.points, depth, samples.nearness, samples.owner, first, radius)
    skin = scene.person.skin
    paint = Paint(
        head.regions.maps, skin.photo, noise_tile(), skin.numbers, skin.palette, skin.shift
    )
    shade(samples, surface, paint, shot.lights, _lens(camera), background)
    if scene.worn.lenses is not None:
        glass = _glass(scene.worn.lenses, to_camera, camera, samples.nearness)
        _look_through(glass, scene.worn, background)
        if scene.worn.lens_opacity > 0.6:
            near = np.where(glass, np.float32(1e3), np.float32(0))
            covering |= covered(labels.points, depth, near, glass.astype(np.int32), 1, radius)
    return Drawn(background, face, labels, covering)


def _draw_hair(hair: list[Strands], camera: Camera, label: int, samples: Samples) -> None:
    for points, colour, width in hair:
        flat = camera.project(points, SAMPLES)
        wide = (width * camera.focal / camera.distance * SAMPLES).astype(np.float32)
        draw_strands(flat, colour, wide, label, samples.nearness, samples.owner, samples.painted)


def _lens(camera: Camera) -> Lens:
    shift = (SAMPLES - 1) / 2
    return Lens(
        np.float32(camera.centre_x * SAMPLES + shift),
        np.float32(camera.centre_y * SAMPLES + shift),
        np.float32(camera.focal * SAMPLES),
    )


def _moved(mesh: Mesh, turn: Turn) -> Mesh:
    return replace(mesh, vertices=turn(mesh.vertices).astype(np.float32))


def _glass(lenses: Mesh, turn: Turn, camera: Camera, nearness: Singles) -> Bools:
    """(h, w) samples that are seen through a lens."""
    near = np.zeros_like(nearness)
    owner = np.empty(nearness.shape, np.int32)
    screen = camera.project(turn(lenses.vertices).astype(np.float32), SAMPLES)
    draw_triangles(screen, lenses.triangles, 0, True, near, owner)
    return near > nearness


def _look_through(glass: Bools, worn: Worn, image: Singles) -> None:
    """Tint what is seen through the glasses, in place."""
    size = image.shape[0]
    share = glass.reshape(size, SAMPLES, size, SAMPLES).mean((1, 3)) * worn.lens_opacity
    tint = np.array(worn.lens_colour, np.float32)
    image += share[..., None].astype(np.float32) * (tint - image)


def _assemble(scene: Scene, screen: Singles, to_camera: Turn) -> Surface:
    """One mesh of the head, whose vertices are on the `screen` already, and all objects."""
    head, posed, worn = scene.head, scene.posed, scene.worn
    body_to_camera = Turn(scene.shot.body, neck_pivot(head))
    meshes = [_moved(mesh, to_camera) for mesh in worn.on_head]
    meshes += [_moved(mesh, body_to_camera) for mesh in worn.on_body]
    start = np.cumsum([len(posed.camera)] + [len(mesh.vertices) for mesh in meshes])
    vertices = np.concatenate([posed.camera, *(mesh.vertices for mesh in meshes)])
    triangles = np.concatenate(
        [posed.triangles, *(o.triangles + s for o, s in zip(meshes, start[:-1], strict=True))]
    ).astype(np.int32)
    part: Bytes = np.concatenate(
        [posed.part, *(np.full(len(o.triangles), o.part, np.uint8) for o in meshes)]
    )
    around = scene.camera.project(vertices[len(screen) :], SAMPLES)
    casting = np.concatenate([head.skin, triangles[len(posed.triangles) :]])
    attributes = _attributes(head, posed, vertices, triangles)
    _cast_shadow(vertices, casting, scene.shot.lights, attributes)
    for mesh, begin in zip(meshes, start[:-1], strict=True):
        span = slice(begin, begin + len(mesh.vertices))
        attributes[span, m.COLOUR :] = mesh.colour
        attributes[span, m.PLACE] = mesh.gloss
        if mesh.texture is not None:
            attributes[span, m.PLACE : m.PLACE + 2] = mesh.texture
    # objects are drawn from both sides: their normals must look at the camera
    count = len(posed.camera)
    back = attributes[count:, 2] < -0.05
    attributes[count:, :3][back] *= -1
    return Surface(np.concatenate([screen, around]), triangles, part, attributes)


def _attributes(head: Head, posed: Posed, vertices: Singles, triangles: Ints) -> Singles:
    """(n, ATTRIBUTES) normals, places on textures and ambient occlusion of all vertices."""
    count = len(posed.camera)
    normals = np.zeros_like(vertices)
    vertex_normals(vertices, triangles, normals)
    attributes = np.zeros((len(vertices), m.ATTRIBUTES), np.float32)
    attributes[:, :3] = normals
    place = attributes[:, m.PLACE : m.PLACE + 2]
    place[:count] = head.regions.texture
    for ball in head.eyeballs:
        place[ball.vertices] = posed.eye_place[ball.vertices]
    attributes[:count, m.OPEN] = head.openness
    attributes[count:, m.OPEN] = 0.85
    return attributes


def _cast_shadow(vertices: Singles, casting: Ints, lights: Lights, attributes: Singles) -> None:
    """How much of the key lamp each vertex sees, into its attributes."""
    lit = np.empty(len(vertices), np.float32)
    normals = np.ascontiguousarray(attributes[:, :3])
    depth, transform = shadow_map(vertices, casting, lights.direction[0])
    lit_fraction(vertices, normals, depth, transform, 0.3, lit)
    attributes[:, m.LIT] = lit
