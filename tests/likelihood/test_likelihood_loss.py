"""The losses against hand-written formulas, their gradients, masks and extremes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from luvli.errors import InputError
from luvli.likelihood import (
    Gauss,
    Laplace,
    LossDifferences,
    Mixed,
    heatmap_loss,
    heatmap_targets,
    luvli_loss,
    occlusion_loss,
)
from luvli.network import UNetOutput

NAN = float("nan")


def outputs(unets: int = 2, seed: int = 0, dtype: Any = torch.float64) -> list[UNetOutput]:
    torch.manual_seed(seed)
    made = []
    for _ in range(unets):
        logit = torch.randn(3, 4, dtype=dtype)
        cholesky = torch.randn(3, 4, 3, dtype=dtype)
        cholesky[..., [0, 2]] = cholesky[..., [0, 2]].abs() + 0.3
        mean = torch.rand(3, 4, 2, dtype=dtype) * 16
        heatmaps = torch.randn(3, 4, 16, 16, dtype=dtype)
        fields = (heatmaps, mean, cholesky, logit)
        heatmaps, mean, cholesky, logit = (f.requires_grad_() for f in fields)
        made.append(UNetOutput(heatmaps, mean, cholesky, logit.sigmoid(), logit))
    return made


POINTS = torch.rand(3, 4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(7)) * 16
VISIBILITY = torch.tensor([[1, 2, 0, -1], [1, 1, 1, 1], [0, 0, -1, -1]])
MISSING = torch.where((VISIBILITY > 0)[..., None], POINTS, NAN)


@pytest.mark.parametrize(("likelihood", "kind"), [("laplace", Laplace), ("gauss", Gauss)])
def test_loss_is_the_negative_log_likelihood_of_the_mixed_variable(
    likelihood: Any, kind: Any
) -> None:
    """Eq. 5 and 14, landmark by landmark, with numpy's distributions."""
    answers = outputs()
    loss = luvli_loss(answers, MISSING, VISIBILITY, likelihood=likelihood, weights=[0.5, 2.0])
    expected = 0.0
    for answer, weight in zip(answers, (0.5, 2.0), strict=True):
        for b in range(3):
            for j in range(4):
                label = int(VISIBILITY[b, j])
                if label < 0:
                    continue
                location = kind(
                    answer.mean[b, j].detach().numpy(), answer.cholesky[b, j].detach().numpy()
                )
                landmark = Mixed.from_probability(
                    location, answer.visibility[b, j].detach().numpy()
                )
                value = -landmark.log_prob(np.array(label > 0), MISSING[b, j].numpy())
                # the paper leaves the density's constant out
                value -= kind.log_constant if label > 0 else 0.0
                expected += weight * float(value) / 12
    assert loss.total.item() == pytest.approx(expected, rel=1e-12)
    assert loss.location.shape == loss.visibility.shape == (2,)


@pytest.mark.parametrize("likelihood", ["laplace", "gauss", "mse"])
@pytest.mark.parametrize("reference", [False, True])
def test_gradcheck(likelihood: Any, reference: bool) -> None:
    answer = outputs(1)[0]

    def total(mean: torch.Tensor, cholesky: torch.Tensor, logit: torch.Tensor) -> torch.Tensor:
        again = UNetOutput(answer.heatmaps, mean, cholesky, logit.sigmoid(), logit)
        return luvli_loss(
            [again], MISSING, VISIBILITY, likelihood=likelihood, reference=reference
        ).total

    inputs = (answer.mean, answer.cholesky, answer.visibility_logit)
    assert torch.autograd.gradcheck(total, inputs)


@pytest.mark.parametrize("likelihood", ["laplace", "gauss", "mse"])
def test_masks_are_exact(likelihood: Any) -> None:
    answer = outputs(1)[0]
    luvli_loss([answer], MISSING, VISIBILITY, likelihood=likelihood).total.backward()
    hidden, unlabelled = VISIBILITY == 0, VISIBILITY < 0
    assert not answer.mean.grad[hidden | unlabelled].any()
    assert answer.cholesky.grad is None or not answer.cholesky.grad[hidden | unlabelled].any()
    assert not answer.visibility_logit.grad[unlabelled].any()
    assert (answer.visibility_logit.grad[~unlabelled] != 0).all()
    assert (answer.mean.grad[VISIBILITY > 0] != 0).all()


def test_what_stands_in_the_place_of_a_missing_location_does_not_matter() -> None:
    answers = outputs()
    junk = torch.where((VISIBILITY > 0)[..., None], POINTS, 1e30)
    a = luvli_loss(answers, MISSING, VISIBILITY)
    b = luvli_loss(answers, junk, VISIBILITY)
    assert a.total == b.total


