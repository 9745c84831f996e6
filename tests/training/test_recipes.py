"""Every recipe that is checked in, against supplement A1 of the paper and Table 10."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from luvli.network import build
from luvli.training.optimizer import lr_factor
from luvli.training.recipe import AdamW, Recipe, RMSprop, Stage
from luvli.training.recipe_files import make_recipe, read_recipe, write_recipe

FOLDER = Path(__file__).resolve().parents[2] / "recipes"
ALL = sorted(path for path in FOLDER.rglob("*.yaml") if path.name != "base.yaml")
PAPER = [path for path in ALL if "paper" in path.parts]
NAMES = [str(path.relative_to(FOLDER).with_suffix("")) for path in ALL]


def rates(stage: Stage) -> list[float]:
    return [
        stage.optimizer.lr * lr_factor(stage.schedule, epoch, stage.epochs)
        for epoch in range(stage.epochs)
    ]


def paper(name: str) -> Recipe:
    return read_recipe(FOLDER / "paper" / f"{name}.yaml")


FROM_SCRATCH = [2.5e-4] * 30 + [5e-5] * 30 + [2.5e-5] * 30 + [1.25e-5] * 10
"""2.5e-4, divided by 5, 2 and 2 at epochs 30, 60 and 90"""
FINE_TUNING = [1e-4] * 20 + [2e-5] * 30


@pytest.mark.parametrize("path", ALL, ids=NAMES)
def test_recipes_are_valid_and_survive_yaml(path: Path) -> None:
    import yaml

    recipe = read_recipe(path)
    assert make_recipe(yaml.safe_load(write_recipe(recipe)), "the copy") == recipe
    # and name no place of a machine
    places = [recipe.data.root, recipe.init or "", recipe.data.cache or ""]
    places += [source.path for source in recipe.data.sources.values()]
    assert not any(Path(place).is_absolute() for place in places)
    with torch.device("meta"):
        for stage in recipe.stages.values():
            build(recipe.stage_network(stage))


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_learning_rates_of_every_epoch_are_the_supplements(path: Path) -> None:
    recipe = read_recipe(path)
    for name, stage in recipe.stages.items():
        scratch = name == "heatmap" or recipe.name == "ablation-scratch"
        assert rates(stage) == pytest.approx(FROM_SCRATCH if scratch else FINE_TUNING, rel=1e-12)
        assert isinstance(stage.optimizer, RMSprop)
        assert (stage.optimizer.alpha, stage.optimizer.eps) == (0.99, 1e-8)
        assert stage.batch_size == 24
        assert stage.ema is None and stage.clip_grad_norm is None


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_augmentation_is_recipe_a_for_split_1_and_b_elsewhere(path: Path) -> None:
    recipe = read_recipe(path)
    for stage in recipe.stages.values():
        split1 = all(
            recipe.data.sources[name].protocol == "split1" for name in recipe.sources_of(stage)
        )
        expected = ((0.75, 1.25), (-30, 30), False) if split1 else ((0.8, 1.2), (-50, 50), True)
        chosen = stage.augmentation
        assert (chosen.scale, chosen.rotation, chosen.rectangle is not None) == expected
        assert chosen.colour == (0.6, 1.4)
        assert chosen.flip == 0


def test_every_experiment_has_its_two_stages() -> None:
    for name in ("300w-split1", "300w-split2", "aflw19", "wflw", "merl-rav"):
        assert [stage.loss for stage in paper(name).stages.values()] == ["heatmap", "luvli"]
    assert list(paper("300w-lp").stages) == ["heatmap"]
    for name in ("300w-split1-lp", "300w-split2-lp"):
        assert list(paper(name).stages) == ["luvli"]
        assert paper(name).init == "runs/300w-lp/model.safetensors"


@pytest.mark.parametrize(
    ("name", "landmarks", "markup"),
    [("aflw19", 19, "aflw19"), ("wflw", 98, "wflw98"), ("merl-rav", 68, "ibug68")],
)
def test_networks_are_the_papers(name: str, landmarks: int, markup: str) -> None:
    network = paper(name).network
    assert (network.unets, network.channels, network.growth, network.input_size) == (
        8,
        128,
        32,
        256,
    )
    assert (network.landmarks, network.markup) == (landmarks, markup)


def test_each_ablation_changes_what_its_row_says_and_nothing_else() -> None:
    from luvli.training.recipe_files import changed_settings

    best = paper("300w-split2-lp")
    expected = {
        "last-unet": {"stages.luvli.supervise"},
        "mse": {"stages.luvli.loss", "stages.luvli.use_visibility"},
        "gauss-no-visibility": {"network.likelihood", "stages.luvli.use_visibility"},
        "gauss": {"network.likelihood"},
        "laplace-no-visibility": {"stages.luvli.use_visibility"},
        "direct": {"network.mean_estimator"},
        "softmax": {"network.mean_estimator"},
        "tau-softmax": {"network.mean_estimator"},
    }
    for name, changed in expected.items():
        row = paper(f"ablation/{name}")
        keys = {key for key, _, _ in changed_settings(best.model_dump(), row.model_dump())}
        assert keys - {"name", "about"} == changed, name
    assert paper("ablation/init-300w").stages == paper("300w-split2").stages
    assert paper("ablation/scratch").init is None
    assert paper("ablation/four-unets").network.unets == 4


OURS = ("luvli-68-large", "luvli-68", "luvli-68-fast", "luvli-68-open")
RESEARCH = OURS[:3]


@pytest.mark.parametrize("name", OURS)
def test_our_models_are_trained_from_nothing_by_one_recipe(name: str) -> None:
    recipe = read_recipe(FOLDER / f"{name}.yaml")
    assert recipe.name == name and recipe.init is None
    losses = [stage.loss for stage in recipe.stages.values()]
    assert losses[0] == "heatmap" and losses[-1] == "failure" and set(losses[1:-1]) == {"luvli"}
    assert recipe.network.occlusion
    lent = {lender for source in recipe.data.sources for lender in recipe.lenders(source)}
    for source_name, source in recipe.data.sources.items():
        learns = source.set is not None and (source.relabel is None or source_name == "closed")
        assert bool(source.hold_out) >= learns, source_name
        assert source.hold_out or source.synthetic or source_name in lent
    for stage in list(recipe.stages.values())[:-1]:
        assert isinstance(stage.optimizer, AdamW)
        assert stage.schedule.kind == "cosine"
        assert stage.ema and stage.clip_grad_norm
        changes = stage.augmentation
        assert changes.flip == 0.5 and changes.mask and changes.turned.probability
        assert changes.turned_boxes and changes.keep_inside


@pytest.mark.parametrize("name", RESEARCH)
def test_research_models_share_faces_and_name_the_version_of_their_teacher(name: str) -> None:
    """A teacher must not have learnt what its student is measured on, nor the other way round."""
    large, recipe = (read_recipe(FOLDER / f"{each}.yaml") for each in (RESEARCH[0], name))
    assert recipe.data == large.data and "research only" in recipe.licence
    teachers = {stage.teacher for stage in recipe.stages.values()} - {None}
    assert teachers == ({f"{large.name}@{large.version}"} if name == RESEARCH[2] else set())
    for key, stage in recipe.stages.items():
        assert stage.augmentation == large.stages[key].augmentation
        assert stage.mixture == large.stages[key].mixture


def test_the_miniature_changes_what_the_papers_rows_change() -> None:
    from luvli.training.experiments import read_experiments
    from luvli.training.recipe_files import changed_settings

    rows = read_experiments(FOLDER / "mini/ablation")
    names = list(rows)
    assert names.index("heatmap") < names.index("direct")  # what the others start from
    best, base = rows["luvli"], paper("300w-split2-lp")
    same = {"last-unet", "mse", "gauss-no-visibility", "gauss", "laplace-no-visibility"}
    same |= {"direct", "softmax", "tau-softmax"}
    for name in same:
        mine = changed_settings(best.model_dump(), rows[name].model_dump())
        theirs = changed_settings(base.model_dump(), paper(f"ablation/{name}").model_dump())
        words = ("name", "about")
        assert [c for c in mine if c[0] not in words] == [c for c in theirs if c[0] not in words]
    assert rows["half-unets"].network.unets * 2 == best.network.unets
    assert rows["scratch"].init is None
    assert {row.init for name, row in rows.items() if name not in ("scratch", "heatmap")} == {
        "heatmap"
    }
    for row in rows.values():
        assert row.data == best.data  # the same faces, the same held out
        assert [s.hold_out for s in row.data.sources.values()] == [0.1, 0.1]
    scaled = [read_recipe(FOLDER / f"mini/{name}.yaml") for name in ("300w-split1", "merl-rav")]
    for row in [*scaled, rows["heatmap"], best, rows["scratch"]]:
        for name, stage in row.stages.items():
            scratch = name == "heatmap" or row.name == "scratch"
            expected = FROM_SCRATCH if scratch else FINE_TUNING
            assert rates(stage) == pytest.approx(expected, rel=1e-12)


def test_the_documentation_lists_every_experiment() -> None:
    page = (FOLDER.parent / "docs/reproduce.md").read_text(encoding="utf-8")
    assert [path.name for path in PAPER if path.name not in page] == []


def test_recipes_in_the_documentation_are_valid(tmp_path: Path) -> None:
    pages = ("train-your-own.md", "howto/training-options.md")
    page = "".join((FOLDER.parent / "docs" / name).read_text(encoding="utf-8") for name in pages)
    blocks = [block for block in page.split("```") if block.startswith("yaml\nextends:")]
    assert blocks
    for block in blocks:
        text = block.removeprefix("yaml\n").replace("extends: ", f"extends: {FOLDER}/")
        (tmp_path / "recipe.yaml").write_text(text)
        read_recipe(tmp_path / "recipe.yaml")


def test_rows_of_the_data_ablation_differ_in_their_mixture_alone() -> None:
    from luvli.training.experiments import read_experiments

    rows = read_experiments(FOLDER / "models/ablation", ())
    best = rows["all"]
    for name, row in rows.items():
        assert row.data == best.data  # held-out faces of the left-out source are measured, too
        for key, stage in row.stages.items():
            left_out = set(best.stages[key].mixture or ()) - set(stage.mixture or ())
            assert left_out <= {name.removeprefix("without-")}
            changed = stage.model_copy(update={"mixture": None})
            assert changed == best.stages[key].model_copy(update={"mixture": None})
    assert set(rows) == {"all", "without-cfp", "without-scut", "without-turned"}
    research = read_recipe(FOLDER / "luvli-68.yaml")
    assert best.stages["luvli"].mixture == research.stages["luvli"].mixture
