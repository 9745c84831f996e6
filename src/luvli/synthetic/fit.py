"""The morphable head fitted to 68 labels: identity, expression, pose and camera at once.

Gauss-Newton on the labels' distances, with the usual priors of a morphable model: identity
coefficients are standard normal, expression weights small. Jaw landmarks are compared where the
outline of the fitted head is at this pose (`luvli.synthetic.scene.labels`), not at fixed vertices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from luvli.errors import require
from luvli.measures.rotation import rotation_of_vector
from luvli.synthetic.arrays import Bools, Doubles, Ints, Singles
from luvli.synthetic.heads.head import Head
from luvli.synthetic.raster.triangles import SAMPLES
from luvli.synthetic.scene.labels import Labels, outline, place_landmarks
from luvli.synthetic.scene.pose import Camera

DISTANCE = 110.0
"""centimetres from the camera to the neck; photographs do not say"""
NOISE = 0.012
"""standard deviation of a label, in sides of the face"""
EXPRESSION = 0.35
"""standard deviation of an expression weight"""
JAW_WEIGHT = 0.5
ITERATIONS = 8
_POSE = 6
"""unknowns beside the coefficients: rotation (3), logarithm of the focal length, centre (2)"""


@dataclass(frozen=True, eq=False)
class FittedHead:
    """A head as it stands in a photograph."""

    rotation: Doubles
    """(3, 3) head to camera coordinates (x right, y up, z to the camera), about the neck"""
    camera: Camera
    identity: Singles
    expression: Singles
    own: Singles
    """(n, 3) vertices of this person with this expression, in head coordinates"""
    triangles: Ints
    labels: Labels
    """the fitted head's landmarks"""
    error: float
    """mean distance to the labels, in sides of the face"""

    @property
    def yaw(self) -> float:
        """Degrees; above 0 the face looks to the image's right."""
        forwards = self.rotation[:, 2]
        return float(np.degrees(np.arctan2(forwards[0], forwards[2])))


def fit_photograph(head: Head, points: Doubles) -> FittedHead | None:
    """Fit `head` to labels (68, 2) in image pixels; NaN where there is none.

    None where the labels do not fix a head: fewer than 30 of them, or a fit that ends far away.
    """
    located: Bools = np.asarray(np.isfinite(points).all(axis=1))
    fit = fit_pose(head, points) if located.sum() >= 30 else None
    if fit is None:
        return None
    face = float(np.ptp(points[located], axis=0).max())
    for _ in range(ITERATIONS):
        fit = _improved(head, fit, points, located, face)
    off = np.linalg.norm(fit.labels.points - points, axis=1)[located].mean() / face
    return replace(fit, error=float(off)) if np.isfinite(off) else None


def fit_pose(head: Head, points: Doubles) -> FittedHead | None:
    """The pose of the neutral head under weak perspective, by linear least squares; `error` is
    that of the inner landmarks. None where the labels (68, 2) show no face from the front."""
    inner: Bools = np.asarray(np.isfinite(points).all(axis=1))
    inner[:17] = False  # the outline wanders over the head as it turns
    if inner.sum() < 20:
        return None
    model = (head.neutral[head.landmarks] - head.pivot).astype(np.float64)
    design = np.column_stack([model[inner], np.ones(int(inner.sum()))])
    solution = np.linalg.lstsq(design, points[inner] * (1, -1), rcond=None)[0]  # (4, 2), y up
    rows = solution[:3].T
    scale = np.sqrt(np.linalg.norm(rows[0]) * np.linalg.norm(rows[1]))
    if not scale > 0:
        return None
    first, second = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    left, _, right = np.linalg.svd(np.stack([first, second, np.cross(first, second)]))
    rotation = left @ right
    if np.linalg.det(rotation) < 0 or rotation[2, 2] < 0:  # mirrored, or seen from behind
        return None
    focal = scale * (DISTANCE - float((model[inner] @ rotation[2]).mean()))
    camera = Camera(DISTANCE, focal, float(solution[3, 0]), -float(solution[3, 1]))
    identity = np.zeros(len(head.identity), np.float32)
    expression = np.zeros(len(head.expression), np.float32)
    fit = _placed(head, rotation, camera, identity, expression)
    off = np.linalg.norm(fit.labels.points - points, axis=1)[inner].mean()
    return replace(fit, error=float(off / np.nanmax(np.ptp(points[inner], axis=0))))


