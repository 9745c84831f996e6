"""Predictions beside labels, of plain faces and of spoilt ones: what trust is fitted on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Bools, Floats
from luvli.data.boxes import crop_box
from luvli.data.record import FaceRecord
from luvli.errors import InputError
from luvli.evaluation.uncertainty import radii
from luvli.faces import FaceLandmarks
from luvli.image.box import Box
from luvli.image.read import ImageArray, read_image
from luvli.network.calibration import Calibration
from luvli.prediction.predictor import Predictor
from luvli.progress import Track
from luvli.trust.spoil import SPOIL_KINDS, SpoiltScene, cut_scene, spoil

BATCH = 24
"""faces that are read, spoilt and predicted together"""
FAINT = 0.3
"""detector's score from which a spoilt face counts as found"""
PLAIN = "plain"


@dataclass(frozen=True, eq=False)
class Measured:
    """n predicted faces with what is true about them."""

    faces: tuple[FaceLandmarks, ...]
    truth: Floats
    """(n, k, 2) pixels of the same image; NaN where there is no location or no face"""
    error: Floats
    """(n,) mean error of the visible landmarks in percent of the label's box; infinite where
    there is no face, NaN where the label has no location"""
    kind: NDArray[np.str_]
    """(n,) "plain", or how the image was spoilt"""
    source: NDArray[np.str_]
    """(n,) data set and subset"""
    photograph: NDArray[np.str_]
    """(n,) what must not be torn apart by a split"""
    pose: NDArray[np.str_]
    """(n,) class of pose of the label, "" where nobody said"""

    def __len__(self) -> int:
        return len(self.faces)

    @property
    def plain(self) -> Bools:
        """(n,) faces as they are"""
        return np.asarray(self.kind == PLAIN)

    def take(self, chosen: Bools | NDArray[np.intp]) -> Measured:
        """Some of the faces, by mask or indices."""
        index = np.arange(len(self))[chosen]
        return Measured(
            tuple(self.faces[i] for i in index.tolist()),
            *(
                getattr(self, name)[index]
                for name in ("truth", "error", "kind", "source", "photograph", "pose")
            ),
        )

    def calibrated(self, calibration: Calibration) -> Measured:
        """The same with a calibration that the model did not have yet."""
        return replace(
            self,
            faces=tuple(
                replace(
                    face,
                    covariance=calibration.apply(face.covariance, face.occlusion),
                    likelihood=calibration.likelihood or face.likelihood,
                )
                for face in self.faces
            ),
        )

    def radii(self) -> Floats:
        """(n, k) Mahalanobis distances of the labels; NaN where a landmark is not visible."""
        return radii(
            np.stack([face.points for face in self.faces]),
            np.stack([face.covariance for face in self.faces]),
            self.truth,
        )


def measure_faces(
    predictor: Predictor,
    records: Sequence[FaceRecord],
    spoilt_per_face: int = 3,
    seed: int = 0,
    track: Track = iter,
) -> Measured:
    """Predict every labelled face as it is, and so many spoilt versions of it.

    Boxes are the records' own (a detector's, or tight ones with noise); on spoilt images the
    detector looks again, and where it finds nothing the box counts as given. What is spoilt,
    and how, depends on the seed and the face's name alone.
    """
    markup = predictor.info.config.markup
    rows: list[tuple[FaceLandmarks, Floats, float, str, str, str, str]] = []
    batch: list[tuple[FaceRecord, SpoiltScene, SpoiltScene]] = []

    def flush() -> None:
        scenes: list[SpoiltScene] = []
        owners: list[FaceRecord] = []
        for i, (record, plain, cut) in enumerate(batch):
            scenes.append(plain)
            owners.append(record)
            others = [other for j, (_, _, other) in enumerate(batch) if j != i]
            for made in _spoilt(predictor, record, cut, others, spoilt_per_face, seed):
                scenes.append(made)
                owners.append(record)
        cropped = [predictor.preprocess(scene.image, [scene.box]) for scene in scenes]
        faces = [faces[0] for faces in predictor.predict_cropped(cropped)]
        for face, scene, record in zip(faces, scenes, owners, strict=True):
            truth, error = compare_with_labels(face, scene.faces)
            about = (source_name(record), photograph_id(record), str(_pose(record)))
            rows.append((face, truth, error, scene.kind, *about))
        batch.clear()

    for record in track(records):
        if record.markup != markup:
            raise InputError(
                f"the model finds {markup} points and {record.name} is labelled with "
                f"{record.markup}: give faces of the same point set."
            )
        if record.image is None or not record.visible.any():
            continue
        image: ImageArray = read_image(record.image)
        box = crop_box(record)
        plain = SpoiltScene(image, box, (record.points,), PLAIN)
        batch.append((record, plain, cut_scene(image, box, record.points)))
        if len(batch) == BATCH:
            flush()
    flush()
    if not rows:
        raise InputError("there are no labelled faces with images to measure on.")
    faces, truth, error, *names = zip(*rows, strict=True)
    return Measured(tuple(faces), np.stack(truth), np.array(error), *map(np.array, names))


def _spoilt(
    predictor: Predictor,
    record: FaceRecord,
    cut: SpoiltScene,
    others: Sequence[SpoiltScene],
    count: int,
    seed: int,
) -> Iterable[SpoiltScene]:
    name = hashlib.sha256(f"{record.dataset}/{record.face_id}".encode()).digest()
    rng = np.random.default_rng([seed, int.from_bytes(name[:8], "little")])
    for number in rng.choice(len(SPOIL_KINDS), count, replace=False):
        kind = SPOIL_KINDS[int(number)]
        scene = spoil(cut, kind, rng, others)
        box = scene.box
        if kind == "wrong box":
            if rng.random() < 0.5:
                box = replace(box, score=cut.box.score)  # a detection that slipped
        elif kind != "neighbour" or rng.random() >= 0.5:  # else a given box, between two faces
            found = predictor.detect(scene.image, min_score=FAINT)
            near = [other for other in found if other.iou(box) > 0.25]
            box = max(near, key=lambda other: other.score, default=Box(*box))
        yield replace(scene, box=box)


def compare_with_labels(face: FaceLandmarks, truths: Sequence[Floats]) -> tuple[Floats, float]:
    """The label (k, 2) that a face fits best, and its error in percent of that label's box."""
    best, smallest = np.full((len(face), 2), np.nan), np.inf
    for truth in truths:
        known = np.isfinite(truth).all(axis=1)
        if not known.any():
            return best, float("nan")
        extent = np.ptp(truth[known], axis=0)
        size = float(np.sqrt(max(extent.prod(), 1e-12)))
        error = float(np.linalg.norm(face.points - truth, axis=1)[known].mean() / size * 100)
        if error < smallest:
            best, smallest = truth, error
    return best, smallest


def source_name(record: FaceRecord) -> str:
    """Data set and, where one is named, the first subset that is no class of pose."""
    subsets = [str(name) for name in record.attributes.get("subsets", ())]
    named = [name for name in subsets if name not in _POSES]
    return f"{record.dataset} {named[0]}" if named else record.dataset


def photograph_id(record: FaceRecord) -> str:
    """The name of the photograph that a face was cut from."""
    stem = record.image.stem if record.image is not None else record.face_id
    return str(record.attributes.get("photograph", stem))


_POSES = {"frontal": "frontal", "lefthalf": "half-profile", "righthalf": "half-profile",
          "left": "profile", "right": "profile", "half-profile": "half-profile",
          "profile": "profile"}  # fmt: skip


def _pose(record: FaceRecord) -> str:
    return _POSES.get(str(record.attributes.get("pose", "")), "")
