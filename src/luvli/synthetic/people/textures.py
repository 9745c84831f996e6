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
from typing import NamedTuple

import cv2
import numpy as np

from luvli.errors import InputError, require
from luvli.image.polyline import points_along
from luvli.image.read import ImageArray, read_image
from luvli.synthetic.arrays import Bytes, Doubles, Index, Real, Singles
from luvli.synthetic.heads.head import Head
from luvli.synthetic.heads.regions import HEIGHT, WIDTH
from luvli.synthetic.people.texture_finish import (
    Texture,
    face_window,
    features_window,
    finish_texture,
)
from luvli.synthetic.photographs import photographed_faces

_LINEAR: Singles = ((np.arange(256) / 255) ** 2.2).astype(np.float32)
_COARSE = 8
"""texels between the points at which the way to the photograph is computed"""


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
    known = np.array([face.points is not None for face in faces])
    if not known.any():
        raise InputError(f"{source} holds no photograph with 68 points (.pts files beside them).")
    by_hand = np.array([face.by_hand for face in faces])
    return np.flatnonzero(known & by_hand), np.flatnonzero(known & ~by_hand)


@lru_cache(maxsize=96)
def _texture(head: Head, source: str, number: int) -> Texture | None:
    """The skin of one photograph, or None if it is no good."""
    face = photographed_faces(source)[number]
    labelled, image = face.points, read_image(face.image)
    if labelled is None or np.nanmax(labelled[:, 0]) - np.nanmin(labelled[:, 0]) < 60:
        return None
    fit = fit_head(head, labelled, max(image.shape[:2]))
    if fit is None:
        return None
    colours, weight = _unrolled_photograph(head, fit, labelled, image)
    return finish_texture(head, _LINEAR[colours], weight)


def _landmarks_of(head: Head, fit: Fit) -> Doubles:
    """(68, 2) where the landmarks of a head seen from the front lie in a photograph.

    As people label them: the jaw on its outline, shared out evenly.
    """
    places = head.neutral[head.landmarks].astype(np.float64)
    places[:17] = head.jaw_paths.edge(head.neutral)[:, 1]
    pixels = fit.project(places)
    for half in (slice(0, 9), slice(8, 17)):
        pixels[half] = points_along(pixels[half], np.linspace(0, 1, 9).tolist())
    return pixels


def _unrolled_photograph(
    head: Head, fit: Fit, labelled: Doubles, image: ImageArray
) -> tuple[Bytes, Singles]:
    """(HEIGHT, WIDTH, 3) colours of the skin and (HEIGHT, WIDTH) how far they can be trusted."""
    places, normals, seen = head.unrolled
    columns, rows = np.meshgrid(np.arange(0, WIDTH, _COARSE), np.arange(0, HEIGHT, _COARSE))
    target = fit.project(places[rows, columns].reshape(-1, 3))
    anchor = _landmarks_of(head, fit)
    located = np.isfinite(labelled).all(axis=1)
    residual = residual_warp(anchor[located], (labelled - anchor)[located], target)
    fine = (target + residual).reshape(*rows.shape, 2).astype(np.float32)
    grown = np.array([[_COARSE, 0, 0], [0, _COARSE, 0]], np.float64)
    way = cv2.warpAffine(fine, grown, (WIDTH, HEIGHT), borderMode=cv2.BORDER_REPLICATE)
    x, y = np.asarray(way[..., 0]), np.asarray(way[..., 1])
    colours = cv2.remap(image, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    facing = np.clip((normals @ fit.rotation[2] * -1 - 0.45) / 0.25, 0, 1) * seen
    height, width = image.shape[:2]
    inside = (x >= 2) & (y >= 2) & (x < width - 3) & (y < height - 3)
    weight = facing * inside * face_window(head)
    return np.asarray(colours, np.uint8), weight.astype(np.float32)


_INNER = np.arange(17, 68)
_FOCAL = 3.0
"""focal length assumed for photographs, in units of their longer side"""


class Fit(NamedTuple):
    """Where a head stands before the camera of a photograph."""

    rotation: Doubles
    """(3, 3) head to OpenCV's camera coordinates (x right, y down, z away)"""
    shift: Doubles
    """(3,)"""
    focal: float
    centre: Doubles
    """(2,) image pixels"""

    def project(self, places: Real) -> Doubles:
        """(n, 3) head coordinates to (n, 2) image pixels."""
        here = places @ self.rotation.T + self.shift
        return np.asarray(self.focal * here[:, :2] / here[:, 2:] + self.centre, np.float64)


def fit_head(head: Head, points: Doubles, extent: int) -> Fit | None:
    """The pose that lays the neutral head on 68 points, or None if it is no frontal face.

    Points without a location (NaN) do not count. `extent` is the longer side of the photograph
    in pixels.
    """
    model = head.neutral[head.landmarks].astype(np.float64)
    focal = _FOCAL * extent
    middle = np.nanmean(points, axis=0)
    inner = _INNER[np.isfinite(points[_INNER]).all(axis=1)]
    camera = np.array([[focal, 0, middle[0]], [0, focal, middle[1]], [0, 0, 1]], np.float64)
    # OpenCV looks along z with y down: turn the head's axes first
    turned, seen = (model * (1, -1, -1))[inner], points[inner].astype(np.float64)
    lens = np.zeros(4)
    ok, turn, shift = cv2.solvePnP(turned, seen, camera, lens, flags=cv2.SOLVEPNP_EPNP)
    if ok:
        ok, turn, shift = cv2.solvePnP(
            turned, seen, camera, lens, turn, shift, True, cv2.SOLVEPNP_ITERATIVE
        )
    if not ok:
        return None
    rotation = np.asarray(cv2.Rodrigues(turn)[0] @ np.diag([1.0, -1.0, -1.0]), np.float64)
    fit = Fit(rotation, np.asarray(shift, np.float64).ravel(), focal, middle)
    yaw = np.degrees(np.arcsin(np.clip(rotation[0, 2], -1, 1)))
    pitch = np.degrees(np.arcsin(np.clip(rotation[1, 2], -1, 1)))
    off = np.linalg.norm(fit.project(model)[inner] - points[inner], axis=1).mean()
    width = np.nanmax(points[:, 0]) - np.nanmin(points[:, 0])
    if abs(yaw) > 25 or abs(pitch) > 25 or off > 0.06 * width or fit.shift[2] < 0:
        return None
    return fit


def residual_warp(anchor: Doubles, values: Doubles, at: Doubles) -> Doubles:
    """Thin-plate spline through `values` (k, 2) at `anchor` (k, 2), evaluated at (m, 2).

    Far from all anchors a spline runs away: there it fades to 0.
    """
    scale = np.ptp(anchor, axis=0).max()
    spline = require("scipy.interpolate", "train").RBFInterpolator(
        anchor / scale, values, kernel="thin_plate_spline", smoothing=5e-5
    )
    far, _ = require("scipy.spatial", "train").cKDTree(anchor).query(at)
    return np.asarray(spline(at / scale) * np.exp(-((far / scale / 0.35) ** 4))[:, None])
