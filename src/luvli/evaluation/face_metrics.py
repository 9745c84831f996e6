"""What the registry measures, as functions of `LabelledFaces`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Bools, Floats
from luvli.errors import require
from luvli.evaluation import accuracy, selective, uncertainty
from luvli.evaluation.accuracy import NotMeasured
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.likelihood import covariance as algebra

GROUPINGS = ("landmark", "part of the face", "visibility class", "face size")
"""what metrics of landmarks can be sorted by"""

CLASSES = {"self_occluded": (0,), "unoccluded": (1,), "externally_occluded": (2,),
           "visible": (1, 2)}  # fmt: skip
"""the columns of Table 9, and both visible classes pooled"""


def masks(faces: LabelledFaces, by: str) -> dict[str, Bools]:
    """Which landmarks belong to each group of a grouping, as arrays that fit to (n, k).

    Sizes are thirds of the faces by the diagonal of their labels' tight box, in pixels.
    """
    numbers, markup = np.arange(faces.landmarks), faces.markup
    if by == "landmark":
        names = markup.names if markup else [""] * faces.landmarks
        return {f"{j} {name}".strip(): numbers == j for j, name in enumerate(names)}
    if by == "part of the face":
        groups = markup.groups if markup else {}
        return {name: np.isin(numbers, group) for name, group in groups.items()}
    if by == "visibility class":
        return {name: np.isin(faces.label_visibility, kinds) for name, kinds in CLASSES.items()}
    size = accuracy.normalizers(faces.labels, "diagonal", faces.visible)
    if len(faces) < 6 or np.isnan(size).all():
        return {}
    low, high = np.nanquantile(size, (1 / 3, 2 / 3))
    return {
        f"up to {low:.0f} px": (size <= low)[:, None],
        f"{low:.0f} to {high:.0f} px": ((size > low) & (size <= high))[:, None],
        f"above {high:.0f} px": (size > high)[:, None],
    }


# --- uncertainty -------------------------------------------------------------------------


def inside(faces: LabelledFaces, level: float = 0.9) -> Floats:
    """(n, k) 100 where the label lies inside the ellipse of this probability, NaN if unusable."""
    radii = faces.residuals.radii
    limit = float(faces.residuals.density.radius_quantile(level))
    return np.where(np.isnan(radii), np.nan, (radii <= limit) * 100.0)


def published_nll(faces: LabelledFaces) -> Floats:
    """(n, k) in the paper's heat-map pixels, without log 2 pi."""
    if faces.paper_heatmap_pixel is None:
        raise NotMeasured("the crops of the paper are not known.")
    return uncertainty.negative_log_likelihood(
        faces.residuals, faces.paper_heatmap_pixel, constant=False
    )


def binned_pearson(faces: LabelledFaces, per_bin: int, published: bool = False) -> dict[str, float]:
    """Pearson's correlations of Figure 4, in box sizes, by the entry of the covariance."""
    bins = uncertainty.residual_bins(faces.residuals, faces.box_size, per_bin, published)
    return {entry: curve.value for entry, curve in bins.items()}


def in_percent(faces: LabelledFaces, values: Floats) -> Floats:
    """Lengths (n, k) in pixels in percent of the box."""
    return values / faces.box_size[:, None] * 100.0


def lengths(faces: LabelledFaces) -> Floats:
    """(n, k) |Sigma|^(1/4) of usable landmarks in percent of the box."""
    return in_percent(faces, np.asarray(algebra.spread(faces.residuals.covariance)))


def error_correlation(faces: LabelledFaces) -> float:
    """Spearman's rank correlation of predicted spread and error, over all landmarks."""
    spread, errors = lengths(faces), faces.landmark_errors()
    known = np.isfinite(spread) & np.isfinite(errors)
    pair = spread[known], errors[known]
    if known.sum() < 3 or not all(np.ptp(values) for values in pair):
        return float("nan")  # what is always the same has no order
    return float(require("scipy.stats", "evaluate").spearmanr(*pair).statistic)


