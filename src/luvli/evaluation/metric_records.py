"""What is measured, as typed records with one JSON form: the content of `metrics.json`.

NaN ("cannot be measured") is null in JSON and NaN again when it is read. A part that the
predictions do not allow (no covariance, no visibility) is None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, ValidationError

from luvli.errors import InputError
from luvli.files import PathLike, read_text

_FORMAT: Literal["luvli-metrics-2"] = "luvli-metrics-2"  # changes with what it can hold

Number = Annotated[
    float,
    BeforeValidator(lambda value: math.nan if value is None else value),
    PlainSerializer(lambda value: value if math.isfinite(value) else None, when_used="json"),
]
"""a float whose NaN and infinity are null in JSON"""

TrainedPart = Literal["covariance", "visibility"]
"""what a network may never have learnt"""


class MetricRecord(BaseModel):
    """Frozen, and strict about unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Interval(MetricRecord):
    """A value with its confidence interval; the ends are NaN for fewer than two faces.

    >>> Interval(value=2.0).model_dump_json()
    '{"value":2.0,"low":null,"high":null}'
    """

    value: Number
    low: Number = math.nan
    high: Number = math.nan

    def shifted(self, by: float) -> Interval:
        """The interval of the same quantity plus a constant."""
        return Interval(value=self.value + by, low=self.low + by, high=self.high + by)

    def scaled(self, by: float) -> Interval:
        """The interval of the same quantity times a positive constant."""
        return Interval(value=self.value * by, low=self.low * by, high=self.high * by)


class AccuracyMetrics(MetricRecord):
    """Errors under one normaliser, in percent of it; keys of the mappings are percent too."""

    nme: Interval
    """eq. 15: over all landmarks"""
    nme_visible: Interval
    """eq. 20: over the visible ones"""
    nme_predicted: Number
    """mean of the faces that have a prediction"""
    median: Number
    unmeasurable: int
    """faces that stand in no mean"""
    auc: dict[int, Interval]
    """exact area under the cumulative error distribution"""
    auc_polyline: dict[int, Number]
    """the same as the published code computes it"""
    failure_rate: dict[int, Interval]


class ClassMetrics(MetricRecord):
    """One column block of Table 9: the landmarks of one visibility class, pooled."""

    landmarks: int
    mean_visibility: Number | None = None
    accuracy: Number | None = None
    """share whose predicted visibility is right"""
    nme_box: Number | None = None
    """percent"""
    spread_pixel: Number | None = None
    """mean |Sigma|^(1/2) in pixels squared"""
    spread_box: Number | None = None
    """the same of Sigma / d^2"""
    spread_paper: Number | None = None
    """the same in squared pixels of the paper's 256-pixel crop"""


class UnitIntervals(MetricRecord):
    """One density's value in each unit: nats for coordinates measured in it."""

    pixel: Interval
    box: Interval
    paper: Interval | None = None
    """heat-map pixels of the paper: 64 across its crop"""


class LikelihoodMetrics(MetricRecord):
    """Mean negative log-likelihood per landmark under both densities (eq. 10, 12), and under the
    predictions' own."""

    laplace: UnitIntervals
    gauss: UnitIntervals
    calibrated: UnitIntervals | None = None
    """of the density that a calibration fitted, where it is neither of both"""
    published: Interval | None = None
    """of the predictions' own density, in the paper's heat-map pixels, without log 2 pi"""

    def densities(self, own: str) -> dict[str, UnitIntervals]:
        """All that there are by their names, if the predictions' `own` has this one."""
        found = {"laplace": self.laplace, "gauss": self.gauss}
        return found if self.calibrated is None else found | {own: self.calibrated}


class CorrelationMetrics(MetricRecord):
    """Pearson's coefficient of predicted and observed entries of Sigma (Figure 4)."""

    xx: Number
    yy: Number
    xy: Number


class CoverageMetrics(MetricRecord):
    """Whether the p-ellipses hold a share p of the labels."""

    error: Number
    """mean |observed - p| over all p"""
    bias: Number
    """mean of observed - p: below 0 the ellipses are too small"""
    at: dict[str, Number]
    """observed share at some levels p, by "0.5", "0.68", ..."""


class SmallestDeviation(MetricRecord):
    """Short half-axes of the ellipses (Figure 5)."""

    unit: Literal["pixel", "paper"]
    """pixels of the coordinates, or the paper's heat-map pixels"""
    median: Number
    below_one: Number


class DistributionScores(MetricRecord):
    """Proper scores and sharpness, in percent of the labels' box, landmarks pooled."""

    energy: Interval
    """energy score: calibration and sharpness in one, a length in the plane"""
    crps: Interval
    """mean of the CRPS of x and of y"""
    sharpness: Interval
    """|Sigma|^(1/4): how sure, right or not"""
    width: dict[str, Interval]
    """mean radius of regions that hold a share of the labels, by that share: "0.9", ..."""


