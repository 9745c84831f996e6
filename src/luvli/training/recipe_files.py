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
from luvli.data.formats.checked import parse_yaml
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
    name = path.as_posix().removesuffix(".yaml").removeprefix("recipes/")
    if name in recipe_names():
        return folder / f"{name}.yaml"
    if path.suffix in (".yaml", ".yml"):
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
    content, place = _read_layers(source), str(source)
    if not isinstance(content, dict):
        make_recipe(content, place)  # says that it is none
    if overrides:  # is --set to blame, or is the recipe wrong without it?
        with contextlib.suppress(InputError):
            make_recipe(content, place)
            place = "--set"
    for override in overrides:
        keys, value = parse_override(override)
        if missing := missing_part(keys, value, content):
            raise missing
        for key in reversed(keys):
            value = {key: value}
        content = merge(content, value)
    recipe = make_recipe(content, place)
    if not skip_bad:
        return recipe
    plain = recipe.model_dump(exclude_unset=True)
    for part in ("sources", "validation"):
        for settings in plain["data"].get(part, {}).values():
            settings["skip_bad"] = True
    return make_recipe(plain, place)


def parse_override(override: str) -> tuple[list[str], Any]:
    """`stages.luvli.epochs=3` -> the keys and the value."""
    key, sign, value = override.partition("=")
    if not sign or not key:
        raise InputError(f"--set {override} is not key=value: write for instance seed=1.")
    return key.split("."), parse_yaml(value, f"--set {key}", "recipe")


def missing_part(keys: Sequence[str], value: Any, content: Any) -> InputError | None:
    """The error of an override that changes or removes a stage or source that is not there."""
    kind, name, rest = "stage", keys[1:2], keys[2:]
    known = content.get("stages")
    if list(keys[:2]) == ["data", "sources"]:
        kind, name, rest = "source", keys[2:3], keys[3:]
        known = (content.get("data") or {}).get("sources")
    elif keys[0] != "stages":
        return None
    if not name or name[0] in (known or {}) or not (rest or value is None):
        return None
    return unknown_choice(kind, name[0], list(known or {}))


def make_recipe(content: Any, where: str) -> Recipe:
    """A recipe from plain values, or one sentence about the first thing wrong with them."""
    if not isinstance(content, Mapping):
        raise InputError(f"{where} is not a recipe: it must be a mapping with name and stages.")
    content = dict(content)
    defaults, stages = content.pop("stage_defaults", {}), content.get("stages")
    if not isinstance(defaults, Mapping):
        raise InputError(f"{where}: stage_defaults must be a mapping of what stages share.")
    if isinstance(stages, Mapping):
        content["stages"] = {
            name: stage and merge(defaults, stage) for name, stage in stages.items()
        }
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{where}: {_first_problem(error)}") from error


def _first_problem(error: ValidationError) -> str:
    """What is wrong first, and at which key; an unknown key may be the cause of the rest."""
    problems = error.errors()
    unknown = (problem for problem in problems if problem["type"] == "extra_forbidden")
    first = next(unknown, problems[0])
    place = [str(part) for part in first["loc"] if part not in _TAGS]
    message = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    if first["type"] == "extra_forbidden":
        message = _unknown_key(place.pop())
    elif not str(first["type"]).startswith(("value_error", "missing")):
        message += f", got {brief(ValueError(repr(first['input'])))}"
    end = "" if message.endswith("?") else "."
    return ": ".join([*filter(None, [".".join(place)]), message]) + end


_TAGS = {"steps", "cosine", "rmsprop", "adamw"}  # pydantic's names of alternatives


def _unknown_key(key: str) -> str:
    """The sentence for a key that does not exist, with the nearest one that does.

    >>> _unknown_key("epoch")
    "unknown key 'epoch': did you mean 'epochs'?"
    """
    parts: list[type[BaseModel]] = [*Config.__subclasses__(), NetworkConfig, Augmentation]
    near = get_close_matches(key, [name for part in parts for name in part.model_fields], n=1)
    return f"unknown key {key!r}" + (f": did you mean {near[0]!r}?" if near else "")


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


def _read_layers(path: Path, depth: int = 0) -> Any:
    """The content of a file, on top of what it extends."""
    if depth > MAX_LAYERS:
        raise InputError(
            f"{path} extends itself, or more than {MAX_LAYERS} recipes in a row: extend fewer."
        )
    content = parse_yaml(read_text(path), str(path), "recipe")
    if not isinstance(content, dict) or "extends" not in content:
        return content
    base = path.parent / str(content.pop("extends"))
    return merge(_read_layers(base, depth + 1), content)
