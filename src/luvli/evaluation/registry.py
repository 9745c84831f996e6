"""The metrics: one line each puts a metric into metrics.json, terminal, reports and `compare`.

A metric is a function of `LabelledFaces`. What it returns decides how it is summarised:

| returns | summary |
|---|---|
| an array (n,) | the mean over faces, with a bootstrap interval; NaN: face not measured |
| `Pooled` | sum of `sums` / sum of `counts`, faces drawn again |
| a number | itself, without an interval |
| a mapping of these | one value for each key, shown as a table |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Bools, Floats
from luvli.evaluation import (
    accuracy,
    confidence,
    distribution_scores,
    selective,
    uncertainty,
    visibility,
)
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.pck import pck
from luvli.likelihood import family

CUTOFFS = (7, 8, 10)
"""percent: NME box, 300-W inter-ocular, WFLW"""
PER_BIN = (734, 36)
"""landmarks in one bin of Figure 4 of the paper, and of the remark below it"""
NORMALIZERS = {
    "box": "box", "interocular": "inter-ocular", "interpupil": "inter-pupil",
    "diagonal": "diagonal", "box_size": "box_size",
}  # fmt: skip
"""normalisers and what tables call them"""
SECTIONS = ("Accuracy", "Uncertainty", "Trust", "Visibility")
_CLASSES = {
    "self_occluded": (0,), "unoccluded": (1,), "externally_occluded": (2,), "visible": (1, 2),
}  # fmt: skip
"""the columns of Table 9, and both visible classes pooled"""


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


Value = float | Floats | Pooled
Needs = Literal["covariance", "visibility", "hidden labels", "confidence", "expected_error", "eyes"]


@dataclass(frozen=True)
class Metric:
    """One metric: its name, its unit, which faces it applies to, and how it is computed."""

    name: str
    """the key in metrics.json"""
    title: str
    unit: str
    function: Callable[[LabelledFaces], Value | Mapping[str, Value]]
    section: str = "Accuracy"
    needs: tuple[str, ...] = ()
    """what the predictions or labels must have (`Needs`, or "length:NAME")"""
    better: Literal["lower", "higher"] | None = None
    digits: int = 2
    normalizer: str = ""
    """for the same metric under several normalisers: which"""
    by: str = ""
    """for a mapping: what its keys are"""

    def applies(self, faces: LabelledFaces) -> bool:
        """Whether these faces have what the metric needs."""
        return all(_has(faces, need) for need in self.needs)


def _has(faces: LabelledFaces, need: str) -> bool:
    if need.startswith("length:"):
        return need.removeprefix("length:") in faces.lengths
    checks: dict[str, Callable[[], object]] = {
        "covariance": lambda: faces.covariance is not None,
        "visibility": lambda: faces.visibility is not None,
        "hidden labels": lambda: (faces.label_visibility == 0).any(),
        "confidence": lambda: np.isfinite(faces.faces.confidence).any(),
        "expected_error": lambda: np.isfinite(faces.faces.expected_error).any(),
        "eyes": lambda: faces.markup is not None,
    }
    return bool(checks[need]())


# --- accuracy ----------------------------------------------------------------------------


def _nme(faces: LabelledFaces, normalizer: str, average: accuracy.Average = "all") -> Floats:
    each = faces.nme(normalizer, average)
    return np.where(np.isinf(each), accuracy.FAILED_NME, each)


def _nme_predicted(faces: LabelledFaces, normalizer: str) -> Floats:
    each = faces.nme(normalizer)
    return np.where(np.isinf(each), np.nan, each)


def _median(faces: LabelledFaces, normalizer: str) -> float:
    each = _nme(faces, normalizer)
    return float(np.nanmedian(each)) if not np.isnan(each).all() else float("nan")


def _area(faces: LabelledFaces, normalizer: str, cutoff: float) -> Floats:
    return accuracy.area_of_each(faces.nme(normalizer), cutoff)


def _polyline(faces: LabelledFaces, normalizer: str, cutoff: float) -> float:
    return accuracy.auc(faces.nme(normalizer), cutoff, "polyline")


def _failures(faces: LabelledFaces, normalizer: str, cutoff: float) -> Floats:
    each = faces.nme(normalizer)
    return np.where(np.isnan(each), np.nan, (each > cutoff) * 100.0)


def _accuracy(normalizer: str) -> list[Metric]:
    needs = {"interocular": ("eyes",), "interpupil": ("eyes",), "box_size": ("length:box_size",)}
    of = partial(Metric, needs=needs.get(normalizer, ()), normalizer=normalizer)
    n = NORMALIZERS[normalizer]
    sub = "box" if normalizer == "box" else n
    return [
        of(f"nme_{normalizer}", f"NME_{sub} (eq. 15)", "%",
           partial(_nme, normalizer=normalizer), better="lower"),
        of(f"nme_vis_{normalizer}", f"NME_vis, {n} (eq. 20)", "%",
           partial(_nme, normalizer=normalizer, average="visible"), better="lower"),
        of(f"nme_predicted_{normalizer}", f"NME_{sub} of predicted faces", "%",
           partial(_nme_predicted, normalizer=normalizer), better="lower"),
        of(f"median_{normalizer}", f"median NME, {n}", "%",
           partial(_median, normalizer=normalizer), better="lower"),
        *(of(f"auc{c}_{normalizer}", f"AUC{c}, {n}", "%",
             partial(_area, normalizer=normalizer, cutoff=c), better="higher") for c in CUTOFFS),
        *(of(f"fr{c}_{normalizer}", f"FR{c}, {n}", "%",
             partial(_failures, normalizer=normalizer, cutoff=c), better="lower")
          for c in CUTOFFS),
        *(of(f"auc{c}_polyline_{normalizer}", f"AUC{c} as published, {n}", "%",
             partial(_polyline, normalizer=normalizer, cutoff=c), better="higher")
          for c in CUTOFFS),
    ]  # fmt: skip


# --- tables by landmark, part, class -----------------------------------------------------


def _by(values: Floats, masks: Mapping[str, Bools], factor: float = 1.0) -> dict[str, Value]:
    """Of values (n, k) those under each mask, pooled; masks without a value are left out."""
    pooled = {
        name: Pooled.of(np.where(np.broadcast_to(mask, values.shape), values, np.nan), factor)
        for name, mask in masks.items()
    }
    return {name: value for name, value in pooled.items() if value.counts.any()}


def _landmark_masks(faces: LabelledFaces) -> dict[str, Bools]:
    numbers = np.arange(faces.landmarks)
    names = faces.markup.names if faces.markup else [str(j) for j in numbers]
    return {name if name == str(j) else f"{j} {name}": numbers == j for j, name in enumerate(names)}


def _part_masks(faces: LabelledFaces) -> dict[str, Bools]:
    assert faces.markup is not None
    numbers = np.arange(faces.landmarks)
    return {name: np.isin(numbers, group) for name, group in faces.markup.groups.items()}


def _class_masks(faces: LabelledFaces) -> dict[str, Bools]:
    return {name: np.isin(faces.label_visibility, kinds) for name, kinds in _CLASSES.items()}


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


_MASKS: dict[str, Callable[[LabelledFaces], dict[str, Bools]]] = {
    "landmark": _landmark_masks,
    "part of the face": _part_masks,
    "visibility class": _class_masks,
    "face size": _size_masks,
}


def _errors_by(faces: LabelledFaces, by: str) -> dict[str, Value]:
    errors = faces.landmark_errors("box")
    errors[np.isinf(errors)] = accuracy.FAILED_NME
    return _by(errors, _MASKS[by](faces))


def _coverage_by(faces: LabelledFaces, by: str) -> dict[str, Value]:
    return _by(_inside(faces, 0.9), _MASKS[by](faces), 100.0)


def _visibility_by_class(faces: LabelledFaces, right: bool) -> dict[str, Value]:
    """Mean v-hat, or the share whose v-hat is right; landmarks without one are wrong."""
    assert faces.visibility is not None
    v = faces.visibility
    if not right:
        return _by(v, _class_masks(faces))
    called = visibility.is_called_visible(v)
    labelled = faces.label_visibility >= 0
    correct = (called == (faces.label_visibility > 0)) & ~np.isnan(v)
    return _by(np.where(labelled, correct, np.nan), _class_masks(faces))


def _spread_by_class(faces: LabelledFaces, unit: str) -> dict[str, Value]:
    """Mean |Sigma|^(1/2): self-occluded landmarks have no location, so they have none."""
    assert faces.covariance is not None
    scale = {"pixel": np.ones(len(faces)), "box": faces.box_size, "paper": faces.paper_pixel}[unit]
    if scale is None:
        return {}
    masks = _class_masks(faces)
    del masks["self_occluded"]
    factor = 1e4 if unit == "box" else 1.0
    return _by(uncertainty.spread_root(faces.covariance) / scale[:, None] ** 2, masks, factor)


def _landmarks_by_class(faces: LabelledFaces) -> dict[str, Value]:
    return {name: float(mask.sum()) for name, mask in _class_masks(faces).items()}


# --- uncertainty -------------------------------------------------------------------------


def _distribution(faces: LabelledFaces) -> tuple[Floats, Floats, Floats]:
    assert faces.covariance is not None
    return faces.points, faces.covariance, faces.labels


def _radii(faces: LabelledFaces) -> Floats:
    return uncertainty.radii(*_distribution(faces), faces.visible)


def _inside(faces: LabelledFaces, level: float) -> Floats:
    """(n, k) 1 where the label lies inside the ellipse of this probability, NaN if unusable."""
    radius = _radii(faces)
    limit = float(family(faces.faces.likelihood).radius_quantile(level))
    return np.where(np.isnan(radius), np.nan, radius <= limit)


def _coverage(faces: LabelledFaces, level: float) -> Pooled:
    return Pooled.of(_inside(faces, level), 100.0)


def _coverage_curve(faces: LabelledFaces) -> uncertainty.CoverageCurve:
    return uncertainty.coverage_curve(_radii(faces), faces.faces.likelihood)


def _nll(faces: LabelledFaces, unit: str, likelihood: str = "") -> Pooled:
    scale = {"pixel": None, "box": faces.box_size, "paper": faces.paper_heatmap_pixel}[unit]
    if unit == "paper" and scale is None:
        return Pooled(np.zeros(len(faces)), np.zeros(len(faces)))
    nats = uncertainty.negative_log_likelihood(
        *_distribution(faces), likelihood or faces.faces.likelihood, faces.visible,
        scale=scale, constant=unit != "paper",
    )  # fmt: skip
    return Pooled.of(nats)


def _nll_by_density(faces: LabelledFaces) -> dict[str, Value]:
    names = dict.fromkeys((*uncertainty.LIKELIHOODS, faces.faces.likelihood))
    return {name: _nll(faces, "box", name) for name in names}


def _pearson(faces: LabelledFaces, per_bin: int, published: bool = False) -> dict[str, Value]:
    bins = uncertainty.residual_bins(
        *_distribution(faces), faces.visible, scale=faces.box_size, per_bin=per_bin,
        discard=0.1 if published else 0.0, leftover="drop" if published else "share",
    )  # fmt: skip
    return {entry: points.pearson for entry, points in bins.items()}


def _kl(faces: LabelledFaces, method: Literal["cells", "published"]) -> float:
    z = uncertainty.whitened(*_distribution(faces), faces.visible)
    return uncertainty.whitened_kl(z, faces.faces.likelihood, method=method)


def _score(faces: LabelledFaces, function: Callable[..., Floats]) -> Pooled:
    pixels = function(*_distribution(faces), faces.faces.likelihood, faces.visible)
    return Pooled.of(pixels / faces.box_size[:, None], 100.0)


def _lengths(faces: LabelledFaces) -> Floats:
    """(n, k) |Sigma|^(1/4) of usable landmarks in percent of the box."""
    given = _distribution(faces)
    usable = uncertainty.usable_landmarks(*given, faces.visible)
    return np.where(usable, distribution_scores.sharpness(given[1], faces.box_size), np.nan) * 100


def _width(faces: LabelledFaces, level: float) -> float:
    return distribution_scores.width_at_coverage(_radii(faces), _lengths(faces), level)


def _short_axis(faces: LabelledFaces, below_one: bool) -> float:
    assert faces.covariance is not None
    values = uncertainty.smallest_deviation(faces.covariance, faces.paper_heatmap_pixel)
    if not len(values):
        return float("nan")
    return float(np.mean(values < 1.0) * 100 if below_one else np.median(values))


# --- trust -------------------------------------------------------------------------------


def face_spread(faces: LabelledFaces) -> Floats:
    """(n,) predicted uncertainty of each face: the mean of |Sigma_j|^(1/4) over its landmarks,
    weighted by predicted visibility, in percent of the predicted landmarks' box."""
    size = accuracy.normalizers(faces.points, "box")
    root = uncertainty.spread_root(_distribution(faces)[1])
    return selective.face_uncertainty(root, size, faces.visibility)


