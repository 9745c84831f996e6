"""How far predicted landmarks are from the labels: NME, CED, AUC, failure rate.

All functions take whole test sets as arrays: `predicted` and `truth` are (n, k, 2) in the
same pixels, NaN in `truth` where there is no label. Two values are reserved in what they
return, so that nothing disappears silently:

- `inf`: the face has a label but no prediction (NaN at a visible landmark): a failure, worse
  than any threshold;
- `nan`: the face has nothing to measure against (no visible landmark, no normaliser).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Bools, Floats
from luvli.errors import InputError, unknown_choice
from luvli.evaluation.curve import Curve, trapezia
from luvli.markup import markup_for

Normalizer = Literal["box", "interocular", "interpupil", "diagonal"]
Average = Literal["all", "visible"]

NORMALIZERS: tuple[Normalizer, ...] = ("box", "interocular", "interpupil", "diagonal")
FAILED_NME = 100.0
"""percent that a face without a prediction counts in a mean: an error as large as the face"""


def normalizer_name(name: str) -> Normalizer:
    """The name of a normaliser, checked; the error for an unknown one lists the choices."""
    for known in NORMALIZERS:
        if name == known:
            return known
    raise unknown_choice("normalizer", name, NORMALIZERS)


def measured(truth: ArrayLike, visible: ArrayLike | None = None) -> Bools:
    """(n, k) the landmarks that can be measured: visible (v_j = 1) and with a location."""
    located = np.asarray(np.isfinite(np.asarray(truth, dtype=np.float64)).all(axis=-1))
    if visible is None:
        return located
    mask = np.asarray(visible)
    if mask.shape != located.shape:
        raise InputError(f"visible must have shape {located.shape}, got {mask.shape}.")
    return located & (mask > 0)


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
    kind: Normalizer,
    visible: ArrayLike | None = None,
    boxes: ArrayLike | None = None,
    markup: str | None = None,
) -> Floats:
    """(n,) the length d of eq. 15, in pixels; NaN where it cannot be had or is zero.

    "box" is sqrt(w h) and "diagonal" the diagonal of the given `boxes` (n, 4), or of the
    tight box of the labelled landmarks; "interocular" joins the outer eye corners,
    "interpupil" the means of the two eyes' landmarks.
    """
    points = np.asarray(truth, dtype=np.float64)
    if kind in ("box", "diagonal"):
        around = tight_boxes(points, visible) if boxes is None else np.asarray(boxes, np.float64)
        if around.shape != (len(points), 4):
            raise InputError(f"boxes must have shape ({len(points)}, 4), got {around.shape}.")
        width, height = (around[:, 2:] - around[:, :2]).T
        length = np.sqrt(width * height) if kind == "box" else np.hypot(width, height)
    elif kind in ("interocular", "interpupil"):
        chosen = markup_for(points.shape[1], markup)
        located = np.where(measured(points, visible)[..., None], points, np.nan)
        if kind == "interocular":
            right, left = (located[:, j] for j in chosen.outer_eye_corners)
        else:
            right, left = (located[:, list(eye)].mean(axis=1) for eye in chosen.eyes)
        length = np.linalg.norm(right - left, axis=1)
    else:
        raise unknown_choice("normalizer", kind, NORMALIZERS)
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
    guess, points = (np.asarray(a, dtype=np.float64) for a in (predicted, truth))
    if points.ndim != 3 or points.shape[2] != 2:
        raise InputError(f"truth must have shape (n, k, 2), got {points.shape}.")
    if guess.shape != points.shape:
        raise InputError(f"predicted must have the shape of truth {points.shape}: {guess.shape}.")
    if isinstance(normalizer, str):
        length = normalizers(points, normalizer_name(normalizer), visible, boxes, markup)
    else:
        length = np.asarray(normalizer, dtype=np.float64)
        if length.shape != (len(points),):
            raise InputError(f"normalizer must have shape ({len(points)},), got {length.shape}.")
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
    if average not in ("all", "visible"):
        raise unknown_choice("average", average, ("all", "visible"))
    values = np.asarray(errors, dtype=np.float64)
    known = ~np.isnan(values)
    visible = known.sum(axis=1)
    count = values.shape[1] if average == "all" else np.maximum(visible, 1)
    return np.where(visible > 0, np.where(known, values, 0.0).sum(axis=1) / count, np.nan)


def with_failures(errors: ArrayLike, failed: float = FAILED_NME) -> Floats:
    """The errors, `failed` percent where there is no prediction (inf)."""
    values = np.asarray(errors, dtype=np.float64)
    return np.where(np.isinf(values), failed, values)


def mean_nme(errors: ArrayLike, failed: float = FAILED_NME) -> float:
    """Mean over measurable faces; a face without prediction (inf) counts as `failed` percent.

    >>> mean_nme([2.0, 4.0, np.inf, np.nan])
    35.333333333333336
    """
    values = with_failures(_measurable(errors), failed)
    return float(values.mean()) if len(values) else float("nan")


def ced(nme: ArrayLike) -> Curve:
    """Cumulative error distribution, a step curve from (0, 0): a fraction y of the faces has an
    NME of at most x. Faces without a prediction never enter, so that it then ends below 1."""
    values = _measurable(nme)
    finite = np.sort(values[np.isfinite(values)])
    return Curve(np.append(0.0, finite), np.arange(len(finite) + 1) / max(len(values), 1))


def auc(nme: ArrayLike, cutoff: float = 7.0, method: Literal["step", "polyline"] = "step") -> float:
    """Area under the cumulative error distribution up to `cutoff` percent, in percent.

    "step" integrates the distribution exactly: mean(max(0, cutoff - NME)) / cutoff.
    "polyline" is the published arithmetic: straight lines through (NME_i, i / n), beginning
    at the smallest NME with no point at the origin.

    >>> auc([1.0, 3.0], cutoff=4.0)
    50.0
    """
    values = _measurable(nme)
    if not len(values):
        return float("nan")
    if method == "step":
        return float(area_of_each(values, cutoff).mean())
    if method != "polyline":
        raise unknown_choice("method", method, ("step", "polyline"))
    x = np.sort(values)
    y = np.arange(1, len(x) + 1) / len(x)
    last = int((x <= cutoff).sum())
    if last == 0:
        return 0.0
    # The line to a failed face (inf) is infinitely long: it does not rise.
    end = np.interp(cutoff, x[last - 1 : last + 1], y[last - 1 : last + 1])
    if last < len(x) and np.isinf(x[last]):
        end = y[last - 1]
    return trapezia(np.append(x[:last], cutoff), np.append(y[:last], end)) / cutoff * 100.0


def area_of_each(errors: ArrayLike, cutoff: float) -> Floats:
    """(n,) what each face adds to the exact AUC, in percent; their mean is the AUC."""
    return np.maximum(0.0, cutoff - np.asarray(errors, dtype=np.float64)) / cutoff * 100.0


def failure_rate(nme: ArrayLike, threshold: float = 10.0) -> float:
    """Percent of the measurable faces with NME > `threshold`, unpredicted faces among them.

    >>> failure_rate([2.0, 10.0, 11.0, np.inf])
    50.0
    """
    values = _measurable(nme)
    return float((values > threshold).mean() * 100.0) if len(values) else float("nan")


def pck(errors: ArrayLike, threshold: float = 5.0) -> Floats:
    """(n,) percent of a face's measured landmarks with an error of at most `threshold` percent;
    unpredicted ones are wrong, NaN where nothing is measured. `errors`: `landmark_errors` (n, k).

    >>> pck([[4.0, 6.0, np.nan, 5.0]]).round(2)
    array([66.67])
    """
    values = np.asarray(errors, dtype=np.float64)
    known = ~np.isnan(values)
    share = (known & (values <= threshold)).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return np.where(known.any(axis=1), share * 100.0, np.nan)


def _measurable(errors: ArrayLike) -> Floats:
    values = np.asarray(errors, dtype=np.float64)
    return values[~np.isnan(values)]
