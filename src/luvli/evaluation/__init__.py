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
from luvli.evaluation.accuracy import auc, ced, failure_rate, landmark_errors, mean_nme, nme, pck
from luvli.evaluation.bootstrap import bootstrap, paired_bootstrap

if TYPE_CHECKING:
    from luvli.evaluation.evaluate_model import predict_records
    from luvli.evaluation.labelled_faces import LabelledFaces
    from luvli.evaluation.metrics import compute_metrics

__all__ = [
    "LabelledFaces", "auc", "bootstrap", "ced", "compute_metrics", "failure_rate",
    "landmark_errors", "mean_nme", "nme", "paired_bootstrap", "pck", "predict_records",
]  # fmt: skip

__getattr__ = lazy(
    __name__,
    {
        "LabelledFaces": "labelled_faces",
        "compute_metrics": "metrics",
        "predict_records": "evaluate_model",
    },
)
