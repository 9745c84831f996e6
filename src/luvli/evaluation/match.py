"""Predictions and labels of any origin, matched face by face.

By name wherever both sides have names: by face id, by COCO's image numbers, by image path, or
by the last parts of the path, whichever has most in common. Several faces of one image are
distinguished by where they are. Without names the order decides, which is said aloud; an order
that gives absurd errors is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.data.formats.mediapipe import CAVEAT, MESH_SIZES, mesh_to_ibug68
from luvli.data.sets import get_set, load_set, parse_part
from luvli.errors import InputError, brief, require
from luvli.evaluation.accuracy import known_mean, nme, normalizers
from luvli.evaluation.labelled_faces import LabelledFaces, predicted_faces
from luvli.evaluation.labelled_parquet import read_report_faces
from luvli.evaluation.prediction_files import FaceFile, read_predictions, read_truth, unique_names
from luvli.files import PathLike
from luvli.likelihood import family

ABSURD = 25.0
"""percent of the box: a median error above it means that the orders differ, not that a
method is bad"""
NEAR = 1.0
"""box sizes: a prediction further from a face of the same image is of another face"""
MIN_FACES = 10
"""for a word about an offset"""
OFFSETS = (0.6, 2.0)
"""pixels, of both axes: with one pixel between the files and a habit of the method's own"""
MAX_ERROR = 0.1
"""pixels: the largest standard error of such an offset"""

Indices = NDArray[np.intp]


def read_faces(
    predictions: PathLike,
    truth: PathLike | None = None,
    *,
    data: tuple[str, PathLike] | None = None,
    one_based: bool = False,
    truth_one_based: bool = False,
    given_boxes: bool = False,
    by_order: bool = False,
    **about: Any,
) -> LabelledFaces:
    """Read predictions and labels, and match them.

    `truth` is a file or folder, `data` a data set's name and folder instead; both may be left
    out when the predictions hold the labels too. `one_based` says that the predictions (other
    than .pts, which always do) count pixels from 1, `truth_one_based` that the labels do.
    `given_boxes` normalises by the boxes in the label file instead of tight ones. `by_order` allows
    an order that looks wrong. `about`: method, dataset, subset, markup, likelihood.
    """
    given = {name: value for name, value in about.items() if value is not None}
    family(given.get("likelihood", "laplace"))  # refuses an unknown name
    source = Path(predictions)
    if truth is None and data is None and source.suffix.lower() == ".parquet":
        stored = read_report_faces(source)
        settings = {name: given.pop(name) for name in ("markup", "likelihood") if name in given}
        return replace(stored, faces=replace(stored.faces, **settings), **given)
    try:
        guess, labels = read_predictions(source)
        labels = labels if truth is None else read_truth(Path(truth))
    except InputError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        files = f"{predictions} or {truth}" if truth else predictions
        raise InputError(
            f"{files} cannot be read as faces ({brief(error)}): write it again."
        ) from error
    if data is not None:
        labels = _read_set(*data, given.get("subset"))
        given = {"dataset": data[0]} | given
    if labels is None:
        raise InputError(f"{predictions} holds no labels: give them with --truth or --data.")
    first = float(one_based and source.is_file())
    if guess.image_ids and not guess.images:  # COCO results count as their annotations do
        first += max(record.attributes.get("first_pixel", 0.0) for record in labels.records)
    if truth_one_based and (truth is None or Path(truth).is_file()):
        labels = _moved(labels, 1.0)
    faces = match_faces(_moved(guess, first), labels, by_order, **given)
    return faces if given_boxes else faces.with_tight_boxes()


def _read_set(name: str, root: PathLike, subset: str | None = None) -> FaceFile:
    """The labels of a data set, by default its `test_split`; images need not be there."""
    info = get_set(name)
    split = parse_part(name).split or info.test_split
    part = subset if subset in info.subsets else None
    faces = load_set(name, root, split, subset=part, images=False, skip_bad=True)
    return FaceFile(str(root), faces.records)


