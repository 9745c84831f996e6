"""Readers of labels and of predictions, in every format."""

from __future__ import annotations

import contextlib
import json
import shutil
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hostile.mutate import BINARY, JSON, TEXT
from hostile.reader import FACES, Reader, photograph, records
from luvli.calibration.triage_results import triage_results
from luvli.data.formats import LABEL_FORMATS, read_labels, write_labels
from luvli.data.formats.label_parquet import write_label_shards
from luvli.data.record import FaceRecord
from luvli.data.sets import get_set
from luvli.data.sets.definition import Reading
from luvli.data.sets.parquet import read_parquet_set
from luvli.errors import InputError
from luvli.evaluation.labelled_parquet import write_predictions
from luvli.evaluation.match import read_faces
from luvli.evaluation.metrics import Evaluation, compute_metrics
from luvli.faces import Faces
from luvli.image import read_image
from luvli.image.write import write_image
from luvli.prediction.rows import Row
from luvli.prediction.writers import write_results
from luvli.trust.trust import Trust

# -- labels ------------------------------------------------------------------------------------


def list_line(format: str, number: int, face: FaceRecord) -> str:
    """A face in a list that is only read: WFLW's, STAR's or the COFW68 benchmark's."""
    points = np.nan_to_num(face.points)
    if format == "star":
        joined = ",".join(map(str, points.ravel()))
        return f"{number}.jpg\t1,2,3,4\t{joined}\t0.5\t60\t70\n"
    numbers = " ".join(map(str, points.ravel()))
    if format == "wflw":
        return f"{numbers} {number}.jpg\n"
    x, y = (" ".join(map(str, axis)) for axis in points.T)
    return f"{number + 1}\n{x}\n{y}\n{' '.join(['0'] * len(points))}\n"


def labels(format: str) -> Reader:
    """The labels of a format, read as what they are, and as whatever they are taken for."""

    def make(path: Path) -> None:
        faces = records()
        if LABEL_FORMATS[format].write is None:
            path.write_text("".join(list_line(format, i, face) for i, face in enumerate(faces)))
        else:
            write_labels(path, faces[:1] if format in ("pts", "labelme") else faces, format)

    def read(path: Path) -> None:
        read_labels(path, format)
        read_labels(path)

    suffix = LABEL_FORMATS[format].suffix
    mutators = JSON + TEXT if suffix == ".json" else TEXT
    return Reader(f"labels {format}", suffix, make, read, mutators)


def write_menpo(path: Path) -> None:
    import scipy.io

    cells = np.empty((FACES, 1), object)
    for i in range(FACES):
        face = np.zeros((1, 1), [("name", object), ("gt", object), ("other", object)])
        face[0, 0] = (f"face-{i}", np.random.default_rng(i).random((68, 2)), np.ones((68, 2)))
        cells[i, 0] = face
    scipy.io.savemat(path, {"faces": cells})


def write_shard(path: Path) -> None:
    """Labelled faces with their images in Parquet."""
    faces = []
    for i, face in enumerate(records()):
        image = path.with_name(f"for-shards-{i}.png")
        write_image(image, photograph())
        faces.append(face.with_changes(image=image))
    shards = path.with_name("shards")
    shutil.copy(write_label_shards(shards, faces)[0], path)
    shutil.rmtree(shards)


def read_shard(path: Path) -> None:
    """As training does, label and image."""
    reading = Reading(path, get_set("parquet"), "all")
    read_parquet_set(reading)
    for problem in reading.found.problems:
        raise InputError(str(problem))
    for face in reading.found:
        read_image(face.image or "")


# -- predictions ---------------------------------------------------------------------------------


def arrays() -> dict[str, Any]:
    faces = records()
    return {
        "points": np.stack([face.points for face in faces]) + 0.5,
        "covariance": np.tile(np.eye(2), (FACES, 68, 1, 1)),
        "visibility": np.full((FACES, 68), 0.8),
        "names": np.array([face.face_id for face in faces]),
    }


