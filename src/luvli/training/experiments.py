"""A folder of recipes as one experiment: run them all, measure them alike, compare them.

    run_experiments(Path("recipes/mini/ablation"), Path("runs/ablation"), ["data.root=DATA"])
    print(compare_rows(Path("runs/ablation"), reference="luvli").text())

Every recipe of the folder (but `base.yaml`) is a row with a run of its own in `OUT/NAME`; with
several seeds, those after the first are in `OUT/NAME/seed-N`. A recipe whose `init` is the name of
another one starts from that one's model of the same seed. Rows that are finished are not run again,
one that was stopped goes on; so the same call resumes everything. All rows are measured on the
faces that their sources hold out, the same for all of them and for all seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.errors import InputError, check_range
from luvli.evaluation.bootstrap import PairedDifference, bootstrap, paired_bootstrap
from luvli.evaluation.metrics import Columns, metric_values
from luvli.evaluation.table import Table, interval, number
from luvli.files import folder_lock, whole_file
from luvli.network import load_model
from luvli.network.inference import CropPredictor
from luvli.training.callbacks import Divergence
from luvli.training.loop import train
from luvli.training.recipe import Recipe
from luvli.training.recipe_files import make_recipe, missing_part, parse_override, read_recipe
from luvli.training.run import MODEL, RunOptions
from luvli.training.sources import load_source
from luvli.training.stages import validation_crops
from luvli.training.validate import predict_dataset

HELD_OUT = "held_out_faces.npz"

MEASURED = {
    "nme_box": "nme_box",
    "nme_vis_box": "nme_vis_box",
    "nll": "nll",
    "hidden": "accuracy_by_class.self_occluded",
    "visible": "accuracy_by_class.visible",
}
"""what is written down about each held-out face -> the metric of the registry"""
ALSO_SHOWN = (
    ("NME_vis, eq. 20 (%)", "nme_vis_box", 2),
    ("NLL", "nll", 3),
    ("hidden found", "hidden", 3),
    ("visible kept", "visible", 3),
)
"""columns of the table beside NME_box: heading, what is measured, digits"""
HeldOutErrors = dict[str, NDArray[Any]]
"""`MEASURED` of each of n held-out faces (n,), NaN where there is nothing to measure; `face` (its
source and name) and `source`; `about`, of the recipe"""


def read_experiments(
    folder: Path, overrides: Sequence[str] = (), only: Sequence[str] = ()
) -> dict[str, Recipe]:
    """The recipes of a folder by name, each after the one that it starts from.

    An override of a stage or source concerns the recipes that have it; one that no recipe has is
    refused. With `only`, those recipes alone.
    """
    paths = {path.stem: path for path in sorted(folder.glob("*.yaml")) if path.name != "base.yaml"}
    if not paths:
        raise InputError(f"{folder} holds no recipes: give a folder of .yaml files.")
    for name in only:
        if name not in paths:
            raise InputError(f"{folder} has no recipe {name!r}: it has {', '.join(paths)}.")
    chosen = {name: paths[name] for name in only or paths}
    wanted = {name: list[str]() for name in chosen}
    plain = {name: read_recipe(path).model_dump() for name, path in chosen.items()}
    for override in overrides:
        keys, value = parse_override(override)
        problems = {name: missing_part(keys, value, plain[name]) for name in chosen}
        fitting = [name for name, problem in problems.items() if problem is None]
        if not fitting:
            raise next(filter(None, problems.values()))
        for name in fitting:
            wanted[name].append(override)
    recipes = {name: read_recipe(path, wanted[name]) for name, path in chosen.items()}
    starts = {name: {recipe.init} & set(recipes) for name, recipe in recipes.items()}
    try:
        return {str(name): recipes[str(name)] for name in TopologicalSorter(starts).static_order()}
    except CycleError as error:
        names = ", ".join(sorted(error.args[1][1:]))
        raise InputError(f"the recipes {names} start from each other: break the circle.") from error


def run_experiments(
    folder: Path,
    out: Path,
    overrides: Sequence[str] = (),
    options: RunOptions | None = None,
    only: Sequence[str] = (),
    seeds: int = 1,
    say: Callable[[str], None] = print,
) -> None:
    """Train and measure every row that is not finished, with `seeds` seeds each; `only` names
    those that are wanted. A row that diverges is said aloud, and the next one begins."""
    check_range("--seeds", seeds, 1)
    recipes = read_experiments(folder, overrides, only)
    options = replace(options or RunOptions(), resume=True)
    with folder_lock(out):
        for number, (name, recipe) in enumerate(recipes.items(), 1):
            say(f"{name} ({number} of {len(recipes)}): {recipe.about}")
            for seed in range(recipe.seed, recipe.seed + seeds):
                below = f"seed-{seed}" if seed > recipe.seed else ""
                changes: dict[str, object] = {"seed": seed}
                if (folder / f"{recipe.init}.yaml").is_file():
                    changes["init"] = str(out / str(recipe.init) / below / MODEL)
                try:
                    _run_row(recipe.model_copy(update=changes), out / name / below, options)
                except Divergence as error:
                    say(f"{out / name / below}: {error}")


def _run_row(recipe: Recipe, place: Path, options: RunOptions) -> None:
    model = place / MODEL
    if not model.is_file():
        train(recipe, place, options)
    if make_recipe(load_model(model)[1].get("recipe"), str(model)) != recipe:
        raise InputError(
            f"{place} was trained with another recipe or other settings: choose another --out."
        )
    if not (place / HELD_OUT).is_file():
        errors = held_out_errors(recipe, model)
        with whole_file(place / HELD_OUT) as temporary, temporary.open("wb") as stream:
            np.savez(stream, about=np.array(recipe.about), **errors)  # type: ignore[arg-type]


def held_out_errors(recipe: Recipe, model: Path) -> HeldOutErrors:
    """Run a model over the faces that the recipe's sources hold out."""
    predictor = CropPredictor.load(model)
    faces = {
        name: load_source(name, source, recipe.data, recipe.network)
        for name, source in recipe.data.sources.items()
    }
    parts: list[HeldOutErrors] = []
    for name, crops in validation_crops(recipe, predictor.info.config.input_size, faces).items():
        names = [f"{name}/{record.face_id}" for record in crops.records]
        part = {"face": np.array(names), "source": np.full(len(names), name)}
        labelled = predict_dataset(predictor, crops).labelled
        known = metric_values(labelled, {path.split(".")[0] for path in MEASURED.values()})[0]
        for key, path in MEASURED.items():
            value = known.get(path)
            part[key] = (
                value.of_faces if isinstance(value, Columns) else np.full(len(names), np.nan)
            )
        parts.append(part)
    if not parts:
        raise InputError("no source holds out faces to compare rows on: set hold_out to 0.1.")
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def finished_rows(out: Path) -> dict[str, list[HeldOutErrors]]:
    """The finished rows of a folder of runs, one entry for each seed."""
    rows: dict[str, list[HeldOutErrors]] = {}
    for path in sorted([*out.glob(f"*/{HELD_OUT}"), *out.glob(f"*/seed-*/{HELD_OUT}")]):
        with np.load(path) as arrays:
            rows.setdefault(path.relative_to(out).parts[0], []).append(dict(arrays))
    return rows


