"""Recipes in YAML: shipped ones by name, `extends` and overrides, writing, readable errors."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from luvli.data.augment import Augmentation
from luvli.data.formats.common import parse_yaml
from luvli.errors import InputError, brief, unknown_choice
from luvli.files import PathLike, read_text
from luvli.network.config import NetworkConfig
from luvli.training.recipe import Recipe
from luvli.training.recipe_data import Config

MAX_LAYERS = 16
"""recipes that may extend each other in a row"""
FOLDERS = (
    Path(__file__).parents[1] / "recipes",  # in a wheel
    Path(__file__).parents[3] / "recipes",  # in a clone
)
FIRST_NAMES = ("quick", "own-faces")
"""what newcomers look for"""


def recipe_folder() -> Path | None:
    """Where the shipped recipes are; None where they were left out."""
    return next((folder for folder in FOLDERS if (folder / "quick.yaml").is_file()), None)


def recipe_names() -> list[str]:
    """All shipped recipes, by path without suffix: those for newcomers first, then our models,
    then the paper's, which are many.

    >>> "quick" in recipe_names()
    True
    """
    folder = recipe_folder()
    if folder is None:
        return []
    paths = folder.rglob("*.yaml")
    names = [path.relative_to(folder).with_suffix("").as_posix() for path in paths]
    return sorted(names, key=lambda name: (name not in FIRST_NAMES, "/" in name, name))


def find_recipe(name_or_path: PathLike) -> Path:
    """A recipe's file, from its path or from its name; a path wins where there is such a file.

    `recipes/quick.yaml` also reads as the name `quick` where that file is not there.
    """
    path = Path(name_or_path)
    folder = recipe_folder()
    if path.is_file() or folder is None:
        return path
    name = path.with_suffix("").as_posix().removeprefix("recipes/")
    if name in recipe_names():
        return folder / f"{name}.yaml"
    if path.suffix:
        return path  # reading it will say that it does not exist
    near = get_close_matches(name, recipe_names(), n=1)
    hint = f": did you mean {near[0]!r}?" if near else ":"
    raise InputError(f"unknown recipe {name!r}{hint} luvli recipes list names all of them.")


def recipe_summary(path: Path) -> str:
    """The first sentence of the comment that a recipe begins with."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = takewhile(lambda line: line.startswith("# ") and line[2:3] != " ", lines)
    words = " ".join(line[2:].strip() for line in comment)
    return re.split(r"(?<=[a-z)\]])\. ", words)[0].rstrip(".")  # not at 2.0 or 0.8 MB


def read_recipe(path: PathLike, overrides: Sequence[str] = (), skip_bad: bool = False) -> Recipe:
    """A recipe from its YAML file, or a shipped one by its name (`quick`).

    `extends: other.yaml`, relative to the file, takes everything from another recipe first;
    mappings are merged, anything else is replaced. `stage_defaults` holds what stages share: each
    takes from it what it does not set itself. `overrides` are `key=value` pairs with
    dots between the keys, values in YAML: `stages.luvli.epochs=3`. `skip_bad` sets that of every
    source.
    """
    source = find_recipe(path)
    plain = content = _read_layers(source, ())
    for override in overrides:
        keys, value = parse_override(override)
        missing = missing_part(keys, value, content)
        if missing is not None:
            raise missing
        for key in reversed(keys):
            value = {key: value}
        content = merge(content, value)
    place = str(source)
    if overrides:  # is --set to blame, or is the recipe wrong without it?
        with contextlib.suppress(InputError):
            make_recipe(plain, place)
            place = "--set"
    recipe = make_recipe(content, place)
    if not skip_bad:
        return recipe
    names = [("sources", name) for name in recipe.data.sources]
    names += [("validation", name) for name in recipe.data.validation]
    everywhere = [f"data.{kind}.{name}.skip_bad=true" for kind, name in names]
    return read_recipe(path, [*overrides, *everywhere])


def parse_override(override: str) -> tuple[list[str], Any]:
    """`stages.luvli.epochs=3` -> the keys and the value."""
    key, sign, value = override.partition("=")
    if not sign or not key:
        raise InputError(f"--set {override} is not key=value: write for instance seed=1.")
    return key.split("."), parse_yaml(value, f"--set {key}", "recipe")


