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
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from luvli.arrays import Floats
from luvli.data.augment import Augmentation
from luvli.data.boxes import BoxNoise, crop_box
from luvli.data.cache import cache_root, file_state
from luvli.data.dataset import CropDataset
from luvli.data.record import FaceRecord, Visibility
from luvli.data.sets import DataWarning
from luvli.errors import InputError
from luvli.faces import FaceLandmarks, Faces
from luvli.files import PathLike, whole_file
from luvli.image.read import read_image
from luvli.markup import get_markup, is_markup
from luvli.network.backend import Backend
from luvli.network.inference import CropPredictor
from luvli.training.recipe_data import Source
from luvli.training.sources import model_file
from luvli.training.validate import predict_dataset

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
    With the source's `skip_bad`, faces whose image cannot be read are left out.
    """
    records, faces = label_faces(records, model, source, cache, jitter)
    closed = [record.attributes.get("eyes") == "closed" for record in records]
    return [
        record.with_changes(
            points=with_closed_lids(faces.points[i]) if closed[i] else faces.points[i],
            covariance=faces.covariance[i],
            visibility=np.where(
                faces.visibility[i] > 0.5 if faces.visibility_trained else record.visible,
                Visibility.UNOCCLUDED,
                Visibility.SELF_OCCLUDED,
            ),
            visibility_probability=faces.visibility[i],
        )
        for i, record in enumerate(records)
    ]


_UPPER_LIDS, _LOWER_LIDS = [37, 38, 43, 44], [41, 40, 47, 46]
_LASH_LINE = 1 / 3
"""where closed lids meet, from a model's lower lid to its upper one: it leaves them a little apart,
and the upper lid is what moved (looked at on 60 faces)"""


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
    records: Sequence[FaceRecord],
    model: PathLike,
    source: Source,
    cache: str | None = None,
    jitter: bool = False,
) -> tuple[Sequence[FaceRecord], Faces]:
    """The faces whose image can be read and a model's predictions for them in image pixels, each
    the mean of the face and its mirror image.

    They go into the cache folder, so that other processes, and the same run when it is
    resumed, do not predict again.
    """
    path = model_file(model)
    predictor = CropPredictor.load(path)
    info, noise = predictor.info, source.box_noise
    markups = {record.markup for record in records}
    if markups != {info.config.markup}:
        raise InputError(
            f"{Path(model)} has the markup {info.config.markup}, the faces to label "
            f"have {', '.join(sorted(markups))}: use a model of the same markup."
        )
    if source.skip_bad:
        records = _readable(records)
    store = Path(cache or cache_root()) / f"labels-{_key(path, records, noise, jitter)}.npz"
    if not store.is_file():
        views = []
        sides = (False, True) if is_markup(info.config.markup) else (False,)
        for mirrored, (shift, growth) in product(sides, JITTER if jitter else JITTER[:1]):
            plain = Augmentation.recipe("none")
            crops = CropDataset(
                records if growth == 1 else _moved_boxes(records, noise, shift, growth),
                info.config.input_size,
                enlarge=info.enlarge,
                augmentation=plain.model_copy(update={"flip": float(mirrored)}),
                box_noise=noise,
                convention=info.crop_convention,
            )
            views.append(_predict(predictor, crops, mirrored))
        points, covariance, visibility = combine_views(views, jitter)
        with whole_file(store) as place:
            np.savez(place, points=points, covariance=covariance, visibility=visibility)
    with np.load(store) as labels:
        trained = info.config.visibility_trained
        faces = Faces(**labels, markup=info.config.markup, visibility_trained=trained)
    return records, faces


def _readable(records: Sequence[FaceRecord]) -> list[FaceRecord]:
    """The faces whose image can be read; a warning counts the others and names the first."""
    readable, problems = [], []
    for record in records:
        try:
            read_image(record.image or "")
            readable.append(record)
        except InputError as error:
            problems.append(error)
    if problems:
        sentence = f"{len(problems):,} images cannot be read and are left out; the first: "
        warnings.warn(f"{sentence}{problems[0]}", DataWarning, stacklevel=4)
    return readable


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


def _predict(model: Backend, crops: CropDataset, mirrored: bool) -> tuple[Floats, Floats, Floats]:
    """Points (n, k, 2), covariances (n, k, 2, 2) and visibilities (n, k) in each image."""
    faces = predict_dataset(model, crops).in_image
    names: Any = slice(None)
    if mirrored:  # left and right have changed names
        names = list(get_markup(faces.markup).flip)
    return faces.points[:, names], faces.covariance[:, names], faces.visibility[:, names]


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
