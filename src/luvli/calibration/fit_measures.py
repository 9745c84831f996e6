"""Fits what `luvli.measures` needs of a model: correlation of errors, error bars, closed eyes."""

from __future__ import annotations

import numpy as np

from luvli.arrays import Floats
from luvli.errors import require
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.face_measures import eyes_openness, with_measures
from luvli.faces import Faces
from luvli.likelihood.covariance import inverse, square_root
from luvli.measures.calibration import EyesClosed, MeasureCalibration
from luvli.measures.correlation import fit_factors
from luvli.measures.head_pose import pose_classes
from luvli.measures.measure import Measure, definitions, eye_openness

MIN_POSE = 150
"""faces of a pose class that get factors of their own"""
MIN_MEASURED = 30
"""faces with labels of a measure from which its error bars are scaled"""
MIN_EYES = 50
"""faces with closed eyes, and with open ones, that the probability of closed eyes takes"""
RANK = 8
LEVELS = (0.68, 0.95)
"""coverages that the intervals of a measure are scaled to hold"""
CLOSED_SHARE = 0.3
"""share of faces with closed eyes that the probability is calibrated for"""
SLOPES = (1.0, 1000.0)
"""log-odds for each unit of openness to choose from: with more, its standard deviation decides"""
SHUT, OPEN = 0.1, 0.18
"""openness of labelled eyes below which they count as closed, and above which as open"""


def fit_measures(
    plain: LabelledFaces, shut: Faces | None = None, known: MeasureCalibration | None = None
) -> MeasureCalibration:
    """Error bars of measures, and the probability of closed eyes from faces whose labels say that
    their eyes are open or shut, and further `shut` ones; as `known` where these are too few."""
    measures = fit_error_bars(plain)
    eyes = labelled_eyes(plain.labels)
    closed = plain.faces[eyes == 1]
    if shut is not None:
        closed = Faces.concatenate([closed, shut])
    fitted = fit_eyes_closed(plain.faces[eyes == 0], closed, measures)
    if fitted is None and known is not None:
        fitted = known.eyes_closed
    return measures.model_copy(update={"eyes_closed": fitted})


def fit_error_bars(faces: LabelledFaces, rank: int = RANK) -> MeasureCalibration:
    """Correlation between landmarks by pose class, and the scale of every measure's deviation."""
    errors = upright_errors(faces)
    poses = pose_classes(faces.points)
    factors = {"all": fit_factors(errors, rank)}
    for pose in ("frontal", "half-profile", "profile"):
        if (poses == pose).sum() >= MIN_POSE:
            factors[pose] = fit_factors(errors[poses == pose], rank)
    rounded = {pose: np.round(each, 4).tolist() for pose, each in factors.items()}
    plain = MeasureCalibration(factors=rounded, faces=len(faces))
    scale = {}
    for name, (error, measure) in measure_errors(faces, plain).items():
        if len(error) >= MIN_MEASURED:
            needed = [np.quantile(np.abs(error) / reach(measure, p), p) for p in LEVELS]
            scale[name] = round(float(np.sqrt(np.prod(needed))), 4)
    return plain.model_copy(update={"scale": scale})


def upright_errors(labelled: LabelledFaces) -> Floats:
    """(n, k, 2) standardised errors Sigma^(-1/2) (label - point), turned upright with the face;
    NaN where there is no label."""
    faces = labelled.faces
    root = inverse(np.asarray(square_root(faces.covariance)))
    z = np.einsum("nkij,nkj->nki", root, labelled.labels - faces.points)
    cos, sin = np.cos(faces.roll), np.sin(faces.roll)
    turn = np.stack([cos, sin, -sin, cos], axis=-1).reshape(-1, 1, 2, 2)
    return np.asarray((turn @ z[..., None])[..., 0])


def measure_errors(
    labelled: LabelledFaces, calibration: MeasureCalibration
) -> dict[str, tuple[Floats, Measure]]:
    """For each measure (m,) differences of prediction and label, and the predicted measures, on the
    faces that label all its landmarks."""
    predicted = with_measures(labelled.faces, calibration).measures
    result = {}
    for each in definitions(labelled.faces.markup):
        known = np.isfinite(labelled.labels[:, list(each.landmarks)]).all(axis=(1, 2))
        truth = each.function(np.nan_to_num(labelled.labels[known]))
        measure = predicted[each.name][known]
        result[each.name] = (np.asarray(measure.value - truth), measure)
    return result


def reach(measure: Measure, coverage: float) -> Floats:
    """(n,) half the length of the intervals that should hold this share."""
    return np.asarray(measure.interval(coverage)[1] - measure.value)


def labelled_eyes(labels: Floats) -> Floats:
    """(n,) 1 where both eyes are labelled closed, 0 where both are labelled open, NaN elsewhere.

    `labels` (n, 68, 2); eyes of which a landmark has no label are neither.
    """
    both = np.stack([eye_openness(labels[:, 36:42]), eye_openness(labels[:, 42:48])])
    closed = np.full(len(labels), np.nan)
    closed[(both < SHUT).all(axis=0)] = 1.0
    closed[(both > OPEN).all(axis=0)] = 0.0
    return closed


def fit_eyes_closed(
    open_eyes: Faces, closed_eyes: Faces, calibration: MeasureCalibration
) -> EyesClosed | None:
    """A logistic function of openness, closed eyes weighted `CLOSED_SHARE`; None where there are
    too few faces of either class."""
    if min(len(open_eyes), len(closed_eyes)) < MIN_EYES:
        return None
    optimize = require("scipy.optimize", "calibrate")
    known = [with_measures(faces, calibration) for faces in (open_eyes, closed_eyes)]
    (opened, open_std), (closed, closed_std) = (
        eyes_openness(faces, faces.error_factors, calibration.scale) for faces in known
    )

    def model_of(state: Floats) -> EyesClosed:
        slope = float(np.exp(np.clip(state[1], *np.log(SLOPES))))
        return EyesClosed(threshold=round(float(state[0]), 4), slope=round(slope, 3))

    def loss(state: Floats) -> float:
        model = model_of(state)
        right = np.log(np.maximum(1 - model.probability(opened, open_std), 1e-9)).mean()
        found = np.log(np.maximum(model.probability(closed, closed_std), 1e-9)).mean()
        return float(-(1 - CLOSED_SHARE) * right - CLOSED_SHARE * found)

    start = [(np.median(opened) + np.median(closed)) / 2, np.log(40.0)]
    return model_of(optimize.minimize(loss, start, method="Nelder-Mead").x)
