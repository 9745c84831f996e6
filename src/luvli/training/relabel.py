"""A model's predictions as labels: for self-training, and for learning from a teacher.

A face is asked about twice, as it is and mirrored; the label is the mean of both predictions,
and their disagreement is added to its covariance.

In self-training a label of a model is the location plus noise; the loss adds the noise's
covariance to the predicted one (`luvli_loss(label_covariance=...)`), so an unsure label pulls
less. A teacher's label is a distribution to be learnt as such (`distillation_loss`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luvli.data.augment import Augmentation
from luvli.data.boxes import BoxNoise
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

Floats = NDArray[np.float64]


class ModelLabels(NamedTuple):
    """What a model says about n faces, in pixels of each one's image."""

    points: Floats
    """(n, k, 2)"""
    covariance: Floats
    """(n, k, 2, 2)"""
    visibility: Floats
    """(n, k) probability"""
    visibility_trained: bool


def relabel(
    records: Sequence[FaceRecord], model: PathLike, box_noise: BoxNoise, cache: str | None = None
) -> list[FaceRecord]:
    """The same faces with the model's locations (image pixels) and covariances.

    Where the model's visibility was trained, a landmark that it calls invisible becomes
    self-occluded; otherwise the old classes stay.
    """
    labels = label_faces(records, model, box_noise, cache)
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
    records: Sequence[FaceRecord], model: PathLike, box_noise: BoxNoise, cache: str | None = None
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
    store = Path(cache or cache_root()) / f"labels-{_key(path, records, box_noise)}.npz"
    if store.is_file():
        with np.load(store) as kept:
            return ModelLabels(kept["points"], kept["covariance"], kept["visibility"], trained)
    views = []
    for mirrored in (False, True) if is_markup(info.config.markup) else (False,):
        flip = Augmentation.recipe("none").model_copy(update={"flip": float(mirrored)})
        crops = CropDataset(
            records,
            info.config.input_size,
            enlarge=info.enlarge,
            augmentation=flip,
            box_noise=box_noise,
            convention=info.crop_convention,
        )
        views.append(_in_image_pixels(predictor, crops))
    points, covariance, visibility = _combined(views)
    with whole_file(store) as place:
        np.savez(place, points=points, covariance=covariance, visibility=visibility)
    return ModelLabels(points, covariance, visibility, trained)


def _key(model: Path, records: Sequence[FaceRecord], box_noise: BoxNoise) -> str:
    """Tells the predictions of one model about some faces from all others."""
    digest = hashlib.sha256(b"calibrated labels" + model.read_bytes())
    for record in records:
        state = "" if record.image is None else file_state(record.image)
        digest.update(f"{state} {record.face_id} {record.box} {box_noise}".encode())
        digest.update(record.points.tobytes())
    return digest.hexdigest()[:24]


def _in_image_pixels(model: Backend, crops: CropDataset) -> tuple[Floats, Floats, Floats]:
    """Points (n, k, 2), covariances (n, k, 2, 2) and visibilities (n, k) in each picture."""
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


def _combined(views: Sequence[tuple[Floats, Floats, Floats]]) -> tuple[Floats, Floats, Floats]:
    """Mean of several views of the same faces; their scatter adds to the covariance."""
    points, covariance, visibility = (np.stack(part) for part in zip(*views, strict=True))
    off = points - points.mean(axis=0)
    scatter = np.einsum("anki,ankj->nkij", off, off) / len(views)
    return points.mean(axis=0), _symmetric(covariance.mean(axis=0) + scatter), visibility.mean(0)


def shipped_or_path(name: PathLike) -> Path:
    """The file of a shipped model, by its name, or the path itself."""
    return find_model(name, "torch") if str(name) in model_names() else Path(name)


def _symmetric(matrices: Floats) -> Floats:
    return (matrices + matrices.swapaxes(-1, -2)) / 2
