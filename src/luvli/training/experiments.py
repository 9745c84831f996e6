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
from typing import Any, NamedTuple

import numpy as np

from luvli.arrays import Floats
from luvli.errors import InputError, check_range
from luvli.evaluation.bootstrap import PairedDifference, bootstrap, paired_bootstrap
from luvli.evaluation.evaluate_model import predict_records
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.labelled_parquet import write_predictions
from luvli.evaluation.match import read_faces
from luvli.evaluation.metrics import metric_values
from luvli.evaluation.table import Table, interval, number
from luvli.files import folder_lock
from luvli.network import load_model
from luvli.prediction.predictor import load
from luvli.training.callbacks import Divergence
from luvli.training.loop import train
from luvli.training.recipe import Recipe
from luvli.training.recipe_files import make_recipe, missing_part, parse_override, read_recipe
from luvli.training.run import MODEL, RunOptions
from luvli.training.sources import load_source

HELD_OUT = "held_out.parquet"
"""predictions and labels of the held-out faces, which `luvli score` reads too"""
ALSO_SHOWN = (
    ("NME_vis, eq. 20 (%)", "nme_vis_box", 2),
    ("NLL", "nll", 3),
    ("hidden found", "accuracy_by_class.self_occluded", 3),
    ("visible kept", "accuracy_by_class.visible", 3),
)
"""columns of the table beside NME_box: heading, metric of the registry, digits"""


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
        write_predictions(place / HELD_OUT, held_out_faces(recipe, model))


def held_out_faces(recipe: Recipe, model: Path) -> LabelledFaces:
    """What a model predicts for the faces that the recipe's sources hold out. The recipe's `about`
    is their note, each source a subset."""
    records = [
        face.with_changes(
            face_id=f"{name}/{face.face_id}",
            attributes={**face.attributes, "subsets": [name]},
        )
        for name, source in recipe.data.sources.items()
        for face in load_source(name, source, recipe.data, recipe.network).held_out
    ]
    if not records:
        raise InputError("no source holds out faces to compare rows on: set hold_out to 0.1.")
    lenient = any(source.skip_bad for source in recipe.data.sources.values())
    faces = predict_records(load(model), records, skip_bad=lenient)
    return replace(faces, label_boxes=None, notes=(recipe.about,))  # tight boxes normalise


class ExperimentRow(NamedTuple):
    """A finished row: its faces, as the model of its first seed predicts them, and the metrics of
    each seed by their names in the registry."""

    faces: LabelledFaces
    seeds: list[dict[str, Any]]

    @property
    def errors(self) -> Floats:
        """(n,) NME_box of each face, on average over the seeds."""
        return np.asarray(np.mean([seed["nme_box"].of_faces for seed in self.seeds], axis=0))


def finished_rows(out: Path) -> dict[str, ExperimentRow]:
    """The finished rows of a folder of runs."""
    wanted = ("nme_box", *(path.partition(".")[0] for _, path, _ in ALSO_SHOWN))
    rows: dict[str, ExperimentRow] = {}
    for path in sorted([*out.glob(f"*/{HELD_OUT}"), *out.glob(f"*/seed-*/{HELD_OUT}")]):
        faces = read_faces(path)
        row = rows.setdefault(path.relative_to(out).parts[0], ExperimentRow(faces, []))
        row.seeds.append(metric_values(faces, wanted)[0])
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
    names = sorted(rows, key=lambda name: (name != reference, np.nanmean(rows[name].errors)))
    sources = list(dict.fromkeys(source for name in names for source in rows[name].faces.subsets))
    cells = [row_cells(name, rows[name], rows[reference], sources) for name in names]
    return Table("", list(cells[0]), [list(row.values()) for row in cells])


def row_cells(
    name: str, row: ExperimentRow, reference: ExperimentRow, sources: Sequence[str]
) -> dict[str, str]:
    """What the table says about a row, by column."""
    each, subsets = [float(seed["nme_box"]) for seed in row.seeds], row.faces.subsets
    spread = f"{np.std(each, ddof=1):.2f}" if len(each) > 1 else "-"
    change = None if row is reference else row_difference(name, row, reference)
    difference = f"{change[0]:+.2f} [{change[1]:+.2f}, {change[2]:+.2f}]" if change else "-"
    cells = {
        "row": name,
        "NME_box, eq. 15 (%) [95 %]": interval(bootstrap(row.errors)),
        "seeds: mean ± SD (n)": f"{np.mean(each):.2f} ± {spread} ({len(each)})",
        "difference [95 %]": difference,
        "p": f"{change.p_value:.3f}" if change else "-",
    }
    for source in sources:
        cells[source] = _mean(row.errors[subsets[source]] if source in subsets else [], 2)
    for heading, path, digits in ALSO_SHOWN:
        cells[heading] = _mean([float(seed[path]) for seed in row.seeds if path in seed], digits)
    return cells | {"the paper (300-W / Menpo)": " ".join(row.faces.notes)}


def row_difference(
    name: str, row: ExperimentRow, reference: ExperimentRow
) -> PairedDifference | None:
    """Of a row's NME_box from that of the reference; None for rows on other data."""
    if not set(row.faces.names) & set(reference.faces.names):
        return None
    if row.faces.names != reference.faces.names:
        raise InputError(f"{name} was measured on other faces than the reference: run it again.")
    return paired_bootstrap(row.errors, reference.errors)


def _mean(values: Floats | list[float], digits: int) -> str:
    known = np.asarray(values)[np.isfinite(values)]
    return number(known.mean() if len(known) else None, digits)
