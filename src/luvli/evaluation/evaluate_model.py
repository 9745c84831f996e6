"""Runs a model over labelled faces, and over a data set on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from luvli.data.boxes import crop_box
from luvli.data.record import FaceRecord
from luvli.data.sets import get_set, load_set, parse_part
from luvli.errors import InputError, unknown_choice
from luvli.evaluation.labelled_faces import LabelledFaces, faces_at
from luvli.evaluation.table import listed_names
from luvli.faces import Faces
from luvli.files import PathLike
from luvli.image.box import Box, best_match
from luvli.image.read import read_image
from luvli.models import find_model
from luvli.prediction.crops import CroppedFaces
from luvli.prediction.pipeline import BATCH
from luvli.prediction.predictor import Predictor, load

CropBy = Literal["paper", "reference", "tight", "detector", "detector-or-tight"]
"""Boxes to crop by. `paper`: the data set's, else the tight one with 5 % noise; `reference`: the
noise of the published code; `tight`: no noise; `detector`: what our own detector finds at the face,
no prediction where it finds none; `detector-or-tight`: the tight box there."""

Progress = Callable[[Iterable[FaceRecord]], Iterable[FaceRecord]]
"""hands records on while it shows how far they are"""

WHOLE_SETS = {("w300", "split1"): "full", ("w300", "split2"): "test", ("menpo", ""): "frontal"}
"""what the paper calls the whole test set, where it is not simply all of it"""
SPLIT2_TESTS = ("cofw68", "menpo")
"""beside 300-W's own, the test sets of its second split (Table 4 of the paper)"""


def predict_records(
    predictor: Predictor,
    records: Iterable[FaceRecord],
    crop_by: str = "paper",
    *,
    refine_boxes: bool = False,
    skip_bad: bool = False,
    progress: Progress = iter,
    batch_size: int = BATCH,
    **about: Any,
) -> LabelledFaces:
    """Run a model over labelled faces. Those that the detector misses, or that have no label, have
    NaN points.

    Args:
        predictor: the model.
        records: labelled faces with images, all of the model's point set.
        crop_by: one of `CropBy`.
        refine_boxes: crop faces again where the landmarks do not fit a detector's box, as
            prediction does. Off: published protocols crop once.
        skip_bad: leave out faces whose image or box cannot be used, with a note that names each;
            otherwise the first of them raises `InputError`.
        progress: may wrap the records in a progress bar.
        batch_size: images in memory, and faces that go through the network together.
        about: fields of `LabelledFaces`: method, dataset, subset, notes.
    """
    if crop_by not in get_args(CropBy):
        raise unknown_choice("kind of crop", crop_by, get_args(CropBy))
    usable: list[FaceRecord] = []
    predictions: list[Faces] = []
    problems: list[str] = []

    def crop(record: FaceRecord) -> CroppedFaces:
        return _crop(predictor, record, crop_by, refine_boxes)

    for record, result in predictor.predict_each(progress(records), crop, batch_size):
        if isinstance(result, Faces):
            usable.append(record)
            predictions.append(result)
        elif skip_bad:
            problems.append(str(result))
        else:
            raise result
    if not usable:
        raise InputError(problems[0] if problems else "there are no labelled faces to predict.")
    counts = np.array([len(faces) for faces in predictions])
    faces = faces_at(Faces.concatenate(predictions), np.where(counts, counts.cumsum() - 1, -1))
    notes = about.pop("notes", ())
    if problems:
        notes = (*notes, f"{len(problems)} bad faces were left out: {listed_names(problems)}")
    about = {"method": predictor.info.name, "notes": notes} | about
    return LabelledFaces.from_records(usable, faces, **about)


