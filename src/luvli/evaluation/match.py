"""Predictions and labels of any origin, matched face by face."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.data.record import Visibility
from luvli.errors import InputError
from luvli.evaluation.accuracy import tight_boxes
from luvli.evaluation.evaluated_faces import EvaluatedFaces, absolute_path, read_parquet
from luvli.evaluation.paper_units import paper_pixels
from luvli.evaluation.prediction_files import FaceArrays, read_predictions, read_truth, unique_names
from luvli.files import PathLike


def read_faces(
    predictions: PathLike,
    truth: PathLike | None = None,
    *,
    one_based: bool = False,
    signs: bool = True,
    given_boxes: bool = False,
    **about: Any,
) -> EvaluatedFaces:
    """Read predictions and labels from npz, npy folder, csv, json, parquet or a folder of .pts.

    `truth` may be left out when the predictions hold the labels too. `one_based` says that
    the predictions (other than .pts, which always do) count pixels from 1. `signs` reads a
    pair of negative coordinates in .pts as occlusion (MERL-RAV). `given_boxes` normalises by
    the boxes in the label file instead of tight ones. `about`: method, dataset, subset,
    markup, likelihood.
    """
    given = {name: value for name, value in about.items() if value is not None}
    if truth is None and Path(predictions).suffix == ".parquet":
        return replace(read_parquet(predictions), **given)
    guess, held = read_predictions(Path(predictions), signs)
    if one_based and Path(predictions).is_file():
        guess = replace(guess, points=guess.points - 1.0)
    labels = held if truth is None else read_truth(Path(truth), signs)
    if labels is None:
        raise InputError(f"{predictions} holds no labels: give them with --truth.")
    if not given_boxes:
        labels = replace(labels, boxes=None)
    return _match(guess, labels, given)


def _match(guess: FaceArrays, labels: FaceArrays, about: Mapping[str, Any]) -> EvaluatedFaces:
    if guess.points.shape[1] != labels.points.shape[1]:
        raise InputError(
            f"{guess.source} has {guess.points.shape[1]} landmarks and {labels.source} has "
            f"{labels.points.shape[1]}: both must have the same markup."
        )
    index, notes = _rows(guess, labels)
    there = index >= 0

    def taken(values: NDArray[Any] | None) -> Any:
        if values is None:
            return None
        out = np.full((len(index), *values.shape[1:]), np.nan)
        out[there] = values[index[there]]
        return out

    classes = labels.classes
    if classes is None:
        there_is = np.isfinite(labels.points).all(axis=2)
        classes = np.where(there_is, Visibility.UNOCCLUDED, Visibility.UNLABELLED).astype(np.int8)
    located = np.where((classes > 0)[..., None], labels.points, np.nan)
    pixel = guess.paper_pixel
    if pixel is not None:
        pixel = taken(pixel)
    else:
        boxes = tight_boxes(located) if labels.boxes is None else labels.boxes
        pixel = paper_pixels(boxes, about.get("dataset", ""))
    parts = sorted({name for members in labels.subsets for name in members})
    return EvaluatedFaces(
        predicted=taken(guess.points),
        truth=located,
        classes=classes,
        covariance=taken(guess.covariance),
        visibility=taken(guess.visibility),
        boxes=labels.boxes,
        paper_pixel=pixel,
        names=_display_names(labels) or guess.names,
        images=tuple(map(absolute_path, labels.images or guess.images)),
        subsets={part: np.array([part in members for members in labels.subsets]) for part in parts},
        notes=tuple(notes),
        **({"markup": labels.markup or guess.markup} | dict(about)),
    )


def _rows(guess: FaceArrays, labels: FaceArrays) -> tuple[NDArray[np.intp], list[str]]:
    """For each label the row of its prediction, -1 where there is none."""
    n, m = len(labels.points), len(guess.points)
    pairs = [(key(labels), key(guess)) for key in _KEYS]
    alike = [(left, right) for left, right in pairs if left and right and set(left) & set(right)]
    if alike:
        left, right = max(alike, key=lambda pair: len(set(pair[0]) & set(pair[1])))
        where = {name: i for i, name in enumerate(right)}
        index = np.array([where.get(name, -1) for name in left], dtype=np.intp)
        missing = [name for name, i in zip(left, index, strict=True) if i < 0]
        notes = []
        if missing:
            notes.append(
                f"{len(missing)} of {n} faces have no prediction and count as failures "
                f"(the first is {missing[0]})."
            )
        if m > n - len(missing):
            notes.append(f"{m - n + len(missing)} predictions have no label and are left out.")
        return index, notes
    named = [side.source for side in (guess, labels) if any(key(side) for key in _KEYS)]
    if len(named) == 2:
        raise InputError(
            f"no face of {guess.source} has the name of a face of {labels.source} "
            f"({_example(guess)} and {_example(labels)}, for instance): name them alike."
        )
    if n != m:
        raise InputError(
            f"{guess.source} has {m} faces and {labels.source} has {n}: without names on both "
            "sides they must be the same faces in the same order."
        )
    return np.arange(n), ["Predictions and labels were matched by their order."]


def _face_ids(side: FaceArrays) -> tuple[str, ...]:
    return unique_names(side.names)


def _image_paths(side: FaceArrays) -> tuple[str, ...]:
    return unique_names(side.images)


def _stems(side: FaceArrays) -> tuple[str, ...]:
    """File names without folder and suffix, of the images or else of the names."""
    source = side.images if side.images and all(side.images) else side.names
    return unique_names(tuple(Path(name).stem for name in source))


_KEYS: tuple[Callable[[FaceArrays], tuple[str, ...]], ...] = (_face_ids, _image_paths, _stems)


def _display_names(side: FaceArrays) -> tuple[str, ...]:
    return _face_ids(side) or _stems(side) or side.names


def _example(side: FaceArrays) -> str:
    return repr((_face_ids(side) or _stems(side) or ("",))[0])
