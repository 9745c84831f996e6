"""The LUVLi loss: negative log-likelihood of the mixed random variable (eq. 5, 11, 13, 14)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from luvli.errors import InputError, check_choice
from luvli.likelihood import LIKELIHOODS, family
from luvli.likelihood import covariance as cov
from luvli.likelihood.gauss import Gauss
from luvli.likelihood.mixed import Mixed


class Output(Protocol):
    """The part of `luvli.network.UNetOutput` that the loss reads, in heat-map pixels."""

    @property
    def mean(self) -> Tensor: ...
    @property
    def cholesky(self) -> Tensor: ...
    @property
    def visibility_logit(self) -> Tensor: ...


class LuvliLoss(NamedTuple):
    """The loss and its parts, averaged over landmarks and batch; parts have one entry per U-net."""

    total: Tensor
    """() sum over U-nets of weight * (log_det + distance + visibility): minimise this"""
    log_det: Tensor
    """(K,) T1"""
    distance: Tensor
    """(K,) T2"""
    visibility: Tensor
    """(K,) cross-entropy of visibility; zero when it is not used"""

    @property
    def location(self) -> Tensor:
        """(K,) T1 + T2: the negative log-likelihood of locations, without its constant."""
        return self.log_det + self.distance


@dataclass(frozen=True)
class LossDifferences:
    """Where the loss of the published code differs from the paper; the defaults are the paper's."""

    log_det_of_all: bool = False
    """T1 of every labelled landmark counts, visible or not"""
    invisible_as: float = 0.0
    """v of invisible landmarks, in the residual and as target of the cross-entropy"""
    det_epsilon: float = 0.0
    """added to the determinant, also inside the inverse"""
    minus_log_3: bool = False
    """T2 of the Laplacian includes the constant -log 3 (but not log 2 pi)"""


PAPER = LossDifferences()
PUBLISHED = LossDifferences(
    log_det_of_all=True, invisible_as=1e-5, det_epsilon=1e-5, minus_log_3=True
)


def luvli_loss(
    outputs: Sequence[Output],
    target_points: Tensor,
    visibility: Tensor,
    *,
    likelihood: str = "laplace",
    use_visibility: bool = True,
    visibility_mask: Tensor | None = None,
    weights: Sequence[float] | None = None,
    label_covariance: Tensor | None = None,
    reference: bool | LossDifferences = False,
) -> LuvliLoss:
    """LUVLi loss of all U-nets.

    target_points (B, N_p, 2): heat-map pixels; anything, NaN included, where not visible.
    visibility (B, N_p): -1 unlabelled (contributes nothing), 0 not visible (contributes its
        visibility term only), above 0 visible, externally occluded ones (2) included. A
        visible landmark whose location is NaN contributes its visibility term only.
    likelihood: "laplace" (eq. 13), "gauss" (eq. 11), or "mse", the ablation with Sigma = I.
    visibility_mask (B, N_p): False where the label has a location but does not tell whether it
        was seen: its visibility term is left out, its location counts.
    weights: lambda_i of eq. 14, one for each U-net, all 1 unless given.
    label_covariance (B, N_p, 2, 2): how unsure the label itself is, in heat-map pixels
        squared. It is added to Sigma: a label with noise is the location plus that noise.
    reference: True for the published code's loss, or a choice of `LossDifferences`.

    Sums are divided by B * N_p (eq. 14), also where landmarks are unlabelled: every label
    then weighs the same, in a fully labelled image or a sparse one, which is what maximum
    likelihood of all observed labels asks for.

    >>> from luvli.network import UNetOutput
    >>> output = UNetOutput(*[torch.zeros(1, 2, *n) for n in ((4, 4), (2,), (3,), (), ())])
    >>> output = output._replace(cholesky=torch.tensor([1.0, 0.0, 1.0]).expand(1, 2, 3))
    >>> target = torch.tensor([[[3.0, 4.0], [torch.nan, torch.nan]]])
    >>> loss = luvli_loss([output], target, torch.tensor([[1, 0]]), likelihood="gauss")
    >>> loss.distance.tolist(), [round(v, 4) for v in loss.visibility.tolist()]
    ([6.25], [0.6931])
    """
    _check(outputs, target_points, visibility, visibility_mask, likelihood)
    if isinstance(reference, bool):
        reference = PUBLISHED if reference else PAPER
    lambdas = unet_weights(weights, len(outputs), target_points)
    labels = _Labels.of(target_points, visibility, visibility_mask, label_covariance)
    terms = [_terms(output, labels, likelihood, reference) for output in outputs]
    log_det, distance, seen = (torch.stack(part) for part in zip(*terms, strict=True))
    if not use_visibility:
        seen = torch.zeros_like(seen)
    total = (lambdas * (log_det + distance + seen)).sum()
    return LuvliLoss(total, log_det, distance, seen)


class OcclusionOutput(Protocol):
    """The part of `luvli.network.UNetOutput` that `occlusion_loss` reads."""

    @property
    def occlusion_logit(self) -> Tensor | None: ...


def occlusion_loss(outputs: Sequence[OcclusionOutput], occluded: Tensor, mask: Tensor) -> Tensor:
    """(K,) cross-entropy of the third head for each U-net.

    occluded (B, N_p): True where something in front of the face covers the landmark.
    mask (B, N_p): False where the label does not tell; those contribute nothing.

    Sums are divided by B * N_p, as in `luvli_loss`: the classes keep their true shares, so that
    the head's probabilities are probabilities.
    """
    terms = []
    for output in outputs:
        if output.occlusion_logit is None:
            raise InputError("this network has no occlusion head: set network.occlusion to true.")
        logit = output.occlusion_logit
        entropy = binary_cross_entropy_with_logits(logit, occluded.to(logit), reduction="none")
        terms.append(_mean(entropy, mask))
    return torch.stack(terms)


