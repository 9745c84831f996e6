"""Every recipe that is checked in, against supplement A1 of the paper and Table 10."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch
import yaml

from luvli.network import NetworkConfig, build
from luvli.training.experiments import read_experiments
from luvli.training.optimizer import lr_factor
from luvli.training.recipe import AdamW, Recipe, RMSprop, Stage
from luvli.training.recipe_files import changed_settings, make_recipe, read_recipe, write_recipe

FOLDER = Path(__file__).resolve().parents[2] / "recipes"
ALL = sorted(path for path in FOLDER.rglob("*.yaml") if path.name != "base.yaml")
PAPER = [path for path in ALL if "paper" in path.parts]
NAMES = [path.relative_to(FOLDER).as_posix().removesuffix(".yaml") for path in ALL]

FROM_SCRATCH = [2.5e-4] * 30 + [5e-5] * 30 + [2.5e-5] * 30 + [1.25e-5] * 10
"""2.5e-4, divided by 5, 2 and 2 at epochs 30, 60 and 90"""
FINE_TUNING = [1e-4] * 20 + [2e-5] * 30


def has_the_papers_rates(recipe: Recipe) -> bool:
    def rates(stage: Stage) -> list[float]:
        epochs = range(stage.epochs)
        return [stage.optimizer.lr * lr_factor(stage.schedule, e, stage.epochs) for e in epochs]

    scratch = {"heatmap"} | ({"luvli"} if "scratch" in recipe.name else set())
    return all(
        rates(stage) == pytest.approx(FROM_SCRATCH if name in scratch else FINE_TUNING, rel=1e-12)
        for name, stage in recipe.stages.items()
    )


def changes(one: Recipe, other: Recipe) -> list[tuple[str, object, object]]:
    """What two recipes differ by, besides words."""
    found = changed_settings(one.model_dump(), other.model_dump())
    return [change for change in found if change[0] not in ("name", "about")]


def paper(name: str) -> Recipe:
    return read_recipe(FOLDER / "paper" / f"{name}.yaml")


@pytest.mark.parametrize("path", ALL, ids=NAMES)
def test_recipes_are_valid_and_survive_yaml(path: Path) -> None:
    """Found by name; each stage's network can be built; none names a place of a machine."""
    recipe = read_recipe(path)
    assert recipe == read_recipe(path.relative_to(FOLDER).as_posix().removesuffix(".yaml"))
    assert make_recipe(yaml.safe_load(write_recipe(recipe)), "the copy") == recipe
    lenient = read_recipe(path, skip_bad=True)
    every = (*lenient.data.sources.values(), *lenient.data.validation.values())
    assert every and all(source.skip_bad for source in every)
    assert all(name.endswith("skip_bad") for name, *_ in changes(recipe, lenient))
    places = [recipe.data.root, recipe.init or "", recipe.data.cache or ""]
    places += [source.path for source in recipe.data.sources.values()]
    assert not any(Path(place).is_absolute() for place in places)
    for stage in recipe.stages.values():
        can_be_built(recipe.stage_network(stage).model_dump_json())


@cache
def can_be_built(network: str) -> None:
    """Once for all recipes of a network."""
    with torch.device("meta"):
        build(NetworkConfig.model_validate_json(network))


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_the_papers_recipes_are_the_supplements(path: Path) -> None:
    """Learning rate of every epoch, batch, network, augmentation A for split 1 and B elsewhere."""
    recipe = read_recipe(path)
    assert has_the_papers_rates(recipe)
    network = recipe.network
    unets = 4 if path.stem == "four-unets" else 8
    sizes = (network.unets, network.channels, network.growth, network.input_size)
    assert sizes == (unets, 128, 32, 256)
    markup = {"aflw19": (19, "aflw19"), "wflw": (98, "wflw98")}.get(path.stem, (68, "ibug68"))
    assert (network.landmarks, network.markup) == markup
    for stage in recipe.stages.values():
        assert isinstance(stage.optimizer, RMSprop)
        assert (stage.optimizer.alpha, stage.optimizer.eps) == (0.99, 1e-8)
        assert stage.batch_size == 24 and stage.ema is None and stage.clip_grad_norm is None
        sources = [recipe.data.sources[name] for name in recipe.sources_of(stage)]
        split1 = all(source.protocol == "split1" for source in sources)
        expected = ((0.75, 1.25), (-30, 30), False) if split1 else ((0.8, 1.2), (-50, 50), True)
        chosen = stage.augmentation
        assert (chosen.scale, chosen.rotation, chosen.rectangle is not None) == expected
        assert chosen.colour == (0.6, 1.4) and chosen.flip == 0


ROWS = {
    "last-unet": {"stages.luvli.supervise"},
    "mse": {"stages.luvli.loss", "stages.luvli.use_visibility"},
    "gauss-no-visibility": {"network.likelihood", "stages.luvli.use_visibility"},
    "gauss": {"network.likelihood"},
    "laplace-no-visibility": {"stages.luvli.use_visibility"},
    "direct": {"network.mean_estimator"},
    "softmax": {"network.mean_estimator"},
    "tau-softmax": {"network.mean_estimator"},
}


