"""The figures of the paper and a few more, by name: `PLOTS` has a line for each.

A plot is a function of evaluated faces, one or several methods, and `PlotOptions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from luvli.arrays import Floats
from luvli.errors import InputError, unknown_choice
from luvli.evaluation import accuracy, annotators, face_metrics, plot_faces, selective, uncertainty
from luvli.evaluation import visibility as seen
from luvli.evaluation.curve import Curve
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.plot_style import (
    BLUE,
    ORANGE,
    PlotOptions,
    colour,
    corner_text,
    draw_ellipses,
    face_axis,
    new_figure,
    plain,
)
from luvli.evaluation.table import numbered
from luvli.likelihood import density_name, family
from luvli.markup import markup_for

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 20_000
"""dots in the scatter of whitened labels, at most"""
REACH = 6.0
"""standard deviations that it shows"""
CURVE_POINTS = 2000


@dataclass(frozen=True)
class Plot:
    """A figure: its numbers in the paper, what it shows, what it needs, how it is drawn."""

    title: str
    draw: Callable[[Sequence[LabelledFaces], PlotOptions], Figure]
    numbers: tuple[int, ...] = ()
    needs: str = ""
    """covariance or visibility"""
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
    for faces in sets:
        if entry.needs and getattr(faces, entry.needs) is None:
            raise InputError(
                f"figure {key} needs {entry.needs}, which the predictions of {faces.method} lack."
            )
    if key == "visibility" and not _two_classes(sets[0]):
        raise InputError(
            f"figure {key} needs both visible and self-occluded labels: those of "
            f"{sets[0].method} have one kind only."
        )
    named = [replace(f, method=plain(f.method)) for f in with_distinct_methods(sets)]
    return entry.draw(named, options or PlotOptions())


def with_distinct_methods(sets: Sequence[LabelledFaces]) -> list[LabelledFaces]:
    """The same sets, methods of one name numbered, so that each has a curve of its own."""
    names = numbered([faces.method for faces in sets])
    return [replace(faces, method=name) for faces, name in zip(sets, names, strict=True)]


def _two_classes(faces: LabelledFaces) -> bool:
    return len(np.unique(faces.label_visibility[faces.label_visibility >= 0] > 0)) == 2


def plot_name(name: str) -> str:
    """A figure's name from its name or its number in the paper.

    >>> plot_name("4")
    'residuals'
    """
    for key, entry in PLOTS.items():
        if name.lower() in (key, *map(str, entry.numbers)):
            return key
    raise unknown_choice("figure", name, PLOTS)


def applicable_plots(faces: LabelledFaces) -> list[str]:
    """The figures that can be made of these predictions alone, without images."""
    drawn = ["ced"] if faces.visible.any() else []
    if faces.visible.any() and faces.markup:
        drawn.append("landmarks")
    located = np.asarray(np.isfinite(faces.points).all(axis=2))
    if faces.covariance is not None and (faces.visible & located).any():
        drawn += ["residuals", "whitened", "coverage", "smallest-eigenvalue", "rank"]
        drawn.append("risk-coverage")
        if faces.markup and len(uncertainty.normalized_faces(*_predicted(faces))[0]):
            drawn += ["mean-ellipses", "individual-ellipses"]
    if faces.visibility is not None and _two_classes(faces):
        drawn.append("visibility")
    return drawn


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
        return face_metrics.face_spread(faces)
    unit = 1.0 if faces.paper_pixel is None else faces.paper_pixel**2
    return np.asarray(uncertainty.spread_root(faces.faces.covariance).mean(axis=1) / unit)


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
    figure.axes[0].set_xlim(left=0)
    figure.axes[0].set_ylim(bottom=0)
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
        curve = uncertainty.coverage_curve(face_metrics.face_radii(faces), faces.faces.likelihood)
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


def _residuals(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    bins = face_metrics.face_residual_bins(sets[0], options.per_bin, options.published)
    titles = ("variance of x", "variance of y", "covariance of x, y")
    with new_figure(1, 3, (3.7, 3.5)) as (figure, axes):
        for axis, title, (entry, curve) in zip(axes, titles, bins.items(), strict=True):
            both = np.concatenate([curve.x, curve.y, [0.0]])
            low, high = (float(both.min()), float(both.max())) if len(both) > 1 else (0.0, 1.0)
            pad = 0.05 * (high - low)
            line = (low - pad, high + pad)
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
        size = int(np.median(counts)) if counts else 0
        figure.suptitle(f"{size} landmarks in each bin; in units of the box, squared", fontsize=10)
    return figure


def _smallest(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    pixel = sets[0].paper_heatmap_pixel
    values = uncertainty.smallest_deviation(sets[0].faces.covariance, pixel)
    unit = "image pixels" if pixel is None else "heat-map pixels of the paper"
    far = float(np.quantile(values, 0.995)) if pixel is None else 2.0
    with new_figure(size=(5.2, 3.2)) as (figure, (axis,)):
        axis.hist(values, bins=list(np.linspace(0, far, 81)), density=True, color=BLUE)
        notes = []
        if pixel is not None:
            axis.axvline(1.0, color="black", linewidth=1, linestyle="--")
            notes.append(f"{np.mean(values < 1) * 100:.1f} % below one heat-map pixel")
        beyond = float(np.mean(values > far))
        if beyond >= 0.0005:
            notes.append(f"{beyond * 100:.1f} % beyond this range")
        corner_text(axis, "\n".join(notes))
        axis.set(xlim=(0, far), ylabel="density",
                 xlabel=f"$\\sqrt{{\\lambda_{{min}}}}$ of $\\Sigma$ ({unit})")  # fmt: skip
    return figure


def _whitened(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    """Whitened labels, and their marginals over those of the standard density."""
    name = sets[0].faces.likelihood
    z = uncertainty.whitened(*sets[0].distribution)
    x, edges = np.linspace(-REACH, REACH, 401), np.linspace(-REACH, REACH, 97)
    marginal = family(name).standard_marginal(x)
    ratios = {"width_ratios": [4, 1.3], "height_ratios": [1.3, 4]}
    with new_figure(2, 2, (2.7, 2.7), gridspec_kw=ratios) as (figure, axes):
        top, corner, main, side = axes
        corner.axis("off")
        sample = z
        if len(z) > SHOWN:
            sample = z[np.random.default_rng(0).choice(len(z), SHOWN, replace=False)]
        main.scatter(*sample.T, s=2, color=BLUE, alpha=0.25, linewidth=0, rasterized=True)
        main.set(xlim=(-REACH, REACH), ylim=(REACH, -REACH), xlabel="whitened x",
                 ylabel="whitened y")  # fmt: skip
        weights = np.full(len(z), 1 / (max(len(z), 1) * (edges[1] - edges[0])))
        for axis, column, way in ((top, 0, "vertical"), (side, 1, "horizontal")):
            axis.hist(z[:, column], bins=edges, weights=weights, color=ORANGE, orientation=way,
                      label="labels")  # fmt: skip
        top.plot(x, marginal, color="black", linewidth=1.4, label=f"standard {density_name(name)}")
        side.plot(marginal, x, color="black", linewidth=1.4)
        top.set(xlim=(-REACH, REACH), xticklabels=[], ylabel="density")
        side.set(ylim=(REACH, -REACH), yticklabels=[], xlabel="density")
        corner.legend(*top.get_legend_handles_labels(), loc="center", handlelength=1.2)
        outside = float(np.mean(np.abs(z).max(axis=1) > REACH)) if len(z) else 0.0
        figure.suptitle(
            f"KL divergence {face_metrics.face_whitened_kl(sets[0]):.4f} nats; "
            f"{len(z):,} landmarks, {outside * 100:.1f} % outside",
            fontsize=10,
        )
    return figure


def _visibility(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    """ROC of "visible", precision-recall of "hidden", and reliability of the probability."""
    pair = sets[0].visibility_pair
    roc, hidden = seen.roc(*pair), face_metrics.hidden_precision_recall(sets[0])
    bins = seen.visibility_reliability(*pair)
    with new_figure(
        1, 3, (3.7, 3.5), subplot_kw={"xlim": (-0.05, 1.05), "ylim": (-0.05, 1.05)}
    ) as (
        figure,
        (first, second, third),
    ):
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


# --- faces -------------------------------------------------------------------------------


def _predicted(faces: LabelledFaces) -> tuple[Floats, Floats, str | None]:
    return faces.points, faces.faces.covariance, faces.markup_name


def _mean_ellipses(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    points, covariance, count = uncertainty.mean_ellipses(*_predicted(sets[0]))
    with new_figure(size=(5.2, 5.2)) as (figure, (axis,)):
        face_axis(axis, draw_ellipses(axis, points, covariance, 2.0, BLUE, 1.2))
        axis.scatter(*points.T, s=6, color="black", zorder=3)
        axis.set_title(f"mean of {count:,} faces; ellipses at 2 sigma")
    return figure


def _individual(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    """Ellipses of single faces over the mean ones (blue), outer landmarks only."""
    points, spread = uncertainty.normalized_faces(*_predicted(sets[0]))
    mean, covariance, count = uncertainty.mean_ellipses(*_predicted(sets[0]))
    parts = markup_for(sets[0].landmarks, sets[0].markup_name).groups
    outer = [j for part in ("jaw", "brows") for j in parts.get(part, ())]
    chosen = plot_faces.spaced(len(points), options.count)
    with new_figure(size=(5.2, 5.2)) as (figure, (axis,)):
        shown = [
            draw_ellipses(axis, points[i, outer], spread[i, outer], 2.0, colour(1 + n % 5), 0.8)
            for n, i in enumerate(chosen)
        ]
        shown.append(draw_ellipses(axis, mean[outer], covariance[outer], 2.0, BLUE, 2.2))
        face_axis(axis, np.concatenate(shown))
        axis.set_title(f"{len(chosen)} single faces over the mean of {count:,} (blue)")
    return figure


def _human(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    return annotators.plot_human(annotators.comparison(sets[0], options.annotators))


def _faces(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    faces, images = plot_faces.with_images(sets[0], options.count, options.images)
    return plot_faces.plot_faces(
        images, faces.points, faces.labels, faces.covariance, faces.visibility
    )


def _labels(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    faces, images = plot_faces.with_images(sets[0], options.count, options.images)
    return plot_faces.plot_labels(images, faces.labels, faces.label_visibility, faces.markup_name)


PLOTS: dict[str, Plot] = {
    "ced": Plot("Cumulative error distribution", _ced, several=True),
    "landmarks": Plot(
        "Mean error of each landmark", lambda sets, how: plot_faces.plot_landmarks(sets[0], how)
    ),
    "residuals": Plot("Squared residuals against covariance", _residuals, (4,), "covariance"),
    "whitened": Plot("Whitened labels and the standard density", _whitened, (7,), "covariance"),
    "coverage": Plot("Labels inside the p-ellipse", _coverage, (), "covariance", several=True),
    "smallest-eigenvalue": Plot("Short half-axes of the ellipses", _smallest, (5,), "covariance"),
    "rank": Plot("Average NME against rank of uncertainty", _rank, (6,), "covariance", True),
    "risk-coverage": Plot("Mean error of the most certain faces", _risk, (), "covariance", True),
    "mean-ellipses": Plot("Mean ellipses of all faces", _mean_ellipses, (8,), "covariance"),
    "individual-ellipses": Plot(
        "Ellipses of single faces over the mean", _individual, (9,), "covariance"
    ),
    "human": Plot(
        "Where people put landmarks, and where the model expects them: needs --annotators", _human,
        (), "covariance",
    ),
    "visibility": Plot("Predicted visibility", _visibility, (), "visibility"),
    "faces": Plot("Predictions drawn on images", _faces, (1, 10)),
    "overview": Plot(
        "The method: needs no predictions", lambda *_: plot_faces.plot_overview(), (2,)
    ),
    "labels": Plot("Labels by visibility class", _labels, (3, 11)),
}  # fmt: skip
