"""What the registry measures, as functions of `LabelledFaces`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from luvli.arrays import Bools, Floats
from luvli.evaluation import accuracy, distribution_scores, selective, uncertainty, visibility
from luvli.evaluation.curve import Curve
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.likelihood import LIKELIHOODS, family

CUTOFFS = (7, 8, 10)
"""percent: NME box, 300-W inter-ocular, WFLW"""
PER_BIN = (734, 36)
"""landmarks in one bin of Figure 4 of the paper, and of the remark below it"""


class Pooled(NamedTuple):
    """Landmarks pooled over faces: the value is sum(sums) / sum(counts)."""

    sums: Floats
    """(n,)"""
    counts: Floats
    """(n,)"""

    @classmethod
    def of(cls, values: Floats, factor: float = 1.0) -> Pooled:
        """Of one value for each landmark (n, k), NaN where there is none."""
        known = ~np.isnan(values)
        return cls(np.where(known, values, 0.0).sum(axis=1) * factor, known.sum(axis=1) * 1.0)


# --- accuracy ----------------------------------------------------------------------------


def failed(faces: LabelledFaces, d: str, cutoff: float) -> Floats:
    each = faces.nme(d)
    return np.where(np.isnan(each), np.nan, (each > cutoff) * 100.0)


def area(faces: LabelledFaces, d: str, cutoff: float) -> Floats:
    """(n,) what each face adds to the AUC under the normaliser d."""
    return accuracy.area_of_each(faces.nme(d), cutoff)


def polyline_area(faces: LabelledFaces, d: str, cutoff: float) -> float:
    """The AUC as published."""
    return accuracy.auc(faces.nme(d), cutoff, "polyline")


def median(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else float("nan")


# --- tables by landmark, part, class, size -----------------------------------------------


def _landmark_masks(faces: LabelledFaces) -> dict[str, Bools]:
    numbers = np.arange(faces.landmarks)
    names = faces.markup.names if faces.markup else [str(j) for j in numbers]
    return {name if name == str(j) else f"{j} {name}": numbers == j for j, name in enumerate(names)}


def _part_masks(faces: LabelledFaces) -> dict[str, Bools]:
    numbers = np.arange(faces.landmarks)
    groups = faces.markup.groups if faces.markup else {}
    return {name: np.isin(numbers, group) for name, group in groups.items()}


def class_masks(faces: LabelledFaces) -> dict[str, Bools]:
    """The columns of Table 9, and both visible classes pooled."""
    kinds = {"self_occluded": (0,), "unoccluded": (1,), "externally_occluded": (2,),
             "visible": (1, 2)}  # fmt: skip
    return {name: np.isin(faces.label_visibility, each) for name, each in kinds.items()}


def _size_masks(faces: LabelledFaces) -> dict[str, Bools]:
    """Thirds of the faces by the diagonal of their labels' tight box, in pixels."""
    size = accuracy.normalizers(faces.labels, "diagonal", faces.visible)
    if len(faces) < 6 or np.isnan(size).all():
        return {}
    low, high = np.nanquantile(size, (1 / 3, 2 / 3))
    return {
        f"up to {low:.0f} px": (size <= low)[:, None],
        f"{low:.0f} to {high:.0f} px": ((size > low) & (size <= high))[:, None],
        f"above {high:.0f} px": (size > high)[:, None],
    }


MASKS: dict[str, Callable[[LabelledFaces], dict[str, Bools]]] = {
    "landmark": _landmark_masks,
    "part of the face": _part_masks,
    "visibility class": class_masks,
    "face size": _size_masks,
}


def pooled_by(
    faces: LabelledFaces, values: Floats, by: str = "visibility class", factor: float = 1.0
) -> dict[str, Pooled]:
    """Of values (n, k) those under each mask, pooled; masks without a value are left out."""
    pooled = {
        name: Pooled.of(np.where(np.broadcast_to(mask, values.shape), values, np.nan), factor)
        for name, mask in MASKS[by](faces).items()
    }
    return {name: value for name, value in pooled.items() if value.counts.any()}


def errors_by(faces: LabelledFaces, by: str) -> dict[str, Pooled]:
    """Errors in percent of the box, by one of `MASKS`."""
    return pooled_by(faces, accuracy.with_failures(faces.landmark_errors()), by)


# --- uncertainty -------------------------------------------------------------------------


def face_radii(faces: LabelledFaces) -> Floats:
    """(n, k) Mahalanobis distances of the labels; NaN where unusable."""
    return uncertainty.radii(*faces.distribution)


def inside(faces: LabelledFaces, level: float) -> Floats:
    """(n, k) 1 where the label lies inside the ellipse of this probability, NaN if unusable."""
    radius = face_radii(faces)
    limit = float(family(faces.faces.likelihood).radius_quantile(level))
    return np.where(np.isnan(radius), np.nan, radius <= limit)


def coverage_at(faces: LabelledFaces, level: float) -> Pooled:
    """Percent of the labels inside the ellipses of this probability."""
    return Pooled.of(inside(faces, level), 100.0)


def coverage_by(faces: LabelledFaces, by: str) -> dict[str, Pooled]:
    """Percent of the labels inside the 90 % ellipses, by one of `MASKS`."""
    return pooled_by(faces, inside(faces, 0.9), by, 100.0)


