"""A folder of recipes as one experiment: run them all, measure them alike, compare them.

    run_experiments(Path("recipes/mini/ablation"), Path("runs/ablation"), ["data.root=DATA"])
    rows = experiment_rows(Path("runs/ablation"), reference="luvli")

Every recipe of the folder (but `base.yaml`) is a row with a run of its own in `OUT/NAME`; with
several seeds, those after the first are in `OUT/NAME/seed-N`. A recipe whose `init` is the name of
another one starts from that one's model of the same seed. Rows that are finished are not run again,
one that was stopped goes on; so the same call resumes everything. All rows are measured on the
faces that their sources hold out, the same for all of them and for all seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.data.record import Visibility
from luvli.errors import InputError, check_range
from luvli.evaluation.accuracy import nme, normalizers
from luvli.evaluation.bootstrap import Interval, PairedDifference, bootstrap, paired_bootstrap
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

HELD_OUT = "held_out.npz"
DIVERGED = "diverged.txt"
BASE = "base.yaml"


HeldOutErrors = dict[str, NDArray[Any]]
"""what a run gets on each of n held-out faces, NaN where there is nothing to measure: (n,) each

- `face` (source and name), `source`
- `nme_box`: percent of the box, over visible landmarks
- `nll`: mean nats of the visible landmarks, in units of the box
- `hidden`, `seen`: shares of the self-occluded (visible) landmarks that were called so
"""


@dataclass(frozen=True)
class ExperimentRow:
    """One row of the table; figures are means over its seeds."""

    name: str
    about: str = ""
    """what the recipe says of it: the paper's figure"""
    seeds: tuple[float, ...] = ()
    """NME_box of each seed; none if all diverged"""
    nme_box: Interval | None = None
    difference: PairedDifference | None = None
    """of NME_box from the reference row, over the same faces; None for the reference itself"""
    by_source: dict[str, float] = field(default_factory=dict)
    """NME_box of each source's faces"""
    nll: float = np.nan
    hidden: float = np.nan
    seen: float = np.nan


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
    recipes = {name: read_recipe(path, wanted[name]) for name, path in paths.items()}
    order: list[str] = []
    for name in recipes:
        _append_after_init(name, recipes, order, ())
    return {name: recipes[name] for name in order if not only or name in only}


def _append_after_init(
    name: str, recipes: dict[str, Recipe], order: list[str], above: tuple[str, ...]
) -> None:
    if name in above:
        raise InputError(f"the recipes {', '.join(above)} start from each other: break the circle.")
    start = recipes[name].init
    if start in recipes:
        _append_after_init(start, recipes, order, (*above, name))
    if name not in order:
        order.append(name)


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
                place = _run_place(out, name, recipe.seed, turn)
                changes: dict[str, object] = {"seed": recipe.seed + turn}
                if recipe.init in recipes or (folder / f"{recipe.init}.yaml").is_file():
                    start = _run_place(out, str(recipe.init), recipe.seed, turn)
                    changes["init"] = str(start / MODEL)
                _run_row(recipe.model_copy(update=changes), place, options, say)


def _run_place(out: Path, name: str, seed: int, turn: int) -> Path:
    return out / name / f"seed-{seed + turn}" if turn else out / name


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
                "nme_box": nme(points, truth, "box", visible, "visible"),
                "nll": _mean_where(nll, visible & config.covariance_trained),
                "hidden": _mean_where(~called, hidden & config.visibility_trained),
                "seen": _mean_where(called, visible & config.visibility_trained),
            }
        )
    if not parts:
        raise InputError("no source holds out faces to compare rows on: set hold_out to 0.1.")
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def _mean_where(values: NDArray[Any], chosen: NDArray[np.bool_]) -> Floats:
    """(n,) means of each face's chosen landmarks (n, k); NaN where there are none."""
    means = np.ma.masked_array(values.astype(np.float64), ~chosen).mean(axis=1)
    return np.asarray(np.ma.filled(means, np.nan))


