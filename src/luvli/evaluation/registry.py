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
from typing import Any, Literal

import numpy as np

from luvli.arrays import Floats
from luvli.evaluation import accuracy, distribution_scores, uncertainty, visibility
from luvli.evaluation.curve import known_mean
from luvli.evaluation.face_metrics import (
    CUTOFFS,
    MASKS,
    PER_BIN,
    Pooled,
    area,
    aurc,
    binned_pearson,
    class_masks,
    confidence,
    coverage_at,
    coverage_by,
    error_auroc,
    errors_by,
    face_radii,
    face_whitened_kl,
    failed,
    hidden_precision_recall,
    lengths,
    median,
    nll,
    nll_by_density,
    polyline_area,
    pooled_by,
    published_nll,
    right,
    score,
    short_axes,
    spread_by_class,
    width,
)
from luvli.evaluation.labelled_faces import LabelledFaces

NORMALIZERS = {
    "box": "box", "interocular": "inter-ocular", "interpupil": "inter-pupil",
    "diagonal": "diagonal", "box_size": "box_size",
}  # fmt: skip
"""normalisers and what tables call them"""
SECTIONS = ("Accuracy", "Uncertainty", "Trust", "Visibility")

Value = float | Floats | Pooled
Needs = Literal["", "covariance", "visibility", "hidden", "confidence", "expected_error", "eyes",
                "box_size"]  # fmt: skip


@dataclass(frozen=True)
class Metric:
    """One metric: its name, its unit, which faces it applies to, and how it is computed."""

    name: str
    """the key in metrics.json"""
    title: str
    unit: str
    function: Callable[[LabelledFaces], Value | Mapping[str, Value]]
    section: str = "Accuracy"
    needs: Needs = ""
    """what the predictions or labels must have"""
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

    def applies(self, faces: LabelledFaces) -> bool:
        """Whether these faces have what the metric needs."""
        has_hidden = faces.visibility is not None and (faces.label_visibility == 0).any()
        return bool(
            {
                "": True,
                "covariance": faces.covariance is not None,
                "visibility": faces.visibility is not None,
                "hidden": has_hidden,
                "confidence": np.isfinite(faces.faces.confidence).any(),
                "expected_error": np.isfinite(faces.faces.expected_error).any()
                and np.isfinite(faces.faces.confidence).any(),
                "eyes": faces.markup is not None,
                "box_size": "box_size" in faces.lengths,
            }[self.needs]
        )


def _accuracy(d: str) -> list[Metric]:
    """The metrics under the normaliser d."""
    needs: dict[str, Needs] = {"interocular": "eyes", "interpupil": "eyes", "box_size": "box_size"}
    own = partial(Metric, unit="%", needs=needs.get(d, ""), normalizer=d, better="lower")
    n, mean = NORMALIZERS[d], accuracy.with_failures
    return [
        own(f"nme_{d}", f"NME_{n} (eq. 15)", function=lambda f: mean(f.nme(d))),
        own(f"nme_vis_{d}", f"NME_vis, {n} (eq. 20)", function=lambda f: mean(f.nme(d, "visible"))),
        own(f"nme_predicted_{d}", f"NME_{n} of predicted faces",
            function=lambda f: mean(f.nme(d), np.nan)),
        own(f"median_{d}", f"median NME, {n}", function=lambda f: median(mean(f.nme(d)))),
        *(own(f"auc{c}_{d}", f"AUC{c}, {n}", better="higher",
              function=partial(area, d=d, cutoff=c)) for c in CUTOFFS),
        *(own(f"fr{c}_{d}", f"FR{c}, {n}", function=partial(failed, d=d, cutoff=c))
          for c in CUTOFFS),
        *(own(f"auc{c}_polyline_{d}", f"AUC{c} as published, {n}", better="higher",
              function=partial(polyline_area, d=d, cutoff=c)) for c in CUTOFFS),
    ]  # fmt: skip


_sure = partial(Metric, section="Uncertainty", needs="covariance", digits=3)
_trust = partial(Metric, section="Trust", digits=3)
_confident = partial(_trust, needs="confidence")
_seen = partial(Metric, section="Visibility", needs="hidden", digits=4)
_BY = {by: by.split()[0] for by in MASKS}
_DOWN: dict[str, Any] = {"better": "lower"}
_UP: dict[str, Any] = {"better": "higher"}
_CLASS: dict[str, Any] = {"section": "Visibility", "by": "visibility class", "digits": 3}

