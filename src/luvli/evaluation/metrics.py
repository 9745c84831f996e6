"""Every metric that applies to a set of evaluated faces, as one plain dictionary.

This is what `metrics.json` holds. A number with a confidence interval is
{"value", "low", "high"}; NaN becomes null; parts that the predictions do not allow (no
covariance, no visibility) are absent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.errors import InputError
from luvli.evaluation import accuracy, selective, uncertainty, visibility
from luvli.evaluation.bootstrap import Interval, bootstrap_columns
from luvli.evaluation.evaluated_faces import EvaluatedFaces
from luvli.evaluation.uncertainty import LikelihoodName
from luvli.markup import Markup, is_markup

Floats = NDArray[np.float64]

CUTOFFS = (7.0, 8.0, 10.0)
"""percent: NME box, 300-W inter-ocular, WFLW"""
LEVELS = (0.5, 0.68, 0.9, 0.95)
"""probabilities of the ellipses whose coverage is listed"""
PER_BIN = (734, 36)
"""landmarks in one bin of Figure 4 of the paper, and of the remark below it"""
INPUT_PER_HEATMAP = 4.0  # the network sees 256 pixels where a heat map has 64


def measure(
    faces: EvaluatedFaces,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """All metrics, with intervals from `resamples` draws of the faces."""
    if not len(faces):
        raise InputError("there are no faces to evaluate: check the data set and subset.")
    failed = [faces.names[i] for i in np.flatnonzero(faces.failed)]
    result: dict[str, Any] = {
        "format": "luvli-metrics",
        "version": 1,
        "method": faces.method,
        "dataset": faces.dataset,
        "subset": faces.subset,
        "markup": faces.markup,
        "faces": len(faces),
        "landmarks": faces.landmarks,
        "visible_landmarks": int(faces.visible.sum()),
        "failed": failed,
        "notes": list(faces.notes),
        "accuracy": accuracies(faces, resamples, seed),
    }
    errors = box_errors(faces)
    result["unmeasurable"] = [
        faces.names[i] for i in np.flatnonzero(np.isnan(accuracy.average_errors(errors)))
    ]
    result["per_landmark"] = accuracy.per_landmark(errors).tolist()
    if known_markup(faces):
        result["per_group"] = accuracy.per_group(errors, faces.markup)
    scale = box_scale(faces)
    spreads = _spreads(faces, scale)
    result["classes"] = visibility.visibility_classes(
        faces.classes, faces.visibility, errors, spreads.get("spread"), spreads.get("spread_box")
    )
    if "spread_input" in spreads:
        rows = visibility.visibility_classes(faces.classes, spread=spreads["spread_input"])
        for name, row in rows.items():
            result["classes"][name]["spread_input"] = row["spread"]
    if faces.covariance is not None:
        result |= _uncertainties(faces, scale, resamples, seed)
        result["trust"] = _trust(faces, errors)
    if faces.visibility is not None and (faces.classes == 0).any():
        result["visibility"] = _visibility(faces)
    result["subsets"] = {
        name: {"faces": len(part), "accuracy": accuracies(part, resamples, seed)}
        for name, mask in faces.subsets.items()
        if len(part := faces.take(mask)) and not mask.all()
    }
    tidy: dict[str, Any] = plain(result)
    return tidy


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
        return (
            accuracy.markup_for(faces.landmarks, faces.markup) if is_markup(faces.markup) else None
        )
    return accuracy.markup_by_size(faces.landmarks)


def accuracies(faces: EvaluatedFaces, resamples: int, seed: int) -> dict[str, Any]:
    """NME, AUC and failure rate under every normaliser, with intervals from one draw."""
    columns: dict[tuple[str, ...], Floats] = {}
    extra: dict[str, dict[str, Any]] = {}
    kinds: dict[str, accuracy.Normalizer | Floats] = {
        **{kind: kind for kind in normalizers_for(faces)},
        **faces.lengths,
    }
    for kind, normalizer in kinds.items():
        errors = accuracy.landmark_errors(
            faces.predicted, faces.truth, normalizer, faces.visible,
            boxes=faces.boxes, markup=faces.markup,
        )  # fmt: skip
        each = accuracy.average_errors(errors)
        if np.isnan(each).all():
            continue
        seen = accuracy.average_errors(errors, "visible")
        columns[kind, "nme"] = _counted(each)
        columns[kind, "nme_vis"] = _counted(seen)
        for cutoff in CUTOFFS:
            columns[kind, "auc", f"{cutoff:g}"] = accuracy.area_of_each(each, cutoff)
            columns[kind, "fr", f"{cutoff:g}"] = _share_above(each, cutoff)
        located = each[np.isfinite(each)]
        extra[kind] = {
            "nme_predicted": located.mean() if len(located) else math.nan,
            "median": np.nanmedian(_counted(each)),
            "unmeasurable": int(np.isnan(each).sum()),
            "auc_polyline": {
                f"{cutoff:g}": accuracy.auc(each, cutoff, "polyline") for cutoff in CUTOFFS
            },
        }
    if not columns:
        return {}
    table = np.stack(list(columns.values()), axis=1)
    intervals = bootstrap_columns(table, resamples=resamples, seed=seed)
    result: dict[str, Any] = dict(extra)
    for path, interval in zip(columns, intervals, strict=True):
        place = result[path[0]]
        for key in path[1:-1]:
            place = place.setdefault(key, {})
        place[path[-1]] = interval._asdict()
    return result


def _counted(each: Floats) -> Floats:
    return np.where(np.isinf(each), accuracy.FAILED_NME, each)


def _share_above(each: Floats, threshold: float) -> Floats:
    return np.where(np.isnan(each), np.nan, (each > threshold) * 100.0)


def _spreads(faces: EvaluatedFaces, scale: Floats) -> dict[str, Floats]:
    """|Sigma|^(1/2) in pixels squared, of the box, and in pixels of the network's input."""
    if faces.covariance is None:
        return {}
    root = uncertainty.spread_root(faces.covariance)
    spreads = {"spread": root, "spread_box": root / scale[:, None] ** 2}
    if faces.heatmap_pixel is not None:
        unit = faces.heatmap_pixel / INPUT_PER_HEATMAP
        spreads["spread_input"] = root / unit[:, None] ** 2
    return spreads


