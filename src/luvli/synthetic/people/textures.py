"""Skin from photographs: a face with 68 labelled points is unrolled onto the head's texture.

The head is posed to the photograph by its landmarks; what the pose leaves over is warped away,
so that every landmark's skin lands on the landmark. Broad light and shadow are
divided out (`texture_finish`). Where the camera did not see the skin, the other half of the
face, and then plain skin of the same tone, takes its place.

Eyes, brows and lips come from photographs that people labelled, if there are any among them, and
are set into the skin of the others. A model's labels are a little off, everywhere in the same way;
its next version would see eyes drawn that much beside their landmarks and learn the mistake as
the rule.
"""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np

from luvli.errors import InputError
from luvli.image.polyline import points_along
from luvli.image.read import ImageArray, read_image
from luvli.synthetic.arrays import Bytes, Doubles, Index, Singles
from luvli.synthetic.fit import FittedHead, fit_pose, residual_warp, to_camera
from luvli.synthetic.heads.head import Head
from luvli.synthetic.heads.regions import HEIGHT, WIDTH
from luvli.synthetic.people.texture_finish import (
    Texture,
    face_window,
    features_window,
    finish_texture,
)
from luvli.synthetic.photographs import is_by_hand, photographed_faces, skin_points

_LINEAR: Singles = ((np.arange(256) / 255) ** 2.2).astype(np.float32)
_COARSE = 8
"""texels between the points at which the way to the photograph is computed"""
_MIN_WIDTH = 60
"""pixels of a face that can lend its skin"""
_MAX_ERROR, _MAX_TURN = 0.08, 25.0
"""of the pose: mean distance of the inner landmarks in sides of their box, and degrees"""


def random_texture(head: Head, source: str, rng: np.random.Generator) -> Texture:
    """The skin of a random photograph of `source` (see `luvli.synthetic.photographs`).

    Photographs without 68 points, or turned too far, are passed over. Where people labelled some
    of them and a model the others, every second skin is one of the first, and the others wear
    their eyes, brows and lips.
    """
    by_hand, by_model = _labelled(source)
    if not len(by_hand):
        return _one_of(head, source, by_model, rng)
    first = _one_of(head, source, by_hand, rng)
    if not len(by_model) or rng.random() < 0.5:
        return first
    return _with_features(head, _one_of(head, source, by_model, rng), first)


def _one_of(head: Head, source: str, numbers: Index, rng: np.random.Generator) -> Texture:
    for _ in range(40):
        found = _texture(head, source, int(numbers[rng.integers(len(numbers))]))
        if found is not None:
            return found
    raise InputError(f"{source} has hardly any frontal face with 68 points: add such photographs.")


def _with_features(head: Head, skin: Texture, features: Texture) -> Texture:
    """One photograph's skin with the eyes, brows and lips of another, in its own tone."""
    share = features_window(head)[..., None]
    lit = np.append(np.sqrt(skin.tone / features.tone), 1.0)  # of square roots of colours; weight
    photo = share * np.minimum(features.photo * lit, 255) + (1 - share) * skin.photo
    return Texture(np.ascontiguousarray(photo.astype(np.uint8)), skin.tone)


@lru_cache(maxsize=4)
def _labelled(source: str) -> tuple[Index, Index]:
    """Which of the photographs have points by people, and which by a model."""
    faces = photographed_faces(source)
    known = np.array([skin_points(face) is not None for face in faces])
    if not known.any():
        raise InputError(f"{source} holds no photograph with 68 points (.pts files beside them).")
    by_hand = np.array([is_by_hand(face) for face in faces])
    return np.flatnonzero(known & by_hand), np.flatnonzero(known & ~by_hand)


@lru_cache(maxsize=96)
def _texture(head: Head, source: str, number: int) -> Texture | None:
    """The skin of one photograph, or None if it is no good."""
    face = photographed_faces(source)[number]
    labelled = skin_points(face)
    if labelled is None or np.ptp(labelled[np.isfinite(labelled[:, 0]), 0]) < _MIN_WIDTH:
        return None
    fit = fit_pose(head, labelled)
    if fit is None or fit.error > _MAX_ERROR:
        return None
    if np.abs(fit.rotation[:2, 2]).max() > np.sin(np.radians(_MAX_TURN)):
        return None
    colours, weight = _unrolled_photograph(head, fit, labelled, read_image(face.image or ""))
    return finish_texture(head, _LINEAR[colours], weight)


def _projected(head: Head, fit: FittedHead, places: Singles) -> Doubles:
    """(n, 2) where `places` (n, 3) of the neutral head are in the photograph."""
    pixels = fit.camera.project(to_camera(head, places, fit.rotation))[:, :2]
    return pixels.astype(np.float64)


def _landmarks_of(head: Head, fit: FittedHead) -> Doubles:
    """(68, 2) where the landmarks of a head seen from the front lie in a photograph.

    As people label them: the jaw on its outline, shared out evenly.
    """
    places = head.neutral[head.landmarks].copy()
    places[:17] = head.jaw_paths.edge(head.neutral)[:, 1]
    pixels = _projected(head, fit, places)
    for half in (slice(0, 9), slice(8, 17)):
        pixels[half] = points_along(pixels[half], np.linspace(0, 1, 9).tolist())
    return pixels


def _unrolled_photograph(
    head: Head, fit: FittedHead, labelled: Doubles, image: ImageArray
) -> tuple[Bytes, Singles]:
    """(HEIGHT, WIDTH, 3) colours of the skin and (HEIGHT, WIDTH) how far they can be trusted."""
    places, normals, seen = head.unrolled
    columns, rows = np.meshgrid(np.arange(0, WIDTH, _COARSE), np.arange(0, HEIGHT, _COARSE))
    target = _projected(head, fit, places[rows, columns].reshape(-1, 3))
    anchor = _landmarks_of(head, fit)
    located = np.isfinite(labelled).all(axis=1)
    residual = residual_warp(anchor[located], (labelled - anchor)[located], target)
    fine = (target + residual).reshape(*rows.shape, 2).astype(np.float32)
    grown = np.array([[_COARSE, 0, 0], [0, _COARSE, 0]], np.float64)
    way = cv2.warpAffine(fine, grown, (WIDTH, HEIGHT), borderMode=cv2.BORDER_REPLICATE)
    x, y = np.asarray(way[..., 0]), np.asarray(way[..., 1])
    colours = cv2.remap(image, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    facing = np.clip((normals @ fit.rotation[2] - 0.45) / 0.25, 0, 1) * seen
    height, width = image.shape[:2]
    inside = (x >= 2) & (y >= 2) & (x < width - 3) & (y < height - 3)
    weight = facing * inside * face_window(head)
    return np.asarray(colours, np.uint8), weight.astype(np.float32)
