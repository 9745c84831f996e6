"""The figures of the paper and a few more: functions from arrays to a matplotlib Figure.

One style for all of them (`STYLE`), colours that colour-blind readers can tell apart, no
global state: nothing here needs a display.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Floats
from luvli.errors import require
from luvli.evaluation.accuracy import ced
from luvli.evaluation.selective import RankCurve, RiskCoverage
from luvli.evaluation.uncertainty import CoverageCurve, LikelihoodName, MeanEllipses, ResidualBins
from luvli.evaluation.visibility import DetectionCurve, Reliability
from luvli.likelihood import covariance as algebra
from luvli.likelihood import density_name, family
from luvli.markup import markup_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW = (
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#f0e442",
)  # fmt: skip
COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY)
"""Okabe and Ito's palette"""
HEATMAP_PIXELS = "heat-map pixels of the paper"
_PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}  # behind words on lines

STYLE: dict[str, Any] = {
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "legend.edgecolor": "none",
    "legend.framealpha": 0.8,
    "legend.fontsize": 10,
    "figure.facecolor": "white",
    "figure.dpi": 110,
    "savefig.dpi": 150,
}


@contextmanager
def new_figure(
    rows: int = 1, columns: int = 1, size: tuple[float, float] = (5.2, 3.8), **options: Any
) -> Iterator[tuple[Figure, Any]]:
    """A figure in the one style, with `rows` x `columns` axes as a (rows, columns) array."""
    matplotlib = require("matplotlib", "evaluate")
    from matplotlib.figure import Figure as NewFigure

    with matplotlib.rc_context(STYLE):
        figure = NewFigure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
        yield figure, figure.subplots(rows, columns, squeeze=False, **options)


def plain(text: str) -> str:
    """The text as it stands: matplotlib reads what is between two dollars as mathematics."""
    return text.replace("$", r"\$")


def plot_ced(
    errors: Mapping[str, ArrayLike], cutoff: float = 7.0, label: str = "NME box (%)"
) -> Figure:
    """Cumulative error distributions of one or several methods up to `cutoff` percent."""
    with new_figure() as (figure, axes):
        axis = axes[0, 0]
        for (name, values), colour in zip(errors.items(), _cycle(len(errors)), strict=True):
            curve = ced(values)
            x = np.append(curve.nme, max(cutoff, curve.nme[-1]))
            y = np.append(curve.fraction, curve.fraction[-1])
            axis.step(x, y * 100, where="post", color=colour, label=name)
        axis.set(
            xlim=(0, cutoff),
            ylim=(0, 100),
            xlabel=label,
            ylabel="faces with at most this error (%)",
        )
        if len(errors) > 1:
            axis.legend(loc="lower right")
    return figure


def plot_residual(bins: Mapping[str, ResidualBins], unit: str = "of the box, squared") -> Figure:
    """Figure 4: mean squared residual against predicted covariance, one point for each bin."""
    titles = {"xx": "variance of x", "yy": "variance of y", "xy": "covariance of x, y"}
    symbols = {"xx": "\\Sigma_{xx}", "yy": "\\Sigma_{yy}", "xy": "\\Sigma_{xy}"}
    with new_figure(1, 3, (3.7, 3.5)) as (figure, axes):
        for axis, (entry, points) in zip(axes[0], bins.items(), strict=True):
            both = np.concatenate([points.predicted, points.observed, [0.0]])
            low, high = (float(both.min()), float(both.max())) if len(both) > 1 else (0.0, 1.0)
            pad = 0.05 * (high - low)
            line = (low - pad, high + pad)
            axis.plot(line, line, color="black", linewidth=1, zorder=1)
            axis.scatter(
                points.predicted, points.observed, s=18, color=BLUE, alpha=0.75, linewidth=0
            )
            axis.set(xlim=line, ylim=line, aspect="equal", title=titles[entry])
            axis.set_xlabel(f"predicted ${symbols[entry]}$")
            axis.set_ylabel(f"mean residual ${symbols[entry]}$")
            axis.ticklabel_format(style="sci", scilimits=(-2, 3))
            axis.locator_params(nbins=5)
            if np.isfinite(points.pearson):
                axis.text(
                    0.05, 0.93, f"Pearson {points.pearson:.2f}", transform=axis.transAxes,
                    va="top",
                )  # fmt: skip
        held = np.concatenate([p.landmarks for p in bins.values()])
        count = int(np.median(held)) if len(held) else 0
        figure.suptitle(f"{count} landmarks in each bin; in units {unit}", fontsize=10)
    return figure


