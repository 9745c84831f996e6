"""Head pose from 68 landmarks: a mean head is turned until its points fall on them.

Every landmark counts by its own covariance and visibility, and people differ from the mean
head: the ways in which they do (`head68.json`: mean points, main modes and remaining spread
of 600 random heads of the ICT FaceKit model, MIT licence, Copyright (c) 2020 USC Institute
for Creative Technologies) enter the covariance of the residuals, and so does that landmarks
of one part of the face err together. What comes out is a pose with the covariance that follows
from all three.

Angles are those of `luvli.synthetic`: yaw > 0 turns the face to its own left, pitch > 0 lifts
it, roll > 0 is clockwise as seen in the image.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.markup import get_markup

LEAST_VISIBLE = 0.1
"""landmarks whose probability of visibility is lower say nothing"""
FEWEST = 12
"""landmarks that a pose needs"""
NEARNESS = (1 / 120, 1 / 120)
"""mean and deviation of 1 / distance of the camera, per centimetre, before a face is seen"""
STEPS = 25
SHARED = 0.3
"""correlation of the errors of two landmarks of one part (jaw, brows, nose, eyes, mouth), each in
units of its own covariance: 0.13 to 0.36 on 300-W, 0.23 to 0.51 on MERL-RAV, measured on held-out
faces. Taken for independent, many landmarks would seem surer of a pose than they are."""
FACTOR = 1.5
"""by which errors exceed the deviations that follow from all this"""
PITCH_CONVENTION = 4.5
"""degrees: where a labeller puts brows, nose and mouth looks like a nod of the head. Both were
fitted on luvli-68's predictions of 149 rendered faces (seed 994 of benchmarks/head_pose.py), so
that one and two deviations hold 68 and 95 % of near-frontal and of turned faces."""


class HeadPose(NamedTuple):
    """Where a head looks, in degrees, and how sure that is."""

    yaw: float
    """> 0: turned to the person's left"""
    pitch: float
    """> 0: looking up"""
    roll: float
    """> 0: tilted clockwise in the image"""
    covariance: Floats
    """(3, 3) of yaw, pitch and roll, degrees squared"""

    @property
    def deviation(self) -> Floats:
        """(3,) standard deviations of yaw, pitch and roll in degrees."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def direction(self) -> Floats:
        """(3,) unit vector of where the face looks: x right, y down, z towards the camera."""
        right, up, near = rotation_matrix(self.yaw, self.pitch, self.roll)[:, 2]
        return np.array([right, -up, near])


class _Head(NamedTuple):
    mean: Floats
    """(68, 3) centimetres: x to the image's right, y up, z to the camera"""
    modes: Floats
    """(m, 68, 3) each times a standard normal number"""
    rest: Floats
    """(68,) deviation of what the modes leave, centimetres"""


def head_pose(
    points: ArrayLike,
    covariance: ArrayLike | None = None,
    visibility: ArrayLike | None = None,
    other_convention: bool = False,
) -> HeadPose:
    """The pose of a head from its 68 landmarks.

    `points` (68, 2) image pixels, NaN where unknown; `covariance` (68, 2, 2) pixels squared;
    `visibility` (68,) probabilities. Without covariance all landmarks count alike (the
    unweighted pose); the spread of the residuals then tells how sure the pose is.
    `other_convention`: the landmarks were labelled, or learnt from labels, by other rules than the
    mean head's own; the covariance leaves room for that (FACTOR, PITCH_CONVENTION).
    """
    places = np.asarray(points, dtype=np.float64)
    if places.shape != (68, 2):
        raise InputError(f"head pose needs 68 points of shape (68, 2), got {places.shape}.")
    weight = np.ones(68) if visibility is None else np.asarray(visibility, dtype=np.float64)
    used = np.isfinite(places).all(axis=1) & (weight > LEAST_VISIBLE)
    if covariance is not None:
        spread = np.asarray(covariance, dtype=np.float64)
        used &= np.isfinite(spread).all(axis=(1, 2))
    if used.sum() < FEWEST:
        return HeadPose(np.nan, np.nan, np.nan, np.full((3, 3), np.nan))
    head = mean_head()
    model, seen = head.mean[used], places[used]
    noise = None
    if covariance is not None:
        noise = spread[used] / weight[used, None, None]
    state = _start(model, seen)
    state, inverse = _fit(head, used, seen, noise, state)
    matrix = state[0]
    angles = euler_angles(matrix)
    jacobian = _angle_jacobian(matrix)
    spread_of_angles = jacobian @ inverse[:3, :3] @ jacobian.T
    if other_convention:
        spread_of_angles = spread_of_angles * FACTOR**2
        spread_of_angles[1, 1] += PITCH_CONVENTION**2
    return HeadPose(*angles, spread_of_angles)


PoseClass = Literal["frontal", "half-profile", "profile", "unknown"]


