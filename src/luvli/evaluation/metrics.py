"""`Evaluation`: every metric of the registry that applies to a set of faces; `metrics.json`."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter

from luvli.arrays import Bools, Floats
from luvli.errors import InputError, brief
from luvli.evaluation.accuracy import NotMeasured
from luvli.evaluation.bootstrap import Interval, bootstrap_columns
from luvli.evaluation.face_metrics import GROUPINGS, masks
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.registry import METRICS, Metric
from luvli.files import PathLike, read_text
from luvli.likelihood import MissingMethod

_FORMAT = "luvli-metrics-3"  # changes with what the file can hold


class SubsetMetrics(NamedTuple):
    """A named part of the test set."""

    faces: int
    metrics: dict[str, Interval]


@dataclass(frozen=True)
class Evaluation:
    """What was measured about one method on one test set."""

    method: str
    dataset: str
    subset: str
    markup: str
    likelihood: str
    """the density that the covariances are read as"""
    faces: int
    landmarks: int
    """of each face"""
    visible_landmarks: int
    """of all faces"""
    failed: tuple[str, ...]
    """names of the faces without a prediction"""
    unmeasurable: tuple[str, ...]
    """names of the faces without a label to measure against"""
    missing: tuple[str, ...]
    """what the predictions do not have, so that nothing is reported about it"""
    notes: tuple[str, ...]
    metrics: dict[str, Interval]
    """by the names of the registry; "name.key" for metrics that are mappings"""
    subsets: dict[str, SubsetMetrics] = field(default_factory=dict)

    def value(self, path: str, subset: str = "") -> float | None:
        """A metric by its name, or by the first of several names joined by "|" that is there."""
        metrics = self.subsets[subset].metrics if subset else self.metrics
        for name in path.split("|"):
            if name in metrics and math.isfinite(metrics[name].value):
                return metrics[name].value
        return None

    def to_json(self) -> str:
        """For `metrics.json`; NaN is null."""
        content: dict[str, Any] = {"format": _FORMAT, **asdict(self)}
        content["metrics"] = {name: finite(value) for name, value in self.metrics.items()}
        for name, part in self.subsets.items():
            metrics = {key: finite(value) for key, value in part.metrics.items()}
            content["subsets"][name] = {"faces": part.faces, "metrics": metrics}
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, path: PathLike) -> Evaluation:
        """One `metrics.json`."""
        text = read_text(path)
        try:
            content = json.loads(text, object_hook=_nan_for_null)
            if content.pop("format", "") == _FORMAT:
                return TypeAdapter(cls).validate_python(content)
        except (AttributeError, TypeError, ValueError, RecursionError) as error:
            raise InputError(
                f"{path} is not a luvli report ({type(error).__name__}: {brief(error)}): "
                "write the report again."
            ) from error
        raise InputError(
            f"{path} is not a luvli report of this version: name a metrics.json or its folder, or "
            "evaluate again."
        )


def compute_metrics(faces: LabelledFaces, *, resamples: int = 1000, seed: int = 0) -> Evaluation:
    """All metrics that apply, with intervals from `resamples` draws of the faces."""
    if not len(faces):
        raise InputError("there are no faces to evaluate: check the data set and subset.")
    values, problems = metric_values(faces)
    predicted, names = faces.faces, np.array(faces.names)
    trained = {
        "covariance": predicted.covariance_trained,
        "visibility": predicted.visibility_trained,
    }
    return Evaluation(
        method=faces.method,
        dataset=faces.dataset,
        subset=faces.subset,
        markup=predicted.markup,
        likelihood=faces.likelihood,
        faces=len(faces),
        landmarks=faces.landmarks,
        visible_landmarks=int(faces.visible.sum()),
        failed=tuple(names[faces.failed].tolist()),
        unmeasurable=tuple(names[np.isnan(faces.nme("box"))].tolist()),
        missing=tuple(name for name, known in trained.items() if not known),
        notes=(*faces.notes, *(f"Not measured: {why}" for why in problems)),
        metrics=_summaries(values, np.ones(len(faces), dtype=bool), resamples, seed),
        subsets={
            name: SubsetMetrics(int(mask.sum()), _summaries(values, mask, resamples, seed))
            for name, mask in faces.subsets.items()
            if mask.any() and not mask.all()
        },
    )


class Columns(NamedTuple):
    """Values of faces: the metric is sum(sums) / sum(counts)."""

    sums: Floats
    """(n,)"""
    counts: Floats
    """(n,) 0 for a face that is not measured; 1, or how many of its landmarks are"""

    @property
    def of_faces(self) -> Floats:
        """(n,) the value of each face, NaN where it is not measured."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.sums / self.counts)

    def __float__(self) -> float:
        """Over all faces; NaN where none is measured."""
        count = float(self.counts.sum())
        return float(self.sums.sum()) / count if count else math.nan


def metric_values(
    faces: LabelledFaces, names: Collection[str] = ()
) -> tuple[dict[str, Columns | float], list[str]]:
    """Every metric that applies, or those of these names, with keys taken apart; and a sentence
    about each that the likelihood has no method for."""
    values: dict[str, Columns | float] = {}
    problems = []
    for metric in METRICS.values():
        if names and metric.name not in names:
            continue
        try:
            with np.errstate(invalid="ignore", divide="ignore"):
                values |= _values(metric, faces)
        except NotMeasured:
            continue
        except MissingMethod as error:
            problems.append(f"{metric.title}: {error}")
    return values, problems


def _values(metric: Metric, faces: LabelledFaces) -> dict[str, Columns | float]:
    value = metric.function(faces)
    if isinstance(value, Mapping):
        return {f"{metric.name}.{key}": part for key, part in value.items()}
    if metric.by in GROUPINGS:
        groups = masks(faces, metric.by).items()
        return {f"{metric.name}.{k}": _columns(np.where(mask, value, np.nan)) for k, mask in groups}
    return {metric.name: _columns(value) if isinstance(value, np.ndarray) else float(value)}


def _columns(values: Floats) -> Columns:
    """Of one value for each face (n,) or landmark (n, k), NaN where there is none."""
    table = values.reshape(len(values), -1)
    known = ~np.isnan(table)
    return Columns(np.where(known, table, 0.0).sum(axis=1), known.sum(axis=1) * 1.0)


def _summaries(
    values: Mapping[str, Columns | float], mask: Bools, resamples: int, seed: int
) -> dict[str, Interval]:
    """Every metric over the chosen faces; those without values of faces only over all of them."""
    columns = {name: value for name, value in values.items() if isinstance(value, Columns)}
    sums, counts = (np.stack(side, axis=1)[mask] for side in zip(*columns.values(), strict=True))
    intervals = bootstrap_columns(sums, counts, resamples=resamples, seed=seed)
    by_face = dict(zip(columns, intervals, strict=True))
    whole = {name: Interval(v) for name, v in values.items() if isinstance(v, float)}
    found = {**by_face, **(whole if mask.all() else {})}
    summaries = {name: found[name] for name in values if name in found}  # in the order of reports
    return {name: each for name, each in summaries.items() if not math.isnan(each.value)}


def finite(values: NamedTuple) -> dict[str, float | None]:
    """For JSON: None for what is not a number."""
    return {key: v if math.isfinite(v) else None for key, v in values._asdict().items()}


def _nan_for_null(values: dict[str, Any]) -> dict[str, Any]:
    return {name: math.nan if value is None else value for name, value in values.items()}
