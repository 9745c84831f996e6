"""Which figure is made how: from evaluated faces to each figure of the paper, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from luvli.errors import InputError, unknown_choice
from luvli.evaluation import (
    accuracy,
    annotators,
    plot_faces,
    plot_overview,
    plots,
    selective,
    uncertainty,
)
from luvli.evaluation import visibility as seen
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.registry import face_spread
from luvli.evaluation.table import numbered
from luvli.files import is_there
from luvli.image.read import read_image

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class PlotOptions:
    """What can be chosen about a figure."""

    normalizer: accuracy.Normalizer = "box"
    cutoff: float = 7.0
    per_bin: int = 734
    published: bool = False
    """drop the tenth of the landmarks with the largest predictions, as the published figure 4"""
    count: int = 8
    """faces to show where single ones are shown"""
    annotators: Path | None = None
    """file of several people's labels (`luvli.evaluation.annotators`), for the figure human"""
    images: Path | None = None
    """folder to look for images in, if not where the predictions say"""


@dataclass(frozen=True)
class Plot:
    """A figure: its numbers in the paper, what it shows, what it needs, how it is drawn."""

    title: str
    draw: Callable[[Sequence[LabelledFaces], PlotOptions], Figure]
    numbers: tuple[int, ...] = ()
    needs: tuple[str, ...] = ()
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
        for field in entry.needs:
            if getattr(faces, field) is None:
                raise InputError(
                    f"figure {key} needs {field}, which the predictions of {faces.method} lack."
                )
    if key == "visibility" and not _two_classes(sets[0]):
        raise InputError(
            f"figure {key} needs both visible and self-occluded labels: those of "
            f"{sets[0].method} have one kind only."
        )
    named = [
        replace(faces, method=plots.plain(faces.method)) for faces in with_distinct_methods(sets)
    ]
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
    predicted = np.asarray(np.isfinite(faces.points).all(axis=2))
    drawn = ["ced"] if faces.visible.any() else []
    if faces.visible.any() and faces.markup:
        drawn.append("landmarks")
    if faces.covariance is not None and (faces.visible & predicted).any():
        drawn += ["residuals", "whitened", "coverage", "smallest-eigenvalue", "rank"]
        drawn.append("risk-coverage")
        whole = faces.markup and uncertainty.normalized_faces(
            faces.points, faces.covariance, faces.markup_name
        )
        if whole and len(whole[0]):
            drawn += ["mean-ellipses", "individual-ellipses"]
    if faces.visibility is not None and _two_classes(faces):
        drawn.append("visibility")
    return drawn


def _label(options: PlotOptions) -> str:
    return f"NME {options.normalizer} (%)"


def _errors(faces: LabelledFaces, options: PlotOptions) -> NDArray[np.float64]:
    return faces.nme(options.normalizer)


def _uncertainty(faces: LabelledFaces, options: PlotOptions) -> NDArray[np.float64]:
    """(n,) of figure 6: `face_spread`; as published the plain mean of |Sigma|^(1/2) over the
    landmarks, in pixels of the paper's crop where known."""
    if not options.published or faces.covariance is None:
        return face_spread(faces)
    unit = 1.0 if faces.paper_pixel is None else faces.paper_pixel**2
    return np.asarray(uncertainty.spread_root(faces.covariance).mean(axis=1) / unit)


def _given(faces: LabelledFaces) -> tuple[Any, Any, Any, Any]:
    return faces.points, faces.covariance, faces.labels, faces.visible


