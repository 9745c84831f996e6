"""Every metric that applies to a set of evaluated faces, as one record (`EvaluationMetrics`)."""

from __future__ import annotations

import math

import numpy as np

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.evaluation import (
    accuracy,
    confidence,
    distribution_scores,
    selective,
    uncertainty,
    visibility,
)
from luvli.evaluation.bootstrap import bootstrap_columns, bootstrap_width
from luvli.evaluation.conditional import all_conditions
from luvli.evaluation.evaluated_faces import EvaluatedFaces
from luvli.evaluation.metric_records import (
    AccuracyMetrics,
    ClassMetrics,
    ConfidenceMetrics,
    CorrelationMetrics,
    CoverageMetrics,
    DistributionScores,
    EvaluationMetrics,
    Interval,
    LikelihoodMetrics,
    SelectiveMetrics,
    SmallestDeviation,
    SubsetMetrics,
    UncertaintyMetrics,
    UnitIntervals,
    VisibilityMetrics,
)
from luvli.evaluation.uncertainty import LIKELIHOODS, LikelihoodName
from luvli.markup import Markup, is_markup, markup_by_size, markup_for

CUTOFFS = (7, 8, 10)
"""percent: NME box, 300-W inter-ocular, WFLW"""
COVERAGE_LEVELS = (0.5, 0.68, 0.9, 0.95)
"""probabilities of the ellipses whose coverage is listed"""
WIDTH_LEVELS = (0.5, 0.9)
"""shares of the labels at which widths are compared"""
PER_BIN = (734, 36)
"""landmarks in one bin of Figure 4 of the paper, and of the remark below it"""


def compute_metrics(
    faces: EvaluatedFaces, *, resamples: int = 1000, seed: int = 0
) -> EvaluationMetrics:
    """All metrics, with intervals from `resamples` draws of the faces."""
    if not len(faces):
        raise InputError("there are no faces to evaluate: check the data set and subset.")
    errors = box_errors(faces)
    each = accuracy.average_errors(errors)
    scale = box_scale(faces)
    spread = faces.covariance is not None
    hidden = faces.visibility is not None and (faces.classes == 0).any()
    return EvaluationMetrics(
        method=faces.method,
        dataset=faces.dataset,
        subset=faces.subset,
        markup=faces.markup,
        faces=len(faces),
        landmarks=faces.landmarks,
        visible_landmarks=int(faces.visible.sum()),
        failed=tuple(faces.names[i] for i in np.flatnonzero(faces.failed)),
        unmeasurable=tuple(faces.names[i] for i in np.flatnonzero(np.isnan(each))),
        untrained=faces.untrained,
        notes=faces.notes,
        accuracy=accuracies(faces, resamples, seed),
        per_landmark=accuracy.per_landmark(errors).tolist(),
        per_group=accuracy.per_group(errors, faces.markup) if known_markup(faces) else {},
        classes=_classes(faces, errors, scale),
        uncertainty=_uncertainties(faces, scale, resamples, seed) if spread else None,
        selective=_selective(faces, errors) if spread else {},
        confidence=_confidence(faces, each),
        visibility=_visibility(faces) if hidden else None,
        subsets={
            name: SubsetMetrics(faces=len(part), accuracy=accuracies(part, resamples, seed))
            for name, mask in faces.subsets.items()
            if len(part := faces.take(mask)) and not mask.all()
        },
    )


def box_errors(faces: EvaluatedFaces) -> Floats:
    """(n, k) landmark errors in percent of the box."""
    return accuracy.landmark_errors(
        faces.predicted, faces.truth, "box", faces.visible, boxes=faces.boxes
    )


def box_scale(faces: EvaluatedFaces) -> Floats:
    """(n,) sqrt(w h) of the labels' box, in pixels."""
    return accuracy.normalizers(faces.truth, "box", faces.visible, faces.boxes)