def experiment_rows(out: Path, reference: str = "luvli") -> list[ExperimentRow]:
    """The finished rows of a folder of runs: the reference first, then from best to worst."""
    runs: dict[str, list[HeldOutErrors]] = {}
    for path in sorted([*out.glob(f"*/{HELD_OUT}"), *out.glob(f"*/seed-*/{HELD_OUT}")]):
        with np.load(path) as arrays:
            runs.setdefault(path.relative_to(out).parts[0], []).append(dict(arrays))
    if reference not in runs:
        known = ", ".join(runs) or "none"
        raise InputError(f"{out} has no finished row {reference!r} to compare with, but {known}.")
    base = runs[reference][0]["face"], _mean_of(runs[reference], "nme_box")
    rows = [_row(name, seeds, *base, name == reference) for name, seeds in runs.items()]
    rows.sort(key=lambda row: (row.name != reference, np.mean(row.seeds)))
    diverged = [*out.glob(f"*/{DIVERGED}"), *out.glob(f"*/seed-*/{DIVERGED}")]
    names = {path.relative_to(out).parts[0] for path in diverged}
    return rows + [ExperimentRow(name) for name in sorted(names - set(runs))]


def _row(
    name: str,
    seeds: Sequence[HeldOutErrors],
    faces: NDArray[np.str_],
    base: Floats,
    is_reference: bool,
) -> ExperimentRow:
    """A row and its difference from NME_box `base` of the reference row on its `faces`."""
    errors, first = _mean_of(seeds, "nme_box"), seeds[0]
    same = np.array_equal(first["face"], faces)
    if not same and np.isin(first["face"], faces).any():
        raise InputError(f"{name} was measured on other faces than the reference: run it again.")
    sources = [str(source) for source in np.unique(first["source"])]
    return ExperimentRow(
        name,
        str(first["about"]),
        tuple(_mean(seed["nme_box"]) for seed in seeds),
        bootstrap(errors),
        # an experiment on another data set is a row of its own: nothing to pair
        paired_bootstrap(errors, base) if same and not is_reference else None,
        {source: _mean(errors[first["source"] == source]) for source in sources},
        *(_mean(_mean_of(seeds, key)) for key in ("nll", "hidden", "seen")),
    )


def _mean_of(seeds: Sequence[HeldOutErrors], key: str) -> Floats:
    """(n,) the mean over seeds of what each face gets."""
    return np.asarray(np.mean([seed[key] for seed in seeds], axis=0))


def _mean(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def table_cells(rows: Sequence[ExperimentRow]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells, for people."""
    sources = list(dict.fromkeys(source for row in rows for source in row.by_source))
    head = ["row", "NME_box (%) [95 %]", "seeds: mean ± SD (n)", "difference [95 %]", "p"]
    head += [*sources, "NLL", "hidden found", "visible kept", "the paper (300-W / Menpo)"]
    cells = []
    for row in rows:
        if row.nme_box is None:
            cells.append([row.name, "diverged", *["-"] * (len(head) - 2)])
            continue
        interval = f"{row.nme_box.value:.2f} [{row.nme_box.low:.2f}, {row.nme_box.high:.2f}]"
        spread = f"{np.std(row.seeds, ddof=1):.2f}" if len(row.seeds) > 1 else "-"
        seeds = f"{np.mean(row.seeds):.2f} ± {spread} ({len(row.seeds)})"
        change, chance = "-", "-"
        if row.difference is not None:
            value, low, high, p, _ = row.difference
            change, chance = f"{value:+.2f} [{low:+.2f}, {high:+.2f}]", f"{p:.3f}"
        numbers = [_number(row.by_source.get(source, np.nan), 2) for source in sources]
        numbers += [_number(value, 3) for value in (row.nll, row.hidden, row.seen)]
        cells.append([row.name, interval, seeds, change, chance, *numbers, row.about])
    return head, cells


def _number(value: float, digits: int) -> str:
    return "-" if np.isnan(value) else f"{value:.{digits}f}"


def table_markdown(rows: Sequence[ExperimentRow]) -> str:
    """The table for a page."""
    return Table("", *table_cells(rows)).markdown() + "\n"
