"""A photograph over the fitted head, and the head turned.

Each vertex knows where in the photograph it is (the fit's projection, warped so that every landmark
lies exactly on its label), and how well the camera saw it. The turned head is drawn with those
pixels; what the camera did not see takes those of the other half of the face. Behind it stands the
photograph with the head painted out.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from luvli.errors import require
from luvli.image.read import ImageArray
from luvli.synthetic.arrays import Bools, Doubles, Index, Ints, Singles
from luvli.synthetic.fit import FittedHead, residual_warp, to_camera
from luvli.synthetic.heads.head import Head
from luvli.synthetic.heads.regions import smoothstep
from luvli.synthetic.raster.triangles import (
    NOTHING,
    SAMPLES,
    barycentric,
    depth_buffer,
    vertex_normals,
)
from luvli.synthetic.scene.labels import place_landmarks, visibility
from luvli.synthetic.scene.pose import Camera

_HAIR = 1.2
"""centimetres that the head's crown and back are thicker than the bald model"""
_SEEN = (0.05, 0.35)
"""cosines between skin and view below which a photograph shows nothing, and above which all"""
_INSIDE = 0.96
"""how far from the middle of the face to its outline pixels are taken for the face's own"""
_BEHIND = 0.6
"""centimetres behind the nearest surface from which a vertex counts as hidden"""


class TurnedFace(NamedTuple):
    """A face at a new pose."""

    image: ImageArray
    """(h, w, 3) uint8 RGB, as large as the photograph"""
    points: Doubles
    """(68, 2) image pixels; hidden ones too"""
    visibility: NDArray[np.int8]
    """(68,) `Visibility` classes"""
    yaw: float
    """degrees; above 0 the face looks to the image's right"""


def turn_face(
    head: Head,
    fit: FittedHead,
    image: ImageArray,
    points: Doubles,
    externally: Bools,
    yaw: float,
    pitch: float = 0.0,
) -> TurnedFace:
    """The photograph (h, w, 3) turned by `yaw` and `pitch` degrees about the neck.

    `points` (68, 2) are its labels, `externally` (68,) what something covered in it.
    """
    thick = _with_hair(head, fit.own)
    draped = _drape(head, fit, thick, points, image.shape[:2])
    turned = _turn(head, fit.own, fit.rotation, yaw, pitch)
    camera = _recentred(head, fit, turned)
    labels = place_landmarks(head, turned, fit.triangles, camera, "outline")
    screen = camera.project(_turn(head, thick, fit.rotation, yaw, pitch), SAMPLES)
    background = _without_head(image, head, fit, thick)
    picture = _draw(head, fit.triangles, screen, draped, image, background)
    return TurnedFace(picture, labels.points, visibility(labels, externally), fit.yaw + yaw)


def _turn(head: Head, vertices: Singles, rotation: Doubles, yaw: float, pitch: float) -> Singles:
    """Camera coordinates after the head has turned on its neck; the shoulders stay."""
    share = head.stiffness.astype(np.float64)
    a, b = np.radians(yaw) * share, np.radians(pitch) * share
    x, y, z = (vertices - head.pivot).astype(np.float64).T
    y, z = np.cos(b) * y + np.sin(b) * z, -np.sin(b) * y + np.cos(b) * z
    x, z = np.cos(a) * x + np.sin(a) * z, -np.sin(a) * x + np.cos(a) * z
    return np.asarray(np.stack([x, y, z], axis=1) @ rotation.T, np.float32)


def _recentred(head: Head, fit: FittedHead, turned: Singles) -> Camera:
    """The photograph's camera, moved so that the middle of the landmarks stays where it was."""
    places = np.stack([to_camera(head, fit.own, fit.rotation), turned])[:, head.landmarks]
    before, after = fit.camera.project(places)[..., :2].mean(axis=1)
    x, y = (before - after).tolist()
    camera = fit.camera
    return replace(camera, centre_x=camera.centre_x + x, centre_y=camera.centre_y + y)


def _with_hair(head: Head, vertices: Singles) -> Singles:
    """The head with a thicker crown and back; landmarks and the face stay."""
    _, y, z = head.neutral.astype(np.float64).T
    points = head.neutral[head.landmarks].astype(np.float64)
    ear = points[[0, 16], 2].mean()
    up = smoothstep(0.8, 4.0, y - points[17:27, 1].max())
    back = smoothstep(0.5, 4.0, ear - z) * smoothstep(-3.0, 1.0, y - points[33, 1])
    away = vertices - np.array([0.0, points[27, 1], ear], np.float32)
    away /= np.linalg.norm(away, axis=1, keepdims=True) + 1e-6
    return np.asarray(vertices + _HAIR * np.maximum(up, back)[:, None] * away, np.float32)


