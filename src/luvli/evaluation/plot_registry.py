"""Which figure is made how: from evaluated faces to each figure of the paper, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from luvli.errors import InputError, unknown_choice
from luvli.evaluation import (
    accuracy,
    metrics,
    plot_faces,
    plot_overview,
    plots,
    selective,
    uncertainty,
)
from luvli.evaluation import visibility as seen
from luvli.evaluation.evaluated_faces import EvaluatedFaces
from luvli.image.read import read_image

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Options:
    """What can be chosen about a figure."""

    normalizer: accuracy.Normalizer = "box"
    cutoff: float = 7.0
    per_bin: int = 734
    published: bool = False
    """drop the tenth of the landmarks with the largest predictions, as the published figure 4"""
    count: int = 8
    """faces to show where single ones are shown"""
    images: Path | None = None
    """folder to look for pictures in, if not where the predictions say"""


@dataclass(frozen=True)
class Entry:
    """A figure: its numbers in the paper, what it shows, what it needs, how it is drawn."""

    title: str
    draw: Callable[[Sequence[EvaluatedFaces], Options], Figure]
    numbers: tuple[int, ...] = ()
    needs: tuple[str, ...] = ()
    several: bool = False
    """whether several methods can be shown in one figure"""


def draw(name: str, sets: Sequence[EvaluatedFaces], options: Options | None = None) -> Figure:
    """The figure with this name or number in the paper, for one or several methods."""
    key = figure_name(name)
    entry = FIGURES[key]
    if len(sets) > 1 and not entry.several:
        raise InputError(f"figure {key} shows one method: give one file of predictions.")
    for faces in sets:
        for field in entry.needs:
            if getattr(faces, field) is None:
                raise InputError(
                    f"figure {key} needs {field}, which the predictions of {faces.method} lack."
                )
    return entry.draw(sets, options or Options())


def figure_name(name: str) -> str:
    """A figure's name from its name or its number in the paper.

    >>> figure_name("4")
    'residuals'
    """
    for key, entry in FIGURES.items():
        if name.lower() in (key, *map(str, entry.numbers)):
            return key
    raise unknown_choice("figure", name, FIGURES)


def applicable(faces: EvaluatedFaces) -> list[str]:
    """The figures that can be made of these predictions alone, without pictures."""
    predicted = np.asarray(np.isfinite(faces.predicted).all(axis=2))
    drawn = ["ced"] if faces.visible.any() else []
    if faces.visible.any() and metrics.known_markup(faces):
        drawn.append("landmarks")
    if faces.covariance is not None and (faces.visible & predicted).any():
        drawn += ["residuals", "whitened", "coverage", "smallest-eigenvalue", "rank"]
        drawn.append("risk-coverage")
        if metrics.known_markup(faces) and predicted.all(axis=1).any():
            drawn += ["mean-ellipses", "individual-ellipses"]
    if faces.visibility is not None and len(np.unique(faces.classes[faces.classes >= 0] > 0)) == 2:
        drawn.append("visibility")
    return drawn


def _label(options: Options) -> str:
    return f"NME {options.normalizer} (%)"


def _errors(faces: EvaluatedFaces, options: Options) -> NDArray[np.float64]:
    return accuracy.nme(
        faces.predicted, faces.truth, options.normalizer, faces.visible,
        boxes=faces.boxes, markup=faces.markup,
    )  # fmt: skip


def _given(faces: EvaluatedFaces) -> tuple[Any, Any, Any, Any]:
    return faces.predicted, faces.covariance, faces.truth, faces.visible


def _ced(sets: Sequence[EvaluatedFaces], options: Options) -> Figure:
    curves = {faces.method: _errors(faces, options) for faces in sets}
    return plots.ced_figure(curves, options.cutoff, _label(options))


def _residuals(sets: Sequence[EvaluatedFaces], options: Options) -> Figure:
    faces = sets[0]
    bins = uncertainty.residual_bins(
        *_given(faces),
        scale=metrics.box_scale(faces),
        per_bin=options.per_bin,
        discard=0.1 if options.published else 0.0,
        leftover="drop" if options.published else "share",
    )
    return plots.residual_figure(bins)


def _smallest(sets: Sequence[EvaluatedFaces], options: Options) -> Figure:
    faces = sets[0]
    assert faces.covariance is not None
    unit = "image pixels" if faces.heatmap_pixel is None else "heat-map pixels"
    values = uncertainty.smallest_deviation(faces.covariance, faces.heatmap_pixel)
    return plots.smallest_deviation_figure(values, unit)


def _rank(sets: Sequence[EvaluatedFaces], options: Options) -> Figure:
    curves = {
        faces.method: selective.nme_by_rank(_errors(faces, options), metrics.face_spread(faces))
        for faces in sets
    }
    return plots.rank_figure(curves, _label(options))


def _whitened(sets: Sequence[EvaluatedFaces], options: Options) -> Figure:
    z = uncertainty.whitened(*_given(sets[0]))
    divergence = uncertainty.whitened_kl(z, sets[0].likelihood)
    return plots.whitened_figure(z, sets[0].likelihood, divergence)


def _mean_ellipses(sets: Sequence[EvaluatedFaces], options: Options) -> Figure:
    faces = sets[0]
    assert faces.covariance is not None
    mean = uncertainty.mean_ellipses(faces.predicted, faces.covariance, faces.markup)
    return plots.mean_ellipse_figure(mean)


def _individual(sets: Sequence[EvaluatedFaces], options: Options) -> Figure:
    faces = sets[0]
    assert faces.covariance is not None
    mean = uncertainty.mean_ellipses(faces.predicted, faces.covariance, faces.markup)
    points, spread = uncertainty.normalized_faces(faces.predicted, faces.covariance, faces.markup)
    chosen = _spaced(len(points), options.count)
    return plots.individual_ellipses_figure(points[chosen], spread[chosen], mean, faces.markup)


def _coverage(sets: Sequence[EvaluatedFaces], options: Options) -> Figure:
    curves = {
        faces.method: uncertainty.coverage(uncertainty.radii(*_given(faces)), faces.likelihood)
        for faces in sets
    }
    return plots.coverage_figure(curves)


def _visibility(sets: Sequence[EvaluatedFaces], options: Options) -> Figure:
    faces = sets[0]
    assert faces.visibility is not None
    pair = (faces.visibility, faces.classes)
    return plots.visibility_figure(
        seen.roc(*pair), seen.precision_recall(*pair, "hidden"), seen.visibility_reliability(*pair)
    )


def _risk(sets: Sequence[EvaluatedFaces], options: Options) -> Figure:
    curves = {
        faces.method: selective.risk_coverage(_errors(faces, options), metrics.face_spread(faces))
        for faces in sets
    }
    return plots.risk_coverage_figure(curves, _label(options))


def _landmarks(sets: Sequence[EvaluatedFaces], options: Options) -> Figure:
    faces = sets[0]
    errors = accuracy.landmark_errors(
        faces.predicted, faces.truth, options.normalizer, faces.visible,
        boxes=faces.boxes, markup=faces.markup,
    )  # fmt: skip
    return plots.landmark_figure(accuracy.per_landmark(errors), faces.markup, _label(options))


def _faces(sets: Sequence[EvaluatedFaces], options: Options) -> Figure:
    faces, pictures = _with_pictures(sets[0], options)
    return plot_faces.faces_figure(
        pictures, faces.predicted, faces.truth, faces.covariance, faces.visibility
    )


def _labels(sets: Sequence[EvaluatedFaces], options: Options) -> Figure:
    faces, pictures = _with_pictures(sets[0], options)
    return plot_faces.labels_figure(pictures, faces.truth, faces.classes, faces.markup)


def _overview(sets: Sequence[EvaluatedFaces], options: Options) -> Figure:
    return plot_overview.overview_figure()


def _with_pictures(
    faces: EvaluatedFaces, options: Options
) -> tuple[EvaluatedFaces, list[NDArray[np.uint8]]]:
    """Some faces, evenly spaced over the set, that have pictures."""
    found = []
    for name in faces.images:
        places = [Path(name)] if name else []
        if options.images is not None and name:
            places = [options.images / name, options.images / Path(name).name]
        found.append(next((place for place in places if place.is_file()), None))
    there = [i for i, place in enumerate(found) if place is not None]
    if not there:
        raise InputError("no picture of these faces was found: name their folder with --images.")
    chosen = [there[i] for i in _spaced(len(there), options.count)]
    return faces.take(chosen), [read_image(place) for i in chosen if (place := found[i])]


def _spaced(total: int, wanted: int) -> list[int]:
    return sorted({int(i) for i in np.linspace(0, total - 1, min(wanted, total))})


FIGURES: dict[str, Entry] = {
    "ced": Entry("Cumulative error distribution", _ced, several=True),
    "landmarks": Entry("Mean error of each landmark", _landmarks),
    "residuals": Entry(
        "Squared residuals against covariance", _residuals, (4,), ("covariance",)
    ),
    "whitened": Entry(
        "Whitened labels and the standard density", _whitened, (7,), ("covariance",)
    ),
    "coverage": Entry(
        "Labels inside the p-ellipse", _coverage, (), ("covariance",), several=True
    ),
    "smallest-eigenvalue": Entry(
        "Short half-axes of the ellipses", _smallest, (5,), ("covariance",)
    ),
    "rank": Entry(
        "Average NME against rank of uncertainty", _rank, (6,), ("covariance",), several=True
    ),
    "risk-coverage": Entry(
        "Mean error of the most certain faces", _risk, (), ("covariance",), several=True
    ),
    "mean-ellipses": Entry(
        "Mean ellipses of all faces", _mean_ellipses, (8,), ("covariance",)
    ),
    "individual-ellipses": Entry(
        "Ellipses of single faces over the mean", _individual, (9,), ("covariance",)
    ),
    "visibility": Entry("Predicted visibility", _visibility, (), ("visibility",)),
    "faces": Entry("Predictions drawn on pictures", _faces, (1, 10)),
    "overview": Entry("The method: needs no predictions", _overview, (2,)),
    "labels": Entry("Labels by visibility class", _labels, (3, 11)),
}  # fmt: skip
