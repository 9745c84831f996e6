"""`luvli predict`: landmarks, uncertainty and visibility of every face in images and videos."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from luvli.cli.messages import complain, print_licence, print_paths
from luvli.cli.options import Engine, ModelName, refuse
from luvli.cli.tables import print_table

if TYPE_CHECKING:
    from luvli.faces import FaceLandmarks
    from luvli.prediction.inputs import Inputs
    from luvli.prediction.job import Summary
    from luvli.prediction.predictor import Predictor
    from luvli.prediction.worker import JobSettings

_SHOWN_FAILURES = 20


def predict(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="Images, videos, folders (with all below), patterns like 'a/*.jpg', Parquet "
            "files, tars, URIs (s3://, gs://, hdfs://), camera:0, or - for standard input."
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="Folder for everything that is written; predictions, or "
                     "predictions-2 where that holds other results."),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option("--format", help="json (default), csv, parquet, pts, coco, or parts: a folder "
                     "of Parquet files, the default of --engine ray."),
    ] = None,
    draw: Annotated[
        bool | None,
        typer.Option("--draw/--no-draw", help="Also write images and videos with the faces and "
                     "their 90 % ellipses drawn; the default for a single photograph."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the results and write no file.")
    ] = False,
    model: ModelName = "luvli-68",
    boxes: Annotated[
        Path | None,
        typer.Option(help="CSV or JSON with tight face boxes; replaces the face detector."),
    ] = None,
    small_faces: Annotated[
        bool,
        typer.Option("--small-faces", help="Look closely at every large image; takes longer."),
    ] = False,
    try_rotations: Annotated[
        bool, typer.Option("--try-rotations", help="Images may lie on their side or head.")
    ] = False,
    min_score: Annotated[
        float, typer.Option(min=0, max=1, help="Leave out faces below this detection score.")
    ] = 0.6,
    min_confidence: Annotated[
        float | None, typer.Option(min=0, max=1, help="Leave out faces with less confidence.")
    ] = None,
    max_failure_rate: Annotated[
        float | None,
        typer.Option(help="Mark faces as accepted or for review, so that at most this share of "
                          "the accepted failed, with 95 % confidence."),
    ] = None,
    smooth: Annotated[
        bool,
        typer.Option("--smooth", help="Videos: smooth each point in time, by how sure it is."),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace results of another run in OUT.")
    ] = False,
    threads: Annotated[int | None, typer.Option(help="Processor threads; all by default.")] = None,
    device: Annotated[Literal["cpu", "cuda"], typer.Option(help="What the network runs on.")]
    = "cpu",
    engine: Engine = "local",
    columns: Annotated[
        str | None,
        typer.Option(metavar="IMAGE,NAME", help="Columns of a Parquet source with the images, or "
                                                "their paths, and their names."),
    ] = None,
    part_size: Annotated[
        int | None, typer.Option(min=1, help="Images, or frames, done and written together.")
    ] = None,
) -> None:  # fmt: skip
    """Find faces and write their landmarks with covariance and visibility.

    Results of all images go to one file in OUT, `faces.json` for instance; each video has
    its own. With pts, every face has a file. A run that was interrupted goes on when the
    same command is given again; results of another run are not replaced without --overwrite.
    Exit code 1 means that some files could not be read.

    The same job runs on a cluster with `--engine ray`; see docs/scale.md.

    Examples: `luvli predict photo.jpg`, `luvli predict photos/ --draw --out results`
    """
    from luvli.errors import InputError
    from luvli.image.known_boxes import BoxesFromFile
    from luvli.models import find_model
    from luvli.prediction.inputs import Inputs
    from luvli.prediction.job import LocalExecutor, PredictJob
    from luvli.prediction.plan import free_folder
    from luvli.prediction.predictor import Predictor, load
    from luvli.prediction.worker import JobSettings, PackedModel

    names = paths or []
    if not names:
        raise InputError("nothing to look at: give images, videos, folders or camera:0.")
    camera = re.fullmatch(r"camera:(\d+)", names[0])
    if camera and (len(names) > 1 or engine == "ray" or json):
        raise InputError("a camera is recorded alone: leave out other paths, --json, --engine ray.")
    on_ray = engine == "ray"
    if on_ray:
        refuse({"--json": json}, "--engine ray writes files")
    printing = json or "-" in names
    if printing:
        unfit = {"--out": out, "--format": format, "--draw": draw, "--overwrite": overwrite}
        why = "--json prints the results" if json else "an image from - has its results printed"
        refuse(unfit, f"{why} and writes no file")
    if draw is None:
        draw = not printing and format is None and not on_ray and Inputs.is_photograph(names)
    image_column, _, name_column = (columns or "").partition(",")
    settings = JobSettings(
        out=out or "predictions", format=format or ("parts" if on_ray else "json"), draw=draw,
        smooth=smooth, min_score=min_score, min_confidence=min_confidence,
        try_rotations=try_rotations, image_column=image_column or None,
        name_column=name_column or None, part_size=part_size,
    )  # fmt: skip
    inputs = Inputs((name for name in names if name != "-"), settings.out)
    file = find_model(model)
    backend = load(file, threads=threads, providers=[device]).backend
    predictor = Predictor(backend, BoxesFromFile(boxes) if boxes else None, small_faces)
    if max_failure_rate is not None:
        predictor = predictor.with_triage(max_failure_rate)
    if min_confidence is not None and predictor.info.trust is None:
        raise InputError(
            f"{predictor.info.name} gives no confidence: leave --min-confidence out, or calibrate "
            "the model with luvli calibrate."
        )
    if printing:
        raise typer.Exit(_print_json(predictor, inputs, settings, "-" in names))
    packed = PackedModel.of(file, device, predictor)
    settings = replace(settings, note=packed.digest(boxes))
    if camera:
        summary = _record(predictor, settings, int(camera[1]))
    else:
        executor: Any = LocalExecutor(predictor, packed)
        if on_ray:
            from luvli.scale.ray_predict import RayExecutor

            inputs = inputs.absolute()
            executor = RayExecutor(packed, os.environ.get("RAY_ADDRESS"), threads)
        if out is None:
            settings = replace(settings, out=free_folder(inputs, settings))
        with _resumable(settings.out):
            summary = PredictJob(inputs, settings, overwrite).run(executor, _watch)
    _report(summary, settings)
    print_licence(predictor.info)
    raise typer.Exit(1 if summary.failed else 0)


@contextmanager
def _resumable(out: str) -> Iterator[None]:
    """Ctrl-C and SIGTERM end a job with a sentence and exit code 130 or 143."""
    code = 130

    def terminate(*_: object) -> None:
        nonlocal code
        code = 143
        raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, terminate) if main else None
    try:
        yield
    except KeyboardInterrupt:
        typer.secho(
            f"\nluvli: interrupted; what was finished is kept in {out}: give the same command "
            "again to go on.",
            fg="yellow",
            err=True,
        )
        raise typer.Exit(code) from None
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)


def _watch(items: Any, description: str, total: int | None) -> Any:
    from luvli.progress import track

    return track(items, description, total, description)


def _print_json(
    predictor: Predictor, inputs: Inputs, settings: JobSettings, from_stdin: bool
) -> int:
    """Results as one JSON array on standard output -> the exit code."""
    from luvli.prediction.job import predict_rows
    from luvli.prediction.writers import json_record

    source = sys.stdin.buffer.read() if from_stdin else None
    problems: list[str] = []
    separator = "[\n"
    for row in predict_rows(predictor, inputs, settings, source):
        if row.error:
            problems.append(row.error)
        sys.stdout.write(separator + json_record(row))
        separator = ",\n"
    sys.stdout.write("\n]\n" if separator == ",\n" else "[]\n")
    sys.stdout.flush()
    problems += inputs.problems
    for sentence in problems:
        complain(sentence)
    return 1 if problems else 0


def _record(predictor: Predictor, settings: JobSettings, camera: int) -> Summary:
    from luvli.prediction.camera import camera_frames
    from luvli.prediction.job import record_camera

    typer.echo("Ctrl-C ends the recording.", err=True)
    frames = _watch(camera_frames(camera), "frames", None)
    return record_camera(predictor, settings, frames, f"camera-{camera}", 30.0)


def _report(summary: Summary, settings: JobSettings) -> None:
    """The images if they are few, a summary, failures, and where everything is."""
    counts = summary.counts
    if 0 < counts.images == len(summary.examples):
        rows = [
            [row.image, f"{number}", f"{face.score:.2f}", trust_text(face), *_figures(face)]
            for row in summary.examples
            for number, face in enumerate(row.faces, 1)
        ]
        rows += [[row.image, "none", *[""] * 4] for row in summary.examples if not len(row.faces)]
        print_table(["image", "face", "score", "confidence", "uncertainty", "hidden"], rows)
    lines = [
        ("images", counts.images),
        ("of these without a face", counts.without_face),
        ("videos", summary.videos),
        ("frames", counts.frames),
        ("done by an earlier run", summary.resumed),
        ("faces", counts.faces),
        ("accepted by the triage", counts.accepted),
        ("for review", counts.for_review),
        ("faces left out as unsure", counts.filtered),
        ("files of before that were left in the folder", summary.left_over),
        (f"other files in the folders{_endings(summary.skipped)}", summary.skipped.total()),
        ("failed", max(counts.failed, len(summary.failed))),
    ]
    shown = [[name, f"{count:,}"] for name, count in lines if count or name == "faces"]
    print_table(["", "count"], shown, title="summary")
    if summary.rows:
        good = counts.images + counts.frames
        typer.echo(f"images in {summary.rows:,} = done {good:,} + failed {counts.failed:,}")
    if summary.seconds:
        seconds = ", ".join(f"{name} {spent:.2f} s" for name, spent in summary.seconds.items())
        typer.echo(f"time of all workers together: {seconds}")
    failed = list(summary.failed)
    for sentence in failed[:_SHOWN_FAILURES]:
        complain(sentence)
    if len(failed) > _SHOWN_FAILURES:
        more = len(failed) - _SHOWN_FAILURES
        complain(f"and {more:,} more, all named in {settings.out}/failed.txt.")
    if settings.format == "coco":
        typer.echo("COCO has no place for covariances and probabilities: they were left out.")
    print_paths(summary.written)
    if settings.draw or settings.format in ("pts", "parts"):
        typer.echo(f"everything is in {settings.out}")


def _endings(skipped: Counter[str]) -> str:
    """The commonest endings of files that were left out, in brackets.

    >>> _endings(Counter({".txt": 3, "": 1})), _endings(Counter())
    (' (.txt, no ending)', '')
    """
    names = [ending or "no ending" for ending, _ in skipped.most_common()]
    more = ", ..." if len(names) > 4 else ""
    return f" ({', '.join(names[:4])}{more})" if names else ""


def trust_text(face: FaceLandmarks) -> str:
    """The confidence, and what the triage makes of it."""
    from luvli.face_landmarks import confidence_text

    decision = {None: "", True: ", accepted", False: ", for review"}[face.accepted]
    return f"{confidence_text(face.confidence)}{decision}"


def _figures(face: FaceLandmarks) -> list[str]:
    """Typical uncertainty in pixels, and how many landmarks the head itself hides."""
    spread = f"{face.uncertainty.mean():.1f} px" if face.covariance_trained else "not trained"
    hidden = int((~face.visible()).sum())
    return [spread, f"{hidden} of {len(face)}" if face.visibility_trained else "not trained"]
