"""Options that several verbs have, written once, and the class of the verbs.

    def show(name: str = SET_NAME, root: Path = SET_FOLDER, skip_bad: bool = SKIP_BAD) -> None: ...

A verb that needs a new option takes one from here or writes it in its own module; MAX_OPTIONS in
`tests/cli/test_app.py` limits them all. A part of a data set is named with it: `w300/split2`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import typer
from typer import Argument, Option
from typer.core import TyperCommand, TyperGroup

from luvli.errors import InputError

SET_NAME: str = Argument(
    help="Data set (`luvli data list`), or a part of one: merl_rav/test/profile. By default its "
    "first split."
)
SET_FOLDER: Path = Argument(help="The folder of the data set (docs/data.md).")
SKIP_BAD: bool = Option(False, "--skip-bad", help="Leave out faces with damaged images or labels.")
MODEL: str = Option("luvli-68", help="A shipped model's name, or a model file.")
Engine = Literal["local", "ray"]
ENGINE: Engine = Option(
    "local", help="ray: on the cluster at RAY_ADDRESS, or on one of this machine's cores."
)
CHANGES: list[str] = Option(
    [], "--set", help="Change a value of the recipe: key=value, may be repeated."
)


def refuse(options: dict[str, Any], why: str) -> None:
    """Options that do not fit together are refused, not ignored."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise InputError(f"{name} cannot be used here, {why}: leave it out.")


def _without_types(params: list[Any]) -> list[Any]:
    """Flags take no value: their help has no type beside them."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class Group(TyperGroup):
    """A verb with verbs below it."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class Verbs(typer.Typer):
    """The program, or a verb with verbs below it."""

    def __init__(self, cls: type[TyperGroup] = Group, **settings: Any) -> None:
        super().__init__(
            cls=cls,
            no_args_is_help=True,
            rich_markup_mode="markdown",
            pretty_exceptions_show_locals=False,
            **settings,
        )

    def command(  # type: ignore[override]
        self, name: str | None = None, **settings: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        return super().command(name, cls=_Command, **settings)
