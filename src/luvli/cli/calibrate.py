"""`luvli calibrate`: confidence, guaranteed regions and triage, fitted on labelled faces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from luvli.cli.messages import print_paths
from luvli.cli.options import Changes, Limit, SkipBad
from luvli.cli.tables import print_table


def calibrate(
    model: Annotated[
        str, typer.Argument(help="A shipped model's name, or a .onnx or .safetensors file.")
    ],
    out: Annotated[
        Path, typer.Option(help="The calibrated model to write: .onnx or .safetensors.")
    ],
    data: Annotated[
        tuple[str, Path] | None,
        typer.Option(metavar="NAME PATH", help="Data set of faces that the model was not trained "
                     "on, or a part such as merl_rav/test, and its folder."),
    ] = None,
    recipe: Annotated[
        Path | None, typer.Option(help="Recipe of the model: its held-out faces are used.")
    ] = None,
    change: Changes = None,
    closed_eyes: Annotated[
        Path | None,
        typer.Option(help="Folder of faces with shut eyes, without labels, for face.eyes_closed."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the new model; that of the file by default.")
    ] = None,
    success: Annotated[
        float, typer.Option(help="An alignment succeeded below this mean error, % of the box.")
    ] = 5.0,
    limit: Limit = None,
    skip_bad: SkipBad = False,
) -> None:  # fmt: skip
    """Calibrate a model on your own labelled faces, and keep the result in a model of its own.

    Each face is predicted as it is and corrupted (wrong box, turned, blurred, no face ...). Fitted
    are the scale of the covariances and the error distribution, the visibility, the confidence, the
    radii of regions with a guarantee, the triage's counts, the error bars of measures, and what
    detects a shift of the input. Which guarantees need more faces is said at the end.

    Example: `luvli calibrate luvli-68 --data folder my/faces --out mine.onnx`
    """
    from luvli.calibration.calibrate import calibrate_model
    from luvli.calibration.sampling import evenly
    from luvli.errors import InputError, require
    from luvli.files import file_lock
    from luvli.likelihood import density_name
    from luvli.progress import track

    if not data and recipe is None:
        raise InputError("no faces to calibrate on: give --data NAME PATH, or --recipe.")
    for package in ("onnx", "safetensors", "sklearn", "scipy"):
        require(package, "calibrate")  # before faces are detected
    records: list[Any] = []
    training: list[Any] = []
    about: list[str] = []
    if recipe is not None:
        _from_recipe(recipe, change or [], records, training, about)
    if data:
        _from_set(*data, skip_bad, limit, records, about)
    if limit is not None:
        records = evenly(records, limit)
    shut: list[Any] = []
    if closed_eyes is not None:
        _from_set("closed_eyes", closed_eyes, skip_bad, None, shut, about)
    with file_lock(out):
        fitted = calibrate_model(
            model, records, out, training=training, closed_eyes=shut, success=success, name=name,
            data=about, progress=lambda items: track(items, "faces", unit="faces"),
        )  # fmt: skip
    calibration = fitted.calibration
    rows = [
        [
            f"{float(level):.0%}",
            f"{calibration.before[level]:.1%}",
            f"{calibration.after[level]:.1%}",
        ]
        for level in calibration.before
    ]
    distribution = density_name(calibration.likelihood or "laplace")
    title = f"scale of the covariances, {calibration.faces:,} faces; {distribution}"
    print_table(["should hold", "uncalibrated", "calibrated"], rows, title=title)
    for title, heads, rows in fitted.tables:
        print_table(heads, rows, title=title)
    for line in fitted.advice:
        typer.echo(f"more faces needed: {line}")
    print_paths([out])


def _from_recipe(
    path: Path, changes: list[str], records: list[Any], training: list[Any], about: list[str]
) -> None:
    """Held-out and training faces of every source of photographs."""
    from luvli.errors import require

    require("torch", "train")
    from luvli.training.recipe_files import read_recipe
    from luvli.training.sources import load_source

    chosen = read_recipe(path, changes)
    for name, source in chosen.data.sources.items():
        if source.synthetic is not None:
            continue
        faces = load_source(name, source, chosen.data, chosen.network)
        records += faces.held_out
        training += faces.train
        about.append(f"{len(faces.held_out):,} held-out faces of {name}")


def _from_set(
    name: str,
    folder: Path,
    skip_bad: bool,
    limit: int | None,
    records: list[Any],
    about: list[str],
) -> None:
    from luvli.calibration.sampling import evenly
    from luvli.data.cache import cache_root
    from luvli.data.detector_boxes import with_detector_boxes
    from luvli.data.sets import load_set

    found = load_set(name, folder, skip_bad=skip_bad)
    chosen = found.records if limit is None else evenly(found.records, limit)
    boxed = with_detector_boxes(chosen, cache_root())
    records += boxed
    about.append(f"{len(boxed):,} faces of {name}")
