"""The figures of the paper and a few more, by name: `PLOTS` has a line for each.

A plot is a function of `PlotOptions` and of `LabelledFaces`, or of a list of them if `several`
methods can stand in one figure. What cannot be drawn of the faces raises `NotMeasured`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from luvli.arrays import Floats
from luvli.errors import InputError, unknown_choice
from luvli.evaluation import accuracy, annotators, plot_faces, selective, uncertainty, visibility
from luvli.evaluation.curve import Curve, NotMeasured
from luvli.evaluation.face_metrics import (
    face_radii,
    face_residual_bins,
    face_spread,
    two_classes,
    whitened_kl,
)
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.plot_style import (
    BLUE,
    ORANGE,
    PlotOptions,
    colour,
    corner_text,
    new_figure,
    plain,
)
from luvli.evaluation.table import numbered
from luvli.likelihood import density_name, family

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 20_000
"""dots in the scatter of whitened labels, at most"""
REACH = 6.0
"""standard deviations that it shows"""
CURVE_POINTS = 2000


@dataclass(frozen=True)
class Plot:
    """A figure: what it shows, how it is drawn, its numbers in the paper."""

    title: str
    draw: Callable[[Any, PlotOptions], Figure]
    numbers: tuple[int, ...] = ()
    several: bool = False
    """whether several methods can be shown in one figure"""


def draw_plot(
    name: str, sets: Sequence[LabelledFaces], options: PlotOptions | None = None
) -> Figure:
    """The figure with this name or number in the paper, for one or several methods."""
    key = plot_name(name)
    entry = PLOTS[key]
    if len(sets) > 1 and not entry.several:
        raise InputError(f"figure {key} shows one method: give one file of predictions.")
    names = numbered([plain(faces.method) for faces in sets])
    named = [replace(faces, method=name) for faces, name in zip(sets, names, strict=True)]
    first = named[0] if named else None
    return entry.draw(named if entry.several else first, options or PlotOptions())


def plot_name(name: str) -> str:
    """A figure's name from its name or its number in the paper.

    >>> plot_name("4")
    'residuals'
    """
    for key, entry in PLOTS.items():
        if name.lower() in (key, *map(str, entry.numbers)):
            return key
    raise unknown_choice("figure", name, PLOTS)


# --- curves of one or several methods ----------------------------------------------------


def plot_curves(curves: Mapping[str, Curve], style: str = "-", **axis_options: Any) -> Figure:
    """A line for each curve; `style` "post" makes steps. The rest is for the axis."""
    with new_figure(size=axis_options.pop("size", (5.2, 3.8))) as (figure, (axis,)):
        for i, (name, curve) in enumerate(curves.items()):
            step = max(1, len(curve.x) // CURVE_POINTS)
            x, y = (np.append(side[::step], side[-1:]) for side in (curve.x, curve.y))
            how: dict[str, Any] = {"color": colour(i), "label": name}
            if style == "post":
                axis.step(x, y, where="post", **how)
            else:
                axis.plot(x, y, style, markersize=4, **how)
        axis.set(**axis_options)
        if len(curves) > 1 or ":" in "".join(curves):
            axis.legend(loc="best")
    return figure


def _ced(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    curves = {}
    for faces in sets:
        if not faces.visible.any():
            raise NotMeasured(f"{faces.method} has no visible label.")
        curve = accuracy.ced(faces.nme(options.normalizer))
        end = max(options.cutoff, curve.x[-1])
        y = np.append(curve.y, curve.y[-1]) * 100
        curves[faces.method] = Curve(np.append(curve.x, end), y)
    return plot_curves(
        curves, "post", xlim=(0, options.cutoff), ylim=(0, 100), xlabel=options.label,
        ylabel="faces with at most this error (%)",
    )  # fmt: skip


def _uncertainty(faces: LabelledFaces, options: PlotOptions) -> Floats:
    """(n,) of figure 6: `face_spread`; as published the plain mean of |Sigma|^(1/2) over the
    landmarks, in pixels of the paper's crop where known."""
    if not options.published:
        return face_spread(faces)
    unit = 1.0 if faces.paper_pixel is None else faces.paper_pixel**2
    return np.asarray(uncertainty.spread_root(faces.distribution[1]).mean(axis=1) / unit)


