"""The recipes that come with the package, by name: `quick`, `own-faces`, `paper/table1-...`."""

from __future__ import annotations

import re
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path

from luvli.errors import InputError
from luvli.files import PathLike

FOLDERS = (
    Path(__file__).parents[1] / "recipes",  # in a wheel
    Path(__file__).parents[3] / "recipes",  # in a clone
)


FIRST = ("quick", "own-faces")
"""what newcomers look for"""


def recipe_folder() -> Path | None:
    """Where the recipes lie; None where they were left out."""
    return next((folder for folder in FOLDERS if (folder / "quick.yaml").is_file()), None)


def recipe_names() -> list[str]:
    """All recipes, by path without suffix: those for newcomers first, then our models, then
    the paper's, which are many.

    >>> "quick" in recipe_names()
    True
    """
    folder = recipe_folder()
    if folder is None:
        return []
    found = folder.rglob("*.yaml")
    names = [path.relative_to(folder).with_suffix("").as_posix() for path in found]
    return sorted(names, key=lambda name: (name not in FIRST, "/" in name, name))


def find_recipe(name_or_path: PathLike) -> Path:
    """A recipe's file, from its path or from its name; a path wins where there is such a file.

    `recipes/quick.yaml` also reads as the name `quick` where that file is not there.
    """
    path = Path(name_or_path)
    folder = recipe_folder()
    if path.is_file() or folder is None:
        return path
    name = path.with_suffix("").as_posix().removeprefix("recipes/")
    shipped = folder / f"{name}.yaml"
    if name in recipe_names():
        return shipped
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
