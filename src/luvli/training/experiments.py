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
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.data.record import Visibility
from luvli.errors import InputError, check_range
from luvli.evaluation.accuracy import nme, normalizers
from luvli.evaluation.bootstrap import PairedDifference, bootstrap, paired_bootstrap
from luvli.evaluation.table import Table
from luvli.evaluation.uncertainty import negative_log_likelihood
from luvli.evaluation.visibility import is_called_visible
from luvli.files import folder_lock, whole_file, write_text
from luvli.network import load_model
from luvli.network.inference import CropPredictor
from luvli.training.callbacks import Divergence
from luvli.training.distributed import RunOptions
from luvli.training.loop import train
from luvli.training.recipe import Recipe
from luvli.training.recipe_files import make_recipe, missing_part, parse_override, read_recipe
from luvli.training.run import MODEL
from luvli.training.sources import load_source
from luvli.training.stage_data import validation_crops
from luvli.training.validate import predict_dataset

HELD_OUT = "held_out_faces.npz"
DIVERGED = "diverged.txt"
BASE = "base.yaml"

HeldOutErrors = dict[str, NDArray[Any]]
"""what a run gets on each of n held-out faces, NaN where there is nothing to measure: (n,) each

- `face` (source and name), `source`
- `nme_box`, `nme_vis_box`: eq. 15 and eq. 20, percent of the box
- `nll`: mean nats of the visible landmarks, in units of the box
- `hidden`, `visible`: shares of the self-occluded (visible) landmarks that were called so
"""


def read_experiments(
    folder: Path, overrides: Sequence[str] = (), only: Sequence[str] = ()
) -> dict[str, Recipe]:
    """The recipes of a folder by name, each after the one that it starts from.

    An override of a stage or source concerns the recipes that have it; one that no recipe has is
    refused. With `only`, those recipes alone.
    """
    paths = {path.stem: path for path in sorted(folder.glob("*.yaml")) if path.name != BASE}
    if not paths:
        raise InputError(f"{folder} holds no recipes: give a folder of .yaml files.")
    for name in only:
        if name not in paths:
            raise InputError(f"{folder} has no recipe {name!r}: it has {', '.join(paths)}.")
    plain = {name: read_recipe(path).model_dump() for name, path in paths.items()}
    wanted = {name: list[str]() for name in paths}
    for override in overrides:
        problems = {name: missing_part(*parse_override(override), plain[name]) for name in paths}
        fitting = [name for name in only or paths if problems[name] is None]
        if not fitting:
            raise next(problem for problem in problems.values() if problem is not None)
        for name in fitting:
            wanted[name].append(override)
    waiting = {name: read_recipe(path, wanted[name]) for name, path in paths.items()}
    recipes: dict[str, Recipe] = {}
    while waiting:
        ready = [name for name, recipe in waiting.items() if recipe.init not in waiting]
        if not ready:
            names = ", ".join(waiting)
            raise InputError(f"the recipes {names} start from each other: break the circle.")
        recipes |= {name: waiting.pop(name) for name in ready}
    return {name: recipe for name, recipe in recipes.items() if not only or name in only}


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
    those that are wanted."""
    check_range("--seeds", seeds, 1)
    recipes = read_experiments(folder, overrides, only)
    options = replace(options or RunOptions(), resume=True)
    with folder_lock(out):
        for number, (name, recipe) in enumerate(recipes.items(), 1):
            say(f"{name} ({number} of {len(recipes)}): {recipe.about}")
            for turn in range(seeds):
                below = f"seed-{recipe.seed + turn}" if turn else ""
                changes: dict[str, object] = {"seed": recipe.seed + turn}
                if (folder / f"{recipe.init}.yaml").is_file():
                    changes["init"] = str(out / str(recipe.init) / below / MODEL)
                _run_row(recipe.model_copy(update=changes), out / name / below, options, say)


def _run_row(recipe: Recipe, place: Path, options: RunOptions, say: Callable[[str], None]) -> None:
    finished = (place / DIVERGED).is_file() or (place / HELD_OUT).is_file()
    try:
        if not finished and not (place / MODEL).is_file():
            train(recipe, place, options)
    except Divergence as error:
        say(f"{place}: {error}")
        write_text(place / DIVERGED, f"{error}\n")
        return
    if (place / MODEL).is_file():
        _, info = load_model(place / MODEL)
        if make_recipe(info.get("recipe"), str(place / MODEL)) != recipe:
            raise InputError(
                f"{place} was trained with another recipe or other settings: choose another --out."
            )
    if finished:
        say(f"{place} is finished")
        return
    errors = held_out_errors(recipe, place / MODEL)
    with whole_file(place / HELD_OUT) as temporary, temporary.open("wb") as stream:
        np.savez(stream, **{"about": np.array(recipe.about), **errors})  # type: ignore[arg-type]


def held_out_errors(recipe: Recipe, model: Path) -> HeldOutErrors:
    """Run a model over the faces that the recipe's sources hold out."""
    predictor = CropPredictor.load(model)
    config = predictor.info.config
    faces = {
        name: load_source(name, source, recipe.data, recipe.network)
        for name, source in recipe.data.sources.items()
    }
    parts: list[HeldOutErrors] = []
    for name, crops in validation_crops(recipe, config.input_size, faces).items():
        labelled = predict_dataset(predictor, crops)
        predicted, truth, visible = labelled.faces, labelled.truth, labelled.classes > 0
        hidden = labelled.classes == Visibility.SELF_OCCLUDED
        called = is_called_visible(predicted.visibility)
        box = normalizers(truth, "box", visible)
        points, covariance, density = predicted.points, predicted.covariance, config.likelihood
        nll = negative_log_likelihood(points, covariance, truth, density, visible, scale=box)
        parts.append(
            {
                "face": np.array([f"{name}/{record.face_id}" for record in crops.records]),
                "source": np.full(len(points), name),
                "nme_box": nme(points, truth, "box", visible),
                "nme_vis_box": nme(points, truth, "box", visible, "visible"),
                "nll": _mean_where(nll, visible & config.covariance_trained),
                "hidden": _mean_where(~called, hidden & config.visibility_trained),
                "visible": _mean_where(called, visible & config.visibility_trained),
            }
        )
    if not parts:
        raise InputError("no source holds out faces to compare rows on: set hold_out to 0.1.")
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def _mean_where(values: NDArray[Any], chosen: NDArray[np.bool_]) -> Floats:
    """(n,) means of each face's chosen landmarks (n, k); NaN where there are none."""
    means = np.ma.masked_array(values.astype(np.float64), ~chosen).mean(axis=1)
    return np.asarray(np.ma.filled(means, np.nan))


