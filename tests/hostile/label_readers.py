"""Readers of labels and of predictions, in every format."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hostile import mutate
from hostile.mutate import Mutator
from hostile.reader import FACES, Reader, photograph, records
from luvli.data.record import FaceRecord


def _list_line(format: str, number: int, face: FaceRecord) -> str:
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


def _labels(format: str) -> Reader:
    from luvli.data.formats import LABEL_FORMATS, read_labels, write_labels

    def make(path: Path) -> None:
        faces = records()
        if LABEL_FORMATS[format].write is None:
            path.write_text("".join(_list_line(format, i, face) for i, face in enumerate(faces)))
        else:
            write_labels(path, faces[:1] if format in ("pts", "labelme") else faces, format)

    def read(path: Path) -> None:
        read_labels(path, format)
        read_labels(path)  # whatever it is taken for

    suffix = LABEL_FORMATS[format].suffix
    kind = mutate.JSON + mutate.TEXT if suffix == ".json" else mutate.TEXT
    return Reader(f"labels {format}", suffix, make, read, kind)


def _menpo() -> Reader:
    def make(path: Path) -> None:
        import scipy.io

        kind = [("name", object), ("gt", object), ("other", object)]
        cells = np.empty((FACES, 1), object)
        for i in range(FACES):
            face = np.zeros((1, 1), kind)
            face[0, 0] = (f"face-{i}", np.random.default_rng(i).random((68, 2)), np.ones((68, 2)))
            cells[i, 0] = face
        scipy.io.savemat(path, {"faces": cells})

    def read(path: Path) -> None:
        from luvli.data.formats import read_labels

        read_labels(path, "menpo")

    return Reader("labels menpo", ".mat", make, read)


def _scored(name: str, suffix: str, write: Callable[[Path], None],
            mutators: tuple[Mutator, ...]) -> Reader:  # fmt: skip
    """`luvli score FILE --truth labels.json`, and the other way round."""
    truth: list[Path] = []

    def make(path: Path) -> None:
        from luvli.data.formats import write_labels

        write(path)
        truth[:] = [path.with_name(f"truth-{name.replace(' ', '-')}.json")]
        write_labels(truth[0], records(), "json")

    def read(path: Path) -> None:
        from luvli.errors import InputError
        from luvli.evaluation.match import read_faces
        from luvli.evaluation.metrics import compute_metrics

        for ways in ((path, None), (truth[0], path)):
            with contextlib.suppress(InputError):
                compute_metrics(read_faces(*ways, by_order=True), resamples=2)
        compute_metrics(read_faces(path, truth[0], by_order=True), resamples=2)

    return Reader(f"score {name}", suffix, make, read, mutators)


def _arrays() -> dict[str, Any]:
    faces = records()
    return {
        "points": np.stack([face.points for face in faces]) + 0.5,
        "covariance": np.tile(np.eye(2), (FACES, 68, 1, 1)),
        "visibility": np.full((FACES, 68), 0.8),
        "names": np.array([face.face_id for face in faces]),
    }


def _predicted() -> list[Any]:
    from luvli.faces import Faces
    from luvli.prediction.parts import Row

    arrays = _arrays()
    return [
        Row(
            f"image-{i}.jpg",
            Faces(points=arrays["points"][i : i + 1], covariance=arrays["covariance"][i : i + 1],
                  visibility=arrays["visibility"][i : i + 1], boxes=[[20, 20, 110, 110]],
                  scores=[0.9], confidence=[0.7], expected_error=[2.0]),
        )
        for i in range(FACES)
    ]  # fmt: skip


def _write_predicted(format: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        from luvli.prediction.writers import write_results

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            write_results(path, _predicted(), format)

    return write


def _matched(path: Path) -> Any:
    """Predicted faces beside their labels, from files in the folder of `path`."""
    from luvli.data.formats import write_labels
    from luvli.evaluation.match import read_faces

    predicted, truth = path.with_name("predicted.json"), path.with_name("labels.json")
    _write_predicted("json")(predicted)
    write_labels(truth, records(), "json")
    return read_faces(predicted, truth)


def _write_report(path: Path) -> None:
    from luvli.evaluation.report_file import write_predictions

    write_predictions(path, _matched(path))


def _write_published_list(path: Path) -> None:
    """The lists of the paper's code, which hold the numbers of .pts files."""
    faces = [
        {"img_paths": f"./image-{i}.jpg", "pts_paths": f"./image-{i}.pts", "dataset": "300W",
         "pts": (face.points + 1).tolist(), "objpos_det": [50.0, 60.0]}
        for i, face in enumerate(records())
    ]  # fmt: skip
    path.write_text(json.dumps(faces))


