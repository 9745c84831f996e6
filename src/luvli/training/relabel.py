"""A model's predictions as labels: for self-training, and for learning from a teacher.

A face is asked about twice, as it is and mirrored; the label is the mean of both predictions,
and their disagreement is added to its covariance. With `jitter` the box moves and grows, too,
and each of the six predictions counts by the inverse of its own covariance.

In self-training a label of a model is the location plus noise; the loss adds the noise's
covariance to the predicted one (`luvli_loss(label_covariance=...)`), so an unsure label pulls
less. A teacher's label is a distribution to be learnt as such (`distillation_loss`).
"""

from __future__ import annotations

import hashlib
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
from luvli.errors import InputError
from luvli.files import PathLike, whole_file
from luvli.image import affine as affines
from luvli.markup import get_markup, is_markup
from luvli.models import find_model, model_names
from luvli.network.backend import Backend
from luvli.network.inference import CropPredictor
from luvli.training.batch import TeacherLabel
from luvli.training.validate import predict_dataset


class ModelLabels(NamedTuple):
    """What a model says about n faces, in pixels of each one's image."""

    points: Floats
    """(n, k, 2)"""
    covariance: Floats
    """(n, k, 2, 2)"""
    visibility: Floats
    """(n, k) probability"""
    visibility_trained: bool


JITTER = (((0.0, 0.0), 1.0), ((0.03, -0.02), 1.06), ((-0.03, 0.02), 0.95))
"""shift (in parts of the box's longer side) and growth of the boxes of jittered views"""


def relabel(
    records: Sequence[FaceRecord],
    model: PathLike,
    box_noise: BoxNoise,
    cache: str | None = None,
    jitter: bool = False,
) -> list[FaceRecord]:
    """The same faces with the model's locations (image pixels) and covariances.

    Where the model's visibility was trained, a landmark that it calls invisible becomes
    self-occluded; otherwise the old classes stay.
    """
    labels = label_faces(records, model, box_noise, cache, jitter)
    result = []
    for i, record in enumerate(records):
        seen = labels.visibility[i] > 0.5 if labels.visibility_trained else record.visible
        result.append(
            record.with_changes(
                points=labels.points[i],
                covariance=labels.covariance[i],
                visibility=np.where(seen, Visibility.UNOCCLUDED, Visibility.SELF_OCCLUDED),
                visibility_probability=labels.visibility[i],
            )
        )
    return result


def teacher_labels(
    records: Sequence[FaceRecord], model: PathLike, box_noise: BoxNoise, cache: str | None = None
) -> dict[str, TeacherLabel]:
    """What a teacher says about each face, by its id."""
    labels = label_faces(records, model, box_noise, cache)
    seen = labels.visibility if labels.visibility_trained else np.ones_like(labels.visibility)
    parts = zip(records, labels.points, labels.covariance, seen, strict=True)
    named = {record.face_id: TeacherLabel(*label) for record, *label in parts}
    if len(named) < len(records):
        raise InputError("faces to learn from a teacher need ids of their own: some are the same.")
    return named


def label_faces(
    records: Sequence[FaceRecord],
    model: PathLike,
    box_noise: BoxNoise,
    cache: str | None = None,
    jitter: bool = False,
) -> ModelLabels:
    """A model's predictions for labelled faces, each the mean of the face and its mirror image.

    They are kept in the cache folder, so that other processes, and the same run when it is
    resumed, do not ask again.
    """
    path = shipped_or_path(model)
    predictor = CropPredictor.load(path)
    info = predictor.info
    markups = {record.markup for record in records}
    if markups != {info.config.markup}:
        raise InputError(
            f"{Path(model)} knows the markup {info.config.markup}, the faces to label "
            f"have {', '.join(sorted(markups))}: use a model of the same markup."
        )
    trained = info.config.visibility_trained
    store = Path(cache or cache_root()) / f"labels-{_key(path, records, box_noise, jitter)}.npz"
    if store.is_file():
        with np.load(store) as kept:
            return ModelLabels(kept["points"], kept["covariance"], kept["visibility"], trained)
    views = []
    sides = (False, True) if is_markup(info.config.markup) else (False,)
    boxes = JITTER if jitter else JITTER[:1]
    for mirrored, (shift, growth) in product(sides, boxes):
        flip = Augmentation.recipe("none").model_copy(update={"flip": float(mirrored)})
        crops = CropDataset(
            records if growth == 1 else _moved_boxes(records, box_noise, shift, growth),
            info.config.input_size,
            enlarge=info.enlarge,
            augmentation=flip,
            box_noise=box_noise,
            convention=info.crop_convention,
        )
        views.append(_in_image_pixels(predictor, crops))
    points, covariance, visibility = _combined(views, weighted=jitter)
    with whole_file(store) as place:
        np.savez(place, points=points, covariance=covariance, visibility=visibility)
    return ModelLabels(points, covariance, visibility, trained)


def _moved_boxes(
    records: Sequence[FaceRecord], noise: BoxNoise, shift: tuple[float, float], growth: float
) -> list[FaceRecord]:
    """The same faces with boxes that a less exact detector would give."""
    moved = [crop_box(record, noise).moved(shift, growth).array for record in records]
    parts = zip(records, moved, strict=True)
    return [record.with_changes(box=box, box_kind="given") for record, box in parts]


def _key(model: Path, records: Sequence[FaceRecord], box_noise: BoxNoise, jitter: bool) -> str:
    """Tells the predictions of one model about some faces from all others."""
    kind = b"jittered labels" if jitter else b"calibrated labels"
    digest = hashlib.sha256(kind + model.read_bytes())
    for record in records:
        state = "" if record.image is None else file_state(record.image)
        digest.update(f"{state} {record.face_id} {record.box} {box_noise}".encode())
        digest.update(record.points.tobytes())
    return digest.hexdigest()[:24]


def _in_image_pixels(model: Backend, crops: CropDataset) -> tuple[Floats, Floats, Floats]:
    """Points (n, k, 2), covariances (n, k, 2, 2) and visibilities (n, k) in each image."""
    found = predict_dataset(model, crops)
    back = affines.invert(found.affines)
    points = affines.apply(back, found.points)
    covariance = affines.push_covariance(back, found.covariance)
    visibility = found.visibility.copy()
    mirrored = affines.is_mirrored(back)
    if mirrored.any():  # left and right have changed names
        flip = get_markup(model.info.config.markup).flip
        for values in (points, covariance, visibility):
            values[mirrored] = values[mirrored][:, flip]
    return points, covariance, visibility


def _combined(
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
    scatter = np.einsum("anki,ankj->nkij", off, off) / len(views)
    return mean, _symmetric(covariance.mean(axis=0) + scatter), visibility.mean(0)


def shipped_or_path(name: PathLike) -> Path:
    """The file of a shipped model, by its name, or the path itself."""
    path = Path(name)
    if str(name) in model_names() or not (path.suffix or path.exists()):
        return find_model(name, "torch")  # refuses an unknown name with those that there are
    return path


def _symmetric(matrices: Floats) -> Floats:
    return (matrices + matrices.swapaxes(-1, -2)) / 2
