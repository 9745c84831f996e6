"""Recipes that are not meant well: a sentence each, soon, and nothing written elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from luvli.errors import InputError
from luvli.training.recipe_files import MAX_LAYERS, read_recipe

GOOD = """
name: {name}
data: {{sources: {{drawn: {{synthetic: {{faces: 10}}}}}}}}
stages: {{{stage}: {{loss: luvli, epochs: 1}}}}
"""


def write(folder: Path, text: str, name: str = "r.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_the_pattern_itself_is_a_recipe(tmp_path: Path) -> None:
    assert read_recipe(write(tmp_path, GOOD.format(name="mine", stage="luvli"))).name == "mine"


@pytest.mark.parametrize("bad", ["../../evil", "a/b", "..", ".hidden", "a\\\\b", "x" * 101])
def test_names_cannot_lead_out_of_the_runs_folder(tmp_path: Path, bad: str) -> None:
    for name, stage in ((bad, "luvli"), ("mine", bad)):
        text = GOOD.format(name=f'"{name}"', stage=f'"{stage}"')
        with pytest.raises(InputError, match="cannot be a name"):
            read_recipe(write(tmp_path, text))


def test_a_long_row_of_recipes_is_refused(tmp_path: Path) -> None:
    for i in range(MAX_LAYERS + 2):
        write(tmp_path, f"extends: r{i + 1}.yaml\n", f"r{i}.yaml")
    with pytest.raises(InputError, match="extend fewer"):
        read_recipe(tmp_path / "r0.yaml")


def test_aliases_that_grow_without_end_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    with pytest.raises(InputError, match=r"more than .* values"):
        read_recipe(write(tmp_path, "\n".join(lines)))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[" * 5000, "nested too deeply|not valid YAML"),
        ("name: 2020-13-45", "cannot be read"),
        (f"seed: {'9' * 5000}", "cannot be read"),
        ("x" * 1_000_001, "larger than"),
    ],
)
def test_values_that_cannot_be_read(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read_recipe(write(tmp_path, text))


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf"])
def test_rates_that_are_not_numbers(tmp_path: Path, value: str) -> None:
    path = write(tmp_path, GOOD.format(name="mine", stage="luvli"))
    with pytest.raises(InputError, match="lr"):
        read_recipe(path, [f"stages.luvli.optimizer={{kind: adamw, lr: {value}}}"])