class _Draped(NamedTuple):
    """What the photograph shows of each of n vertices."""

    places: Singles
    """(n, 2) image pixels"""
    moved: Singles
    """(n,) 1 where the place was moved to the outline of the face: many vertices share it"""
    seen: Singles
    """(n,) how well the photograph shows the vertex, 0 to 1"""


def _drape(
    head: Head, fit: FittedHead, vertices: Singles, points: Doubles, size: tuple[int, int]
) -> _Draped:
    """Where in the photograph each vertex is; landmarks lie on their labels."""
    flat = fit.camera.project(to_camera(head, vertices, fit.rotation))[:, :2].astype(np.float64)
    known = np.isfinite(points).all(axis=1) & ~fit.labels.self_occluded
    anchor = fit.labels.points[known]
    places = flat + residual_warp(anchor, points[known] - anchor, flat)
    cheeks = _side_of_face(head)
    jaw = np.where(known[:17, None], points[:17], fit.labels.points[:17])
    inside = _within_outline(places[cheeks], jaw)
    moved = np.zeros(len(places), np.float32)
    moved[cheeks] = (inside != places[cheeks]).any(axis=1)
    places[cheeks] = inside
    return _Draped(places.astype(np.float32), moved, _seen(head, fit, vertices, size))


@lru_cache(maxsize=2)
def _side_of_face(head: Head) -> Index:
    """Vertices between the middle of the face and its end in profile: ear's root and jaw's edge."""
    edge = head.neutral[head.jaw_paths.back[:9, -1]][:, [2, 1]]  # (9, 2) a side view, ear to chin
    top, front = edge[0] + (0.0, 5.0), head.neutral[:, 2].max() + 1.0
    corners = np.concatenate([[top], edge, [[front, edge[8, 1]], [front, top[1]]]])
    skin = head.skin_vertices
    inside = _inside(head.neutral[skin][:, [2, 1]], corners)
    return np.asarray(skin[inside], np.intp)


def _inside(places: Singles | Doubles, corners: Singles | Doubles) -> Bools:
    """(n,) whether places (n, 2) lie in a polygon (m, 2), or on its edge."""
    polygon = corners.astype(np.float32)
    return np.array([cv2.pointPolygonTest(polygon, xy, False) >= 0 for xy in places.tolist()])


def _within_outline(places: Doubles, jaw: Doubles) -> Doubles:
    """Places (n, 2) of a face's skin, those outside of its labelled outline (17, 2) moved to it.

    A model's cheek may stand out farther than the photograph's: what is beside it is background.
    """
    middle = jaw.mean(axis=0)
    up = 0.7 * ((jaw[0] + jaw[16]) / 2 - jaw[8])
    line = np.concatenate([[jaw[0] + up], jaw, [jaw[16] + up]])
    line = middle + (line - middle) * _INSIDE
    outside = np.flatnonzero(~_inside(places, line))
    start, way = line[:-1], np.diff(line, axis=0)
    along = np.einsum("nsd,sd->ns", places[outside, None] - start, way) / (way**2).sum(axis=1)
    nearest = start + np.clip(along, 0, 1)[..., None] * way  # (n, segments, 2)
    choice = np.linalg.norm(nearest - places[outside, None], axis=2).argmin(axis=1)
    moved = places.copy()
    moved[outside] = nearest[np.arange(len(outside)), choice]
    return moved


def _seen(head: Head, fit: FittedHead, vertices: Singles, size: tuple[int, int]) -> Singles:
    """(n,) how well the photograph shows each vertex, 0 to 1."""
    place = to_camera(head, vertices, fit.rotation)
    view = np.array([0, 0, fit.camera.distance], np.float32) - place
    normals = vertex_normals(place, fit.triangles)
    cosine = np.einsum("ni,ni->n", normals, view) / np.linalg.norm(view, axis=1)
    screen = fit.camera.project(place)
    nearness, _ = depth_buffer(screen, fit.triangles, size)
    last = np.array(size[::-1]) - 1
    x, y = np.clip(np.rint(screen[:, :2]).astype(int), 0, last).T
    before = 1 / screen[:, 2] - 1 / np.maximum(nearness[y, x], 1e-6) < _BEHIND
    inside = ((screen[:, :2] > 0) & (screen[:, :2] < last)).all(axis=1)
    return np.asarray(smoothstep(*_SEEN, cosine) * before * inside, np.float32)