METRICS: tuple[Metric, ...] = (
    *(metric for normalizer in NORMALIZERS for metric in _accuracy(normalizer)),
    Metric("pck5", "PCK at 5 % of the box", "%", lambda f: accuracy.pck(f.landmark_errors()),
           **_UP),
    *(Metric(f"error_by_{name}", "mean error", "% of the box",
             partial(errors_by, by=by), by=by)
      for by, name in _BY.items()),
    *(_sure(f"coverage_{p:g}", f"labels inside the {p:g} % ellipse", "%",
            partial(coverage_at, level=p / 100), digits=2)
      for p in (50, 68, 90, 95)),
    _sure("coverage_error", "calibration error of the ellipses (0 if right)", "",
          lambda f: uncertainty.coverage_curve(face_radii(f), f.faces.likelihood).value, digits=4,
          **_DOWN),
    _sure("coverage_bias", "coverage bias (below 0: ellipses too small)", "",
          lambda f: uncertainty.coverage_bias(face_radii(f), f.faces.likelihood), digits=4),
    _sure("nll", "NLL, coordinates in box sizes", "nats", lambda f: nll(f, f.box_size), **_DOWN),
    _sure("nll_pixel", "NLL, coordinates in pixels", "nats", lambda f: nll(f, None), **_DOWN),
    _sure("nll_published", "NLL as the paper prints it (heat-map pixels, without log 2π)", "nats",
          published_nll, digits=2, **_DOWN),
    _sure("energy_score", "energy score", "% of the box",
          lambda f: score(f, distribution_scores.energy_score), **_DOWN),
    _sure("crps", "CRPS, mean of x and y", "% of the box",
          lambda f: score(f, distribution_scores.crps), **_DOWN),
    _sure("sharpness", "sharpness |Σ|^¼", "% of the box", lambda f: Pooled.of(lengths(f))),
    *(_sure(f"width_{p:g}", f"radius of regions that hold {p:g} %", "% of the box",
            partial(width, level=p / 100), **_DOWN) for p in (50, 90)),
    _sure("kl", "KL(labels || predicted density), whitened (0 if right)", "nats", face_whitened_kl,
          digits=4, **_DOWN),
    _sure("kl_published", "KL sum as published: KL(density || labels) / bin area", "",
          lambda f: face_whitened_kl(f, "published"), digits=2, **_DOWN),
    _sure("short_axis", "median short half-axis of the ellipses", "heat-map px",
          lambda f: median(short_axes(f)), digits=2),
    _sure("short_axis_below_one", "short half-axes below one heat-map pixel", "%",
          lambda f: known_mean((short_axes(f) < 1.0) * 100.0), digits=1),
    _sure("nll_by_density", "NLL", "nats, box sizes", nll_by_density, by="density", **_DOWN),
    *(_sure(f"pearson_{count}", f"Pearson, {count} landmarks in a bin", "",
            partial(binned_pearson, per_bin=count), by="entry of Σ", digits=2, **_UP)
      for count in PER_BIN),
    _sure("pearson_published", "Pearson, bins as published", "",
          partial(binned_pearson, per_bin=PER_BIN[0], published=True), by="entry of Σ", digits=2,
          **_UP),
    *(_sure(f"coverage_by_{name}", "inside the 90 % ellipse", "%",
            partial(coverage_by, by=by), by=by, digits=1)
      for by, name in _BY.items()),
    *(metric for of in ("face", "landmark") for metric in (
        _trust(f"aurc_{of}", f"AURC of {of}s", "% of the box", partial(aurc, of=of),
               needs="covariance", **_DOWN),
        _trust(f"aurc_{of}_best", f"AURC of {of}s, best possible", "% of the box",
               partial(aurc, of=of, best=True), needs="covariance"),
        _trust(f"auroc_{of}", f"AUROC of the uncertainty, {of}s", "",
               partial(error_auroc, of=of), needs="covariance", by="error above", **_UP))),
    _confident("confidence_auroc", "AUROC of the confidence", "", partial(confidence, key="auroc"),
               **_UP),
    _confident("confidence_calibration_error", "calibration error of the confidence", "",
           partial(confidence, key="calibration_error"), **_DOWN),
    _confident("confidence_gain_share", "gain in risk-coverage by confidence (1: the true order)",
           "", partial(confidence, key="gain_share"), **_UP),
    _confident("confidence_failed", "faces with an error of 5 % of the box or more", "share",
           partial(confidence, key="failed")),
    _confident("confidence_mean", "mean confidence", "",
           partial(confidence, key="mean_confidence")),
    _trust("expected_error", "mean expected error", "% of the box",
           partial(confidence, key="expected_error"), needs="expected_error"),
    _trust("expected_error_gain_share", "gain in risk-coverage by expected error", "",
           partial(confidence, key="gain_share_expected_error"), needs="expected_error", **_UP),
    _seen("visibility_accuracy", "accuracy of v̂ at 0.5", "", lambda f: Pooled.of(right(f)),
          **_UP),
    _seen("visibility_auroc", "area under ROC of v̂", "",
          lambda f: visibility.roc(*f.visibility_pair).value, **_UP),
    _seen("visibility_ap", "average precision, visible", "",
          lambda f: visibility.precision_recall(*f.visibility_pair).value, **_UP),
    _seen("visibility_ap_hidden", "average precision, hidden", "",
          lambda f: hidden_precision_recall(f).value, **_UP),
    _seen("visibility_brier", "Brier score of v̂", "",
          lambda f: visibility.brier(*f.visibility_pair), **_DOWN),
    _seen("visibility_calibration_error", "calibration error of v̂", "",
          lambda f: visibility.visibility_reliability(*f.visibility_pair).value, **_DOWN),
    Metric("landmarks_by_class", "landmarks", "",
           lambda f: {name: float(mask.sum()) for name, mask in class_masks(f).items()},
           **{**_CLASS, "digits": 0}),
    Metric("mean_visibility", "mean v̂", "", lambda f: pooled_by(f, f.visibility_pair[0]),
           needs="visibility", **_CLASS),
    Metric("accuracy_by_class", "accuracy of v̂", "", lambda f: pooled_by(f, right(f)),
           needs="visibility", **_CLASS, **_UP),
    *(Metric(f"spread_{unit}", "|Σ|^½", title, partial(spread_by_class, unit=unit),
             needs="covariance", **{**_CLASS, "digits": 2})
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
