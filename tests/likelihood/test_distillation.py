"""Learning from a teacher: against the closed form, a fine rule, and where its minimum must lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from luvli.errors import InputError
from luvli.likelihood import Teacher, distillation_loss, family, luvli_loss
from luvli.network import UNetOutput

SHAPE = (3, 4)


def teacher(seed: int = 0) -> Teacher:
    generator = torch.Generator().manual_seed(seed)
    cholesky = torch.randn(*SHAPE, 3, generator=generator, dtype=torch.float64)
    cholesky[..., [0, 2]] = cholesky[..., [0, 2]].abs() + 0.4
    mean = torch.rand(*SHAPE, 2, generator=generator, dtype=torch.float64) * 16
    visibility = torch.rand(SHAPE, generator=generator, dtype=torch.float64)
    return Teacher(mean, cholesky, visibility)


def student(of: Teacher) -> UNetOutput:
    logit = of.visibility.logit()
    fields = [part.clone().requires_grad_() for part in (of.mean, of.cholesky, logit)]
    mean, cholesky, logit = fields
    return UNetOutput(torch.zeros(*SHAPE, 4, 4), mean, cholesky, logit.sigmoid(), logit)


@pytest.mark.parametrize("likelihood", ["laplace", "gauss"])
def test_it_is_the_cross_entropy_of_teacher_and_student(
    likelihood: Any, rng: np.random.Generator
) -> None:
    """In closed form for the Gaussian; from samples for the Laplacian."""
    known, other = teacher(0), student(teacher(1))._replace(mean=teacher(0).mean + 0.7)
    loss = distillation_loss([other], known, likelihood=likelihood)
    kind = family(likelihood)
    truth = kind(known.mean.numpy(), known.cholesky.numpy())
    guess = kind(other.mean.numpy(), other.cholesky.detach().numpy())
    if likelihood == "gauss":
        cross_entropy, tolerance = truth.kl_divergence(guess) + truth.entropy(), 1e-10
    else:
        cross_entropy, tolerance = -guess.log_prob(truth.sample(20_000, rng)).mean(0), 1e-2
    expected = cross_entropy - kind.log_constant  # the losses leave it out
    weight = known.visibility.numpy()
    assert loss.location.item() == pytest.approx(float(np.mean(weight * expected)), rel=tolerance)
    p, q = weight, other.visibility.detach().numpy()
    entropy = -(p * np.log(q) + (1 - p) * np.log(1 - q)).mean()
    assert loss.visibility.item() == pytest.approx(float(entropy), rel=1e-12)


@pytest.mark.parametrize("likelihood", ["laplace", "gauss"])
def test_the_best_student_says_what_its_teacher_says(likelihood: Any) -> None:
    known = teacher()
    perfect = student(known)
    best = distillation_loss([perfect], known, likelihood=likelihood)
    best.total.backward()
    for part in (perfect.mean, perfect.cholesky, perfect.visibility_logit):
        assert part.grad is not None
        assert part.grad.abs().max() < 1e-12
    for change in (1.1, 0.9):
        worse = perfect._replace(cholesky=perfect.cholesky * change)
        assert distillation_loss([worse], known, likelihood=likelihood).total > best.total
    moved = perfect._replace(mean=perfect.mean + 0.1)
    assert distillation_loss([moved], known, likelihood=likelihood).total > best.total


def test_a_teacher_without_doubt_is_a_label() -> None:
    known = teacher()
    exact = known._replace(cholesky=known.cholesky * 1e-9, visibility=torch.ones(SHAPE).double())
    answers = [student(teacher(seed)) for seed in (1, 2)]
    taught = distillation_loss(answers, exact, weights=[0.5, 2.0])
    labelled = luvli_loss(answers, exact.mean, torch.ones(SHAPE), weights=[0.5, 2.0])
    assert taught.total.item() == pytest.approx(labelled.total.item(), rel=1e-6)
    silent = distillation_loss(answers, exact, use_visibility=False)
    assert silent.visibility.tolist() == [0.0, 0.0]


def test_another_number_of_landmarks_is_refused() -> None:
    known = teacher()
    with pytest.raises(InputError, match="student's shape"):
        distillation_loss([student(known)], known._replace(mean=known.mean[:, :2]))