def _uncertainties(
    faces: EvaluatedFaces, scale: Floats, resamples: int, seed: int
) -> dict[str, Any]:
    assert faces.covariance is not None
    likelihood = faces.likelihood
    given = (faces.predicted, faces.covariance, faces.truth)
    z = uncertainty.whitened(*given, faces.visible)
    radius = uncertainty.radii(*given, faces.visible)
    covered = uncertainty.coverage(radius, likelihood)
    correlation = {
        str(per_bin): {
            entry: bins.pearson
            for entry, bins in uncertainty.residual_bins(
                *given, faces.visible, scale=scale, per_bin=per_bin
            ).items()
        }
        for per_bin in PER_BIN
    }
    published = uncertainty.residual_bins(
        *given, faces.visible, scale=scale, discard=0.1, leftover="drop"
    )
    result: dict[str, Any] = {
        "likelihood": likelihood,
        "usable_landmarks": len(z),
        "nll": _likelihoods(faces, scale, resamples, seed),
        "pearson": correlation,
        "pearson_published": {entry: bins.pearson for entry, bins in published.items()},
        "kl": uncertainty.whitened_kl(z, likelihood),
        "kl_published": uncertainty.whitened_kl(z, likelihood, method="published"),
        "coverage": {
            "error": covered.error,
            "bias": covered.bias,
            "at": {
                f"{level:g}": float(np.interp(level, covered.wanted, covered.observed))
                for level in LEVELS
            },
        },
    }
    deviation = uncertainty.smallest_deviation(faces.covariance, faces.heatmap_pixel)
    if len(deviation):
        result["smallest_deviation"] = {
            "unit": "pixel" if faces.heatmap_pixel is None else "heat-map pixel",
            "median": np.median(deviation),
            "below_one": np.mean(deviation < 1.0),
        }
    return result


