"""`Evaluation`: every metric of the registry that applies to a set of faces; `metrics.json`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.evaluation.bootstrap import Interval, bootstrap_columns
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.registry import METRICS, Metric, Pooled, Value
from luvli.files import PathLike, read_text

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
        content["metrics"] = _plain(self.metrics)
        content["subsets"] = {
            name: {"faces": part.faces, "metrics": _plain(part.metrics)}
            for name, part in self.subsets.items()
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, path: PathLike) -> Evaluation:
        """One `metrics.json`."""
        text = read_text(path)
        try:
            content = json.loads(text)
            if content.pop("format", "") != _FORMAT:
                raise InputError(
                    f"{path} is not a luvli report of this version: name a metrics.json or its "
                    "folder, or evaluate again."
                )
            fields: dict[str, Any] = {}
            subsets = {
                str(name): SubsetMetrics(int(part["faces"]), _intervals(part["metrics"]))
                for name, part in content.pop("subsets").items()
            }
            metrics = _intervals(content.pop("metrics"))
            for name in ("failed", "unmeasurable", "missing", "notes"):
                fields[name] = tuple(map(str, content[name]))
            for name in ("faces", "landmarks", "visible_landmarks"):
                fields[name] = int(content[name])
            for name in ("method", "dataset", "subset", "markup", "likelihood"):
                fields[name] = str(content[name])
            return cls(**fields, metrics=metrics, subsets=subsets)
        except InputError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise InputError(
                f"{path} is not a luvli report ({type(error).__name__}: {error}): "
                "write the report again."
            ) from error


def compute_metrics(faces: LabelledFaces, *, resamples: int = 1000, seed: int = 0) -> Evaluation:
    """All metrics that apply, with intervals from `resamples` draws of the faces."""
    if not len(faces):
        raise InputError("there are no faces to evaluate: check the data set and subset.")
    values = dict(metric_values(faces))
    unmeasurable = np.isnan(faces.nme("box"))
    return Evaluation(
        method=faces.method,
        dataset=faces.dataset,
        subset=faces.subset,
        markup=faces.faces.markup,
        likelihood=faces.faces.likelihood,
        faces=len(faces),
        landmarks=faces.landmarks,
        visible_landmarks=int(faces.visible.sum()),
        failed=tuple(faces.names[i] for i in np.flatnonzero(faces.failed)),
        unmeasurable=tuple(faces.names[i] for i in np.flatnonzero(unmeasurable)),
        missing=faces.missing,
        notes=faces.notes,
        metrics=_summaries(values, np.ones(len(faces), dtype=bool), resamples, seed),
        subsets={
            name: SubsetMetrics(int(mask.sum()), _summaries(values, mask, resamples, seed))
            for name, mask in faces.subsets.items()
            if mask.any() and not mask.all()
        },
    )


def metric_values(faces: LabelledFaces) -> Iterator[tuple[str, Value]]:
    """Name and value of every metric that applies, mappings taken apart."""
    with np.errstate(invalid="ignore", divide="ignore"):
        for metric in METRICS:
            if metric.applies(faces):
                yield from _named(metric, metric.function(faces))


def _named(metric: Metric, value: Value | Mapping[str, Value]) -> Iterator[tuple[str, Value]]:
    if isinstance(value, Mapping):
        yield from ((f"{metric.name}.{key}", part) for key, part in value.items())
    else:
        yield metric.name, value


def columns_of(value: Value) -> tuple[Floats, Floats] | None:
    """Sums and counts (n,) whose ratio is the metric; None for one without values of faces."""
    if isinstance(value, Pooled):
        return value
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return value, np.where(np.isnan(value), 0.0, 1.0)
    return None


def _summaries(
    values: Mapping[str, Value], mask: NDArray[np.bool_], resamples: int, seed: int
) -> dict[str, Interval]:
    """Every metric over the chosen faces; those without values of faces only over all of them."""
    columns = {name: pair for name, value in values.items() if (pair := columns_of(value))}
    pairs = [[side[mask] for side in pair] for pair in columns.values()]
    sums, counts = (np.stack(side, axis=1) for side in zip(*pairs, strict=True))
    intervals = iter(bootstrap_columns(sums, counts, resamples=resamples, seed=seed))
    result = {}
    for name, value in values.items():
        if name in columns:
            result[name] = next(intervals)
        elif mask.all():
            result[name] = Interval(float(np.asarray(value)))
    return {name: each for name, each in result.items() if not math.isnan(each.value)}


def _plain(metrics: Mapping[str, Interval]) -> dict[str, dict[str, float | None]]:
    return {
        name: {key: v if math.isfinite(v) else None for key, v in each._asdict().items()}
        for name, each in metrics.items()
    }


def _intervals(content: Mapping[str, Any]) -> dict[str, Interval]:
    return {
        str(name): Interval(*(math.nan if each[k] is None else float(each[k]) for k in each))
        for name, each in content.items()
    }
