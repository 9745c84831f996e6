"""The metrics: one line each puts a metric into metrics.json, terminal, reports and `compare`.

A metric is a function of `LabelledFaces`. What it returns decides how it is summarised:

| returns | summary |
|---|---|
| an array (n,) | the mean over faces, with a bootstrap interval; NaN: face not measured |
| an array (n, k) | the mean over all landmarks, faces drawn again; NaN: landmark not measured |
| the same, with `by` one of `GROUPINGS` | that of each group of landmarks, shown as a table |
| a number | itself, without an interval; NaN: left out |
| a mapping of numbers | one value for each key, shown as a table |

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
from luvli.evaluation import accuracy, distribution_scores, selective, uncertainty
from luvli.evaluation import face_metrics as measure
from luvli.evaluation.face_metrics import GROUPINGS, visible_and_hidden
from luvli.evaluation.labelled_faces import LabelledFaces

NORMALIZERS = {
    "box": "box", "interocular": "inter-ocular", "interpupil": "inter-pupil",
    "diagonal": "diagonal", "box_size": "box_size",
}  # fmt: skip
"""normalisers and what tables call them"""
CUTOFFS = (7, 8, 10)
"""percent: NME box, 300-W inter-ocular, WFLW"""
PER_BIN = (734, 36)
"""landmarks in one bin of Figure 4 of the paper, and of the remark below it"""
SUCCESS, BINS = 5.0, 15
"""percent of the box below which an alignment succeeded; ranges of confidence that are compared"""
SECTIONS = ("Accuracy", "Uncertainty", "Trust", "Visibility")


@dataclass(frozen=True)
class Metric:
    """One metric: its name, its unit, and how it is computed."""

    name: str
    """the key in metrics.json"""
    title: str
    unit: str
    function: Callable[[LabelledFaces], float | Floats | Mapping[str, float]]
    section: str = "Accuracy"
    better: Literal["lower", "higher"] | None = None
    digits: int = 2
    normalizer: str = ""
    """for the same metric under several normalisers: which"""
    by: str = ""
    """what its keys are: one of `GROUPINGS`, or of a mapping"""

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
_BY = {by.split()[0]: by for by in GROUPINGS}


def _beside(
    name: str, function: Callable[[Floats, Floats], float]
) -> Callable[[LabelledFaces], float]:
    """Of a function of the faces' `confidence` or `expected_error` and their errors."""
    return lambda faces: measure.beside_errors(faces, name, function)


def _accuracy(d: str) -> list[Metric]:
    """The metrics under the normaliser d."""
    own: dict[str, Any] = {"normalizer": d}
    n, mean = NORMALIZERS[d], accuracy.with_failures

    def of_errors(function: Callable[..., Any], *options: Any) -> Any:
        return lambda faces: function(faces.nme(d), *options)

    return [
        _lower(f"nme_{d}", f"NME_{n} (eq. 15)", "%", of_errors(mean), **own),
        _lower(f"nme_vis_{d}", f"NME_vis, {n} (eq. 20)", "%",
               lambda f: mean(f.nme(d, "visible")), **own),
        _lower(f"nme_predicted_{d}", f"NME_{n} of predicted faces", "%",
               of_errors(mean, np.nan), **own),
        *(_higher(f"auc{c}_{d}", f"AUC{c}, {n}", "%", of_errors(accuracy.area_of_each, c), **own)
          for c in CUTOFFS),
        *(_lower(f"fr{c}_{d}", f"FR{c}, {n}", "%", of_errors(accuracy.failures, c), **own)
          for c in CUTOFFS),
        *(_higher(f"auc{c}_polyline_{d}", f"AUC{c} as published, {n}", "%",
                  of_errors(accuracy.auc, c, "polyline"), **own)
          for c in CUTOFFS),
    ]  # fmt: skip