def test_each_ablation_changes_what_its_row_says_and_nothing_else() -> None:
    """In the paper's size and in miniature."""
    best, rows = paper("300w-split2-lp"), read_experiments(FOLDER / "mini/ablation")
    assert best.init == "runs/300w-lp/model.safetensors" and list(best.stages) == ["luvli"]
    for name, keys in ROWS.items():
        changed = changes(best, paper(f"ablation/{name}"))
        assert {key for key, _, _ in changed} == keys, name
        assert changes(rows["luvli"], rows[name]) == changed, name
    assert paper("ablation/init-300w").stages == paper("300w-split2").stages
    assert paper("ablation/scratch").init is None and rows["scratch"].init is None
    assert rows["half-unets"].network.unets * 2 == rows["luvli"].network.unets
    names = list(rows)
    assert names.index("heatmap") < names.index("direct")  # what the others start from
    assert {rows[name].init for name in ROWS} == {"heatmap"}
    for row in rows.values():
        assert row.data == rows["luvli"].data  # the same faces, the same held out
        assert [s.hold_out for s in row.data.sources.values()] == [0.1, 0.1]
    scaled = [read_recipe(FOLDER / f"mini/{name}.yaml") for name in ("300w-split1", "merl-rav")]
    assert all(has_the_papers_rates(row) for row in [*scaled, *rows.values()])


OURS = ("luvli-68-large", "luvli-68", "luvli-68-fast", "luvli-68-open")
RESEARCH = OURS[:3]


@pytest.mark.parametrize("name", OURS)
def test_our_models_are_trained_from_nothing_by_one_recipe(name: str) -> None:
    recipe = read_recipe(FOLDER / f"{name}.yaml")
    losses = [stage.loss for stage in recipe.stages.values()]
    if recipe.init is None:
        assert losses.pop(0) == "heatmap"
    else:  # begins as another one ends
        before = read_recipe(FOLDER / f"{recipe.init.partition('@')[0]}.yaml")
        assert recipe.init == f"{before.name}@{before.version}" and before.init is None
    assert losses.pop() == "failure" and set(losses) == {"luvli"}
    assert recipe.name == name and recipe.network.occlusion
    lent = {lender for source in recipe.data.sources for lender in recipe.lenders(source)}
    for source_name, source in recipe.data.sources.items():
        learns = source.set is not None and (source.relabel is None or source_name == "closed")
        assert bool(source.hold_out) >= learns, source_name
        assert source.hold_out or source.synthetic or source_name in lent
    for stage in list(recipe.stages.values())[:-1]:
        assert isinstance(stage.optimizer, AdamW) and stage.schedule.kind == "cosine"
        assert stage.ema and stage.clip_grad_norm
        chosen = stage.augmentation
        assert chosen.flip == 0.5 and chosen.mask and chosen.turned.probability
        assert chosen.turned_boxes and chosen.keep_inside


@pytest.mark.parametrize("name", RESEARCH)
def test_research_models_share_faces_and_name_the_version_of_their_teacher(name: str) -> None:
    """A teacher must not have learnt what its student is measured on, nor the other way round."""
    large, default, recipe = (
        read_recipe(FOLDER / f"{each}.yaml") for each in (RESEARCH[0], RESEARCH[1], name)
    )
    assert recipe.data == large.data and "research only" in recipe.licence
    teachers = {stage.teacher for stage in recipe.stages.values()} - {None}
    assert teachers == ({f"{default.name}@{default.version}"} if name == RESEARCH[2] else set())
    for key, stage in large.stages.items():
        assert stage.augmentation == recipe.stages[key].augmentation
        assert stage.mixture == recipe.stages[key].mixture


def test_rows_of_the_data_ablation_differ_in_their_mixture_alone() -> None:
    rows = read_experiments(FOLDER / "models/ablation", ())
    assert set(rows) == {"all", "without-cfp", "without-scut", "without-turned"}
    best = rows["all"]
    for name, row in rows.items():
        assert row.data == best.data  # held-out faces of the left-out source are measured, too
        left_out = name.removeprefix("without-")
        changed = {key for key, _, _ in changes(best, row)}
        assert changed <= {f"stages.{stage}.mixture.{left_out}" for stage in best.stages}
    research = read_recipe(FOLDER / "luvli-68.yaml")
    assert best.stages["luvli"].mixture == research.stages["luvli"].mixture


def test_recipes_in_the_documentation_are_valid_and_listed(tmp_path: Path) -> None:
    docs = FOLDER.parent / "docs"
    pages = ("train-your-own.md", "howto/training-options.md")
    page = "".join((docs / name).read_text(encoding="utf-8") for name in pages)
    blocks = [block for block in page.split("```") if block.startswith("yaml\nextends:")]
    assert blocks
    for block in blocks:
        text = block.removeprefix("yaml\n").replace("extends: ", f"extends: {FOLDER}/")
        (tmp_path / "recipe.yaml").write_text(text)
        read_recipe(tmp_path / "recipe.yaml")
    reproduce = (docs / "reproduce.md").read_text(encoding="utf-8")
    assert [path.name for path in PAPER if path.name not in reproduce] == []