def nll(
    faces: LabelledFaces, scale: Floats | None, likelihood: str = "", constant: bool = True
) -> Pooled:
    """Nats of the labels, in units of `scale` (n,), under the faces' own likelihood or another."""
    mean, spread, label, visible = faces.distribution
    name = likelihood or faces.faces.likelihood
    return Pooled.of(
        uncertainty.negative_log_likelihood(
            mean, spread, label, name, visible, scale=scale, constant=constant
        )
    )


def published_nll(faces: LabelledFaces) -> Pooled:
    if faces.paper_heatmap_pixel is None:
        return Pooled(np.zeros(len(faces)), np.zeros(len(faces)))
    return nll(faces, faces.paper_heatmap_pixel, constant=False)


def nll_by_density(faces: LabelledFaces) -> dict[str, Pooled]:
    names = dict.fromkeys((*LIKELIHOODS, faces.faces.likelihood))
    return {name: nll(faces, faces.box_size, name) for name in names}


def face_residual_bins(
    faces: LabelledFaces, per_bin: int = PER_BIN[0], published: bool = False
) -> dict[str, Curve]:
    """Figure 4: see `uncertainty.residual_bins`; lengths in box sizes."""
    return uncertainty.residual_bins(
        *faces.distribution, scale=faces.box_size, per_bin=per_bin,
        discard=0.1 if published else 0.0, leftover="drop" if published else "share",
    )  # fmt: skip


def binned_pearson(faces: LabelledFaces, per_bin: int, published: bool = False) -> dict[str, float]:
    return {k: bins.value for k, bins in face_residual_bins(faces, per_bin, published).items()}


def face_whitened_kl(
    faces: LabelledFaces, method: Literal["cells", "published"] = "cells"
) -> float:
    """Figure 7: see `uncertainty.whitened_kl`."""
    z = uncertainty.whitened(*faces.distribution)
    return uncertainty.whitened_kl(z, faces.faces.likelihood, method=method)


def score(faces: LabelledFaces, function: Callable[..., Floats]) -> Pooled:
    mean, spread, label, visible = faces.distribution
    pixels = function(mean, spread, label, faces.faces.likelihood, visible)
    return Pooled.of(pixels / faces.box_size[:, None], 100.0)


def lengths(faces: LabelledFaces) -> Floats:
    """(n, k) |Sigma|^(1/4) of usable landmarks in percent of the box."""
    usable = uncertainty.usable_landmarks(*faces.distribution)
    length = distribution_scores.sharpness(faces.faces.covariance, faces.box_size)
    return np.where(usable, length * 100, np.nan)


def width(faces: LabelledFaces, level: float) -> float:
    """See `distribution_scores.width_at_coverage`."""
    return distribution_scores.width_at_coverage(face_radii(faces), lengths(faces), level)


def short_axes(faces: LabelledFaces) -> Floats:
    return uncertainty.smallest_deviation(faces.faces.covariance, faces.paper_heatmap_pixel)


# --- trust -------------------------------------------------------------------------------


def face_spread(faces: LabelledFaces) -> Floats:
    """(n,) predicted uncertainty of each face: the mean of |Sigma_j|^(1/4) over its landmarks,
    weighted by predicted visibility, in percent of the predicted landmarks' box."""
    size = accuracy.normalizers(faces.points, "box")
    root = uncertainty.spread_root(faces.faces.covariance)
    return selective.face_uncertainty(root, size, faces.visibility)


def _risk(faces: LabelledFaces, of: str) -> tuple[Floats, Floats]:
    """What a wrong prediction costs and how uncertain it is, of faces or of landmarks."""
    if of == "face":
        return faces.nme("box"), face_spread(faces)
    size = accuracy.normalizers(faces.points, "box")
    return faces.landmark_errors("box"), distribution_scores.sharpness(faces.faces.covariance, size)


def aurc(faces: LabelledFaces, of: str, best: bool = False) -> float:
    risk, spread = _risk(faces, of)
    return selective.risk_coverage(risk, risk if best else spread).value


def error_auroc(faces: LabelledFaces, of: str) -> dict[str, float]:
    pair = _risk(faces, of)
    return {f"{c} %": selective.failure_auroc(*pair, c) for c in CUTOFFS}


def confidence(faces: LabelledFaces, key: str) -> float:
    expected = faces.faces.expected_error
    known = None if np.isnan(expected).all() else expected
    return selective.confidence_metrics(faces.faces.confidence, faces.nme("box"), expected=known)[
        key
    ]


# --- visibility --------------------------------------------------------------------------


def right(faces: LabelledFaces) -> Floats:
    """(n, k) whether v-hat is right; landmarks without one are wrong, NaN without a label."""
    v, classes = faces.visibility_pair
    correct = (visibility.is_called_visible(v) == (classes > 0)) & ~np.isnan(v)
    return np.where(classes >= 0, correct, np.nan)


def hidden_precision_recall(faces: LabelledFaces) -> Curve:
    """Of self-occluded landmarks: see `visibility.precision_recall`."""
    probability, classes = faces.visibility_pair
    return visibility.precision_recall(probability, classes, "hidden")


def spread_by_class(faces: LabelledFaces, unit: str) -> dict[str, Pooled]:
    """Mean |Sigma|^(1/2): self-occluded landmarks have no location, so they have none."""
    scale = {"pixel": np.ones(len(faces)), "box": faces.box_size, "paper": faces.paper_pixel}[unit]
    if scale is None:
        return {}
    area = uncertainty.spread_root(faces.faces.covariance) / scale[:, None] ** 2
    values = pooled_by(faces, area, factor=1e4 if unit == "box" else 1.0)
    return {name: value for name, value in values.items() if name != "self_occluded"}