def predicted_scale(faces: EvaluatedFaces) -> Floats:
    """(n,) sqrt(w h) of the predicted landmarks' box: a size that is known without labels."""
    return accuracy.normalizers(faces.predicted, "box")


def face_spread(faces: EvaluatedFaces) -> Floats:
    """(n,) predicted uncertainty of each face in percent of its predicted size.

    Landmarks count by their predicted visibility, where there is one: the location of an
    invisible landmark means nothing.
    """
    assert faces.covariance is not None
    return selective.face_uncertainty(
        uncertainty.spread_root(faces.covariance), predicted_scale(faces), faces.visibility
    )


def normalizers_for(faces: EvaluatedFaces) -> list[accuracy.Normalizer]:
    """The normalisers that these faces allow: boxes always, eyes where the markup has them."""
    return list(accuracy.NORMALIZERS) if known_markup(faces) else ["box", "diagonal"]


def known_markup(faces: EvaluatedFaces) -> Markup | None:
    """The markup with its eyes and groups, or None for a point set of the user's own."""
    if faces.markup is not None:
        return markup_for(faces.landmarks, faces.markup) if is_markup(faces.markup) else None
    return markup_by_size(faces.landmarks)


def accuracies(faces: EvaluatedFaces, resamples: int, seed: int) -> dict[str, AccuracyMetrics]:
    """NME, AUC and failure rate under every normaliser, with intervals from one draw."""
    kinds: dict[str, accuracy.Normalizer | Floats] = {
        **{kind: kind for kind in normalizers_for(faces)},
        **faces.lengths,
    }
    errors = {
        kind: accuracy.landmark_errors(
            faces.predicted, faces.truth, normalizer, faces.visible,
            boxes=faces.boxes, markup=faces.markup,
        )
        for kind, normalizer in kinds.items()
    }  # fmt: skip
    means = {kind: accuracy.average_errors(values) for kind, values in errors.items()}
    kept = [kind for kind, each in means.items() if not np.isnan(each).all()]
    if not kept:
        return {}
    columns = []
    for kind in kept:
        each = means[kind]
        seen = accuracy.average_errors(errors[kind], "visible")
        columns += [failures_counted(each), failures_counted(seen)]
        columns += [accuracy.area_of_each(each, cutoff) for cutoff in CUTOFFS]
        columns += [failed_of_each(each, cutoff) for cutoff in CUTOFFS]
    drawn = iter(bootstrap_columns(np.stack(columns, axis=1), resamples=resamples, seed=seed))
    return {kind: _accuracy(means[kind], [next(drawn) for _ in range(8)]) for kind in kept}


def _accuracy(each: Floats, intervals: list[Interval]) -> AccuracyMetrics:
    located = each[np.isfinite(each)]
    return AccuracyMetrics(
        nme=intervals[0],
        nme_visible=intervals[1],
        nme_predicted=located.mean() if len(located) else math.nan,
        median=np.nanmedian(failures_counted(each)),
        unmeasurable=int(np.isnan(each).sum()),
        auc=dict(zip(CUTOFFS, intervals[2:5], strict=True)),
        auc_polyline={cutoff: accuracy.auc(each, cutoff, "polyline") for cutoff in CUTOFFS},
        failure_rate=dict(zip(CUTOFFS, intervals[5:], strict=True)),
    )


def failures_counted(each: Floats) -> Floats:
    """NME of each face (n,) with `FAILED_NME` for those without a prediction (inf)."""
    return np.where(np.isinf(each), accuracy.FAILED_NME, each)


def failed_of_each(each: Floats, threshold: float) -> Floats:
    """(n,) 100 for a failed face, else 0: their mean is the failure rate; NaN stays."""
    return np.where(np.isnan(each), np.nan, (each > threshold) * 100.0)


