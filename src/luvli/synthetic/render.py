"""A seed becomes an image with 68 points and three classes of visibility: `render_face`.

`SyntheticFaces` is an endless-looking, indexable, reproducible set of such faces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import get_args

import numpy as np

from luvli.data.record import FaceRecord
from luvli.errors import InputError, check_choice, check_range
from luvli.files import PathLike
from luvli.synthetic.arrays import Bytes, Doubles
from luvli.synthetic.heads.head import Head
from luvli.synthetic.people.person import CLOSED_EYES, Person, random_person
from luvli.synthetic.people.textures import random_texture
from luvli.synthetic.raster.materials import PHOTO, TONE
from luvli.synthetic.scene import objects
from luvli.synthetic.scene.draw import draw_scene
from luvli.synthetic.scene.labels import JawConvention, Labels, place_landmarks, visibility
from luvli.synthetic.scene.picture import backdrop, develop
from luvli.synthetic.scene.pose import Pose, PoseChoice, aim, check_pose, random_pose
from luvli.synthetic.scene.shapes import Mesh
from luvli.synthetic.scene.stage import Scene, Worn, pose_head, random_lights


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


@dataclass(frozen=True)
class SyntheticFaces:
    """`count` faces; face i depends on the arguments and i alone, in whatever process or order.

    Holds no arrays, so it travels to worker processes at no cost; each process reads the head
    once.

    >>> faces = SyntheticFaces(count=1000, size=64, seed=3)
    >>> len(faces), faces[41].record.face_id
    (1000, '3-41')
    """

    head: str = "procedural"
    """"procedural", or the path of an ICT FaceKit model"""
    count: int = 1000
    size: int = 256
    """pixels along each side"""
    seed: int = 0
    jaw: JawConvention = "outline"
    pose: PoseChoice = "mixed"
    textures: str | None = None
    """folder of photographs with `.pts` files, whose skin the faces wear"""
    backgrounds: str | None = None
    """folder of photographs to stand behind the faces"""
    occluders: bool = True
    effects: bool = True
    closed_eyes: float = CLOSED_EYES
    """share of people who shut their eyes"""

    def __post_init__(self) -> None:
        if self.count < 0 or self.seed < 0:
            raise InputError("count and seed of synthetic faces must not be negative.")
        check_range("the size of an image in pixels", self.size, 32, 2048)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Sample:
        if not -self.count <= index < self.count:
            raise IndexError(f"face {index} of a set of {self.count}")
        settings = {field.name: getattr(self, field.name) for field in fields(self)}
        del settings["count"], settings["seed"]
        return render_face((self.seed, index % self.count), **settings)


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
    stream = _streams(seed)
    scene = _stand(head, size, pose, jaw, stream, closed_eyes)
    if textures is not None:
        person = _textured(scene.head, scene.person, str(textures), stream["texture"])
        scene = replace(scene, person=person)
    scene = replace(scene, worn=_dress(scene, occluders, stream["worn"]))
    behind = backdrop(size, None if backgrounds is None else str(backgrounds), stream["background"])
    light, face, labels, externally = draw_scene(scene, behind, jaw, stream["hair"])
    angles = {name: round(angle, 3) for name, angle in scene.pose._asdict().items()}
    record = FaceRecord(
        points=labels.points,
        visibility=visibility(labels, externally),
        dataset="synthetic",
        face_id=str(seed) if isinstance(seed, int) else "-".join(map(str, seed)),
        attributes={
            "pose": scene.pose.pose_class,
            **angles,
            "head": scene.head.name,
            "jaw": jaw,
        },
    )
    record = replace(record, box=record.tight_box)
    image = develop(light, face, effects, stream["lens"])
    return Sample(image, record, labels.points, labels.points_3d, scene.pose)


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
    scene = _stand(head, size, pose, jaw, _streams(seed), CLOSED_EYES)
    posed = scene.posed
    return place_landmarks(scene.head, posed.camera, posed.triangles, scene.camera, jaw)


@lru_cache(maxsize=4)
def load_head(name: str) -> Head:
    """The head called "procedural", or the ICT FaceKit model at a path; kept in memory."""
    if name == "procedural":
        from luvli.synthetic.heads.procedural import procedural_head

        return procedural_head()
    from luvli.synthetic.heads.ict import load_ict

    return load_ict(Path(name))


def _streams(seed: int | Sequence[int]) -> dict[str, np.random.Generator]:
    """A random stream for each aspect: a change in one leaves the others as they were."""
    key = (seed,) if isinstance(seed, int) else tuple(seed)
    names = ("person", "shot", "pose", "worn", "hair", "background", "lens", "texture")
    return {name: np.random.default_rng([*key, k]) for k, name in enumerate(names)}


def _stand(
    head: Head | PathLike,
    size: int,
    pose: PoseChoice | Sequence[float] | None,
    jaw: str,
    stream: dict[str, np.random.Generator],
    closed_eyes: float,
) -> Scene:
    """A person before a camera, not dressed yet."""
    check_choice("jaw convention", jaw, get_args(JawConvention))
    head = head if isinstance(head, Head) else load_head(str(head))
    person = random_person(head, stream["person"], closed_eyes)
    if pose is None or isinstance(pose, str):
        turned = random_pose(pose or "mixed", stream["pose"])
    else:
        turned = check_pose(pose)
    rng = stream["shot"]
    follow = rng.uniform(0.35, 0.95)
    yaw = np.clip(turned.yaw * follow + rng.normal(0, 8), turned.yaw - 55, turned.yaw + 55)
    body = Pose(float(yaw), 0.15 * turned.pitch, 0.3 * turned.roll)
    distance = float(np.exp(rng.uniform(np.log(45), np.log(400))))
    fill = float(rng.uniform(0.40, 0.64))
    shift = (float(rng.normal(0, 0.025) * size), float(rng.normal(0.03, 0.025) * size))
    lights = random_lights(rng)
    posed = pose_head(head, person, turned, body)
    camera = aim(posed.camera[head.landmarks].astype(np.float64), distance, size, fill, shift)
    return Scene(head, person, turned, body, posed, lights, camera, Worn([], []))


def _dress(scene: Scene, occluders: bool, rng: np.random.Generator) -> Worn:
    """Clothes, and with `occluders` what hides parts of some faces."""
    head, posed = scene.head, scene.posed
    points = posed.own[head.landmarks].astype(np.float64)
    on_body = [objects.garment(posed.neck, rng)]
    on_head: list[Mesh] = []
    if not occluders:
        return Worn(on_head, on_body)
    lenses, opacity, tint = None, 0.0, (0.0, 0.0, 0.0)
    hat = rng.random() < 0.10
    if hat:
        brow = float(points[17:27, 1].mean())
        on_head.append(objects.hat(head.skull(posed.own), brow, rng))
    if rng.random() < 0.20:
        sun = rng.random() < 0.25
        frame, lenses = objects.glasses(points, rng)
        on_head.append(frame)
        opacity = float(rng.uniform(0.90, 0.995) if sun else rng.uniform(0.0, 0.10))
        level = float(rng.uniform(0.0, 0.06) if sun else rng.uniform(0.3, 0.8))
        tint = (level, level, level)
    if rng.random() < 0.035:
        on_head.append(objects.mask(posed.own, head.skin_vertices, points, rng))
    if rng.random() < 0.07:
        on_head.append(objects.hand(points, scene.person.skin.palette[TONE], rng))
    if rng.random() < 0.06:
        on_head.append(objects.microphone(points, rng))
    return Worn(on_head, on_body, lenses, opacity, tint, hat)


def _textured(head: Head, person: Person, folder: str, rng: np.random.Generator) -> Person:
    """The person with the skin of a photograph."""
    photo, tone = random_texture(head, folder, rng)
    numbers, palette = person.skin.numbers.copy(), person.skin.palette.copy()
    numbers[PHOTO], palette[TONE] = 1.0, tone
    return replace(person, skin=person.skin._replace(numbers=numbers, palette=palette, photo=photo))
