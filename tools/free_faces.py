"""Faces that an open model may be calibrated on: held-out people and renderings, no research label.

Portraits of a studio are easier than photographs, so each held-out portrait is shown several
times as photographs come, and worse: turned, small, lit from aside, dark or pale, covered in
part, blurred, noisy, compressed. They outnumber the renderings, which have all poses and shut eyes,
and on which a model that learnt from renderings is too sure of itself.

Labels of other people follow another convention. The labels of every face are moved at random as
far as the recipe's last stage with `label_noise` moves them, so that the ellipses keep the
uncertainty of the convention that it learnt.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import cv2
import numpy as np

from luvli.data.record import FaceRecord
from luvli.image import affine
from luvli.image.read import ImageArray, read_image
from luvli.image.write import write_image
from luvli.markup import get_markup
from luvli.training.recipe import Recipe
from luvli.training.recipe_data import Synthetic
from luvli.training.sources import load_source, rendered_faces

RENDERED = Synthetic(head="ict_facekit.npz", faces=300, seed=1031, closed_eyes=0.3)
"""people that no model was trained on"""
VERSIONS = 20
"""how often each portrait is shown"""
CLICK = 1.0
"""pixels of its image by which a person's label is off along an axis (standard deviation). London's
labels were given on large photographs; versions have theirs as if given on them"""
SIDE = (32.0, 220.0)
"""length of the face's box in a version, pixels"""


def free_faces(recipe: Recipe, folder: Path, seed: int = 0) -> list[FaceRecord]:
    """The held-out portraits that people labelled, as several images in `folder`, and renderings.

    All of them count as one data set: renderings and portraits differ in more than the size of
    their images, and nothing about pixels can be learnt from the comparison.
    """
    rng = np.random.default_rng(seed)
    noises = [stage.augmentation.label_noise for stage in recipe.stages.values()]
    noise: Mapping[str, float] = next((noise for noise in reversed(noises) if noise), {})
    faces = rendered_faces(RENDERED, recipe.data)
    for name, source in recipe.data.sources.items():
        if source.set is None or source.relabel is not None:  # a model's labels show no errors
            continue
        plain = source.model_copy(update={"boxes": "labels"})
        for record in load_source(name, plain, recipe.data, recipe.network).held_out:
            for version in range(VERSIONS):
                path = folder / f"{name}-{record.face_id}-{version}.png".replace("/", "-")
                faces.append(_version(record, path, rng))
    return [
        _other_convention(face, noise, rng).with_changes(dataset="free", box=None, box_kind=None)
        for face in faces
    ]


def _other_convention(
    record: FaceRecord, noise: Mapping[str, float], rng: np.random.Generator
) -> FaceRecord:
    """The same face as people of another school might have labelled it."""
    side = float(np.max(record.tight_box[2:] - record.tight_box[:2]))
    moved = record.points.copy()
    for group, members in get_markup("ibug68").groups.items():
        rows = list(members)
        moved[rows] += rng.normal(0, noise.get(group, 0.0) * side, (len(rows), 2))
    return record.with_changes(points=moved)


def _version(record: FaceRecord, path: Path, rng: np.random.Generator) -> FaceRecord:
    """The face in another image: turned by up to 40 degrees, at a random size, worse."""
    assert record.image is not None
    pixels = read_image(record.image)
    x0, y0, x1, y1 = record.tight_box
    zoom = np.exp(rng.uniform(*np.log(SIDE))) / max(x1 - x0, y1 - y0)
    size = round(3 * zoom * max(x1 - x0, y1 - y0))
    angle = np.radians(rng.uniform(-40, 40))
    turn = zoom * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    middle = np.array([(x0 + x1) / 2, (y0 + y1) / 2])
    to_version = np.column_stack([turn, (size - 1) / 2 - turn @ middle])
    if zoom < 1:  # no aliases: smooth before the pixels are thinned out
        pixels = np.asarray(cv2.GaussianBlur(pixels, (0, 0), 0.5 / zoom), np.uint8)
    image = cv2.warpAffine(
        pixels, to_version, (size, size), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    write_image(path, _worse(np.asarray(image, np.uint8), rng))
    points = affine.apply(to_version, record.points) + rng.normal(0, CLICK, record.points.shape)
    return record.with_changes(image=path, points=points, face_id=path.stem)


def _worse(image: ImageArray, rng: np.random.Generator) -> ImageArray:
    light = (image / 255.0) ** np.exp(rng.normal(0, 0.55)) * rng.uniform(0.6, 1.25)
    size = len(image)
    if rng.random() < 0.5:  # a lamp at one side
        across, along = np.meshgrid(*[np.linspace(-1, 1, size)] * 2)
        angle = rng.uniform(0, 2 * np.pi)
        aside = np.cos(angle) * across + np.sin(angle) * along
        light = light * np.exp(rng.uniform(0, 3.0) * aside)[..., None]
    if rng.random() < 0.35:  # something before a part of the face, which is a third of the image
        middle, half = rng.uniform(0.33, 0.67, 2) * size, rng.uniform(0.03, 0.1, 2) * size
        (left, top), (right, bottom) = (middle - half).astype(int), (middle + half).astype(int)
        light[top:bottom, left:right] = rng.uniform(0, 1, 3)
    if rng.random() < 0.4:
        light = cv2.GaussianBlur(light, (0, 0), rng.uniform(0.5, 2.5))
    light = light + rng.normal(0, rng.uniform(0, 0.07), image.shape)
    pixels = np.clip(light * 255, 0, 255).astype(np.uint8)
    quality = int(rng.integers(15, 95))
    _, coded = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality])
    return np.asarray(cv2.imdecode(coded, cv2.IMREAD_COLOR), np.uint8)