def _draw(
    head: Head,
    triangles: Ints,
    screen: Singles,
    draped: _Draped,
    image: ImageArray,
    background: ImageArray,
) -> ImageArray:
    """The turned head over the background; `screen` (n, 3) in samples."""
    height, width = image.shape[:2]
    _, owner = depth_buffer(screen, triangles, (height * SAMPLES, width * SAMPLES))
    rows, columns = np.nonzero(owner != NOTHING)
    corners = triangles[owner[rows, columns]]
    share = barycentric(screen[corners, :2], columns, rows).astype(np.float32)
    own = np.column_stack([draped.places, draped.moved, draped.seen])
    both = np.concatenate([own, own[_mirror_images(head)]], axis=1)  # (n, 8)
    mixed = sum(share[:, k, None] * both[corners[:, k]] for k in range(3))
    blurred = np.asarray(cv2.GaussianBlur(image, (0, 0), 0.02 * max(height, width)), np.uint8)
    first = mixed[:, 3:4] + 0.03  # what neither half shows comes from the face's own edge
    second = mixed[:, 7:] * np.clip(1 - first, 0, 1)  # the other half only where it is hidden
    colours = first * _coloured(image, blurred, mixed[:, :3])
    colours += second * _coloured(image, blurred, mixed[:, 4:7])
    samples = cv2.resize(background, (width * SAMPLES, height * SAMPLES)).astype(np.float32)
    samples[rows, columns] = colours / (first + second)
    small = cv2.resize(samples, (width, height), interpolation=cv2.INTER_AREA)
    return np.asarray(np.clip(np.rint(small), 0, 255), np.uint8)


def _coloured(image: ImageArray, blurred: ImageArray, places: Singles) -> Singles:
    """(p, 3) colours at x, y; as far as the third column says, of the blurred image."""
    wide = 4096  # pixels that OpenCV samples in one row: it takes no more than 32,767
    grid = np.pad(places[:, :2], ((0, -len(places) % wide), (0, 0))).reshape(-1, wide, 2)
    x, y = np.ascontiguousarray(grid[..., 0]), np.ascontiguousarray(grid[..., 1])
    sharp, soft = (
        cv2.remap(source, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        for source in (image, blurred)
    )
    moved = places[:, 2:]
    sharp, soft = (colours.reshape(-1, 3)[: len(places)] for colours in (sharp, soft))
    return np.asarray(sharp * (1 - moved) + soft * moved, np.float32)


def _without_head(image: ImageArray, head: Head, fit: FittedHead, vertices: Singles) -> ImageArray:
    """The photograph with the head painted out, from what is around it."""
    height, width = image.shape[:2]
    scale = min(1.0, 128 / max(height, width))
    size = max(8, round(height * scale)), max(8, round(width * scale))
    screen = fit.camera.project(to_camera(head, vertices, fit.rotation))
    screen[:, :2] *= (size[1] / width, size[0] / height)
    _, owner = depth_buffer(screen, fit.triangles, size)
    reach = max(3, round(0.05 * max(size))) | 1
    mask = cv2.dilate((owner != NOTHING).astype(np.uint8), np.ones((reach, reach), np.uint8))
    small = cv2.resize(image, (size[1], size[0]), interpolation=cv2.INTER_AREA)
    filled = cv2.inpaint(small, mask, 3, cv2.INPAINT_TELEA)
    large = cv2.resize(filled, (width, height), interpolation=cv2.INTER_CUBIC)
    soft = cv2.GaussianBlur(cv2.resize(mask.astype(np.float32), (width, height)), (0, 0), 1.5)
    mixed = image + (large.astype(np.float32) - image) * soft[..., None]
    return np.asarray(np.clip(np.rint(mixed), 0, 255), np.uint8)


@lru_cache(maxsize=2)
def _mirror_images(head: Head) -> Index:
    """(n,) the vertex on the other half of the head that is nearest to each one's mirror image."""
    place = head.neutral.astype(np.float64)
    tree = require("scipy.spatial", "train").cKDTree(place)
    return np.asarray(tree.query(place * (-1, 1, 1))[1], np.intp)
