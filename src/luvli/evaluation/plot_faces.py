"""Images with landmarks drawn over them, and the overview: Figures 1 to 3, 10 and 11."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.evaluation.accuracy import with_failures
from luvli.evaluation.curve import known_mean
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.plot_style import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    PlotOptions,
    draw_edges,
    draw_ellipses,
    face_axis,
    new_figure,
)
from luvli.files import is_there
from luvli.image.read import read_image
from luvli.markup import markup_for

if TYPE_CHECKING:
    from matplotlib.figure import Figure


TRUTH, PREDICTED, ELLIPSE, COVERED = "#00e63d", "#ffd400", "#1e66ff", "#ff2a2a"
"""the paper's colours: green labels, yellow predictions, blue ellipses, red occluded"""


def spaced(total: int, wanted: int) -> list[int]:
    """`wanted` numbers below `total`, evenly spaced."""
    return sorted({int(i) for i in np.linspace(0, total - 1, min(wanted, total))})


def with_images(
    faces: LabelledFaces, count: int, folder: Path | None
) -> tuple[LabelledFaces, list[NDArray[np.uint8]]]:
    """Some faces, evenly spaced over the set, that have images: where the predictions say, or in
    `folder`."""
    places: dict[int, Path] = {}
    for i, name in enumerate(faces.images):
        named = [Path(name)] if folder is None else [folder / name, folder / Path(name).name]
        for place in named if name else []:
            if is_there(place) and place.is_file():
                places.setdefault(i, place)
    if not places:
        raise InputError("no image of these faces was found: name their folder with --images.")
    chosen = [list(places)[i] for i in spaced(len(places), count)]
    return faces[chosen], [read_image(places[i]) for i in chosen]