def pose_class(points: ArrayLike) -> PoseClass:
    """The class of pose of 68 points (68, 2), by the place of the nose tip between the outer eye
    corners, where the classes of MERL-RAV part: at about 21 and 43 degrees.

    >>> from luvli.markup import get_markup
    >>> pose_class(get_markup("ibug68").schematic)
    'frontal'
    """
    offset = _nose_offset(np.asarray(points, dtype=np.float64))
    if not np.isfinite(offset):
        return "unknown"
    return "frontal" if offset < 0.47 else "half-profile" if offset < 0.95 else "profile"


def _nose_offset(points: Floats) -> float:
    """How far the nose tip lies from the middle of the outer eye corners, along their line: 0 in
    the middle, 1 at a corner. It grows by about 0.022 for each degree that a head is turned
    (measured on rendered heads)."""
    across = points[45] - points[36]
    share = (points[30] - points[36]) @ across / np.maximum(across @ across, 1e-12)
    return float(np.abs(2 * share - 1))


def rotation_matrix(yaw: float, pitch: float, roll: float) -> Floats:
    """(3, 3) head to camera coordinates (x right, y up, z to the camera); degrees."""
    a, b, c = np.radians([yaw, pitch, roll])
    turn = np.array([[np.cos(a), 0, np.sin(a)], [0, 1, 0], [-np.sin(a), 0, np.cos(a)]])
    nod = np.array([[1, 0, 0], [0, np.cos(b), np.sin(b)], [0, -np.sin(b), np.cos(b)]])
    tilt = np.array([[np.cos(c), np.sin(c), 0], [-np.sin(c), np.cos(c), 0], [0, 0, 1]])
    return np.asarray(tilt @ turn @ nod, np.float64)


def euler_angles(matrix: Floats) -> tuple[float, float, float]:
    """Yaw, pitch and roll in degrees; |pitch| is at most 90, so yaw may pass 90.

    >>> euler_angles(rotation_matrix(100.0, -20.0, 5.0))  # doctest: +ELLIPSIS
    (100.0..., -20.0..., 5.0...)
    """
    yaw = np.arctan2(-matrix[2, 0], np.hypot(matrix[2, 1], matrix[2, 2]))
    turned = matrix[2, 2] < 0 and np.hypot(matrix[0, 0], matrix[1, 0]) > 1e-9
    sign = -1.0 if turned else 1.0
    if turned:
        yaw = np.pi * np.sign(yaw or 1.0) - yaw
    pitch = np.arctan2(-sign * matrix[2, 1], sign * matrix[2, 2])
    roll = np.arctan2(-sign * matrix[1, 0], sign * matrix[0, 0])
    first, second, third = (float(round(np.degrees(angle), 9)) for angle in (yaw, pitch, roll))
    return first, second, third


@cache
def mean_head() -> _Head:
    """The mean ICT head's 68 points, and how people differ from them."""
    path = Path(__file__).with_name("head68.json")
    data = json.loads(path.read_text(encoding="utf-8"))
    return _Head(*(np.array(data[name], dtype=np.float64) for name in ("mean", "modes", "rest")))


# --- the fit ---------------------------------------------------------------------------------

_State = tuple[Floats, Floats]
"""rotation (3, 3), and scale (log pixels per cm), shift x, shift y, nearness (1 / cm)"""


def _start(model: Floats, seen: Floats) -> _State:
    """Scaled orthography in closed form: the best affine map, made a rotation."""
    centre, middle = model.mean(axis=0), seen.mean(axis=0)
    flipped = (seen - middle) * (1, -1)  # y up
    # a little of z's own spread keeps flat sets of points from blowing up the depth
    gram = (model - centre).T @ (model - centre) + 1e-3 * np.eye(3) * len(model)
    affine = np.linalg.solve(gram, (model - centre).T @ flipped).T
    u, size, v = np.linalg.svd(affine, full_matrices=False)
    rows = u @ v
    matrix = np.vstack([rows, np.cross(rows[0], rows[1])])
    scale = float(np.log(size.mean()))
    shift = middle * (1, -1) - np.exp(scale) * (rows @ centre)
    return matrix, np.array([scale, shift[0], shift[1], NEARNESS[0]])


def _project(matrix: Floats, rest: Floats, model: Floats) -> tuple[Floats, Floats, Floats]:
    """Pixels (n, 2) with y up; their derivative by the 7 parameters and by the model's points."""
    scale, near = np.exp(rest[0]), rest[3]
    turned = model @ matrix.T
    factor = 1 / np.maximum(1 - near * turned[:, 2], 0.2)
    flat = scale * turned[:, :2] * factor[:, None]
    by_turned = np.zeros((len(model), 2, 3))
    by_turned[:, 0, 0] = by_turned[:, 1, 1] = scale * factor
    by_turned[:, :, 2] = flat * (near * factor)[:, None]
    # turning by a small vector w moves a point by w x p
    x, y, z = turned.T
    zero = np.zeros_like(x)
    cross = np.stack(
        [np.stack([zero, z, -y], -1), np.stack([-z, zero, x], -1), np.stack([y, -x, zero], -1)], 1
    )
    by_state = np.zeros((len(model), 2, 7))
    by_state[:, :, :3] = by_turned @ cross
    by_state[:, :, 3] = flat
    by_state[:, 0, 4] = by_state[:, 1, 5] = 1.0
    by_state[:, :, 6] = flat * (turned[:, 2] * factor)[:, None]
    return flat + rest[1:3], by_state, by_turned @ matrix


