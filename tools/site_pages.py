"""Pages of the documentation that are generated from the package when the site is built.

`mkdocs.yml` names this file as a hook: the model cards, the command line, the keys of recipes and
the data sets are written from what they describe, so they cannot disagree with it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Any, get_args

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pydantic import BaseModel
from pydantic.fields import FieldInfo


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to the site's files."""
    from luvli.models import model_names, read_card

    pages = {f"cards/{name}.md": read_card(name).markdown() for name in model_names()}
    pages |= {"reference/cli.md": cli_page(), "reference/recipe-keys.md": recipe_page()}
    pages["reference/data-sets.md"] = data_sets_page()
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Short code stays in one piece (the style sheet); longer code may break where words end.
    A picture is a link to itself: phones show it small."""

    def mark(found: re.Match[str]) -> str:
        code, kind = found[1], ' class="short"' if len(found[1]) <= 20 else ""
        return f"<code{kind}>{code if kind else breakable.sub(r'<wbr>', code)}</code>"

    breakable = re.compile(r"(?<=[(=_./])(?=.)")
    html = re.sub(r"<code>([^<\n]+)</code>", mark, html)
    return re.sub(r'(<img [^>]*src="([^"]+)"[^>]*>)', r'<a href="\2">\1</a>', html)


def cli_page() -> str:
    """Every verb of the command line with its arguments and options."""
    from typer.main import get_command

    from luvli.cli import app

    parts = ["# Command line", "`luvli VERB --help` prints the same in the terminal."]
    for name, command in _commands("luvli", get_command(app)):
        parts += [f"## {name}", _paragraphs(command.help or "")]
        rows = [_option(parameter) for parameter in command.params if parameter.name != "help"]
        if rows:
            parts.append("\n".join(["| option | meaning | default |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _commands(name: str, group: Any) -> Iterator[tuple[str, Any]]:
    """(full name, command) of every verb, those of groups after each other."""
    for verb, command in group.commands.items():
        if getattr(command, "commands", None):
            yield from _commands(f"{name} {verb}", command)
        elif not command.hidden:
            yield f"{name} {verb}", command


def _paragraphs(text: str) -> str:
    return textwrap.dedent(text.replace("\b", "")).strip()


def _option(parameter: Any) -> str:
    is_option = str(parameter.opts[0]).startswith("-")
    names = ", ".join(f"`{word}`" for word in parameter.opts) if is_option else parameter.name
    default = parameter.default
    default = ", ".join(default) if isinstance(default, list) else default
    shown = "" if default in (None, (), False) or callable(default) or not is_option else default
    return f"| {names} | {_cell(parameter.help or '')} | {_cell(str(shown))} |"


def data_sets_page() -> str:
    """Every data set that can be read: its name, size, parts, licence and layout on disk."""
    from luvli.data.sets import SETS

    parts = [
        "# The data sets in a table",
        "The public data sets that can be read, and your own. [Data sets](../data.md) says what to "
        "know about each. 68/30 means that 30 of the 68 landmarks are labelled.",
        "| name | data set | train | test | points | licence |\n|---|---|---|---|---|---|",
    ]
    for info in SETS.values():
        cells = (f"`{info.name}`", info.title, *info.table[:3], info.licence)
        parts[-1] += f"\n| {' | '.join(cells)} |"
    parts += ["## Layout and parts"]
    for info in SETS.values():
        protocols = info.protocols if len(info.protocols) > 1 else ()
        names = dict.fromkeys((*protocols, *info.splits, *info.subsets))
        layout = re.sub(r"([*_])", r"\\\1", info.layout).replace("<", "&lt;")
        named = ", ".join(f"`{name}`" for name in names)
        parts.append(f"- `{info.name}`: {layout}.<br>Parts: {named}.")
    return "\n\n".join(parts) + "\n"


def recipe_page() -> str:
    """Every key that a recipe may have, from the types that check it."""
    from luvli.training.recipe import Recipe

    parts = [
        "# Keys of a recipe",
        "A recipe is a YAML file with these keys; `luvli recipes show quick` prints one. "
        "`--set stages.luvli.epochs=10` changes one of them for a run.",
    ]
    for title, model in _models("recipe", Recipe):
        rows = [_field(name, field) for name, field in model.model_fields.items()]
        parts += [f"## {title}", "\n".join(["| key | default | meaning |", "|---|---|---|", *rows])]
    return "\n\n".join(parts) + "\n"


def _models(title: str, model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """The model and those inside it, each once."""
    queue, seen = [(title, model)], set()
    while queue:
        title, model = queue.pop(0)
        if model in seen:
            continue
        seen.add(model)
        yield title, model
        for name, field in model.model_fields.items():
            queue += [
                (f"{name}: {inner.__name__}", inner) for inner in _inner_models(field.annotation)
            ]


def _inner_models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type):
        return [annotation] if issubclass(annotation, BaseModel) else []
    return [model for part in get_args(annotation) for model in _inner_models(part)]


def _field(name: str, field: FieldInfo) -> str:
    default = "required" if field.is_required() else field.get_default(call_default_factory=True)
    shown = "its own defaults" if isinstance(default, BaseModel) else default
    return f"| `{name}` | {_cell(str(shown))} | {_cell(field.description or '')} |"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")
