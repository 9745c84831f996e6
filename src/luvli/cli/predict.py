"""`luvli predict`: landmarks, uncertainty and visibility of every face in pictures and videos."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def predict(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="Images, videos, folders (with all below), or patterns like 'a/*.jpg'."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for everything that is written.")] = Path(
        "predictions"
    ),
    format: Annotated[
        str, typer.Option("--format", help="json, csv, parquet, pts or coco.")
    ] = "json",
    draw: Annotated[
        bool, typer.Option("--draw", help="Also write images and videos with what was found.")
    ] = False,
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
        int | None, typer.Option(help="Number of a camera to use until Ctrl-C.")
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
) -> None:  # fmt: skip
    """Find faces and write their landmarks with covariance and visibility.

    Results of all pictures go to one file in OUT, `faces.json` for instance; each video has
    its own. With pts, every face has a file. A run that was interrupted goes on when the
    same command is given again. Exit code 1 means that some files could not be read.

    Example: `luvli predict photos/ --draw --out results`
    """
    from luvli.cli.predict_report import report, report_profile, watch
    from luvli.errors import InputError
    from luvli.image.known_boxes import BoxesFromFile
    from luvli.prediction.batch_job import BatchJob, JobSettings, predict_paths
    from luvli.prediction.camera import camera_frames
    from luvli.prediction.input_files import Inputs
    from luvli.prediction.predictor import load

    if not paths and camera is None:
        raise InputError("nothing to look at: give images, videos or folders, or --camera 0.")
    inputs = Inputs(paths or [])
    backend_name: Any = backend
    predictor = load(model, backend_name, threads, [provider], small_faces)
    if boxes is not None:
        predictor.detector = BoxesFromFile(boxes)
    note = f"boxes {boxes}" if boxes else "small faces" if small_faces else ""
    if max_failure_rate is not None:
        from luvli.trust.triage import threshold_of

        predictor.accept_from = threshold_of(predictor.info, max_failure_rate).threshold
        note += f" accepted from {predictor.accept_from}"
    settings = JobSettings(out, format, draw, coverage, smooth, min_score, note)
    if camera is not None:
        run = BatchJob(predictor, settings)
        typer.echo("Ctrl-C ends the recording.", err=True)
        run.camera(watch(camera_frames(camera), "frames", None), f"camera-{camera}", 30.0)
        summary = run.finish()
    else:
        try:
            summary = predict_paths(predictor, inputs, settings, watch)
        except KeyboardInterrupt:
            typer.secho(
                f"\nluvli: interrupted; what was finished is kept in {out}: give the same "
                "command again to go on.",
                fg="yellow",
                err=True,
            )
            raise typer.Exit(130) from None
    report(summary, settings)
    if profile:
        report_profile(summary.stopwatch)
    if summary.failed:
        raise typer.Exit(1)
