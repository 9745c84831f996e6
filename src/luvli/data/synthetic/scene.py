"""Puts a person, clothes, hair and objects before the camera and draws them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.data.synthetic import objects, shade
from luvli.data.synthetic.hair import Skull, bristles, grow_scalp, light_strands, tuft
from luvli.data.synthetic.head import Head, Part
from luvli.data.synthetic.labels import JawConvention, Labels, covered, place_landmarks
from luvli.data.synthetic.light import Lights, lit_fraction, shadow_map
from luvli.data.synthetic.person import Person
from luvli.data.synthetic.pose import Camera, Pose
from luvli.data.synthetic.raster import (
    HAIR,
    NOTHING,
    SAMPLES,
    STRAND,
    draw_strands,
    draw_triangles,
    vertex_normals,
)

Floats = NDArray[np.float32]

FULL_BEARD = 1.0
"""centimetres from which a beard hides what lies under it"""


@dataclass(frozen=True, eq=False)
class Shot:
    """How the picture is taken."""

    pose: Pose
    body: Pose
    distance: float
    """centimetres from the camera to the middle of the head"""
    fill: float
    """longer side of the box around all landmarks, in parts of the picture"""
    shift: tuple[float, float]
    """pixels"""
    lights: Lights


@dataclass(frozen=True, eq=False)
class Worn:
    """Objects in head coordinates, in body coordinates, and what glasses are filled with."""

    on_head: list[objects.Mesh]
    on_body: list[objects.Mesh]
    lenses: objects.Mesh | None = None
    lens_opacity: float = 0.0
    lens_colour: tuple[float, float, float] = (0.0, 0.0, 0.0)
    hat: bool = False


@dataclass(frozen=True, eq=False)
class Drawn:
    """What the camera saw."""

    light: Floats
    """(size, size, 3) linear RGB"""
    face: NDArray[np.bool_]
    """(size, size) pixels that show skin"""
    labels: Labels
    externally: NDArray[np.bool_]
    """(68,) covered by an object, hair or dark glass"""


@dataclass(frozen=True, eq=False)
class Posed:
    """A person's head in head coordinates (to dress it) and in camera coordinates (to see it)."""

    own: Floats
    own_normals: Floats
    camera: Floats
    triangles: NDArray[np.int32]
    part: NDArray[np.uint8]
    eye_place: Floats
    neck: Floats
    """(3,) where the clothes begin, body coordinates"""


def pose_head(head: Head, person: Person, shot: Shot) -> Posed:
    """Deform the head, turn its eyes, and bend its neck."""
    own = head.deform(person.identity, person.expression)
    own, eye_place = head.turn_eyes(own, *person.gaze)
    open_mouth = head.weights(
        jawOpen=1, mouthSmile=1, mouthUpperUp=1, mouthLowerDown=1, mouthFunnel=1
    )
    inside = (np.minimum(open_mouth, 1) * person.expression).sum() > 0.05
    triangles, part = (head.triangles, head.part) if inside else head.closed
    normals = np.zeros_like(own)
    vertex_normals(own, triangles, normals)
    pivot = neck_pivot(head)
    stiff = head.stiffness[:, None]
    turned = (own - pivot) @ shot.pose.matrix.T.astype(np.float32)
    still = (own - pivot) @ shot.body.matrix.T.astype(np.float32)
    camera = stiff * turned + (1 - stiff) * still + pivot
    neck = pivot + np.array([0, -4.2, 0.6], np.float32)
    return Posed(own, normals, camera.astype(np.float32), triangles, part, eye_place, neck)


