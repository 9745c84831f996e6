"""`luvli predict`: landmarks, uncertainty and visibility of every face in images and videos."""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer
from typer import Argument, Option

from luvli.cli.options import ENGINE, MODEL, Engine, refuse
from luvli.cli.output import complain, note, print_licence, warn
from luvli.cli.predict_summary import print_summary
from luvli.errors import InputError
from luvli.progress import track

if TYPE_CHECKING:
    from luvli.network.model_info import ModelInfo
    from luvli.prediction.executors import Executor
    from luvli.prediction.inputs import Inputs
    from luvli.prediction.job import Summary
    from luvli.prediction.predictor import Predictor
    from luvli.prediction.rotations import TryRotations
    from luvli.prediction.settings import JobSettings
    from luvli.prediction.worker import PackedModel

Mode = Literal["files", "ray", "print", "camera"]
"""where results go: to files, to files by the cluster, to the terminal; or a camera's recording"""


def predict(
    paths: list[str] = Argument(
        help="Images, videos, folders (searched recursively), patterns, Parquet files, tars, URIs "
        "(s3://, gs://, hdfs://), camera:0, or - for standard input."
    ),
    out: str | None = Option(None, "--out", "-o", help="Folder to write to [predictions]."),
    format: str | None = Option(None, help="json, csv, parquet, pts, coco or parts (Ray's)."),
    draw: bool | None = Option(None, help="Draw the faces (the default for a single photograph)."),
    json: bool = Option(False, "--json", help="Print the results and write no file."),
    measures: bool = Option(False, "--measures", help="Also measure eyes, mouth, brows and pose."),
    model: str = MODEL,
    boxes: Path | None = Option(None, help="CSV or JSON with face boxes, instead of the detector."),
    small_faces: bool = Option(
        False, "--small-faces", help="Search large images for small faces; slow."
    ),
    try_rotations: bool | None = Option(
        None, help="Try four orientations [if no face is certain]."
    ),
    min_score: float = Option(0.6, help="Minimum detection score of a face."),
    min_confidence: float | None = Option(None, help="Minimum confidence of a face."),
    max_failure_rate: float | None = Option(
        None, help="At most this share of accepted faces fails."
    ),
    smooth: bool = Option(False, "--smooth", help="Videos: smooth the points in time."),
    overwrite: bool = Option(False, "--overwrite", help="Replace results of another run in OUT."),
    threads: int | None = Option(None, help="Processor threads; all by default."),
    device: Literal["cpu", "cuda"] = Option("cpu", help="What the network runs on."),
    engine: Engine = ENGINE,
    columns: str | None = Option(
        None, metavar="IMAGE,NAME", help="Columns of a Parquet source: IMAGE,NAME."
    ),
    part_size: int | None = Option(None, help="Images or frames in one part of the job."),
) -> None:
    """Find faces and write their landmarks with covariance and visibility.

    Results of all images go to one file in OUT, `faces.json` for instance; each video has
    its own. With pts, every face has a file. A run that was interrupted goes on when the
    same command is given again; results of another run are not replaced without --overwrite.
    Exit code 1 means that some files could not be read.

    The same job runs on a cluster with `--engine ray`; see docs/scale.md.

    Examples: `luvli predict photo.jpg`, `luvli predict photos/ --draw --out results`
    """
    from luvli.prediction.inputs import Inputs
    from luvli.prediction.settings import JobSettings

    asked = {"--out": out, "--format": format, "--draw": draw, "--overwrite": overwrite}
    mode = _mode(paths, engine, json, asked)
    if draw is None:
        draw = format is None and mode == "files" and Inputs(paths).is_photograph()
    image_column, _, name_column = (columns or "").partition(",")
    packed = _packed(model, device, boxes, small_faces, max_failure_rate)
    settings = JobSettings(
        out=out or "predictions", format=format or ("parts" if mode == "ray" else "json"),
        draw=draw, smooth=smooth, measures=measures, min_score=min_score,
        min_confidence=min_confidence, part_size=part_size, note=packed.digest(boxes),
        try_rotations=_rotations(try_rotations, boxes), image_column=image_column or None,
        name_column=name_column or None,
    )  # fmt: skip
    raise typer.Exit(_run(mode, paths, packed, settings, threads, out is None, overwrite))


def _mode(paths: list[str], engine: Engine, json: bool, writing: dict[str, Any]) -> Mode:
    """What is to be done; refuses what does not go together."""
    on_ray, printing = engine == "ray", json or "-" in paths
    if re.fullmatch(r"camera:\d+", paths[0]):
        if len(paths) > 1 or on_ray or printing:
            raise InputError(
                "a camera is recorded alone: leave out other paths, --json, --engine ray."
            )
        return "camera"
    if on_ray:
        refuse({"--json": printing}, "--engine ray writes files")
        return "ray"
    if printing:
        why = "--json prints the results" if json else "an image from - has its results printed"
        refuse(writing, f"{why} and writes no file")
        return "print"
    return "files"