def _ced(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    curves = {faces.method: _errors(faces, options) for faces in sets}
    return plots.plot_ced(curves, options.cutoff, _label(options))


def _residuals(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    faces = sets[0]
    bins = uncertainty.residual_bins(
        *_given(faces),
        scale=faces.box_size,
        per_bin=options.per_bin,
        discard=0.1 if options.published else 0.0,
        leftover="drop" if options.published else "share",
    )
    return plots.plot_residual(bins)


def _smallest(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    faces = sets[0]
    assert faces.covariance is not None
    unit = "image pixels" if faces.paper_pixel is None else plots.HEATMAP_PIXELS
    values = uncertainty.smallest_deviation(faces.covariance, faces.paper_heatmap_pixel)
    return plots.plot_smallest_deviation(values, unit)


def _rank(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    curves = {
        faces.method: selective.nme_by_rank(_errors(faces, options), _uncertainty(faces, options))
        for faces in sets
    }
    return plots.plot_rank(curves, _label(options))


def _whitened(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    z = uncertainty.whitened(*_given(sets[0]))
    divergence = uncertainty.whitened_kl(z, sets[0].faces.likelihood)
    return plots.plot_whitened(z, sets[0].faces.likelihood, divergence)


def _mean_ellipses(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    faces = sets[0]
    assert faces.covariance is not None
    mean = uncertainty.mean_ellipses(faces.points, faces.covariance, faces.markup_name)
    return plots.plot_mean_ellipse(mean)


def _individual(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    faces = sets[0]
    assert faces.covariance is not None
    mean = uncertainty.mean_ellipses(faces.points, faces.covariance, faces.markup_name)
    points, spread = uncertainty.normalized_faces(faces.points, faces.covariance, faces.markup_name)
    chosen = _spaced(len(points), options.count)
    return plots.plot_individual_ellipses(points[chosen], spread[chosen], mean, faces.markup_name)


def _coverage(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    curves = {
        faces.method: uncertainty.coverage_curve(
            uncertainty.radii(*_given(faces)), faces.faces.likelihood
        )
        for faces in sets
    }
    return plots.plot_coverage(curves)


def _visibility(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    faces = sets[0]
    assert faces.visibility is not None
    pair = (faces.visibility, faces.label_visibility)
    return plots.plot_visibility(
        seen.roc(*pair), seen.precision_recall(*pair, "hidden"), seen.visibility_reliability(*pair)
    )


def _risk(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    curves = {
        faces.method: selective.risk_coverage(_errors(faces, options), _uncertainty(faces, options))
        for faces in sets
    }
    return plots.plot_risk_coverage(curves, _label(options))


def _landmarks(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    faces = sets[0]
    errors = accuracy.landmark_errors(
        faces.points, faces.labels, options.normalizer, faces.visible,
        boxes=faces.label_boxes, markup=faces.markup_name,
    )  # fmt: skip
    return plots.plot_landmark(accuracy.per_landmark(errors), faces.markup_name, _label(options))


def _faces(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    faces, images = _with_images(sets[0], options)
    return plot_faces.plot_faces(
        images, faces.points, faces.labels, faces.covariance, faces.visibility
    )


def _labels(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    faces, images = _with_images(sets[0], options)
    return plot_faces.plot_labels(images, faces.labels, faces.label_visibility, faces.markup_name)


def human_comparison(faces: LabelledFaces, options: PlotOptions) -> annotators.HumanComparison:
    """These faces beside the annotators of the options' file."""
    if options.annotators is None:
        raise InputError("the figure human needs --annotators FILE.")
    people = annotators.read_annotators(options.annotators, faces.faces.markup)
    return annotators.compare_with_annotators(faces, people)


def _human(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    return annotators.plot_human(human_comparison(sets[0], options))


def _overview(sets: Sequence[LabelledFaces], options: PlotOptions) -> Figure:
    return plot_overview.plot_overview()


def _with_images(
    faces: LabelledFaces, options: PlotOptions
) -> tuple[LabelledFaces, list[NDArray[np.uint8]]]:
    """Some faces, evenly spaced over the set, that have images."""
    found = []
    for name in faces.images:
        places = [Path(name)] if name else []
        if options.images is not None and name:
            places = [options.images / name, options.images / Path(name).name]
        found.append(next((p for p in places if is_there(p) and p.is_file()), None))
    there = [i for i, place in enumerate(found) if place is not None]
    if not there:
        raise InputError("no image of these faces was found: name their folder with --images.")
    chosen = [there[i] for i in _spaced(len(there), options.count)]
    return faces[chosen], [read_image(place) for i in chosen if (place := found[i])]


def _spaced(total: int, wanted: int) -> list[int]:
    return sorted({int(i) for i in np.linspace(0, total - 1, min(wanted, total))})


PLOTS: dict[str, Plot] = {
    "ced": Plot("Cumulative error distribution", _ced, several=True),
    "landmarks": Plot("Mean error of each landmark", _landmarks),
    "residuals": Plot(
        "Squared residuals against covariance", _residuals, (4,), ("covariance",)
    ),
    "whitened": Plot(
        "Whitened labels and the standard density", _whitened, (7,), ("covariance",)
    ),
    "coverage": Plot(
        "Labels inside the p-ellipse", _coverage, (), ("covariance",), several=True
    ),
    "smallest-eigenvalue": Plot(
        "Short half-axes of the ellipses", _smallest, (5,), ("covariance",)
    ),
    "rank": Plot(
        "Average NME against rank of uncertainty", _rank, (6,), ("covariance",), several=True
    ),
    "risk-coverage": Plot(
        "Mean error of the most certain faces", _risk, (), ("covariance",), several=True
    ),
    "mean-ellipses": Plot(
        "Mean ellipses of all faces", _mean_ellipses, (8,), ("covariance",)
    ),
    "individual-ellipses": Plot(
        "Ellipses of single faces over the mean", _individual, (9,), ("covariance",)
    ),
    "human": Plot(
        "Where people put landmarks, and where the model expects them: needs --annotators", _human,
        (), ("covariance",)
    ),
    "visibility": Plot("Predicted visibility", _visibility, (), ("visibility",)),
    "faces": Plot("Predictions drawn on images", _faces, (1, 10)),
    "overview": Plot("The method: needs no predictions", _overview, (2,)),
    "labels": Plot("Labels by visibility class", _labels, (3, 11)),
}  # fmt: skip
