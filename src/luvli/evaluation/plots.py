"""The figures of the paper and a few more, by name: `PLOTS` has a line for each.

A plot is a function of `LabelledFaces` and `PlotOptions`; one that shows `several` methods as
curves takes a list of faces. What cannot be drawn of the faces raises `NotMeasured`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from luvli.arrays import Floats
from luvli.errors import InputError, unknown_choice
from luvli.evaluation import accuracy, plot_faces, selective, uncertainty
from luvli.evaluation.accuracy import Curve, NotMeasured
from luvli.evaluation.face_metrics import face_spread
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.plot_style import (
    BLUE,
    ERRORS,
    ORANGE,
    PlotOptions,
    colour,
    corner_text,
    new_figure,
    plain,
)
from luvli.evaluation.table import numbered
from luvli.likelihood import density_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 20_000
"""dots in the scatter of whitened labels, at most"""
REACH = 6.0
"""standard deviations that it shows"""
CED_END = 10.0
"""percent: where the cumulative error distribution ends"""


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


def curves(
    title: str,
    curve_of: Callable[[LabelledFaces, PlotOptions], tuple[str, Curve]],
    style: str = "-",
    drawstyle: Any = "default",
    numbers: tuple[int, ...] = (),
    **axis_options: Any,
) -> Plot:
    """A line for each method. `curve_of` gives what the legend says of a method, and the curve."""

    def draw(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
        with new_figure() as (figure, (axis,)):
            for i, faces in enumerate(sets):
                words, curve = curve_of(faces, options)
                label = ": ".join(filter(None, [faces.method, words]))
                line = {"color": colour(i), "drawstyle": drawstyle, "markersize": 4}
                axis.plot(curve.x, curve.y, style, label=label, **line)
            axis.set(**{"ylim": (0, None), "xlim": (0, None)} | axis_options)
            if len(sets) > 1 or words:
                axis.legend(loc="best")
            if "aspect" in axis_options:
                axis.axline((0, 0), (100, 100), color="black", linewidth=1, zorder=1)
                corner_text(axis, "below the line:\nellipses too small", y=0.17)
        return figure

    return Plot(title, draw, numbers, several=True)


def _ced(faces: LabelledFaces, options: PlotOptions) -> tuple[str, Curve]:
    if not faces.visible.any():
        raise NotMeasured(f"{faces.method} has no visible label.")
    x, y, *_ = accuracy.ced(faces.nme())
    return "", Curve(np.append(x, max(CED_END, x[-1])), np.append(y, y[-1]) * 100)


def _uncertainty(faces: LabelledFaces, options: PlotOptions) -> Floats:
    """(n,) of figure 6: `face_spread`; as published the plain mean of |Sigma|^(1/2) over the
    landmarks, in pixels of the paper's crop where known."""
    if not options.published:
        return face_spread(faces)
    unit = 1.0 if faces.paper_pixel is None else faces.paper_pixel**2
    return np.asarray(uncertainty.spread_root(faces.needed("covariance")).mean(axis=1) / unit)


def _rank(faces: LabelledFaces, options: PlotOptions) -> tuple[str, Curve]:
    return "", selective.nme_by_rank(faces.nme(), _uncertainty(faces, options))


def _risk(faces: LabelledFaces, options: PlotOptions) -> tuple[str, Curve]:
    risk = faces.nme()
    curve = selective.risk_coverage(risk, _uncertainty(faces, options))
    best = selective.risk_coverage(risk, risk).value
    return f"AURC {curve.value:.2f}, best {best:.2f}", Curve(curve.x * 100, curve.y)


def _coverage(faces: LabelledFaces, options: PlotOptions) -> tuple[str, Curve]:
    curve = uncertainty.coverage_curve(faces.residuals)
    return f"calibration error {curve.value:.3f}", Curve(curve.x * 100, curve.y * 100)


# --- one method --------------------------------------------------------------------------


def _residuals(faces: LabelledFaces, options: PlotOptions) -> Figure:
    bins = uncertainty.residual_bins(
        faces.residuals, faces.box_size, options.per_bin, options.published
    )
    titles = ("variance of x", "variance of y", "covariance of x, y")
    with new_figure(1, 3, (3.7, 3.5)) as (figure, axes):
        for axis, title, (entry, curve) in zip(axes, titles, bins.items(), strict=True):
            both = np.concatenate([curve.x, curve.y, [0.0]])
            pad = 0.05 * np.ptp(both)
            limits = (both.min() - pad, both.max() + pad)
            axis.plot(limits, limits, color="black", linewidth=1, zorder=1)
            axis.scatter(curve.x, curve.y, s=18, color=BLUE, alpha=0.75, linewidth=0)
            symbol = f"$\\Sigma_{{{entry}}}$"
            axis.set(xlim=limits, ylim=limits, aspect="equal", title=title,
                     xlabel=f"predicted {symbol}", ylabel=f"mean residual {symbol}")  # fmt: skip
            axis.ticklabel_format(style="sci", scilimits=(-2, 3))
            axis.locator_params(nbins=5)
            if np.isfinite(curve.value):
                corner_text(axis, f"Pearson {curve.value:.2f}", 0.05)
        counts = np.concatenate([curve.counts for curve in bins.values()])
        figure.suptitle(
            f"{np.median(counts):.0f} landmarks in each bin; in units of the box, squared"
        )
    return figure