def test_visible_without_a_location_contributes_its_visibility_only() -> None:
    answer = outputs(1)[0]
    points = POINTS.clone()
    points[1, 2] = NAN
    loss = luvli_loss([answer], points, torch.ones(3, 4))
    loss.total.backward()
    assert not answer.mean.grad[1, 2].any()
    assert answer.visibility_logit.grad[1, 2] < 0
    assert torch.isfinite(loss.total)


def test_without_visibility() -> None:
    answer = outputs(1)[0]
    loss = luvli_loss([answer], MISSING, VISIBILITY, use_visibility=False)
    loss.total.backward()
    assert loss.visibility.tolist() == [0.0]
    assert answer.visibility_logit.grad is None or not answer.visibility_logit.grad.any()


def test_labels_without_visibility_lose_that_term_only() -> None:
    """The visibility term by hand: cross-entropy of the landmarks that the mask leaves."""
    answers = outputs()
    mask = torch.tensor([[True, False, True, True], [False] * 4, [True, False, True, False]])
    plain = luvli_loss(answers, MISSING, VISIBILITY)
    masked = luvli_loss(answers, MISSING, VISIBILITY, visibility_mask=mask)
    assert torch.equal(masked.location, plain.location)
    for unet, answer in enumerate(answers):
        probability = answer.visibility.detach().numpy()
        # what is labelled and in the mask: [0, 0] visible, [0, 2] and [2, 0] hidden
        terms = -np.log([probability[0, 0], 1 - probability[0, 2], 1 - probability[2, 0]])
        assert masked.visibility[unet].item() == pytest.approx(terms.sum() / 12, rel=1e-12)
    masked.total.backward()
    assert not answers[0].visibility_logit.grad[~mask].any()
    assert (answers[0].mean.grad[VISIBILITY > 0] != 0).all()
    everywhere = torch.ones(3, 4, dtype=torch.bool)
    assert luvli_loss(answers, MISSING, VISIBILITY, visibility_mask=everywhere).total == plain.total
    with pytest.raises(InputError, match="visibility_mask must be boolean"):
        luvli_loss(answers, MISSING, VISIBILITY, visibility_mask=everywhere.float())


def test_occlusion_by_hand() -> None:
    covered = torch.tensor([[True, False, False, True]] * 3)
    mask = torch.tensor([[True, True, False, False], [False] * 4, [True, False, True, False]])
    answers = []
    for answer in outputs():
        logit = torch.randn(3, 4, dtype=torch.float64).requires_grad_()
        answers.append(answer._replace(occlusion_logit=logit))
    loss = occlusion_loss(answers, covered, mask)
    for unet, answer in enumerate(answers):
        p = answer.occlusion_logit.detach().sigmoid().numpy()
        terms = -np.log([p[0, 0], 1 - p[0, 1], p[2, 0], 1 - p[2, 2]])
        assert loss[unet].item() == pytest.approx(terms.sum() / 12, rel=1e-12)
    loss.sum().backward()
    assert not answers[0].occlusion_logit.grad[~mask].any()
    assert (answers[0].occlusion_logit.grad[mask] != 0).all()
    with pytest.raises(InputError, match=r"network\.occlusion"):
        occlusion_loss(outputs(), covered, mask)


def test_mse_is_half_the_squared_distance() -> None:
    answer = outputs(1)[0]
    loss = luvli_loss([answer], POINTS, torch.ones(3, 4), likelihood="mse", use_visibility=False)
    expected = (answer.mean - POINTS).square().sum(-1).mean() / 2
    torch.testing.assert_close(loss.total, expected)


def test_label_covariance_is_added_to_sigma() -> None:
    answer = outputs(1)[0]
    label = torch.tensor([[0.5, 0.2], [0.2, 0.3]], dtype=torch.float64).expand(3, 4, 2, 2)
    loss = luvli_loss(
        [answer], POINTS, torch.ones(3, 4), likelihood="gauss", label_covariance=label
    )
    l11, l21, l22 = answer.cholesky.detach().unbind(-1)
    zero = torch.zeros_like(l11)
    lower = torch.stack([torch.stack([l11, zero], -1), torch.stack([l21, l22], -1)], -2)
    normal = torch.distributions.MultivariateNormal(answer.mean, lower @ lower.mT + label)
    expected = -normal.log_prob(POINTS).mean() - np.log(2 * np.pi)
    torch.testing.assert_close(loss.location[0], expected)


@pytest.mark.parametrize("likelihood", ["laplace", "gauss", "mse"])
@pytest.mark.parametrize("logit", [-1e4, 1e4])
@pytest.mark.parametrize("scale", [0.02, 1e3])
@pytest.mark.parametrize("distance", [0.0, 1e-20, 1e4])
def test_extremes_stay_finite_in_float32(
    likelihood: Any, logit: float, scale: float, distance: float
) -> None:
    mean = torch.full((1, 2, 2), distance, requires_grad=True)
    cholesky = torch.tensor([scale, 100.0, scale]).expand(1, 2, 3).clone().requires_grad_()
    logits = torch.full((1, 2), logit, requires_grad=True)
    answer = UNetOutput(torch.zeros(1, 2, 4, 4), mean, cholesky, logits.sigmoid(), logits)
    target = torch.tensor([[[0.0, 0.0], [NAN, NAN]]])
    loss = luvli_loss([answer], target, torch.tensor([[1, 0]]), likelihood=likelihood)
    loss.total.backward()
    assert torch.isfinite(loss.total)
    for tensor in (mean, cholesky, logits):
        assert tensor.grad is None or torch.isfinite(tensor.grad).all()


