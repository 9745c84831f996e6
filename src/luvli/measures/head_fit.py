"""The fit behind `luvli.measures.head_pose`: Gauss-Newton on 3 angles, scale, shift and distance.

The covariance of the residuals has three parts: the landmarks' own covariances, the errors that
landmarks have in common, and the ways in which people differ from the mean head.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.likelihood.covariance import inverse
from luvli.markup import get_markup
from luvli.measures.correlation import ErrorModel
from luvli.measures.rotation import angle_jacobian, euler_angles, rotation_of_vector

NEARNESS = (1 / 120, 1 / 120)
"""mean and deviation of 1 / distance of the camera, per centimetre, before a face is seen"""
MAX_STEPS = 8
MIN_TURN = 3e-3
"""radians: a smaller step ends the search"""
PART_CORRELATION = 0.3
"""correlation of the errors of two landmarks of one part (jaw, brows, nose, eyes, mouth), each in
units of its own covariance: 0.13 to 0.36 on 300-W, 0.23 to 0.51 on MERL-RAV, measured on held-out
faces. Taken for independent, many landmarks would seem surer of a pose than they are."""


class MeanHead(NamedTuple):
    mean: Floats
    """(68, 3) centimetres: x to the image's right, y up, z to the camera"""
    modes: Floats
    """(m, 68, 3) each times a standard normal number"""
    rest: Floats
    """(68,) deviation of what the modes leave, centimetres"""


@cache
def mean_head() -> MeanHead:
    """The mean ICT head's 68 points, and how people differ from them."""
    path = Path(__file__).with_name("head68.json")
    data = json.loads(path.read_text(encoding="utf-8"))
    return MeanHead(*(np.array(data[name], dtype=np.float64) for name in ("mean", "modes", "rest")))


class _State(NamedTuple):
    rotation: Floats
    """(n, 3, 3) head to camera"""
    rest: Floats
    """(n, 4) log pixels per cm, shift x, shift y (image pixels), nearness (1 / cm)"""


class _Noise(NamedTuple):
    """Covariance of the residuals of n x 68 landmarks: blocks plus a product U U^T of low rank."""

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
        low = self.scaled.swapaxes(1, 2) @ columns
        return np.asarray(columns.swapaxes(1, 2) @ weighted - low.swapaxes(1, 2) @ self.core @ low)


def fit_poses(
    points: Floats, used: NDArray[np.bool_], errors: ErrorModel | None
) -> tuple[Floats, Floats]:
    """(n, 3) angles in degrees and their (n, 3, 3) covariances: Gauss-Newton from a closed form."""
    target = np.where(used[:, :, None], points, 0.0)
    weight = used.astype(np.float64)
    if errors is not None:
        variance = np.where(used, (errors.roots**2).sum(axis=(2, 3)), 0.0)
        weight /= variance + np.median(variance[used])
    state = _start(target, weight)
    noise = _noise(state, used, errors)
    for step in range(MAX_STEPS):
        normal = _normal_equations(state, target, noise)
        move = np.asarray(np.linalg.solve(normal[:, :7, :7], normal[:, :7, 7:]))[:, :, 0]
        state = _moved(state, move)
        if (np.abs(move[:, :3]) < MIN_TURN).all():
            break
        if step == 0:  # the ways in which people differ turn with the head
            noise = _noise(state, used, errors)
    inverse = np.linalg.inv(normal[:, :7, :7])
    if errors is None:
        free = np.maximum(2 * used.sum(axis=1) - 7, 1)
        inverse = inverse * (normal[:, 7, 7] / free)[:, None, None]
    angles = euler_angles(state.rotation)
    jacobian = angle_jacobian(angles)
    return angles, jacobian @ inverse[:, :3, :3] @ jacobian.swapaxes(1, 2)


def _start(target: Floats, weight: Floats) -> _State:
    """Scaled orthography in closed form: the best affine map, made a rotation."""
    head = mean_head().mean
    weight = (weight / weight.sum(axis=1, keepdims=True))[:, :, None]
    centre = (weight * head).sum(axis=1)
    middle = (weight * target).sum(axis=1)
    model = head - centre[:, None]
    pulled = (weight * model).swapaxes(1, 2)
    # a little of z's own spread keeps flat sets of points from blowing up the depth
    gram = pulled @ model + 1e-3 * np.eye(3)
    affine = np.linalg.solve(gram, pulled @ ((target - middle[:, None]) * (1, -1)))
    u, size, v = np.linalg.svd(affine.swapaxes(1, 2), full_matrices=False)
    rows = u @ v
    rotation = np.concatenate([rows, np.cross(rows[:, :1], rows[:, 1:])], axis=1)
    scale = size.mean(axis=1)
    shift = middle - scale[:, None] * (rows @ centre[:, :, None])[:, :, 0] * (1, -1)
    nearness = np.full(len(target), NEARNESS[0])
    return _State(rotation, np.column_stack([np.log(scale), shift, nearness]))


