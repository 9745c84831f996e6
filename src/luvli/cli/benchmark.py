"""`luvli benchmark`: our models and any peer on the same faces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from luvli.cli.options import Json, Limit, Normalizer


def benchmark(
    folder: Annotated[Path, typer.Argument(help="Labelled faces, e.g. images with .pts.")],
    method: Annotated[
        list[str] | None,
        typer.Option(help="A model of ours by name or path, dlib:PREDICTOR.dat, "
                          "mediapipe:face_landmarker.task, face-alignment, or a plug-in "
                          "module:function; may be repeated."),
    ] = None,
    dataset: Annotated[
        str, typer.Option(help="The folder is this data set, or a part; by default its test split.")
    ] = "folder",
    normalizer: Normalizer = "interocular",
    limit: Limit = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for benchmark.html, .md, .json and plots.")
    ] = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Accuracy, failures and time of several methods on one folder of labelled faces, in one run.

    A plug-in is a function of an image (H, W, 3) and a box (x0, y0, x1, y1) that returns points
    (68, 2) or None: ten lines in a file of this folder.

    Example: `luvli benchmark faces/ --method luvli-68 --method mine:predict --out comparison`
    """
    import json as json_module

    from luvli.cli.tables import show
    from luvli.evaluation import benchmark as running
    from luvli.evaluation.accuracy import normalizer_name
    from luvli.evaluation.methods import open_method
    from luvli.progress import track

    normalizer_name(normalizer)
    methods = [open_method(name) for name in method or ["luvli-68"]]
    records = running.labelled_faces(folder, dataset, limit)
    results = running.run_methods(
        methods, records,
        progress=lambda what: lambda faces: track(faces, what, unit="faces"),
    )  # fmt: skip
    if out is not None:
        running.write_benchmark(out, results, normalizer)
    if json:
        typer.echo(json_module.dumps(running.benchmark_json(results)))
        return
    show(running.benchmark_table(results, normalizer))
    if out is not None:
        typer.echo(f"benchmark written to {out / 'benchmark.html'}")
