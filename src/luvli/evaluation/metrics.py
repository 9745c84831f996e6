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
from luvli.evaluation.labelled_faces import LabelledFaces
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

CUTOFFS = (7, 8, 10)
"""percent: NME box, 300-W inter-ocular, WFLW"""
COVERAGE_LEVELS = (0.5, 0.68, 0.9, 0.95)
"""probabilities of the ellipses whose coverage is listed"""
WIDTH_LEVELS = (0.5, 0.9)
"""shares of the labels at which widths are compared"""
PER_BIN = (734, 36)
"""landmarks in one bin of Figure 4 of the paper, and of the remark below it"""


def compute_metrics(
    faces: LabelledFaces, *, resamples: int = 1000, seed: int = 0
) -> EvaluationMetrics:
    """All metrics, with intervals from `resamples` draws of the faces."""
    if not len(faces):
        raise InputError("there are no faces to evaluate: check the data set and subset.")
    errors = box_errors(faces)
    each = accuracy.average_errors(errors)
    scale = box_scale(faces)
    spread = faces.covariance is not None
    hidden = faces.visibility is not None and (faces.label_visibility == 0).any()
    return EvaluationMetrics(
        method=faces.method,
        dataset=faces.dataset,
        subset=faces.subset,
        markup=faces.markup_name,
        faces=len(faces),
        landmarks=faces.landmarks,
        visible_landmarks=int(faces.visible.sum()),
        failed=tuple(faces.names[i] for i in np.flatnonzero(faces.failed)),
        unmeasurable=tuple(faces.names[i] for i in np.flatnonzero(np.isnan(each))),
        untrained=faces.missing,
        notes=faces.notes,
        accuracy=accuracies(faces, resamples, seed),
        per_landmark=accuracy.per_landmark(errors).tolist(),
        per_group=accuracy.per_group(errors, faces.markup_name) if faces.markup else {},
        classes=_classes(faces, errors, scale),
        uncertainty=_uncertainties(faces, scale, resamples, seed) if spread else None,
        selective=_selective(faces, errors) if spread else {},
        confidence=_confidence(faces, each),
        visibility=_visibility(faces) if hidden else None,
        subsets={
            name: SubsetMetrics(faces=len(part), accuracy=accuracies(part, resamples, seed))
            for name, mask in faces.subsets.items()
            if len(part := faces[mask]) and not mask.all()
        },
    )


def box_errors(faces: LabelledFaces) -> Floats:
    """(n, k) landmark errors in percent of the box."""
    return accuracy.landmark_errors(
        faces.points, faces.labels, "box", faces.visible, boxes=faces.label_boxes
    )


def box_scale(faces: LabelledFaces) -> Floats:
    """(n,) sqrt(w h) of the labels' box, in pixels."""
    return accuracy.normalizers(faces.labels, "box", faces.visible, faces.label_boxes)


def predicted_scale(faces: LabelledFaces) -> Floats:
    """(n,) sqrt(w h) of the predicted landmarks' box: a size that is known without labels."""
    return accuracy.normalizers(faces.points, "box")


def face_spread(faces: LabelledFaces) -> Floats:
    """(n,) predicted uncertainty of each face in percent of its predicted size.

    Landmarks count by their predicted visibility, where there is one: the location of an
    invisible landmark means nothing.
    """
    assert faces.covariance is not None
    return selective.face_uncertainty(
        uncertainty.spread_root(faces.covariance), predicted_scale(faces), faces.visibility
    )


def normalizers_for(faces: LabelledFaces) -> list[accuracy.Normalizer]:
    """The normalisers that these faces allow: boxes always, eyes where the markup has them."""
    return list(accuracy.NORMALIZERS) if faces.markup else ["box", "diagonal"]