def missing_part(keys: Sequence[str], value: Any, content: Any) -> InputError | None:
    """The error of an override that changes or removes a stage or source that is not there."""
    for kind, place in (("stage", ["stages"]), ("source", ["data", "sources"])):
        depth = len(place)
        if list(keys[:depth]) == place and (len(keys) > depth + 1 or value is None):
            names = content
            for key in place:
                names = names.get(key) if isinstance(names, Mapping) else None
            if isinstance(names, Mapping) and keys[depth] not in names:
                return unknown_choice(kind, keys[depth], list(names))
    return None


def make_recipe(content: Any, where: str) -> Recipe:
    """A recipe from plain values, or one sentence about the first thing wrong with them."""
    if not isinstance(content, Mapping):
        raise InputError(f"{where} is not a recipe: it must be a mapping with name and stages.")
    content = _with_defaults(content, where)
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        problems = error.errors()
        unknown = (problem for problem in problems if problem["type"] == "extra_forbidden")
        first = next(unknown, problems[0])
        loc = [str(part) for part in first["loc"] if part not in _TAGS]
        message = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
        if first["type"] == "extra_forbidden":
            message = _unknown_key(loc.pop())
        elif not str(first["type"]).startswith(("value_error", "missing")):
            message += f", got {brief(ValueError(repr(first['input'])))}"
        place = ".".join(loc)
        end = "" if message.endswith("?") else "."
        raise InputError(f"{where}: {place + ': ' if place else ''}{message}{end}") from error


def _unknown_key(key: str) -> str:
    """The sentence for a key that does not exist, with the nearest one that does.

    >>> _unknown_key("epoch")
    "unknown key 'epoch': did you mean 'epochs'?"
    """
    parts: list[type[BaseModel]] = [*Config.__subclasses__(), NetworkConfig, Augmentation]
    near = get_close_matches(key, [name for part in parts for name in part.model_fields], n=1)
    return f"unknown key {key!r}" + (f": did you mean {near[0]!r}?" if near else "")


def _with_defaults(content: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The recipe with `stage_defaults` merged below each of its stages."""
    plain = dict(content)
    defaults, stages = plain.pop("stage_defaults", {}), plain.get("stages")
    if not isinstance(defaults, Mapping):
        raise InputError(f"{where}: stage_defaults must be a mapping of what stages share.")
    if isinstance(stages, Mapping):
        plain["stages"] = {
            name: None if stage is None else merge(defaults, stage)
            for name, stage in stages.items()
        }
    return plain


_TAGS = {"steps", "cosine", "rmsprop", "adamw"}  # pydantic's names of alternatives


def write_recipe(recipe: Recipe) -> str:
    """The recipe as YAML, with every value spelled out."""
    plain = recipe.model_dump(mode="json")
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)


def merge(base: Any, changes: Any) -> Any:
    """`changes` on top of `base`: mappings merge key by key, anything else is replaced.

    A mapping that names its `kind` (an optimiser, a schedule) replaces the old one as a whole. One
    that changes a named augmentation keeps the rest of it.

    >>> merge({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}})
    {'a': {'b': 3, 'c': 2}}
    >>> merge({"augmentation": "A"}, {"augmentation": {"flip": 0.5}})
    {'augmentation': {'recipe': 'A', 'flip': 0.5}}
    """
    if not (isinstance(base, Mapping) and isinstance(changes, Mapping)) or "kind" in changes:
        return changes
    merged = dict(base)
    for key, value in changes.items():
        old = base.get(key)
        if key == "augmentation" and isinstance(old, str):
            old = {"recipe": old}
        merged[key] = merge(old, value)
    return merged


def changed_settings(old: Any, new: Any, place: str = "") -> list[tuple[str, Any, Any]]:
    """Where two nested mappings differ: (key, old, new).

    >>> changed_settings({"a": {"b": 1}, "c": 2}, {"a": {"b": 3}, "c": 2})
    [('a.b', 1, 3)]
    """
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [] if old == new else [(place, old, new)]
    changes = []
    for key in dict.fromkeys([*old, *new]):
        inner = f"{place}.{key}" if place else str(key)
        changes += changed_settings(old.get(key), new.get(key), inner)
    return changes


def _read_layers(path: Path, above: tuple[Path, ...]) -> Any:
    if path.resolve() in above:
        raise InputError(f"{path} extends itself: remove the circle.")
    if len(above) >= MAX_LAYERS:
        raise InputError(f"{path} is the {MAX_LAYERS + 1}th recipe in a row: extend fewer.")
    content = parse_yaml(read_text(path), str(path), "recipe")
    if not isinstance(content, dict) or "extends" not in content:
        return content
    base = path.parent / str(content.pop("extends"))
    return merge(_read_layers(base, (*above, path.resolve())), content)
