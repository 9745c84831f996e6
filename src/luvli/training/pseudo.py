"""Self-training: a model's predictions as labels, weighed by its own covariances.

A label of a model is the location plus noise; the loss adds the noise's covariance to the
predicted one (`luvli_loss(label_covariance=...)`), so an unsure label pulls less.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from luvli.data.augment import invert
from luvli.data.boxes import BoxNoise
from luvli.data.dataset import CropDataset
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError
from luvli.files import PathLike
from luvli.models import find_model, model_names
from luvli.network import load_model
from luvli.training.validate import predict_crops


def relabel(
    records: Sequence[FaceRecord], model: PathLike, box_noise: BoxNoise, cache: str | None = None
) -> list[FaceRecord]:
    """The same faces with the model's locations (image pixels) and covariances.

    Where the model's visibility was trained, a landmark that it calls invisible becomes
    self-occluded; otherwise the old classes stay.
    """
    network, info = load_model(shipped_or_path(model))
    markups = {record.markup for record in records}
    if markups != {network.config.markup}:
        raise InputError(
            f"{Path(model)} knows the markup {network.config.markup}, the faces to label again "
            f"have {', '.join(sorted(markups))}: use a model of the same markup."
        )
    crops = CropDataset(
        records,
        network.config.input_size,
        enlarge=float(info.get("enlarge", 1.1)),
        box_noise=box_noise,
        cache=cache or True,
    )
    answers = predict_crops(network, crops)
    result = []
    for i, record in enumerate(crops.records):
        back = invert(crops[i]["affine"])
        linear = back[:, :2]
        seen = answers.visibility[i] > 0.5 if network.config.visibility_trained else record.visible
        result.append(
            record.with_changes(
                points=answers.points[i] @ linear.T + back[:, 2],
                covariance=_symmetric(linear @ answers.covariance[i] @ linear.T),
                visibility=np.where(seen, Visibility.UNOCCLUDED, Visibility.SELF_OCCLUDED),
                visibility_probability=answers.visibility[i],
            )
        )
    return result


def shipped_or_path(name: PathLike) -> Path:
    """The file of a shipped model, by its name, or the path itself."""
    return find_model(name, "torch") if str(name) in model_names() else Path(name)


def _symmetric(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    return (matrices + matrices.transpose(0, 2, 1)) / 2
