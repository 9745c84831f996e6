"""Triage with a bound: which faces to accept so that at most a wanted share of them failed.

A face is accepted when its confidence reaches a threshold, chosen by Learn then Test (Angelopoulos
et al. 2021) on labelled calibration faces: the thresholds of a fixed grid are tested downwards
from a start, until one fails, and every threshold before it may be used. A threshold passes when
the 95 % Clopper-Pearson bound of the failure rate among the accepted faces is at most the wanted
rate, which is the exact binomial test. The start depends only on the rate and on the faces that
the failure model was fitted on, which are others. So with 95 % probability the failure rate among
accepted faces like the calibration faces is at most the wanted one: to break this, the first
threshold that is worse than wanted has to pass its own test by chance.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from luvli.errors import InputError

CONFIDENCE = 0.95
"""probability with which the bound holds"""
START_SHARE = 0.35
"""share of the faces accepted at the start, if that is enough for"""
MARGIN = 1.3
"""times as many faces as a bound takes that no accepted face fails"""


class TriageTable(BaseModel):
    """How many calibration faces are accepted and failed at each threshold of confidence."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    thresholds: list[float]
    """descending"""
    accepted: list[int]
    failed: list[int]
    upper_bound: list[float]
    """of the failure rate among faces accepted at each threshold, with 95 % confidence"""
    expected: list[float]
    """share of the faces that the failure model was fitted on, which are others, above each
    threshold"""
    faces: int
    corrupted_share: float
    """share of corrupted images among them"""


class Threshold(NamedTuple):
    """A threshold of confidence and what is known about it."""

    threshold: float
    """accept from this confidence on; infinite when no threshold keeps the bound"""
    accepted: int = 0
    """calibration faces above it"""
    failed: int = 0
    """failures among them"""
    bound: float = math.nan
    """the failure rate that is not exceeded, with 95 % confidence"""


def choose_threshold(table: TriageTable, max_failure_rate: float) -> Threshold:
    """The lowest threshold that keeps the bound, or an infinite one, which accepts nothing."""
    if not 0 < max_failure_rate < 1:
        raise InputError(
            f"the largest failure rate must lie between 0 and 1, got {max_failure_rate}."
        )
    best = None
    for i in range(_start(table, max_failure_rate), len(table.thresholds)):
        if table.upper_bound[i] > max_failure_rate:
            break
        best = i
    if best is None:
        return Threshold(math.inf)
    return Threshold(
        table.thresholds[best], table.accepted[best], table.failed[best], table.upper_bound[best]
    )


def _start(table: TriageTable, max_failure_rate: float) -> int:
    """Place in the grid where tests begin; the calibration faces have no influence on it."""
    needed = MARGIN * accepted_needed(max_failure_rate)
    share = max(START_SHARE, needed / max(table.faces, 1))
    enough = (i for i, expected in enumerate(table.expected) if expected >= share)
    return next(enough, len(table.expected) - 1)


def accepted_needed(max_failure_rate: float) -> int:
    """Accepted calibration faces without any failure that a bound takes at least.

    >>> accepted_needed(0.02), accepted_needed(0.1)
    (149, 29)
    """
    return math.ceil(math.log(1.0 - CONFIDENCE) / math.log1p(-max_failure_rate))