def _crop(
    predictor: Predictor, record: FaceRecord, crop_by: str, refine_boxes: bool
) -> CroppedFaces:
    """The face cut out of its image; no box where nothing is labelled or detected."""
    markup = predictor.info.config.markup
    if record.markup != markup:
        raise InputError(
            f"the model finds {markup} points and {record.name} is labelled with "
            f"{record.markup}: choose a data set or a model of the same markup."
        )
    if record.image is None:
        raise InputError(f"{record.name or 'a face'} has no image: a model cannot be run on it.")
    image, box = read_image(record.image), None
    try:
        if crop_by in ("paper", "reference") and (record.visible.any() or record.box is not None):
            box = crop_box(record, "reference" if crop_by == "reference" else "paper")
        elif record.visible.any():
            box = Box(*record.tight_box)
            if crop_by != "tight":
                detected = best_match(box, predictor.detect(image, str(record.image)))
                box = box if detected is None and crop_by == "detector-or-tight" else detected
    except InputError as error:
        raise InputError(f"{record.image}: {error}") from error
    if box is not None and box.detected and not refine_boxes:
        box = replace(box, detected=False)
    return predictor.preprocess(image, [] if box is None else [box], name=str(record.image))


def evaluate_set(
    model: PathLike,
    dataset: str,
    root: PathLike,
    *,
    skip_bad: bool = False,
    crop_by: str = "paper",
    boxes: Literal["set", "tight"] = "set",
    refine_boxes: bool = False,
    method: str | None = None,
    given_boxes: bool = False,
    mean_estimator: str | None = None,
    progress: Progress = iter,
) -> LabelledFaces:
    """Run `model` over one part of a data set, which its name can say: `w300/split2/indoor`.

    The split is "test" where the set has one and the name says no other, and "all" for a folder of
    your own. `crop_by` is one of `CropBy`, `boxes` as in `load_set`. `given_boxes` normalises by
    the data set's own boxes, not the tight ones. `mean_estimator` reads a `.safetensors` network's
    heat maps in another way than it was saved with (`argmax`: the paper's DU-Net rows). `progress`
    may wrap the records in a progress bar, `refine_boxes` as of `predict_records`.
    """
    info, part = get_set(dataset), parse_part(dataset)
    protocol = part.protocol
    if protocol == "split2" and part.name in SPLIT2_TESTS:
        protocol = None  # of the training set: these are test sets of it, and have one protocol
    if protocol is None:
        known = info.detect if Path(root).is_dir() else None
        protocol = known(Path(root)) if known else info.protocols[0]
    if mean_estimator is None:
        predictor = load(model)
    else:
        from luvli.network.inference import CropPredictor

        opened = CropPredictor.load(find_model(model, "torch"))  # ONNX files are fixed
        predictor = Predictor(opened.with_mean_estimator(mean_estimator))
    faces = load_set(
        part.name, root, part.split or info.test_split, subset=part.subset, protocol=protocol,
        skip_bad=skip_bad, boxes=boxes,
    )  # fmt: skip
    tight = ", tight boxes instead of the data set's" if boxes == "tight" else ""
    notes = [f"Faces were cropped by: {crop_by}{tight}.", *faces.notes]
    if refine_boxes:
        notes.append("Boxes were refined: faces were cropped again by their landmarks.")
    if mean_estimator is not None:
        notes.append(f"Locations were read from the network by: {mean_estimator}.")
    if faces.problems:
        notes.append(f"{len(faces.problems)} bad faces of the data set were skipped.")
    labelled = predict_records(
        predictor,
        faces.records,
        crop_by,
        refine_boxes=refine_boxes,
        skip_bad=skip_bad,
        progress=progress,
        method=method or predictor.info.name,
        dataset=part.name,
        subset=part.subset or whole_name(part.name, protocol),
        notes=tuple(notes),
    )
    return labelled if given_boxes else labelled.with_tight_boxes()


def whole_name(dataset: str, protocol: str = "") -> str:
    """What the whole of a test set is called in tables."""
    return WHOLE_SETS.get((dataset, protocol)) or WHOLE_SETS.get((dataset, "")) or "all"
