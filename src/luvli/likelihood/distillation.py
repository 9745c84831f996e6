"""Learning from a teacher: the loss expected under the teacher's distribution of a landmark.

A teacher says where a landmark is, how sure that is, and how probably it is visible. A student
that minimises E[-log q(v, z)] (eq. 5), with v and z distributed as the teacher says, minimises
the divergence D_KL(teacher || student). Its best answer is the teacher's own mean, covariance
and visibility; what it cannot follow adds to its covariance, as it should.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import pi
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from luvli.errors import InputError
from luvli.likelihood import family
from luvli.likelihood.loss import LuvliLoss, Output, unet_weights

RADII, ANGLES = 6, 16
"""size of the rule for the expectation: exact for a perfect student, and to about a thousandth
where its mean is off by some deviations"""


class Teacher(NamedTuple):
    """What a teacher says about the N_p landmarks of B faces, in heat-map pixels."""

    mean: Tensor
    """(B, N_p, 2)"""
    cholesky: Tensor
    """(B, N_p, 3) L11, L21, L22"""
    visibility: Tensor
    """(B, N_p) probability; 1 everywhere from a teacher that knows nothing of visibility"""


def distillation_loss(
    outputs: Sequence[Output],
    teacher: Teacher,
    *,
    likelihood: str = "laplace",
    use_visibility: bool = True,
    weights: Sequence[float] | None = None,
) -> LuvliLoss:
    """E[LUVLi loss] over landmarks distributed as the teacher says; parts as of `luvli_loss`.

    likelihood: of teacher and student alike.
    weights: lambda_i of eq. 14, one for each U-net, all 1 unless given.

    The location counts with the probability that the teacher sees the landmark; visibility is
    learnt from the probability itself (a soft target).
    """
    expected = tuple(outputs[0].mean.shape) if outputs else ()
    if tuple(teacher.mean.shape) != expected or tuple(teacher.visibility.shape) != expected[:-1]:
        raise InputError(
            f"the teacher's mean must have the student's shape {expected}, "
            f"got {tuple(teacher.mean.shape)}."
        )
    lambdas = unet_weights(weights, len(outputs), teacher.mean)
    points, chances = _expectation_points(teacher, likelihood)
    seen = teacher.visibility
    log_det, distance, visibility = [], [], []
    for output in outputs:
        location = family(likelihood)(output.mean, output.cholesky)
        off = torch.einsum("q,qbn->bn", chances, location.distance_term(points))
        log_det.append((seen * location.log_det_term()).mean())
        distance.append((seen * off).mean())
        logit = output.visibility_logit
        entropy = seen * softplus(-logit) + (1 - seen) * softplus(logit)
        visibility.append(entropy.mean() if use_visibility else entropy.new_zeros(()))
    t1, t2, t3 = (torch.stack(part) for part in (log_det, distance, visibility))
    return LuvliLoss((lambdas * (t1 + t2 + t3)).sum(), t1, t2, t3)


def _expectation_points(teacher: Teacher, likelihood: str) -> tuple[Tensor, Tensor]:
    """Points (Q, B, N_p, 2) and weights (Q,): E[f(z)] = sum of weight * f(point)."""
    nodes, weights = _rule(likelihood)
    u, v = torch.from_numpy(nodes).to(teacher.mean)[:, :, None, None].unbind(1)
    l11, l21, l22 = teacher.cholesky.unbind(-1)
    moved = torch.stack([l11 * u, l21 * u + l22 * v], dim=-1)
    return teacher.mean + moved, torch.from_numpy(weights).to(teacher.mean)


@cache
def _rule(likelihood: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes (Q, 2) and weights (Q,) for a standard member: Gauss-Laguerre in the radius, even
    steps in the angle."""
    radius, chances = family(likelihood).laguerre_rule(RADII)
    angle = (np.arange(ANGLES) + 0.5) * (2 * pi / ANGLES)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    nodes = (radius[:, None, None] * circle).reshape(-1, 2)
    return nodes, np.repeat(chances / ANGLES, ANGLES)