def _classes(faces: EvaluatedFaces, errors: Floats, scale: Floats) -> dict[str, ClassMetrics]:
    if faces.covariance is None:
        return visibility.visibility_classes(faces.classes, faces.visibility, errors)
    root = uncertainty.spread_root(faces.covariance)
    paper = None if faces.paper_pixel is None else root / faces.paper_pixel[:, None] ** 2
    return visibility.visibility_classes(
        faces.classes, faces.visibility, errors,
        spread_pixel=root, spread_box=root / scale[:, None] ** 2, spread_paper=paper,
    )  # fmt: skip


def _uncertainties(
    faces: EvaluatedFaces, scale: Floats, resamples: int, seed: int
) -> UncertaintyMetrics:
    assert faces.covariance is not None
    likelihood = faces.likelihood
    given = (faces.predicted, faces.covariance, faces.truth)
    z = uncertainty.whitened(*given, faces.visible)
    curve = uncertainty.coverage_curve(uncertainty.radii(*given, faces.visible), likelihood)
    bins = {
        per_bin: uncertainty.residual_bins(*given, faces.visible, scale=scale, per_bin=per_bin)
        for per_bin in PER_BIN
    }
    published = uncertainty.residual_bins(
        *given, faces.visible, scale=scale, discard=0.1, leftover="drop"
    )
    return UncertaintyMetrics(
        likelihood=likelihood,
        usable_landmarks=len(z),
        nll=_likelihoods(faces, scale, resamples, seed),
        pearson={per_bin: _correlations(entries) for per_bin, entries in bins.items()},
        pearson_published=_correlations(published),
        kl=uncertainty.whitened_kl(z, likelihood),
        kl_published=uncertainty.whitened_kl(z, likelihood, method="published"),
        coverage=CoverageMetrics(
            error=curve.error,
            bias=curve.bias,
            at={
                f"{level:g}": float(np.interp(level, curve.wanted, curve.observed))
                for level in COVERAGE_LEVELS
            },
        ),
        scores=_scores(faces, scale, resamples, seed),
        conditional=tuple(all_conditions(faces, resamples, seed)),
        smallest_deviation=_smallest_deviation(faces),
    )


def _scores(faces: EvaluatedFaces, scale: Floats, resamples: int, seed: int) -> DistributionScores:
    """Scores in percent of the box; faces are drawn again, landmarks pooled."""
    assert faces.covariance is not None
    given = (faces.predicted, faces.covariance, faces.truth)
    usable = uncertainty.usable_landmarks(*given, faces.visible)
    length = np.where(usable, distribution_scores.sharpness(faces.covariance, scale), np.nan) * 100
    percent = 100.0 / scale[:, None]
    columns = [
        distribution_scores.energy_score(*given, faces.likelihood, faces.visible) * percent,
        distribution_scores.crps(*given, faces.likelihood, faces.visible) * percent,
        length,
    ]
    sums = np.stack([np.nansum(values, axis=1) for values in columns], axis=1)
    counts = np.stack([(~np.isnan(values)).sum(axis=1) for values in columns], axis=1)
    energy, crps, sharp = bootstrap_columns(sums, counts, resamples=resamples, seed=seed)
    radius = uncertainty.radii(*given, faces.visible)
    width = {
        f"{level:g}": bootstrap_width(
            radius, length, level, faces.likelihood, resamples=resamples, seed=seed
        )
        for level in WIDTH_LEVELS
    }
    return DistributionScores(energy=energy, crps=crps, sharpness=sharp, width=width)


def _correlations(bins: dict[str, uncertainty.ResidualBins]) -> CorrelationMetrics:
    return CorrelationMetrics(**{entry: points.pearson for entry, points in bins.items()})


def _smallest_deviation(faces: EvaluatedFaces) -> SmallestDeviation | None:
    assert faces.covariance is not None
    values = uncertainty.smallest_deviation(faces.covariance, faces.paper_heatmap_pixel)
    if not len(values):
        return None
    return SmallestDeviation(
        unit="pixel" if faces.paper_pixel is None else "paper",
        median=float(np.median(values)),
        below_one=float(np.mean(values < 1.0)),
    )


