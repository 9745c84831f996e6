"""A folder of recipes: run in order, resumed, measured on the same faces, compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from luvli.errors import InputError
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.labelled_parquet import write_predictions
from luvli.faces import Faces
from luvli.files import folder_lock
from luvli.markup import get_markup
from luvli.network import load_model
from luvli.training import experiments as running
from luvli.training.callbacks import Divergence
from luvli.training.recipe import Recipe
from luvli.training.recipe_files import write_recipe

MakeRecipe = Callable[..., Recipe]
Command = Callable[..., Result]


def write_rows(
    folder: Path, errors: dict[str, np.ndarray], faces: int = 60, name: str = "mine"
) -> None:
    """Rows whose faces have these errors, in percent of the box."""
    truth = np.tile(100 + 50 * get_markup("ibug68").schematic, (faces, 1, 1))
    size = np.sqrt(np.ptp(truth[0], axis=0).prod())
    first = np.arange(faces) < faces // 2
    for row, nme in errors.items():
        off = np.stack([nme * size / 100, np.zeros(faces)], axis=1)[:, None]
        predicted = Faces(
            points=truth + off,
            covariance=np.tile(np.eye(2), (faces, 68, 1, 1)),
            visibility=np.ones((faces, 68)),
            covariance_trained=False,
            visibility_trained=False,
        )
        labelled = LabelledFaces(
            predicted,
            truth,
            np.ones((faces, 68), np.int8),
            names=tuple(f"{name}/{i}" for i in range(faces)),
            subsets={name: first, "other": ~first},
            notes=(f"paper of {row}",),
        )
        write_predictions(folder / row / running.HELD_OUT, labelled)


def test_differences_are_paired(tmp_path: Path, rng: np.random.Generator) -> None:
    """A small difference on very different faces: certain when paired, lost when not."""
    base = rng.uniform(1, 20, 60)
    worse = base + 0.2 + rng.normal(0, 0.1, 60)
    write_rows(tmp_path, {"luvli": base, "worse": worse, "noise": base + rng.normal(0, 0.1, 60)})
    write_rows(tmp_path, {"apart": rng.uniform(1, 3, 20)}, faces=20, name="theirs")
    table = running.compare_rows(tmp_path)
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert next(iter(rows)) == "luvli" and rows["luvli"]["difference [95 %]"] == "-"
    found = running.finished_rows(tmp_path)
    difference = running.row_difference("worse", found["worse"], found["luvli"])
    assert difference is not None and difference.low > 0.1 and difference.p_value < 0.01
    assert difference.difference == pytest.approx((worse - base).mean())
    same = running.row_difference("noise", found["noise"], found["luvli"])
    assert same is not None and same.low < 0 < same.high
    assert rows["worse"]["other"] == f"{worse[30:].mean():.2f}"
    assert rows["worse"][table.columns[-1]] == "paper of worse"
    # rows on other data stand beside them, without a difference
    assert [rows["apart"][c] == "-" for c in ("mine", "theirs", "p")] == [True, False, True]
    with pytest.raises(InputError, match="no finished row 'best'"):
        running.compare_rows(tmp_path, "best")
    write_rows(tmp_path, {"fewer": base[:10]}, faces=10)
    with pytest.raises(InputError, match="other faces"):
        running.compare_rows(tmp_path)


def test_seeds_give_a_mean_and_a_spread(tmp_path: Path, rng: np.random.Generator) -> None:
    """Differences are of the means over seeds, face by face."""
    base, better = rng.uniform(4, 6, (3, 60)), rng.uniform(3, 5, (2, 60))
    for name, seeds in {"luvli": base, "better": better}.items():
        for number, errors in enumerate(seeds):
            place = (tmp_path / name, f"seed-{number}") if number else (tmp_path, name)
            write_rows(place[0], {place[1]: errors})
    first, second = running.compare_rows(tmp_path).rows
    mean, spread = base.mean(axis=1).mean(), base.mean(axis=1).std(ddof=1)
    assert first[2] == f"{mean:.2f} ± {spread:.2f} (3)"
    paired = better.mean(axis=0) - base.mean(axis=0)
    assert second[3].startswith(f"{paired.mean():+.2f} [")


def test_recipes_that_start_from_each_other(tmp_path: Path) -> None:
    text = "name: x\ndata: {sources: {a: {set: folder}}}\nstages: {%s: {loss: luvli}}\n"
    for name, init, stage in (("a", "b", "one"), ("b", "c", "one"), ("c", "null", "first")):
        (tmp_path / f"{name}.yaml").write_text(f"{text % stage}init: {init}\n")
    (tmp_path / "base.yaml").write_text("nothing: 1\n")
    recipes = running.read_experiments(tmp_path, ["seed=3", "stages.one.epoch_faces=7"])
    assert list(recipes) == ["c", "b", "a"]
    assert {recipe.seed for recipe in recipes.values()} == {3}
    faces = [next(iter(recipe.stages.values())).epoch_faces for recipe in recipes.values()]
    assert faces == [None, 7, 7]  # c has no such stage
    with pytest.raises(InputError, match="unknown stage 'two'"):
        running.read_experiments(tmp_path, ["stages.two.epochs=1"])
    (tmp_path / "c.yaml").write_text(f"{text % 'one'}init: a\n")
    with pytest.raises(InputError, match="start from each other"):
        running.read_experiments(tmp_path)
    with pytest.raises(InputError, match="holds no recipes"):
        running.read_experiments(tmp_path / "nowhere")


@pytest.fixture
def folder(small_recipe: MakeRecipe, tmp_path: Path) -> Path:
    """Heat maps, the whole method, and one without visibility."""
    place = tmp_path / "recipes"
    place.mkdir()
    stage = {"epochs": 1}
    rows = {
        "start": small_recipe(about="a start", stages={"heatmaps": stage, "luvli": None}),
        "luvli": small_recipe(init="start", stages={"heatmaps": None, "luvli": stage}),
        "no-visibility": small_recipe(
            init="start", stages={"heatmaps": None, "luvli": {**stage, "use_visibility": False}}
        ),
    }
    for name, recipe in rows.items():
        (place / f"{name}.yaml").write_text(write_recipe(recipe))
    return place


@pytest.mark.slow
def test_one_command_runs_resumes_and_writes_the_table(
    luvli: Command, folder: Path, faces_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "runs"
    words = ("recipes", "run", folder, "--data", faces_folder, "--out", out)
    first = luvli(*words, "--only", "start")
    assert first.exit_code == 0, first.output
    assert not (out / "luvli").exists() and not (out / "table.md").exists()
    before = (out / "start/model.safetensors").stat().st_mtime_ns
    again = luvli(*words, "--seeds", 2)
    assert again.exit_code == 0, again.output
    assert (out / "start/model.safetensors").stat().st_mtime_ns == before  # not run again
    table = (out / "table.md").read_text()
    assert [line.split("|")[1].strip() for line in table.splitlines()[2:3]] == ["luvli"]
    rows = running.finished_rows(out)
    assert set(rows) == {"luvli", "no-visibility", "start"}
    known = {
        name: {"nll", "accuracy_by_class.self_occluded"} & set(row.seeds[0])
        for name, row in rows.items()
    }
    hidden = {"accuracy_by_class.self_occluded"}
    assert known == {"luvli": {"nll"} | hidden, "no-visibility": {"nll"}, "start": set()}
    assert all(len({float(seed["nme_box"]) for seed in row.seeds}) == 2 for row in rows.values())
    info = load_model(out / "luvli/seed-1/model.safetensors")[1]["recipe"]
    assert info["seed"] == 1 and info["init"] == str(out / "start/seed-1/model.safetensors")
    assert len(rows["luvli"].faces) == 4
    other = luvli(*words, "--set", "seed=1")
    assert other.exit_code == 2 and "another recipe" in other.output
    unknown = luvli(*words, "--only", "nothing")
    assert unknown.exit_code == 2 and "luvli, no-visibility, start" in unknown.output
    with folder_lock(out):
        locked = luvli(*words)
    assert locked.exit_code == 2 and "is being written by another run" in locked.output


def test_a_row_that_diverges_does_not_stop_the_others(
    folder: Path, faces_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    said: list[str] = []

    def diverge(recipe: Recipe, place: Path, options: object) -> Path:
        asked.append(place.name)
        raise Divergence("stage x: the loss has run away")

    monkeypatch.setattr(running, "train", diverge)
    overrides = [f"data.root={faces_folder}"]
    running.run_experiments(folder, tmp_path / "runs", overrides, say=said.append)
    assert asked == ["start", "luvli", "no-visibility"]
    assert sum("run away" in sentence for sentence in said) == 3
