"""Every ingredient of a recipe is followed to a licence; open recipes refuse what is not open."""

from __future__ import annotations

from pathlib import Path

import pytest

from luvli.errors import InputError
from luvli.network.licence import is_open
from luvli.training.ingredients import check_recipe_licence, ingredients
from luvli.training.recipe import Recipe
from luvli.training.recipe_files import read_recipe

RECIPES = Path(__file__).parents[2] / "recipes"


def changed(**changes: str) -> Recipe:
    """The open recipe with some settings of its own."""
    return read_recipe(
        RECIPES / "luvli-68-open.yaml", [f"{key}={value}" for key, value in changes.items()]
    )


def test_the_open_model_learns_from_free_sources_alone() -> None:
    recipe = changed()
    assert is_open(recipe.licence)
    found = ingredients(recipe)
    assert [str(item) for item in found if not item.open] == []
    places = {item.place for item in found}
    assert ("init" in places) == (recipe.init is not None)
    # nothing is left out: every source, its boxes, and every head
    for name, source in recipe.data.sources.items():
        assert f"data.sources.{name}.boxes" in places
        inner = ".synthetic.head" if source.synthetic else ""
        assert f"data.sources.{name}{inner}" in places
    lenders = {name for source in recipe.data.sources for name in recipe.lenders(source)}
    assert lenders == {"congress", "interfaces", "london", "canada", "smiling"}
    check_recipe_licence(recipe)


@pytest.mark.parametrize(
    ("setting", "value", "place"),
    [
        ("init", "luvli-68", "init: luvli-68"),
        ("init", "luvli-68@2.6", "init: luvli-68@2.6: Research use only"),
        ("data.sources.congress.relabel", "luvli-68", r"congress\.relabel: luvli-68"),
        ("data.sources.congress.boxes", "detector", r"congress\.boxes: detector"),
        ("data.sources.congress.licence", "''", "congress.*not stated"),
        ("data.sources.london.set", "w300", "london: w300"),
        ("data.sources.skins.synthetic.backgrounds", "walls", "synthetic: folder walls"),
        ("stages.self.teacher", "luvli-68", r"self\.teacher: luvli-68"),
        ("data.validation.watched", "{set: merl_rav}", "watched: merl_rav"),
    ],
)
def test_one_research_ingredient_is_enough_to_refuse(setting: str, value: str, place: str) -> None:
    recipe = changed(**{setting: value})
    with pytest.raises(InputError, match=place):
        check_recipe_licence(recipe)


def test_research_recipes_are_free_to_use_everything() -> None:
    recipe = read_recipe(RECIPES / "luvli-68.yaml")
    assert not is_open(recipe.licence)
    assert any(not item.open for item in ingredients(recipe))
    check_recipe_licence(recipe)


def test_a_version_of_an_open_model_is_as_open_as_the_model() -> None:
    check_recipe_licence(changed(init="luvli-68-open@1.5"))
