"""`luvli benchmark`: our models and any peer on the same faces."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from luvli.cli.output import face_progress, print_result, say


def benchmark(
    folder: Path = Argument(help="Labelled faces, e.g. images with .pts."),
    method: list[str] = Option(
        ["luvli-68"],
        help="A model of ours by name or path, or a function of a file of this folder, "
        "module:function; may be repeated.",
    ),
    dataset: str = Option("folder", help="The folder is this data set, or a part of one."),
    out: Path | None = Option(None, help="Folder for benchmark.html, .md and .json."),
) -> None:
    """Accuracy, failures and time of several methods on one folder of labelled faces, in one run.

    Other programs take part through a plug-in: a function of an image (H, W, 3) and a box (x0, y0,
    x1, y1) that returns points (68, 2) or None, in a file of this folder.

    Example: `luvli benchmark faces/ --method luvli-68 --method mine:predict --out comparison`
    """
    from luvli.evaluation import benchmark as running
    from luvli.evaluation.compare import Comparison

    methods = [running.open_method(name) for name in method]
    records = running.labelled_faces(folder, dataset)
    comparison = Comparison(running.run_methods(methods, records, progress=face_progress))
    if out is not None:
        comparison.write(out, "benchmark")
        say(f"benchmark written to {out / 'benchmark.html'}")
    print_result(*comparison.tables(), value=comparison.to_json())
