"""A model's predictions as labels: for self-training, and for learning from a teacher.

A face is predicted twice, as it is and mirrored; the label is the mean of both predictions,
and their disagreement is added to its covariance. With `jitter` the box moves and grows, too,
and each of the six predictions counts by the inverse of its own covariance.

In self-training a label of a model is the location plus noise; the loss adds the noise's
covariance to the predicted one (`luvli_loss(label_covariance=...)`), so an unsure label pulls
less. A teacher's label is a distribution to be learnt as such (`distillation_loss`).
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from luvli.arrays import Floats
from luvli.data.augment import Augmentation
from luvli.data.boxes import BoxNoise, crop_box
from luvli.data.cache import cache_root, file_state
from luvli.data.dataset import CropDataset
from luvli.data.record import FaceRecord, Visibility
from luvli.data.sets import DataWarning
from luvli.errors import InputError
from luvli.files import PathLike, whole_file
from luvli.image import affine as affines
from luvli.image.read import read_image
from luvli.markup import get_markup, is_markup
from luvli.network.backend import Backend
from luvli.network.inference import CropPredictor
from luvli.training.recipe import Source
from luvli.training.sources import model_file
from luvli.training.validate import predict_dataset


class ModelLabels(NamedTuple):
    """A model's predictions for n faces, in pixels of each one's image; NaN for a face whose image
    cannot be read."""

    points: Floats
    """(n, k, 2)"""
    covariance: Floats
    """(n, k, 2, 2)"""
    visibility: Floats
    """(n, k) probability"""
    visibility_trained: bool


class TeacherLabel(NamedTuple):
    """A teacher's prediction for one face, in image pixels."""

    points: Floats
    """(k, 2)"""
    covariance: Floats
    """(k, 2, 2)"""
    visibility: Floats
    """(k,) probability; 1 from a teacher that was not trained for visibility"""


JITTER = (((0.0, 0.0), 1.0), ((0.03, -0.02), 1.06), ((-0.03, 0.02), 0.95))
"""shift (in parts of the box's longer side) and growth of the boxes of jittered views"""


def relabel(
    records: Sequence[FaceRecord],
    model: PathLike,
    source: Source,
    cache: str | None = None,
    jitter: bool = False,
) -> list[FaceRecord]:
    """The faces of a source with the model's locations (image pixels) and covariances.

    Where the model's visibility was trained, a landmark that it calls invisible becomes
    self-occluded; otherwise the old classes stay. Lids of eyes that are known to be closed meet.
    With the source's `skip_bad`, faces whose image
    cannot be read are left out.
    """
    labels = label_faces(records, model, source, cache, jitter)
    result = []
    for i, record in enumerate(records):
        if np.isnan(labels.points[i]).all():
            continue
        seen = labels.visibility[i] > 0.5 if labels.visibility_trained else record.visible
        points = labels.points[i]
        if record.attributes.get("eyes") == "closed":
            points = with_closed_lids(points)
        result.append(
            record.with_changes(
                points=points,
                covariance=labels.covariance[i],
                visibility=np.where(seen, Visibility.UNOCCLUDED, Visibility.SELF_OCCLUDED),
                visibility_probability=labels.visibility[i],
            )
        )
    return result


_UPPER_LIDS, _LOWER_LIDS = [37, 38, 43, 44], [41, 40, 47, 46]
_LASH_LINE = 1 / 3
"""where closed lids meet, from a model's lower lid to its upper one: it leaves them a little apart,
and the upper lid is what moved (seen on 60 faces)"""


def with_closed_lids(points: Floats) -> Floats:
    """The 68 points (68, 2) with each pair of upper and lower lid in one place."""
    closed = points.copy()
    upper, lower = points[_UPPER_LIDS], points[_LOWER_LIDS]
    closed[_UPPER_LIDS] = closed[_LOWER_LIDS] = lower + _LASH_LINE * (upper - lower)
    return closed


def teacher_labels(
    records: Sequence[FaceRecord], model: PathLike, source: Source, cache: str | None = None
) -> dict[str, TeacherLabel]:
    """A teacher's prediction for each face, by its id."""
    labels = label_faces(records, model, source, cache)
    seen = labels.visibility if labels.visibility_trained else np.ones_like(labels.visibility)
    parts = zip(records, labels.points, labels.covariance, seen, strict=True)
    by_id = {record.face_id: TeacherLabel(*label) for record, *label in parts}
    if len(by_id) < len(records):
        raise InputError("faces to learn from a teacher need ids of their own: some are the same.")
    return by_id


