"""Reading recipes: typed, layered, overridable, and plain about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from luvli.data.augment import Augmentation
from luvli.errors import InputError
from luvli.network.config import NetworkConfig
from luvli.training.recipe import Cosine, Stage, Steps
from luvli.training.recipe_data import Source
from luvli.training.recipe_files import read_recipe, recipe_summary, write_recipe

BASE = """
name: base
data: {sources: {a: {set: folder}, b: {set: folder}}}
stages:
  one: {loss: heatmap, epochs: 3, optimizer: {kind: rmsprop, lr: 1e-4}}
  two: {loss: luvli, mixture: {a: 1, b: 2}}
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "base.yaml"
    path.write_text(BASE)
    return path


def extend(base: Path, text: str) -> Path:
    path = base.parent / "more.yaml"
    path.write_text(f"extends: base.yaml\n{text}")
    return path


def test_numbers_without_a_point_are_numbers(base: Path) -> None:
    assert read_recipe(base).stages["one"].optimizer.lr == 1e-4  # YAML 1.1 reads a word


def test_extends_merges_mappings_and_replaces_the_rest(base: Path) -> None:
    recipe = read_recipe(extend(base, "name: more\nstages: {one: {epochs: 7}}"))
    assert (recipe.name, recipe.stages["one"].epochs, recipe.stages["one"].loss) == (
        "more",
        7,
        "heatmap",
    )


def test_null_removes_a_stage_a_source_a_share(base: Path) -> None:
    text = "stages: {one: null, two: {mixture: {b: null}}}\ndata: {sources: {b: null}}"
    recipe = read_recipe(extend(base, text))
    assert list(recipe.stages) == ["two"]
    assert list(recipe.data.sources) == ["a"]


def test_stages_take_from_the_defaults_what_they_do_not_set(base: Path) -> None:
    text = """
stage_defaults: {epochs: 9, batch_size: 6, optimizer: {kind: adamw}, augmentation: {flip: 0.5}}
stages: {two: {augmentation: {blur: 0.1}}}
"""
    one, two = read_recipe(extend(base, text), ["stage_defaults.batch_size=8"]).stages.values()
    assert (one.epochs, two.epochs, one.batch_size, two.batch_size) == (3, 9, 8, 8)
    assert (one.optimizer.kind, two.optimizer.kind) == ("rmsprop", "adamw")
    assert (two.augmentation.flip, two.augmentation.blur) == (0.5, 0.1)
    with pytest.raises(InputError, match="stage_defaults must be a mapping"):
        read_recipe(extend(base, "stage_defaults: 3"))


def test_another_kind_replaces_a_mapping(base: Path) -> None:
    text = "stages: {one: {schedule: {kind: cosine, warmup: 1}}}"
    assert read_recipe(extend(base, text)).stages["one"].schedule == Cosine(warmup=1)
    assert read_recipe(base).stages["one"].schedule == Steps()


def test_a_circle_or_a_long_row_is_refused(base: Path) -> None:
    base.write_text("extends: more.yaml")
    with pytest.raises(InputError, match="extends itself, or more than 16 recipes"):
        read_recipe(extend(base, ""))


