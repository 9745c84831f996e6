"""Reading recipes: typed, layered, overridable, and plain about mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from luvli.errors import InputError
from luvli.training.recipe import Cosine, Recipe
from luvli.training.recipe_files import read_recipe, recipe_summary, write_recipe

BASE = """
name: base
data: {sources: {a: {set: folder}, b: {set: folder}}}
stages:
  one: {loss: heatmap, epochs: 3, optimizer: {kind: rmsprop, lr: 1e-4}}
  two: {loss: luvli, mixture: {a: 1, b: 2}, augmentation: B}
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return write(tmp_path, BASE, "base.yaml")


def write(folder: Path, text: str, name: str = "more.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def extended(base: Path, text: str, *overrides: str) -> Recipe:
    return read_recipe(write(base.parent, f"extends: base.yaml\n{text}"), overrides)


DEFAULTS = """
stage_defaults: {epochs: 9, batch_size: 6, optimizer: {kind: adamw}, augmentation: {flip: 0.5}}
stages: {two: {augmentation: {blur: 0.1}}}
"""


@pytest.mark.parametrize(
    ("text", "overrides", "key", "expected"),
    [
        ("", [], "stages.one.optimizer.lr", 1e-4),  # YAML 1.1 reads 1e-4 as a word
        ("name: more", [], "name", "more"),
        ("stages: {one: {epochs: 7}}", [], "stages.one.epochs", 7),
        ("stages: {one: {epochs: 7}}", [], "stages.one.loss", "heatmap"),
        ("stages: {one: {schedule: {kind: cosine, warmup: 1}}}", [], "stages.one.schedule",
         Cosine(warmup=1)),
        (DEFAULTS, [], "stages.one.epochs", 3),
        (DEFAULTS, [], "stages.two.epochs", 9),
        (DEFAULTS, ["stage_defaults.batch_size=8"], "stages.two.batch_size", 8),
        (DEFAULTS, [], "stages.one.optimizer.kind", "rmsprop"),
        (DEFAULTS, [], "stages.two.optimizer.kind", "adamw"),
        (DEFAULTS, [], "stages.one.augmentation.flip", 0.5),
        (DEFAULTS, [], "stages.two.augmentation.blur", 0.1),
        # --set merges into what the recipe inherits
        ("", ["stages.two.augmentation.keep_inside=true"], "stages.two.augmentation.keep_inside",
         True),
        ("", ["stages.two.augmentation.keep_inside=true"], "stages.two.augmentation.scale",
         (0.8, 1.2)),  # B's
        ("", ["stages.two.epoch_faces=1400"], "stages.two.epoch_faces", 1400),
        ("", ["stages.two.optimizer.lr=1e-3"], "stages.two.optimizer.lr", 1e-3),
        ("", ["stages.two.optimizer.lr=1e-3"], "stages.two.optimizer.kind", "rmsprop"),
        ("", ["stages.one.optimizer.alpha=0.9"], "stages.one.optimizer.lr", 1e-4),
        ("", ["stages.two.schedule.factors={1: 0.5}"], "stages.two.schedule.factors", {1: 0.5}),
        ("", ["stages.two.relabel_jitter=true"], "stages.two.epochs", 100),  # of older files
    ],
)  # fmt: skip
def test_layers_merge(
    base: Path, text: str, overrides: list[str], key: str, expected: object
) -> None:
    value: Any = extended(base, text, *overrides)
    for name in key.split("."):
        value = value[name] if isinstance(value, dict) else getattr(value, name)
    assert value == expected


def test_null_removes_a_stage_a_source_a_share(base: Path) -> None:
    text = "stages: {one: null, two: {mixture: {b: null}}}\ndata: {sources: {b: null}}"
    recipe = extended(base, text)
    assert (list(recipe.stages), list(recipe.data.sources)) == (["two"], ["a"])


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("network.unet=3", "did you mean 'unets'"),
        ("stages.one.augmentation.flips=1", "did you mean 'flip'"),
        ("data.source=3", "did you mean 'sources'"),
        ("stages.one.optimizer.lrs=3", "did you mean 'lr'"),
        ("stages.one.optimizer={kind: adamw, lr: .nan}", "stages.one.optimizer.lr"),
        ("stages.one.epochs=0", "stages.one.epochs"),
        ("stages.one.epochs=many", r"^--set: .*, got 'many'\.$"),
        ("stages.one.epoch=3", r"^--set: stages.one: unknown key 'epoch': did you mean 'epochs'\?"),
        ("stages.one.input_size=96", "stages.one.input_size: Input should be a multiple of 64"),
        ("stages.three.epochs=1", "unknown stage 'three'.* one of one, two"),
        ("stage_defaults=3", "stage_defaults must be a mapping"),
        ("data.sources.c=null", "unknown source 'c'"),
        ("stages.two.mixture.c=1", "no source 'c' among a, b"),
        ("stages.two.mixture.a=0", "stages.two.mixture.a"),
        ("stages.two.mixture={a: null, b: null}", "stages.two.mixture"),
        ("stages.two.relabel=[c]", "no source 'c' among"),
        ("stages.one.relabel=[a]", "first stage cannot relabel"),
        ("stages.one.loss=l2", "unknown loss 'l2': choose from heatmap"),
        ("stages.one.teacher=luvli-68", r"stages\.one\.teacher: only the loss luvli"),
        ("stages.one.loss=failure", "must be the last one"),
        ("stages.two.occlusion_weight=1.0", r"needs network\.occlusion"),
        ("stages.two.train_only=[occlusion]", "needs an occlusion_weight"),
        ("stages.one.train_only=[trunk]", "only with an init"),
        ("stages.one.start_share=0.5", "only with an init"),
        ("stages.two.train_only=[nose]", "train_only"),
        ("data.sources.a.relabel='stage:two'", "labelled by stage two, which is not before it"),
        ("data.sources.a.set=null", "either a data 'set' or 'synthetic'"),
        ("network.failure_head=64", "a stage with loss: failure adds it"),
        ("data.enlarge=huge", "did you mean|choose one of"),
        ("name=../../evil", "cannot be a name"),  # it would lead out of the run's folder
        ("stages={'a/b': {loss: luvli}}", "cannot be a name"),
        ("seed", "not key=value"),
        ("seed=[", "not valid YAML"),
    ],
)
def test_mistakes_are_one_sentence_about_the_key(base: Path, override: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read_recipe(base, [override])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("- 1", "is not a recipe"),
        (BASE.replace("stages:", "stags:"), "more.yaml: .*stages"),  # --set is not to blame
        ("extends: more.yaml", "extends itself, or more than 16 recipes"),
        ("[" * 5000, "nested too deeply|not valid YAML"),
        ("name: 2020-13-45", "not valid YAML: month must be"),
        (f"seed: {'9' * 5000}", "not valid YAML"),
        ("x" * 1_000_001, "larger than"),
        ("\n".join(["a0: &a0 [x, x, x, x, x, x, x, x, x]",
                    *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30))]),
         r"more than .* values"),
    ],
    ids=["list", "key", "circle", "nested", "no date", "long number", "large", "endless aliases"],
)  # fmt: skip
def test_files_that_are_no_recipes(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read_recipe(write(tmp_path, text), ["seed=1"])


def test_written_recipes_read_back(base: Path) -> None:
    recipe = read_recipe(base)
    assert read_recipe(write(base.parent, write_recipe(recipe))) == recipe


def test_the_list_of_recipes_gives_whole_sentences(tmp_path: Path) -> None:
    text = "# One for 0.8 MB, which goes\n# on here. And more.\n#   luvli train a\nname: a\n"
    assert recipe_summary(write(tmp_path, text)) == "One for 0.8 MB, which goes on here"