def finished_rows(out: Path) -> dict[str, list[HeldOutErrors]]:
    """The finished rows of a folder of runs, one entry for each seed."""
    rows: dict[str, list[HeldOutErrors]] = {}
    for path in sorted([*out.glob(f"*/{HELD_OUT}"), *out.glob(f"*/seed-*/{HELD_OUT}")]):
        with np.load(path) as arrays:
            rows.setdefault(path.relative_to(out).parts[0], []).append(dict(arrays))
    return rows


def compare_rows(out: Path, reference: str = "luvli") -> Table:
    """The finished rows of a folder of runs: the reference first, then from best to worst.

    Figures are means over the seeds of a row, differences those of NME_box from the reference row,
    over the same faces.
    """
    rows = finished_rows(out)
    if reference not in rows:
        known = ", ".join(rows) or "none"
        raise InputError(f"{out} has no finished row {reference!r} to compare with, but {known}.")
    errors = {name: _mean(over_seeds(seeds, "nme_box")) for name, seeds in rows.items()}
    names = sorted(rows, key=lambda name: (name != reference, errors[name]))
    sources = list(dict.fromkeys(str(s) for name in names for s in rows[name][0]["source"]))
    head = ["row", "NME_box, eq. 15 (%) [95 %]", "seeds: mean ± SD (n)", "difference [95 %]", "p"]
    head += [*sources, "NME_vis, eq. 20 (%)", "NLL", "hidden found", "visible kept"]
    head.append("the paper (300-W / Menpo)")
    differences = {name: paired(rows, name, reference) for name in names if name != reference}
    cells = [[name, *_cells(rows[name], differences.get(name), sources)] for name in names]
    diverged = [*out.glob(f"*/{DIVERGED}"), *out.glob(f"*/seed-*/{DIVERGED}")]
    for name in sorted({path.relative_to(out).parts[0] for path in diverged} - set(rows)):
        cells.append([name, "diverged", *["-"] * (len(head) - 2)])
    return Table("", head, cells)


def paired(
    rows: dict[str, list[HeldOutErrors]], name: str, reference: str
) -> PairedDifference | None:
    """The difference of a row's NME_box from that of the reference; None for rows on other data."""
    mine, theirs = rows[name][0]["face"], rows[reference][0]["face"]
    if not np.array_equal(mine, theirs):
        if np.isin(mine, theirs).any():
            raise InputError(
                f"{name} was measured on other faces than the reference: run it again."
            )
        return None
    errors = (over_seeds(rows[row], "nme_box") for row in (name, reference))
    return paired_bootstrap(*errors)


def over_seeds(seeds: Sequence[HeldOutErrors], key: str) -> Floats:
    """(n,) the mean over seeds of what each face gets."""
    return np.asarray(np.mean([seed[key] for seed in seeds], axis=0))


def _cells(
    seeds: Sequence[HeldOutErrors], difference: PairedDifference | None, sources: Sequence[str]
) -> list[str]:
    """A row of the table: NME_box with its interval, its spread over seeds and its difference, that
    of each source, likelihood, visibility, and what the recipe says about itself."""
    errors, source = over_seeds(seeds, "nme_box"), seeds[0]["source"]
    interval, each = bootstrap(errors), [_mean(seed["nme_box"]) for seed in seeds]
    spread = f"{np.std(each, ddof=1):.2f}" if len(each) > 1 else "-"
    change, chance = "-", "-"
    if difference is not None:
        value, low, high, p, _ = difference
        change, chance = f"{value:+.2f} [{low:+.2f}, {high:+.2f}]", f"{p:.3f}"
    return [
        f"{interval.value:.2f} [{interval.low:.2f}, {interval.high:.2f}]",
        f"{np.mean(each):.2f} ± {spread} ({len(each)})",
        change,
        chance,
        *(_number(_mean(errors[source == name]), 2) for name in sources),
        _number(_mean(over_seeds(seeds, "nme_vis_box")), 2),
        *(_number(_mean(over_seeds(seeds, key)), 3) for key in ("nll", "hidden", "visible")),
        str(seeds[0]["about"]),
    ]


def _mean(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _number(value: float, digits: int) -> str:
    return "-" if np.isnan(value) else f"{value:.{digits}f}"