def _rotations(wanted: bool | None, boxes: Path | None) -> TryRotations:
    """By default where no face is sure; boxes are those of the image as it is."""
    return wanted if wanted is not None else False if boxes else "auto"


def _run(
    mode: Mode,
    paths: list[str],
    packed: PackedModel,
    settings: JobSettings,
    threads: int | None,
    free: bool,
    overwrite: bool,
) -> int:
    """Do it, print what came of it -> the exit code. With `free`, write to a folder that holds
    nothing else."""
    from luvli.prediction.inputs import Inputs

    if mode == "camera":
        predictor = packed.open(threads)
        info, summary = predictor.info, _record(predictor, settings, int(paths[0][7:]))
    else:
        executor, info = _executor(mode == "ray", packed, threads)
        _check_model(info, settings)
        if mode == "print":
            return _print_json(executor, paths, settings)
        inputs = Inputs(paths, settings.out)
        inputs = inputs.absolute() if mode == "ray" else inputs
        summary, settings = _write(executor, inputs, settings, free, overwrite)
    print_summary(summary, settings)
    print_licence(info)
    return 1 if summary.failed else 0


def _packed(
    model: str, device: str, boxes: Path | None, small_faces: bool, max_failure_rate: float | None
) -> PackedModel:
    from luvli.image.known_boxes import BoxesFromFile
    from luvli.models import find_model
    from luvli.prediction.worker import PackedModel

    file = find_model(model)
    detector = BoxesFromFile(boxes) if boxes else None
    return PackedModel(file, file.read_bytes(), device, detector, small_faces, max_failure_rate)


def _executor(on_ray: bool, packed: PackedModel, threads: int | None) -> tuple[Executor, ModelInfo]:
    """What runs the job, and the model's description."""
    from luvli.prediction.executors import Processes
    from luvli.prediction.onnx_backend import thread_count

    processes = Processes(packed, thread_count(threads))
    info = processes.info()
    if not on_ray:
        return processes, info
    from luvli.scale.ray_predict import RayExecutor

    processes.close()
    return RayExecutor(packed, os.environ.get("RAY_ADDRESS"), threads), info


def _check_model(info: ModelInfo, settings: JobSettings) -> None:
    """Refuse what is asked for and this model does not give."""
    from luvli.faces import Faces

    if settings.min_confidence is not None and info.trust is None:
        raise InputError(
            f"{info.name} gives no confidence: leave --min-confidence out, or calibrate the model "
            "with luvli calibrate."
        )
    if settings.measures:
        Faces.empty(info.config.markup).measures  # noqa: B018  # refuses those without


def _write(
    executor: Executor, inputs: Inputs, settings: JobSettings, free: bool, overwrite: bool
) -> tuple[Summary, JobSettings]:
    """Run the job; with `free`, into a folder that holds nothing else. Ctrl-C and SIGTERM end it
    with a sentence and exit code 130 or 143."""
    from luvli.prediction.job import PredictJob
    from luvli.prediction.job_folder import free_folder

    code = 130

    def terminate(*_: object) -> None:
        nonlocal code
        code = 143
        raise KeyboardInterrupt

    if free:
        settings = replace(settings, out=free_folder(inputs, settings))
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        return PredictJob(inputs, settings, overwrite).run(executor, _watch), settings
    except KeyboardInterrupt:
        warn(
            f"interrupted; what was finished is kept in {settings.out}: give the same command "
            "again to go on."
        )
        raise typer.Exit(code) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _watch(items: Any, description: str, total: int | None) -> Any:
    return track(items, description, total, description)


def _print_json(executor: Executor, paths: list[str], settings: JobSettings) -> int:
    """Results as one JSON array on standard output -> the exit code. What comes from standard
    input is one image, "-"."""
    from luvli.prediction.inputs import Inputs
    from luvli.prediction.job import PredictJob
    from luvli.prediction.writers import json_record

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "image"
        if "-" in paths:
            place.write_bytes(sys.stdin.buffer.read())
        names = [str(place) if name == "-" else name for name in paths]
        job = PredictJob(Inputs(names), replace(settings, out=folder))
        separator = "[\n"
        for row in job.rows(executor):
            if row.image == str(place):
                row = row._replace(image="-", error=row.error.replace(str(place), "-"))
            typer.echo(separator + json_record(row, settings.measures), nl=False)
            separator = ",\n"
        typer.echo("\n]" if separator == ",\n" else "[]")
    for sentence in job.summary.failed:
        complain(sentence.replace(str(place), "-"))
    return 1 if job.summary.failed else 0


def _record(predictor: Predictor, settings: JobSettings, camera: int) -> Summary:
    from luvli.prediction.job import record_camera
    from luvli.prediction.streams import camera_frames

    _check_model(predictor.info, settings)
    note("Ctrl-C ends the recording.")
    frames = _watch(camera_frames(camera), "frames", None)
    return record_camera(predictor, settings, frames, f"camera-{camera}", 30.0)