_LINES: tuple[Metric, ...] = (
    *(metric for normalizer in NORMALIZERS for metric in _accuracy(normalizer)),
    _higher("pck5", "PCK at 5 % of the box", "%", lambda f: accuracy.pck(f.landmark_errors())),
    *(Metric(f"error_by_{name}", "mean error", "% of the box",
             lambda f: accuracy.with_failures(f.landmark_errors()), by=by)
      for name, by in _BY.items()),
    *(Metric(f"coverage_{p}", f"labels inside the {p} % ellipse", "%",
             partial(measure.inside, level=p / 100), "Uncertainty")
      for p in (50, 68, 90, 95)),
    _lower("coverage_error", "calibration error of the ellipses (0 if right)", "",
           lambda f: uncertainty.coverage_curve(f.residuals).value, "Uncertainty", digits=4),
    Metric("coverage_bias", "coverage bias (below 0: ellipses too small)", "",
           lambda f: uncertainty.coverage_bias(f.residuals), "Uncertainty", digits=4),
    _lower("nll", "NLL, coordinates in box sizes", "nats",
           lambda f: uncertainty.negative_log_likelihood(f.residuals, f.box_size),
           **_UNCERTAINTY),
    _lower("nll_pixel", "NLL, coordinates in pixels", "nats",
           lambda f: uncertainty.negative_log_likelihood(f.residuals), **_UNCERTAINTY),
    _lower("nll_published", "NLL as the paper prints it (heat-map pixels, without log 2π)", "nats",
           measure.published_nll, "Uncertainty"),
    _lower("energy_score", "energy score", "% of the box",
           lambda f: measure.in_percent(f, distribution_scores.energy_score(f.residuals)),
           **_UNCERTAINTY),
    _lower("crps", "CRPS, mean of x and y", "% of the box",
           lambda f: measure.in_percent(f, distribution_scores.crps(f.residuals)), **_UNCERTAINTY),
    Metric("sharpness", "sharpness |Σ|^¼", "% of the box", measure.lengths, **_UNCERTAINTY),
    _lower("width_90", "radius of regions that hold 90 %", "% of the box",
           lambda f: distribution_scores.width_at_coverage(f.residuals.radii, measure.lengths(f)),
           **_UNCERTAINTY),
    _lower("kl", "KL(labels || predicted density), whitened (0 if right)", "nats",
           lambda f: uncertainty.whitened_kl(f.residuals), "Uncertainty", digits=4),
    _lower("kl_published", "KL sum as published: KL(density || labels) / bin area", "",
           lambda f: uncertainty.published_kl(f.residuals), "Uncertainty"),
    *(_higher(f"pearson_{count}", f"Pearson, {count} landmarks in a bin", "",
              partial(measure.binned_pearson, per_bin=count), "Uncertainty", by="entry of Σ")
      for count in PER_BIN),
    _higher("pearson_published", "Pearson, bins as published", "",
            partial(measure.binned_pearson, per_bin=PER_BIN[0], published=True), "Uncertainty",
            by="entry of Σ"),
    _higher("error_correlation", "Spearman, error and |Σ|^¼ of landmarks", "",
            measure.error_correlation, **_UNCERTAINTY),
    *(Metric(f"coverage_by_{name}", "inside the 90 % ellipse", "%",
             measure.inside, "Uncertainty", by=by, digits=1)
      for name, by in _BY.items()),
    _lower("aurc_face", "AURC of faces", "% of the box", measure.aurc, **_TRUST),
    Metric("aurc_face_best", "AURC of faces, best possible", "% of the box",
           partial(measure.aurc, best=True), **_TRUST),
    _higher("auroc_face", "AUROC of the uncertainty, faces", "",
            lambda f: {f"{c} %": selective.failure_auroc(f.nme(), measure.face_spread(f), c)
                       for c in CUTOFFS}, by="error above", **_TRUST),
    _higher("confidence_auroc", "AUROC of the confidence", "",
            _beside("confidence", lambda p, e: selective.auroc(1 - p, e >= SUCCESS)), **_TRUST),
    _lower("confidence_calibration_error", "calibration error of the confidence", "",
           _beside("confidence",
                   lambda p, e: selective.calibration_error(p, e < SUCCESS, BINS)), **_TRUST),
    _higher("confidence_gain_share", "gain in risk-coverage by confidence (1: the true order)", "",
            _beside("confidence", lambda p, e: selective.gain_share(e, 1 - p)), **_TRUST),
    Metric("expected_error", "mean expected error", "% of the box",
           _beside("expected_error", lambda x, e: float(x[np.isfinite(e)].mean())), **_TRUST),
    _higher("expected_error_gain_share", "gain in risk-coverage by expected error", "",
            _beside("expected_error", lambda x, e: selective.gain_share(e, x)), **_TRUST),
    _higher("visibility_accuracy", "accuracy of v̂ at 0.5", "",
            measure.right_of_both_kinds, **_VISIBILITY),
    _higher("visibility_auroc", "area under ROC of v̂", "",
            lambda f: selective.auroc(*visible_and_hidden(f)), **_VISIBILITY),
    _higher("visibility_ap_hidden", "average precision, hidden", "",
            measure.precision_of_hidden, **_VISIBILITY),
    _lower("visibility_brier", "Brier score of v̂", "",
           lambda f: selective.brier(*visible_and_hidden(f)), **_VISIBILITY),
    _lower("visibility_calibration_error", "calibration error of v̂", "",
           lambda f: selective.calibration_error(*visible_and_hidden(f)), **_VISIBILITY),
    _higher("occlusion_auroc", "area under ROC of occlusion, visible landmarks", "",
            measure.auroc_of_occlusion, **_VISIBILITY),
    Metric("landmarks_by_class", "landmarks", "",
           lambda f: {name: float(mask.sum())
                      for name, mask in measure.masks(f, "visibility class").items()},
           **_CLASS | {"digits": 0}),
    Metric("mean_visibility", "mean v̂", "", lambda f: f.needed("visibility"), **_CLASS),
    _higher("accuracy_by_class", "accuracy of v̂", "", measure.right, **_CLASS),
    Metric("spread_paper", "|Σ|^½", "px² of the paper's crop",
           lambda f: measure.located_spread(f, f.paper_pixel), **_CLASS | {"digits": 2}),
    Metric("spread_box", "|Σ|^½", "box², ×10⁻⁴",
           lambda f: measure.located_spread(f, f.box_size, 1e4), **_CLASS | {"digits": 2}),
)  # fmt: skip
METRICS = {metric.name: metric for metric in _LINES}
"""every metric by its name, in the order of reports; yours too: `METRICS["mine"] = Metric(...)`"""

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
    return METRICS[name.partition(".")[0]]
