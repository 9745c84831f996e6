"""Triage with a bound: which faces to accept so that at most a wanted share of them failed.

A face is accepted when its confidence reaches a threshold. Which one is decided by Learn then
Test (Angelopoulos et al. 2021) on labelled calibration faces: thresholds of a grid that was
fixed beforehand are tested from one of them downwards, until one fails, and every threshold
before it, whose failures are too few to come from a failure rate above the wanted one (exact
binomial test), may be used. Where the tests begin is known beforehand too, from the faces
that the confidence was fitted on, which are others: high enough that few failed, low enough that
faces remain to show it. So with the stated probability, 95 % by default, the failure rate among
accepted faces like the calibration faces is at most the wanted one, whatever their number: to
break it, the first threshold that is worse than wanted has to pass its own test by chance.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from luvli.errors import InputError
from luvli.network.model_info import ModelInfo
from luvli.network.trust_tables import TriageTable

GRID = (*(round(float(1 / (1 + math.exp(-x))), 6) for x in np.linspace(7.0, -4.0, 56)), 0.0)
"""thresholds from 0.999 down to 0.018, evenly spaced in their logits, and 0: all faces"""
STARTS = (16, 24)
"""where tests begin in tables that do not tell, confidences of 0.978 and 0.900: two sequences,
each with half of the error probability"""
START_SHARE = 0.35
"""share of the faces that tests begin with, if that is enough for"""
ROOM = 1.3
"""times as many faces as a promise takes that no accepted face fails"""


class Triage(NamedTuple):
    """A threshold and what is known about it."""

    threshold: float
    """accept from this confidence on; infinite when nothing can be promised"""
    accepted: int
    """calibration faces above it"""
    failed: int
    """and failures among them"""
    bound: float
    """the failure rate that is not passed, with the stated confidence (Clopper-Pearson)"""


def fit_triage(
    confidence: ArrayLike,
    failed: ArrayLike,
    spoilt_share: float,
    others: ArrayLike | None = None,
) -> TriageTable:
    """Count accepted and failed calibration faces at each threshold of the grid.

    `confidence` (n,) must come from a model that did not see these faces; `others` (m,) are
    confidences of faces that are not among them, as many of them spoilt, which say where tests
    should begin.
    """
    sure = np.asarray(confidence, dtype=np.float64)
    wrong = np.asarray(failed, dtype=bool)
    if sure.shape != wrong.shape or sure.ndim != 1:
        raise InputError(
            f"confidence and failed must have one shape (n,), got {sure.shape} and {wrong.shape}."
        )
    inside = sure[None] >= np.array(GRID)[:, None]
    return TriageTable(
        thresholds=list(GRID),
        accepted=inside.sum(axis=1).tolist(),
        failed=(inside & wrong).sum(axis=1).tolist(),
        faces=len(sure),
        spoilt_share=round(float(spoilt_share), 4),
        expected=[] if others is None else _shares(others),
    )


def _shares(confidence: ArrayLike) -> list[float]:
    """Share of faces at or above each threshold of the grid."""
    inside = np.asarray(confidence, dtype=np.float64)[None] >= np.array(GRID)[:, None]
    return [round(float(share), 4) for share in inside.mean(axis=1)]


def choose_threshold(
    table: TriageTable, max_failure_rate: float, confidence: float = 0.95
) -> Triage:
    """The lowest threshold that keeps the promise, or one that accepts nothing.

    >>> faces = np.linspace(0, 1, 20_001)
    >>> table = fit_triage(faces, faces < 0.2, 0.2)
    >>> chosen = choose_threshold(table, 0.01)
    >>> bool(0.19 < chosen.threshold < 0.3), chosen.bound <= 0.01
    (True, True)
    """
    if not 0 < max_failure_rate < 1 or not 0 < confidence < 1:
        raise InputError(
            "the largest failure rate and its confidence must lie between 0 and 1, "
            f"got {max_failure_rate} and {confidence}."
        )
    starts = _starts(table, max_failure_rate, confidence)
    risk = (1.0 - confidence) / len(starts)
    passed: list[int] = []
    for start in starts:
        for i in range(start, len(table.thresholds)):
            if binomial_tail(table.failed[i], table.accepted[i], max_failure_rate) > risk:
                break
            passed.append(i)
    if not passed:
        return Triage(math.inf, 0, 0, math.nan)
    best = max(passed)
    accepted, failed = table.accepted[best], table.failed[best]
    bound = min(upper_bound(failed, accepted, 1 - risk), max_failure_rate)
    return Triage(table.thresholds[best], accepted, failed, bound)


def _starts(table: TriageTable, max_failure_rate: float, confidence: float) -> tuple[int, ...]:
    """Places in the grid where tests begin; nothing that the calibration faces did counts."""
    if not table.expected:
        return STARTS
    needed = ROOM * accepted_needed(max_failure_rate, confidence)
    wanted = max(START_SHARE, needed / max(table.faces, 1))
    enough = (i for i, share in enumerate(table.expected) if share >= wanted)
    return (next(enough, len(table.expected) - 1),)


def threshold_of(info: ModelInfo, max_failure_rate: float) -> Triage:
    """The threshold of a calibrated model, or a sentence why there is none."""
    table = info.trust.triage if info.trust is not None else None
    if table is None:
        raise InputError(
            f"the model {info.name} was not calibrated for triage: use luvli calibrate, or leave "
            "--max-failure-rate out."
        )
    chosen = choose_threshold(table, max_failure_rate)
    if math.isinf(chosen.threshold):
        raise InputError(
            f"the model {info.name} cannot promise a failure rate of {max_failure_rate:g}: its "
            f"{table.faces:,} calibration faces do not show it; allow more, or calibrate it on "
            f"more faces (at least {accepted_needed(max_failure_rate):,} accepted ones)."
        )
    return chosen


def accepted_needed(max_failure_rate: float, confidence: float = 0.95) -> int:
    """Accepted calibration faces without any failure that a promise takes at least.

    >>> accepted_needed(0.02), accepted_needed(0.1)
    (149, 29)
    """
    return math.ceil(math.log(1.0 - confidence) / math.log1p(-max_failure_rate))


def binomial_tail(failures: int, n: int, rate: float) -> float:
    """P(at most `failures` of n fail) at this failure rate: the p-value of "more than rate"."""
    if failures >= n:
        return 1.0
    i = np.arange(failures + 1)
    steps = np.log(np.arange(n, n - failures, -1.0)) - np.log(np.arange(1.0, failures + 1))
    choose = np.concatenate([[0.0], np.cumsum(steps)])
    logs = choose + i * math.log(rate) + (n - i) * math.log1p(-rate)
    top = logs.max()
    return float(min(1.0, math.exp(top) * np.exp(logs - top).sum()))


def upper_bound(failures: int, n: int, confidence: float = 0.95) -> float:
    """Clopper-Pearson: the failure rate that is not passed with this confidence.

    >>> round(upper_bound(0, 100), 4)
    0.0295
    """
    if n == 0 or failures >= n:
        return 1.0
    low, high = failures / n, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if binomial_tail(failures, n, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high