def located_spread(faces: LabelledFaces, scale: Floats | None, factor: float = 1.0) -> Floats:
    """(n, k) |Sigma|^(1/2) in units of `scale` (n,), times `factor`; NaN for self-occluded
    landmarks, which have no location."""
    if scale is None:
        raise NotMeasured("the crops of the paper are not known.")
    area = uncertainty.spread_root(faces.needed("covariance")) / scale[:, None] ** 2 * factor
    return np.where(faces.label_visibility == 0, np.nan, area)


# --- trust and visibility ----------------------------------------------------------------


def face_spread(faces: LabelledFaces) -> Floats:
    """(n,) predicted uncertainty of each face: the mean of |Sigma_j|^(1/4) over its landmarks,
    weighted by predicted visibility, in percent of the predicted landmarks' box (the true one is
    not known in use). Faces without a prediction are infinitely uncertain."""
    deviation = np.asarray(algebra.spread(faces.needed("covariance")))
    weights = np.ones_like(deviation) if faces.visibility is None else faces.visibility
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (deviation * weights).sum(axis=1) / weights.sum(axis=1)
        value = mean / accuracy.normalizers(faces.points, "box") * 100.0
    return np.where(np.isfinite(value), value, np.inf)


def aurc(faces: LabelledFaces, best: bool = False) -> float:
    """Area under the risk-coverage curve of faces; `best`: sorted by the true errors."""
    cost, spread = faces.nme("box"), face_spread(faces)
    return selective.risk_coverage(cost, cost if best else spread).value


def beside_errors(
    faces: LabelledFaces, name: str, function: Callable[[Floats, Floats], float]
) -> float:
    """A function of a prediction about each face, `confidence` or `expected_error`, and of its
    error in percent of the box, over the faces that have both."""
    values: Floats = getattr(faces.faces, name)
    errors = faces.nme("box")
    known = ~np.isnan(values) & ~np.isnan(errors)
    if not known.any():
        raise NotMeasured(f"{faces.method} has no {name}.")
    return function(values[known], errors[known])


def is_called_visible(probability: ArrayLike, published: bool = False) -> Bools:
    """Whether v-hat calls a landmark visible: > 0.5 in the paper, >= 0.5 in the published code."""
    values = np.asarray(probability, dtype=np.float64)
    return np.asarray(values >= 0.5 if published else values > 0.5)


def right(faces: LabelledFaces) -> Floats:
    """(n, k) whether v-hat is right; landmarks without one are wrong, NaN without a label."""
    v, classes = faces.needed("visibility"), faces.label_visibility
    correct = (is_called_visible(v) == (classes > 0)) & ~np.isnan(v)
    return np.where(classes >= 0, correct, np.nan)


def visible_and_hidden(faces: LabelledFaces) -> tuple[Floats, Bools]:
    """v-hat and v of the labelled landmarks, flat, where both kinds are there: one kind alone has
    no order to measure."""
    classes = faces.label_visibility
    if len(np.unique(classes[classes >= 0] > 0)) < 2:
        raise NotMeasured(
            f"this needs both visible and self-occluded labels: those of {faces.method} have one "
            "kind only."
        )
    score = faces.needed("visibility")
    known = (classes >= 0) & ~np.isnan(score)
    return score[known], np.asarray(classes[known] > 0)


def right_of_both_kinds(faces: LabelledFaces) -> Floats:
    """`right`, where both kinds of labels are there."""
    visible_and_hidden(faces)
    return right(faces)


def precision_of_hidden(faces: LabelledFaces) -> float:
    """Average precision of the self-occluded landmarks, which are the rare ones."""
    score, visible = visible_and_hidden(faces)
    return selective.average_precision(1.0 - score, ~visible)


def auroc_of_occlusion(faces: LabelledFaces) -> float:
    """Of externally occluded landmarks against unoccluded ones, by their predicted occlusion."""
    if not faces.faces.occlusion_trained:
        raise NotMeasured(f"{faces.method} does not predict occlusion.")
    classes, shown = faces.label_visibility, faces.visible
    return selective.auroc(faces.faces.occlusion[shown], classes[shown] == 2)
