"""Self-training: a model's predictions as labels, weighed by its own covariances.

A face is asked about twice, as it is and mirrored; the label is the mean of both answers, and
their disagreement is added to its covariance.

A label of a model is the location plus noise; the loss adds the noise's covariance to the
predicted one (`luvli_loss(label_covariance=...)`), so an unsure label pulls less.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

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
from luvli.network import LUVLi, load_model
from luvli.training.validate import predict_crops

Floats = NDArray[np.float64]
ANSWERS = ("points", "covariance", "visibility")


def relabel(
    records: Sequence[FaceRecord], model: PathLike, box_noise: BoxNoise, cache: str | None = None
) -> list[FaceRecord]:
    """The same faces with the model's locations (image pixels) and covariances.

    Where the model's visibility was trained, a landmark that it calls invisible becomes
    self-occluded; otherwise the old classes stay. Answers are kept in the cache folder, so that
    other processes, and the same run when it is resumed, do not ask again.
    """
    path = shipped_or_path(model)
    network, info = load_model(path)
    markups = {record.markup for record in records}
    if markups != {network.config.markup}:
        raise InputError(
            f"{Path(model)} knows the markup {network.config.markup}, the faces to label again "
            f"have {', '.join(sorted(markups))}: use a model of the same markup."
        )
    store = Path(cache or cache_root()) / f"labels-{_key(path, records, box_noise)}.npz"
    if store.is_file():
        with np.load(store) as kept:
            points, covariance, visibility = (kept[name] for name in ANSWERS)
    else:
        enlarge = float(info.get("enlarge", 1.1))
        answers = []
        for mirrored in (False, True) if is_markup(network.config.markup) else (False,):
            flip = Augmentation.recipe("none").model_copy(update={"flip": float(mirrored)})
            crops = CropDataset(
                records,
                network.config.input_size,
                enlarge=enlarge,
                augmentation=flip,
                box_noise=box_noise,
                cache=cache or True,
            )
            answers.append(_in_image_pixels(network, crops))
        points, covariance, visibility = _combined(answers)
        with whole_file(store) as place:
            np.savez(place, points=points, covariance=covariance, visibility=visibility)
    result = []
    for i, record in enumerate(records):
        seen = visibility[i] > 0.5 if network.config.visibility_trained else record.visible
        result.append(
            record.with_changes(
                points=points[i],
                covariance=covariance[i],
                visibility=np.where(seen, Visibility.UNOCCLUDED, Visibility.SELF_OCCLUDED),
                visibility_probability=visibility[i],
            )
        )
    return result


def _key(model: Path, records: Sequence[FaceRecord], box_noise: BoxNoise) -> str:
    """Tells the answers of one model about some faces from all others."""
    digest = hashlib.sha256(model.read_bytes())
    for record in records:
        state = "" if record.image is None else file_state(record.image)
        digest.update(f"{state} {record.face_id} {record.box} {box_noise}".encode())
        digest.update(record.points.tobytes())
    return digest.hexdigest()[:24]


def _in_image_pixels(network: LUVLi, crops: CropDataset) -> tuple[Floats, Floats, Floats]:
    """Points (n, k, 2), covariances (n, k, 2, 2) and visibilities (n, k) in each picture."""
    found = predict_crops(network, crops)
    back = affines.invert(found.affines)
    points = affines.apply(back, found.points)
    covariance = affines.push_covariance(back, found.covariance)
    visibility = found.visibility.copy()
    mirrored = affines.is_mirrored(back)
    if mirrored.any():  # left and right have changed names
        flip = get_markup(network.config.markup).flip
        for values in (points, covariance, visibility):
            values[mirrored] = values[mirrored][:, flip]
    return points, covariance, visibility


def _combined(answers: Sequence[tuple[Floats, Floats, Floats]]) -> tuple[Floats, Floats, Floats]:
    """Mean of several answers about the same faces; their scatter adds to the covariance."""
    points, covariance, visibility = (np.stack(part) for part in zip(*answers, strict=True))
    off = points - points.mean(axis=0)
    scatter = np.einsum("anki,ankj->nkij", off, off) / len(answers)
    return points.mean(axis=0), _symmetric(covariance.mean(axis=0) + scatter), visibility.mean(0)


def shipped_or_path(name: PathLike) -> Path:
    """The file of a shipped model, by its name, or the path itself."""
    return find_model(name, "torch") if str(name) in model_names() else Path(name)


def _symmetric(matrices: Floats) -> Floats:
    return (matrices + matrices.swapaxes(-1, -2)) / 2