def _moved(state: _State, move: Floats) -> _State:
    """After a step (n, 7): a rotation vector in radians, at most one, and changes of the rest."""
    angle = np.linalg.norm(move[:, :3], axis=1, keepdims=True)
    turn = move[:, :3] / np.maximum(angle, 1.0)
    rest = state.rest + np.clip(move[:, 3:], (-1, -np.inf, -np.inf, -1), (1, np.inf, np.inf, 1))
    rest[:, 3] = np.clip(rest[:, 3], 0.0, 1 / 25)
    return _State(rotation_of_vector(turn) @ state.rotation, rest)


def _project(state: _State) -> tuple[Floats, Floats, Floats, Floats]:
    """The mean head's points turned (n, 68, 3), in pixels before the shift (n, 68, 2), their
    derivatives by the turned points (n, 68, 2, 3), and the factors of perspective (n, 68)."""
    scale, near = np.exp(state.rest[:, :1]), state.rest[:, 3:]
    turned = mean_head().mean @ state.rotation.swapaxes(1, 2)
    factor = 1 / np.maximum(1 - near * turned[:, :, 2], 0.2)
    size = scale * factor
    flat = turned[:, :, :2] * size[:, :, None] * (1, -1)
    by_turned = np.zeros((*turned.shape[:2], 2, 3))
    by_turned[:, :, 0, 0] = size
    by_turned[:, :, 1, 1] = -size
    by_turned[:, :, :, 2] = flat * (near * factor)[:, :, None]
    return turned, flat, by_turned, factor


def _normal_equations(state: _State, target: Floats, noise: _Noise) -> Floats:
    """(n, 8, 8) of the 7 parameters and the residual: J^T W J, J^T W r, and the cost last."""
    n = len(target)
    turned, flat, by_turned, factor = _project(state)
    columns = np.zeros((n, 68, 2, 8))
    # turning by a small vector w moves a point p by w x p
    x, y, z = (turned[:, :, None, i] for i in range(3))
    by_x, by_y, by_z = (by_turned[..., i] for i in range(3))
    columns[..., 0] = y * by_z - z * by_y
    columns[..., 1] = z * by_x - x * by_z
    columns[..., 2] = x * by_y - y * by_x
    columns[..., 3] = flat
    columns[:, :, 0, 4] = columns[:, :, 1, 5] = 1.0
    columns[..., 6] = flat * z * factor[:, :, None]
    columns[..., 7] = target - flat - state.rest[:, None, 1:3]
    normal = noise.products(columns.reshape(n, 136, 8))
    prior = NEARNESS[1] ** -2
    away = NEARNESS[0] - state.rest[:, 3]
    normal[:, 6, 6] += prior
    normal[:, 6, 7] += away * prior
    normal[:, 7, 7] += away**2 * prior
    return normal


def _noise(state: _State, used: NDArray[np.bool_], errors: ErrorModel | None) -> _Noise:
    """Covariance of the residuals: how landmarks err, and how people differ from the mean head."""
    n = len(used)
    counts = used[:, :, None, None]
    if errors is None:
        return _Noise(np.where(counts, np.eye(2), 0.0), np.zeros((n, 136, 1)), np.ones((n, 1, 1)))
    head = mean_head()
    by_head = _project(state)[2] @ state.rotation[:, None]
    modes = by_head @ head.modes.transpose(1, 2, 0)  # (n, 68, 2, m)
    rest = (by_head @ by_head.swapaxes(2, 3)) * head.rest[:, None, None] ** 2
    shared = errors.roots @ errors.factors
    own = errors.roots @ errors.roots - shared @ shared.swapaxes(2, 3) + rest
    factors = np.concatenate([modes, shared], axis=3)
    weight = np.where(counts, inverse(own), 0.0)
    scaled = (weight @ factors).reshape(n, 136, -1)
    gram = factors.reshape(n, 136, -1).swapaxes(1, 2) @ scaled
    return _Noise(weight, scaled, np.linalg.inv(np.eye(gram.shape[1]) + gram))


@cache
def part_factors() -> Floats:
    """(68, 2, r) factors of errors that landmarks of one part of the face have in common."""
    groups = get_markup("ibug68").groups
    factors = np.zeros((68, 2, len(groups), 2))
    for column, group in enumerate(groups.values()):
        factors[list(group), :, column] = np.sqrt(PART_CORRELATION) * np.eye(2)
    return factors.reshape(68, 2, -1)
