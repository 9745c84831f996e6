"""Predictions and labels of any origin, matched face by face.

By name wherever both sides have names: by face id, by COCO's image numbers, by image path, or
by the last parts of the path, whichever has most in common; or by number, where both sides are
numbered without a gap and only from different numbers. Several faces of one image are told apart
by where they are. Without names the order decides, which is said aloud; an order that gives absurd
errors is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.data.formats import guess_format
from luvli.data.formats.coco import coco_first_pixels
from luvli.data.record import Visibility
from luvli.data.sets import get_set, load_set, parse_part
from luvli.errors import InputError, require
from luvli.evaluation.accuracy import nme, tight_boxes
from luvli.evaluation.curve import known_mean
from luvli.evaluation.labelled_faces import LabelledFaces, absolute_path
from luvli.evaluation.paper_units import paper_pixels
from luvli.evaluation.pixel_origin import origin_note, share_note
from luvli.evaluation.prediction_files import (
    UnmatchedFaces,
    arrays_of_records,
    read_predictions,
    read_truth,
    unique_names,
)
from luvli.evaluation.report_file import read_parquet
from luvli.files import PathLike
from luvli.likelihood import family

ABSURD = 25.0
"""percent of the box: a median error above it means that the orders differ, not that a
method is bad"""
_NEAR = 1.0  # box sizes: a prediction further from a face of the same image is of another face

Indices = NDArray[np.intp]


def read_faces(
    predictions: PathLike,
    truth: PathLike | None = None,
    *,
    data: tuple[str, PathLike] | None = None,
    split: str | None = None,
    protocol: str | None = None,
    one_based: bool = False,
    truth_one_based: bool = False,
    signs: bool = True,
    given_boxes: bool = False,
    by_order: bool = False,
    **about: Any,
) -> LabelledFaces:
    """Read predictions and labels, and match them.

    `truth` is a file or folder, `data` a data set's name and folder instead; both may be left
    out when the predictions hold the labels too. `one_based` says that the predictions (other
    than .pts, which always do) count pixels from 1, `truth_one_based` that the labels do.
    `signs` reads a pair of negative
    coordinates in .pts as occlusion (MERL-RAV). `given_boxes` normalises by the boxes in the
    label file instead of tight ones. `by_order` allows an order that looks wrong. `about`:
    method, dataset, subset, markup, likelihood.
    """
    given = {name: value for name, value in about.items() if value is not None}
    family(given.get("likelihood", "laplace"))  # refuses an unknown name
    source = Path(predictions)
    if truth is None and data is None and _is_report(source):
        faces = read_parquet(source)
        settings = {name: given.pop(name) for name in ("markup", "likelihood") if name in given}
        return replace(faces, faces=replace(faces.faces, **settings), **given)
    guess, held = read_predictions(source, signs)
    first = 1.0 if one_based and source.is_file() else 0.0
    if truth is not None and _is_coco(source, "coco-results") and _is_coco(Path(truth), "coco"):
        # results count pixels as the annotations do that they were made for
        first += max(coco_first_pixels(truth), default=0.0)
    guess = replace(guess, points=guess.points - first)
    if data is not None:
        labels: UnmatchedFaces | None = read_data_truth(*data, split, protocol, given.get("subset"))
        given = {"dataset": data[0]} | given
    else:
        labels = held if truth is None else read_truth(Path(truth), signs)
    if labels is None:
        raise InputError(f"{predictions} holds no labels: give them with --truth or --data.")
    if truth_one_based and (truth is None or Path(truth).is_file()):
        labels = replace(labels, points=labels.points - 1.0)
    return match_faces(guess, labels, given, given_boxes=given_boxes, by_order=by_order)


def read_data_truth(
    name: str,
    root: PathLike,
    split: str | None = None,
    protocol: str | None = None,
    subset: str | None = None,
) -> UnmatchedFaces:
    """The labels of a data set, by default its `test_split`; images need not be there."""
    info = get_set(name)
    split = split or parse_part(name).split or info.test_split
    part = subset if subset in info.subsets else None
    faces = load_set(name, root, split, subset=part, protocol=protocol, images=False, skip_bad=True)
    return arrays_of_records(faces.records, str(root))


def _is_coco(path: Path, kind: str) -> bool:
    return path.suffix.lower() == ".json" and path.is_file() and guess_format(path) == kind


def _is_report(path: Path) -> bool:
    if path.suffix.lower() != ".parquet" or not path.is_file():
        return False
    from luvli.data.formats.parquet import read_face_table

    return "truth" in read_face_table(path).column_names


def match_faces(
    guess: UnmatchedFaces,
    labels: UnmatchedFaces,
    about: Mapping[str, Any],
    *,
    given_boxes: bool = False,
    by_order: bool = False,
) -> LabelledFaces:
    """Both sides as one set: a row for each labelled face, NaN where it has no prediction."""
    if guess.points.shape[1] != labels.points.shape[1]:
        raise InputError(
            f"{guess.source} has {guess.points.shape[1]} landmarks and {labels.source} has "
            f"{labels.points.shape[1]}: both must have the same markup."
        )
    index, notes = match_rows(guess, labels, by_order)
    there = index >= 0

    def taken(values: NDArray[Any] | None) -> Any:
        if values is None:
            return None
        out = np.full((len(index), *values.shape[1:]), np.nan)
        out[there] = values[index[there]]
        return out

    classes = labels.classes
    if classes is None:
        labelled = np.isfinite(labels.points).all(axis=2)
        classes = np.where(labelled, Visibility.UNOCCLUDED, Visibility.UNLABELLED).astype(np.int8)
    truth = np.where((classes > 0)[..., None], labels.points, np.nan)
    notes += origin_note(taken(guess.points), truth) + share_note(taken(guess.points), truth)
    dataset = about.get("dataset", "") or labels.dataset
    pixel = labels.paper_pixel if guess.paper_pixel is None else taken(guess.paper_pixel)
    if pixel is None:
        boxes = tight_boxes(truth) if labels.crop_boxes is None else labels.crop_boxes
        pixel = paper_pixels(boxes, dataset)
    parts = sorted({name for members in labels.subsets for name in members})
    fields: dict[str, Any] = {
        "markup": labels.markup or guess.markup,
        "dataset": dataset,
        "likelihood": guess.likelihood or "laplace",
    }
    return LabelledFaces.from_arrays(
        taken(guess.points),
        truth,
        classes,
        taken(guess.covariance),
        taken(guess.visibility),
        label_boxes=labels.boxes if given_boxes else None,
        paper_pixel=pixel,
        lengths={} if labels.box_size is None else {"box_size": labels.box_size},
        names=_display_names(labels) or _display_names(guess),
        images=tuple(map(absolute_path, labels.images or guess.images)),
        subsets={part: np.array([part in members for members in labels.subsets]) for part in parts},
        notes=(*guess.notes, *labels.notes, *notes),
        **(fields | dict(about)),
    )


# --- which prediction belongs to which label ---------------------------------------------


def match_rows(
    guess: UnmatchedFaces, labels: UnmatchedFaces, by_order: bool = False
) -> tuple[Indices, list[str]]:
    """For each label the row of its prediction, -1 where there is none; and what to say of it."""
    n, m = len(labels.points), len(guess.points)
    if guess.source == labels.source and n == m:  # one file with both, row by row
        return np.arange(n), []
    pairs = [(key(labels), key(guess)) for key in _KEYS]
    shared = [len(set(left) & set(right)) if left and right else 0 for left, right in pairs]
    if max(shared):
        left, right = pairs[int(np.argmax(shared))]
        return _by_name(guess, labels, left, right)
    named = all(any(key(side) for key in _KEYS) for side in (guess, labels))
    if named and not by_order:
        numbered = _by_number(guess, labels)
        if numbered is None:
            raise InputError(
                f"no face of {guess.source} has the name of a face of {labels.source} "
                f"({_example(guess)} and {_example(labels)}, for instance): name them alike (or "
                "say --by-order if both are in the same order)."
            )
        return numbered
    if n != m:
        raise InputError(
            f"{guess.source} has {m} faces and {labels.source} has {n}: without names on both "
            "sides they must be the same faces in the same order."
        )
    error = _median_error(guess, labels)
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


def _by_number(guess: UnmatchedFaces, labels: UnmatchedFaces) -> tuple[Indices, list[str]] | None:
    """Faces that both sides number without a gap, from different numbers: 1345 to 1851, as SPIGA
    calls the test faces of COFW, are 1 to 507."""
    left, right = _numbers(labels), _numbers(guess)
    if left is None or right is None or len(left) != len(right):
        return None
    index = np.empty(len(left), dtype=np.intp)
    index[np.argsort(left)] = np.argsort(right)
    if _median_error(replace(guess, points=guess.points[index]), labels) > ABSURD:
        return None
    note = (
        f"Faces were matched by their numbers: {right.min()} to {right.max()} of the predictions "
        f"are {left.min()} to {left.max()} of the labels."
    )
    return index, [note]


def _numbers(side: UnmatchedFaces) -> NDArray[np.int64] | None:
    """(n,) what a side's faces are called, where that is a row of numbers without a gap."""
    names = _last_parts(1)(side)
    if not names or not all(name.isdecimal() and len(name) < 10 for name in names):
        return None
    numbers = np.array([int(name) for name in names])
    return numbers if len(set(names)) == len(names) == np.ptp(numbers) + 1 else None