@pytest.mark.parametrize(
    ("override", "part", "expected"),
    [
        ("stages.two.augmentation.keep_inside=true", "augmentation.keep_inside", True),
        ("stages.two.augmentation.keep_inside=true", "augmentation.scale", (0.8, 1.2)),  # B's
        ("stages.two.epoch_faces=1400", "epoch_faces", 1400),
        ("stages.two.optimizer.lr=1e-3", "optimizer.lr", 1e-3),
        ("stages.two.optimizer.lr=1e-3", "optimizer.kind", "rmsprop"),
        ("stages.one.optimizer.alpha=0.9", "optimizer.lr", 1e-4),
        ("stages.two.schedule.factors={1: 0.5}", "schedule.factors", {1: 0.5}),
        ("stages.one.epochs=5", "epochs", 5),
    ],
)
def test_set_merges_into_what_the_recipe_inherits(
    base: Path, override: str, part: str, expected: object
) -> None:
    path = extend(base, "stages: {two: {augmentation: B}}")
    value: object = read_recipe(path, [override]).stages[override.split(".")[1]]
    for name in part.split("."):
        value = getattr(value, name)
    assert value == expected


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("network.unet=3", "did you mean 'unets'"),
        ("stages.one.augmentation.flips=1", "did you mean 'flip'"),
        ("data.source=3", "did you mean 'sources'"),
        ("stages.one.optimizer.lrs=3", "did you mean 'lr'"),
        ("stages.one.optimizer={kind: adamw, lr: .nan}", "stages.one.optimizer.lr"),
        ("stages.one.epochs=0", "stages.one.epochs"),
        ("stages.one.input_size=96", "stages.one.input_size: Input should be a multiple of 64"),
        ("stages.three.epochs=1", "unknown stage 'three'.* one of one, two"),
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
        ("stages.one.train_only=[trunk]", "no init to start from"),
        ("stages.two.train_only=[nose]", "train_only"),
        ("data.sources.a.relabel='stage:two'", "labelled by stage two, which is not before it"),
        ("data.sources.a.set=null", "either a data 'set' or 'synthetic'"),
        ("network.failure_head=64", "a stage with loss: failure adds it"),
        ("data.enlarge=huge", "did you mean|choose one of"),
        ("seed", "not key=value"),
        ("seed=[", "not valid YAML"),
    ],
)
def test_mistakes_are_one_sentence_about_the_key(base: Path, override: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read_recipe(base, [override])


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("stages.one.epoch=3", "--set: stages.one: unknown key 'epoch': did you mean 'epochs'?"),
        ("stages.one.epochs=many", ", got 'many'."),
    ],
)
def test_what_set_did_wrong_is_not_blamed_on_the_recipe(
    base: Path, override: str, sentence: str
) -> None:
    with pytest.raises(InputError) as raised:
        read_recipe(base, [override])
    assert str(raised.value).startswith("--set: ") and str(raised.value).endswith(sentence)
    base.write_text(base.read_text().replace("stages:", "stags:"))
    with pytest.raises(InputError, match=base.name):  # wrong with or without --set
        read_recipe(base, ["seed=1"])


def test_a_file_that_is_no_recipe(tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text("- 1")
    with pytest.raises(InputError, match="is not a recipe"):
        read_recipe(path)
    with pytest.raises(InputError, match="does not exist"):
        read_recipe(tmp_path / "nothing.yaml")


def test_written_recipes_read_back(base: Path) -> None:
    recipe = read_recipe(base)
    copy = base.parent / "copy.yaml"
    copy.write_text(write_recipe(recipe))
    assert read_recipe(copy) == recipe


def test_the_list_of_recipes_gives_whole_sentences(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(
        "# One for 0.8 MB, which goes\n# on here. And more.\n#   luvli train a\nname: a\n"
    )
    assert recipe_summary(path) == "One for 0.8 MB, which goes on here"


def write(folder: Path, text: str) -> Path:
    path = folder / "r.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("bad", ["../../evil", "a/b", "..", ".hidden", "x" * 101])
def test_names_cannot_lead_out_of_the_runs_folder(base: Path, bad: str) -> None:
    for name, stage in ((bad, "one"), ("mine", bad)):
        text = BASE.replace("name: base", f"name: {name}").replace("one:", f"{stage}:")
        with pytest.raises(InputError, match="cannot be a name"):
            read_recipe(write(base.parent, text))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[" * 5000, "nested too deeply|not valid YAML"),
        ("name: 2020-13-45", "cannot be read"),
        (f"seed: {'9' * 5000}", "cannot be read"),
        ("x" * 1_000_001, "larger than"),
        ("\n".join(["a0: &a0 [x, x, x, x, x, x, x, x, x]",
                    *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30))]),
         r"more than .* values"),
    ],
    ids=["nested", "no date", "long number", "large", "aliases that grow without end"],
)  # fmt: skip
def test_values_that_cannot_be_read(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read_recipe(write(tmp_path, text))


def test_keys_that_older_files_have_are_passed_over(base: Path) -> None:
    older = base.read_text().replace("{set: folder}", "{set: folder, shuffle_buffer: 9}")
    recipe = read_recipe(write(base.parent, older), ["stages.two.relabel_jitter=true"])
    assert recipe == read_recipe(base)


def test_keys_explain_themselves() -> None:
    """The site's page of keys takes what they mean from their docstrings."""
    keys = {Stage: "epoch_faces", Source: "hold_out", NetworkConfig: "order", Augmentation: "flip"}
    for model, key in keys.items():
        assert model.model_fields[key].description
