"""What the registry measures, as functions of `LabelledFaces`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Bools, Floats
from luvli.evaluation import accuracy, selective, uncertainty, visibility
from luvli.evaluation.curve import Curve, NotMeasured
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.likelihood import covariance as algebra
from luvli.likelihood import family

PER_BIN = (734, 36)
"""landmarks in one bin of Figure 4 of the paper, and of the remark below it"""


class Pooled(NamedTuple):
    """Landmarks pooled over faces: the value is sum(sums) / sum(counts)."""

    sums: Floats
    """(n,)"""
    counts: Floats
    """(n,)"""

    @classmethod
    def of(cls, values: Floats) -> Pooled:
        """Of one value for each landmark (n, k), NaN where there is none."""
        known = ~np.isnan(values)
        return cls(np.where(known, values, 0.0).sum(axis=1), known.sum(axis=1) * 1.0)


# --- groups of landmarks -----------------------------------------------------------------


def _landmark_masks(faces: LabelledFaces) -> dict[str, Bools]:
    numbers = np.arange(faces.landmarks)
    names = [f"{j} {name}" for j, name in enumerate(faces.markup.names)] if faces.markup else []
    return {name: numbers == j for j, name in enumerate(names or map(str, numbers))}


def _part_masks(faces: LabelledFaces) -> dict[str, Bools]:
    groups = faces.markup.groups if faces.markup else {}
    return {name: np.isin(np.arange(faces.landmarks), g) for name, g in groups.items()}


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
    faces: LabelledFaces, values: Floats, by: str = "visibility class"
) -> dict[str, Pooled]:
    """Of values (n, k) those under each of `MASKS`, pooled; masks without a value are left out."""
    pooled = {
        name: Pooled.of(np.where(mask, values, np.nan)) for name, mask in MASKS[by](faces).items()
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
    """(n, k) 100 where the label lies inside the ellipse of this probability, NaN if unusable."""
    radius = face_radii(faces)
    limit = float(family(faces.likelihood).radius_quantile(level))
    return np.where(np.isnan(radius), np.nan, (radius <= limit) * 100.0)


def coverage(faces: LabelledFaces, level: float) -> Pooled:
    """Percent of the labels inside the ellipses of this probability."""
    return Pooled.of(inside(faces, level))


def coverage_by(faces: LabelledFaces, by: str) -> dict[str, Pooled]:
    """Percent of the labels inside the 90 % ellipses, by one of `MASKS`."""
    return pooled_by(faces, inside(faces, 0.9), by)


def nll(faces: LabelledFaces, scale: Floats | None, constant: bool = True) -> Pooled:
    """Nats of the labels, for coordinates in units of `scale` (n,)."""
    mean, spread, label, visible = faces.distribution
    return Pooled.of(
        uncertainty.negative_log_likelihood(
            mean, spread, label, faces.likelihood, visible, scale=scale, constant=constant
        )
    )


def published_nll(faces: LabelledFaces) -> Pooled:
    """In the paper's heat-map pixels, without log 2 pi."""
    if faces.paper_heatmap_pixel is None:
        raise NotMeasured("the crops of the paper are not known.")
    return nll(faces, faces.paper_heatmap_pixel, constant=False)


def face_residual_bins(
    faces: LabelledFaces, per_bin: int = PER_BIN[0], published: bool = False
) -> dict[str, Curve]:
    """Figure 4: see `uncertainty.residual_bins`; lengths in box sizes."""
    return uncertainty.residual_bins(
        *faces.distribution, scale=faces.box_size, per_bin=per_bin,
        discard=0.1 if published else 0.0, leftover="drop" if published else "share",
    )  # fmt: skip


def binned_pearson(faces: LabelledFaces, per_bin: int, published: bool = False) -> dict[str, float]:
    """Pearson's correlations of Figure 4, by the entry of the covariance."""
    return {k: bins.value for k, bins in face_residual_bins(faces, per_bin, published).items()}


def kl_divergence(faces: LabelledFaces, method: Literal["cells", "published"] = "cells") -> float:
    """Figure 7: see `uncertainty.whitened_kl`."""
    z = uncertainty.whitened(*faces.distribution)
    return uncertainty.whitened_kl(z, faces.likelihood, method=method)


def score(faces: LabelledFaces, function: Callable[..., Floats]) -> Pooled:
    """A score of `distribution_scores` in percent of the box."""
    mean, spread, label, visible = faces.distribution
    pixels = function(mean, spread, label, faces.likelihood, visible)
    return Pooled.of(pixels / faces.box_size[:, None] * 100.0)


def lengths(faces: LabelledFaces) -> Floats:
    """(n, k) |Sigma|^(1/4) of usable landmarks in percent of the box."""
    _, spread = uncertainty.residuals(*faces.distribution)
    return np.asarray(algebra.spread(spread) / faces.box_size[:, None] * 100)


def spread_by_class(faces: LabelledFaces, scale: Floats | None, factor: float) -> dict[str, Pooled]:
    """Mean |Sigma|^(1/2) in units of `scale` (n,): self-occluded landmarks have no location, so
    they have none. Empty without a scale."""
    area = uncertainty.spread_root(faces.distribution[1])
    if scale is None:
        return {}
    values = pooled_by(faces, area / scale[:, None] ** 2 * factor)
    return {name: value for name, value in values.items() if name != "self_occluded"}


# --- trust and visibility ----------------------------------------------------------------


def face_spread(faces: LabelledFaces) -> Floats:
    """(n,) predicted uncertainty of each face: the mean of |Sigma_j|^(1/4) over its landmarks,
    weighted by predicted visibility, in percent of the predicted landmarks' box (the true one is
    not known in use). Faces without a prediction are infinitely uncertain."""
    deviation = np.asarray(algebra.spread(faces.distribution[1]))
    weights = np.ones_like(deviation) if faces.visibility is None else faces.visibility
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (deviation * weights).sum(axis=1) / weights.sum(axis=1)
        value = mean / accuracy.normalizers(faces.points, "box") * 100.0
    return np.where(np.isfinite(value), value, np.inf)


def confidence(faces: LabelledFaces, key: str) -> float:
    """One of `selective.confidence_metrics`; NaN where the predictions do not have it."""
    p, expected = faces.faces.confidence, faces.faces.expected_error
    if np.isnan(p).all():
        raise NotMeasured(f"{faces.method} has no confidence.")
    known = None if np.isnan(expected).all() else expected
    measured = selective.confidence_metrics(p, faces.nme("box"), expected=known)
    return measured.get(key, float("nan"))


def two_classes(faces: LabelledFaces) -> tuple[Floats, NDArray[np.int8]]:
    """`visibility_pair` of faces with visible and self-occluded labels: one kind alone has no
    order to measure."""
    v, classes = faces.visibility_pair
    if len(np.unique(classes[classes >= 0] > 0)) < 2:
        raise NotMeasured(
            f"this needs both visible and self-occluded labels: those of {faces.method} have one "
            "kind only."
        )
    return v, classes


def right(faces: LabelledFaces) -> Floats:
    """(n, k) whether v-hat is right; landmarks without one are wrong, NaN without a label."""
    v, classes = faces.visibility_pair
    correct = (visibility.is_called_visible(v) == (classes > 0)) & ~np.isnan(v)
    return np.where(classes >= 0, correct, np.nan)
