"""How far predicted landmarks are from the labels: NME, CED, AUC, failure rate.

All functions take whole test sets as arrays: `predicted` and `truth` are (n, k, 2) in the
same pixels, NaN in `truth` where there is no label. Two values are reserved in what they
return, so that nothing disappears silently:

- `inf`: the face has a label but no prediction (NaN at a visible landmark): a failure, worse
  than any threshold;
- `nan`: the face has nothing to measure against (no visible landmark, no normaliser).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Bools, Floats
from luvli.errors import InputError, unknown_choice
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
    """(n, k) error of each landmark in percent of d; NaN if unmeasured, inf if unpredicted."""
    found, points = _pair(predicted, truth)
    mask = measured(points, visible)
    length = _lengths(normalizer, points, visible, boxes, markup)
    distance = np.linalg.norm(found - points, axis=2)
    distance[~np.isfinite(distance)] = np.inf
    errors = distance / length[:, None] * 100.0
    errors[~mask] = np.nan
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
    values = np.asarray(errors, dtype=np.float64)
    known = ~np.isnan(values)
    if average == "all":
        count = np.full(len(values), values.shape[1])
    elif average == "visible":
        count = known.sum(axis=1)
    else:
        raise unknown_choice("average", average, ("all", "visible"))
    total = np.where(known, values, 0.0).sum(axis=1)
    measurable = known.any(axis=1)
    return np.where(measurable, total / np.maximum(count, 1), np.nan)


def mean_nme(errors: ArrayLike, failed: float = FAILED_NME) -> float:
    """Mean over faces; a face without prediction (inf) counts as `failed` percent.

    >>> mean_nme([2.0, 4.0, np.inf, np.nan])
    35.333333333333336
    """
    values = counted(errors, failed)
    return float(values.mean()) if len(values) else float("nan")


def counted(errors: ArrayLike, failed: float = FAILED_NME) -> Floats:
    """The errors of measurable faces, `inf` replaced by `failed`."""
    values = _measurable(errors)
    return np.where(np.isinf(values), failed, values)


class CED(NamedTuple):
    """Cumulative error distribution: `fraction[i]` of the faces have an NME <= `nme[i]`."""

    nme: Floats
    fraction: Floats


def ced(nme: ArrayLike) -> CED:
    """The steps of the cumulative error distribution, starting at (0, 0).

    Faces without a prediction never enter, so that the curve then ends below 1.
    """
    values = _measurable(nme)
    finite = np.sort(values[np.isfinite(values)])
    fraction = np.arange(len(finite) + 1) / max(len(values), 1)
    return CED(np.concatenate([[0.0], finite]), fraction)


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
    end = 1.0
    if last < len(x):
        # The line to a failed face (inf) is infinitely long: it does not rise.
        rise = (cutoff - x[last - 1]) / (x[last] - x[last - 1]) if np.isfinite(x[last]) else 0.0
        end = y[last - 1] + rise / len(x)
    x, y = np.append(x[:last], cutoff), np.append(y[:last], end)
    area = float(((x[1:] - x[:-1]) * (y[1:] + y[:-1]) / 2.0).sum())
    return area / cutoff * 100.0


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


def per_landmark(errors: ArrayLike, failed: float = FAILED_NME) -> Floats:
    """(k,) mean over faces of `landmark_errors`; unpredicted landmarks count as `failed`."""
    values = np.asarray(errors, dtype=np.float64)
    known = ~np.isnan(values)
    total = np.where(known, np.where(np.isinf(values), failed, values), 0.0).sum(axis=0)
    count = known.sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def per_group(
    errors: ArrayLike, markup: str | None = None, failed: float = FAILED_NME
) -> dict[str, float]:
    """Mean error of jaw, brows, nose, eyes, mouth: pooled over faces and landmarks."""
    values = np.asarray(errors, dtype=np.float64)
    groups: Mapping[str, tuple[int, ...]] = markup_for(values.shape[1], markup).groups
    result = {}
    for name, members in groups.items():
        pooled = counted(values[:, list(members)].ravel(), failed)
        result[name] = float(pooled.mean()) if len(pooled) else float("nan")
    return result


def _measurable(errors: ArrayLike) -> Floats:
    values = np.asarray(errors, dtype=np.float64)
    return values[~np.isnan(values)]


def _pair(predicted: ArrayLike, truth: ArrayLike) -> tuple[Floats, Floats]:
    found = np.asarray(predicted, dtype=np.float64)
    points = np.asarray(truth, dtype=np.float64)
    if points.ndim != 3 or points.shape[2] != 2:
        raise InputError(f"truth must have shape (n, k, 2), got {points.shape}.")
    if found.shape != points.shape:
        raise InputError(f"predicted must have the shape of truth {points.shape}: {found.shape}.")
    return found, points


def _lengths(
    normalizer: Normalizer | ArrayLike,
    truth: Floats,
    visible: ArrayLike | None,
    boxes: ArrayLike | None,
    markup: str | None,
) -> Floats:
    if isinstance(normalizer, str):
        return normalizers(truth, normalizer_name(normalizer), visible, boxes, markup)
    length = np.asarray(normalizer, dtype=np.float64)
    if length.shape != (len(truth),):
        raise InputError(f"normalizer must have shape ({len(truth)},), got {length.shape}.")
    return np.where(length > 0, length, np.nan)
