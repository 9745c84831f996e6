"""`luvli predict`: landmarks, uncertainty and visibility of every face in images and videos."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ENGINES = ("local", "ray")


def predict(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="Images, videos, folders (with all below), patterns like 'a/*.jpg', or - for "
            "an image from standard input."
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="Folder for everything that is written; predictions, or "
                     "predictions-2 where that holds other results."),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option("--format", help="json (default), csv, parquet, pts or coco."),
    ] = None,
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
    engine: Annotated[
        str, typer.Option(help="local, or ray: on a cluster, any number of images to parquet.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="ray: the cluster's address; this machine by default.")
    ] = None,
    image_column: Annotated[
        str | None, typer.Option(help="ray: column of a Parquet source with images or paths.")
    ] = None,
    name_column: Annotated[
        str | None, typer.Option(help="ray: column of a Parquet source with the images' names.")
    ] = None,
    part_size: Annotated[
        int | None, typer.Option(help="ray: images, or frames, done and written together.")
    ] = None,
) -> None:  # fmt: skip
    """Find faces and write their landmarks with covariance and visibility.

    Results of all images go to one file in OUT, `faces.json` for instance; each video has
    its own. With pts, every face has a file. A run that was interrupted goes on when the
    same command is given again; results of another run are not replaced without --overwrite.
    Exit code 1 means that some files could not be read.

    With `--engine ray` inputs may be URIs (s3://, gs://, hdfs://), Parquet files and WebDataset
    tars, and OUT becomes a folder of Parquet files; see docs/scale.md.

    Examples: `luvli predict photos/ --draw --out results`, `luvli predict photo.jpg --json`
    """
    from functools import partial

    from luvli.cli.predict_options import ClusterOptions, ModelOptions
    from luvli.cli.predict_report import refuse_options
    from luvli.errors import InputError, unknown_choice
    from luvli.prediction.job_settings import JobSettings

    if engine not in ENGINES:
        raise unknown_choice("engine", engine, ENGINES)
    chosen = ModelOptions(model, backend, threads, provider, small_faces, boxes, max_failure_rate)
    settings = partial(
        JobSettings, Path(out or "predictions"), format or "json", draw, coverage, smooth,
        min_score, "", min_confidence, max_uncertainty, try_rotations, overwrite,
    )  # fmt: skip
    if engine == "ray":
        from luvli.cli.predict_ray import predict_ray

        unfit = {"--draw": draw, "--coverage": coverage, "--json": json, "--camera": camera}
        refuse_options(unfit, "--engine ray writes Parquet only")
        if format not in (None, "parquet"):
            raise InputError(f"--engine ray writes parquet, not {format}: leave --format out.")
        cluster = ClusterOptions(address, image_column, name_column, part_size)
        place = out or "predictions"
        raise typer.Exit(
            predict_ray(paths or [], place, settings(), chosen, cluster, quiet, profile)
        )
    only_ray = {"--address": address, "--image-column": image_column,
                "--name-column": name_column, "--part-size": part_size}  # fmt: skip
    refuse_options(only_ray, "it is for --engine ray")
    if not paths and camera is None:
        raise InputError("nothing to look at: give images, videos or folders, or --camera 0.")
    if paths and camera is not None:
        raise InputError("--camera takes no files beside it: leave out the paths, or --camera.")
    from luvli.cli.predict_local import predict_to_files, predict_to_stdout

    if json or "-" in (paths or []):
        writing = {"--out": out, "--format": format, "--draw": draw, "--coverage": coverage,
                   "--camera": camera, "--overwrite": overwrite, "--profile": profile}  # fmt: skip
        why = "--json prints the results" if json else "an image from - has its results printed"
        refuse_options(writing, f"{why} and writes no file")
        raise typer.Exit(predict_to_stdout(paths or [], settings(), chosen))
    raise typer.Exit(
        predict_to_files(paths or [], camera, settings(), out is not None, chosen, quiet, profile)
    )
