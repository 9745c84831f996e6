"""From a model and a data set on disk to evaluated faces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from luvli.data.boxes import crop_box
from luvli.data.record import FaceRecord
from luvli.data.sets import get_set, load_set
from luvli.data.sets.check import TrackRecords
from luvli.errors import InputError, unknown_choice
from luvli.evaluation.evaluated_faces import EvaluatedFaces, from_records
from luvli.faces import FaceLandmarks
from luvli.files import PathLike
from luvli.image.box import Box
from luvli.image.match import best_match
from luvli.image.read import read_image
from luvli.models import find_model
from luvli.prediction.predictor import Predictor, load

CropBy = Literal["paper", "reference", "tight", "detector"]
"""`paper`: the data set's box, else the tight one with 5 % noise; `reference`: noise as in the
published code; `tight`: no noise; `detector`: what our own detector finds at the face."""

_WHOLE = {("w300", "split1"): "full", ("w300", "split2"): "test", ("menpo", ""): "frontal"}
"""what the paper calls the whole test set, where it is not simply all of it"""
_BATCH = 32


def run_model(
    predictor: Predictor, records: Iterable[FaceRecord], crop_by: CropBy = "paper"
) -> Iterator[FaceLandmarks]:
    """The model's prediction for each record, in order; empty where no face was found."""
    markup = predictor.info.config.markup
    waiting = iter(records)
    while batch := list(islice(waiting, _BATCH)):
        images = [_image(record, markup) for record in batch]
        boxes = [
            _box(predictor, record, image, crop_by)
            for record, image in zip(batch, images, strict=True)
        ]
        found = predictor.predict_batch(images, [[box] if box else [] for box in boxes])
        for faces in found:
            yield faces[0] if faces else FaceLandmarks.empty(markup)


def _image(record: FaceRecord, markup: str) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    if record.image is None:
        raise InputError(f"{record.name or 'a face'} has no image: a model cannot be run on it.")
    if record.markup != markup:
        raise InputError(
            f"the model finds {markup} points and {record.name} is labelled with "
            f"{record.markup}: choose a data set or a model of the same markup."
        )
    return read_image(record.image)


def _box(
    predictor: Predictor,
    record: FaceRecord,
    image: np.ndarray[tuple[int, ...], np.dtype[np.uint8]],
    crop_by: CropBy,
) -> Box | None:
    """Where to crop; None where nothing is labelled or the detector sees no face there."""
    if not record.visible.any() and (record.box is None or crop_by in ("tight", "detector")):
        return None
    if crop_by == "detector":
        return best_match(Box(*record.tight_box), predictor.detect(image, str(record.image)))
    if crop_by == "tight":
        return Box(*record.tight_box)
    return crop_box(record, crop_by)


def evaluate_set(
    model: PathLike,
    dataset: str,
    root: PathLike,
    *,
    subset: str | None = None,
    split: str | None = None,
    protocol: str | None = None,
    skip_bad: bool = False,
    limit: int | None = None,
    device: str = "cpu",
    crop_by: str = "paper",
    boxes: str = "set",
    method: str | None = None,
    given_boxes: bool = False,
    mean_estimator: str | None = None,
    covariance_estimator: str | None = None,
    track: TrackRecords = iter,
) -> EvaluatedFaces:
    """Run `model` over one part of a data set.

    `split` defaults to "test" where the set has one, and to "all" for a folder of your own.
    `crop_by` is one of `CropBy`, `boxes` as in `load_set`. `given_boxes` normalises by the data
    set's own boxes, not the tight ones. `mean_estimator` and `covariance_estimator` read a
    `.safetensors` network's heat maps in another way than it was saved with (`argmax`: the paper's
    DU-Net rows). `track` may wrap the records in a progress bar.
    """
    info = get_set(dataset)
    way: CropBy | None = next((name for name in _ways() if name == crop_by), None)
    if way is None:
        raise unknown_choice("kind of crop", crop_by, _ways())
    split = split or info.test_split
    if protocol is None:
        folder = Path(root)
        known = info.detect is not None and folder.is_dir()
        protocol = info.detect(folder) if known and info.detect else info.protocols[0]
    predictor = _open(model, device, mean_estimator, covariance_estimator)
    faces = load_set(
        dataset, root, split, subset=subset, protocol=protocol, skip_bad=skip_bad,
        boxes=boxes,  # type: ignore[arg-type]  # checked there
    )  # fmt: skip
    records: Sequence[FaceRecord] = faces.records[:limit]
    predictions = list(run_model(predictor, track(records), way))
    notes = [f"Faces were cropped by: {crop_by}.", *faces.notes]
    if boxes == "tight":
        notes[0] = f"Faces were cropped by: {crop_by}, tight boxes instead of the data set's."
    for what, chosen in (("Locations", mean_estimator), ("Covariances", covariance_estimator)):
        if chosen is not None:
            notes.append(f"{what} were read from the network by: {chosen}.")
    if faces.problems:
        notes.append(f"{len(faces.problems)} bad faces of the data set were skipped.")
    if limit is not None and limit < len(faces):
        notes.append(f"Only the first {limit:,} of {len(faces):,} faces were evaluated.")
    evaluated = from_records(
        records,
        predictions,
        method=method or predictor.info.name,
        dataset=dataset,
        subset=subset or whole_name(dataset, protocol),
        likelihood=predictor.info.likelihood,
        notes=tuple(notes),
    )
    return evaluated if given_boxes else evaluated.with_tight_boxes()


def _open(
    model: PathLike, device: str, mean_estimator: str | None, covariance_estimator: str | None
) -> Predictor:
    """The model, its heat maps read in another way where that is asked for."""
    changes = {"mean_estimator": mean_estimator, "covariance_estimator": covariance_estimator}
    changes = {name: value for name, value in changes.items() if value is not None}
    if not changes:
        return load(model, providers=[device])
    from luvli.network.inference import CropPredictor

    opened = CropPredictor.load(find_model(model, "torch"), device=device)  # ONNX is fixed
    return Predictor(opened.with_changes(**changes))


def _ways() -> tuple[CropBy, ...]:
    return get_args(CropBy)


def whole_name(dataset: str, protocol: str = "") -> str:
    """What the whole of a test set is called in tables."""
    return _WHOLE.get((dataset, protocol)) or _WHOLE.get((dataset, "")) or "all"
