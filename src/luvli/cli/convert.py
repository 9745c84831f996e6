"""`luvli convert`: label files and folders from one format to another."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer


def convert(
    source: Annotated[Path, typer.Argument(help="Label file to read, or a folder of them.")],
    target: Annotated[
        Path,
        typer.Argument(
            help="Label file to write; its suffix chooses the format. A folder for formats with a "
            "file for each face or image (pts, labelme)."
        ),
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
    """Convert landmark labels: pts, json, csv, coco, cvat, labelme, spiga, dlib, hrnet, star, ...

    Visibility is kept wherever the target can hold it; what it cannot hold is said aloud.

    Examples: `luvli convert faces.xml faces.json --to coco`, `luvli convert labels/ faces.csv`,
    `luvli convert faces.csv labels/ --to pts`
    """
    from luvli.data.convert import change_markup, read_label_tree, write_label_tree
    from luvli.errors import LossWarning

    records = read_label_tree(source, from_format)
    if to_markup is not None:
        records = [change_markup(record, to_markup) for record in records]
    with warnings.catch_warnings(record=True) as losses:
        warnings.simplefilter("always", LossWarning)
        write_label_tree(target, records, to_format)
    for sentence in dict.fromkeys(str(loss.message) for loss in losses):
        typer.secho(f"luvli: {sentence}", fg="yellow", err=True)
    typer.echo(f"{len(records)} face{'' if len(records) == 1 else 's'} written to {target}")
