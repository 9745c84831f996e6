"""Figures of faces: landmarks on images, on a drawn face, and the overview of the method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from luvli.arrays import Floats
from luvli.data.record import FaceRecord
from luvli.drawing.faces import draw_tile
from luvli.drawing.sheet import contact_sheet
from luvli.errors import InputError
from luvli.evaluation.accuracy import NotMeasured, known_mean, with_failures
from luvli.evaluation.annotators import comparison
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
    new_figure,
)
from luvli.evaluation.uncertainty import mean_ellipses, normalized_faces
from luvli.files import is_there
from luvli.image.read import ImageArray, read_image
from luvli.likelihood.ellipses import Ellipses
from luvli.markup import Markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


SHOWN = 8
"""faces, where single ones are shown"""


def spaced(total: int) -> list[int]:
    """At most `SHOWN` numbers below `total`, evenly spaced."""
    return sorted({int(i) for i in np.linspace(0, total - 1, min(SHOWN, total))})


def with_images(faces: LabelledFaces, options: PlotOptions) -> LabelledFaces:
    """Some faces, evenly spaced over the set, that have images: where the predictions say, or in
    the folder of the options."""
    places: dict[int, str] = {}
    folder = options.images
    for i, name in enumerate(faces.images):
        named = [Path(name)] if folder is None else [folder / name, folder / Path(name).name]
        present = [place for place in named if name and is_there(place) and place.is_file()]
        if present:
            places[i] = str(present[0])
    if not places:
        raise InputError("no image of these faces was found: name their folder with --images.")
    chosen = [list(places)[i] for i in spaced(len(places))]
    return replace(faces[chosen], images=tuple(places[i] for i in chosen))


def plot_faces(labelled: LabelledFaces, options: PlotOptions) -> Figure:
    """Figures 1 and 10: labels green, predictions yellow, ellipses of Mahalanobis distance 1.

    Predicted visibility is the opacity of a landmark: those surely hidden are not drawn.
    """
    faces = with_images(labelled, options)
    tiles = [
        draw_tile(read_image(image), face, 400, label, mahalanobis=1.0)
        for image, face, label in zip(faces.images, faces.faces, faces.labels, strict=True)
    ]
    return _picture(contact_sheet(tiles, 4, gap=8))


def plot_labels(labelled: LabelledFaces, options: PlotOptions) -> Figure:
    """Figures 3 and 11: labels by visibility class, with a face schematic beside each image.

    Unoccluded green, externally occluded red; self-occluded landmarks, which have no place in
    the image, are black circles in the schematic.
    """
    from luvli.data.contact_sheet import label_sheet

    if not labelled.visible.any():
        raise NotMeasured(f"{labelled.method} has no visible label.")
    faces = with_images(labelled[labelled.visible.any(axis=1)], options)
    columns = faces.labels, faces.label_visibility, map(Path, faces.images)
    records = [FaceRecord(*row, markup=labelled.faces.markup) for row in zip(*columns, strict=True)]
    figure = _picture(label_sheet(records, 3, 300))
    figure.suptitle("green: visible; red: covered by something; black circle: hidden by the head")
    return figure


def _picture(image: ImageArray) -> Figure:
    """A figure that is one image, at 150 pixels an inch."""
    with new_figure(size=(image.shape[1] / 150, image.shape[0] / 150)) as (figure, (axis,)):
        axis.imshow(image)
        axis.axis("off")
    return figure


# --- a drawn face ------------------------------------------------------------------------


def plot_landmarks(faces: LabelledFaces, options: PlotOptions) -> Figure:
    """Mean error of each landmark on a drawn face."""
    errors = with_failures(faces.landmark_errors())
    drawn, edges = _markup(faces).schematic, _markup(faces).edges
    if not faces.visible.any():
        raise NotMeasured(f"{faces.method} has no visible label.")
    with new_figure(size=(5.4, 4.8)) as (figure, (axis,)):
        dots = axis.scatter(*drawn.T, c=known_mean(errors, axis=0), s=70, cmap="viridis",
                            edgecolor="black", linewidth=0.4, vmin=0, zorder=2)  # fmt: skip
        figure.colorbar(dots, ax=axis, label=f"mean {ERRORS}", shrink=0.85)
        _face_axis(axis, drawn, drawn, edges)
    return figure


def plot_mean_ellipses(faces: LabelledFaces, options: PlotOptions) -> Figure:
    """Figure 8: mean locations and covariances of many frontal faces."""
    points, covariance, count = mean_ellipses(
        faces.points, faces.needed("covariance"), _markup(faces).name
    )
    title = f"mean of {count:,} faces; ellipses at 2 sigma"
    return _ellipse_figure([Layer(points, covariance)], title, dots=points)


def plot_individual_ellipses(faces: LabelledFaces, options: PlotOptions) -> Figure:
    """Figure 9: ellipses of single faces over the mean ones (blue), outer landmarks only."""
    chosen = _markup(faces)
    predicted = (faces.points, faces.needed("covariance"), chosen.name)
    points, spread = normalized_faces(*predicted)
    mean, covariance, count = mean_ellipses(*predicted)
    outer = [j for part in ("jaw", "brows") for j in chosen.groups.get(part, ())]
    layers = [
        Layer(points[i, outer], spread[i, outer], colour(1 + n % 5), 0.8)
        for n, i in enumerate(spaced(len(points)))
    ]
    title = f"{len(layers)} single faces over the mean of {count:,} (blue)"
    return _ellipse_figure([*layers, Layer(mean[outer], covariance[outer], width=2.2)], title)


def plot_human(faces: LabelledFaces, options: PlotOptions) -> Figure:
    """Human ellipses (orange) and the model's mean ellipses (blue) on the mean face."""
    compared = comparison(faces, options.annotators)
    people, points = compared.annotators, compared.points
    places, words = points[people.landmarks], f"the model, mean of {compared.faces:,} faces"
    layers = [
        Layer(places, people.covariance, ORANGE, 1.8, f"{people.people} people"),
        Layer(places, compared.model, BLUE, 1.8, words),
    ]
    title = "where people put landmarks, and where the model expects them (2σ)"
    return _ellipse_figure(layers, title, places, points, _markup(faces).edges)