def plot_smallest_deviation(deviations: ArrayLike, unit: str = HEATMAP_PIXELS) -> Figure:
    """Figure 5: histogram of the ellipses' short half-axes, square root of the eigenvalue."""
    values = np.asarray(deviations, dtype=np.float64)
    with new_figure(size=(5.2, 3.2)) as (figure, axes):
        axis = axes[0, 0]
        far = 2.0 if unit == HEATMAP_PIXELS else float(np.quantile(values, 0.995))
        edges = np.linspace(0, far, 81)
        axis.hist(values, bins=edges, density=True, color=BLUE)
        beyond = float(np.mean(values > far))
        if unit == HEATMAP_PIXELS:
            axis.axvline(1.0, color="black", linewidth=1, linestyle="--")
            below = f"{np.mean(values < 1) * 100:.1f} % below one heat-map pixel"
            axis.text(
                0.97, 0.95, below, transform=axis.transAxes, va="top", ha="right", bbox=_PAPER
            )
        if beyond >= 0.0005:
            text = f"{beyond * 100:.1f} % beyond this range"
            axis.text(0.97, 0.86, text, transform=axis.transAxes, va="top", ha="right", bbox=_PAPER)
        axis.set(xlim=(0, far), ylabel="density")
        axis.set_xlabel(f"$\\sqrt{{\\lambda_{{min}}}}$ of $\\Sigma$ ({unit})")
    return figure


def plot_rank(curves: Mapping[str, RankCurve], label: str = "NME box (%)") -> Figure:
    """Figure 6: average NME of the faces, sorted by their predicted uncertainty."""
    with new_figure() as (figure, axes):
        axis = axes[0, 0]
        for (name, curve), colour in zip(curves.items(), _cycle(len(curves)), strict=True):
            axis.plot(curve.rank, curve.nme, "o-", color=colour, markersize=4, label=name)
        axis.set(
            xlabel="rank of predicted uncertainty, most certain first", ylabel=f"average {label}"
        )
        axis.set_ylim(bottom=0)
        axis.set_xlim(left=0)
        if len(curves) > 1:
            axis.legend(loc="lower right")
    return figure


def plot_whitened(
    whitened: ArrayLike,
    likelihood: LikelihoodName = "laplace",
    divergence: float | None = None,
    shown: int = 20_000,
    reach: float = 6.0,
) -> Figure:
    """Figure 7: whitened labels, and their marginals over those of the standard density."""
    z = np.asarray(whitened, dtype=np.float64)
    x = np.linspace(-reach, reach, 401)
    edges = np.linspace(-reach, reach, 97)
    marginal = family(likelihood).standard_marginal(x)
    with new_figure(
        2, 2, (2.7, 2.7), gridspec_kw={"width_ratios": [4, 1.3], "height_ratios": [1.3, 4]}
    ) as (figure, axes):
        top, corner, main, side = axes.ravel()
        corner.axis("off")
        sample = z
        if len(z) > shown:
            sample = z[np.random.default_rng(0).choice(len(z), shown, replace=False)]
        main.scatter(*sample.T, s=2, color=BLUE, alpha=0.25, linewidth=0, rasterized=True)
        main.set(
            xlim=(-reach, reach), ylim=(reach, -reach), xlabel="whitened x", ylabel="whitened y"
        )
        weight = np.full(len(z), 1 / (len(z) * (edges[1] - edges[0]))) if len(z) else None
        for axis, column, way in ((top, 0, "vertical"), (side, 1, "horizontal")):
            axis.hist(
                z[:, column], bins=edges, weights=weight, color=ORANGE, orientation=way,
                label="labels",
            )  # fmt: skip
        top.plot(
            x, marginal, color="black", linewidth=1.4, label=f"standard {density_name(likelihood)}"
        )
        side.plot(marginal, x, color="black", linewidth=1.4)
        top.set(xlim=(-reach, reach), xticklabels=[], ylabel="density")
        side.set(ylim=(reach, -reach), yticklabels=[], xlabel="density")
        handles, texts = top.get_legend_handles_labels()
        corner.legend(handles, texts, loc="center", fontsize=9, handlelength=1.2)
        outside = float(np.mean(np.abs(z).max(axis=1) > reach)) if len(z) else 0.0
        words = [] if divergence is None else [f"KL divergence {divergence:.4f} nats"]
        words.append(f"{len(z):,} landmarks, {outside * 100:.1f} % outside")
        figure.suptitle("; ".join(words), fontsize=10)
    return figure


