"""Predictions and labels of any origin, matched face by face.

By name wherever both sides have names: by face id, by COCO's image numbers, by image path, or
by the last parts of the path, whichever has most in common; or by number, where both sides are
numbered without a gap and only from different numbers. Several faces of one image are told apart
by where they are. Without names the order decides, which is said aloud; an order that gives absurd
errors is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.data.formats import guess_format
from luvli.data.formats.coco import coco_first_pixels
from luvli.data.formats.mediapipe import CAVEAT, MESH_SIZES, mesh_to_ibug68
from luvli.data.formats.parquet import read_face_table
from luvli.data.sets import get_set, load_set, parse_part
from luvli.errors import InputError, brief, require
from luvli.evaluation.accuracy import nme, tight_boxes
from luvli.evaluation.curve import known_mean
from luvli.evaluation.labelled_faces import LabelledFaces, predicted_faces
from luvli.evaluation.pixel_origin import origin_notes
from luvli.evaluation.prediction_files import FaceFile, read_predictions, read_truth, unique_names
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
        return replace(faces.with_predictions(**settings), **given)
    try:
        guess, held = read_predictions(source, signs)
        labels = held if truth is None else read_truth(Path(truth), signs)
    except InputError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"{predictions} or {truth} cannot be read as faces ({brief(error)}): write it again."
        ) from error
    if data is not None:
        labels = read_data_truth(*data, given.get("subset"))
        given = {"dataset": data[0]} | given
    if labels is None:
        raise InputError(f"{predictions} holds no labels: give them with --truth or --data.")
    first = 1.0 if one_based and source.is_file() else 0.0
    if truth is not None and _is_coco(source, "coco-results") and _is_coco(Path(truth), "coco"):
        # results count pixels as the annotations do that they were made for
        first += max(coco_first_pixels(truth), default=0.0)
    guess = _moved(guess, first)
    if truth_one_based and (truth is None or Path(truth).is_file()):
        labels = _moved(labels, 1.0)
    return match_faces(guess, labels, given, given_boxes=given_boxes, by_order=by_order)


def read_data_truth(name: str, root: PathLike, subset: str | None = None) -> FaceFile:
    """The labels of a data set, by default its `test_split`; images need not be there."""
    info = get_set(name)
    split = parse_part(name).split or info.test_split
    part = subset if subset in info.subsets else None
    faces = load_set(name, root, split, subset=part, images=False, skip_bad=True)
    return FaceFile(str(root), faces.records)


def _is_coco(path: Path, kind: str) -> bool:
    return path.suffix.lower() == ".json" and path.is_file() and guess_format(path) == kind


def _is_report(path: Path) -> bool:
    parquet = path.suffix.lower() == ".parquet" and path.is_file()
    return parquet and "truth" in read_face_table(path).column_names


def _moved(side: FaceFile, by: float) -> FaceFile:
    """The side with its points moved up and to the left by so many pixels."""
    if not by:
        return side
    return replace(side, records=[r.with_changes(points=r.points - by) for r in side.records])


def match_faces(
    guess: FaceFile,
    labels: FaceFile,
    about: Mapping[str, Any],
    *,
    given_boxes: bool = False,
    by_order: bool = False,
) -> LabelledFaces:
    """Both sides as one set: a row for each labelled face, NaN where it has no prediction."""
    caveat: tuple[str, ...] = ()
    if guess.points.shape[1] in MESH_SIZES:
        points = mesh_to_ibug68(guess.points)
        records = [
            replace(r, points=p, visibility=np.isfinite(p).all(axis=1), markup="ibug68")
            for r, p in zip(guess.records, points, strict=True)
        ]
        guess, caveat = replace(guess, records=records), (CAVEAT,)
    if guess.points.shape[1] != labels.points.shape[1]:
        raise InputError(
            f"{guess.source} has {guess.points.shape[1]} landmarks and {labels.source} has "
            f"{labels.points.shape[1]}: both must have the same markup."
        )
    index, notes = match_rows(guess, labels, by_order)

    def taken(name: str) -> Any:
        """A field of the predictions by rows of the labels; None where one does not have it."""
        values = [getattr(record, name) for record in guess.records]
        if any(value is None for value in values):
            return None
        rows = np.array(values, dtype=np.float64)[index]
        rows[index < 0] = np.nan
        return rows

    def one(name: str) -> str | None:
        named = {str(record.attributes.get(name) or "") for record in guess.records}
        return named.pop() or None if len(named) == 1 else None

    fields = dict(about)
    markup = fields.pop("markup", None) or labels.records[0].markup
    likelihood = fields.pop("likelihood", None) or one("likelihood") or "laplace"
    family(likelihood)  # refuses an unknown name
    predicted = predicted_faces(
        taken("points"), taken("covariance"), taken("visibility_probability"), markup, likelihood
    )
    pixels = [record.attributes.get("paper_pixel") for record in guess.records]
    if None not in pixels:
        fields["paper_pixel"] = np.where(index < 0, np.nan, np.array(pixels)[index])
    faces = LabelledFaces.from_records(
        labels.records,
        predicted,
        names=_display_names(labels) or _display_names(guess),
        images=labels.images or guess.images,
        **fields,
    )
    said = (*guess.notes, *caveat, *labels.notes, *notes)
    faces = replace(faces, notes=(*said, *origin_notes(faces.points, faces.labels)))
    return faces if given_boxes else faces.with_tight_boxes()


# --- which prediction belongs to which label ---------------------------------------------


def match_rows(
    guess: FaceFile, labels: FaceFile, by_order: bool = False
) -> tuple[Indices, list[str]]:
    """For each label the row of its prediction, -1 where there is none; and what to say of it."""
    n, m = len(labels), len(guess)
    if guess.source == labels.source and n == m:  # one file with both, row by row
        return np.arange(n), []
    pairs = [(key(labels), key(guess)) for key in _KEYS]
    shared = [len(set(left) & set(right)) for left, right in pairs]
    if max(shared):
        return _by_name(guess, labels, *pairs[int(np.argmax(shared))])
    named = all(any(key(side) for key in _KEYS) for side in (guess, labels))
    if named and not by_order:
        return _by_number(guess, labels)
    if n != m:
        raise InputError(
            f"{guess.source} has {m} faces and {labels.source} has {n}: without names on both "
            "sides they must be the same faces in the same order."
        )
    error = _median_error(guess.points, labels)
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


def _by_number(guess: FaceFile, labels: FaceFile) -> tuple[Indices, list[str]]:
    """Faces that both sides number without a gap, from different numbers: 1345 to 1851, as SPIGA
    calls the test faces of COFW, are 1 to 507."""
    left, right = _numbers(labels), _numbers(guess)
    if len(left) and len(left) == len(right):
        index = np.empty(len(left), dtype=np.intp)
        index[np.argsort(left)] = np.argsort(right)
        if _median_error(guess.points[index], labels) <= ABSURD:
            return index, [
                f"Faces were matched by their numbers: {right.min()} to {right.max()} of the "
                f"predictions are {left.min()} to {left.max()} of the labels."
            ]
    raise InputError(
        f"no face of {guess.source} has the name of a face of {labels.source} "
        f"({_display_names(guess)[:1]} and {_display_names(labels)[:1]}, for instance): name them "
        "alike (or say --by-order if both are in the same order)."
    )


def _numbers(side: FaceFile) -> NDArray[np.int64]:
    """(n,) what a side's faces are called, where that is a row of numbers without a gap."""
    names = _last_parts(1)(side)
    if not names or not all(name.isdecimal() and len(name) < 10 for name in names):
        return np.empty(0, dtype=np.int64)
    numbers = np.array([int(name) for name in names])
    whole = len(set(names)) == len(names) == np.ptp(numbers) + 1
    return numbers if whole else numbers[:0]


