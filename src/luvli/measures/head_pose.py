"""Head pose from 68 landmarks: a mean head is turned until its points fall on them.

Every landmark counts by its own covariance and visibility, and people differ from the mean
head: the ways in which they do (`head68.json`: mean points, main modes and remaining spread
of 600 random heads of the ICT FaceKit model, MIT licence, Copyright (c) 2020 USC Institute
for Creative Technologies) enter the covariance of the residuals, and so does that landmarks
of one part of the face err together. What comes out is a pose with the covariance that follows
from all three. All functions work on n faces at once.

Angles are those of `luvli.synthetic`: yaw > 0 turns the face to its own left, pitch > 0 lifts
it, roll > 0 is clockwise as seen in the image. Predicted landmarks follow the conventions of the
people who labelled the training faces; for them pitch 0 is the median of people who look into the
camera (`FRONTAL_PITCH`).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.likelihood.covariance import square_root
from luvli.markup import get_markup

MIN_VISIBILITY = 0.1
"""landmarks whose probability of visibility is lower do not count"""
MIN_LANDMARKS = 12
"""landmarks that a pose needs"""
NEARNESS = (1 / 120, 1 / 120)
"""mean and deviation of 1 / distance of the camera, per centimetre, before a face is seen"""
MAX_STEPS = 20
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


FRONTAL_PITCH = -7.1
"""degrees: the mean head's pitch for predicted landmarks of people who look into the camera. Mean
of luvli-68 (-8.6) and luvli-68-open (-5.6), each the mean of the medians on four sets of frontal
portraits (London -4.6 and -2.4, Canada -8.7 and -6.4, Congress -8.8 and -3.8, SCUT-FBP5500 -12.2
and -9.7; 337 portraits). The mean head's own zero is a head that looks up a little."""


class HeadPose(NamedTuple):
    """Where a head looks, in degrees, and how sure that is: of one face, or of n as arrays."""

    yaw: Any
    """> 0: turned to the person's left; a float, or (n,)"""
    pitch: Any
    """> 0: looking up"""
    roll: Any
    """> 0: tilted clockwise in the image"""
    covariance: Floats
    """(3, 3), or (n, 3, 3), of yaw, pitch and roll, degrees squared"""

    @property
    def deviation(self) -> Floats:
        """(3,) or (n, 3) standard deviations of yaw, pitch and roll in degrees."""
        return np.sqrt(np.diagonal(self.covariance, axis1=-2, axis2=-1))

    @property
    def direction(self) -> Floats:
        """(3,) or (n, 3) unit vector of where the face looks: x right, y down, z towards the
        camera."""
        return rotation_matrix(self.yaw, self.pitch, self.roll)[..., 2] * (1, -1, 1)


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
    """The pose of a head from its 68 landmarks, or of n heads.

    `points` (68, 2) or (n, 68, 2) image pixels, NaN where unknown; `covariance` (..., 68, 2, 2)
    pixels squared; `visibility` (..., 68) probabilities. Without covariance all landmarks count
    alike (the unweighted pose); the spread of the residuals then says how sure the pose is.
    `other_convention`: the landmarks were labelled, or learnt from labels, by other rules than the
    mean head's own; the covariance includes that (FACTOR, PITCH_CONVENTION).
    """
    places = np.asarray(points, dtype=np.float64)
    if places.shape[-2:] != (68, 2) or places.ndim not in (2, 3):
        raise InputError(f"head pose needs 68 points of shape (68, 2), got {places.shape}.")
    single = places.ndim == 2
    places = places.reshape(-1, 68, 2)
    n = len(places)
    weight = np.ones((n, 68))
    if visibility is not None:
        weight = np.asarray(visibility, dtype=np.float64).reshape(n, 68)
    used = np.isfinite(places).all(axis=2) & (weight > MIN_VISIBILITY)
    noise = None
    if covariance is not None:
        noise = np.asarray(covariance, dtype=np.float64).reshape(n, 68, 2, 2)
        used &= np.isfinite(noise).all(axis=(2, 3))
        noise = noise / np.maximum(weight, MIN_VISIBILITY)[:, :, None, None]
    known = used.sum(axis=1) >= MIN_LANDMARKS
    angles, spread = np.full((n, 3), np.nan), np.full((n, 3, 3), np.nan)
    if known.any():
        chosen = None if noise is None else noise[known]
        angles[known], spread[known] = _poses(places[known], used[known], chosen)
    if other_convention:
        spread = spread * FACTOR**2
        spread[:, 1, 1] += PITCH_CONVENTION**2
        angles[:, 1] -= FRONTAL_PITCH
    if single:
        yaw, pitch, roll = angles[0].tolist()
        return HeadPose(yaw, pitch, roll, spread[0])
    return HeadPose(angles[:, 0], angles[:, 1], angles[:, 2], spread)


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


