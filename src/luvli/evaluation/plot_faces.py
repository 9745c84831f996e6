"""Figures of faces: landmarks on images, on a drawn face, and the overview of the method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from luvli.errors import InputError
from luvli.evaluation.accuracy import NotMeasured, known_mean, with_failures
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.plot_style import (
    BLUE,
    ERRORS,
    GREEN,
    ORANGE,
    PAPER,
    PURPLE,
    SKY,
    PlotOptions,
    colour,
    draw_edges,
    draw_ellipses,
    face_axis,
    new_figure,
)
from luvli.evaluation.uncertainty import mean_ellipses, normalized_faces
from luvli.files import is_there
from luvli.image.read import ImageArray, read_image
from luvli.markup import Markup

if TYPE_CHECKING:
    from matplotlib.figure import Figure


TRUTH, PREDICTED, ELLIPSE, COVERED = "#00e63d", "#ffd400", "#1e66ff", "#ff2a2a"
"""the paper's colours: green labels, yellow predictions, blue ellipses, red occluded"""


SHOWN = 8
"""faces, where single ones are shown"""


def spaced(total: int) -> list[int]:
    """At most `SHOWN` numbers below `total`, evenly spaced."""
    return sorted({int(i) for i in np.linspace(0, total - 1, min(SHOWN, total))})


def with_images(
    faces: LabelledFaces, options: PlotOptions
) -> tuple[LabelledFaces, list[ImageArray]]:
    """Some faces, evenly spaced over the set, that have images: where the predictions say, or in
    the folder of the options."""
    places: dict[int, Path] = {}
    folder = options.images
    for i, name in enumerate(faces.images):
        named = [Path(name)] if folder is None else [folder / name, folder / Path(name).name]
        present = [place for place in named if name and is_there(place) and place.is_file()]
        if present:
            places[i] = present[0]
    if not places:
        raise InputError("no image of these faces was found: name their folder with --images.")
    chosen = [list(places)[i] for i in spaced(len(places))]
    return faces[chosen], [read_image(places[i]) for i in chosen]