def _write_mmpose(path: Path) -> None:
    """Annotations with HRNet's centre and scale beside them."""
    from luvli.data.formats import write_labels

    write_labels(path, records(), "coco")
    content = json.loads(path.read_text())
    for annotation in content["annotations"]:
        annotation |= {"center": [50.0, 60.0], "scale": 0.5, "box_size": 100.0}
    path.write_text(json.dumps(content))


def _scores() -> list[Reader]:
    return [
        _scored("npz", ".npz", lambda path: np.savez(path, **_arrays()), mutate.BINARY),
        _scored("npz packed", ".npz", lambda p: np.savez_compressed(p, **_arrays()), mutate.BINARY),
        _scored("npy", ".npy", lambda path: np.save(path, _arrays()["points"]), mutate.BINARY),
        _scored("parquet", ".parquet", _write_predicted("parquet"), mutate.BINARY),
        _scored("report", ".parquet", _write_report, mutate.BINARY),
        _scored("json", ".json", _write_predicted("json"), mutate.JSON),
        _scored("coco", ".json", _write_predicted("coco"), mutate.JSON),
        _scored("published list", ".json", _write_published_list, mutate.JSON),
        _scored("mmpose", ".json", _write_mmpose, mutate.JSON),
        _scored("csv", ".csv", _write_predicted("csv"), mutate.TEXT),
    ]


def _triage() -> Reader:
    def read(path: Path) -> None:
        from luvli.calibration.triage_results import triage_results
        from luvli.trust.trust import Trust

        triage_results(path, path.with_name("triage"), Trust(), 0.5)

    return Reader("triage json", ".json", _write_predicted("json"), read, mutate.JSON)


def _metrics() -> Reader:
    def make(path: Path) -> None:
        from luvli.evaluation.metrics import compute_metrics

        path.write_text(compute_metrics(_matched(path), resamples=2).to_json())

    def read(path: Path) -> None:
        from luvli.evaluation.metrics import Evaluation

        metrics = Evaluation.read(path)
        for name in ("auc7_box", "nme_box"):
            metrics.value(name)

    return Reader("metrics.json", ".json", make, read, mutate.JSON)


def _shards() -> Reader:
    """Labelled faces with their images in Parquet: read as training does, label and image."""

    def make(path: Path) -> None:
        import shutil

        from luvli.data.formats.label_parquet import write_label_shards
        from luvli.image.write import write_image

        faces = []
        for i, face in enumerate(records()):
            image = path.with_name(f"for-shards-{i}.png")
            write_image(image, photograph())
            faces.append(face.with_changes(image=image))
        shards = path.with_name("shards")
        shutil.copy(write_label_shards(shards, faces)[0], path)
        shutil.rmtree(shards)

    def read(path: Path) -> None:
        from luvli.data.sets import get_set
        from luvli.data.sets.definition import Problem, Request
        from luvli.data.sets.parquet import read_parquet_set
        from luvli.errors import InputError
        from luvli.image import read_image

        for face in read_parquet_set(Request(path, "all", get_set("parquet"))):
            if isinstance(face, Problem):
                raise InputError(str(face))
            if isinstance(face, FaceRecord):
                read_image(face.image or "")

    return Reader("labels parquet", ".parquet", make, read)


def label_readers() -> list[Reader]:
    """Labels, predictions that are scored or judged, and metrics."""
    from luvli.data.formats import LABEL_FORMATS

    labels = [*(_labels(name) for name in LABEL_FORMATS if name != "menpo"), _menpo(), _shards()]
    return [*labels, *_scores(), _triage(), _metrics()]