def _moved(side: FaceFile, by: float) -> FaceFile:
    """The side with its points moved up and to the left by so many pixels."""
    if not by:
        return side
    return replace(side, records=[r.with_changes(points=r.points - by) for r in side.records])


def match_faces(
    guess: FaceFile, labels: FaceFile, by_order: bool = False, **about: Any
) -> LabelledFaces:
    """Both sides as one set: a row for each labelled face, NaN where it has no prediction."""
    if guess.points.shape[1] in MESH_SIZES:
        guess = _without_mesh(guess)
    if guess.points.shape[1] != labels.points.shape[1]:
        raise InputError(
            f"{guess.source} has {guess.points.shape[1]} landmarks and {labels.source} has "
            f"{labels.points.shape[1]}: both must have the same markup."
        )
    index, notes = match_rows(guess, labels, by_order)

    def by_label(values: Any) -> Any:
        """Numbers of the predictions by rows of the labels, NaN where a label has no prediction;
        None where a prediction does not have them."""
        if any(value is None for value in values):
            return None
        numbers = np.array(values, dtype=np.float64)[index]
        numbers[index < 0] = np.nan
        return numbers

    def words_by_label(words: Sequence[str]) -> list[str]:
        return [words[i] if i >= 0 else "" for i in index] if words else []

    stored = {str(r.attributes.get("likelihood") or "") for r in guess.records}
    likelihood = about.pop("likelihood", "") or (stored.pop() if len(stored) == 1 else "")
    predicted = predicted_faces(
        by_label(guess.points),
        by_label([record.covariance for record in guess.records]),
        by_label([record.visibility_probability for record in guess.records]),
        about.pop("markup", labels.records[0].markup),
        likelihood or "laplace",
    )
    faces = LabelledFaces.from_records(
        labels.records,
        predicted,
        names=_display_names(labels) or words_by_label(_display_names(guess)),
        images=labels.images or words_by_label(guess.images),
        paper_pixel=by_label([record.attributes.get("paper_pixel") for record in guess.records]),
        **about,
    )
    said = (*guess.notes, *labels.notes, *notes, *origin_notes(faces.points, faces.labels))
    return replace(faces, notes=said)


def _without_mesh(side: FaceFile) -> FaceFile:
    """The 68 points of MediaPipe's mesh."""
    records = [
        record.with_changes(
            points=points, visibility=np.isfinite(points).all(axis=1), markup="ibug68"
        )
        for record, points in zip(side.records, mesh_to_ibug68(side.points), strict=True)
    ]
    return replace(side, records=records, notes=(*side.notes, CAVEAT))


def origin_notes(predicted: Floats, truth: Floats) -> list[str]:
    """Warnings where predictions (n, k, 2) lie a pixel beside the labels (n, k, 2) on average.

    It is little to look at and much in a table: SPIGA's results for 300-W have an inter-ocular NME
    of 2.99 against labels that count as they do, and 3.42 against the same labels counted from 1.
    """
    known = np.isfinite(predicted).all(axis=2) & np.isfinite(truth).all(axis=2)
    gap = (predicted - truth)[np.any(known, axis=1)]
    if len(gap) < MIN_FACES:
        return []
    offsets = np.nanmedian(gap, axis=1)
    mean, error = offsets.mean(axis=0), offsets.std(axis=0) / np.sqrt(len(offsets))
    low, high = OFFSETS
    return [
        f"WARNING: predictions lie {mean[0]:+.1f}, {mean[1]:+.1f} pixels beside the labels on "
        f"average: do the {side} count pixels from 1? Then say --{option}one-based."
        for way, side, option in ((1, "predictions", ""), (-1, "labels", "truth-"))
        if ((low < mean * way) & (mean * way < high) & (error < MAX_ERROR)).all()
    ]


# --- which prediction belongs to which label ---------------------------------------------


