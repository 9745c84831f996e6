"""A model's predictions as labels: for self-training, and for learning from a teacher.

A face is predicted twice, as it is and mirrored; the label is the mean of both predictions,
and their disagreement is added to its covariance.

In self-training a label of a model is the location plus noise; the loss adds the noise's
covariance to the predicted one (`luvli_loss(label_covariance=...)`), so an unsure label pulls
less. A teacher's label is a distribution to be learnt as such (`distillation_loss`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from luvli.arrays import Floats
from luvli.data.augment import Augmentation
from luvli.data.boxes import BoxNoise
from luvli.data.cache import cache_root, file_state
from luvli.data.dataset import CropDataset
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError
from luvli.faces import FaceLandmarks, Faces
from luvli.files import PathLike, whole_file
from luvli.markup import get_markup, is_markup
from luvli.network.inference import CropPredictor
from luvli.training.ingredients import model_file
from luvli.training.recipe_data import Source
from luvli.training.validate import predict_dataset

_UPPER_LIDS, _LOWER_LIDS = [37, 38, 43, 44], [41, 40, 47, 46]
_LASH_LINE = 1 / 3
"""where closed lids meet, from a model's lower lid to its upper one: it leaves them a little apart,
and the upper lid is what moved (looked at on 60 faces)"""


def relabel(
    records: Sequence[FaceRecord], model: PathLike, source: Source, cache: str | None = None
) -> list[FaceRecord]:
    """The faces of a source with the model's locations (image pixels) and covariances.

    Where the model's visibility was trained, a landmark that it calls invisible becomes
    self-occluded; otherwise the old classes stay. Lids of eyes that are known to be closed meet.
    With the source's `skip_bad`, faces whose image cannot be read are left out.
    """
    records, faces = label_faces(records, model, source, cache)
    labelled = []
    for record, face in zip(records, faces, strict=True):
        closed = record.attributes.get("eyes") == "closed"
        visible = face.visibility > 0.5 if faces.visibility_trained else record.visible
        changes: dict[str, Any] = {
            "points": with_closed_lids(face.points) if closed else face.points,
            "covariance": face.covariance,
            "visibility": np.where(visible, Visibility.UNOCCLUDED, Visibility.SELF_OCCLUDED),
            "visibility_probability": face.visibility,
        }
        labelled.append(record.with_changes(**changes))
    return labelled


def with_closed_lids(points: Floats) -> Floats:
    """The 68 points (68, 2) with each pair of upper and lower lid in one place."""
    closed = points.copy()
    upper, lower = points[_UPPER_LIDS], points[_LOWER_LIDS]
    closed[_UPPER_LIDS] = closed[_LOWER_LIDS] = lower + _LASH_LINE * (upper - lower)
    return closed


def teacher_labels(
    records: Sequence[FaceRecord], model: PathLike, source: Source, cache: str | None = None
) -> dict[str, FaceLandmarks]:
    """A teacher's prediction for each face in image pixels, by its id.

    The visibility is 1 from a teacher that was not trained for it.
    """
    records, faces = label_faces(records, model, source, cache)
    if not faces.visibility_trained:
        faces = replace(faces, visibility=np.ones_like(faces.visibility))
    labels = {record.face_id: face for record, face in zip(records, faces, strict=True)}
    if len(labels) < len(records):
        raise InputError("faces to learn from a teacher need ids of their own: some are the same.")
    return labels


def label_faces(
    records: Sequence[FaceRecord], model: PathLike, source: Source, cache: str | None = None
) -> tuple[Sequence[FaceRecord], Faces]:
    """The faces whose image can be read and a model's predictions for them in image pixels, each
    the mean of the face and its mirror image.

    They go into the cache folder, so that other processes, and the same run when it is
    resumed, do not predict again.
    """
    path = model_file(model)
    predictor = CropPredictor.load(path)
    config = predictor.info.config
    markups = {record.markup for record in records}
    if markups != {config.markup}:
        raise InputError(
            f"{Path(model)} has the markup {config.markup}, the faces to label "
            f"have {', '.join(sorted(markups))}: use a model of the same markup."
        )
    store = Path(cache or cache_root()) / f"labels-{_key(path, records, source.box_noise)}.npz"
    if not store.is_file():
        views = [_predict(predictor, records, source, False)]
        if is_markup(config.markup):
            views.append(_predict(predictor, records, source, True))
        faces = mean_of_views([faces for _, faces in views])
        arrays = {name: getattr(faces, name) for name in ("points", "covariance", "visibility")}
        with whole_file(store) as place:
            np.savez(place, rows=views[0][0], **arrays)
    with np.load(store) as stored:
        labels = dict(stored)
    records = [records[row] for row in labels.pop("rows")]
    trained = config.visibility_trained
    return records, Faces(**labels, markup=config.markup, visibility_trained=trained)


def _key(model: Path, records: Sequence[FaceRecord], box_noise: BoxNoise) -> str:
    """Differs between any two models, sets of faces, and ways to crop them."""
    digest = hashlib.sha256(b"labels of readable faces" + model.read_bytes())
    for record in records:
        state = "" if record.image is None else file_state(record.image)
        digest.update(f"{state} {record.face_id} {record.box} {box_noise}".encode())
        digest.update(record.points.tobytes())
    return digest.hexdigest()[:24]


def _predict(
    model: CropPredictor, records: Sequence[FaceRecord], source: Source, mirrored: bool
) -> tuple[list[int], Faces]:
    """Which faces can be read, and the predictions for them in image pixels."""
    info = model.info
    plain = Augmentation.recipe("none")
    crops = CropDataset(
        records,
        info.config.input_size,
        enlarge=info.enlarge,
        augmentation=plain.model_copy(update={"flip": float(mirrored)}),
        box_noise=source.box_noise,
        convention=info.crop_convention,
        skip_bad=source.skip_bad,
    )
    faces = predict_dataset(model, crops).in_image
    if mirrored:  # left and right have changed names
        flip = list(get_markup(faces.markup).flip)
        names = ("points", "covariance", "visibility")
        faces = replace(faces, **{name: getattr(faces, name)[:, flip] for name in names})
    readable = {id(record) for record in crops.records}
    return [row for row, record in enumerate(records) if id(record) in readable], faces


def mean_of_views(views: Sequence[Faces]) -> Faces:
    """Mean of several predictions of the same faces; their scatter adds to the covariance."""
    points, covariance, visibility = (
        np.stack([getattr(view, name) for view in views])
        for name in ("points", "covariance", "visibility")
    )
    mean = points.mean(axis=0)
    off = points - mean
    total = covariance.mean(axis=0) + np.einsum("anki,ankj->nkij", off, off) / len(views)
    symmetric = (total + total.swapaxes(-1, -2)) / 2
    return replace(views[0], points=mean, covariance=symmetric, visibility=visibility.mean(axis=0))
