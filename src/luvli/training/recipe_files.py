"""Recipes in YAML: reading with `extends` and overrides, writing, and readable errors."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from luvli.data.formats.common import parse_yaml
from luvli.errors import InputError, brief, unknown_choice
from luvli.files import PathLike, read_text
from luvli.training.recipe import Recipe
from luvli.training.recipe_names import find_recipe

MAX_LAYERS = 16
"""recipes that may extend each other in a row"""


def read_recipe(path: PathLike, overrides: Sequence[str] = ()) -> Recipe:
    """A recipe from its YAML file, or a shipped one by its name (`quick`).

    `extends: other.yaml`, relative to the file, takes everything from another recipe first;
    mappings are merged, anything else is replaced. `overrides` are `key=value` pairs with
    dots between the keys, values in YAML: `stages.luvli.epochs=3`.
    """
    source = find_recipe(path)
    content = _read_layers(source, ())
    for override in overrides:
        key, sign, value = override.partition("=")
        if not sign or not key:
            raise InputError(f"--set {override} is not key=value: write for instance seed=1.")
        places = key.split(".")
        parsed = parse_yaml(value, f"--set {key}", "recipe")
        _known(places, parsed, content)
        content = merge(content, _nest(places, parsed))
    return make_recipe(content, _culprit(source, overrides))


def _culprit(source: Path, overrides: Sequence[str]) -> str:
    """Who is to be named where the whole is wrong: --set, if the recipe alone is good."""
    if overrides:
        with contextlib.suppress(InputError):
            make_recipe(_read_layers(source, ()), str(source))
            return "--set"
    return str(source)


def _known(path: Sequence[str], value: Any, content: Any) -> None:
    """A stage or source that --set changes or takes away must be one of the recipe's."""
    for kind, place in (("stage", ["stages"]), ("source", ["data", "sources"])):
        depth = len(place)
        if list(path[:depth]) == place and (len(path) > depth + 1 or value is None):
            named = content
            for key in place:
                named = named.get(key) if isinstance(named, Mapping) else None
            if isinstance(named, Mapping) and path[depth] not in named:
                raise unknown_choice(kind, path[depth], list(named))


def make_recipe(content: Any, where: str) -> Recipe:
    """A recipe from plain values, or one sentence about the first thing wrong with them."""
    if not isinstance(content, Mapping):
        raise InputError(f"{where} is not a recipe: it must be a mapping with name and stages.")
    try:
        return Recipe.model_validate(dict(content))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part not in _TAGS)
        message = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
        if not str(first["type"]).startswith(("value_error", "missing")):
            message += f", got {brief(ValueError(repr(first['input'])))}"
        end = "" if message.endswith("?") else "."
        raise InputError(f"{where}: {place + ': ' if place else ''}{message}{end}") from error


_TAGS = {"steps", "cosine", "one-cycle", "rmsprop", "adamw"}  # pydantic's names of alternatives


def write_recipe(recipe: Recipe) -> str:
    """The recipe as YAML, with every value spelled out."""
    plain = recipe.model_dump(mode="json")
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)


def merge(base: Any, changes: Any) -> Any:
    """`changes` on top of `base`: mappings merge key by key, anything else is replaced.

    A mapping that names its `kind` (an optimiser, a schedule) replaces the old one as a whole.

    >>> merge({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}})
    {'a': {'b': 3, 'c': 2}}
    """
    if not (isinstance(base, Mapping) and isinstance(changes, Mapping)):
        return changes
    if "kind" in changes:
        return dict(changes)
    merged = dict(base)
    for key, value in changes.items():
        merged[key] = merge(base[key], value) if key in base else value
    return merged


def _read_layers(path: Path, seen: tuple[Path, ...]) -> Any:
    if path.resolve() in seen:
        raise InputError(f"{path} extends itself: remove the circle.")
    if len(seen) >= MAX_LAYERS:
        raise InputError(f"{path} is the {MAX_LAYERS + 1}th recipe in a row: extend fewer.")
    content = parse_yaml(read_text(path), str(path), "recipe")
    if not isinstance(content, dict) or "extends" not in content:
        return content
    base = path.parent / str(content.pop("extends"))
    return merge(_read_layers(base, (*seen, path.resolve())), content)


def _nest(keys: Sequence[str], value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value
