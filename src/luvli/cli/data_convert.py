"""`luvli data convert`: labels from one format to another."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from luvli.cli.options import SkipBad


def convert(
    source: Annotated[
        Path, typer.Argument(help="Label file or folder of them; with --set the data set's folder.")
    ],
    target: Annotated[
        Path,
        typer.Argument(
            help="Label file to write; its suffix chooses the format. A folder for formats with a "
            "file for each face or image (pts, labelme) and for parquet."
        ),
    ],
    data_set: Annotated[
        str | None, typer.Option("--set", help="Read this data set, or a part: wflw/test.")
    ] = None,
    labels_only: Annotated[
        bool, typer.Option("--labels-only", help="Of a set without its images.")
    ] = False,
    skip_bad: SkipBad = False,
    from_format: Annotated[
        str | None, typer.Option("--from", help="Format of the source, when it cannot be guessed.")
    ] = None,
    to_format: Annotated[
        str | None,
        typer.Option("--to", help="pts, json, csv, coco, cvat, labelme, spiga, dlib, hrnet, star, "
                                  "wflw, cofw68, or parquet (images inside)."),
    ] = None,
    markup: Annotated[
        str | None, typer.Option(help="Also change the point set, e.g. wflw98 to ibug68.")
    ] = None,
) -> None:  # fmt: skip
    """Convert landmark labels, of files or of a whole data set.

    Visibility is kept wherever the target can hold it; what it cannot hold is said aloud.

    Examples: `luvli data convert faces.xml faces.json --to coco`,
    `luvli data convert data/wflw wflw-test.json --set wflw/test --to coco`
    """
    from luvli.data.convert import change_markup, read_label_tree, write_label_tree
    from luvli.data.sets import load_set
    from luvli.errors import LossWarning

    records = (
        read_label_tree(source, from_format)
        if data_set is None
        else list(load_set(data_set, source, skip_bad=skip_bad, images=not labels_only))
    )
    if markup is not None:
        records = [change_markup(record, markup) for record in records]
    with warnings.catch_warnings():
        warnings.simplefilter("default", LossWarning)  # each sentence once
        write_label_tree(target, records, to_format)
    typer.echo(f"{len(records):,} face{'' if len(records) == 1 else 's'} written to {target}")