def neck_pivot(head: Head) -> Floats:
    """(3,) the point about which a head turns: where the skull sits on the spine."""
    chin = head.neutral[head.landmarks[8]]
    return np.array([0.0, chin[1] - 1.0, chin[2] - 10.0], np.float32)


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
    painted = np.zeros((grid, grid, 3), np.float32)
    to_camera = _Turn(shot.pose, neck_pivot(head))
    body_to_camera = _Turn(shot.body, neck_pivot(head))
    screen = camera.project(posed.camera, SAMPLES)
    draw_triangles(screen, posed.triangles, 0, False, nearness, owner)
    labels = place_landmarks(head, posed.camera, screen, posed.triangles, camera, jaw)
    face = (owner[::SAMPLES, ::SAMPLES] >= 0) & (
        posed.part[np.maximum(owner[::SAMPLES, ::SAMPLES], 0)] == Part.SKIN
    )
    own_hair, scalp_hair = _hair(head, person, posed, shot, worn, to_camera, rng)
    for points, colour, width in own_hair:
        flat = camera.project(points, SAMPLES)
        wide = (width * camera.focal / camera.distance * SAMPLES).astype(np.float32)
        draw_strands(flat, colour, wide, STRAND, nearness, owner, painted)

    meshes = [_moved(mesh, to_camera) for mesh in worn.on_head]
    meshes += [_moved(mesh, body_to_camera) for mesh in worn.on_body]
    vertices, triangles, part, attributes = _assemble(head, posed, meshes, shot.lights)
    full_screen = camera.project(vertices, SAMPLES)
    first = len(posed.triangles)
    draw_triangles(full_screen, triangles[first:], first, True, nearness, owner)
    for points, colour, width in scalp_hair:
        flat = camera.project(points, SAMPLES)
        wide = (width * camera.focal / camera.distance * SAMPLES).astype(np.float32)
        draw_strands(flat, colour, wide, HAIR, nearness, owner, painted)
    depth = camera.distance - labels.points_3d[:, 2]
    foreign = (owner >= first) | (owner == HAIR)
    radius = max(1.5, 0.008 * size)
    externally = covered(labels.points, depth, nearness, foreign, radius)
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
            behind = covered(labels.points, depth, np.where(glass, 1e3, 0), glass, radius)
            externally |= behind
    return Drawn(background, face, labels, externally)


class _Turn:
    """Head (or body) coordinates to camera coordinates."""

    def __init__(self, pose: Pose, pivot: Any) -> None:
        self.matrix = pose.matrix.T.astype(np.float32)
        self.pivot = pivot

    def __call__(self, points: Any) -> Any:
        return (points - self.pivot) @ self.matrix + self.pivot


def _moved(mesh: objects.Mesh, turn: _Turn) -> objects.Mesh:
    return replace(mesh, vertices=turn(mesh.vertices).astype(np.float32))


def _glass(worn: Worn, turn: _Turn, camera: Camera, nearness: Any) -> Any:
    """(h, w) samples that are seen through a lens."""
    assert worn.lenses is not None
    near = np.zeros_like(nearness)
    owner = np.empty(nearness.shape, np.int32)
    screen = camera.project(turn(worn.lenses.vertices).astype(np.float32), SAMPLES)
    draw_triangles(screen, worn.lenses.triangles, 0, True, near, owner)
    return near > nearness


def _hair(
    head: Head,
    person: Person,
    posed: Posed,
    shot: Shot,
    worn: Worn,
    turn: _Turn,
    rng: np.random.Generator,
) -> tuple[list[Any], list[Any]]:
    """Strands that hide nothing (brows, lashes, stubble), and those that do, camera coordinates."""
    style = person.style
    skull_middle = turn(np.array([[0, head.neutral[head.landmarks[27], 1], 0.5]], np.float32))[0]
    own: list[Any] = []
    scalp: list[Any] = []
    for region, points, albedo, width in _face_hair(head, person, posed, rng):
        seen = turn(points).astype(np.float32)
        lit = light_strands(seen, skull_middle, albedo, shot.lights)
        if region == "lashes":
            lit = np.minimum(lit, 0.02)
        shade_of_hair = np.exp(rng.normal(0, 0.2, (len(seen), 1, 1))).astype(np.float32)
        strands = (seen, lit * shade_of_hair, np.full(len(seen), width, np.float32))
        # a full beard hides the chin as hair hides the ears; stubble hides nothing
        (scalp if region == "beard" and style.beard > FULL_BEARD else own).append(strands)
    down = np.linalg.inv(shot.pose.matrix) @ (shot.body.matrix @ np.array([0, -1.0, 0]))
    if worn.hat and style.length < 6:
        return own, scalp
    guides = grow_scalp(head, posed.own, posed.own_normals, style, down.astype(np.float32), rng)
    if worn.hat:  # a hat holds everything that lies under it
        brow = head.neutral[head.landmarks[19], 1]
        guides = guides[(guides[:, 0, 1] < brow + 3)]
    seen = turn(guides).astype(np.float32)
    if len(seen):
        # what grows behind the skull is hidden by it, unless it is long; half of it will do
        behind = seen[:, 0, 2] - skull_middle[2] < -2.5
        spare = rng.random(len(seen)) < (0.5 if style.length > 10 else 1.0)
        seen = seen[~(behind & spare)]
    if len(seen):
        lit = light_strands(seen, skull_middle, style.colour, shot.lights)
        # a dark ground of broad strands, so that no skin shows between the fine ones
        ground = seen[::2] + 0.03 * (skull_middle - seen[::2])
        broad = np.where(ground[:, 0, 2] - skull_middle[2] > 6.5, 0.3, 0.75).astype(np.float32)
        scalp.append((ground, 0.6 * lit[::2], broad))
        followers = 12 if style.length < 12 else 9
        points, colour = tuft(seen, lit, style, followers, rng)
        width = rng.uniform(0.05, 0.18, len(points)).astype(np.float32)
        scalp.append((points, colour, width))
    return own, scalp