class _Labels(NamedTuple):
    points: Tensor
    """no NaN"""
    labelled: Tensor
    visible: Tensor
    located: Tensor
    with_visibility: Tensor
    """where the visibility term counts"""
    covariance: Tensor | None

    @classmethod
    def of(
        cls, points: Tensor, visibility: Tensor, mask: Tensor | None, covariance: Tensor | None
    ) -> _Labels:
        labelled, visible = visibility >= 0, visibility > 0
        finite = torch.isfinite(points).all(-1)
        clean = torch.where(finite[..., None], points, torch.zeros_like(points))
        counted = labelled if mask is None else labelled & mask
        return cls(clean, labelled, visible, visible & finite, counted, covariance)


def _terms(
    output: Output, labels: _Labels, likelihood: str, differences: LossDifferences
) -> tuple[Tensor, Tensor, Tensor]:
    """T1, T2 and visibility term of one U-net, each a mean over batch and landmarks."""
    kind = Gauss if likelihood == "mse" else family(likelihood)
    identity = output.cholesky.new_tensor([1.0, 0.0, 1.0])
    cholesky = output.cholesky
    if likelihood == "mse":
        cholesky = identity.expand_as(cholesky)
    elif labels.covariance is not None:
        cholesky = cov.to_cholesky(cov.from_cholesky(cholesky) + labels.covariance)
    # What does not count is replaced before the arithmetic: a mask on the result would
    # still let 0 * NaN into the gradient.
    with_log_det = labels.labelled if differences.log_det_of_all else labels.located
    cholesky = torch.where(with_log_det[..., None], cholesky, identity)
    residual = torch.where(labels.located[..., None], output.mean - labels.points, 0.0)
    with_distance = labels.located
    if differences.invisible_as:
        faint = labels.labelled & ~labels.located
        shadow = differences.invisible_as * (output.mean - labels.points)
        residual = torch.where(faint[..., None], shadow, residual)
        with_distance = labels.labelled

    location = kind(torch.zeros_like(residual), cholesky)
    if differences.det_epsilon and likelihood != "mse":
        log_det, radius = _with_epsilon(residual, cholesky, differences.det_epsilon)
    else:
        log_det, radius = location.log_det_term(), location.mahalanobis(residual)
    distance = location.radius_energy(radius)
    if differences.minus_log_3 and likelihood == "laplace":
        distance = distance - log(3.0)

    landmark = Mixed(location, output.visibility_logit)
    cross_entropy = -landmark.visibility_log_prob(labels.visible)
    if differences.invisible_as:  # the target is not quite zero, so a little of the other side
        other = -landmark.visibility_log_prob(~labels.visible)
        blend = cross_entropy + differences.invisible_as * (other - cross_entropy)
        cross_entropy = torch.where(labels.visible, cross_entropy, blend)
    return (
        _mean(log_det, with_log_det),
        _mean(distance, with_distance),
        _mean(cross_entropy, labels.with_visibility),
    )


def _with_epsilon(residual: Tensor, cholesky: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Half log-determinant and radius as the published code has them: det + epsilon in both."""
    sigma = cov.from_cholesky(cholesky)
    det = cov.determinant(sigma) + epsilon
    x, y = residual[..., 0], residual[..., 1]
    adjugate = sigma[..., 1, 1] * x * x - 2 * sigma[..., 0, 1] * x * y + sigma[..., 0, 0] * y * y
    square = adjugate / det
    positive = square > 0
    radius = torch.where(positive, torch.where(positive, square, 1.0).sqrt(), 0.0)
    return 0.5 * torch.log(det), radius


def _mean(values: Tensor, counted: Tensor) -> Tensor:
    return torch.where(counted, values, 0.0).mean()


def unet_weights(weights: Sequence[float] | None, unets: int, like: Tensor) -> Tensor:
    """lambda_i of eq. 14 as (K,), all 1 unless given, like `like` in type and place."""
    if weights is None:
        return torch.ones(unets, dtype=like.dtype, device=like.device)
    if len(weights) != unets:
        raise InputError(f"weights must have one number per U-net: {unets}, got {len(weights)}.")
    return torch.tensor(list(weights), dtype=like.dtype, device=like.device)


def _check(
    outputs: Sequence[Output],
    points: Tensor,
    visibility: Tensor,
    mask: Tensor | None,
    likelihood: str,
) -> None:
    check_choice("likelihood", likelihood, (*LIKELIHOODS, "mse"))
    if not outputs:
        raise InputError("the loss needs the output of at least one U-net.")
    expected = tuple(outputs[0].mean.shape)
    if tuple(points.shape) != expected or tuple(visibility.shape) != expected[:-1]:
        raise InputError(
            f"target_points and visibility must have shapes {expected} and {expected[:-1]}, "
            f"got {tuple(points.shape)} and {tuple(visibility.shape)}."
        )
    if mask is not None and (mask.dtype != torch.bool or tuple(mask.shape) != expected[:-1]):
        raise InputError(
            f"visibility_mask must be boolean of shape {expected[:-1]}, got {mask.dtype} of "
            f"shape {tuple(mask.shape)}."
        )
