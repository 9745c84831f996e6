"""`luvli predict`: landmarks, uncertainty and visibility of every face in images and videos."""

from __future__ import annotations

import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from luvli.cli.tables import print_table
from luvli.files import one_line

if TYPE_CHECKING:
    from luvli.faces import FaceLandmarks
    from luvli.network.model_info import ModelInfo
    from luvli.prediction.inputs import Inputs
    from luvli.prediction.job import Summary
    from luvli.prediction.predictor import Predictor
    from luvli.prediction.worker import JobSettings

ENGINES = ("local", "ray")
SHOWN_FAILURES = 20


def predict(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="Images, videos, folders (with all below), patterns like 'a/*.jpg', Parquet "
            "files, tars, URIs (s3://, gs://, hdfs://), or - for an image from standard input."
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
        typer.Option("--draw/--no-draw", help="Also write images and videos with the faces drawn; "
                     "the default for a single photograph."),
    ] = None,
    coverage: Annotated[
        float | None,
        typer.Option(
            help="Share that drawn ellipses hold, e.g. 0.95; else Mahalanobis distance 1."
        ),
    ] = None,
    boxes: Annotated[
        Path | None,
        typer.Option(help="CSV or JSON with tight face boxes; replaces the face detector."),
    ] = None,
    min_score: Annotated[float, typer.Option(help="Leave out faces below this score.")] = 0.6,
    model: Annotated[
        str, typer.Option(help="A shipped model's name, or a model file.")
    ] = "luvli-68",
    backend: Annotated[
        str | None, typer.Option(help="onnx or torch; by default the model file decides.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Processor threads; all by default.")] = None,
    provider: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    small_faces: Annotated[
        bool,
        typer.Option("--small-faces", help="Look closely at every large image; takes longer."),
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Show where the time went: read, detect, network.")
    ] = False,
    camera: Annotated[
        int | None, typer.Option(min=0, help="Number of a camera, from 0; Ctrl-C ends it.")
    ] = None,
    max_failure_rate: Annotated[
        float | None,
        typer.Option(help="Mark faces as accepted or for review, so that at most this share of "
                          "the accepted failed, with 95 % confidence."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the results and write no file.")
    ] = False,
    min_confidence: Annotated[
        float | None, typer.Option(help="Leave out faces with less confidence, 0..1.")
    ] = None,
    max_uncertainty: Annotated[
        float | None,
        typer.Option(help="Leave out faces less sure than this: mean standard deviation of the "
                          "landmarks in % of the box."),
    ] = None,
    try_rotations: Annotated[
        bool, typer.Option("--try-rotations", help="Images may lie on their side or head.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace results of another run in OUT.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing but what went wrong.")
    ] = False,
    smooth: Annotated[
        bool,
        typer.Option("--smooth", help="Videos: smooth each point in time, by how sure it is."),
    ] = False,
    engine: Annotated[str, typer.Option(help="local, or ray: on a cluster.")] = "local",
    address: Annotated[
        str | None, typer.Option(help="ray: the cluster's address; this machine by default.")
    ] = None,
    image_column: Annotated[
        str | None, typer.Option(help="Column of a Parquet source with images or paths.")
    ] = None,
    name_column: Annotated[
        str | None, typer.Option(help="Column of a Parquet source with the images' names.")
    ] = None,
    part_size: Annotated[
        int | None, typer.Option(help="Images, or frames, done and written together.")
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
    from dataclasses import replace

    from luvli.errors import InputError, unknown_choice
    from luvli.models import find_model
    from luvli.prediction.inputs import Inputs
    from luvli.prediction.job import LocalExecutor, PredictJob
    from luvli.prediction.plan import free_folder
    from luvli.prediction.worker import JobSettings, PackedModel

    names = list(paths or [])
    if engine not in ENGINES:
        raise unknown_choice("engine", engine, ENGINES)
    if not names and camera is None:
        raise InputError("nothing to look at: give images, videos or folders, or --camera 0.")
    if names and camera is not None:
        raise InputError("--camera takes no files beside it: leave out the paths, or --camera.")
    if engine == "local":
        refuse_options({"--address": address}, "it is for --engine ray")
    else:
        refuse_options({"--json": json, "--camera": camera}, "--engine ray writes files")
    printing = json or "-" in names
    if printing:
        writing = {"--out": out, "--format": format, "--draw": draw, "--coverage": coverage,
                   "--camera": camera, "--overwrite": overwrite, "--profile": profile}  # fmt: skip
        why = "--json prints the results" if json else "an image from - has its results printed"
        refuse_options(writing, f"{why} and writes no file")
    if draw is None:
        draw = not printing and format is None and engine == "local" and Inputs.is_photograph(names)
    settings = JobSettings(
        out or "predictions", format or ("parts" if engine == "ray" else "json"), draw, coverage,
        smooth, min_score, min_confidence, max_uncertainty, try_rotations, image_column,
        name_column, part_size,
    )  # fmt: skip
    inputs = Inputs((name for name in names if name != "-"), settings.out)
    file = find_model(model, backend)
    predictor = _predictor(file, threads, provider, small_faces, boxes, max_failure_rate)
    if min_confidence is not None and predictor.info.trust is None:
        raise InputError(
            f"{predictor.info.name} gives no confidence: leave --min-confidence out, or calibrate "
            "the model with luvli calibrate."
        )
    if printing:
        raise typer.Exit(_print_json(predictor, inputs, settings, "-" in names))
    packed = PackedModel.of(file, provider, predictor)
    settings = replace(settings, note=packed.digest(boxes))
    if camera is not None:
        raise typer.Exit(_record(predictor, settings, camera, quiet))
    if engine == "ray":
        from luvli.scale.ray_predict import RayExecutor

        inputs = inputs.absolute()
        executor: Any = RayExecutor(packed, address, threads)
    else:
        executor = LocalExecutor(predictor, packed)
    if out is None:
        settings = replace(settings, out=free_folder(inputs, settings))
    job = PredictJob(inputs, settings, overwrite)
    with resumable(settings.out):
        summary = job.run(executor, (lambda items, *_: items) if quiet else _watch)
    _report(summary, settings, quiet)
    if not quiet:
        report_licence(predictor.info)
    if profile:
        _report_profile(summary.seconds)
    raise typer.Exit(1 if summary.failed else 0)


@contextmanager
def resumable(out: str) -> Iterator[None]:
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


def _predictor(
    file: Path,
    threads: int | None,
    provider: str,
    small_faces: bool,
    boxes: Path | None,
    max_failure_rate: float | None,
) -> Predictor:
    from luvli.image.known_boxes import BoxesFromFile
    from luvli.prediction.predictor import Predictor, load

    backend = load(file, threads=threads, providers=[provider]).backend
    detector = None if boxes is None else BoxesFromFile(boxes)
    predictor = Predictor(backend, detector, small_faces)
    return predictor if max_failure_rate is None else predictor.with_triage(max_failure_rate)


def refuse_options(options: dict[str, Any], why: str) -> None:
    """Options that do not fit together are refused, not ignored."""
    from luvli.errors import InputError

    for name, value in options.items():
        if value is not None and value is not False:
            raise InputError(f"{name} cannot be used here, {why}: leave it out.")


def _watch(items: Iterable[Any], description: str, total: int | None) -> Iterable[Any]:
    from luvli.progress import track

    return track(items, description, total, description)


def _print_json(
    predictor: Predictor, inputs: Inputs, settings: JobSettings, from_stdin: bool
) -> int:
    """Results as one JSON array on standard output -> the exit code."""
    from luvli.prediction.job import predict_rows
    from luvli.prediction.writers import json_record

    source = sys.stdin.buffer.read() if from_stdin else None
    code, separator = 0, "[\n"
    for row in predict_rows(predictor, inputs, settings, source):
        if row.error:
            code = 1
            _complain(row.error)
        sys.stdout.write(separator + json_record(row))
        separator = ",\n"
    sys.stdout.write("\n]\n" if separator == ",\n" else "[]\n")
    sys.stdout.flush()
    for sentence in inputs.problems:
        code = 1
        _complain(sentence)
    return code


def _record(predictor: Predictor, settings: JobSettings, camera: int, quiet: bool) -> int:
    """Record a camera -> the exit code."""
    from luvli.prediction.camera import camera_frames
    from luvli.prediction.job import record_camera

    typer.echo("Ctrl-C ends the recording.", err=True)
    frames: Any = camera_frames(camera)
    frames = frames if quiet else _watch(frames, "frames", None)
    summary = record_camera(predictor, settings, frames, f"camera-{camera}", 30.0)
    _report(summary, settings, quiet)
    return 1 if summary.failed else 0


def _complain(sentence: str) -> None:
    typer.secho(f"luvli: {one_line(sentence)}", fg="red", err=True)


def _report(summary: Summary, settings: JobSettings, quiet: bool) -> None:
    """Summary table, the images if they are few, failures, and where everything is."""
    if not quiet:
        _tables(summary)
    failed = list(summary.failed)
    for sentence in failed[:SHOWN_FAILURES]:
        _complain(sentence)
    if len(failed) > SHOWN_FAILURES:
        more = f"and {len(failed) - SHOWN_FAILURES:,} more, all named in {settings.out}/failed.txt."
        _complain(more)
    if quiet:
        return
    if settings.format == "coco":
        typer.echo("COCO has no place for covariances and probabilities: they were left out.")
    for path in summary.written:
        typer.echo(one_line(str(path)))
    if settings.draw or settings.format in ("pts", "parts"):
        typer.echo(f"everything is in {settings.out}")


def _tables(summary: Summary) -> None:
    counts = summary.counts
    if 0 < counts.images == len(summary.examples):
        rows = [
            [row.image, f"{number}", f"{face.score:.2f}", _trust(face), *_figures(face)]
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
        (f"other files in the folders{kinds(summary.skipped)}", summary.skipped.total()),
        ("failed", max(counts.failed, len(summary.failed))),
    ]
    shown = [[name, f"{count:,}"] for name, count in lines if count or name == "faces"]
    print_table(["", "count"], shown, title="summary")
    if summary.rows:
        good = counts.images + counts.frames
        typer.echo(f"images in {summary.rows:,} = done {good:,} + failed {counts.failed:,}")


def kinds(skipped: Counter[str]) -> str:
    """The commonest endings of files that were left out, in brackets.

    >>> kinds(Counter({".txt": 3, "": 1})), kinds(Counter())
    (' (.txt, no ending)', '')
    """
    names = [ending or "no ending" for ending, _ in skipped.most_common()]
    more = ", ..." if len(names) > 4 else ""
    return f" ({', '.join(names[:4])}{more})" if names else ""


def _trust(face: FaceLandmarks) -> str:
    """The confidence, and what the triage makes of it."""
    if face.confidence is None:
        return "not calibrated"
    decision = {None: "", True: ", accepted", False: ", for review"}[face.accepted]
    shown = f"{face.confidence:.2f}"
    return f"{'> 0.99' if shown == '1.00' else shown}{decision}"


def _figures(face: FaceLandmarks) -> list[str]:
    """Typical uncertainty in pixels, and how many landmarks the head itself hides."""
    spread = f"{face.uncertainty.mean():.1f} px" if face.covariance_trained else "not trained"
    hidden = int((~face.visible()).sum())
    return [spread, f"{hidden} of {len(face)}" if face.visibility_trained else "not trained"]


def report_licence(info: ModelInfo) -> None:
    """One line: what the model may be used for, and which one anyone may use."""
    from luvli.models import model_names, read_card
    from luvli.network.licence import is_open

    if is_open(info.licence):
        typer.echo(f"model: {info.name}, free for any use ({info.licence})")
        return
    free = [name for name in model_names() if is_open(read_card(name).licence)]
    other = f"; --model {free[0]} is free for any use" if free else ""
    typer.echo(f"model: {info.name}, {info.licence}{other}")


def _report_profile(seconds: dict[str, float]) -> None:
    """Seconds of each stage, summed over the workers, and its share of them."""
    total = sum(seconds.values()) or 1.0
    rows = [[stage, f"{spent:.2f} s", f"{spent / total:.0%}"] for stage, spent in seconds.items()]
    print_table(["stage", "time", "share"], rows, title=f"all workers together: {total:.2f} s")


def face_table(face: FaceLandmarks, title: str) -> None:
    """Mean, smallest and largest uncertainty, and the least sure landmarks by name."""
    spread = face.uncertainty
    rows = [
        ["detection score", f"{face.score:.2f}"],
        ["confidence", _trust(face)],
        ["landmarks", f"{len(face)}"],
        ["hidden by the head itself", _figures(face)[1]],
        ["mean uncertainty", f"{spread.mean():.2f} px"],
        ["smallest", f"{spread.min():.2f} px"],
        ["largest", f"{spread.max():.2f} px"],
    ]
    rows += [[f"least sure: {name}", f"{value:.2f} px"] for name, value in face.least_sure()]
    print_table(["face", ""], rows, title=title)