def over_seeds(seeds: Sequence[HeldOutErrors]) -> HeldOutErrors:
    """What each face gets on average over the seeds of a row."""
    means = {key: np.mean([seed[key] for seed in seeds], axis=0) for key in MEASURED}
    return seeds[0] | means


def compare_rows(out: Path, reference: str = "luvli") -> Table:
    """The finished rows of a folder of runs: the reference first, then from best to worst.

    Figures are means over the seeds of a row, differences those of NME_box from the reference row,
    over the same faces.
    """
    rows = finished_rows(out)
    if reference not in rows:
        known = ", ".join(rows) or "none"
        raise InputError(f"{out} has no finished row {reference!r} to compare with, but {known}.")
    means = {name: over_seeds(seeds) for name, seeds in rows.items()}
    names = sorted(rows, key=lambda name: (name != reference, np.nanmean(means[name]["nme_box"])))
    sources = list(dict.fromkeys(str(s) for name in names for s in means[name]["source"]))
    cells = []
    for name in names:
        mean, each = means[name], [np.nanmean(seed["nme_box"]) for seed in rows[name]]
        spread = f"{np.std(each, ddof=1):.2f}" if len(each) > 1 else "-"
        change = None if name == reference else row_difference(name, mean, means[reference])
        error = mean["nme_box"]
        row = {
            "row": name,
            "NME_box, eq. 15 (%) [95 %]": interval(bootstrap(error)),
            "seeds: mean ± SD (n)": f"{np.mean(each):.2f} ± {spread} ({len(each)})",
            "difference [95 %]": f"{change[0]:+.2f} [{change[1]:+.2f}, {change[2]:+.2f}]"
            if change
            else "-",
            "p": f"{change.p_value:.3f}" if change else "-",
        }
        row |= {source: _mean(error[mean["source"] == source]) for source in sources}
        row |= {head: _mean(mean[key], digits) for head, key, digits in ALSO_SHOWN}
        cells.append(row | {"the paper (300-W / Menpo)": str(mean["about"])})
    return Table("", list(cells[0]), [list(row.values()) for row in cells])


def row_difference(
    name: str, row: HeldOutErrors, reference: HeldOutErrors
) -> PairedDifference | None:
    """Of a row's NME_box from that of the reference; None for rows on other data."""
    if not np.isin(row["face"], reference["face"]).any():
        return None
    if not np.array_equal(row["face"], reference["face"]):
        raise InputError(f"{name} was measured on other faces than the reference: run it again.")
    return paired_bootstrap(row["nme_box"], reference["nme_box"])


def _mean(values: Floats, digits: int = 2) -> str:
    known = values[np.isfinite(values)]
    return number(known.mean() if len(known) else None, digits)