def _median_error(points: Floats, labels: FaceFile) -> float:
    errors = nme(points, labels.points, "box", average="visible")
    known = errors[~np.isnan(errors)]
    return float(np.median(known)) if len(known) else 0.0


def _by_name(
    guess: FaceFile, labels: FaceFile, left: Sequence[str], right: Sequence[str]
) -> tuple[Indices, list[str]]:
    held: dict[str, list[int]] = defaultdict(list)
    wanted: dict[str, list[int]] = defaultdict(list)
    for rows, names in ((held, right), (wanted, left)):
        for row, name in enumerate(names):
            rows[name].append(row)
    index = np.full(len(left), -1, dtype=np.intp)
    for name, faces in wanted.items():
        there = held.get(name, [])
        if len(faces) == len(there) == 1:
            index[faces] = there
        elif there:
            index[faces] = _nearest(labels.points[faces], guess.points[there], np.array(there))
    missing = np.flatnonzero(index < 0)
    unused = len(right) - int((index >= 0).sum())
    notes = []
    if len(missing):
        notes.append(
            f"{len(missing)} of {len(left)} faces have no prediction and count as failures "
            f"(the first is {left[missing[0]]})."
        )
    if unused:
        notes.append(f"{unused} predictions have no label and are left out.")
    return index, notes


def _nearest(labels: Floats, guesses: Floats, rows: Indices) -> Indices:
    """Faces of one image: each label its own prediction, the nearest ones of all together."""
    optimize = require("scipy.optimize", "evaluate")
    boxes = tight_boxes(labels)
    size = np.sqrt(np.prod(boxes[:, 2:] - boxes[:, :2], axis=1))
    gap = np.linalg.norm(labels[:, None] - guesses[None], axis=3)
    cost = np.nan_to_num(known_mean(gap, axis=2) / size[:, None], nan=1e6, posinf=1e6)
    left, right = optimize.linear_sum_assignment(cost)
    result = np.full(len(labels), -1, dtype=np.intp)
    result[left] = np.where(cost[left, right] < _NEAR, rows[right], -1)
    return result


def _plain(name: str) -> str:
    """Without what copies of a data set change: spaces (ibug's "image_092 _01"), padding of
    numbers."""
    tight = "".join(name.split())
    return str(int(tight)) if tight.isdecimal() and len(tight) < 20 else tight


def _last_parts(count: int) -> Callable[[FaceFile], tuple[str, ...]]:
    """The last folders and the name without suffix, where they tell the images apart."""

    def key(side: FaceFile) -> tuple[str, ...]:
        paths = side.images or side.names
        short = tuple(
            "/".join(map(_plain, Path(path).with_suffix("").parts[-count:])) for path in paths
        )
        return short if len(set(short)) == len(set(paths)) else ()

    return key


_KEYS: tuple[Callable[[FaceFile], tuple[str, ...]], ...] = (
    lambda side: side.names, lambda side: side.images, _last_parts(3), _last_parts(2),
    _last_parts(1), lambda side: side.image_ids,
)  # fmt: skip


def _display_names(side: FaceFile) -> tuple[str, ...]:
    return side.names or unique_names(_last_parts(1)(side)) or unique_names(side.images)