def _risk(faces: LabelledFaces, of: str) -> tuple[Floats, Floats]:
    """What a wrong prediction costs and how uncertain it is, of faces or of landmarks."""
    if of == "face":
        return faces.nme("box"), face_spread(faces)
    size = accuracy.normalizers(faces.points, "box")[:, None]
    lengths = np.sqrt(uncertainty.spread_root(_distribution(faces)[1])) / size
    return faces.landmark_errors("box").ravel(), lengths.ravel()


def _aurc(faces: LabelledFaces, of: str, best: bool = False) -> float:
    curve = selective.risk_coverage(*_risk(faces, of))
    return curve.best if best else curve.aurc


def _failure_auroc(faces: LabelledFaces, of: str) -> dict[str, Value]:
    pair = _risk(faces, of)
    return {f"{c} %": selective.failure_auroc(*pair, c) for c in CUTOFFS}


def _confidence(faces: LabelledFaces, key: str) -> float:
    expected = faces.faces.expected_error
    values = confidence.confidence_metrics(
        faces.faces.confidence,
        faces.nme("box"),
        expected=None if np.isnan(expected).all() else expected,
    )
    return float(values[key])


# --- visibility --------------------------------------------------------------------------


def _pair(faces: LabelledFaces) -> tuple[Floats, NDArray[np.int8]]:
    assert faces.visibility is not None
    return faces.visibility, faces.label_visibility


