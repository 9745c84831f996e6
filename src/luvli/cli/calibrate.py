"""`luvli calibrate`: confidence, guaranteed regions and triage, fitted on labelled faces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from typer import Argument, Option

from luvli.cli.options import CHANGES, SKIP_BAD
from luvli.cli.output import face_progress, print_paths, print_result, say
from luvli.errors import InputError, require
from luvli.files import folder_lock

if TYPE_CHECKING:
    from luvli.data.record import FaceRecord


def calibrate(
    model: str = Argument(help="A shipped model's name, or a .onnx or .safetensors file."),
    out: Path = Option(help="The calibrated model to write: .onnx or .safetensors."),
    data: tuple[str, Path] | None = Option(
        None,
        metavar="NAME PATH",
        help="Data set of faces that the model was not trained on, or a part such as "
        "merl_rav/test, and its folder.",
    ),
    recipe: Path | None = Option(None, help="Recipe of the model: its held-out faces are used."),
    change: list[str] = CHANGES,
    closed_eyes: Path | None = Option(
        None, help="Folder of faces with shut eyes, for face.eyes_closed."
    ),
    success: float = Option(5.0, help="Mean error of a success is below it, % of the box."),
    skip_bad: bool = SKIP_BAD,
) -> None:
    """Calibrate a model on your own labelled faces, and keep the result in a model of its own.

    Each face is predicted as it is and corrupted (wrong box, rotated, blurred, no face ...).
    This fits the covariances and the error distribution, visibility, confidence, the radii of
    guaranteed regions, triage, the error bars of measures, and a test for shifted input. At the
    end the command says which guarantees need more faces.

    Example: `luvli calibrate luvli-68 --data folder my/faces --out mine.onnx`
    """
    from luvli.calibration.calibrate import calibrate_model, check_possible

    if not data and recipe is None:
        raise InputError("no faces to calibrate on: give --data NAME PATH, or --recipe.")
    about: list[str] = []
    with folder_lock(f"{out}.lock"):
        check_possible(out)  # before faces are detected
        records, training = ([], []) if recipe is None else _from_recipe(recipe, change, about)
        if data:
            records += _from_set(*data, skip_bad, about)
        shut = [] if closed_eyes is None else _from_set("closed_eyes", closed_eyes, skip_bad, about)
        fitted = calibrate_model(
            model, records, out, training=training, closed_eyes=shut, success=success,
            data=about, progress=face_progress("faces"),
        )  # fmt: skip
    print_result(*fitted.tables)
    for line in fitted.advice:
        say(f"more faces needed: {line}")
    print_paths([out])


def _from_recipe(
    path: Path, changes: list[str], about: list[str]
) -> tuple[list[FaceRecord], list[FaceRecord]]:
    """Held-out and training faces of every source of photographs."""
    require("torch", "train")
    from luvli.training.recipe_files import read_recipe
    from luvli.training.sources import load_source

    recipe = read_recipe(path, changes)
    parts = {
        name: load_source(name, source, recipe.data, recipe.network)
        for name, source in recipe.data.sources.items()
        if source.synthetic is None
    }
    about += [f"{len(part.held_out):,} held-out faces of {name}" for name, part in parts.items()]
    held_out = [face for part in parts.values() for face in part.held_out]
    return held_out, [face for part in parts.values() for face in part.train]


def _from_set(name: str, folder: Path, skip_bad: bool, about: list[str]) -> list[FaceRecord]:
    from luvli.data.cache import cache_root
    from luvli.data.detector_boxes import with_detector_boxes
    from luvli.data.sets import load_set

    records = load_set(name, folder, skip_bad=skip_bad).records
    about.append(f"{len(records):,} faces of {name}")
    return list(with_detector_boxes(records, cache_root()))
