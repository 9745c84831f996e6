"""Draws a scene: the head and its hair, clothes and objects, light and shadow."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from luvli.synthetic.arrays import Bools, Singles
from luvli.synthetic.raster import materials as m
from luvli.synthetic.raster.materials import noise_tile
from luvli.synthetic.raster.shade import Samples, Surface, shade
from luvli.synthetic.raster.triangles import (
    FACE_HAIR,
    SAMPLES,
    SCALP_HAIR,
    depth_buffer,
    draw_triangles,
    lit_fraction,
    vertex_normals,
)
from luvli.synthetic.scene.hair_strands import Strands, all_hair, draw_strands
from luvli.synthetic.scene.labels import JawConvention, Labels, covered, place_landmarks
from luvli.synthetic.scene.pose import Camera
from luvli.synthetic.scene.stage import Scene


class RenderedScene(NamedTuple):
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
) -> RenderedScene:
    """Draw everything; `background` (size, size, 3) linear RGB is drawn over in place."""
    head, posed, camera, worn = scene.head, scene.posed, scene.camera, scene.worn
    size = len(background)
    screen = camera.project(posed.camera, SAMPLES)
    nearness, owner = depth_buffer(screen, posed.triangles, (size * SAMPLES, size * SAMPLES))
    painted: Singles = np.empty((*owner.shape, 3), np.float32)  # read only where a strand is drawn
    samples = Samples(owner, nearness, painted)
    labels = place_landmarks(head, posed.camera, posed.triangles, camera, jaw)
    seen = owner[:: 4 * SAMPLES, :: 4 * SAMPLES]
    face = (seen >= 0) & (posed.part[np.maximum(seen, 0)] == m.Material.SKIN)
    own_hair, scalp_hair = all_hair(scene, hair_rng)
    _draw_hair(own_hair, camera, FACE_HAIR, samples)
    surface = _assemble(scene, screen)
    first = len(posed.triangles)
    draw_triangles(surface.screen, surface.triangles[first:], first, True, nearness, owner)
    _draw_hair(scalp_hair, camera, SCALP_HAIR, samples)
    depth = camera.distance - labels.points_3d[:, 2]
    radius = max(1.5, 0.008 * size)
    covering = covered(labels.points, depth, nearness, owner, first, radius)
    shift = (SAMPLES - 1) / 2
    centre = (camera.centre_x * SAMPLES + shift, camera.centre_y * SAMPLES + shift)
    lens = (*centre, camera.focal * SAMPLES)
    maps, skin = head.regions.maps, scene.person.skin
    shade(samples, surface, skin, maps, noise_tile(), scene.lights, lens, background)
    if worn.lenses is not None:
        glass = camera.project(scene.to_camera(worn.lenses.vertices), SAMPLES)
        shown = depth_buffer(glass, worn.lenses.triangles, owner.shape, True)[0] > nearness
        share = shown.reshape(size, SAMPLES, size, SAMPLES).mean((1, 3)) * worn.lens_opacity
        tint = np.array(worn.lens_colour, np.float32)
        background += share[..., None].astype(np.float32) * (tint - background)
        if worn.lens_opacity > 0.6:
            near = np.where(shown, np.float32(1e3), np.float32(0))
            covering |= covered(labels.points, depth, near, shown.astype(np.int32), 1, radius)
    return RenderedScene(background, face, labels, covering)


def _draw_hair(hair: list[Strands], camera: Camera, label: int, samples: Samples) -> None:
    for points, colour, width in hair:
        flat = camera.project(points, SAMPLES)
        wide = (width * camera.focal / camera.distance * SAMPLES).astype(np.float32)
        draw_strands(flat, colour, wide, label, samples.nearness, samples.owner, samples.painted)


def _assemble(scene: Scene, screen: Singles) -> Surface:
    """One mesh of the head, whose vertices are on the `screen` already, and all objects."""
    head, posed, worn = scene.head, scene.posed, scene.worn
    meshes = [replace(mesh, vertices=scene.to_camera(mesh.vertices)) for mesh in worn.on_head]
    meshes += [replace(mesh, vertices=scene.body_to_camera(mesh.vertices)) for mesh in worn.on_body]
    count = len(posed.camera)
    ends = count + np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
    spans = [slice(a, b) for a, b in pairwise(ends)]
    vertices = np.concatenate([posed.camera, *(mesh.vertices for mesh in meshes)])
    around = np.concatenate(
        [mesh.triangles + span.start for mesh, span in zip(meshes, spans, strict=True)]
    ).astype(np.int32)
    triangles = np.concatenate([posed.triangles, around])
    parts = [np.full(len(mesh.triangles), mesh.part, np.uint8) for mesh in meshes]

    attributes = np.zeros((len(vertices), m.ATTRIBUTES), np.float32)
    normals = vertex_normals(vertices, triangles)
    casting = np.concatenate([head.skin, around])
    attributes[:, m.LIT] = lit_fraction(
        vertices, normals, casting, scene.lights.direction[0], bias=0.3
    )
    # objects are drawn from both sides: their normals must look at the camera
    normals[count:][normals[count:, 2] < -0.05] *= -1
    attributes[:, :3] = normals
    place = attributes[:, m.PLACE : m.PLACE + 2]
    place[:count] = head.regions.texture
    for ball in head.eyeballs:
        place[ball] = posed.eye_place[ball]
    attributes[:count, m.OPEN], attributes[count:, m.OPEN] = head.openness, 0.85
    for mesh, span in zip(meshes, spans, strict=True):
        attributes[span, m.COLOUR :] = mesh.colour
        attributes[span, m.PLACE] = mesh.gloss
        if mesh.texture is not None:
            place[span] = mesh.texture
    shown = np.concatenate([screen, scene.camera.project(vertices[count:], SAMPLES)])
    return Surface(shown, triangles, np.concatenate([posed.part, *parts]), attributes)