class ConditionalCoverage(MetricRecord):
    """Share of the labels inside the 90 % ellipse under one condition."""

    kind: str
    """part, subset, occlusion, face size or landmark"""
    name: str
    landmarks: int
    coverage: Interval


class UncertaintyMetrics(MetricRecord):
    """Whether predicted covariances tell the truth about the errors."""

    likelihood: str
    """the density that the covariances are read as"""
    usable_landmarks: int
    nll: LikelihoodMetrics
    pearson: dict[int, CorrelationMetrics]
    """by the number of landmarks in a bin"""
    pearson_published: CorrelationMetrics
    kl: Number
    kl_published: Number
    coverage: CoverageMetrics
    scores: DistributionScores
    conditional: tuple[ConditionalCoverage, ...] = ()
    smallest_deviation: SmallestDeviation | None = None

    @property
    def own_nll(self) -> UnitIntervals:
        """Under the density that the covariances are read as."""
        return self.nll.densities(self.likelihood)[self.likelihood]


class SelectiveMetrics(MetricRecord):
    """Whether the uncertainty finds the predictions that are wrong."""

    aurc: Number
    """area under the risk-coverage curve, percent of the box"""
    best: Number
    """what sorting by the true error would give"""
    excess: Number
    auroc: dict[int, Number]
    """of errors above so many percent of the box"""


class ConfidenceMetrics(MetricRecord):
    """Whether the confidence finds the failed faces and means what it says."""

    faces: int
    success_below: Number
    """percent of the box: an alignment with a smaller mean error succeeded"""
    failed: Number
    """share of the faces"""
    mean_confidence: Number
    auroc: Number
    """chance that a failed face has the lower confidence; NaN without failures"""
    calibration_error: Number
    """expected |confidence - share of successes|"""
    gain_share: Number
    """share of the possible gain in risk-coverage"""
    gain_share_expected_error: Number = float("nan")
    """the same in the order of expected errors"""
    expected_error: Number = float("nan")
    error: Number = float("nan")
    """mean expected and real error, percent of the box"""


class VisibilityMetrics(MetricRecord):
    """Visible or self-occluded, as a detector."""

    landmarks: int
    unpredicted: int
    hidden: int
    accuracy: Number
    auroc: Number
    average_precision: Number
    average_precision_hidden: Number
    brier: Number
    calibration_error: Number


class SubsetMetrics(MetricRecord):
    """A named part of the test set."""

    faces: int
    accuracy: dict[str, AccuracyMetrics]


class EvaluationMetrics(MetricRecord):
    """Everything that was measured about one method on one test set."""

    format: Literal["luvli-metrics-2"] = _FORMAT
    method: str
    dataset: str
    subset: str
    markup: str | None
    faces: int
    landmarks: int
    """of each face"""
    visible_landmarks: int
    """of all faces"""
    failed: tuple[str, ...]
    """faces without a prediction"""
    unmeasurable: tuple[str, ...]
    """faces without a label to measure against"""
    untrained: tuple[str, ...] = ()
    """what the model never learnt, so that nothing is reported about it"""
    notes: tuple[str, ...] = ()
    accuracy: dict[str, AccuracyMetrics]
    """by normaliser"""
    per_landmark: list[Number]
    """percent of the box"""
    per_group: dict[str, Number] = {}
    classes: dict[str, ClassMetrics]
    uncertainty: UncertaintyMetrics | None = None
    selective: dict[str, SelectiveMetrics] = {}
    """per "face" and per "landmark"; empty without covariances"""
    confidence: ConfidenceMetrics | None = None
    visibility: VisibilityMetrics | None = None
    subsets: dict[str, SubsetMetrics] = {}

    def to_json(self) -> str:
        """For `metrics.json`."""
        return self.model_dump_json(indent=1) + "\n"

    @classmethod
    def read(cls, path: PathLike) -> EvaluationMetrics:
        """One `metrics.json`."""
        text = read_text(path)
        if f'"{_FORMAT}"' not in text:
            raise InputError(
                f"{path} is not a luvli report of this version: name a metrics.json or its "
                "folder, or evaluate again."
            )
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the top level"
            raise InputError(
                f"{path} is not a luvli report (at {place}: {first['msg'].lower()}): "
                "write the report again."
            ) from error


def find_metric(record: MetricRecord, path: str) -> float | None:
    """The number at a path like "accuracy.box.auc.7", or at the first of several joined by "|".

    Steps are fields of the records, or keys of their mappings. None where the record lacks
    that part; an unknown field is a mistake and raises `AttributeError`.

    >>> find_metric(SubsetMetrics(faces=3, accuracy={}), "faces"), find_metric(
    ...     SubsetMetrics(faces=3, accuracy={}), "accuracy.box.nme")
    (3.0, None)
    """
    for option in path.split("|"):
        place: Any = record
        for step in option.split("."):
            if isinstance(place, Mapping):
                place = place.get(int(step) if step.isdecimal() else step)
            elif place is not None:
                place = getattr(place, step)
        if isinstance(place, Interval):
            place = place.value
        if place is not None and math.isfinite(place):
            return float(place)
    return None
