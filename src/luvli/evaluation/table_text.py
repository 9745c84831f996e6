"""Pieces of text that tables of results are made of."""

from __future__ import annotations

import math
from collections import Counter
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


def probability(value: float | None) -> str:
    """A p-value: four digits, and never 0.

    >>> probability(0.0412), probability(3e-9)
    ('0.0412', '< 0.0001')
    """
    small = value is not None and value < 0.00005
    return "< 0.0001" if small else number(value, 4)


def numbered(names: Sequence[str]) -> list[str]:
    """The names, those that stand more than once with a number behind them.

    >>> numbered(["a", "b", "a"])
    ['a (1)', 'b', 'a (2)']
    """
    counts = Counter(names)
    seen = Counter[str]()
    told = []
    for name in names:
        seen[name] += 1
        told.append(f"{name} ({seen[name]})" if counts[name] > 1 else name)
    return told


def listed_names(names: Sequence[str]) -> str:
    """Names for a sentence: the first few, and how many more."""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more
