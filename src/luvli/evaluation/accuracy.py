"""How far predicted landmarks are from the labels: NME, CED, AUC, failure rate.

All functions take whole test sets as arrays: `predicted` and `truth` are (n, k, 2) in the
same pixels, NaN in `truth` where there is no label. Two values are reserved in what they
return, so that nothing disappears silently:

- `inf`: the face has a label but no prediction (NaN at a visible landmark): a failure, worse
  than any threshold;
- `nan`: the face has nothing to measure against (no visible landmark, no normaliser).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Bools, Floats
from luvli.errors import InputError, unknown_choice
from luvli.markup import markup_for

Normalizer = Literal["box", "interocular", "interpupil", "diagonal"]
Average = Literal["all", "visible"]

NORMALIZERS: tuple[Normalizer, ...] = get_args(Normalizer)
FAILED_NME = 100.0
"""percent that a face without a prediction counts in a mean: an error as large as the face"""


class NotMeasured(InputError):
    """A metric or figure needs what the predictions or labels do not have."""


class Curve(NamedTuple):
    """Points of a curve, or means of bins, and the one number that sums them up."""

    x: Floats
    y: Floats
    value: float = float("nan")
    """area, calibration error or correlation: the function that made the curve says which"""
    counts: NDArray[np.int64] | None = None
    """of bins: how many stand in each"""


def known_mean(values: Any, axis: int | None = None) -> Any:
    """Mean of what is not NaN, without a warning; NaN where there is nothing.

    >>> known_mean(np.array([[1.0, np.nan], [np.nan, np.nan]]), axis=1)
    array([ 1., nan])
    """
    array = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(array)
    with np.errstate(invalid="ignore"):
        mean = np.where(known, array, 0.0).sum(axis=axis) / known.sum(axis=axis)
    return float(mean) if mean.ndim == 0 else mean


def measured(truth: ArrayLike, visible: ArrayLike | None = None) -> Bools:
    """(n, k) the landmarks that can be measured: visible (v_j = 1) and with a location."""
    located = np.asarray(np.isfinite(np.asarray(truth, dtype=np.float64)).all(axis=-1))
    if visible is None:
        return located
    return located & (_shaped("visible", visible, located.shape) > 0)


def tight_boxes(truth: ArrayLike, visible: ArrayLike | None = None) -> Floats:
    """(n, 4) smallest boxes x0, y0, x1, y1 around the labelled landmarks; NaN if there are none."""
    points = np.asarray(truth, dtype=np.float64)
    mask = measured(points, visible)[..., None]
    low = np.where(mask, points, np.inf).min(axis=1)
    high = np.where(mask, points, -np.inf).max(axis=1)
    boxes = np.concatenate([low, high], axis=1)
    boxes[~mask.any(axis=(1, 2))] = np.nan
    return boxes


def normalizers(
    truth: ArrayLike,
    kind: str,
    visible: ArrayLike | None = None,
    boxes: ArrayLike | None = None,
    markup: str | None = None,
) -> Floats:
    """(n,) the length d of eq. 15, in pixels; NaN where it cannot be had or is zero.

    `kind` is a `Normalizer`: "box" is sqrt(w h) and "diagonal" the diagonal of the given `boxes`
    (n, 4), or of the tight box of the labelled landmarks; "interocular" joins the outer eye
    corners, "interpupil" the means of the two eyes' landmarks.
    """
    points = np.asarray(truth, dtype=np.float64)
    if kind not in NORMALIZERS:
        raise unknown_choice("normalizer", kind, NORMALIZERS)
    if kind in ("box", "diagonal"):
        around = tight_boxes(points, visible) if boxes is None else boxes
        around = _shaped("boxes", around, (len(points), 4))
        sides = around[:, 2:] - around[:, :2]
        length = np.sqrt(np.prod(sides, axis=1)) if kind == "box" else np.hypot(*sides.T)
    else:
        chosen = markup_for(points.shape[1], markup)
        corners = [[j] for j in chosen.outer_eye_corners]
        located = np.where(measured(points, visible)[..., None], points, np.nan)
        eyes = corners if kind == "interocular" else chosen.eyes
        right, left = (located[:, list(eye)].mean(axis=1) for eye in eyes)
        length = np.linalg.norm(right - left, axis=1)
    return np.asarray(np.where(length > 0, length, np.nan), dtype=np.float64)


def landmark_errors(
    predicted: ArrayLike,
    truth: ArrayLike,
    normalizer: Normalizer | ArrayLike = "box",
    visible: ArrayLike | None = None,
    *,
    boxes: ArrayLike | None = None,
    markup: str | None = None,
) -> Floats:
    """(n, k) error of each landmark in percent of d; NaN if unmeasured, inf if unpredicted.

    `normalizer` may be an array (n,) of lengths d.
    """
    points = np.asarray(truth, dtype=np.float64)
    points = _shaped("truth", points, (*points.shape[:2], 2))
    guess = _shaped("predicted", predicted, points.shape)
    if isinstance(normalizer, str):
        length = normalizers(points, normalizer, visible, boxes, markup)
    else:
        length = _shaped("normalizer", normalizer, (len(points),))
        length = np.where(length > 0, length, np.nan)
    distance = np.linalg.norm(guess - points, axis=2)
    distance[~np.isfinite(distance)] = np.inf
    errors = distance / length[:, None] * 100.0
    errors[~measured(points, visible)] = np.nan
    return np.asarray(errors)


def nme(
    predicted: ArrayLike,
    truth: ArrayLike,
    normalizer: Normalizer | ArrayLike = "box",
    visible: ArrayLike | None = None,
    average: Average = "all",
    *,
    boxes: ArrayLike | None = None,
    markup: str | None = None,
) -> Floats:
    """(n,) normalised mean error of each face in percent.

    `average` "all" divides by all k landmarks (eq. 15), "visible" by the visible ones
    (eq. 20). `visible` is (n, k), anything above 0 being visible; landmarks without a
    location are invisible in any case. `normalizer` may be an array (n,) of lengths.

    >>> truth = np.array([[[0.0, 0.0], [4.0, 0.0], [4.0, 1.0], [np.nan, np.nan]]])
    >>> predicted = truth + (0.0, 0.1)
    >>> nme(predicted, truth).round(6), nme(predicted, truth, average="visible").round(6)
    (array([3.75]), array([5.]))
    """
    errors = landmark_errors(predicted, truth, normalizer, visible, boxes=boxes, markup=markup)
    return average_errors(errors, average)


def average_errors(errors: ArrayLike, average: Average = "all") -> Floats:
    """(n,) from `landmark_errors` (n, k) to NME: eq. 15 ("all") or eq. 20 ("visible")."""
    if average not in get_args(Average):
        raise unknown_choice("average", average, get_args(Average))
    values = np.asarray(errors, dtype=np.float64)
    known = ~np.isnan(values)
    visible = known.sum(axis=1)
    count = values.shape[1] if average == "all" else np.maximum(visible, 1)
    return np.where(visible > 0, np.where(known, values, 0.0).sum(axis=1) / count, np.nan)


def with_failures(errors: ArrayLike, failed: float = FAILED_NME) -> Floats:
    """The errors, `failed` percent where there is no prediction (inf)."""
    values = np.asarray(errors, dtype=np.float64)
    return np.where(np.isinf(values), failed, values)


def mean_nme(errors: ArrayLike) -> float:
    """Mean over measurable faces; a face without prediction (inf) counts as 100 percent.

    >>> mean_nme([2.0, 4.0, np.inf, np.nan])
    35.333333333333336
    """
    return float(known_mean(with_failures(errors)))


def ced(nme: ArrayLike) -> Curve:
    """Cumulative error distribution, a step curve from (0, 0): a fraction y of the faces has an
    NME of at most x. Faces without a prediction never enter, so that it then ends below 1."""
    values = np.asarray(nme, dtype=np.float64)
    finite = np.sort(values[np.isfinite(values)])
    count = (~np.isnan(values)).sum()
    return Curve(np.append(0.0, finite), np.arange(len(finite) + 1) / max(count, 1))


def auc(nme: ArrayLike, cutoff: float = 7.0, method: Literal["step", "polyline"] = "step") -> float:
    """Area under the cumulative error distribution up to `cutoff` percent, in percent.

    "step" integrates the distribution exactly: mean(max(0, cutoff - NME)) / cutoff.
    "polyline" is the published arithmetic: straight lines through (NME_i, i / n), beginning
    at the smallest NME with no point at the origin.

    >>> auc([1.0, 3.0], cutoff=4.0)
    50.0
    """
    if method not in ("step", "polyline"):
        raise unknown_choice("method", method, ("step", "polyline"))
    values = np.asarray(nme, dtype=np.float64)
    x = np.sort(values[~np.isnan(values)])
    if method == "step" or not len(x):
        return float(known_mean(area_of_each(x, cutoff)))
    finite = x[np.isfinite(x)]
    y = np.arange(1, len(finite) + 1) / len(x)
    below = finite <= cutoff
    if not below.any():
        return 0.0
    ends = np.append(y[below], np.interp(cutoff, finite, y))  # level after the last prediction
    widths = np.diff(np.append(finite[below], cutoff))
    return float((widths * (ends[1:] + ends[:-1]) / 2.0).sum()) / cutoff * 100.0


def area_of_each(errors: ArrayLike, cutoff: float) -> Floats:
    """(n,) what each face adds to the exact AUC, in percent; their mean is the AUC."""
    return np.maximum(0.0, cutoff - np.asarray(errors, dtype=np.float64)) / cutoff * 100.0


def failures(errors: ArrayLike, threshold: float) -> Floats:
    """(n,) 100 where a face's NME is above `threshold` percent, else 0; NaN if unmeasurable."""
    values = np.asarray(errors, dtype=np.float64)
    return np.where(np.isnan(values), np.nan, (values > threshold) * 100.0)


def failure_rate(nme: ArrayLike, threshold: float = 10.0) -> float:
    """Percent of the measurable faces with NME > `threshold`, unpredicted faces among them.

    >>> failure_rate([2.0, 10.0, 11.0, np.inf])
    50.0
    """
    return float(known_mean(failures(nme, threshold)))


def pck(errors: ArrayLike, threshold: float = 5.0) -> Floats:
    """(n,) percent of a face's measured landmarks with an error of at most `threshold` percent;
    unpredicted ones are wrong, NaN where nothing is measured. `errors`: `landmark_errors` (n, k).

    >>> pck([[4.0, 6.0, np.nan, 5.0]]).round(2)
    array([66.67])
    """
    values = np.asarray(errors, dtype=np.float64)
    within = np.where(np.isnan(values), np.nan, (values <= threshold) * 100.0)
    return np.asarray(known_mean(within, axis=1))


def _shaped(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape:
        raise InputError(f"{name} must have shape {shape}, got {array.shape}.")
    return array