def accuracies(faces: LabelledFaces, resamples: int, seed: int) -> dict[str, AccuracyMetrics]:
    """NME, AUC and failure rate under every normaliser, with intervals from one draw."""
    kinds: dict[str, accuracy.Normalizer | Floats] = {
        **{kind: kind for kind in normalizers_for(faces)},
        **faces.lengths,
    }
    errors = {
        kind: accuracy.landmark_errors(
            faces.points, faces.labels, normalizer, faces.visible,
            boxes=faces.label_boxes, markup=faces.markup_name,
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


def _classes(faces: LabelledFaces, errors: Floats, scale: Floats) -> dict[str, ClassMetrics]:
    if faces.covariance is None:
        return visibility.visibility_classes(faces.label_visibility, faces.visibility, errors)
    root = uncertainty.spread_root(faces.covariance)
    paper = None if faces.paper_pixel is None else root / faces.paper_pixel[:, None] ** 2
    return visibility.visibility_classes(
        faces.label_visibility, faces.visibility, errors,
        spread_pixel=root, spread_box=root / scale[:, None] ** 2, spread_paper=paper,
    )  # fmt: skip


def _uncertainties(
    faces: LabelledFaces, scale: Floats, resamples: int, seed: int
) -> UncertaintyMetrics:
    assert faces.covariance is not None
    likelihood = faces.faces.likelihood
    given = (faces.points, faces.covariance, faces.labels)
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


def _scores(faces: LabelledFaces, scale: Floats, resamples: int, seed: int) -> DistributionScores:
    """Scores in percent of the box; faces are drawn again, landmarks pooled."""
    assert faces.covariance is not None
    given = (faces.points, faces.covariance, faces.labels)
    usable = uncertainty.usable_landmarks(*given, faces.visible)
    length = np.where(usable, distribution_scores.sharpness(faces.covariance, scale), np.nan) * 100
    percent = 100.0 / scale[:, None]
    columns = [
        distribution_scores.energy_score(*given, faces.faces.likelihood, faces.visible) * percent,
        distribution_scores.crps(*given, faces.faces.likelihood, faces.visible) * percent,
        length,
    ]
    sums = np.stack([np.nansum(values, axis=1) for values in columns], axis=1)
    counts = np.stack([(~np.isnan(values)).sum(axis=1) for values in columns], axis=1)
    energy, crps, sharp = bootstrap_columns(sums, counts, resamples=resamples, seed=seed)
    radius = uncertainty.radii(*given, faces.visible)
    width = {
        f"{level:g}": bootstrap_width(
            radius, length, level, faces.faces.likelihood, resamples=resamples, seed=seed
        )
        for level in WIDTH_LEVELS
    }
    return DistributionScores(energy=energy, crps=crps, sharpness=sharp, width=width)


def _correlations(bins: dict[str, uncertainty.ResidualBins]) -> CorrelationMetrics:
    return CorrelationMetrics(**{entry: points.pearson for entry, points in bins.items()})


def _smallest_deviation(faces: LabelledFaces) -> SmallestDeviation | None:
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
    faces: LabelledFaces, scale: Floats, resamples: int, seed: int
) -> LikelihoodMetrics:
    """Mean negative log-likelihoods per landmark; images are drawn again, landmarks pooled."""
    assert faces.covariance is not None
    units: dict[str, Floats] = {"pixel": np.ones(len(faces)), "box": scale}
    if faces.paper_heatmap_pixel is not None:
        units["paper"] = faces.paper_heatmap_pixel
    nats = []
    names = list(dict.fromkeys([*LIKELIHOODS, faces.faces.likelihood]))
    for name in names:
        pixel = uncertainty.negative_log_likelihood(
            faces.points, faces.covariance, faces.labels, name, faces.visible
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
    own = found[faces.faces.likelihood].paper
    return LikelihoodMetrics(
        laplace=found["laplace"],
        gauss=found["gauss"],
        calibrated=None if faces.faces.likelihood in LIKELIHOODS else found[faces.faces.likelihood],
        published=None if own is None else own.shifted(-math.log(2.0 * math.pi)),
    )


def _confidence(faces: LabelledFaces, each: Floats) -> ConfidenceMetrics | None:
    """The confidence against what happened; None where there is none."""
    sure = faces.faces.confidence
    if not np.isfinite(sure[~np.isnan(each)]).any():
        return None
    guess = faces.faces.expected_error
    found = confidence.confidence_metrics(
        sure, each, expected=None if np.isnan(guess).all() else guess
    )
    return ConfidenceMetrics.model_validate(found)


def _selective(faces: LabelledFaces, errors: Floats) -> dict[str, SelectiveMetrics]:
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


def _visibility(faces: LabelledFaces) -> VisibilityMetrics:
    assert faces.visibility is not None
    score, truth = visibility.labelled(faces.visibility, faces.label_visibility)
    pair = (faces.visibility, faces.label_visibility)
    asked = int((faces.label_visibility >= 0).sum())
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