def plot_faces(
    images: Sequence[NDArray[np.uint8]],
    predicted: ArrayLike,
    truth: ArrayLike | None = None,
    covariance: ArrayLike | None = None,
    visibility: ArrayLike | None = None,
    columns: int = 4,
    sigma: float = 1.0,
) -> Figure:
    """Figures 1 and 10: labels green, predictions yellow, ellipses of Mahalanobis distance 1.

    `images` are RGB; coordinates (m, k, 2) are pixels of them. Predicted visibility, where
    given, is the opacity of a landmark: those surely hidden are not drawn.
    """
    points = np.asarray(predicted, dtype=np.float64)
    rows = -(-len(images) // columns)
    with new_figure(rows, min(columns, len(images)), (2.8, 2.8)) as (figure, axes):
        for i, axis in enumerate(axes):
            axis.axis("off")
            if i >= len(images):
                continue
            known = np.isfinite(points[i]).all(axis=1)
            alpha = np.ones(len(points[i])) if visibility is None else np.asarray(visibility)[i]
            label = None if truth is None else np.asarray(truth, dtype=np.float64)[i]
            shown = points[i][known] if label is None else np.concatenate([points[i][known], label])
            _crop(axis, images[i], shown)
            if label is not None:
                axis.scatter(*label.T, s=8, color=TRUTH, linewidth=0)
            if not known.any():
                continue
            if covariance is not None:
                spread = np.asarray(covariance, dtype=np.float64)[i]
                draw_ellipses(
                    axis, points[i][known], spread[known], sigma, ELLIPSE, 1.0, alpha[known]
                )
            axis.scatter(*points[i][known].T, s=8, color=PREDICTED, alpha=alpha[known], linewidth=0)
    return figure


def plot_labels(
    images: Sequence[NDArray[np.uint8]],
    truth: ArrayLike,
    classes: ArrayLike,
    markup: str | None = None,
    pairs: int = 3,
) -> Figure:
    """Figures 3 and 11: labels by visibility class, with a face schematic beside each image.

    Unoccluded green, externally occluded red; self-occluded landmarks, which have no place in
    the image, are black circles in the schematic.
    """
    points = np.asarray(truth, dtype=np.float64)
    labels = np.asarray(classes)
    chosen = markup_for(points.shape[1], markup)
    rows = -(-len(images) // pairs)
    with new_figure(rows, 2 * min(pairs, len(images)), (2.2, 2.5)) as (figure, axes):
        for axis in axes:
            axis.axis("off")
        for i, image in enumerate(images):
            photo, drawing = axes[2 * i], axes[2 * i + 1]
            _crop(photo, image, points[i])
            for kind, colour in ((1, TRUTH), (2, COVERED)):
                photo.scatter(*points[i][labels[i] == kind].T, s=7, color=colour, linewidth=0)
                drawing.scatter(
                    *chosen.schematic[labels[i] == kind].T, s=9, color=colour, linewidth=0
                )
            drawing.scatter(
                *chosen.schematic[labels[i] <= 0].T, s=12, facecolor="none", edgecolor="black",
                linewidth=0.8,
            )  # fmt: skip
            face_axis(drawing, chosen.schematic)
        figure.suptitle(
            "green: visible; red: covered by something; black circle: hidden by the head",
            fontsize=10,
        )
    return figure


def _crop(axis: Any, image: NDArray[np.uint8], points: Floats) -> None:
    """Show the image around the points, at least half a face of margin."""
    axis.imshow(image)
    located = points[np.isfinite(points).all(axis=1)]
    if not len(located):
        return
    low, high = located.min(axis=0), located.max(axis=0)
    middle, reach = (low + high) / 2, 0.7 * float((high - low).max())
    axis.set_xlim(middle[0] - reach, middle[0] + reach)
    axis.set_ylim(middle[1] + reach, middle[1] - reach)
    axis.set_facecolor("black")


def plot_landmarks(faces: LabelledFaces, options: PlotOptions) -> Figure:
    """Mean error of each landmark on a drawn face."""
    errors = with_failures(faces.landmark_errors(options.normalizer))
    chosen = markup_for(faces.landmarks, faces.markup_name)
    with new_figure(size=(5.4, 4.8)) as (figure, (axis,)):
        draw_edges(axis, chosen.schematic, chosen.edges)
        dots = axis.scatter(*chosen.schematic.T, c=known_mean(errors, axis=0), s=70, cmap="viridis",
                            edgecolor="black", linewidth=0.4, vmin=0, zorder=2)  # fmt: skip
        figure.colorbar(dots, ax=axis, label=f"mean {options.label}", shrink=0.85)
        face_axis(axis, chosen.schematic)
    return figure


def plot_overview() -> Figure:
    """Figure 2: one U-net with its three heads, and the loss that ties them together.

    Boxes are computations, the words beside the arrows are what passes along them.
    """
    from matplotlib.patches import FancyBboxPatch

    boxes = [
        (2, 21, 12, 10, "face crop\n256 x 256", "#dddddd"),
        (24, 19, 16, 14, "U-net i\nof 8", SKY),
        (54, 36, 16, 8, "mean estimator", ORANGE),
        (54, 21, 16, 8, "CEN", GREEN),
        (54, 6, 16, 8, "VEN", PURPLE),
        (84, 19, 14, 14, "LUVLi loss", BLUE),
    ]
    arrows = [
        ((14, 26), (24, 26), ""),
        ((40, 30), (54, 40), "heat maps"),
        ((40, 26), (54, 25), "bottleneck"),
        ((40, 23), (54, 10), "bottleneck"),
        ((70, 40), (84, 31), r"location $\mu_{ij}$"),
        ((70, 25), (84, 26), r"covariance $\Sigma_{ij}$"),
        ((70, 10), (84, 21), r"visibility $\hat v_{ij}$"),
        ((91, 40), (91, 33), ""),
    ]
    with new_figure(size=(9.5, 4.6)) as (figure, (axis,)):
        axis.set(xlim=(0, 100), ylim=(0, 50))
        axis.axis("off")
        for x, y, width, height, text, colour in boxes:
            shape = FancyBboxPatch(
                (x, y), width, height, boxstyle="round,pad=0.3", fc=colour, ec="#444444"
            )
            axis.add_patch(shape)
            ink = "white" if colour == BLUE else "black"
            axis.text(x + width / 2, y + height / 2, text, ha="center", va="center", color=ink)
        paper = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        for start, end, text in arrows:
            axis.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": "#444444"})
            middle = np.mean([start, end], axis=0)
            axis.text(*middle, text, ha="center", va="center", fontsize=9, bbox=paper)
        axis.text(91, 41, r"label $p_j$, $v_j$", ha="center")
        axis.text(32, 8, "CEN and VEN are shared\nby all U-nets", ha="center", fontsize=9)
    return figure
