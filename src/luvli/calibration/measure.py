"""Predictions beside labels, of faces as they are and corrupted: what every step is fitted on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Bools, Floats
from luvli.calibration.corruptions import CORRUPTIONS, FaceScene, corrupt, cut_scene
from luvli.data.boxes import crop_box
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError
from luvli.evaluation.uncertainty import radii
from luvli.faces import Faces
from luvli.image.box import Box
from luvli.image.read import read_image
from luvli.network.calibration import Calibration
from luvli.prediction.predictor import Predictor
from luvli.progress import Track

BATCH = 24
"""faces that are read, corrupted and predicted together"""
MIN_SCORE = 0.3
"""detector's score from which a box on a corrupted image counts"""
NOT_CORRUPTED = "none"
_ARRAYS = ("labels", "label_visibility", "error", "corruption", "source", "photograph", "pose")


@dataclass(frozen=True, eq=False)
class MeasuredFaces:
    """n predicted faces with what is true about them."""

    faces: Faces
    labels: Floats
    """(n, k, 2) pixels of the same image; NaN where there is no location or no face"""
    label_visibility: NDArray[np.int8]
    """(n, k) classes of the label; unlabelled where there is no face"""
    error: Floats
    """(n,) mean error of the visible landmarks in percent of the label's box; infinite where
    there is no face, NaN where the label has no location"""
    corruption: NDArray[np.str_]
    """(n,) "none", or the kind of corruption"""
    source: NDArray[np.str_]
    """(n,) data set and subset"""
    photograph: NDArray[np.str_]
    """(n,) name; a split keeps the faces of one photograph together"""
    pose: NDArray[np.str_]
    """(n,) class of pose of the label, "" where unknown"""

    def __len__(self) -> int:
        return len(self.error)

    @property
    def plain(self) -> Bools:
        """(n,) faces that are not corrupted"""
        return np.asarray(self.corruption == NOT_CORRUPTED)

    def __getitem__(self, which: Bools | NDArray[np.intp] | slice) -> MeasuredFaces:
        """Some of the faces, by mask or indices."""
        arrays = {name: getattr(self, name)[which] for name in _ARRAYS}
        return MeasuredFaces(self.faces[which], **arrays)

    def calibrated(self, calibration: Calibration) -> MeasuredFaces:
        """The same with another calibration of covariances that have none."""
        return replace(self, faces=calibrated(self.faces, calibration))

    def radii(self) -> Floats:
        """(n, k) Mahalanobis distances of the labels; NaN where a landmark is not visible."""
        return radii(self.faces.points, self.faces.covariance, self.labels)


def calibrated(faces: Faces, calibration: Calibration) -> Faces:
    """Faces of a model without calibration, with this one."""
    covariance = calibration.apply(faces.covariance, faces.occlusion, faces.points)
    likelihood = calibration.likelihood or faces.likelihood
    return replace(faces, covariance=covariance, likelihood=likelihood)


def predict_faces(
    predictor: Predictor, records: Sequence[FaceRecord], progress: Track = iter
) -> Faces:
    """The predictions for faces with boxes, labelled or not."""
    return Faces.concatenate(
        [
            predictor.predict(read_image(record.image), [crop_box(record)])
            for record in progress(records)
            if record.image is not None
        ]
    )


def measure_faces(
    predictor: Predictor,
    records: Sequence[FaceRecord],
    corrupted_per_face: int = 3,
    seed: int = 0,
    progress: Track = iter,
) -> MeasuredFaces:
    """Predict every labelled face as it is, and so many corrupted versions of it.

    Boxes are the records' own (a detector's, or tight ones with noise); on corrupted images the
    detector runs again, and where it finds nothing the box counts as given. The corruption
    depends on the seed and the face's name alone.
    """
    parts: list[MeasuredFaces] = []
    waiting = (record for record in progress(records) if usable(record, predictor))
    while batch := list(islice(waiting, BATCH)):
        parts.append(_measure_batch(predictor, batch, corrupted_per_face, seed))
    if not parts:
        raise InputError("there are no labelled faces with images to measure on.")
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS}
    return MeasuredFaces(Faces.concatenate([part.faces for part in parts]), **arrays)


def usable(record: FaceRecord, predictor: Predictor) -> bool:
    """Whether a face has an image and a visible landmark; refuses other point sets."""
    markup = predictor.info.config.markup
    if record.markup != markup:
        raise InputError(
            f"the model finds {markup} points and {record.name} is labelled with "
            f"{record.markup}: give faces of the same point set."
        )
    return record.image is not None and bool(record.visible.any())