class Layer(NamedTuple):
    """Landmarks (k, 2) with covariances (k, 2, 2), and how their ellipses are drawn."""

    points: Floats
    covariance: Floats
    shade: str = BLUE
    width: float = 1.2
    label: str = ""


def _ellipse_figure(
    layers: Sequence[Layer], title: str, dots: Floats | None = None, outline: Floats | None = None,
    edges: Sequence[tuple[int, int]] = (),
) -> Figure:  # fmt: skip
    """Ellipses at 2 standard deviations, over the `edges` between the points `outline`."""
    from matplotlib.collections import EllipseCollection

    corners = [] if outline is None else [outline]
    with new_figure(size=(5.8, 5.8)) as (figure, (axis,)):
        for points, covariance, shade, width, label in layers:
            centres, half_axes, angle = Ellipses.of(points, covariance, np.full(len(points), 2.0))
            ellipses = EllipseCollection(
                2 * half_axes[:, 0], 2 * half_axes[:, 1], angle, units="xy", offsets=centres,
                offset_transform=axis.transData, facecolors="none", edgecolors=shade,
                linewidths=width,
            )  # fmt: skip
            axis.add_collection(ellipses)
            reach = 2 * np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
            corners += [points - reach, points + reach]
            axis.plot([], [], color=shade, label=label)
        if dots is not None:
            axis.scatter(*dots.T, s=6, color="black", zorder=3)
        _face_axis(axis, np.concatenate(corners), outline, edges)
        if layers[-1].label:
            axis.legend(loc="lower center", bbox_to_anchor=(0.5, -0.08), ncols=2)
        axis.set_title(title)
    return figure


def _face_axis(
    axis: Axes, inside: Floats, outline: Floats | None, edges: Sequence[tuple[int, int]]
) -> None:
    """The outline of a face in grey, no axis, and these points (m, 2) inside; y points down."""
    if outline is not None:
        for a, b in edges:
            axis.plot(*outline[[a, b]].T, color="#bbbbbb", linewidth=1, zorder=1)
    axis.axis("off")
    if len(inside):
        low, high = inside.min(axis=0), inside.max(axis=0)
        pad = 0.08 * (high - low).max()
        limits = {"xlim": (low[0] - pad, high[0] + pad), "ylim": (high[1] + pad, low[1] - pad)}
        axis.set(aspect="equal", **limits)


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
