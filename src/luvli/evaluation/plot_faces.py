"""Images with landmarks drawn over them: Figures 1, 3, 10 and 11 of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Floats
from luvli.evaluation.plots import draw_ellipses, face_axis, new_figure
from luvli.markup import markup_for

if TYPE_CHECKING:
    from matplotlib.figure import Figure


TRUTH, PREDICTED, ELLIPSE, COVERED = "#00e63d", "#ffd400", "#1e66ff", "#ff2a2a"
"""the paper's colours: green labels, yellow predictions, blue ellipses, red occluded"""


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
        for i, axis in enumerate(axes.ravel()):
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
        flat = axes.ravel()
        for axis in flat:
            axis.axis("off")
        for i, image in enumerate(images):
            photo, drawing = flat[2 * i], flat[2 * i + 1]
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