def test_each_difference_of_the_published_loss_by_itself() -> None:
    answers = outputs(1)
    paper = luvli_loss(answers, MISSING, VISIBILITY)
    log3 = luvli_loss(answers, MISSING, VISIBILITY, reference=LossDifferences(minus_log_3=True))
    located = (VISIBILITY > 0).sum() / 12
    torch.testing.assert_close(log3.distance, paper.distance - np.log(3) * located)
    unmasked = luvli_loss(
        answers, MISSING, VISIBILITY, reference=LossDifferences(log_det_of_all=True)
    )
    diagonal = answers[0].cholesky[..., [0, 2]].log().sum(-1)
    torch.testing.assert_close(unmasked.log_det[0], diagonal[VISIBILITY >= 0].sum() / 12)
    assert unmasked.distance == paper.distance
    epsilon = luvli_loss(answers, MISSING, VISIBILITY, reference=LossDifferences(det_epsilon=1e-5))
    assert epsilon.log_det > paper.log_det
    assert epsilon.visibility == paper.visibility
    faint = luvli_loss(answers, MISSING, VISIBILITY, reference=LossDifferences(invisible_as=1e-5))
    assert faint.visibility != paper.visibility


def test_wrong_arguments_are_named() -> None:
    answers = outputs()
    with pytest.raises(InputError, match="laplace, gauss, mse"):
        luvli_loss(answers, POINTS, VISIBILITY, likelihood="l1")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="one number per U-net: 2, got 3"):
        luvli_loss(answers, POINTS, VISIBILITY, weights=[1, 1, 1])
    with pytest.raises(InputError, match=r"\(3, 4, 2\) and \(3, 4\)"):
        luvli_loss(answers, POINTS[:, :3], VISIBILITY)
    with pytest.raises(InputError, match="at least one"):
        luvli_loss([], POINTS, VISIBILITY)


# -- heat maps ---------------------------------------------------------------------------------


def test_heatmap_targets_peak_where_the_point_is() -> None:
    points = torch.tensor([[5.3, 9.8], [NAN, NAN], [-2.0, 4.0]])
    maps = heatmap_targets(points, 16, sigma=1.5)
    y, x = 9, 6
    assert maps[0, y, x] == pytest.approx(np.exp(-(0.7**2 + 0.8**2) / (2 * 1.5**2)))
    assert not maps[1].any()
    assert maps[2].argmax() == 4 * 16  # a point outside still shows at the border


def published_target(point: tuple[float, float], size: int) -> np.ndarray:
    """The published routine's rules, written as loops."""
    image = np.zeros((size, size))
    if point[0] <= 0 or point[1] <= 0:
        return image
    left, top = int(point[0] - 3), int(point[1] - 3)
    right, bottom = int(point[0] + 4), int(point[1] + 4)
    for y in range(max(0, top), min(size, bottom)):
        for x in range(max(0, left), min(size, right)):
            image[y, x] = np.exp(-((x - left - 3) ** 2 + (y - top - 3) ** 2) / 9)
    return image


def test_published_heatmap_targets(rng: np.random.Generator) -> None:
    points = rng.uniform(-5, 25, size=(200, 2))
    ours = heatmap_targets(torch.from_numpy(points), 20, reference=True)
    expected = np.stack([published_target((x, y), 20) for x, y in points])
    np.testing.assert_allclose(ours, expected, atol=1e-12)


def test_heatmap_loss_counts_visible_maps_only() -> None:
    answers = outputs()
    loss = heatmap_loss(answers, MISSING, VISIBILITY, weights=[1.0, 0.5])
    visible = VISIBILITY > 0
    targets = heatmap_targets(POINTS, 16)
    expected = sum(
        weight * (a.heatmaps - targets)[visible].square().sum() / a.heatmaps.numel()
        for a, weight in zip(answers, (1.0, 0.5), strict=True)
    )
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert not answers[0].heatmaps.grad[~visible].any()


def test_published_heatmap_loss_counts_all_maps() -> None:
    answers = outputs()
    loss = heatmap_loss(answers, POINTS, VISIBILITY, reference=True)
    targets = heatmap_targets(POINTS, 16, reference=True)
    expected = sum((a.heatmaps - targets).square().mean() for a in answers)
    torch.testing.assert_close(loss, expected)