def _likelihoods(faces: EvaluatedFaces, scale: Floats, resamples: int, seed: int) -> dict[str, Any]:
    """Mean negative log-likelihoods per landmark; images are drawn again, landmarks pooled."""
    assert faces.covariance is not None
    nats: dict[tuple[str, str], Floats] = {}
    names: tuple[LikelihoodName, ...] = ("laplace", "gauss")
    for name in names:
        pixel = uncertainty.negative_log_likelihood(
            faces.predicted, faces.covariance, faces.truth, name, faces.visible
        )
        nats[name, "pixel"] = pixel
        nats[name, "box"] = pixel - 2.0 * np.log(scale)[:, None]
        if faces.heatmap_pixel is not None:
            nats[name, "heatmap"] = pixel - 2.0 * np.log(faces.heatmap_pixel)[:, None]
    known = [~np.isnan(values) for values in nats.values()]
    sums = [np.where(k, v, 0.0).sum(axis=1) for k, v in zip(known, nats.values(), strict=True)]
    counts = [k.sum(axis=1) for k in known]
    intervals = bootstrap_columns(
        np.stack(sums, axis=1), np.stack(counts, axis=1), resamples=resamples, seed=seed
    )
    result: dict[str, Any] = {name: {} for name in names}
    for (which, unit), interval in zip(nats, intervals, strict=True):
        result[which][unit] = interval._asdict()
    if faces.heatmap_pixel is not None:
        shift = math.log(2.0 * math.pi)
        chosen = Interval(**result[faces.likelihood]["heatmap"])
        result["published"] = Interval(*(value - shift for value in chosen))._asdict()
    return result


def _trust(faces: EvaluatedFaces, errors: Floats) -> dict[str, Any]:
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
        result[name] = {
            "aurc": curve.aurc,
            "best": curve.best,
            "excess": curve.excess,
            "auroc": {
                f"{cutoff:g}": selective.failure_auroc(risk, spread, cutoff) for cutoff in CUTOFFS
            },
        }
    return result


def _visibility(faces: EvaluatedFaces) -> dict[str, Any]:
    assert faces.visibility is not None
    score, truth = visibility.labelled(faces.visibility, faces.classes)
    pair = (faces.visibility, faces.classes)
    return {
        "landmarks": len(score),
        "unpredicted": int((faces.classes >= 0).sum()) - len(score),
        "hidden": int((~truth).sum()),
        "accuracy": float(
            np.sum(visibility.is_called_visible(score) == truth) / (faces.classes >= 0).sum()
        ),
        "auroc": visibility.roc(*pair).area,
        "average_precision": visibility.precision_recall(*pair).area,
        "average_precision_hidden": visibility.precision_recall(*pair, "hidden").area,
        "brier": visibility.brier(*pair),
        "calibration_error": visibility.visibility_reliability(*pair).error,
    }


def plain(value: Any) -> Any:
    """Numbers, strings, lists and dictionaries only; NaN and infinity as None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def look_up(metrics: Mapping[str, Any], path: str) -> Any:
    """The value at a path like "accuracy.box.auc.7", or the first of several joined by "|".

    None where there is none.

    >>> look_up({"accuracy": {"box": {"nme": {"value": 2.0, "low": 1.9}}}}, "accuracy.box.nme")
    2.0
    """
    for option in path.split("|"):
        place: Any = metrics
        for key in option.split("."):
            place = place.get(key) if isinstance(place, Mapping) else None
        if place is not None:
            return place["value"] if isinstance(place, Mapping) and "value" in place else place
    return None
