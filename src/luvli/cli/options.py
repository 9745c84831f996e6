"""Options that several verbs have, written once, and the class of the verbs.

    def show(name: SetName, root: SetFolder, skip_bad: SkipBad = False) -> None: ...

A verb that needs a new option takes one from here or writes it in its own module; MAX_OPTIONS in
`tests/cli/test_app.py` limits them all. A part of a data set is named with it: `w300/split2`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup

SetName = Annotated[
    str,
    typer.Argument(
        help="Data set (`luvli data list`), or a part of one: merl_rav/test/profile. By default "
        "its first split."
    ),
]
Split = Annotated[
    str | None, typer.Option(help="Split of the set, as if named with it: train, test, ...")
]
Protocol = Annotated[
    str | None, typer.Option(help="Protocol of the set, as if named with it: split2 of w300, ...")
]
SetFolder = Annotated[Path, typer.Argument(help="The folder of the data set (docs/data.md).")]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out faces with damaged images or labels.")
]
Limit = Annotated[int | None, typer.Option(min=1, help="Only so many faces, to try it out.")]
ModelName = Annotated[str, typer.Option(help="A shipped model's name, or a model file.")]
Engine = Annotated[
    Literal["local", "ray"],
    typer.Option(help="ray: on the cluster at RAY_ADDRESS, or on one of this machine's cores."),
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a value of the recipe: key=value, may be repeated."),
]
Modules = Annotated[
    list[str] | None,
    typer.Option("--import", help="Python module that registers trunks or losses."),
]
Precision = Annotated[
    str, typer.Option(help="32-true, or bf16-mixed or 16-mixed where the hardware has it.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Normalizer = Annotated[str, typer.Option(help="box, interocular, interpupil or diagonal.")]
Seed = Annotated[int, typer.Option(min=0, help="Equal seeds choose or make equal faces.")]


def set_part(name: str, *parts: str | None) -> str:
    """The data set with the parts that options name: `w300` and `split2` -> `w300/split2`."""
    return "/".join([name, *(part for part in parts if part)])


def refuse(options: dict[str, Any], why: str) -> None:
    """Options that do not fit together are refused, not ignored."""
    from luvli.errors import InputError

    for name, value in options.items():
        if value is not None and value is not False:
            raise InputError(f"{name} cannot be used here, {why}: leave it out.")


def _without_type(params: list[Any]) -> list[Any]:
    """Flags take no value: their help has no type beside them."""
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_type(super().get_params(ctx))


class Group(TyperGroup):
    """A verb with verbs below it."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_type(super().get_params(ctx))


class Verbs(typer.Typer):
    """`typer.Typer` whose help names no type beside flags."""

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
