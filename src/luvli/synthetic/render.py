"""`render_face`: a seed becomes an image with 68 points and three classes of visibility."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import get_args

import numpy as np

from luvli.data.record import FaceRecord
from luvli.errors import unknown_choice
from luvli.files import PathLike
from luvli.synthetic.arrays import Bytes, Doubles
from luvli.synthetic.heads.head import Head
from luvli.synthetic.heads.skull import Skull
from luvli.synthetic.people.person import CLOSED_EYES, Person, random_person
from luvli.synthetic.people.textures import random_texture
from luvli.synthetic.raster.materials import PHOTO, TONE
from luvli.synthetic.raster.zbuffer import SAMPLES
from luvli.synthetic.scene import held_objects, worn_objects
from luvli.synthetic.scene.backdrop import backdrop
from luvli.synthetic.scene.draw import draw_scene
from luvli.synthetic.scene.labels import JawConvention, Labels, place_landmarks, visibility
from luvli.synthetic.scene.lens import develop
from luvli.synthetic.scene.light import random_lights
from luvli.synthetic.scene.pose import Camera, Pose, PoseChoice, aim, check_pose, random_pose
from luvli.synthetic.scene.shapes import Mesh
from luvli.synthetic.scene.stage import Posed, Scene, Shot, Worn, pose_head


@dataclass(frozen=True, eq=False)
class Sample:
    """A rendered face and everything known of it."""

    image: Bytes
    """(size, size, 3) RGB"""
    record: FaceRecord
    """the label: NaN where self-occluded, tight box, pose in the attributes"""
    all_points: Doubles
    """(68, 2) image pixels of all landmarks, hidden ones too"""
    points_3d: Doubles
    """(68, 3) camera coordinates in centimetres: x right, y up, z to the camera"""
    pose: Pose


def render_face(
    seed: int | Sequence[int],
    head: Head | PathLike = "procedural",
    size: int = 256,
    jaw: JawConvention = "outline",
    pose: PoseChoice | Sequence[float] | None = None,
    textures: PathLike | None = None,
    backgrounds: PathLike | None = None,
    occluders: bool = True,
    effects: bool = True,
    closed_eyes: float = CLOSED_EYES,
) -> Sample:
    """Render one face; equal arguments give equal pixels and labels.

    `head` is "procedural", the path of an ICT FaceKit model, or a `Head`. `pose` is a class
    ("mixed" when None) or (yaw, pitch, roll) in degrees. `textures` is a folder of photographs
    with `.pts` labels beside them, whose skin the faces then wear; `backgrounds` a folder of
    photographs to stand behind them. `occluders` and `effects` can be left out to see the bare
    head. `closed_eyes` is the share of people who shut their eyes.

    >>> sample = render_face(7, size=64, pose=(30, 0, 0))
    >>> sample.image.shape, sample.record.points.shape
    ((64, 64, 3), (68, 2))
    """
    key, stream = _streams(seed)
    model = head if isinstance(head, Head) else load_head(str(head))
    person, shot, posed, camera = _stand(model, size, pose, jaw, stream, closed_eyes)
    if textures is not None:
        person = _textured(model, person, str(textures), stream["texture"])
    worn = _dress(model, person, posed, occluders, stream["worn"])
    behind = backdrop(size, None if backgrounds is None else str(backgrounds), stream["background"])
    scene = Scene(model, person, posed, shot, worn, camera)
    drawn = draw_scene(scene, behind, jaw, stream["hair"])
    image = develop(drawn.light, drawn.face, effects, stream["lens"])
    classes = visibility(drawn.labels, drawn.externally)
    record = FaceRecord(
        points=drawn.labels.points,
        visibility=classes,
        dataset="synthetic",
        face_id="-".join(str(number) for number in key),
        attributes={
            "pose": shot.pose.pose_class,
            "yaw": round(shot.pose.yaw, 3),
            "pitch": round(shot.pose.pitch, 3),
            "roll": round(shot.pose.roll, 3),
            "head": model.name,
            "jaw": jaw,
        },
    )
    record = replace(record, box=record.tight_box)
    return Sample(image, record, drawn.labels.points, drawn.labels.points_3d, shot.pose)


def label_face(
    seed: int | Sequence[int],
    head: Head | PathLike = "procedural",
    size: int = 256,
    jaw: JawConvention = "outline",
    pose: PoseChoice | Sequence[float] | None = None,
) -> Labels:
    """The landmarks that `render_face` would give, without drawing: places and self-occlusion.

    >>> label_face(7, pose=(80, 0, 0)).self_occluded[45]
    np.True_
    """
    _, stream = _streams(seed)
    model = head if isinstance(head, Head) else load_head(str(head))
    _, _, posed, camera = _stand(model, size, pose, jaw, stream)
    screen = camera.project(posed.camera, SAMPLES)
    return place_landmarks(model, posed.camera, screen, posed.triangles, camera, jaw)


def _streams(seed: int | Sequence[int]) -> tuple[tuple[int, ...], dict[str, np.random.Generator]]:
    """A random stream for each aspect: a change in one leaves the others as they were."""
    key = (seed,) if isinstance(seed, int) else tuple(seed)
    names = ("person", "shot", "pose", "worn", "hair", "background", "lens", "texture")
    return key, {name: np.random.default_rng([*key, k]) for k, name in enumerate(names)}


def _stand(
    head: Head,
    size: int,
    pose: PoseChoice | Sequence[float] | None,
    jaw: str,
    stream: dict[str, np.random.Generator],
    closed_eyes: float = CLOSED_EYES,
) -> tuple[Person, Shot, Posed, Camera]:
    """A person before a camera."""
    if jaw not in get_args(JawConvention):
        raise unknown_choice("jaw convention", jaw, get_args(JawConvention))
    person = random_person(head, stream["person"], closed_eyes)
    turned = (
        random_pose(pose or "mixed", stream["pose"])
        if pose is None or isinstance(pose, str)
        else check_pose(pose)
    )
    shot = _shot(turned, size, stream["shot"])
    posed = pose_head(head, person, shot)
    points = posed.camera[head.landmarks].astype(np.float64)
    return person, shot, posed, aim(points, shot.distance, size, shot.fill, shot.shift)


@lru_cache(maxsize=4)
def load_head(name: str) -> Head:
    """The head called "procedural", or the ICT FaceKit model at a path; kept in memory."""
    if name == "procedural":
        from luvli.synthetic.heads.procedural import procedural_head

        return procedural_head()
    from luvli.synthetic.heads.ict import load_ict

    return load_ict(Path(name))


def _shot(pose: Pose, size: int, rng: np.random.Generator) -> Shot:
    follow = rng.uniform(0.35, 0.95)
    yaw = np.clip(pose.yaw * follow + rng.normal(0, 8), pose.yaw - 55, pose.yaw + 55)
    body = Pose(float(yaw), float(0.15 * pose.pitch), float(0.3 * pose.roll))
    return Shot(
        pose=pose,
        body=body,
        distance=float(np.exp(rng.uniform(np.log(45), np.log(400)))),
        fill=float(rng.uniform(0.40, 0.64)),
        shift=(float(rng.normal(0, 0.025) * size), float(rng.normal(0.03, 0.025) * size)),
        lights=random_lights(rng),
    )


_HELD = (
    (0.025, held_objects.microphone),
    (0.02, held_objects.telephone),
    (0.015, held_objects.block),
)
"""how often a thing comes before the face, and what makes it"""


def _dress(
    head: Head, person: Person, posed: Posed, occluders: bool, rng: np.random.Generator
) -> Worn:
    points = posed.own[head.landmarks].astype(np.float64)
    on_body = [worn_objects.garment(posed.neck, rng)]
    on_head: list[Mesh] = []
    if not occluders:
        return Worn(on_head, on_body)
    lenses, opacity, tint = None, 0.0, (0.0, 0.0, 0.0)
    hat = rng.random() < 0.10
    if hat:
        brow = float(points[17:27, 1].mean())
        on_head.append(worn_objects.hat(Skull.around(head, posed.own), brow, rng))
    if rng.random() < 0.20:
        sun = rng.random() < 0.25
        frame, lenses = worn_objects.glasses(points, rng)
        on_head.append(frame)
        opacity = float(rng.uniform(0.90, 0.995) if sun else rng.uniform(0.0, 0.10))
        level = rng.uniform(0.0, 0.06) if sun else rng.uniform(0.3, 0.8)
        tint = (float(level), float(level), float(level))
    if rng.random() < 0.02:
        on_head.append(worn_objects.mask(posed.own, np.unique(head.skin), points, rng))
    if rng.random() < 0.045:
        on_head.append(held_objects.hand(points, person.skin.palette[TONE], rng))
    for chance, make in _HELD:
        if rng.random() < chance:
            on_head.append(make(points, rng))
    return Worn(on_head, on_body, lenses, opacity, tint, hat)


def _textured(head: Head, person: Person, folder: str, rng: np.random.Generator) -> Person:
    photo, tone = random_texture(head, folder, rng)
    numbers, palette = person.skin.numbers.copy(), person.skin.palette.copy()
    numbers[PHOTO] = 1.0
    palette[TONE] = tone
    skin = replace(person.skin, numbers=numbers, palette=palette, photo=photo)
    return replace(person, skin=skin)
