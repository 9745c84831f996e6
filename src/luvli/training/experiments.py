"""A folder of recipes as one experiment: run them all, measure them alike, compare them.

    run_experiments(Path("recipes/mini/ablation"), Path("runs/ablation"), ["data.root=DATA"])
    rows = experiment_rows(Path("runs/ablation"), reference="luvli")

Every recipe of the folder (but `base.yaml`) is a row with a run of its own in `OUT/NAME`. A
recipe whose `init` is the name of another one starts from that one's model. Rows that are
finished are not run again, one that was stopped goes on; so the same call resumes everything.
All rows are measured on the faces that their sources hold out, the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.data.record import Visibility
from luvli.errors import InputError
from luvli.evaluation.accuracy import counted, nme
from luvli.evaluation.bootstrap import PairedDifference, bootstrap, paired_bootstrap
from luvli.evaluation.metric_records import Interval
from luvli.evaluation.tables import markdown_table
from luvli.evaluation.uncertainty import negative_log_likelihood
from luvli.evaluation.visibility import is_called_visible
from luvli.files import whole_file, write_text
from luvli.network import load_model
from luvli.network.inference import CropPredictor
from luvli.training.batch import validation_crops
from luvli.training.distributed import RunOptions
from luvli.training.loop import train
from luvli.training.recipe import Recipe
from luvli.training.recipe_files import read_recipe
from luvli.training.run_log import Divergence
from luvli.training.sources import load_source
from luvli.training.stage_model import MODEL
from luvli.training.validate import predict_dataset

HELD_OUT = "held_out.npz"
DIVERGED = "diverged.txt"
BASE = "base.yaml"


class HeldOutErrors(NamedTuple):
    """What a row gets on each of n held-out faces; NaN where there is nothing to measure."""

    face: NDArray[np.str_]
    """(n,) source and name"""
    source: NDArray[np.str_]
    """(n,)"""
    nme_box: Floats
    """(n,) percent of the box, over visible landmarks"""
    nll: Floats
    """(n,) mean nats of its visible landmarks, in units of the box"""
    hidden: Floats
    """(n,) share of the self-occluded landmarks that were called invisible"""
    seen: Floats
    """(n,) share of the visible landmarks that were called visible"""


@dataclass(frozen=True)
class ExperimentRow:
    """One row of the table."""

    name: str
    about: str
    """what the recipe says of it: the paper's figure"""
    nme_box: Interval | None
    """None: the training ran away"""
    difference: PairedDifference | None
    """of NME_box from the reference row, over the same faces; None for the reference itself"""
    by_source: dict[str, float]
    """NME_box of each source's faces"""
    nll: float
    hidden: float
    seen: float


def read_experiments(
    folder: Path, out: Path, overrides: Sequence[str] = (), only: Sequence[str] = ()
) -> dict[str, Recipe]:
    """The recipes of a folder by name, each after the one that it starts from.

    With `only`, those alone; `overrides` need to fit no others.
    """
    paths = {path.stem: path for path in sorted(folder.glob("*.yaml")) if path.name != BASE}
    if not paths:
        raise InputError(f"{folder} holds no recipes: give a folder of .yaml files.")
    for name in only:
        if name not in paths:
            raise InputError(f"{folder} has no recipe {name!r}: it has {', '.join(paths)}.")
    recipes = {
        name: read_recipe(path, overrides if not only or name in only else ())
        for name, path in paths.items()
    }
    order: list[str] = []
    for name in recipes:
        _put(name, recipes, order, ())
    wanted = {}
    for name in order:
        recipe = recipes[name]
        if recipe.init in recipes:
            recipe = recipe.model_copy(update={"init": str(out / recipe.init / MODEL)})
        if not only or name in only:
            wanted[name] = recipe
    return wanted


def _put(name: str, recipes: dict[str, Recipe], order: list[str], above: tuple[str, ...]) -> None:
    if name in above:
        raise InputError(f"the recipes {', '.join(above)} start from each other: break the circle.")
    start = recipes[name].init
    if start in recipes:
        _put(start, recipes, order, (*above, name))
    if name not in order:
        order.append(name)


def run_experiments(
    folder: Path,
    out: Path,
    overrides: Sequence[str] = (),
    options: RunOptions | None = None,
    only: Sequence[str] = (),
    say: Callable[[str], None] = print,
) -> None:
    """Train and measure every row that is not finished; `only` names those that are wanted."""
    recipes = read_experiments(folder, out, overrides, only)
    options = options or RunOptions()
    resumed = RunOptions(**{**vars(options), "resume": True})
    for number, (name, recipe) in enumerate(recipes.items(), 1):
        place = out / name
        if (place / DIVERGED).is_file() or (place / HELD_OUT).is_file():
            _check_same(recipe, place)
            say(f"{name} ({number} of {len(recipes)}) is finished")
            continue
        say(f"{name} ({number} of {len(recipes)}): {recipe.about}")
        try:
            if not (place / MODEL).is_file():
                train(recipe, place, resumed)
        except Divergence as error:
            say(f"{name}: {error}")
            write_text(place / DIVERGED, f"{error}\n")
            continue
        _check_same(recipe, place)
        errors = held_out_errors(recipe, place / MODEL)
        with whole_file(place / HELD_OUT) as temporary, temporary.open("wb") as stream:
            np.savez(stream, about=np.array(recipe.about), **errors._asdict())


def _check_same(recipe: Recipe, place: Path) -> None:
    if not (place / MODEL).is_file():
        return
    _, info = load_model(place / MODEL)
    if info.get("recipe") != recipe.model_dump(mode="json"):
        raise InputError(
            f"{place} was trained with another recipe or other settings: choose another --out."
        )