def _fit(
    head: _Head, used: NDArray[np.bool_], seen: Floats, noise: Floats | None, state: _State
) -> tuple[_State, Floats]:
    """Gauss-Newton with damping; the state, and the covariance of its 7 parameters."""
    model = head.mean[used]
    target = seen * (1, -1)
    mirrored = None if noise is None else noise * np.array([[1, -1], [-1, 1]])
    prior = np.zeros((7, 7))
    prior[6, 6] = NEARNESS[1] ** -2
    damping, best = 1e-3, np.inf
    normal = prior
    weights = _weights(head, used, mirrored, state)
    for step in range(STEPS):
        if step in (2, 5, 9):  # the ways people differ turn with the head
            weights, best = _weights(head, used, mirrored, state), np.inf
        flat, by_state, _ = _project(*state, model)
        residual = (target - flat).ravel()
        jacobian = by_state.reshape(-1, 7)
        away = NEARNESS[0] - state[1][3]
        cost = residual @ weights @ residual + away**2 * prior[6, 6]
        normal = jacobian.T @ weights @ jacobian + prior
        gradient = jacobian.T @ weights @ residual
        gradient[6] += away * prior[6, 6]
        damped = normal + damping * np.diag(np.diag(normal))
        move = np.asarray(np.linalg.solve(damped, gradient), np.float64)
        trial = (_turn(move[:3]) @ state[0], state[1] + move[3:])
        trial[1][3] = np.clip(trial[1][3], 0.0, 1 / 25)
        left = (target - _project(*trial, model)[0]).ravel()
        new = left @ weights @ left + (NEARNESS[0] - trial[1][3]) ** 2 * prior[6, 6]
        if new <= cost:
            state, damping = trial, max(damping / 5, 1e-9)
            if abs(best - new) < 1e-9 * max(new, 1e-12) and step > 9:
                break
            best = new
        else:
            damping *= 10
    inverse = np.asarray(np.linalg.inv(normal), np.float64)
    if noise is None:
        free = max(2 * len(seen) - 7, 1)
        inverse = inverse * (residual @ residual / free)
    return state, inverse


def _weights(head: _Head, used: NDArray[np.bool_], noise: Floats | None, state: _State) -> Floats:
    """(2n, 2n) inverse covariance of the residuals: landmarks' own and people's."""
    n = int(used.sum())
    if noise is None:
        return np.eye(2 * n)
    by_model = _project(*state, head.mean[used])[2]
    modes = (by_model @ head.modes[:, used, :, None])[..., 0].reshape(len(head.modes), -1)
    total = modes.T @ modes
    rest = (by_model @ by_model.transpose(0, 2, 1)) * head.rest[used, None, None] ** 2
    own = (1 - SHARED) * noise + rest
    for j in range(n):
        total[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] += own[j]
    together = (_root(noise)[:, None] * _parts()[used, :, None, None]).transpose(0, 2, 1, 3)
    together = together.reshape(2 * n, -1)  # two numbers of each part move all its landmarks
    total += SHARED * together @ together.T
    return np.asarray(np.linalg.inv(total), np.float64)


def _root(covariance: Floats) -> Floats:
    """Symmetric square roots of (n, 2, 2): they turn with the image, as covariances do."""
    size, way = np.linalg.eigh(covariance)
    return np.asarray((way * np.sqrt(np.maximum(size, 0.0))[:, None]) @ way.transpose(0, 2, 1))


@cache
def _parts() -> Floats:
    """(68, parts) 1 where a landmark belongs to a part of the face."""
    groups = get_markup("ibug68").groups
    member = np.zeros((68, len(groups)))
    for column, group in enumerate(groups.values()):
        member[list(group), column] = 1.0
    return member


def _turn(vector: Floats) -> Floats:
    """Rotation matrix of a rotation vector in radians (Rodrigues)."""
    angle = float(np.linalg.norm(vector))
    if angle < 1e-12:
        return np.eye(3)
    x, y, z = vector / angle
    skew = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.asarray(np.eye(3) + np.sin(angle) * skew + (1 - np.cos(angle)) * skew @ skew)


def _angle_jacobian(matrix: Floats) -> Floats:
    """(3, 3) change of yaw, pitch and roll in degrees by a small rotation vector in radians."""
    step = 1e-5
    columns = []
    for axis in np.eye(3):
        plus = np.array(euler_angles(_turn(step * axis) @ matrix))
        minus = np.array(euler_angles(_turn(-step * axis) @ matrix))
        columns.append(((plus - minus + 180) % 360 - 180) / (2 * step))
    return np.stack(columns, axis=1)