def _placed(
    head: Head, rotation: Doubles, camera: Camera, identity: Singles, expression: Singles
) -> FittedHead:
    own = head.deform(identity, expression)
    triangles, _ = head.shown(own)
    vertices = to_camera(head, own, rotation)
    labels = place_landmarks(head, vertices, triangles, camera, "outline")
    return FittedHead(rotation, camera, identity, expression, own, triangles, labels, np.inf)


def to_camera(head: Head, vertices: Singles, rotation: Doubles) -> Singles:
    """(n, 3) head to camera coordinates."""
    return np.asarray((vertices - head.pivot) @ rotation.T.astype(np.float32), np.float32)


def _improved(
    head: Head, fit: FittedHead, points: Doubles, located: Bools, face: float
) -> FittedHead:
    """One Gauss-Newton step."""
    vertices = to_camera(head, fit.own, fit.rotation)
    index = head.landmarks.copy()
    index[:17] = outline(head, vertices, fit.camera.project(vertices, SAMPLES))[0]
    slopes = _slopes(head, fit, vertices[index].astype(np.float64), index)
    weight = np.where(located, 1.0, 0.0) / (NOISE * face)
    weight[:17] *= JAW_WEIGHT
    weight[fit.labels.self_occluded] *= 0.5
    off = np.where(located[:, None], points - fit.labels.points, 0.0) * weight[:, None]
    design = (slopes * weight[:, None, None]).reshape(136, -1)
    faces, moods = len(fit.identity), len(fit.expression)
    prior = np.concatenate([np.full(_POSE, 1e-6), np.ones(faces), np.full(moods, EXPRESSION**-2)])
    state = np.concatenate([np.zeros(_POSE), fit.identity, fit.expression])
    step = np.linalg.solve(
        design.T @ design + np.diag(prior), design.T @ off.ravel() - prior * state
    )
    camera = Camera(
        DISTANCE,
        fit.camera.focal * float(np.exp(np.clip(step[3], -0.3, 0.3))),
        fit.camera.centre_x + float(step[4]),
        fit.camera.centre_y + float(step[5]),
    )
    identity = np.clip(fit.identity + step[_POSE : _POSE + faces], -2.5, 2.5).astype(np.float32)
    expression = np.clip(fit.expression + step[_POSE + faces :], 0.0, 1.0).astype(np.float32)
    turn = step[None, :3] * min(1.0, 0.5 / max(float(np.linalg.norm(step[:3])), 1e-9))
    return _placed(head, rotation_of_vector(turn)[0] @ fit.rotation, camera, identity, expression)


def _slopes(head: Head, fit: FittedHead, place: Doubles, index: Ints) -> Doubles:
    """(68, 2, unknowns) derivatives of the landmarks' pixels; `place` (68, 3) is in camera
    coordinates."""
    camera = fit.camera
    near = 1 / (camera.distance - place[:, 2])
    pixels = np.zeros((68, 2, 3))  # by x, y, z
    pixels[:, 0, 0] = camera.focal * near
    pixels[:, 1, 1] = -camera.focal * near
    pixels[:, 0, 2] = camera.focal * place[:, 0] * near**2
    pixels[:, 1, 2] = -camera.focal * place[:, 1] * near**2
    moves = np.zeros((68, 3, _POSE + len(fit.identity) + len(fit.expression)))
    for axis, unit in enumerate(np.eye(3)):
        moves[:, :, axis] = np.cross(unit, place)
    for first, modes in ((_POSE, head.identity), (_POSE + len(fit.identity), head.expression)):
        here = modes.reshape(len(modes), -1, 3)[:, index].astype(np.float64)  # (modes, 68, 3)
        moves[:, :, first : first + len(modes)] = (here @ fit.rotation.T).transpose(1, 2, 0)
    slopes = pixels @ moves
    middle = np.array([camera.centre_x, camera.centre_y])
    slopes[:, :, 3] = fit.labels.points - middle
    slopes[:, 0, 4] = slopes[:, 1, 5] = 1
    return np.asarray(slopes, np.float64)


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
