"""Pieces of text that tables of results are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from luvli.evaluation.metric_records import Interval

NAMES_SHOWN = 20
NORMALIZER_TITLES = {
    "box": "NME box", "interocular": "NME inter-ocular", "interpupil": "NME inter-pupil",
    "diagonal": "NME diagonal", "box_size": "NME box_size",
}  # fmt: skip
"""normaliser -> what a table calls the error"""


@dataclass(frozen=True)
class TextTable:
    """A table with its heading and a sentence that says how to read it."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def number(value: float | None, digits: int = 2) -> str:
    """A number with fixed digits; a dash for nothing.

    >>> number(3.14159), number(None), number(math.nan)
    ('3.14', '-', '-')
    """
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def interval(values: Interval, digits: int = 2) -> str:
    """A number with its interval in brackets."""
    text = number(values.value, digits)
    if not math.isfinite(values.low):
        return text
    return f"{text} [{number(values.low, digits)}, {number(values.high, digits)}]"


def listed_names(names: Sequence[str]) -> str:
    """Names for a sentence: the first few, and how many more."""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more
