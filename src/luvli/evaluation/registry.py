"""The metrics: one line each puts a metric into metrics.json, terminal, reports and `compare`.

A metric is a function of `LabelledFaces`. What it returns decides how it is summarised:

| returns | summary |
|---|---|
| an array (n,) | the mean over faces, with a bootstrap interval; NaN: face not measured |
| `Pooled` | sum of `sums` / sum of `counts`, faces drawn again |
| a number | itself, without an interval; NaN: left out |
| a mapping of these | one value for each key, shown as a table |

A function that asks the faces for what they do not have (covariances, visibility, eyes) raises
`NotMeasured`, and the metric is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from luvli.arrays import Floats
from luvli.evaluation import accuracy, distribution_scores, selective, uncertainty, visibility
from luvli.evaluation.face_metrics import (
    CUTOFFS,
    MASKS,
    PER_BIN,
    Pooled,
    binned_pearson,
    class_masks,
    confidence,
    coverage,
    coverage_by,
    errors_by,
    face_radii,
    lengths,
    nll,
    pooled_by,
    published_nll,
    right,
    risk,
    score,
    spread_by_class,
    two_classes,
    whitened_kl,
)
from luvli.evaluation.labelled_faces import LabelledFaces

NORMALIZERS = {
    "box": "box", "interocular": "inter-ocular", "interpupil": "inter-pupil",
    "diagonal": "diagonal", "box_size": "box_size",
}  # fmt: skip
"""normalisers and what tables call them"""
SECTIONS = ("Accuracy", "Uncertainty", "Trust", "Visibility")

Value = float | Floats | Pooled


@dataclass(frozen=True)
class Metric:
    """One metric: its name, its unit, and how it is computed."""

    name: str
    """the key in metrics.json"""
    title: str
    unit: str
    function: Callable[[LabelledFaces], Value | Mapping[str, Value]]
    section: str = "Accuracy"
    better: Literal["lower", "higher"] | None = None
    digits: int = 2
    normalizer: str = ""
    """for the same metric under several normalisers: which"""
    by: str = ""
    """for a mapping: what its keys are"""

    @property
    def heading(self) -> str:
        """Title and unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title


_lower = partial(Metric, better="lower")
_higher = partial(Metric, better="higher")
_UNCERTAINTY: dict[str, Any] = {"section": "Uncertainty", "digits": 3}
_TRUST: dict[str, Any] = {"section": "Trust", "digits": 3}
_VISIBILITY: dict[str, Any] = {"section": "Visibility", "digits": 4}
_CLASS: dict[str, Any] = {"section": "Visibility", "by": "visibility class", "digits": 3}
_BY = {by: by.split()[0] for by in MASKS}


def _accuracy(d: str) -> list[Metric]:
    """The metrics under the normaliser d."""
    own: dict[str, Any] = {"unit": "%", "normalizer": d}
    n, mean = NORMALIZERS[d], accuracy.with_failures

    def area(f: LabelledFaces, c: int) -> Floats:
        return accuracy.area_of_each(f.nme(d), c)

    def failed(f: LabelledFaces, c: int) -> Floats:
        each = f.nme(d)
        return np.where(np.isnan(each), np.nan, (each > c) * 100.0)

    def polyline(f: LabelledFaces, c: int) -> float:
        return accuracy.auc(f.nme(d), c, "polyline")

    return [
        _lower(f"nme_{d}", f"NME_{n} (eq. 15)", function=lambda f: mean(f.nme(d)), **own),
        _lower(f"nme_vis_{d}", f"NME_vis, {n} (eq. 20)",
               function=lambda f: mean(f.nme(d, "visible")), **own),
        _lower(f"nme_predicted_{d}", f"NME_{n} of predicted faces",
               function=lambda f: mean(f.nme(d), np.nan), **own),
        *(_higher(f"auc{c}_{d}", f"AUC{c}, {n}",
                  function=partial(area, c=c), **own)
          for c in CUTOFFS),
        *(_lower(f"fr{c}_{d}", f"FR{c}, {n}", function=partial(failed, c=c), **own)
          for c in CUTOFFS),
        *(_higher(f"auc{c}_polyline_{d}", f"AUC{c} as published, {n}",
                  function=partial(polyline, c=c), **own)
          for c in CUTOFFS),
    ]  # fmt: skip