def _smallest(faces: LabelledFaces, options: PlotOptions) -> Figure:
    pixel = faces.paper_heatmap_pixel
    values = uncertainty.smallest_deviation(
        faces.needed("covariance"), 1.0 if pixel is None else pixel
    )
    if not len(values):
        raise NotMeasured(f"{faces.method} has no covariance.")
    unit = "image pixels" if pixel is None else "heat-map pixels of the paper"
    far = float(np.quantile(values, 0.995)) if pixel is None else 2.0
    with new_figure() as (figure, (axis,)):
        edges = np.linspace(0, far, 81)
        share = np.full(len(values), 1 / (len(values) * edges[1]))  # those beyond count, too
        axis.hist(values, bins=list(edges), weights=share, color=BLUE)
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
    residuals = faces.residuals
    z = residuals.whitened
    x, edges = np.linspace(-REACH, REACH, 401), np.linspace(-REACH, REACH, 97)
    marginal = residuals.density.standard_marginal(x)
    weights = np.full(len(z), 1 / (len(z) * (edges[1] - edges[0])))
    ratios = {"width_ratios": [4, 1.3], "height_ratios": [1.3, 4]}
    with new_figure(2, 2, (2.7, 2.7), gridspec_kw=ratios) as (figure, axes):
        top, corner, main, side = axes
        sample = np.random.default_rng(0).permutation(z)[:SHOWN]
        main.scatter(*sample.T, s=2, color=BLUE, alpha=0.25, linewidth=0, rasterized=True)
        main.set(xlabel="whitened x", ylabel="whitened y")
        for axis, values, way in ((top, z[:, 0], "vertical"), (side, z[:, 1], "horizontal")):
            axis.hist(values, bins=edges, weights=weights, color=ORANGE, orientation=way,
                      label="labels")  # fmt: skip
        name = density_name(faces.likelihood)
        top.plot(x, marginal, color="black", linewidth=1.4, label=f"standard {name}")
        side.plot(marginal, x, color="black", linewidth=1.4)
        top.set(xticklabels=[], ylabel="density")
        side.set(yticklabels=[], xlabel="density")
        for axis in (top, main):
            axis.set_xlim(-REACH, REACH)
        for axis in (main, side):
            axis.set_ylim(REACH, -REACH)
        corner.axis("off")
        corner.legend(*top.get_legend_handles_labels(), loc="center", handlelength=1.2)
        outside = float(np.mean(np.abs(z).max(axis=1) > REACH))
        figure.suptitle(
            f"KL divergence {uncertainty.whitened_kl(residuals):.4f} nats; "
            f"{len(z):,} landmarks, {outside * 100:.1f} % outside"
        )
    return figure


def _overview(*_: Any) -> Figure:
    return plot_faces.plot_overview()


PLOTS: dict[str, Plot] = {
    "ced": curves(
        "Cumulative error distribution", _ced, drawstyle="steps-post", xlim=(0, CED_END),
        ylim=(0, 100), xlabel=ERRORS, ylabel="faces with at most this error (%)",
    ),
    "landmarks": Plot("Mean error of each landmark", plot_faces.plot_landmarks),
    "residuals": Plot("Squared residuals against covariance", _residuals, (4,)),
    "whitened": Plot("Whitened labels and the standard density", _whitened, (7,)),
    "coverage": curves(
        "Labels inside the p-ellipse", _coverage, xlim=(0, 100), ylim=(0, 100), aspect="equal",
        xlabel="probability of the ellipse (%)", ylabel="labels inside (%)",
    ),
    "smallest-eigenvalue": Plot("Short half-axes of the ellipses", _smallest, (5,)),
    "rank": curves(
        "Average NME against rank of uncertainty", _rank, "o-", numbers=(6,),
        xlabel="rank of predicted uncertainty, most certain first", ylabel=f"average {ERRORS}",
    ),
    "risk-coverage": curves(
        "Mean error of the most certain faces", _risk, xlim=(0, 100),
        xlabel="predictions kept, most certain first (%)", ylabel=f"mean {ERRORS}",
    ),
    "mean-ellipses": Plot("Mean ellipses of all faces", plot_faces.plot_mean_ellipses, (8,)),
    "individual-ellipses": Plot(
        "Ellipses of single faces over the mean", plot_faces.plot_individual_ellipses, (9,)
    ),
    "human": Plot(
        "Where people put landmarks, and where the model expects them: needs --annotators",
        plot_faces.plot_human,
    ),
    "faces": Plot("Predictions drawn on images", plot_faces.plot_faces, (1, 10)),
    "overview": Plot("The method: needs no predictions", _overview, (2,)),
    "labels": Plot("Labels by visibility class", plot_faces.plot_labels, (3, 11)),
}  # fmt: skip