def write_predicted(format: str) -> Callable[[Path], None]:
    """Writes results of `luvli predict`."""

    def write(path: Path) -> None:
        columns = {name: arrays()[name] for name in ("points", "covariance", "visibility")}
        one = {"boxes": [20, 20, 110, 110], "scores": 0.9, "confidence": 0.7, "expected_error": 2.0}
        faces = Faces(**columns, **{name: [value] * FACES for name, value in one.items()})
        rows = [Row(f"image-{i}.jpg", faces[i : i + 1]) for i in range(FACES)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            write_results(path, rows, format)

    return write


def matched(path: Path) -> Any:
    """Predicted faces beside their labels, from files in the folder of `path`."""
    predicted, truth = path.with_name("predicted.json"), path.with_name("labels.json")
    write_predicted("json")(predicted)
    write_labels(truth, records(), "json")
    return read_faces(predicted, truth)


def write_published_list(path: Path) -> None:
    """The lists of the paper's code, which hold the numbers of .pts files."""
    faces = [
        {"img_paths": f"./image-{i}.jpg", "pts_paths": f"./image-{i}.pts", "dataset": "300W",
         "pts": (face.points + 1).tolist(), "objpos_det": [50.0, 60.0]}
        for i, face in enumerate(records())
    ]  # fmt: skip
    path.write_text(json.dumps(faces))


def write_mmpose(path: Path) -> None:
    """Annotations with HRNet's centre and scale beside them."""
    write_labels(path, records(), "coco")
    content = json.loads(path.read_text())
    for annotation in content["annotations"]:
        annotation |= {"center": [50.0, 60.0], "scale": 0.5, "box_size": 100.0}
    path.write_text(json.dumps(content))


SCORED: tuple[tuple[str, str, Callable[[Path], None], Any], ...] = (
    ("npz", ".npz", lambda path: np.savez(path, **arrays()), BINARY),
    ("npz packed", ".npz", lambda path: np.savez_compressed(path, **arrays()), BINARY),
    ("npy", ".npy", lambda path: np.save(path, arrays()["points"]), BINARY),
    ("parquet", ".parquet", write_predicted("parquet"), BINARY),
    ("report", ".parquet", lambda path: write_predictions(path, matched(path)), BINARY),
    ("json", ".json", write_predicted("json"), JSON),
    ("coco", ".json", write_predicted("coco"), JSON),
    ("published list", ".json", write_published_list, JSON),
    ("mmpose", ".json", write_mmpose, JSON),
    ("csv", ".csv", write_predicted("csv"), TEXT),
)
"""files of `luvli score`: kind, suffix, how a good one is written, how it is damaged"""


def write_with_labels(write: Callable[[Path], None], path: Path) -> None:
    write(path)
    write_labels(path.with_name("truth.json"), records(), "json")


def score(path: Path) -> None:
    """`luvli score FILE --truth truth.json`, and the other way round."""
    truth = path.with_name("truth.json")
    for ways in ((path, None), (truth, path)):
        with contextlib.suppress(InputError):
            compute_metrics(read_faces(*ways, by_order=True), resamples=2)
    compute_metrics(read_faces(path, truth, by_order=True), resamples=2)


def triage(path: Path) -> None:
    triage_results(path, path.with_name("triage"), Trust(), 0.5)


def write_metrics(path: Path) -> None:
    path.write_text(compute_metrics(matched(path), resamples=2).to_json())


def read_metrics(path: Path) -> None:
    metrics = Evaluation.read(path)
    for name in ("auc7_box", "nme_box"):
        metrics.value(name)


def label_readers() -> list[Reader]:
    """Labels, predictions that are scored or selected, and metrics."""
    return [
        *(labels(name) for name in LABEL_FORMATS if name != "menpo"),
        Reader("labels menpo", ".mat", write_menpo, lambda path: read_labels(path, "menpo")),
        Reader("labels parquet", ".parquet", write_shard, read_shard),
        *(Reader(f"score {kind}", suffix, partial(write_with_labels, write), score, mutators)
          for kind, suffix, write, mutators in SCORED),
        Reader("triage json", ".json", write_predicted("json"), triage, JSON),
        Reader("metrics.json", ".json", write_metrics, read_metrics, JSON),
    ]  # fmt: skip