def plot_mean_ellipse(mean: MeanEllipses, sigma: float = 2.0) -> Figure:
    """Figure 8: mean face and log-Euclidean mean ellipses, in inter-ocular distances."""
    with new_figure(size=(5.2, 5.2)) as (figure, axes):
        axis = axes[0, 0]
        draw_ellipses(axis, mean.points, mean.covariance, sigma, BLUE, 1.2)
        axis.scatter(*mean.points.T, s=6, color="black", zorder=3)
        face_axis(axis, outlines(mean.points, mean.covariance, sigma))
        axis.set_title(f"mean of {mean.faces:,} faces; ellipses at {sigma:g} sigma")
    return figure


def plot_individual_ellipses(
    points: ArrayLike,
    covariance: ArrayLike,
    mean: MeanEllipses,
    markup: str | None = None,
    sigma: float = 2.0,
    groups: Sequence[str] = ("jaw", "brows"),
) -> Figure:
    """Figure 9: ellipses of single faces over the mean ones (blue), outer landmarks only.

    `points` (m, k, 2) and `covariance` (m, k, 2, 2) come from `normalized_faces`.
    """
    faces = np.asarray(points, dtype=np.float64)
    spread = np.asarray(covariance, dtype=np.float64)
    parts = markup_for(faces.shape[1], markup).groups
    chosen = [j for group in groups if group in parts for j in parts[group]]
    with new_figure(size=(5.2, 5.2)) as (figure, axes):
        axis = axes[0, 0]
        for i in range(len(faces)):
            colour = COLOURS[1:][i % (len(COLOURS) - 1)]
            draw_ellipses(axis, faces[i, chosen], spread[i, chosen], sigma, colour, 0.8)
        draw_ellipses(axis, mean.points[chosen], mean.covariance[chosen], sigma, BLUE, 2.2)
        every = [(mean.points, mean.covariance), *zip(faces, spread, strict=True)]
        face_axis(axis, np.concatenate([outlines(p[chosen], c[chosen], sigma) for p, c in every]))
        axis.set_title(f"{len(faces)} single faces over the mean of {mean.faces:,} (blue)")
    return figure


def plot_coverage(curves: Mapping[str, CoverageCurve]) -> Figure:
    """How many labels the p-ellipses hold, against p: a calibrated model is on the diagonal."""
    with new_figure(size=(4.4, 4.2)) as (figure, axes):
        axis = axes[0, 0]
        axis.plot((0, 100), (0, 100), color="black", linewidth=1)
        for (name, curve), colour in zip(curves.items(), _cycle(len(curves)), strict=True):
            label = f"{name}: calibration error {curve.error:.3f}"
            axis.plot(curve.wanted * 100, curve.observed * 100, color=colour, label=label)
        axis.text(96, 6, "below the line:\nellipses too small", ha="right", fontsize=9)
        axis.set(
            xlim=(0, 100), ylim=(0, 100), aspect="equal", xlabel="probability of the ellipse (%)",
            ylabel="labels inside (%)",
        )  # fmt: skip
        axis.legend(loc="upper left", fontsize=9)
    return figure


def plot_visibility(
    roc: DetectionCurve, hidden: DetectionCurve, reliability: Reliability
) -> Figure:
    """ROC of "visible", precision-recall of "hidden", and reliability of the probability."""
    with new_figure(1, 3, (3.7, 3.5)) as (figure, axes):
        first, second, third = axes[0]
        first.plot(roc.x, roc.y, color=BLUE)
        first.set(xlabel="hidden called visible", ylabel="visible called visible",
                  title=f"ROC, area {roc.area:.3f}", xlim=(-0.02, 1), ylim=(0, 1.02))  # fmt: skip
        second.step(hidden.x, hidden.y, where="pre", color=BLUE)
        second.set(xlabel="recall of hidden landmarks", ylabel="precision",
                   title=f"average precision {hidden.area:.3f}",
                   xlim=(0, 1.02), ylim=(0, 1.02))  # fmt: skip
        used = reliability.landmarks > 0
        third.plot((0, 1), (0, 1), color="black", linewidth=1)
        size = 20 + 180 * reliability.landmarks[used] / max(reliability.landmarks.max(), 1)
        third.plot(reliability.predicted[used], reliability.observed[used], color=BLUE, linewidth=1)
        third.scatter(reliability.predicted[used], reliability.observed[used], s=size, color=BLUE)
        third.set(xlabel="predicted visibility", ylabel="share that is visible",
                  title=f"calibration error {reliability.error:.3f}",
                  xlim=(-0.05, 1.05), ylim=(-0.05, 1.05))  # fmt: skip
    return figure


