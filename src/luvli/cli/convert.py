"""`luvli convert`: label files from one format to another."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer


def convert(
    source: Annotated[Path, typer.Argument(help="Label file to read.")],
    target: Annotated[
        Path, typer.Argument(help="Label file to write; its suffix chooses the format.")
    ],
    from_format: Annotated[
        str | None, typer.Option("--from", help="Format of the source, when it cannot be guessed.")
    ] = None,
    to_format: Annotated[
        str | None,
        typer.Option("--to", help="Format of the target: a .json may also be coco or labelme."),
    ] = None,
    to_markup: Annotated[
        str | None,
        typer.Option("--markup", help="Also change the point set, e.g. wflw98 to ibug68."),
    ] = None,
) -> None:
    """Convert landmark labels between pts, json, csv, coco, cvat and labelme.

    Visibility is kept wherever the target can hold it; what it cannot hold is said aloud.

    Example: `luvli convert faces.xml faces.json --to coco`
    """
    from luvli.data.convert import change_markup
    from luvli.data.formats import read_labels, write_labels
    from luvli.errors import LossWarning

    records = read_labels(source, from_format)
    if to_markup is not None:
        records = [change_markup(record, to_markup) for record in records]
    with warnings.catch_warnings(record=True) as losses:
        warnings.simplefilter("always", LossWarning)
        write_labels(target, records, to_format)
    for loss in losses:
        typer.secho(f"luvli: {loss.message}", fg="yellow", err=True)
    typer.echo(f"{len(records)} face{'' if len(records) == 1 else 's'} written to {target}")