def _risk_coverage(of: str) -> list[Metric]:
    def aurc(faces: LabelledFaces, best: bool = False) -> float:
        cost, spread = risk(faces, of)
        return selective.risk_coverage(cost, cost if best else spread).value

    def auroc(faces: LabelledFaces) -> dict[str, float]:
        pair = risk(faces, of)
        return {f"{c} %": selective.failure_auroc(*pair, c) for c in CUTOFFS}

    return [
        _lower(f"aurc_{of}", f"AURC of {of}s", "% of the box", aurc, **_TRUST),
        Metric(f"aurc_{of}_best", f"AURC of {of}s, best possible", "% of the box",
               partial(aurc, best=True), **_TRUST),
        _higher(f"auroc_{of}", f"AUROC of the uncertainty, {of}s", "", auroc, by="error above",
                **_TRUST),
    ]  # fmt: skip


METRICS: tuple[Metric, ...] = (
    *(metric for normalizer in NORMALIZERS for metric in _accuracy(normalizer)),
    _higher("pck5", "PCK at 5 % of the box", "%", lambda f: accuracy.pck(f.landmark_errors())),
    *(Metric(f"error_by_{name}", "mean error", "% of the box",
             partial(errors_by, by=by), by=by)
      for by, name in _BY.items()),
    *(Metric(f"coverage_{p}", f"labels inside the {p} % ellipse", "%",
             partial(coverage, level=p / 100), "Uncertainty")
      for p in (50, 68, 90, 95)),
    _lower("coverage_error", "calibration error of the ellipses (0 if right)", "",
           lambda f: uncertainty.coverage_curve(face_radii(f), f.likelihood).value,
           "Uncertainty", digits=4),
    Metric("coverage_bias", "coverage bias (below 0: ellipses too small)", "",
           lambda f: uncertainty.coverage_bias(face_radii(f), f.likelihood),
           "Uncertainty", digits=4),
    _lower("nll", "NLL, coordinates in box sizes", "nats", lambda f: nll(f, f.box_size),
           **_UNCERTAINTY),
    _lower("nll_pixel", "NLL, coordinates in pixels", "nats", lambda f: nll(f, None),
           **_UNCERTAINTY),
    _lower("nll_published", "NLL as the paper prints it (heat-map pixels, without log 2π)", "nats",
           published_nll, "Uncertainty"),
    _lower("energy_score", "energy score", "% of the box",
           lambda f: score(f, distribution_scores.energy_score), **_UNCERTAINTY),
    _lower("crps", "CRPS, mean of x and y", "% of the box",
           lambda f: score(f, distribution_scores.crps), **_UNCERTAINTY),
    Metric("sharpness", "sharpness |Σ|^¼", "% of the box", lambda f: Pooled.of(lengths(f)),
           **_UNCERTAINTY),
    _lower("width_90", "radius of regions that hold 90 %", "% of the box",
           lambda f: distribution_scores.width_at_coverage(face_radii(f), lengths(f), 0.9),
           **_UNCERTAINTY),
    _lower("kl", "KL(labels || predicted density), whitened (0 if right)", "nats", whitened_kl,
           "Uncertainty", digits=4),
    _lower("kl_published", "KL sum as published: KL(density || labels) / bin area", "",
           partial(whitened_kl, method="published"), "Uncertainty"),
    *(_higher(f"pearson_{count}", f"Pearson, {count} landmarks in a bin", "",
              partial(binned_pearson, per_bin=count), "Uncertainty", by="entry of Σ")
      for count in PER_BIN),
    _higher("pearson_published", "Pearson, bins as published", "",
            partial(binned_pearson, per_bin=PER_BIN[0], published=True), "Uncertainty",
            by="entry of Σ"),
    *(Metric(f"coverage_by_{name}", "inside the 90 % ellipse", "%",
             partial(coverage_by, by=by), "Uncertainty", by=by, digits=1)
      for by, name in _BY.items()),
    *_risk_coverage("face"),
    *_risk_coverage("landmark"),
    _higher("confidence_auroc", "AUROC of the confidence", "", partial(confidence, key="auroc"),
            **_TRUST),
    _lower("confidence_calibration_error", "calibration error of the confidence", "",
           partial(confidence, key="calibration_error"), **_TRUST),
    _higher("confidence_gain_share", "gain in risk-coverage by confidence (1: the true order)", "",
            partial(confidence, key="gain_share"), **_TRUST),
    Metric("expected_error", "mean expected error", "% of the box",
           partial(confidence, key="expected_error"), **_TRUST),
    _higher("expected_error_gain_share", "gain in risk-coverage by expected error", "",
            partial(confidence, key="gain_share_expected_error"), **_TRUST),
    _higher("visibility_accuracy", "accuracy of v̂ at 0.5", "",
            lambda f: Pooled.of(right(f)) if two_classes(f) else np.nan, **_VISIBILITY),
    _higher("visibility_auroc", "area under ROC of v̂", "",
            lambda f: visibility.roc(*two_classes(f)).value, **_VISIBILITY),
    _higher("visibility_ap_hidden", "average precision, hidden", "",
            lambda f: visibility.precision_recall(*two_classes(f), "hidden").value,
            **_VISIBILITY),
    _lower("visibility_brier", "Brier score of v̂", "",
           lambda f: visibility.brier(*two_classes(f)), **_VISIBILITY),
    _lower("visibility_calibration_error", "calibration error of v̂", "",
           lambda f: visibility.visibility_reliability(*two_classes(f)).value, **_VISIBILITY),
    Metric("landmarks_by_class", "landmarks", "",
           lambda f: {name: float(mask.sum()) for name, mask in class_masks(f).items()},
           **_CLASS | {"digits": 0}),
    Metric("mean_visibility", "mean v̂", "", lambda f: pooled_by(f, f.visibility_pair[0]),
           **_CLASS),
    _higher("accuracy_by_class", "accuracy of v̂", "", lambda f: pooled_by(f, right(f)), **_CLASS),
    Metric("spread_paper", "|Σ|^½", "px² of the paper's crop",
           lambda f: spread_by_class(f, f.paper_pixel, 1.0), **_CLASS | {"digits": 2}),
    Metric("spread_box", "|Σ|^½", "box², ×10⁻⁴",
           lambda f: spread_by_class(f, f.box_size, 1e4), **_CLASS | {"digits": 2}),
)  # fmt: skip
"""every metric, in the order of reports"""