def plot_risk_coverage(curves: Mapping[str, RiskCoverage], label: str = "NME box (%)") -> Figure:
    """Mean error of what is kept when the most uncertain predictions are turned away."""
    with new_figure() as (figure, axes):
        axis = axes[0, 0]
        for (name, curve), colour in zip(curves.items(), _cycle(len(curves)), strict=True):
            step = max(1, len(curve.coverage) // 2000)
            x = np.append(curve.coverage[::step], curve.coverage[-1:])
            y = np.append(curve.risk[::step], curve.risk[-1:])
            axis.plot(
                x * 100,
                y,
                color=colour,
                label=f"{name}: AURC {curve.aurc:.2f}, best {curve.best:.2f}",
            )
            if len(curve.risk):
                axis.axhline(curve.risk[-1], color=colour, linewidth=0.8, linestyle=":")
        axis.set(
            xlim=(0, 100), xlabel="predictions kept, most certain first (%)", ylabel=f"mean {label}"
        )
        axis.set_ylim(bottom=0)
        axis.legend(loc="lower right", fontsize=9)
    return figure


def plot_landmark(
    errors: ArrayLike, markup: str | None = None, label: str = "NME box (%)"
) -> Figure:
    """Mean error of each landmark on a drawn face."""
    values = np.asarray(errors, dtype=np.float64)
    chosen = markup_for(len(values), markup)
    with new_figure(size=(5.4, 4.8)) as (figure, axes):
        axis = axes[0, 0]
        for a, b in chosen.edges:
            axis.plot(*chosen.schematic[[a, b]].T, color="#bbbbbb", linewidth=1, zorder=1)
        dots = axis.scatter(
            *chosen.schematic.T, c=values, s=70, cmap="viridis", edgecolor="black", linewidth=0.4,
            vmin=0, zorder=2,
        )  # fmt: skip
        figure.colorbar(dots, ax=axis, label=f"mean {label}", shrink=0.85)
        face_axis(axis, chosen.schematic)
    return figure


def plot_speed(
    error: Mapping[str, float], milliseconds: Mapping[str, float], label: str = "NME box (%)"
) -> Figure:
    """Mean error against time of a face, a dot for each method: down and left is better."""
    with new_figure() as (figure, axes):
        axis = axes[0, 0]
        times = np.array([milliseconds[name] for name in error])
        wide = times.max() > 20 * times.min()  # else a plain axis from 0, which shows the ratio
        left, right = (times.min() / 2, times.max() * 2) if wide else (0.0, 1.25 * times.max())
        middle = np.sqrt(left * right) if wide else right / 2
        for (name, height), time, colour in zip(
            error.items(), times, _cycle(len(error)), strict=True
        ):
            axis.scatter(time, height, s=60, color=colour)
            side = "left" if time < middle else "right"  # a name reaches inwards, over no edge
            axis.annotate(plain(name), (time, height), (0, 8), textcoords="offset points", ha=side)
        axis.set(xlabel="milliseconds for one face", ylabel=f"mean {label}", xlim=(left, right))
        if wide:
            axis.set_xscale("log")
            axis.xaxis.set_major_formatter("{x:g}")
        axis.set_ylim(0, 1.25 * max(error.values()))
    return figure


# --- ellipses ----------------------------------------------------------------------------


def ellipse_outlines(points: Floats, covariance: Floats, sigma: float, steps: int = 40) -> Floats:
    """(k, steps, 2) curves of Mahalanobis distance `sigma` around the points."""
    turn = np.linspace(0, 2 * np.pi, steps)
    circle = np.stack([np.cos(turn), np.sin(turn)])
    root = np.asarray(algebra.square_root(covariance))
    return np.asarray(points[:, None] + sigma * (root @ circle).transpose(0, 2, 1))


def draw_ellipses(
    axis: Axes, points: Floats, covariance: Floats, sigma: float, colour: str, width: float,
    alpha: ArrayLike | None = None,
) -> None:  # fmt: skip
    from matplotlib.collections import LineCollection

    if not len(points):
        return
    lines = ellipse_outlines(points, covariance, sigma)
    axis.add_collection(LineCollection(list(lines), colors=colour, linewidths=width, alpha=alpha))


def outlines(points: Floats, covariance: Floats, sigma: float) -> Floats:
    """Points (m, 2) along all ellipses: what an axis must hold."""
    return np.asarray(ellipse_outlines(points, covariance, sigma)).reshape(-1, 2)


def face_axis(axis: Axes, points: Floats) -> None:
    low, high = points.min(axis=0), points.max(axis=0)
    pad = 0.08 * (high - low).max()
    axis.set_xlim(low[0] - pad, high[0] + pad)
    axis.set_ylim(high[1] + pad, low[1] - pad)  # y points down
    axis.set_aspect("equal")
    axis.grid(False)
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_visible(False)


def _cycle(count: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(count)]
