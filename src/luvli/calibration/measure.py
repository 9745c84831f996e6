"""Labelled faces as they are and corrupted, predicted: what every step of a calibration is fitted
on."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from luvli.arrays import Bools, Floats
from luvli.calibration.corruptions import CORRUPTIONS, FaceScene, corrupt, cut_scene
from luvli.calibration.photographs import photograph_name
from luvli.data.boxes import crop_box
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.faces import Faces
from luvli.image.box import Box
from luvli.image.read import read_image
from luvli.network.calibration import Calibration
from luvli.prediction.crops import CroppedFaces
from luvli.prediction.predictor import Predictor
from luvli.progress import Track

T = TypeVar("T")

NEIGHBOURS = 24
"""faces before a face that may stand beside it"""
MIN_SCORE = 0.3
"""detector's score from which a box on a corrupted image counts"""
NOT_CORRUPTED = "none"


def measure_faces(
    predictor: Predictor,
    records: Iterable[FaceRecord],
    corrupted_per_face: int = 3,
    seed: int = 0,
    progress: Track = iter,
    *,
    refine_boxes: bool = True,
) -> LabelledFaces:
    """Predict every labelled face as it is, and so many corrupted versions of it.

    `groups` of the result: corruption ("none", or its kind), source (who labelled it), photograph.
    Boxes are the records' own (a detector's, or tight ones with noise).
    """

    def crop(item: tuple[FaceScene, FaceRecord]) -> CroppedFaces:
        scene, _ = item
        box = scene.box if refine_boxes else replace(scene.box, detected=False)
        return predictor.preprocess(scene.image, [box])

    rows: list[tuple[Any, ...]] = []
    scenes = draw_scenes(predictor, progress(records), corrupted_per_face, seed)
    for (scene, record), faces in predictor.predict_each(scenes, crop):
        if isinstance(faces, InputError):
            raise faces
        label, classes = closest_label(faces.points[0], scene.faces), record.visibility
        if scene.corruption != NOT_CORRUPTED:
            located = np.isfinite(label).all(axis=1)
            classes = np.where(located, Visibility.UNOCCLUDED, Visibility.UNLABELLED)
        about = scene.corruption, source_name(record), photograph_id(record)
        rows.append((faces, label, classes, *about))
    if not rows:
        raise InputError("there are no labelled faces with images to measure on.")
    predictions, labels, every_class, *words = zip(*rows, strict=True)
    return LabelledFaces(
        Faces.concatenate(predictions),
        np.stack(labels),
        np.array(every_class, dtype=np.int8),
        groups=dict(zip(("corruption", "source", "photograph"), map(np.array, words), strict=True)),
    )


def draw_scenes(
    predictor: Predictor, records: Iterable[FaceRecord], count: int, seed: int
) -> Iterator[tuple[FaceScene, FaceRecord]]:
    """Each face with an image and a visible landmark: as it is, then in `count` corrupted versions,
    which depend on the seed, the face's name and, for neighbours, the faces before it."""
    markup = predictor.info.config.markup
    others: deque[FaceScene] = deque(maxlen=NEIGHBOURS)
    for record in records:
        if record.markup != markup:
            raise InputError(
                f"the model finds {markup} points and {record.name} is labelled with "
                f"{record.markup}: give faces of the same point set."
            )
        if record.image is None or not record.visible.any():
            continue
        image, box = read_image(record.image), crop_box(record)
        yield FaceScene(image, box, (record.points,)), record
        cut = cut_scene(image, box, record.points)
        name = hashlib.sha256(f"{record.dataset}/{record.face_id}".encode()).digest()
        rng = np.random.default_rng([seed, int.from_bytes(name[:8], "little")])
        for number in rng.choice(len(CORRUPTIONS), count, replace=False):
            scene = corrupt(cut, CORRUPTIONS[number], rng, others)
            yield _with_box(predictor, scene, cut.box.score, rng), record
        others.append(cut)


def _with_box(
    predictor: Predictor, scene: FaceScene, score: float, rng: np.random.Generator
) -> FaceScene:
    """The scene with the box that use would give: the detector runs again, and where it finds
    nothing the box counts as given. Half of the wrong boxes are inaccurate detections with the
    `score` of the right one, half of those between two faces are given."""
    box = scene.box
    half = rng.random() < 0.5
    if scene.corruption == "wrong box":
        return replace(scene, box=replace(box, score=score)) if half else scene
    if scene.corruption == "neighbour" and half:
        return scene
    detections = predictor.detect(scene.image, min_score=MIN_SCORE)
    near = [other for other in detections if other.iou(box) > 0.25]
    return replace(scene, box=max(near, key=lambda other: other.score, default=Box(*box)))


def closest_label(points: Floats, faces: Sequence[Floats]) -> Floats:
    """The label (k, 2) that predicted points (k, 2) fit best; NaN where there is no face."""
    none = np.full(points.shape, np.nan)
    return min(faces, key=lambda label: _error(points, label), default=none)


def _error(points: Floats, label: Floats) -> float:
    """Mean distance in parts of the label's box."""
    known = np.isfinite(label).all(axis=1)
    size = np.sqrt(max(np.ptp(label[known], axis=0).prod(), 1e-12))
    return float(np.linalg.norm(points - label, axis=1)[known].mean() / size)


def face_errors(faces: LabelledFaces) -> Floats:
    """(n,) mean error of the visible landmarks in percent of the label's box; infinite where there
    is no face."""
    errors = faces.nme("box", "visible")
    return np.where(np.isnan(errors), np.inf, errors)


def is_plain(faces: LabelledFaces) -> Bools:
    """(n,) faces that are not corrupted."""
    return np.asarray(faces.groups["corruption"] == NOT_CORRUPTED)


def label_radii(faces: LabelledFaces) -> Floats:
    """(n, k) Mahalanobis distances of the labels; NaN where a landmark is not visible."""
    return faces.residuals.radii


def calibrated(faces: Faces, calibration: Calibration) -> Faces:
    """Faces of a model without calibration, with this one."""
    covariance = calibration.apply(faces.covariance, faces.occlusion, faces.points)
    likelihood = calibration.likelihood or faces.likelihood
    return replace(faces, covariance=covariance, likelihood=likelihood)


def with_calibration(faces: LabelledFaces, calibration: Calibration) -> LabelledFaces:
    """Labelled faces of a model without calibration, with this one."""
    return replace(faces, faces=calibrated(faces.faces, calibration))


def source_name(record: FaceRecord) -> str:
    """Who labelled a face: the data set, or which of the sets that 300-W is made of."""
    subsets = record.attributes.get("subsets", ()) if record.dataset == "w300" else ()
    return " ".join([record.dataset, *map(str, subsets[:1])])


def photograph_id(record: FaceRecord) -> str:
    """The name of the photograph that a face was cut from."""
    return str(record.attributes.get("photograph", photograph_name(record)))


def evenly(items: Sequence[T], count: int) -> list[T]:
    """At most so many of the items, evenly from the first to the last.

    >>> evenly(range(10), 4)
    [0, 2, 5, 7]
    """
    if len(items) <= count:
        return list(items)
    return [items[i * len(items) // count] for i in range(count)]