QUOTED: dict[str, tuple[str, ...]] = {
    "": ("nme_box", "nme_vis_box", "auc7_box", "nme_interocular", "auc8_interocular",
         "fr8_interocular", "auc10_interocular", "fr10_interocular"),
    "w300": ("nme_interocular", "auc8_interocular", "fr8_interocular", "auc10_interocular",
             "fr10_interocular", "nme_box", "nme_vis_box", "auc7_box"),
    "wflw": ("nme_interocular", "auc10_interocular", "fr10_interocular", "nme_box",
             "nme_vis_box"),
    "cofw68": ("nme_box", "auc7_box", "nme_vis_box", "nme_interocular", "fr10_interocular"),
    "menpo": ("nme_box", "auc7_box", "nme_vis_box"),
    "aflw19": ("nme_diagonal", "nme_box_size", "nme_box", "auc7_box", "nme_vis_box"),
    "merl_rav": ("nme_box", "auc7_box", "nme_vis_box"),
}  # fmt: skip
"""data set -> what papers quote of it; "" for any other"""


def quoted(dataset: str) -> tuple[str, ...]:
    """The names of the metrics that papers quote of a data set."""
    return QUOTED.get(dataset, QUOTED[""])


def get_metric(name: str) -> Metric:
    """The metric with this name; of "error_by_part.jaw" the mapping's."""
    return next(metric for metric in METRICS if metric.name == name.partition(".")[0])