def label_faces(
    records: Sequence[FaceRecord],
    model: PathLike,
    source: Source,
    cache: str | None = None,
    jitter: bool = False,
) -> ModelLabels:
    """A model's predictions for labelled faces, each the mean of the face and its mirror image.

    They are kept in the cache folder, so that other processes, and the same run when it is
    resumed, do not predict again.
    """
    path = model_file(model)
    predictor = CropPredictor.load(path)
    info = predictor.info
    markups = {record.markup for record in records}
    if markups != {info.config.markup}:
        raise InputError(
            f"{Path(model)} has the markup {info.config.markup}, the faces to label "
            f"have {', '.join(sorted(markups))}: use a model of the same markup."
        )
    trained, noise = info.config.visibility_trained, source.box_noise
    store = Path(cache or cache_root()) / f"labels-{_key(path, records, noise, jitter)}.npz"
    if store.is_file():
        with np.load(store) as arrays:
            labels = [arrays[name] for name in ("points", "covariance", "visibility")]
        if source.skip_bad or not np.isnan(labels[0]).all(axis=(1, 2)).any():
            return ModelLabels(labels[0], labels[1], labels[2], trained)
    readable = _readable(records, source.skip_bad)
    faces = [record for record, good in zip(records, readable, strict=True) if good]
    views = []
    sides = (False, True) if is_markup(info.config.markup) else (False,)
    for mirrored, (shift, growth) in product(sides, JITTER if jitter else JITTER[:1]):
        crops = CropDataset(
            faces if growth == 1 else _moved_boxes(faces, noise, shift, growth),
            info.config.input_size,
            enlarge=info.enlarge,
            augmentation=Augmentation.recipe("none").model_copy(update={"flip": float(mirrored)}),
            box_noise=noise,
            convention=info.crop_convention,
        )
        views.append(_in_image_pixels(predictor, crops))
    labels = []
    for part in combine_views(views, weighted=jitter):
        whole = np.full((len(records), *part.shape[1:]), np.nan)
        whole[readable] = part
        labels.append(whole)
    with whole_file(store) as place:
        np.savez(place, **dict(zip(("points", "covariance", "visibility"), labels, strict=True)))
    return ModelLabels(labels[0], labels[1], labels[2], trained)


def _readable(records: Sequence[FaceRecord], skip_bad: bool) -> list[bool]:
    """Whether each face's image can be read; only with `skip_bad` is one that cannot allowed."""
    problems: list[InputError] = []
    readable = []
    for record in records if skip_bad else ():
        try:
            read_image(record.image or "")
            readable.append(True)
        except InputError as error:
            problems.append(error)
            readable.append(False)
    if problems:
        sentence = f"{len(problems):,} images cannot be read and are left out; the first: "
        warnings.warn(f"{sentence}{problems[0]}", DataWarning, stacklevel=4)
    return readable if skip_bad else [True] * len(records)


def _moved_boxes(
    records: Sequence[FaceRecord], noise: BoxNoise, shift: tuple[float, float], growth: float
) -> list[FaceRecord]:
    """The same faces with boxes that a less exact detector would give."""
    boxes = [crop_box(record, noise).moved(shift, growth).array for record in records]
    parts = zip(records, boxes, strict=True)
    return [record.with_changes(box=box, box_kind="given") for record, box in parts]


def _key(model: Path, records: Sequence[FaceRecord], box_noise: BoxNoise, jitter: bool) -> str:
    """Differs between any two models, sets of faces, and ways to crop them."""
    kind = b"jittered labels" if jitter else b"calibrated labels"
    digest = hashlib.sha256(kind + model.read_bytes())
    for record in records:
        state = "" if record.image is None else file_state(record.image)
        digest.update(f"{state} {record.face_id} {record.box} {box_noise}".encode())
        digest.update(record.points.tobytes())
    return digest.hexdigest()[:24]


def _in_image_pixels(model: Backend, crops: CropDataset) -> tuple[Floats, Floats, Floats]:
    """Points (n, k, 2), covariances (n, k, 2, 2) and visibilities (n, k) in each image."""
    predictions = predict_dataset(model, crops)
    back = affines.invert(predictions.affines)
    points = affines.apply(back, predictions.points)
    covariance = affines.push_covariance(back, predictions.covariance)
    visibility = predictions.visibility.copy()
    mirrored = affines.is_mirrored(back)
    if mirrored.any():  # left and right have changed names
        flip = get_markup(model.info.config.markup).flip
        for values in (points, covariance, visibility):
            values[mirrored] = values[mirrored][:, flip]
    return points, covariance, visibility


def combine_views(
    views: Sequence[tuple[Floats, Floats, Floats]], weighted: bool
) -> tuple[Floats, Floats, Floats]:
    """Mean of several views of the same faces; their scatter adds to the covariance.

    `weighted`: the mean of the locations is (sum S_a^-1)^-1 sum S_a^-1 p_a, so that a view that
    is unsure along one direction counts little along it.
    """
    points, covariance, visibility = (np.stack(part) for part in zip(*views, strict=True))
    mean = points.mean(axis=0)
    if weighted and np.isfinite(covariance).all():
        precision = np.linalg.inv(covariance)
        pulled = np.einsum("ankij,ankj->nki", precision, points)
        mean = np.linalg.solve(precision.sum(axis=0), pulled[..., None])[..., 0]
    off = points - mean
    total = covariance.mean(axis=0) + np.einsum("anki,ankj->nkij", off, off) / len(views)
    return mean, (total + total.swapaxes(-1, -2)) / 2, visibility.mean(0)
