"""The one style of all figures.

Colours that colour-blind readers can tell apart; no global state: nothing here needs a display.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luvli.errors import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, RED, PURPLE, SKY = COLOURS = (
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9",
)  # fmt: skip
"""Okabe and Ito's palette"""

STYLE: dict[str, Any] = {
    "font.size": 11, "axes.titlesize": 11, "axes.labelsize": 11, "legend.fontsize": 9,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "axes.axisbelow": True, "grid.color": "#dddddd", "grid.linewidth": 0.6,
    "lines.linewidth": 1.8, "legend.edgecolor": "none", "legend.framealpha": 0.8,
    "figure.facecolor": "white", "figure.titlesize": 10, "figure.dpi": 110, "savefig.dpi": 150,
}  # fmt: skip
ERRORS = "NME box (%)"
"""what an axis of errors is called"""
PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
"""behind words in a figure"""


@dataclass(frozen=True)
class PlotOptions:
    """What can be chosen about a figure."""

    per_bin: int = 734
    published: bool = False
    """bins of figure 4, and a face's uncertainty in figure 6, as in the published code"""
    annotators: Path | None = None
    """file of several people's labels (`luvli.evaluation.annotators`), for the figure human"""
    images: Path | None = None
    """folder to look for images in, if not where the predictions say"""


@contextmanager
def new_figure(
    rows: int = 1, columns: int = 1, size: tuple[float, float] = (5.2, 3.8), **options: Any
) -> Iterator[tuple[Figure, Any]]:
    """A figure in the one style, with `rows` x `columns` axes as a flat array."""
    matplotlib = require("matplotlib", "evaluate")
    from matplotlib.figure import Figure as NewFigure

    with matplotlib.rc_context(STYLE):
        figure = NewFigure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
        yield figure, figure.subplots(rows, columns, squeeze=False, **options).ravel()


def plain(text: str) -> str:
    """The text as it stands: matplotlib reads what is between two dollars as mathematics."""
    return text.replace("$", r"\$")


def colour(number: int) -> str:
    """Of the method with this number."""
    return COLOURS[number % len(COLOURS)]


def corner_text(axis: Axes, text: str, x: float = 0.97, y: float = 0.95) -> None:
    """Words in a corner of an axis (shares of its sides), on white."""
    side = "right" if x > 0.5 else "left"
    axis.text(x, y, text, transform=axis.transAxes, va="top", ha=side, bbox=PAPER)
