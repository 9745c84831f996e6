"""Metrics, tables, plots and reports for predicted face landmarks.

Pure functions on arrays: `predicted` and `truth` (n, k, 2) in the same pixels, `covariance`
(n, k, 2, 2), `visible` (n, k). `registry` lists the metrics, `plots` the figures.

>>> import numpy as np
>>> from luvli.evaluation import auc, nme
>>> truth = np.random.default_rng(0).uniform(0, 100, (3, 68, 2))
>>> errors = nme(truth + 1.0, truth, "interocular")
>>> auc(errors, 10.0) < 100.0
True
"""

from typing import TYPE_CHECKING

from luvli._lazy import lazy
from luvli.evaluation.bootstrap import bootstrap, paired_bootstrap

if TYPE_CHECKING:
    from luvli.evaluation.accuracy import (
        auc,
        ced,
        failure_rate,
        landmark_errors,
        mean_nme,
        nme,
        normalizers,
        pck,
    )
    from luvli.evaluation.curve import Curve
    from luvli.evaluation.labelled_faces import LabelledFaces, predict_records
    from luvli.evaluation.metrics import compute_metrics
    from luvli.evaluation.selective import failure_auroc, nme_by_rank, risk_coverage
    from luvli.evaluation.uncertainty import (
        coverage_curve,
        mean_ellipses,
        negative_log_likelihood,
        residual_bins,
        smallest_deviation,
        whitened,
        whitened_kl,
    )
    from luvli.evaluation.visibility import brier, precision_recall, roc, visibility_reliability

__all__ = [
    "Curve",
    "LabelledFaces",
    "auc",
    "bootstrap",
    "brier",
    "ced",
    "compute_metrics",
    "coverage_curve",
    "failure_auroc",
    "failure_rate",
    "landmark_errors",
    "mean_ellipses",
    "mean_nme",
    "negative_log_likelihood",
    "nme",
    "nme_by_rank",
    "normalizers",
    "paired_bootstrap",
    "pck",
    "precision_recall",
    "predict_records",
    "residual_bins",
    "risk_coverage",
    "roc",
    "smallest_deviation",
    "visibility_reliability",
    "whitened",
    "whitened_kl",
]

__getattr__ = lazy(
    __name__,
    {
        **dict.fromkeys(
            (
                "auc",
                "ced",
                "failure_rate",
                "landmark_errors",
                "mean_nme",
                "nme",
                "normalizers",
                "pck",
            ),
            "accuracy",
        ),
        "Curve": "curve",
        **dict.fromkeys(("LabelledFaces", "predict_records"), "labelled_faces"),
        "compute_metrics": "metrics",
        **dict.fromkeys(("failure_auroc", "nme_by_rank", "risk_coverage"), "selective"),
        **dict.fromkeys(
            (
                "coverage_curve",
                "mean_ellipses",
                "negative_log_likelihood",
                "residual_bins",
                "smallest_deviation",
                "whitened",
                "whitened_kl",
            ),
            "uncertainty",
        ),
        **dict.fromkeys(
            ("brier", "precision_recall", "roc", "visibility_reliability"), "visibility"
        ),
    },
)
