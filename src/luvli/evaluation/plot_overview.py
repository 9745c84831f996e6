"""Figure 2 of the paper: what is computed from what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luvli.evaluation.plots import BLUE, GREEN, ORANGE, PURPLE, SKY, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_overview() -> Figure:
    """One U-net with its three heads, and the loss that ties them together.

    Boxes are computations, the words beside the arrows are what passes along them.
    """
    with new_figure(size=(9.5, 4.6)) as (figure, axes):
        axis = axes[0, 0]
        axis.set(xlim=(0, 100), ylim=(0, 50))
        axis.axis("off")
        _box(axis, 2, 21, 12, 10, "face crop\n256 x 256", "#dddddd")
        _box(axis, 24, 19, 16, 14, "U-net i\nof 8", SKY)
        _box(axis, 54, 36, 16, 8, "mean estimator", ORANGE)
        _box(axis, 54, 21, 16, 8, "CEN", GREEN)
        _box(axis, 54, 6, 16, 8, "VEN", PURPLE)
        _box(axis, 84, 19, 14, 14, "LUVLi loss", BLUE, "white")
        _arrow(axis, (14, 26), (24, 26))
        _arrow(axis, (40, 30), (54, 40), "heat maps")
        _arrow(axis, (40, 26), (54, 25), "bottleneck")
        _arrow(axis, (40, 23), (54, 10), "bottleneck")
        _arrow(axis, (70, 40), (84, 31), r"location $\mu_{ij}$")
        _arrow(axis, (70, 25), (84, 26), r"covariance $\Sigma_{ij}$")
        _arrow(axis, (70, 10), (84, 21), r"visibility $\hat v_{ij}$")
        axis.text(91, 41, r"label $p_j$, $v_j$", ha="center")
        _arrow(axis, (91, 40), (91, 33))
        axis.text(32, 8, "CEN and VEN are shared\nby all U-nets", ha="center", fontsize=9)
    return figure


def _box(
    axis: Any, x: float, y: float, width: float, height: float, text: str, colour: str,
    ink: str = "black",
) -> None:  # fmt: skip
    from matplotlib.patches import FancyBboxPatch

    shape = FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0.3", fc=colour, ec="#444444")
    axis.add_patch(shape)
    axis.text(x + width / 2, y + height / 2, text, ha="center", va="center", color=ink)


def _arrow(axis: Any, start: tuple[float, float], end: tuple[float, float], text: str = "") -> None:
    axis.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": "#444444"})
    if text:
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        paper = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        axis.text(*middle, text, ha="center", va="center", fontsize=9, bbox=paper)