@contextmanager
def _on_images(
    faces: LabelledFaces, images: Sequence[ImageArray], columns: int, beside: int, side: float
) -> Iterator[tuple[Figure, list[list[Any]]]]:
    """A figure with so many faces in a row, each with an axis that shows the image around its
    landmarks, and `beside` empty ones next to that."""
    rows, each = -(-len(images) // columns), 1 + beside
    with new_figure(rows, each * min(columns, len(images)), (side, side)) as (figure, axes):
        for axis in axes:
            axis.axis("off")
        cells = [list(axes[each * i : each * (i + 1)]) for i in range(len(images))]
        for i, (image, (axis, *_)) in enumerate(zip(images, cells, strict=True)):
            axis.imshow(image)
            points = np.concatenate([faces.points[i], faces.labels[i]])
            located = points[np.isfinite(points).all(axis=1)]
            if len(located):
                low, high = located.min(axis=0), located.max(axis=0)
                (x, y), reach = (low + high) / 2, 0.7 * float((high - low).max())
                axis.set(xlim=(x - reach, x + reach), ylim=(y + reach, y - reach))
        yield figure, cells


def plot_faces(labelled: LabelledFaces, options: PlotOptions) -> Figure:
    """Figures 1 and 10: labels green, predictions yellow, ellipses of Mahalanobis distance 1.

    Predicted visibility is the opacity of a landmark: those surely hidden are not drawn.
    """
    faces, images = with_images(labelled, options)
    with _on_images(faces, images, 4, 0, 2.8) as (figure, cells):
        for i, (axis,) in enumerate(cells):
            known = np.isfinite(faces.points[i]).all(axis=1)
            points = faces.points[i][known]
            axis.scatter(*faces.labels[i].T, s=8, color=TRUTH, linewidth=0)
            if not known.any():
                continue
            alpha = 1.0 if faces.visibility is None else faces.visibility[i][known]
            if faces.covariance is not None:
                draw_ellipses(axis, points, faces.covariance[i][known], 1.0, ELLIPSE, 1.0, alpha)
            axis.scatter(*points.T, s=8, color=PREDICTED, alpha=alpha, linewidth=0)
    return figure


def plot_labels(labelled: LabelledFaces, options: PlotOptions) -> Figure:
    """Figures 3 and 11: labels by visibility class, with a face schematic beside each image.

    Unoccluded green, externally occluded red; self-occluded landmarks, which have no place in
    the image, are black circles in the schematic.
    """
    faces, images = with_images(labelled, options)
    drawn = _markup(faces).schematic
    with _on_images(faces, images, 3, 1, 2.3) as (figure, cells):
        for i, (photo, drawing) in enumerate(cells):
            classes = faces.label_visibility[i]
            for kind, shade in ((1, TRUTH), (2, COVERED)):
                photo.scatter(*faces.labels[i][classes == kind].T, s=7, color=shade, linewidth=0)
                drawing.scatter(*drawn[classes == kind].T, s=9, color=shade, linewidth=0)
            hidden = {"facecolor": "none", "edgecolor": "black", "linewidth": 0.8}
            drawing.scatter(*drawn[classes <= 0].T, s=12, **hidden)
            face_axis(drawing, drawn)
        figure.suptitle(
            "green: visible; red: covered by something; black circle: hidden by the head"
        )
    return figure


# --- a drawn face ------------------------------------------------------------------------


def plot_landmarks(faces: LabelledFaces, options: PlotOptions) -> Figure:
    """Mean error of each landmark on a drawn face."""
    errors = with_failures(faces.landmark_errors())
    drawn, edges = _markup(faces).schematic, _markup(faces).edges
    if not faces.visible.any():
        raise NotMeasured(f"{faces.method} has no visible label.")
    with new_figure(size=(5.4, 4.8)) as (figure, (axis,)):
        draw_edges(axis, drawn, edges)
        dots = axis.scatter(*drawn.T, c=known_mean(errors, axis=0), s=70, cmap="viridis",
                            edgecolor="black", linewidth=0.4, vmin=0, zorder=2)  # fmt: skip
        figure.colorbar(dots, ax=axis, label=f"mean {ERRORS}", shrink=0.85)
        face_axis(axis, drawn)
    return figure


def plot_mean_ellipses(faces: LabelledFaces, options: PlotOptions) -> Figure:
    """Figure 8: mean locations and covariances of many frontal faces."""
    points, covariance, count = mean_ellipses(
        faces.points, faces.needed("covariance"), _markup(faces).name
    )
    with new_figure(size=(5.2, 5.2)) as (figure, (axis,)):
        face_axis(axis, draw_ellipses(axis, points, covariance, 2.0, BLUE, 1.2))
        axis.scatter(*points.T, s=6, color="black", zorder=3)
        axis.set_title(f"mean of {count:,} faces; ellipses at 2 sigma")
    return figure


def plot_individual_ellipses(faces: LabelledFaces, options: PlotOptions) -> Figure:
    """Figure 9: ellipses of single faces over the mean ones (blue), outer landmarks only."""
    chosen = _markup(faces)
    predicted = (faces.points, faces.needed("covariance"), chosen.name)
    points, spread = normalized_faces(*predicted)
    mean, covariance, count = mean_ellipses(*predicted)
    outer = [j for part in ("jaw", "brows") for j in chosen.groups.get(part, ())]
    single = spaced(len(points))
    with new_figure(size=(5.2, 5.2)) as (figure, (axis,)):
        shown = [
            draw_ellipses(axis, points[i, outer], spread[i, outer], 2.0, colour(1 + n % 5), 0.8)
            for n, i in enumerate(single)
        ]
        shown.append(draw_ellipses(axis, mean[outer], covariance[outer], 2.0, BLUE, 2.2))
        face_axis(axis, np.concatenate(shown))
        axis.set_title(f"{len(single)} single faces over the mean of {count:,} (blue)")
    return figure


def _markup(faces: LabelledFaces) -> Markup:
    if faces.markup is None:
        raise NotMeasured(f"the point set {faces.faces.markup} has no drawn face.")
    return faces.markup


def plot_overview() -> Figure:
    """Figure 2: one U-net with its three heads, and the loss that ties them together.

    Boxes are computations, the words beside the arrows are what passes along them.
    """
    boxes = [
        ((8, 26), "face crop\n256 x 256", "#dddddd"), ((32, 26), "U-net i\nof 8", SKY),
        ((62, 40), "mean estimator", ORANGE), ((62, 25), "CEN", GREEN), ((62, 10), "VEN", PURPLE),
        ((91, 26), "LUVLi loss", BLUE), ((91, 44), r"label $p_j$, $v_j$", "white"),
    ]  # fmt: skip
    arrows = [
        ((13, 26), (27, 26), ""), ((37, 28), (53, 40), "heat maps"),
        ((37, 26), (58, 25), "bottleneck"), ((37, 24), (58, 11), "bottleneck"),
        ((71, 40), (85, 29), r"location $\mu_{ij}$"),
        ((66, 25), (85, 26), r"covariance $\Sigma_{ij}$"),
        ((66, 10), (85, 23), r"visibility $\hat v_{ij}$"), ((91, 41), (91, 29), ""),
    ]  # fmt: skip
    with new_figure(size=(9.5, 4.6)) as (figure, (axis,)):
        axis.set(xlim=(0, 100), ylim=(0, 50))
        axis.axis("off")
        for place, text, fill in boxes:
            frame = {"boxstyle": "round,pad=0.8", "fc": fill, "ec": "#444444"}
            axis.text(*place, text, ha="center", va="center", bbox=frame)
        for start, end, text in arrows:
            axis.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": "#444444"})
            middle = np.mean([start, end], axis=0)
            axis.text(*middle, text, ha="center", va="center", fontsize=9, bbox=PAPER)
        axis.text(32, 8, "CEN and VEN are shared\nby all U-nets", ha="center", fontsize=9)
    return figure