def match_rows(
    guess: FaceFile, labels: FaceFile, by_order: bool = False
) -> tuple[Indices, list[str]]:
    """For each label the row of its prediction, -1 where there is none; and what to say of it."""
    n, m = len(labels), len(guess)
    if guess.source == labels.source and n == m:  # one file with both, row by row
        return np.arange(n), []
    keys = list(zip(_keys(labels), _keys(guess), strict=True))
    wanted, there = max(keys, key=lambda pair: len(set(pair[0]) & set(pair[1])))
    if set(wanted) & set(there):
        return _by_name(guess, labels, wanted, there)
    named = all(any(side) for side in zip(*keys, strict=True))
    if named and not by_order:
        raise InputError(
            f"no face of {guess.source} has the name of a face of {labels.source} "
            f"({_display_names(guess)[:1]} and {_display_names(labels)[:1]}, for instance): name "
            "them alike (or say --by-order if both are in the same order)."
        )
    if n != m:
        raise InputError(
            f"{guess.source} has {m} faces and {labels.source} has {n}: without names on both "
            "sides they must be the same faces in the same order."
        )
    errors = nme(guess.points, labels.points, "box", average="visible")
    error = np.median(errors[~np.isnan(errors)]) if np.isfinite(errors).any() else 0.0
    if error > ABSURD and not by_order:
        raise InputError(
            f"{guess.source} and {labels.source} have no names in common, and matched by their "
            f"order the median error is {error:.0f} % of the face: the orders differ. Give both "
            "sides names (or say --by-order if the method is that bad)."
        )
    reason = "as --by-order asks" if named else "because one side has no names"
    return np.arange(n), [
        f"WARNING: predictions and labels were matched by their ORDER, {reason}: if the orders "
        "differ, every number here is wrong."
    ]


def _by_name(
    guess: FaceFile, labels: FaceFile, wanted: Sequence[str], there: Sequence[str]
) -> tuple[Indices, list[str]]:
    index = np.full(len(wanted), -1, dtype=np.intp)
    rows, held = _rows_of(wanted), _rows_of(there)
    for name in rows.keys() & held.keys():
        near = _nearest(labels.points[rows[name]], guess.points[held[name]])
        index[rows[name]] = np.append(held[name], -1)[near]
    missing = np.flatnonzero(index < 0)
    unused = len(there) - int((index >= 0).sum())
    notes = []
    if len(missing):
        notes.append(
            f"{len(missing)} of {len(wanted)} faces have no prediction and count as failures "
            f"(the first is {wanted[missing[0]]})."
        )
    if unused:
        notes.append(f"{unused} predictions have no label and are left out.")
    return index, notes


def _rows_of(names: Sequence[str]) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return rows


def _nearest(labels: Floats, guesses: Floats) -> Indices:
    """Faces of one image: each label its own prediction, the nearest ones of all together; -1 for
    none."""
    if len(labels) == len(guesses) == 1:
        return np.zeros(1, dtype=np.intp)
    optimize = require("scipy.optimize", "evaluate")
    gap = np.linalg.norm(labels[:, None] - guesses[None], axis=3)
    size = normalizers(labels, "box")
    cost = np.nan_to_num(known_mean(gap, axis=2) / size[:, None], nan=1e6, posinf=1e6)
    left, right = optimize.linear_sum_assignment(cost)
    result = np.full(len(labels), -1, dtype=np.intp)
    result[left] = np.where(cost[left, right] < NEAR, right, -1)
    return result


def _keys(side: FaceFile) -> list[tuple[str, ...]]:
    """What the faces may be called, () where that is not known of all."""
    parts = [_last_parts(side, count) for count in (99, 3, 2, 1)]
    return [side.names, *parts, side.image_ids]


def _last_parts(side: FaceFile, count: int) -> tuple[str, ...]:
    """The last folders and the name without suffix, where they tell the images apart; without
    spaces and padding of numbers, which copies of a data set change (ibug's "image_092 _01")."""
    paths = side.images or side.names

    def plain(name: str) -> str:
        tight = "".join(name.split())
        return str(int(tight)) if tight.isdecimal() and len(tight) < 20 else tight

    short = tuple("/".join(map(plain, Path(path).with_suffix("").parts[-count:])) for path in paths)
    return short if len(set(short)) == len(set(paths)) else ()


def _display_names(side: FaceFile) -> tuple[str, ...]:
    return side.names or unique_names(_last_parts(side, 1)) or unique_names(side.images)