def _visibility_accuracy(faces: LabelledFaces) -> Pooled:
    v, classes = _pair(faces)
    correct = (visibility.is_called_visible(v) == (classes > 0)) & ~np.isnan(v)
    return Pooled.of(np.where(classes >= 0, correct, np.nan))


_SPREAD = ("covariance",)
_SEEN = ("visibility", "hidden labels")
_uncertain = partial(Metric, section="Uncertainty", needs=_SPREAD)
_trust = partial(Metric, section="Trust")
_sure = partial(Metric, section="Trust", needs=("confidence",), digits=3)
_seen = partial(Metric, section="Visibility", needs=_SEEN, digits=4)

METRICS: tuple[Metric, ...] = (
    *(metric for normalizer in NORMALIZERS for metric in _accuracy(normalizer)),
    Metric("pck5", "PCK at 5 % of the box", "%", pck, better="higher"),
    *(Metric(f"error_by_{by.split()[0]}", "mean error", "% of the box", partial(_errors_by, by=by),
             by=by, needs=("eyes",) if by == "part of the face" else ()) for by in _MASKS),
    *(_uncertain(f"coverage_{level * 100:g}", f"labels inside the {level * 100:g} % ellipse",
                 "%", partial(_coverage, level=level)) for level in (0.5, 0.68, 0.9, 0.95)),
    _uncertain("coverage_error", "calibration error of the ellipses (0 if right)", "",
               lambda f: _coverage_curve(f).error, better="lower", digits=4),
    _uncertain("coverage_bias", "coverage bias (below 0: ellipses too small)", "",
               lambda f: _coverage_curve(f).bias, digits=4),
    _uncertain("nll", "NLL, coordinates in box sizes", "nats", partial(_nll, unit="box"),
               better="lower", digits=3),
    _uncertain("nll_pixel", "NLL, coordinates in pixels", "nats", partial(_nll, unit="pixel"),
               better="lower", digits=3),
    _uncertain("nll_published", "NLL as the paper prints it (heat-map pixels, without log 2π)",
               "nats", partial(_nll, unit="paper"), better="lower"),
    _uncertain("energy_score", "energy score", "% of the box",
               partial(_score, function=distribution_scores.energy_score), better="lower",
               digits=3),
    _uncertain("crps", "CRPS, mean of x and y", "% of the box",
               partial(_score, function=distribution_scores.crps), better="lower", digits=3),
    _uncertain("sharpness", "sharpness |Σ|^¼", "% of the box", lambda f: Pooled.of(_lengths(f)),
               digits=3),
    *(_uncertain(f"width_{level * 100:g}",
                 f"radius of regions that hold {level * 100:g} %", "% of the box",
                 partial(_width, level=level), better="lower", digits=3) for level in (0.5, 0.9)),
    _uncertain("kl", "KL(labels || predicted density), whitened (0 if right)", "nats",
               partial(_kl, method="cells"), better="lower", digits=4),
    _uncertain("kl_published", "KL sum as published: KL(density || labels) / bin area", "",
               partial(_kl, method="published"), better="lower"),
    _uncertain("short_axis", "median short half-axis of the ellipses", "heat-map px",
               partial(_short_axis, below_one=False)),
    _uncertain("short_axis_below_one", "short half-axes below one heat-map pixel", "%",
               partial(_short_axis, below_one=True), digits=1),
    _uncertain("nll_by_density", "NLL", "nats, box sizes", _nll_by_density, by="density",
               better="lower", digits=3),
    *(_uncertain(f"pearson_{count}", f"Pearson, {count} landmarks in a bin", "",
                 partial(_pearson, per_bin=count), by="entry of Σ", better="higher")
      for count in PER_BIN),
    _uncertain("pearson_published", "Pearson, bins as published", "",
               partial(_pearson, per_bin=PER_BIN[0], published=True), by="entry of Σ",
               better="higher"),
    *(_uncertain(f"coverage_by_{by.split()[0]}", "inside the 90 % ellipse", "%",
                 partial(_coverage_by, by=by), by=by, digits=1,
                 needs=(*_SPREAD, "eyes") if by == "part of the face" else _SPREAD)
      for by in _MASKS),
    *(metric for of in ("face", "landmark") for metric in (
        _trust(f"aurc_{of}", f"AURC of {of}s", "% of the box", partial(_aurc, of=of),
               needs=_SPREAD, better="lower", digits=3),
        _trust(f"aurc_{of}_best", f"AURC of {of}s, best possible", "% of the box",
               partial(_aurc, of=of, best=True), needs=_SPREAD, digits=3),
        _trust(f"auroc_{of}", f"AUROC of the uncertainty, {of}s", "",
               partial(_failure_auroc, of=of), needs=_SPREAD, by="error above",
               better="higher", digits=3))),
    _sure("confidence_auroc", "AUROC of the confidence", "",
          partial(_confidence, key="auroc"), better="higher"),
    _sure("confidence_calibration_error", "calibration error of the confidence", "",
          partial(_confidence, key="calibration_error"), better="lower"),
    _sure("confidence_gain_share", "gain in risk-coverage by confidence (1: the true order)", "",
          partial(_confidence, key="gain_share"), better="higher"),
    _sure("confidence_failed", "faces with an error of 5 % of the box or more", "share",
          partial(_confidence, key="failed")),
    _sure("confidence_mean", "mean confidence", "", partial(_confidence, key="mean_confidence")),
    _sure("expected_error", "mean expected error", "% of the box",
          partial(_confidence, key="expected_error"), needs=("confidence", "expected_error")),
    _sure("expected_error_gain_share", "gain in risk-coverage by expected error", "",
          partial(_confidence, key="gain_share_expected_error"),
          needs=("confidence", "expected_error"), better="higher"),
    _seen("visibility_accuracy", "accuracy of v̂ at 0.5", "", _visibility_accuracy,
          better="higher"),
    _seen("visibility_auroc", "area under ROC of v̂", "",
          lambda f: visibility.roc(*_pair(f)).area, better="higher"),
    _seen("visibility_ap", "average precision, visible", "",
          lambda f: visibility.precision_recall(*_pair(f)).area, better="higher"),
    _seen("visibility_ap_hidden", "average precision, hidden", "",
          lambda f: visibility.precision_recall(*_pair(f), "hidden").area, better="higher"),
    _seen("visibility_brier", "Brier score of v̂", "", lambda f: visibility.brier(*_pair(f)),
          better="lower"),
    _seen("visibility_calibration_error", "calibration error of v̂", "",
          lambda f: visibility.visibility_reliability(*_pair(f)).error, better="lower"),
    Metric("landmarks_by_class", "landmarks", "", _landmarks_by_class, "Visibility",
           by="visibility class", digits=0),
    Metric("mean_visibility", "mean v̂", "", partial(_visibility_by_class, right=False),
           "Visibility", ("visibility",), by="visibility class", digits=3),
    Metric("accuracy_by_class", "accuracy of v̂", "", partial(_visibility_by_class, right=True),
           "Visibility", ("visibility",), "higher", by="visibility class", digits=3),
    *(Metric(f"spread_{unit}", "|Σ|^½", title, partial(_spread_by_class, unit=unit),
             "Visibility", _SPREAD, by="visibility class")
      for unit, title in (("pixel", "px²"), ("paper", "px² of the paper's crop"),
                          ("box", "box², ×10⁻⁴"))),
)  # fmt: skip
"""every metric, in the order of reports"""

