"""Rotations of a head: angles in degrees, matrices, rotation vectors.

A head is turned by pitch about x, by yaw about y, then by roll about z. Yaw > 0 turns the face to
its own left, pitch > 0 lifts it, roll > 0 is clockwise as seen in the image. Camera coordinates: x
right, y up, z to the camera.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Floats


def rotation_matrix(yaw: ArrayLike, pitch: ArrayLike, roll: ArrayLike) -> Floats:
    """(..., 3, 3) head to camera coordinates (x right, y up, z to the camera); degrees (...)."""
    a, b, c = (np.radians(np.asarray(angle, dtype=np.float64)) for angle in (yaw, pitch, roll))
    ca, sa, cb, sb, cc, sc = np.cos(a), np.sin(a), np.cos(b), np.sin(b), np.cos(c), np.sin(c)
    entries = [
        cc * ca, sc * cb - cc * sa * sb, sc * sb + cc * sa * cb,
        -sc * ca, cc * cb + sc * sa * sb, cc * sb - sc * sa * cb,
        -sa, -ca * sb, ca * cb,
    ]  # fmt: skip
    return np.stack(np.broadcast_arrays(*entries), axis=-1).reshape(*np.shape(ca), 3, 3)


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


def rotation_of_vector(vectors: Floats) -> Floats:
    """(n, 3, 3) rotation matrices of rotation vectors (n, 3) in radians (Rodrigues)."""
    angle = np.linalg.norm(vectors, axis=1)
    skew = np.zeros((len(vectors), 3, 3))
    x, y, z = (vectors / np.maximum(angle, 1e-12)[:, None]).T
    skew[:, 2, 1], skew[:, 0, 2], skew[:, 1, 0] = x, y, z
    skew -= skew.swapaxes(1, 2)
    sine, cosine = np.sin(angle)[:, None, None], np.cos(angle)[:, None, None]
    return np.asarray(np.eye(3) + sine * skew + (1 - cosine) * skew @ skew)


def angle_jacobian(angles: Floats) -> Floats:
    """(n, 3, 3) change of yaw, pitch and roll in degrees by a small rotation vector in radians.

    Near a yaw of 90 degrees pitch and roll turn about one axis, and neither is known.
    """
    yaw, roll = np.radians(angles[:, 0]), np.radians(angles[:, 2])
    cosine = np.cos(yaw)
    cosine = np.where(np.abs(cosine) < 1e-3, 1e-3, cosine)
    jacobian = np.zeros((len(angles), 3, 3))
    jacobian[:, 0, 0], jacobian[:, 0, 1] = np.sin(roll), np.cos(roll)
    jacobian[:, 1, 0], jacobian[:, 1, 1] = -np.cos(roll) / cosine, np.sin(roll) / cosine
    jacobian[:, 2, 0], jacobian[:, 2, 1] = jacobian[:, 1, :2].T * np.sin(yaw)
    jacobian[:, 2, 2] = -1.0
    return np.degrees(jacobian)