def rotation_matrix(yaw: ArrayLike, pitch: ArrayLike, roll: ArrayLike) -> Floats:
    """(..., 3, 3) head to camera coordinates (x right, y up, z to the camera); degrees (...)."""
    a, b, c = (np.radians(np.asarray(angle, dtype=np.float64)) for angle in (yaw, pitch, roll))
    ca, sa, cb, sb, cc, sc = np.cos(a), np.sin(a), np.cos(b), np.sin(b), np.cos(c), np.sin(c)
    rows = [
        [cc * ca, sc * cb - cc * sa * sb, sc * sb + cc * sa * cb],
        [-sc * ca, cc * cb + sc * sa * sb, cc * sb - sc * sa * cb],
        [-sa, -ca * sb, ca * cb],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def euler_angles(matrix: Floats) -> Floats:
    """(..., 3) yaw, pitch and roll in degrees; |pitch| is at most 90, so yaw may pass 90.

    >>> euler_angles(rotation_matrix(100.0, -20.0, 5.0)).round(6).tolist()
    [100.0, -20.0, 5.0]
    """
    yaw = np.arctan2(-matrix[..., 2, 0], np.hypot(matrix[..., 2, 1], matrix[..., 2, 2]))
    turned = (matrix[..., 2, 2] < 0) & (np.hypot(matrix[..., 0, 0], matrix[..., 1, 0]) > 1e-9)
    sign = np.where(turned, -1.0, 1.0)
    yaw = np.where(turned, np.pi * np.where(yaw < 0, -1.0, 1.0) - yaw, yaw)
    pitch = np.arctan2(-sign * matrix[..., 2, 1], sign * matrix[..., 2, 2])
    roll = np.arctan2(-sign * matrix[..., 1, 0], sign * matrix[..., 0, 0])
    return np.asarray(np.degrees(np.stack([yaw, pitch, roll], axis=-1)))


@cache
def mean_head() -> _Head:
    """The mean ICT head's 68 points, and how people differ from them."""
    path = Path(__file__).with_name("head68.json")
    data = json.loads(path.read_text(encoding="utf-8"))
    return _Head(*(np.array(data[name], dtype=np.float64) for name in ("mean", "modes", "rest")))


# --- the fit ---------------------------------------------------------------------------------


class _State(NamedTuple):
    rotation: Floats
    """(n, 3, 3)"""
    rest: Floats
    """(n, 4) log pixels per cm, shift x, shift y, nearness (1 / cm)"""


class _Noise(NamedTuple):
    """Covariance of the residuals of n x 68 landmarks: blocks plus a product of low rank."""

    inverse: Floats
    """(n, 68, 2, 2) inverse blocks, 0 for landmarks that do not count"""
    scaled: Floats
    """(n, 136, r): the inverse blocks times U"""
    core: Floats
    """(n, r, r): inverse of I + U^T (inverse blocks) U"""

    def products(self, columns: Floats) -> Floats:
        """(n, c, c) Q^T C^-1 Q for columns Q (n, 136, c), by Woodbury's identity."""
        n, _, count = columns.shape
        weighted = (self.inverse @ columns.reshape(n, 68, 2, count)).reshape(columns.shape)
        inner = columns.swapaxes(1, 2) @ weighted
        low = self.scaled.swapaxes(1, 2) @ columns
        return np.asarray(inner - low.swapaxes(1, 2) @ self.core @ low)


def _poses(places: Floats, used: NDArray[np.bool_], noise: Floats | None) -> tuple[Floats, Floats]:
    """(n, 3) angles in degrees and their (n, 3, 3) covariances, Gauss-Newton with damping."""
    n = len(places)
    target = np.where(used[:, :, None], places, 0.0) * (1, -1)  # y up
    mirrored = None
    if noise is not None:
        mirrored = np.where(used[:, :, None, None], noise, np.eye(2)) * [[1, -1], [-1, 1]]
    shared = None if mirrored is None else _shared_errors(mirrored)
    state = _start(target, used)
    damping = np.full(n, 1e-3)
    for step in range(MAX_STEPS):
        if step in (0, 2):  # the ways in which people differ turn with the head
            weights = _noise(state, used, mirrored, shared)
            normal = _normal_equations(state, target, weights)
        hessian, gradient, cost = normal[:, :7, :7], normal[:, :7, 7], normal[:, 7, 7]
        diagonal = np.einsum("nii->ni", hessian) * damping[:, None]
        damped = hessian + diagonal[:, :, None] * np.eye(7)
        move = np.linalg.solve(damped, gradient[:, :, None])[:, :, 0]
        trial = _moved(state, move)
        after = _normal_equations(trial, target, weights)
        better = after[:, 7, 7] <= cost
        gain = np.where(better, cost - after[:, 7, 7], 0.0)
        pick = better[:, None, None]
        state = _State(
            np.where(pick, trial.rotation, state.rotation),
            np.where(better[:, None], trial.rest, state.rest),
        )
        normal = np.where(pick, after, normal)
        damping = np.where(better, np.maximum(damping / 5, 1e-9), damping * 10)
        if step > 2 and (gain < 1e-4 * np.maximum(cost, 1e-9)).all():
            break
    inverse = np.linalg.inv(normal[:, :7, :7])
    if noise is None:
        free = np.maximum(2 * used.sum(axis=1) - 7, 1)
        inverse = inverse * (normal[:, 7, 7] / free)[:, None, None]
    jacobian = _angle_jacobian(state.rotation)
    spread = jacobian @ inverse[:, :3, :3] @ jacobian.swapaxes(1, 2)
    return euler_angles(state.rotation), spread


def _start(target: Floats, used: NDArray[np.bool_]) -> _State:
    """Scaled orthography in closed form: the best affine map, made a rotation."""
    head = mean_head().mean
    count = used.sum(axis=1)[:, None]
    weight = used[:, :, None] / count[:, :, None]
    centre = (weight * head).sum(axis=1)
    middle = (weight * target).sum(axis=1)
    model = (head - centre[:, None]) * used[:, :, None]
    # a little of z's own spread keeps flat sets of points from blowing up the depth
    gram = model.swapaxes(1, 2) @ model + 1e-3 * np.eye(3) * count[:, :, None]
    affine = np.linalg.solve(gram, model.swapaxes(1, 2) @ (target - middle[:, None]))
    u, size, v = np.linalg.svd(affine.swapaxes(1, 2), full_matrices=False)
    rows = u @ v
    rotation = np.concatenate([rows, np.cross(rows[:, :1], rows[:, 1:])], axis=1)
    scale = size.mean(axis=1)
    shift = middle - scale[:, None] * (rows @ centre[:, :, None])[:, :, 0]
    nearness = np.full(len(target), NEARNESS[0])
    return _State(rotation, np.column_stack([np.log(scale), shift, nearness]))


def _moved(state: _State, move: Floats) -> _State:
    rest = state.rest + move[:, 3:]
    rest[:, 3] = np.clip(rest[:, 3], 0.0, 1 / 25)
    return _State(_turn(move[:, :3]) @ state.rotation, rest)


def _project(state: _State) -> tuple[Floats, Floats, Floats, Floats]:
    """The mean head's points turned (n, 68, 3), in pixels (n, 68, 2) with y up, their derivatives
    by the turned points (n, 68, 2, 3), and the factors of perspective (n, 68)."""
    scale, near = np.exp(state.rest[:, :1]), state.rest[:, 3:]
    turned = mean_head().mean @ state.rotation.swapaxes(1, 2)
    factor = 1 / np.maximum(1 - near * turned[:, :, 2], 0.2)
    flat = turned[:, :, :2] * (scale * factor)[:, :, None]
    by_turned = np.zeros((*turned.shape[:2], 2, 3))
    by_turned[:, :, 0, 0] = by_turned[:, :, 1, 1] = scale * factor
    by_turned[:, :, :, 2] = flat * (near * factor)[:, :, None]
    return turned, flat, by_turned, factor


def _normal_equations(state: _State, target: Floats, noise: _Noise) -> Floats:
    """(n, 8, 8) of the 7 parameters and the residual: J^T W J, J^T W r, and the cost last."""
    n = len(target)
    turned, flat, by_turned, factor = _project(state)
    columns = np.zeros((n, 68, 2, 8))
    x, y, z = (turned[:, :, i] for i in range(3))
    cross = np.zeros((n, 68, 3, 3))  # turning by a small vector w moves a point by w x p
    cross[:, :, 0, 1], cross[:, :, 0, 2], cross[:, :, 1, 2] = z, -y, x
    cross[:, :, 1, 0], cross[:, :, 2, 0], cross[:, :, 2, 1] = -z, y, -x
    columns[..., :3] = by_turned @ cross
    columns[..., 3] = flat
    columns[:, :, 0, 4] = columns[:, :, 1, 5] = 1.0
    columns[..., 6] = flat * (z * factor)[:, :, None]
    columns[..., 7] = target - flat - state.rest[:, None, 1:3]
    normal = noise.products(columns.reshape(n, 136, 8))
    prior = NEARNESS[1] ** -2
    away = NEARNESS[0] - state.rest[:, 3]
    normal[:, 6, 6] += prior
    normal[:, 6, 7] += away * prior
    normal[:, 7, 7] += away**2 * prior
    return normal


def _shared_errors(noise: Floats) -> Floats:
    """(n, 68, 2, r) two numbers for each part of the face that move all its landmarks."""
    roots = np.sqrt(SHARED) * square_root(noise)
    shared = roots[:, :, :, None, :] * _parts()[:, None, :, None]
    return np.asarray(shared.reshape(*noise.shape[:3], -1))


def _noise(
    state: _State, used: NDArray[np.bool_], noise: Floats | None, shared: Floats | None
) -> _Noise:
    """Covariance of the residuals: the landmarks' own errors, and how people differ."""
    n = len(used)
    counts = used[:, :, None, None]
    if noise is None or shared is None:
        blocks = np.where(counts, np.eye(2), 0.0)
        none = np.zeros((n, 136, 1))
        return _Noise(blocks, none, np.ones((n, 1, 1)))
    head = mean_head()
    by_model = _project(state)[2] @ state.rotation[:, None]
    modes = by_model @ head.modes.transpose(1, 2, 0)  # (n, 68, 2, m)
    rest = (by_model @ by_model.swapaxes(2, 3)) * head.rest[:, None, None] ** 2
    own = (1 - SHARED) * noise + rest
    factors = np.concatenate([modes, shared], axis=3)
    factors = np.where(counts, factors, 0.0).reshape(n, 136, -1)
    inverse = np.where(counts, np.linalg.inv(own), 0.0)
    scaled = (inverse @ factors.reshape(n, 68, 2, -1)).reshape(factors.shape)
    core = np.linalg.inv(np.eye(factors.shape[2]) + factors.swapaxes(1, 2) @ scaled)
    return _Noise(inverse, scaled, core)


@cache
def _parts() -> Floats:
    """(68, parts) 1 where a landmark belongs to a part of the face."""
    groups = get_markup("ibug68").groups
    member = np.zeros((68, len(groups)))
    for column, group in enumerate(groups.values()):
        member[list(group), column] = 1.0
    return member


def _turn(vectors: Floats) -> Floats:
    """(n, 3, 3) rotation matrices of rotation vectors (n, 3) in radians (Rodrigues)."""
    angle = np.linalg.norm(vectors, axis=1)
    x, y, z = (vectors / np.maximum(angle, 1e-12)[:, None]).T
    zero = np.zeros_like(x)
    skew = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=1).reshape(-1, 3, 3)
    sine, cosine = np.sin(angle)[:, None, None], np.cos(angle)[:, None, None]
    return np.asarray(np.eye(3) + sine * skew + (1 - cosine) * skew @ skew)


def _angle_jacobian(rotation: Floats) -> Floats:
    """(n, 3, 3) change of yaw, pitch and roll in degrees by a small rotation vector in radians."""
    step = 1e-5
    turns = _turn(np.concatenate([step * np.eye(3), -step * np.eye(3)]))  # (6, 3, 3)
    angles = euler_angles(turns @ rotation[:, None])
    change = (angles[:, :3] - angles[:, 3:] + 180) % 360 - 180
    return np.asarray((change / (2 * step)).swapaxes(1, 2))