def _face_hair(head: Head, person: Person, posed: Posed, rng: np.random.Generator) -> Any:
    """Brows, lashes and beard in head coordinates: (region, points, albedo, width in cm)."""
    style = person.style
    brows = head.roots["brows"]
    count = len(brows.strength)
    if count and person.skin.numbers[shade.PHOTO] == 0:  # a photograph has brows
        chosen = rng.permutation(count)[: int(count * rng.uniform(0.2, 0.55))]
        place = brows.place[chosen]
        middle = np.abs(place[:, 0])
        rise = np.clip(1.2 - 0.25 * middle, -0.25, 1.0)  # upright at the nose, flat outside
        lean = np.stack([np.sign(place[:, 0]) * 0.9, rise, np.full(len(chosen), -0.25)], axis=1)
        lean += rng.normal(0, 0.12, lean.shape)
        length = rng.uniform(0.3, 0.65, len(chosen))
        points = bristles(head, "brows", chosen, posed.own, posed.own_normals, lean, length, 0.12)
        yield "brows", points, person.skin.palette[shade.BROW_COLOUR], 0.045
    lashes = head.roots["lashes"]
    chosen = np.arange(len(lashes.strength))
    upward = np.where(lashes.strength > 0.9, 0.5, -0.5)
    lean = np.stack([0.25 * np.sign(lashes.place[:, 0]), upward, np.full(len(chosen), 0.75)], 1)
    lean += rng.normal(0, 0.08, lean.shape)
    long = person.lashes * lashes.strength
    points = bristles(head, "lashes", chosen, posed.own, posed.own_normals, lean, long, 0.3)
    yield "lashes", points, np.array([0.01, 0.008, 0.008], np.float32), 0.03
    if style.beard > 0.15:
        beard = head.roots["beard"]
        chosen = np.flatnonzero(beard.strength > rng.uniform(0.3, 0.7))
        if style.moustache_only:
            lip, nose = head.neutral[head.landmarks[51]], head.neutral[head.landmarks[33]]
            near = beard.place[chosen]
            chosen = chosen[
                (near[:, 1] > lip[1] - 0.6) & (near[:, 1] < nose[1]) & (abs(near[:, 0]) < 3)
            ]
        chosen = chosen[rng.permutation(len(chosen))[: int(1200 + 1200 * min(style.beard, 2))]]
        place = beard.place[chosen]
        lean = np.stack(
            [0.12 * place[:, 0], np.full(len(chosen), -1.0), np.full(len(chosen), 0.15)], 1
        )
        lean += rng.normal(0, 0.25, lean.shape)
        length = style.beard * rng.uniform(0.6, 1.1, len(chosen)) * beard.strength[chosen]
        points = bristles(head, "beard", chosen, posed.own, posed.own_normals, lean, length, 0.35)
        yield "beard", points, style.colour * np.float32(0.9), 0.05


def _assemble(
    head: Head, posed: Posed, meshes: list[objects.Mesh], lights: Lights
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


__all__ = ["Drawn", "Posed", "Shot", "Skull", "Worn", "draw", "neck_pivot", "pose_head"]