def _median_error(guess: UnmatchedFaces, labels: UnmatchedFaces) -> float:
    visible = None if labels.classes is None else labels.classes > 0
    errors = nme(guess.points, labels.points, "box", visible, average="visible")
    known = errors[~np.isnan(errors)]
    return float(np.median(known)) if len(known) else 0.0


def _by_name(
    guess: UnmatchedFaces, labels: UnmatchedFaces, left: Sequence[str], right: Sequence[str]
) -> tuple[Indices, list[str]]:
    held: dict[str, list[int]] = {}
    for row, name in enumerate(right):
        held.setdefault(name, []).append(row)
    wanted: dict[str, list[int]] = {}
    for row, name in enumerate(left):
        wanted.setdefault(name, []).append(row)
    index = np.full(len(left), -1, dtype=np.intp)
    for name, faces in wanted.items():
        rows = held.get(name, [])
        if len(faces) == len(rows) == 1:
            index[faces[0]] = rows[0]
        elif rows:
            index[faces] = _nearest(labels.points[faces], guess.points[rows], rows)
    missing = np.flatnonzero(index < 0)
    notes = []
    if len(missing):
        notes.append(
            f"{len(missing)} of {len(left)} faces have no prediction and count as failures "
            f"(the first is {left[missing[0]]})."
        )
    unused = len(right) - int((index >= 0).sum())
    if unused:
        notes.append(f"{unused} predictions have no label and are left out.")
    return index, notes