def _rank(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    curves = {
        faces.method: selective.nme_by_rank(
            faces.nme(options.normalizer), _uncertainty(faces, options)
        )
        for faces in sets
    }
    figure = plot_curves(
        curves, "o-", xlabel="rank of predicted uncertainty, most certain first",
        ylabel=f"average {options.label}",
    )  # fmt: skip
    figure.axes[0].set(xlim=(0, None), ylim=(0, None))
    return figure


def _risk(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    curves = {}
    for faces in sets:
        risk = faces.nme(options.normalizer)
        curve = selective.risk_coverage(risk, _uncertainty(faces, options))
        best = selective.risk_coverage(risk, risk).value
        name = f"{faces.method}: AURC {curve.value:.2f}, best {best:.2f}"
        curves[name] = Curve(curve.x * 100, curve.y)
    figure = plot_curves(
        curves, xlim=(0, 100), xlabel="predictions kept, most certain first (%)",
        ylabel=f"mean {options.label}",
    )  # fmt: skip
    figure.axes[0].set_ylim(bottom=0)
    for i, curve in enumerate(curves.values()):
        figure.axes[0].axhline(curve.y[-1], color=colour(i), linewidth=0.8, linestyle=":")
    return figure


def _coverage(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    curves = {}
    for faces in sets:
        curve = uncertainty.coverage_curve(face_radii(faces), faces.likelihood)
        name = f"{faces.method}: calibration error {curve.value:.3f}"
        curves[name] = Curve(curve.x * 100, curve.y * 100)
    figure = plot_curves(
        curves, size=(4.4, 4.2), xlim=(0, 100), ylim=(0, 100), aspect="equal",
        xlabel="probability of the ellipse (%)", ylabel="labels inside (%)",
    )  # fmt: skip
    figure.axes[0].plot((0, 100), (0, 100), color="black", linewidth=1, zorder=1)
    corner_text(figure.axes[0], "below the line:\nellipses too small", y=0.17)
    return figure


# --- one method --------------------------------------------------------------------------


def _residuals(faces: LabelledFaces, options: PlotOptions) -> Figure:
    bins = face_residual_bins(faces, options.per_bin, options.published)
    titles = ("variance of x", "variance of y", "covariance of x, y")
    with new_figure(1, 3, (3.7, 3.5)) as (figure, axes):
        for axis, title, (entry, curve) in zip(axes, titles, bins.items(), strict=True):
            both = np.concatenate([curve.x, curve.y, [0.0]])
            pad = 0.05 * np.ptp(both)
            line = (both.min() - pad, both.max() + pad)
            axis.plot(line, line, color="black", linewidth=1, zorder=1)
            axis.scatter(curve.x, curve.y, s=18, color=BLUE, alpha=0.75, linewidth=0)
            symbol = f"$\\Sigma_{{{entry}}}$"
            axis.set(xlim=line, ylim=line, aspect="equal", title=title,
                     xlabel=f"predicted {symbol}", ylabel=f"mean residual {symbol}")  # fmt: skip
            axis.ticklabel_format(style="sci", scilimits=(-2, 3))
            axis.locator_params(nbins=5)
            if np.isfinite(curve.value):
                corner_text(axis, f"Pearson {curve.value:.2f}", 0.05)
        counts = [n for curve in bins.values() if curve.counts is not None for n in curve.counts]
        figure.suptitle(
            f"{np.median(counts):.0f} landmarks in each bin; in units of the box, squared",
            fontsize=10,
        )
    return figure


def _smallest(faces: LabelledFaces, options: PlotOptions) -> Figure:
    pixel = faces.paper_heatmap_pixel
    values = uncertainty.smallest_deviation(faces.distribution[1], pixel)
    unit = "image pixels" if pixel is None else "heat-map pixels of the paper"
    far = float(np.quantile(values, 0.995)) if pixel is None else 2.0
    with new_figure(size=(5.2, 3.2)) as (figure, (axis,)):
        axis.hist(values, bins=list(np.linspace(0, far, 81)), density=True, color=BLUE)
        notes = [f"{np.mean(values > far) * 100:.1f} % beyond this range"]
        if pixel is not None:
            axis.axvline(1.0, color="black", linewidth=1, linestyle="--")
            notes.append(f"{np.mean(values < 1) * 100:.1f} % below one heat-map pixel")
        corner_text(axis, "\n".join(notes))
        axis.set(xlim=(0, far), ylabel="density",
                 xlabel=f"$\\sqrt{{\\lambda_{{min}}}}$ of $\\Sigma$ ({unit})")  # fmt: skip
    return figure


def _whitened(faces: LabelledFaces, options: PlotOptions) -> Figure:
    """Whitened labels, and their marginals over those of the standard density."""
    z = uncertainty.whitened(*faces.distribution)
    x, edges = np.linspace(-REACH, REACH, 401), np.linspace(-REACH, REACH, 97)
    marginal = family(faces.likelihood).standard_marginal(x)
    ratios = {"width_ratios": [4, 1.3], "height_ratios": [1.3, 4]}
    with new_figure(2, 2, (2.7, 2.7), gridspec_kw=ratios) as (figure, axes):
        top, corner, main, side = axes
        corner.axis("off")
        sample = np.random.default_rng(0).permutation(z)[:SHOWN]
        main.scatter(*sample.T, s=2, color=BLUE, alpha=0.25, linewidth=0, rasterized=True)
        main.set(xlim=(-REACH, REACH), ylim=(REACH, -REACH), xlabel="whitened x",
                 ylabel="whitened y")  # fmt: skip
        weights = np.full(len(z), 1 / (max(len(z), 1) * (edges[1] - edges[0])))
        for axis, column, way in ((top, 0, "vertical"), (side, 1, "horizontal")):
            axis.hist(z[:, column], bins=edges, weights=weights, color=ORANGE, orientation=way,
                      label="labels")  # fmt: skip
        name = density_name(faces.likelihood)
        top.plot(x, marginal, color="black", linewidth=1.4, label=f"standard {name}")
        side.plot(marginal, x, color="black", linewidth=1.4)
        top.set(xlim=(-REACH, REACH), xticklabels=[], ylabel="density")
        side.set(ylim=(REACH, -REACH), yticklabels=[], xlabel="density")
        corner.legend(*top.get_legend_handles_labels(), loc="center", handlelength=1.2)
        outside = float(np.mean(np.abs(z).max(axis=1) > REACH)) if len(z) else 0.0
        figure.suptitle(
            f"KL divergence {whitened_kl(faces):.4f} nats; "
            f"{len(z):,} landmarks, {outside * 100:.1f} % outside",
            fontsize=10,
        )
    return figure


def _visibility(faces: LabelledFaces, options: PlotOptions) -> Figure:
    """ROC of "visible", precision-recall of "hidden", and reliability of the probability."""
    pair = two_classes(faces)
    roc, hidden = visibility.roc(*pair), visibility.precision_recall(*pair, "hidden")
    bins = visibility.visibility_reliability(*pair)
    limits = {"xlim": (-0.05, 1.05), "ylim": (-0.05, 1.05)}
    with new_figure(1, 3, (3.7, 3.5), subplot_kw=limits) as (figure, (first, second, third)):
        first.plot(roc.x, roc.y, color=BLUE)
        first.set(xlabel="hidden called visible", ylabel="visible called visible",
                  title=f"ROC, area {roc.value:.3f}")  # fmt: skip
        second.step(hidden.x, hidden.y, where="pre", color=BLUE)
        second.set(xlabel="recall of hidden landmarks", ylabel="precision",
                   title=f"average precision {hidden.value:.3f}")  # fmt: skip
        third.plot((0, 1), (0, 1), color="black", linewidth=1)
        third.plot(bins.x, bins.y, color=BLUE, linewidth=1)
        if bins.counts is not None and len(bins.counts):
            third.scatter(bins.x, bins.y, s=20 + 180 * bins.counts / bins.counts.max(), color=BLUE)
        third.set(xlabel="predicted visibility", ylabel="share that is visible",
                  title=f"calibration error {bins.value:.3f}")  # fmt: skip
    return figure


def _human(faces: LabelledFaces, options: PlotOptions) -> Figure:
    return annotators.plot_human(annotators.comparison(faces, options.annotators))


PLOTS: dict[str, Plot] = {
    "ced": Plot("Cumulative error distribution", _ced, several=True),
    "landmarks": Plot("Mean error of each landmark", plot_faces.plot_landmarks),
    "residuals": Plot("Squared residuals against covariance", _residuals, (4,)),
    "whitened": Plot("Whitened labels and the standard density", _whitened, (7,)),
    "coverage": Plot("Labels inside the p-ellipse", _coverage, several=True),
    "smallest-eigenvalue": Plot("Short half-axes of the ellipses", _smallest, (5,)),
    "rank": Plot("Average NME against rank of uncertainty", _rank, (6,), several=True),
    "risk-coverage": Plot("Mean error of the most certain faces", _risk, several=True),
    "mean-ellipses": Plot("Mean ellipses of all faces", plot_faces.plot_mean_ellipses, (8,)),
    "individual-ellipses": Plot(
        "Ellipses of single faces over the mean", plot_faces.plot_individual_ellipses, (9,)
    ),
    "human": Plot(
        "Where people put landmarks, and where the model expects them: needs --annotators", _human
    ),
    "visibility": Plot("Predicted visibility", _visibility),
    "faces": Plot("Predictions drawn on images", plot_faces.plot_faces, (1, 10)),
    "overview": Plot(
        "The method: needs no predictions", lambda *_: plot_faces.plot_overview(), (2,)
    ),
    "labels": Plot("Labels by visibility class", plot_faces.plot_labels, (3, 11)),
}