def held_out_errors(recipe: Recipe, model: Path) -> HeldOutErrors:
    """Run a model over the faces that the recipe's sources hold out."""
    predictor = CropPredictor.load(model)
    config = predictor.info.config
    stage = list(recipe.stages.values())[-1]
    faces = {
        name: load_source(name, source, recipe.data, recipe.network)
        for name, source in recipe.data.sources.items()
    }
    parts: list[HeldOutErrors] = []
    for name, crops in validation_crops(recipe, config.input_size, faces).items():
        found = predict_dataset(predictor, crops)
        count, visible = len(found.points), found.classes > 0
        nll = hidden = seen = np.full(count, np.nan)
        if stage.loss == "luvli":
            sides = np.sqrt(np.prod(np.ptp(_located(found.truth), axis=1), axis=1))
            nats = negative_log_likelihood(
                found.points,
                found.covariance,
                found.truth,
                config.likelihood,
                visible,
                scale=sides,
            )
            nll = _mean_over(nats, visible)
        if config.visibility_trained:
            called = is_called_visible(found.visibility)
            hidden = _mean_over(~called, found.classes == Visibility.SELF_OCCLUDED)
            seen = _mean_over(called, visible)
        parts.append(
            HeldOutErrors(
                np.array([f"{name}/{record.face_id}" for record in crops.records]),
                np.full(count, name),
                nme(found.points, found.truth, "box", visible, "visible"),
                nll,
                hidden,
                seen,
            )
        )
    if not parts:
        raise InputError("no source holds out faces to compare rows on: set hold_out to 0.1.")
    return HeldOutErrors(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _located(points: Floats) -> Floats:
    """Points (n, k, 2) with NaN moved to the middle of the others, so that extents are finite."""
    middle = np.nanmean(points, axis=1, keepdims=True)
    return np.where(np.isfinite(points), points, middle)


def _mean_over(values: NDArray[np.generic], chosen: NDArray[np.bool_]) -> Floats:
    """(n,) means of each face's chosen landmarks (n, k); NaN where there are none."""
    numbers = np.where(chosen, np.nan_to_num(values.astype(np.float64)), 0.0)
    count = chosen.sum(axis=1)
    return np.where(count > 0, numbers.sum(axis=1) / np.maximum(count, 1), np.nan)


def experiment_rows(out: Path, reference: str = "luvli") -> list[ExperimentRow]:
    """The finished rows of a folder of runs: the reference first, then from best to worst."""
    runs = {path.parent.name: path for path in sorted(out.glob(f"*/{HELD_OUT}"))}
    if reference not in runs:
        known = ", ".join(runs) or "none"
        raise InputError(f"{out} has no finished row {reference!r} to compare with, but {known}.")
    base = _read_errors(runs[reference])[0]
    rows = []
    for name, path in runs.items():
        errors, about = _read_errors(path)
        same = np.array_equal(errors.face, base.face)
        if not same and np.isin(errors.face, base.face).any():
            raise InputError(f"{path} was measured on other faces than {reference}: run it again.")
        # an experiment on another data set is a row of its own: nothing to pair
        pairs = same and name != reference
        paired = paired_bootstrap(errors.nme_box, base.nme_box) if pairs else None
        rows.append(
            ExperimentRow(
                name,
                about,
                bootstrap(errors.nme_box),
                paired,
                {
                    str(source): float(counted(errors.nme_box[errors.source == source]).mean())
                    for source in np.unique(errors.source)
                },
                _known_mean(errors.nll),
                _known_mean(errors.hidden),
                _known_mean(errors.seen),
            )
        )
    rows.sort(key=lambda row: (row.name != reference, row.nme_box.value if row.nme_box else 0.0))
    nan = float("nan")
    for path in sorted(out.glob(f"*/{DIVERGED}")):
        rows.append(ExperimentRow(path.parent.name, "", None, None, {}, nan, nan, nan))
    return rows


def _read_errors(path: Path) -> tuple[HeldOutErrors, str]:
    with np.load(path) as kept:
        errors = HeldOutErrors(*(kept[name] for name in HeldOutErrors._fields))
        return errors, str(kept["about"])


def _known_mean(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def table_cells(rows: Sequence[ExperimentRow]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells, for people."""
    sources = list(dict.fromkeys(source for row in rows for source in row.by_source))
    head = ["row", "NME_box (%) [95 %]", "difference [95 %]", "p", *sources]
    head += ["NLL", "hidden found", "visible kept", "the paper (300-W / Menpo)"]
    cells = []
    for row in rows:
        if row.nme_box is None:
            cells.append([row.name, "ran away", *["-"] * (len(head) - 2)])
            continue
        found = f"{row.nme_box.value:.2f} [{row.nme_box.low:.2f}, {row.nme_box.high:.2f}]"
        change, chance = "-", "-"
        if row.difference is not None:
            value, low, high, p, _ = row.difference
            change, chance = f"{value:+.2f} [{low:+.2f}, {high:+.2f}]", f"{p:.3f}"
        numbers = [_number(value, 3) for value in (row.nll, row.hidden, row.seen)]
        by_source = [_number(row.by_source.get(source, float("nan")), 2) for source in sources]
        cells.append([row.name, found, change, chance, *by_source, *numbers, row.about])
    return head, cells


def _number(value: float, digits: int) -> str:
    return "-" if np.isnan(value) else f"{value:.{digits}f}"


def table_markdown(rows: Sequence[ExperimentRow]) -> str:
    """The table for a page."""
    return markdown_table(*table_cells(rows)) + "\n"