def _nearest(
    labels: NDArray[np.float64], guesses: NDArray[np.float64], rows: Sequence[int]
) -> Indices:
    """Faces of one image: each label its own prediction, the nearest ones of all together."""
    optimize = require("scipy.optimize", "evaluate")
    boxes = tight_boxes(labels)
    size = np.sqrt(np.prod(boxes[:, 2:] - boxes[:, :2], axis=1))
    gap = np.linalg.norm(labels[:, None] - guesses[None], axis=3)
    cost = np.nan_to_num(known_mean(gap, axis=2) / size[:, None], nan=1e6, posinf=1e6)
    result = np.full(len(labels), -1, dtype=np.intp)
    for i, j in zip(*optimize.linear_sum_assignment(cost), strict=True):
        if cost[i, j] < _NEAR:
            result[i] = rows[j]
    return result


def _face_ids(side: UnmatchedFaces) -> tuple[str, ...]:
    return unique_names(side.names)


def _image_ids(side: UnmatchedFaces) -> tuple[str, ...]:
    return side.image_ids if all(side.image_ids) else ()


def _image_paths(side: UnmatchedFaces) -> tuple[str, ...]:
    return side.images if all(side.images) else ()


def _plain(name: str) -> str:
    """Without what copies of a data set change: spaces (ibug's "image_092 _01"), padding of
    numbers."""
    tight = "".join(name.split())
    return str(int(tight)) if tight.isdecimal() and len(tight) < 20 else tight


def _last_parts(count: int) -> Callable[[UnmatchedFaces], tuple[str, ...]]:
    """The last folders and the name without suffix, where they tell the images apart."""

    def key(side: UnmatchedFaces) -> tuple[str, ...]:
        paths = _image_paths(side) or side.names
        short = tuple(
            "/".join(map(_plain, Path(path).with_suffix("").parts[-count:])) for path in paths
        )
        return short if len(set(short)) == len(set(paths)) else ()

    return key


_KEYS: tuple[Callable[[UnmatchedFaces], tuple[str, ...]], ...] = (
    _face_ids, _image_paths, _last_parts(3), _last_parts(2), _last_parts(1), _image_ids,
)  # fmt: skip


def _display_names(side: UnmatchedFaces) -> tuple[str, ...]:
    return _face_ids(side) or unique_names(_last_parts(1)(side)) or unique_names(side.images)


def _example(side: UnmatchedFaces) -> str:
    return repr((_face_ids(side) or _last_parts(1)(side) or side.images or ("",))[0])