def _likelihoods(
    faces: EvaluatedFaces, scale: Floats, resamples: int, seed: int
) -> LikelihoodMetrics:
    """Mean negative log-likelihoods per landmark; images are drawn again, landmarks pooled."""
    assert faces.covariance is not None
    units: dict[str, Floats] = {"pixel": np.ones(len(faces)), "box": scale}
    if faces.paper_heatmap_pixel is not None:
        units["paper"] = faces.paper_heatmap_pixel
    nats = []
    names = list(dict.fromkeys([*LIKELIHOODS, faces.likelihood]))
    for name in names:
        pixel = uncertainty.negative_log_likelihood(
            faces.predicted, faces.covariance, faces.truth, name, faces.visible
        )
        nats += [pixel - 2.0 * np.log(unit)[:, None] for unit in units.values()]
    known = [~np.isnan(values) for values in nats]
    sums = [np.where(k, v, 0.0).sum(axis=1) for k, v in zip(known, nats, strict=True)]
    counts = [k.sum(axis=1) for k in known]
    drawn = iter(
        bootstrap_columns(
            np.stack(sums, axis=1), np.stack(counts, axis=1), resamples=resamples, seed=seed
        )
    )
    found: dict[LikelihoodName, UnitIntervals] = {
        name: UnitIntervals(**{unit: next(drawn) for unit in units}) for name in names
    }
    own = found[faces.likelihood].paper
    return LikelihoodMetrics(
        laplace=found["laplace"],
        gauss=found["gauss"],
        calibrated=None if faces.likelihood in LIKELIHOODS else found[faces.likelihood],
        published=None if own is None else own.shifted(-math.log(2.0 * math.pi)),
    )


def _confidence(faces: EvaluatedFaces, each: Floats) -> ConfidenceMetrics | None:
    """The confidence against what happened; None where there is none."""
    if faces.confidence is None or not np.isfinite(faces.confidence[~np.isnan(each)]).any():
        return None
    found = confidence.confidence_metrics(faces.confidence, each, expected=faces.expected_error)
    return ConfidenceMetrics.model_validate(found)


def _selective(faces: EvaluatedFaces, errors: Floats) -> dict[str, SelectiveMetrics]:
    """Failure detection per face (NME box) and per landmark (its error)."""
    assert faces.covariance is not None
    each = accuracy.average_errors(errors)
    size = predicted_scale(faces)
    lengths = np.sqrt(uncertainty.spread_root(faces.covariance)) / size[:, None] * 100.0
    result = {}
    for name, risk, spread in (
        ("face", each, face_spread(faces)),
        ("landmark", errors.ravel(), lengths.ravel()),
    ):
        curve = selective.risk_coverage(risk, spread)
        result[name] = SelectiveMetrics(
            aurc=curve.aurc,
            best=curve.best,
            excess=curve.excess,
            auroc={cutoff: selective.failure_auroc(risk, spread, cutoff) for cutoff in CUTOFFS},
        )
    return result


def _visibility(faces: EvaluatedFaces) -> VisibilityMetrics:
    assert faces.visibility is not None
    score, truth = visibility.labelled(faces.visibility, faces.classes)
    pair = (faces.visibility, faces.classes)
    asked = int((faces.classes >= 0).sum())
    return VisibilityMetrics(
        landmarks=len(score),
        unpredicted=asked - len(score),
        hidden=int((~truth).sum()),
        accuracy=float(np.sum(visibility.is_called_visible(score) == truth) / asked),
        auroc=visibility.roc(*pair).area,
        average_precision=visibility.precision_recall(*pair).area,
        average_precision_hidden=visibility.precision_recall(*pair, "hidden").area,
        brier=visibility.brier(*pair),
        calibration_error=visibility.visibility_reliability(*pair).error,
    )