def draw_scenes(
    predictor: Predictor, records: Sequence[FaceRecord], count: int, seed: int
) -> tuple[list[FaceScene], list[FaceRecord]]:
    """Each face as it is and in `count` corrupted versions, and the record of each; the other
    faces are the neighbours of the corruption of that name."""
    scenes: list[FaceScene] = []
    owners: list[FaceRecord] = []
    images = [read_image(record.image) for record in records if record.image is not None]
    boxes = [crop_box(record) for record in records]
    cuts = [
        cut_scene(image, box, record.points)
        for image, box, record in zip(images, boxes, records, strict=True)
    ]
    for i, record in enumerate(records):
        others = [cut for j, cut in enumerate(cuts) if j != i]
        corrupted = list(_corrupted(predictor, record, cuts[i], others, count, seed))
        scenes += [FaceScene(images[i], boxes[i], (record.points,)), *corrupted]
        owners += [record] * (1 + len(corrupted))
    return scenes, owners


def _measure_batch(
    predictor: Predictor, records: Sequence[FaceRecord], count: int, seed: int
) -> MeasuredFaces:
    scenes, owners = draw_scenes(predictor, records, count, seed)
    cropped = [predictor.preprocess(scene.image, [scene.box]) for scene in scenes]
    faces = Faces.concatenate(predictor.predict_cropped(cropped))
    labels, error = zip(
        *(
            closest_label(points, scene.faces)
            for points, scene in zip(faces.points, scenes, strict=True)
        ),
        strict=True,
    )
    unlabelled = np.full(faces.points.shape[1], Visibility.UNLABELLED, np.int8)
    return MeasuredFaces(
        faces,
        np.stack(labels),
        np.stack(
            [
                owner.visibility if scene.corruption == NOT_CORRUPTED else unlabelled
                for owner, scene in zip(owners, scenes, strict=True)
            ]
        ),
        np.array(error),
        np.array([scene.corruption for scene in scenes]),
        np.array([source_name(record) for record in owners]),
        np.array([photograph_id(record) for record in owners]),
        np.array([_POSES.get(str(record.attributes.get("pose", "")), "") for record in owners]),
    )


def _corrupted(
    predictor: Predictor,
    record: FaceRecord,
    cut: FaceScene,
    others: Sequence[FaceScene],
    count: int,
    seed: int,
) -> Iterator[FaceScene]:
    name = hashlib.sha256(f"{record.dataset}/{record.face_id}".encode()).digest()
    rng = np.random.default_rng([seed, int.from_bytes(name[:8], "little")])
    for number in rng.choice(len(CORRUPTIONS), count, replace=False):
        kind = CORRUPTIONS[int(number)]
        scene = corrupt(cut, kind, rng, others)
        box = scene.box
        if kind == "wrong box":
            if rng.random() < 0.5:
                box = replace(box, score=cut.box.score)  # an inaccurate detection
        elif kind != "neighbour" or rng.random() >= 0.5:  # else a given box, between two faces
            detections = predictor.detect(scene.image, min_score=MIN_SCORE)
            near = [other for other in detections if other.iou(box) > 0.25]
            box = max(near, key=lambda other: other.score, default=Box(*box))
        yield replace(scene, box=box)


def closest_label(points: Floats, faces: Sequence[Floats]) -> tuple[Floats, float]:
    """The label (k, 2) that predicted points (k, 2) fit best, and their error in percent of that
    label's box; infinite without a label, NaN for one without locations."""
    best, smallest = np.full(points.shape, np.nan), np.inf
    for label in faces:
        known = np.isfinite(label).all(axis=1)
        if not known.any():
            return best, float("nan")
        extent = np.ptp(label[known], axis=0)
        size = float(np.sqrt(max(extent.prod(), 1e-12)))
        error = float(np.linalg.norm(points - label, axis=1)[known].mean() / size * 100)
        if error < smallest:
            best, smallest = label, error
    return best, smallest


def source_name(record: FaceRecord) -> str:
    """Who labelled a face: the data set, or which of the sets that 300-W is made of."""
    subsets = record.attributes.get("subsets", ()) if record.dataset == "w300" else ()
    return " ".join([record.dataset, *map(str, subsets[:1])])


def photograph_id(record: FaceRecord) -> str:
    """The name of the photograph that a face was cut from."""
    stem = record.image.stem if record.image is not None else record.face_id
    return str(record.attributes.get("photograph", stem))


_POSES = {"frontal": "frontal", "lefthalf": "half-profile", "righthalf": "half-profile",
          "left": "profile", "right": "profile", "half-profile": "half-profile",
          "profile": "profile"}  # fmt: skip
