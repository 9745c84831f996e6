"""How good a confidence is: does it find the failures, does it mean what it says, what is it worth?

`confidence` (n,) is a predicted probability of success, `error` (n,) what really happened, in
percent of the box, infinite where there was no face or no prediction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.evaluation.selective import risk_coverage
from luvli.evaluation.visibility import auroc

BINS = 15


class ConfidenceBins(NamedTuple):
    """Faces grouped by their confidence."""

    confidence: Floats
    """mean confidence of each group"""
    success: Floats
    """share that succeeded"""
    faces: NDArray[np.int64]

    @property
    def error(self) -> float:
        """Expected calibration error: mean |confidence - success|, weighted by faces."""
        return float(np.average(np.abs(self.confidence - self.success), weights=self.faces))


def confidence_bins(confidence: ArrayLike, success: ArrayLike, bins: int = BINS) -> ConfidenceBins:
    """Confidence against what happened, in `bins` intervals of equal width; empty ones left out.

    >>> confidence_bins([0.9, 0.9, 0.1, 0.1], [True, True, False, True]).error
    0.25
    """
    sure, good = np.asarray(confidence, dtype=np.float64), np.asarray(success, dtype=bool)
    if sure.shape != good.shape or not sure.size:
        raise InputError(f"{sure.size} confidences and {good.size} outcomes do not fit.")
    place = np.minimum((sure * bins).astype(np.int64), bins - 1)
    count = np.bincount(place, minlength=bins)
    used = count > 0
    return ConfidenceBins(
        np.bincount(place, sure, bins)[used] / count[used],
        np.bincount(place, good, bins)[used] / count[used],
        count[used],
    )


def gain_share(error: ArrayLike, uncertainty: ArrayLike) -> float:
    """What an order of the faces is worth: its share of the possible gain in risk-coverage.

    The area under the risk-coverage curve lies between that of a random order (0) and that of
    the true errors (1); worse than random is negative. Infinite errors are left out.

    >>> gain_share([1.0, 2.0, 6.0], [0.1, 0.2, 0.3])
    1.0
    """
    risk = np.asarray(error, dtype=np.float64)
    known = np.isfinite(risk)
    curve = risk_coverage(risk[known], np.asarray(uncertainty, dtype=np.float64)[known])
    random = float(risk[known].mean())
    return float((random - curve.aurc) / (random - curve.best))


def confidence_metrics(
    confidence: ArrayLike, error: ArrayLike, success: float = 5.0, expected: ArrayLike | None = None
) -> dict[str, float]:
    """AUROC between success and failure, calibration error, gain in risk-coverage.

    With `expected` (n,) errors in percent of the box, also how well these add up.
    """
    sure = np.asarray(confidence, dtype=np.float64)
    errors = np.asarray(error, dtype=np.float64)
    known = ~np.isnan(errors) & ~np.isnan(sure)
    sure, errors = sure[known], errors[known]
    failed = errors >= success
    result = {
        "faces": float(len(errors)),
        "success_below": success,
        "failed": float(failed.mean()),
        "mean_confidence": float(sure.mean()),
        "auroc": auroc(1 - sure, failed),
        "calibration_error": confidence_bins(sure, ~failed).error,
        "gain_share": gain_share(errors, 1 - sure),
    }
    if expected is not None:
        guess = np.asarray(expected, dtype=np.float64)[known]
        finite = np.isfinite(errors) & np.isfinite(guess)
        result["gain_share_expected_error"] = gain_share(errors, guess)
        result["expected_error"] = float(guess[finite].mean())
        result["error"] = float(errors[finite].mean())
    return result