_DEFAULT = (
    "nme_box", "nme_vis_box", "auc7_box", "nme_interocular", "auc8_interocular",
    "fr8_interocular", "auc10_interocular", "fr10_interocular",
)  # fmt: skip
QUOTED: dict[str, tuple[str, ...]] = {
    "w300": ("nme_interocular", "auc8_interocular", "fr8_interocular", "auc10_interocular",
             "fr10_interocular", "nme_box", "nme_vis_box", "auc7_box"),
    "wflw": ("nme_interocular", "auc10_interocular", "fr10_interocular", "nme_box",
             "nme_vis_box"),
    "cofw68": ("nme_box", "auc7_box", "nme_vis_box", "nme_interocular", "fr10_interocular"),
    "menpo": ("nme_box", "auc7_box", "nme_vis_box"),
    "aflw19": ("nme_diagonal", "nme_box_size", "nme_box", "auc7_box", "nme_vis_box"),
    "merl_rav": ("nme_box", "auc7_box", "nme_vis_box"),
}  # fmt: skip
"""data set -> what papers quote of it"""


def quoted(dataset: str) -> tuple[str, ...]:
    """The names of the metrics that papers quote of a data set."""
    return QUOTED.get(dataset, _DEFAULT)


def get_metric(name: str) -> Metric:
    """The metric with this name; of "error_by_part.jaw" the mapping's."""
    return next(metric for metric in METRICS if metric.name == name.partition(".")[0])
